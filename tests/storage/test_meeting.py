"""Where processes meet: a lock that dies with its owner, small files that grow old, and no error ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from spark_eos.storage import MemoryStore, PosixStore
from spark_eos.storage.group_channel import ANNOUNCED, FRESH_S, FileMeeting, meeting_on_this_machine

HOLD = """
import sys
from spark_eos.storage.group_channel import FileMeeting
meeting = FileMeeting(sys.argv[1])
print(meeting.take_lead(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "meeting"


@pytest.fixture
def pair(folder):
    one, other = FileMeeting(folder), FileMeeting(folder)
    one.take_lead()
    one.leave()
    return one, other


def test_one_leads_until_it_leaves(pair):
    one, other = pair
    assert one.take_lead()
    assert one.take_lead(), "it has the lead already"
    assert not other.take_lead()
    other.leave()
    assert not other.take_lead(), "who does not lead cannot end it"
    one.leave()
    assert other.take_lead()


def test_who_takes_the_lead_is_heard_by_the_others(pair, folder):
    one, other = pair
    os.utime(folder / "lead", (1000, 1000))
    assert not other.led(), "that was long ago"
    one.take_lead()
    first = other.led()
    assert first
    assert not one.led(), "it is the one itself"
    assert other.led() == first, "once"
    os.utime(folder / "lead", ns=(0, first - 5_000_000))
    one.take_lead()
    assert other.led() not in (0, first - 5_000_000), "and once more"
    assert not FileMeeting(folder / "nowhere").led()


def test_the_lead_of_a_dead_process_is_free(folder):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "True\n"
        meeting = FileMeeting(folder)
        assert not meeting.take_lead()
    finally:
        holder.kill()
        holder.communicate()
    assert meeting.take_lead()


def test_a_child_has_a_place_of_its_own(pair):
    one, other = pair
    one.take_lead()
    one.hand_over(b"mine")
    child = os.fork()
    if not child:
        seen = not one.take_lead() and list(one.handed_over()) == [b"mine"]
        os._exit(0 if seen else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not other.take_lead()


def test_what_is_handed_over_is_found_by_the_others(pair):
    one, other = pair
    assert one.hand_over(b"a request")
    assert list(other.handed_over()) == [b"a request"]
    assert list(one.handed_over()) == [], "one's own is no news"
    assert one.hand_over(b"another")
    assert list(other.handed_over()) == [b"another"], "in the place of the first"
    assert one.take_back()
    assert list(other.handed_over()) == []
    assert one.take_back(), "there is nothing to be found"


def test_what_the_dead_have_handed_over_grows_old(pair, folder):
    one, other = pair
    one.hand_over(b"old")
    (file,) = folder.glob("request-*")
    os.utime(file, (0, file.stat().st_mtime - 2 * FRESH_S))
    assert list(other.handed_over()) == []
    assert not file.exists()


def test_the_newest_entries_are_announced(pair):
    one, other = pair
    count = 2 * ANNOUNCED
    for seq in range(count):
        one.announce(seq, b"%d" % seq)
    newest = range(count - ANNOUNCED, count)
    assert [other.announced(seq) for seq in newest] == [b"%d" % seq for seq in newest]
    assert other.announced(3) == b"", "it is there, for newer ones are"
    assert other.announced(count) is None


def test_an_announcement_is_heard_by_who_asked_for_it_before(pair):
    one, other = pair
    for seq in range(2 * ANNOUNCED):
        assert other.announced(seq) is None
        assert other.announced(seq) is None
        one.announce(seq, b"%d" % seq)
        assert other.announced(seq) == b"%d" % seq


def test_an_old_announcement_is_not_believed(pair, folder):
    """The folder may have been put back from a copy since."""
    one, other = pair
    one.announce(1, b"entry")
    file = folder / "entry-1"
    os.utime(file, (0, file.stat().st_mtime - 2 * FRESH_S))
    assert other.announced(1) is None
    file.write_bytes(b"cut")
    assert other.announced(1) is None


def test_where_nobody_can_meet_everybody_leads(tmp_path):
    (tmp_path / "file").touch()
    meeting = FileMeeting(tmp_path / "file" / "meeting")
    assert meeting.take_lead()
    assert not meeting.hand_over(b"x")
    meeting.announce(1, b"x")
    assert meeting.announced(1) is None
    assert list(meeting.handed_over()) == []
    meeting.leave()


def test_which_stores_have_one(tmp_path):
    assert MemoryStore().meeting("a") is None
    store = PosixStore(tmp_path)
    one, other = store.meeting("log"), PosixStore(tmp_path).meeting("log")
    assert one.take_lead()
    assert not other.take_lead()
    assert store.meeting("another log").take_lead()
    assert not list(store.list("")), "what is in it are no objects"
    store.discard_leftovers(0)
    assert not other.take_lead()


def test_far_away_stores_have_one_on_each_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = (meeting_on_this_machine("s3://bucket/log", "id") for _ in range(2))
    assert one.take_lead()
    assert not other.take_lead()
    for url, name in (("s3://bucket/other", "id"), ("s3://bucket/log", "other")):
        assert meeting_on_this_machine(url, name).take_lead()
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spoil", ["open", "link", "file"])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch, spoil):
    """Whoever can write an announcement could make others believe what is in no log."""
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
    assert meeting_on_this_machine("s3://bucket/log", "id") is None


@pytest.mark.parametrize("off_s", [73 * 365 * 86_400, -50 * 365 * 86_400])
def test_a_leader_whose_clock_is_years_off_takes_along_what_others_hand_over(tmp_path, monkeypatch, off_s):
    """The file system's clock says what is fresh; what is not would be deleted under its owner."""
    leader, other = FileMeeting(tmp_path), FileMeeting(tmp_path)
    assert other.take_lead()
    other.leave()
    assert other.hand_over(b"request")
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + off_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + off_s * 10**9)
    assert leader.take_lead()
    assert [*leader.handed_over()] == [b"request"]
    leader.announce(7, b"entry")
    assert other.announced(7) == b"entry"
    assert leader.announced(7) == b"entry"
