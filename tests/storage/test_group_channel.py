"""Where processes meet: a lock that dies with its owner, small files that grow old, and no error ever."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from spark_eos.storage import MemoryStore, PosixStore
from spark_eos.storage.group_channel import (
    ANNOUNCED,
    REOPENED_S,
    SUBMISSION_TTL_S,
    FileGroupChannel,
    local_group_channel,
)
from tests.forking import in_child
from tests.starting import start


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "group-channel"


@pytest.fixture
def pair(folder):
    one, other = FileGroupChannel(folder), FileGroupChannel(folder)
    for channel in (other, one):
        channel.try_lead()
        channel.release_lead()
    return one, other


@pytest.fixture
def one(pair):
    return pair[0]


@pytest.fixture
def other(pair):
    return pair[1]


def make_old(file):
    """Let the file be of a time at which nothing in it is believed any more."""
    os.utime(file, (0, file.stat().st_mtime - 2 * SUBMISSION_TTL_S))


def test_one_leads_until_it_leaves(one, other):
    assert one.try_lead()
    assert one.try_lead(), "it has the lead already"
    assert not other.try_lead()
    other.release_lead()
    assert not other.try_lead(), "who does not lead cannot end it"
    one.release_lead()
    assert other.try_lead()


def test_who_takes_the_lead_is_heard_by_the_others(one, other, folder):
    os.utime(folder / "lead", (1000, 1000))
    assert not other.leader_token(), "that was long ago"
    one.try_lead()
    first = other.leader_token()
    assert first
    assert not one.leader_token(), "it is the one itself"
    assert other.leader_token() == first, "once"
    os.utime(folder / "lead", ns=(0, first - 5_000_000))
    one.try_lead()
    assert other.leader_token() not in (0, first - 5_000_000), "and once more"
    assert not FileGroupChannel(folder / "nowhere").leader_token()


def test_the_lead_of_a_dead_process_is_free(folder):
    holder = start("storage/leads", folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == "True\n"
        group_channel = FileGroupChannel(folder)
        assert not group_channel.try_lead()
    finally:
        holder.kill()
        holder.communicate()
    assert group_channel.try_lead()


def test_a_child_has_a_place_of_its_own(one, other):
    one.try_lead()
    one.submit(b"mine")
    child = os.fork()
    if not child:
        seen = not one.try_lead() and list(one.submissions()) == [b"mine"]
        os._exit(0 if seen else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not other.try_lead()


def test_what_is_handed_over_is_found_by_the_others(one, other):
    assert one.submit(b"a request")
    assert list(other.submissions()) == [b"a request"]
    assert list(one.submissions()) == [], "one's own is no news"
    assert one.submit(b"another")
    assert list(other.submissions()) == [b"another"], "in the place of the first"
    assert one.withdraw()
    assert list(other.submissions()) == []
    assert one.withdraw(), "there is nothing to be found"


def test_what_the_dead_have_handed_over_grows_old(one, other, folder):
    one.submit(b"old")
    (file,) = folder.glob("submission-*")
    make_old(file)
    assert list(other.submissions()) == []
    assert not file.exists()


def test_the_newest_entries_are_announced(one, other):
    count = 2 * ANNOUNCED
    for seq in range(count):
        one.publish(seq, b"%d" % seq)
    newest = range(count - ANNOUNCED, count)
    assert [other.published(seq) for seq in newest] == [b"%d" % seq for seq in newest]
    assert other.published(3) == b"", "it is there, for newer ones are"
    assert other.published(count) is None


def test_an_announcement_is_heard_by_who_asked_for_it_before(one, other):
    for seq in range(2 * ANNOUNCED):
        assert other.published(seq) is None
        assert other.published(seq) is None
        one.publish(seq, b"%d" % seq)
        assert other.published(seq) == b"%d" % seq


def test_an_old_announcement_is_not_believed(one, other, folder):
    """The folder may have been put back from a copy since."""
    one.publish(1, b"entry")
    file = folder / "entry-1"
    make_old(file)
    assert other.published(1) == b"", "the log is read"
    make_old(folder / "newest-entry")
    assert other.published(1) is None
    file.write_bytes(b"cut")
    assert other.published(1) is None


def test_a_process_that_has_missed_an_announcement_reads_the_log(one, other):
    """A process that was slow finds other announcements in the places of those that it waits for."""
    assert other.newest() == -1
    assert other.published(5) is None
    one.publish(5, b"five")
    one.publish(6, b"")
    assert other.newest() == 6
    assert other.published(4) == b"", "it is there, as one is that is not older"
    assert other.published(5) == b"five"
    assert other.published(7) is None
    one.note_entry(9)
    assert other.published(7) == b"", "another machine has created it"
    one.note_entry(3)
    assert other.newest() == 9


def test_what_a_leader_created_is_announced_though_a_later_entry_was(one, other):
    """The log was put back from a copy, and goes on from an earlier entry."""
    one.publish(9, b"")
    one.publish(5, b"")
    assert other.newest() == 5
    assert other.published(6) is None


def test_an_entry_that_was_announced_in_vain_is_announced_once(one, other):
    one.publish(9, b"")
    assert other.published(8) == b""
    other.distrust()
    assert other.published(8) is None
    assert other.newest() == -1
    one.publish(10, b"")
    assert other.published(8) == b""


def test_the_newest_entry_of_long_ago_is_not_believed(one, other, folder):
    one.publish(9, b"")
    make_old(folder / "newest-entry")
    assert other.newest() == -1
    assert other.published(8) is None


def test_a_child_opens_the_file_of_the_newest_entry_for_itself(one, other):
    one.forked()
    assert one.newest() == -1
    one.note_entry(4)
    one.try_lead()
    one.note_entry(5)
    assert other.newest() == 5


def test_what_was_read_from_the_log_is_told_to_the_others(one, other):
    one.relay(4, b"four")
    assert other.published(4) == b"four"


def test_what_leaders_tell_of_outcomes_is_heard(one, other, folder):
    assert other.outcomes() is None
    one.report_outcomes(b"first")
    assert other.outcomes() == b"first"
    for text in (b"second", b"third", b"longer"):
        one.report_outcomes(text)
        assert other.outcomes() == text
    assert other.outcomes() is other.outcomes(), "what is known is not read again"
    make_old(folder / "reported-outcomes")
    time.sleep(2 * REOPENED_S)
    assert other.outcomes() is None, "the folder may have been put back from a copy since"


def test_outcomes_in_a_file_that_was_exchanged_are_heard(one, other, folder):
    one.report_outcomes(b"first")
    assert other.outcomes() == b"first"
    (folder / "reported-outcomes").unlink()
    time.sleep(2 * REOPENED_S)
    assert other.outcomes() is None
    one.report_outcomes(b"second")
    assert other.outcomes() == b"second"


def test_what_is_open_is_closed_with_the_last_reference(folder):
    def opened():
        paths = map(os.path.realpath, Path("/proc/self/fd").iterdir())
        return [path for path in paths if path.startswith(str(folder))]

    channels = [FileGroupChannel(folder)]
    assert channels[0].try_lead()
    for text in (b"first", b"second"):
        channels[0].report_outcomes(text)
        assert channels[0].outcomes() == text
        time.sleep(2 * REOPENED_S)
    assert len(opened()) == 2
    assert in_child(opened) == [], "a child has none of them"
    channels.clear()
    gc.collect()
    assert opened() == []
    assert FileGroupChannel(folder).try_lead(), "the lead of a log that was closed is free"


@pytest.mark.parametrize("size", [9, 5000])
def test_what_is_read_while_it_is_written_does_not_count(one, other, folder, size):
    """A file is written over what was there: a reader may find a part of either."""
    one.report_outcomes(b"a" * size)
    assert other.outcomes() == b"a" * size
    one.submit(b"a" * size)
    one.publish(7, b"")
    for name in ("reported-outcomes", "newest-entry", next(folder.glob("submission-*")).name):
        written = (folder / name).read_bytes()
        (folder / name).write_bytes(written[:12] + b"b" + written[13:])
    assert other.outcomes() == b"a" * size, "the head is that of what is known"
    assert FileGroupChannel(folder).outcomes() is None
    assert list(other.submissions()) == []
    assert other.newest() == -1
    one.report_outcomes(b"c" * size)
    (folder / "reported-outcomes").write_bytes(b"\0" * 8)
    assert other.outcomes() == b"a" * size, "nothing else is known yet"


def test_an_entry_that_was_written_in_part_is_not_announced(one, other, monkeypatch):
    """A full disk takes what fits."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
    one.publish(7, b"more than twenty bytes of an entry")
    assert other.published(7) is None
    assert not one.submit(b"more than twenty bytes of a request"), "no leader can read it"


