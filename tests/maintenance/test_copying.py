"""A copy of a log is one of its states, whatever goes on in the log and whenever the copy is stopped."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import uuid
from itertools import count

import pytest

from spark_eos import Admin
from spark_eos.cli.command import main
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    LogExistsError,
    NotALogError,
    RetriableError,
)
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance import copying
from spark_eos.maintenance.copying import MARK, PLAN, copy_log
from spark_eos.maintenance.reachability import data_sizes
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.starting import start
from verification.retiring import RETIRED_AT_ONCE

from .world import Watched, append, created, grown, listed, roll, values

pytestmark = pytest.mark.usefixtures("small_pages")


def store():
    made = MemoryStore()
    made.url = f"memory://{uuid.uuid4().hex}"
    return made


def copied(source, target=None, **options):
    """The copy, opened; verification found nothing at all in it."""
    target = target or store()
    found = []
    assert copy_log(source, target, found.append, **options).verified.is_sound
    assert found == []
    return Log.open(target)


def findings(target, **options):
    found = []
    verify(target, found.append, **options)
    return found


def test_a_copy_has_the_state_and_the_records_and_nothing_else():
    log = grown()
    copy = copied(log.store)
    assert (copy.log_id, copy.state.seq) == (log.log_id, log.state.seq)
    assert values(copy) == values(log) == [*range(26)]
    assert newest_snapshot(copy.store) is not None
    assert MARK not in listed(copy, "")
    summary = verify(copy.store, lambda _: None)
    assert (summary.unreferenced_files, summary.unreferenced_index_pages) == (0, 0)
    assert verify(log.store, lambda _: None).unreferenced_files > 0


def test_a_process_that_opens_the_copy_while_it_is_finished_sees_all_of_it():
    """It has seen that there is no snapshot; then snapshot and entry 0 come, and no entry between them."""
    log, target = grown(), FaultyStore(store())

    def after(operation, _name):
        if operation == "list":
            target.after = lambda *_: None
            copied(log.store, target.inner)

    target.after = after
    opened = Log.open(target)
    assert opened.state.seq == log.state.seq
    append(opened, 26)
    assert values(Log.open(target)) == [*range(27)]


def test_a_copy_goes_on_like_any_log():
    log = grown()
    copy = copied(log.store)
    append(copy, *range(100, 120))
    assert values(copy) == [*range(26), *range(100, 120)]
    assert verify(copy.store, lambda _: None).is_sound
    assert values(log) == [*range(26)]


def test_a_log_without_snapshots():
    log = created(MemoryStore(), snapshot_interval=1000)
    append(log, 1, 2, 3)
    assert values(copied(log.store)) == [1, 2, 3]


def test_large_files_are_copied_in_parts(monkeypatch):
    monkeypatch.setattr(copying, "_PART", 100)
    log = grown()
    assert values(copied(log.store)) == [*range(26)]


def test_a_large_file_whose_upload_meets_its_own_object_is_copied(monkeypatch):
    """A reply was lost, and the request sent again; or another process makes the same copy."""
    monkeypatch.setattr(copying, "_PART", 100)
    log, target = grown(), FaultyStore(store())
    target.inject(Fault.DUPLICATE, "upload", "data/*", times=2)
    assert values(copied(log.store, target)) == [*range(26)]
    assert target.count("upload") > 2


def test_what_a_vacuum_removes_meanwhile_is_copied_as_the_log_has_it_by_then():
    log = grown()
    todo = [True]

    def disturb(operation, name):
        if operation == "read" and name.startswith(paths.DATA) and todo:
            todo.clear()
            roll(log)
            append(log, *range(26, 30))
            for one in range(2):
                log.clock.now += 10 * 86_400
                Vacuum(log, min_age_s=0).run()
                append(log, 30 + one)

    before = listed(log, paths.DATA)
    copy = copied(Watched(log.store, disturb))
    assert not {*before} <= {*listed(log, paths.DATA)}, "files went meanwhile"
    assert values(copy) == values(log) == [*range(32)]


def test_entries_that_are_retired_meanwhile():
    """The entries of the fixed state are held until the end: by then the log may have emptied them."""
    log = grown()
    todo = [True]

    def disturb(operation, name):
        if operation == "read" and name.startswith(paths.DATA) and todo:
            todo.clear()
            append(log, *range(26, 60))

    first = log.state.seq
    copy = copied(Watched(log.store, disturb))
    assert not log.store.size(paths.entry(first)), "retired"
    assert copy.state.seq == first
    assert values(copy) == [*range(26)]


class StoppedError(BaseException):
    """As a kill."""


@pytest.mark.deep
@pytest.mark.parametrize("grows", [False, True], ids=["same", "grown"])
def test_stopped_before_any_operation_it_is_no_log_yet_and_the_same_call_goes_on(grows):
    for stop in count():
        log = grown()
        target, left = store(), [stop]

        def tick(operation, _name, left=left):
            if operation in {"create", "upload", "delete"}:
                left[0] -= 1
                if left[0] < 0:
                    raise StoppedError

        try:
            copy_log(log.store, Watched(target, tick), lambda _: None)
        except StoppedError:
            pass
        else:
            break
        if grows:
            append(log, *range(26, 40))
        try:
            half = Log.open(target)
        except NotALogError:
            half = None
        else:
            assert values(half) == [*range(26)], "what can be opened is complete"
        is_planned = PLAN in {info.name for info in target.list("")}
        copy = copied(log.store, target)
        assert values(copy) == (values(log) if half is None and not is_planned else [*range(26)])
        assert not {MARK, PLAN} & {*listed(copy, "")}
    assert stop > 30


def test_a_copy_that_is_used_before_it_has_entry_0_is_finished():
    """Stopped after the snapshot. From then on it can be opened, and written to."""
    log, target = grown(), store()

    def tick(operation, name):
        if operation == "create" and name == paths.entry(0):
            raise StoppedError

    with pytest.raises(StoppedError):
        copy_log(log.store, Watched(target, tick), lambda _: None)
    used = Log.open(target)
    assert used.state.seq == log.state.seq
    append(used, *range(26, 40))
    assert copy_log(log.store, target, lambda _: None).verified.is_sound
    copy = Log.open(target)
    assert values(copy) == [*range(40)]
    assert not {MARK, PLAN} & {*listed(copy, "")}
    assert target.size(paths.entry(0))


def test_what_is_in_the_way_is_refused_before_anything_is_written():
    log, other = grown(), grown(3)
    target = store()
    target.create("photos/one.jpg", b"x")
    with pytest.raises(NotALogError, match=r"not empty.*photos/one\.jpg"):
        copy_log(log.store, target, print)
    with pytest.raises(LogExistsError, match="holds a log already"):
        copy_log(log.store, copied(other.store).store, print)
    unfinished = store()
    unfinished.create(MARK, b'{"log_id": "another"}')
    with pytest.raises(LogExistsError, match="unfinished copy of another log"):
        copy_log(log.store, unfinished, print)
    with pytest.raises(NotALogError, match="is not a log"):
        copy_log(store(), target, print)
    assert [info.name for info in target.list("")] == ["photos/one.jpg"]


@pytest.mark.parametrize("inside", ["", "/backup", "/../log/backup"])
def test_a_copy_does_not_lie_in_its_log(log_url, inside):
    Log.create(log_url)
    with pytest.raises(ConfigError, match="in one another"):
        copy_log(log_url, log_url + inside, print)


def test_damage_of_the_log_is_named_and_nothing_becomes_a_log():
    log = grown()
    needed = {
        row.file.name for row in log.state.partitions[log.topic("t").topic_id, 0].index.tail if row.file
    }
    lost = min(needed)
    log.store.delete(lost)
    target, looks = store(), []

    def write_on(_, name):
        if name == lost:
            looks.append(name)
            assert len(looks) < 9, "it goes on for as long as the log is in use"
            append(log, len(looks))

    with pytest.raises(CorruptRecordError, match=rf"{lost}.*eoslog verify"):
        copy_log(Watched(log.store, write_on), target, print)
    with pytest.raises(NotALogError):
        Log.open(target)


def test_a_file_that_was_cut_off_is_named_and_nothing_becomes_a_log():
    log = grown()
    name, size = min(data_sizes(log.state, log.load).items())
    whole = log.store.read(name)
    log.store.delete(name)
    log.store.create(name, whole[:-8])
    target = store()
    with pytest.raises(CorruptRecordError, match=f"{name} has {size - 8} bytes, not {size}: the log itself"):
        copy_log(log.store, target, print)
    with pytest.raises(NotALogError):
        Log.open(target)


def test_a_log_that_is_replaced_while_it_is_copied():
    log, other = grown(), grown(name=b"z")
    names = [info.name for info in log.store.list("")]

    def replace(_, name):
        if name.startswith(paths.DATA) and names:
            while names:
                log.store.delete(names.pop())
            for info in other.store.list(""):
                log.store.create(info.name, other.store.read(info.name))

    target = store()
    with pytest.raises(NotALogError, match=f"does not hold log {log.log_id} any more"):
        copy_log(Watched(log.store, replace), target, print)
    with pytest.raises(NotALogError):
        Log.open(target)


def test_a_copy_that_is_not_sound_is_an_error():
    log = grown()
    target = store()

    def spoil(operation, name):
        if name == paths.entry(0) and operation == "create":
            target.delete(listed(Log(target), paths.DATA)[0])

    with pytest.raises(CorruptRecordError, match="is not sound"):
        copy_log(log.store, Watched(target, spoil), lambda _: None)


# -- Broken copies ----------------------------------------------------------------------------------------


def test_verify_says_that_data_was_copied_before_the_log(tmp_path):
    log = Log.create(tmp_path / "log")
    for topic in ("t", "u"):
        log.ensure_topic(topic)
        append(log, 1, 2, topic=topic)
    shutil.copytree(tmp_path / "log/data", tmp_path / "copy/data")
    append(log, 3, 4)
    shutil.copytree(tmp_path / "log/_log", tmp_path / "copy/_log")
    *missing, last = findings(tmp_path / "copy", quick=True)
    assert [one.verdict for one in missing] == [Verdict.WRONG] * 2
    assert last.verdict is Verdict.NOTE
    assert "2 data files" in last.text
    assert "whose data/ was copied before its _log/" in last.text
    assert "eoslog copy LOG DESTINATION" in last.remedy
    # What the remedy says is so.
    shutil.copytree(tmp_path / "log/data", tmp_path / "copy/data", dirs_exist_ok=True)
    assert findings(tmp_path / "copy") == []


def test_verify_explains_nothing_where_an_older_file_is_missing():
    log = created(MemoryStore(), snapshot_interval=1000)
    append(log, 1, 2, 3)
    log.store.delete(listed(log, paths.DATA)[1])
    assert [one.verdict for one in findings(log.store)] == [Verdict.WRONG]
    log.ensure_topic("u")
    append(log, 4, 5, topic="u")
    log.store.delete(listed(log, f"{paths.DATA}u-")[1])  # Of this one it is the newest.
    assert [one.verdict for one in findings(log.store)] == [Verdict.WRONG] * 2


def test_verify_says_that_the_data_was_not_copied():
    log = created(MemoryStore(), snapshot_interval=1000)
    append(log, 1, 2, 3)
    for name in listed(log, paths.DATA):
        log.store.delete(name)
    assert "data/ was not copied" in findings(log.store)[-1].text


# -- Other processes, other stores, the command -----------------------------------------------------------


def test_copies_of_a_log_that_processes_write_to_and_maintain(log_url, tmp_path, capsys):
    log = Log.create(log_url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    for topic in ("t", "u"):
        Admin(log).create_topic(topic, config={"file.delete.delay.ms": 0})
    writer = "maintenance/writes_to_two_topics"
    running = [start(writer, log_url, "a", stdout=subprocess.PIPE)]
    maintain = [sys.executable, "-m", "spark_eos", "maintain", log_url, "--watch", "0.01", "--min-age", "0"]
    running.append(subprocess.Popen(maintain, stdout=subprocess.DEVNULL))
    try:
        assert running[0].stdout.readline() == "ready\n"
        lasts = []
        for number in range(2):
            before = log.follow().seq
            while log.follow().seq < before + 20:
                assert all(one.poll() is None for one in running)
                time.sleep(0.01)
            target = str(tmp_path / f"copy-{number}")
            assert main(("copy", log_url, target)) == 0, capsys.readouterr().err
            copy = Log.open(target)
            t, u = (records(copy, topic) for topic in ("t", "u"))
            assert t == u, "both topics are as of one entry"
            assert t == [f"a {number}" for number in range(len(t))]
            lasts.append(copy.state.seq)
        assert lasts == sorted({*lasts})
    finally:
        for one in running:
            one.kill()
            one.communicate()
    assert "is verified" in capsys.readouterr().out


def records(log, topic):
    from .world import fetches

    found = fetches(log, topic)
    known = log.topic(topic)
    return [v.decode() for fetch in found for v in log.read(known, fetch).column("value").to_pylist()]


def test_into_a_bucket_and_back(tmp_path, bucket_url):
    """By a network that spoils requests: the same call goes on until it is done."""
    log = Log.create(tmp_path / "log", snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.ensure_topic("t")
    append(log, *range(12))
    persistently(lambda: copy_log(tmp_path / "log", bucket_url, print))
    persistently(lambda: copy_log(bucket_url, tmp_path / "back", print))
    back = Log.open(tmp_path / "back")
    assert (back.log_id, values(back)) == (log.log_id, [*range(12)])


def persistently(call):
    while True:
        try:
            return call()
        except RetriableError:
            continue


def test_the_command(log_url, tmp_path, capsys):
    log = Log.create(log_url)
    log.ensure_topic("t")
    append(log, 1, 2, 3)
    assert main(("copy", log_url, str(tmp_path / "one"))) == 0
    size = sum(info.size for info in log.store.list(paths.DATA))
    assert capsys.readouterr().out == (
        f"log {log.log_id} up to entry 4: 3 records in 3 files of {size:,} bytes; the copy is verified\n"
    )
    assert main(("copy", log_url, str(tmp_path / "two"), "--quick", "--json")) == 0
    assert '"last_entry": 4, "files": 3' in capsys.readouterr().out
    assert main(("copy", log_url, str(tmp_path / "one"))) == 1
    assert "holds a log already: copy into an empty folder" in capsys.readouterr().err
    (tmp_path / "settings").write_text("s3.region=eu-central-1\n")
    settings = ("--destination-config", str(tmp_path / "settings"))
    assert main(("copy", log_url, str(tmp_path / "three"), *settings)) == 1
    assert "s3.region" in capsys.readouterr().err