def test_what_is_no_message_does_not_count(one, other, folder):
    one.report_outcomes(b"first")
    one.submit(b"first")
    for file in (folder / "reported-outcomes", *folder.glob("submission-*")):
        file.write_bytes(b"\xff" * 40)
    assert other.outcomes() is None
    assert list(other.submissions()) == []


def test_what_is_gone_with_its_folder_is_withdrawn(one, folder):
    one.submit(b"a request")
    shutil.rmtree(folder)
    assert one.withdraw()
    assert not one.submit(b"another")


def test_what_can_neither_be_written_over_nor_removed_is_not_withdrawn(one, other, monkeypatch):
    one.submit(b"a request")

    def refuse(*_):
        raise OSError(errno.EIO, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        patch.setattr(os, "unlink", refuse)
        assert not one.withdraw()
    assert list(other.submissions()) == [b"a request"]


def test_a_shorter_message_has_nothing_of_a_longer_one(one, other):
    for text in (b"a" * 9000, b"b" * 20, b"", b"c" * 5000):
        one.submit(text)
        one.report_outcomes(text)
        assert list(other.submissions()) == [text] * bool(text)
        assert other.outcomes() == (text or b"b" * 20)


def test_a_process_that_ends_leaves_no_file(nursery, folder):
    """Nor does a child of it take the file away."""
    said = nursery.run("storage/submits_and_forks", folder)
    assert said.stdout.split() == ["True", "1"]
    assert not list(folder.glob("submission-*"))


def test_where_nobody_can_meet_everybody_leads(tmp_path):
    (tmp_path / "file").touch()
    group_channel = FileGroupChannel(tmp_path / "file" / "group-channel")
    assert group_channel.try_lead()
    assert not group_channel.submit(b"x")
    group_channel.publish(1, b"x")
    assert group_channel.published(1) is None
    assert list(group_channel.submissions()) == []
    group_channel.report_outcomes(b"x")
    assert group_channel.outcomes() is None
    group_channel.release_lead()


def test_which_stores_have_one(tmp_path):
    assert MemoryStore().group_channel("a") is None
    store = PosixStore(tmp_path)
    one, other = store.group_channel("log"), PosixStore(tmp_path).group_channel("log")
    assert one.try_lead()
    assert not other.try_lead()
    assert store.group_channel("another log").try_lead()
    assert not list(store.list("")), "what is in it are no objects"
    store.discard_leftovers(0)
    assert not other.try_lead()


def test_far_away_stores_have_one_on_each_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = (local_group_channel("s3://bucket/log", "id") for _ in range(2))
    assert one.try_lead()
    assert not other.try_lead()
    for url, name in (("s3://bucket/other", "id"), ("s3://bucket/log", "other")):
        assert local_group_channel(url, name).try_lead()
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spoil", ["open", "link", "file"])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch, spoil):
    """A process that can write an announcement could make others believe what is in no log."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"spark_eos-{os.getuid()}"
    if spoil == "open":
        folder.mkdir()
        folder.chmod(0o770)
    elif spoil == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.touch()
    assert local_group_channel("s3://bucket/log", "id") is None


@pytest.mark.parametrize("off_s", [73 * 365 * 86_400, -50 * 365 * 86_400])
def test_a_leader_whose_clock_is_years_off_takes_along_what_others_hand_over(tmp_path, monkeypatch, off_s):
    """The file system's clock says what is fresh; what is not would be deleted under its owner."""
    leader, other = FileGroupChannel(tmp_path), FileGroupChannel(tmp_path)
    assert other.try_lead()
    other.release_lead()
    assert other.submit(b"request")
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + off_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + off_s * 10**9)
    assert leader.try_lead()
    assert [*leader.submissions()] == [b"request"]
    leader.publish(7, b"entry")
    assert other.published(7) == b"entry"
    assert leader.published(7) == b"entry"
