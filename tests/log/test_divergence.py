"""The log's files change under a running process: nothing is acknowledged on a history that is gone."""

from __future__ import annotations

import logging
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    CorruptRecordError,
    DivergedLogError,
    EosLogError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit.divergence import EVERY_S
from spark_eos.log.log import Log
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.verify.report import Finding, Verdict
from spark_eos.maintenance.verify.verify import verify
from spark_eos.storage import PosixStore
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock, create, grow
from verification.retiring import RETIRED_AT_ONCE

T0 = TopicPartition("t", 0)


def send(producer: Producer, *values: bytes) -> list[int]:
    sent = [producer.send("t", value, partition=0) for value in values]
    producer.flush()
    return [one.result().offset for one in sent]


def values(url: Path) -> list[bytes]:
    with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])
        found: list[bytes] = []
        while records := consumer.poll(0):
            found += [record.value for record in records]
        return found


def unmaintained(url: Path, interval: int = 4) -> Log:
    """A new log, in which only what a test does itself is maintained."""
    log = Log.create(url, snapshot_interval=interval, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    return log


def copied(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def emptied(url: Path) -> None:
    for one in url.iterdir():
        shutil.rmtree(one)


def put_back(url: Path, copy: Path) -> None:
    emptied(url)
    copied(copy, url)


def moved(url: Path, copy: Path) -> None:
    url.rename(url.with_name("before"))
    copy.rename(url)


def entries_alone(url: Path, copy: Path) -> None:
    shutil.rmtree(url / "_log")
    copied(copy / "_log", url / "_log")


def removed(url: Path, _copy: Path) -> None:
    shutil.rmtree(url)


def made_anew(url: Path, _copy: Path) -> None:
    emptied(url)
    Log.create(url).ensure_topic("t")


@pytest.mark.parametrize("interval", [4, 200])
@pytest.mark.parametrize("change", [put_back, moved, entries_alone, removed, made_anew])
def test_clients_of_a_history_that_is_gone(tmp_path, change, interval):
    url, copy = tmp_path / "log", tmp_path / "copy"
    Log.create(url, snapshot_interval=interval, config=RETIRED_AT_ONCE).ensure_topic("t")
    producer, consumer = Producer(url), Consumer(url, {"auto.offset.reset": "earliest"})
    transactional = Producer(url, {"transactional.id": "tx"})
    transactional.init_transactions()
    consumer.assign([T0])
    assert send(producer, *(b"a%d" % at for at in range(6))) == [*range(6)]
    copied(url, copy)
    assert send(producer, b"b6", b"b7") == [6, 7]
    transactional.begin_transaction()
    transactional.send("t", b"b8", partition=0)
    transactional.commit_transaction()
    assert len(consumer.poll(0)) == 9
    transactional.begin_transaction()
    transactional.send("t", b"lost", partition=0)
    change(url, copy)
    for call in (
        lambda: consumer.poll(0),
        lambda: send(producer, b"c"),
        transactional.commit_transaction,
        lambda: send(producer, b"c"),
        lambda: consumer.poll(0),
    ):
        with pytest.raises(DivergedLogError, match="was put back from a copy"):
            call()
    # New clients go on from what is there.
    fresh = Producer(url)
    send(fresh, *(b"n%d" % at for at in range(9)))
    known = [b"a%d" % at for at in range(6)] if change in {put_back, moved, entries_alone} else []
    assert values(url) == [*known, *(b"n%d" % at for at in range(9))]
    with pytest.raises(DivergedLogError):
        consumer.poll(0)
    with pytest.raises(DivergedLogError):
        send(producer, b"d")
    found = []
    verify(url, found.append)
    assert [one for one in found if one.verdict.value == "wrong"] == []


def test_a_copy_over_the_living_log_takes_nothing_away(tmp_path):
    """`cp -a` without deletion: all is there that was written since, and retired names share a file it writes to."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    Log.create(url, snapshot_interval=4, config=RETIRED_AT_ONCE).ensure_topic("t")
    producer = Producer(url)
    sleeper = Log.open(url)
    send(producer, *(b"a%d" % at for at in range(6)))
    copied(url, copy)
    for at in range(20):
        send(producer, b"b%d" % at)
    log = Log.open(url)
    log.maintenance.snapshot()
    assert log.maintenance.retire(log.state, 100) + log.maintenance.retired(log.state) > 8
    copied(copy, url)
    assert send(producer, b"c") == [26]
    log.follow()
    for at in range(20):
        send(producer, b"d%d" % at)
    log.follow()
    log.maintenance.snapshot()
    assert log.maintenance.retire(log.state, 100)
    last = url / paths.entry(log.maintenance.retired(log.state), log.state.entries_per_folder)
    assert last.stat().st_size == 0
    assert len(values(url)) == 47
    assert sleeper.follow().seq == log.state.seq


def test_a_copy_with_the_same_entries_changes_nothing(tmp_path):
    url, copy = tmp_path / "log", tmp_path / "copy"
    producer = Producer(url)
    send(producer, b"a")
    copied(url, copy)
    put_back(url, copy)
    assert send(producer, b"b") == [1]
    assert values(url) == [b"a", b"b"]


def test_files_that_are_put_back_in_the_middle_of_a_commit(tmp_path):
    """After the look at the entry before, and before the create: what was created is not acknowledged."""
    url, copy = tmp_path / "log", tmp_path / "copy"

    class Changing(PosixStore):
        armed = False

        def create(self, name, data):
            if self.armed and name.startswith(paths.LOG):
                self.armed = False
                put_back(url, copy)
            super().create(name, data)

    Log.create(url)
    store = Changing(url)
    log = Log.open(store)
    log.commit(create("a"))
    copied(url, copy)
    log.commit(create("b"))
    store.armed = True
    with pytest.raises(DivergedLogError):
        log.commit(create("c"))
    # What it left in the other history is never taken for a part of that.
    with pytest.raises(CorruptRecordError, match="is missing, though"):
        Log.open(url, FakeClock(), Retry(deadline_s=1))
    (url / "_log/00000000000000000003.avro").rename(tmp_path / "aside")
    other = Log.open(url)
    other.commit(create("x"))
    (tmp_path / "aside").rename(url / "_log/00000000000000000003.avro")
    for call in (other.follow, lambda: other.commit(create("y")), lambda: Log.open(url)):
        with pytest.raises(DivergedLogError, match="entry 3 was written after another entry 2"):
            call()
    found = []
    verify(url, found.append)
    assert [(one.verdict.value, one.name) for one in found] == [("wrong", paths.entry(3))]
    assert "another history" in found[0].text


def test_maintenance_leaves_another_history_alone(tmp_path):
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = unmaintained(url)
    log.commit(create("a"))
    copied(url, copy)
    grow(log, "b", 10)
    put_back(url, copy)
    before = sorted(str(one.relative_to(url)) for one in url.rglob("*.avro"))
    for call in (log.maintenance.snapshot, lambda: log.maintenance.retire(log.state, 100)):
        with pytest.raises(DivergedLogError):
            call()
    log.maintenance.run_slice(log.state)
    assert sorted(str(one.relative_to(url)) for one in url.rglob("*.avro")) == before


def test_maintenance_that_was_sure_a_moment_ago_leaves_another_history_alone(tmp_path):
    """In a folder it looks each time: whether the log is still the same one is asked once a minute only."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = unmaintained(url)
    grow(log, "a", 10)
    copied(url, copy)
    grow(log, "b", 10)
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 1)
    put_back(url, copy)
    before = {one: one.read_bytes() for one in url.rglob("*.avro")}
    for call in (log.maintenance.snapshot, lambda: log.maintenance.retire(log.state, 100)):
        with pytest.raises(DivergedLogError):
            call()
    assert {one: one.read_bytes() for one in url.rglob("*.avro")} == before


def test_a_reader_takes_no_entry_behind_another_history(tmp_path):
    """A process that was frozen at its create has left it there: it goes on from entries that are gone."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    log, reader = Log.create(url), Log.open(url)
    log.commit(create("a"))
    copied(url, copy)
    log.commit(create("b"))
    assert reader.follow().seq == 2
    log.commit(create("c"))
    left = (url / paths.entry(3)).read_bytes()
    put_back(url, copy)
    (url / paths.entry(3)).write_bytes(left)
    with pytest.raises(DivergedLogError, match="entry 2 is not there any more"):
        reader.follow()


def test_entries_that_a_copy_has_brought_back_are_retired_again(tmp_path):
    """The log is put back with the same newest entry: the process goes on, and retires from the oldest on."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = unmaintained(url)
    grow(log, "a", 20)
    log.maintenance.snapshot()
    copied(url, copy)
    assert log.maintenance.retire(log.state, 5) == 5
    put_back(url, copy)
    assert log.maintenance.retire(log.state, 3) == 3
    found: list[Finding] = []
    verify(url, found.append)
    assert found == []


def test_an_empty_entry_proves_no_history(tmp_path):
    """A process that slept has retired it behind the end of the log that was put back."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = unmaintained(url)
    grow(log, "a", 10)
    log.maintenance.snapshot()
    copied(url, copy)
    grow(log, "b", 10)
    put_back(url, copy)
    log.store.retire(paths.entry(20))
    with pytest.raises(DivergedLogError, match="entry 20 is empty, and no snapshot stands for it"):
        log.commit(create("c"))
    assert not (url / paths.entry(21)).exists()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("in_background", [False, True])
def test_files_that_are_put_back_while_entries_are_retired(tmp_path, caplog, when, in_background):
    """A process that was frozen between its look and a retirement overwrites one entry at most, and names it."""
    url, copy = tmp_path / "log", tmp_path / "copy"

    class Changing(PosixStore):
        left = 3

        def retire(self, name):
            self.left -= 1
            if not self.left and when == "before":
                put_back(url, copy)
            super().retire(name)
            if not self.left and when == "after":
                put_back(url, copy)

    Log.create(url, snapshot_interval=4, config=RETIRED_AT_ONCE)
    clock = FakeClock()
    log = Log.open(Changing(url), clock)
    log.does_maintenance = False
    grow(log, "a", 10)
    log.maintenance.snapshot()
    copied(url, copy)
    grow(log, "b", 10)
    log.maintenance.snapshot()
    if in_background:
        clock.now += 1
        log.maintenance.run_slice(log.state)
        told = caplog.text
    else:
        with pytest.raises(DivergedLogError) as refused:
            log.maintenance.retire(log.state, 100)
        told = str(refused.value)
    assert "Entry 3 was retired at that moment" in told
    empty = [one for one in sorted((url / "_log").glob("*.avro")) if not one.stat().st_size]
    assert empty == ([url / paths.entry(3)] if when == "before" else [])

    found: list[Finding] = []
    verify(url, found.append)
    assert [one.name for one in found if one.verdict is Verdict.WRONG] == [paths.entry(3)] * len(empty)
    for one in empty:
        assert "A process that slept" in found[0].text
        shutil.copy(copy / paths.entry(3), one)
    verify(url, found.append)
    assert len(found) == len(empty)


@pytest.mark.parametrize("reply", ["comes", "is lost"])
@pytest.mark.parametrize("others", [1, 6])
def test_a_process_that_is_paused_before_it_stores_a_snapshot(tmp_path, monkeypatch, others, reply):
    """It wakes in another history, which may have a snapshot of that name: only its own one is deleted."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = unmaintained(url)
    log.commit(create("a"))
    copied(url, copy)
    grow(log, "b", 5)
    store_it = log.store.create

    def paused(name, data):
        if name.startswith(paths.SNAPSHOTS):
            put_back(url, copy)
            other = Log.open(url)
            other.does_maintenance = False
            grow(other, "n", others)
            other.maintenance.snapshot()
        store_it(name, data)
        if name.startswith(paths.SNAPSHOTS) and reply == "is lost":
            raise OutcomeUnknownError("no reply")

    monkeypatch.setattr(log.store, "create", paused)
    with pytest.raises(DivergedLogError):
        log.maintenance.snapshot()
    kept = [info.name for info in log.store.list(paths.SNAPSHOTS)]
    assert kept == ([paths.snapshot(4)] if others == 6 else [])
    other = Log.open(url)
    assert sorted(other.state.topics) == ["a", *(f"n{at}" for at in range(others))]
    found = []
    verify(url, found.append)
    assert found == []


def test_a_snapshot_is_withdrawn_by_its_own_name(tmp_path, monkeypatch):
    """Though the process has passed another boundary since it began to store it."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = unmaintained(url)
    log.commit(create("a"))
    copied(url, copy)
    grow(log, "b", 3)
    store_it = log.store.create

    def paused(name, data):
        if name == paths.snapshot(4):
            grow(log, "c", 4)
            put_back(url, copy)
        store_it(name, data)

    monkeypatch.setattr(log.store, "create", paused)
    with pytest.raises(DivergedLogError):
        log.maintenance.snapshot()
    assert [*log.store.list(paths.SNAPSHOTS)] == []


def test_a_snapshot_of_another_history_is_not_believed(tmp_path):
    url, copy = tmp_path / "log", tmp_path / "copy"
    log = Log.create(url, snapshot_interval=4, config=RETIRED_AT_ONCE)
    log.commit(create("a"))
    copied(url, copy)
    grow(log, "b", 10)
    log.maintenance.snapshot()
    (stray,) = [url / name for name in (paths.snapshot(8),) if (url / name).exists()]
    kept = stray.read_bytes()
    put_back(url, copy)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(kept)
    with pytest.raises(DivergedLogError, match="entry 8 is not there any more"):
        Log.open(url)


@pytest.mark.parametrize("sleeper", ["reader", "writer"])
def test_a_process_that_slept_through_another_history(tmp_path, sleeper):
    """Where it stood is retired in the history that is there when it wakes, and the files tell nothing any more."""
    url, copy = tmp_path / "log", tmp_path / "copy"
    Log.create(url, snapshot_interval=4, config=RETIRED_AT_ONCE).ensure_topic("t")
    producer, consumer = Producer(url), Consumer(url, {"auto.offset.reset": "earliest"})
    consumer.assign([T0])
    send(producer, b"a0")
    copied(url, copy)
    send(producer, b"lost")
    assert len(consumer.poll(0)) == 2
    put_back(url, copy)
    fresh = Producer(url)
    for at in range(30):
        send(fresh, b"n%d" % at)
    log = Log.open(url)
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 100)
    assert log.maintenance.retired(log.state) > 8
    with pytest.raises(DivergedLogError, match="is not in the history"):
        consumer.poll(0) if sleeper == "reader" else send(producer, b"x")
    assert values(url) == [b"a0", *(b"n%d" % at for at in range(30))]


@pytest.mark.usefixtures("timeless_folders")
def test_a_writer_that_slept_in_its_commit_leaves_nothing_in_another_history(tmp_path):
    """It would fill a slot of a log that others use."""
    url, copy, clock = tmp_path / "log", tmp_path / "copy", FakeClock()
    Log.create(url).ensure_topic("t")
    copied(url, copy)
    sleeper = Log.open(url, clock)
    sleeper.commit(create("lost"))

    def slept(state):
        clock.now += 2 * 24 * 3600
        put_back(url, copy)
        Log.open(url).ensure_topic("another")
        return create("u")(state)

    with pytest.raises(DivergedLogError, match="is another one now"):
        sleeper.commit(slept)
    assert not (url / paths.entry(sleeper.state.seq + 1)).exists()


@pytest.mark.parametrize("times", [1, 3])
def test_a_process_that_slept_in_one_history_goes_on(tmp_path, times):
    url = tmp_path / "log"
    Log.create(url, snapshot_interval=4, config=RETIRED_AT_ONCE).ensure_topic("t")
    producer, consumer = Producer(url), Consumer(url, {"auto.offset.reset": "earliest"})
    consumer.assign([T0])
    send(producer, b"a0")
    assert len(consumer.poll(0)) == 1
    for _ in range(times):
        for at in range(30):
            send(producer, b"n%d" % at)
        log = Log.open(url)
        log.maintenance.snapshot()
        log.maintenance.retire(log.state, 100)
        assert log.maintenance.retired(log.state) > 8
        assert len(consumer.poll(0)) == 30


# -- Where looking is a request -----------------------------------------------------------------------


@pytest.fixture
def far():
    """A log where each call of the store is a request, its store, and its clock."""
    store, clock = FaultyStore(MemoryStore()), FakeClock()
    store.requests_are_free = False
    log = Log.create(store, clock, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    log.commit(create("a"))
    log.commit(create("b"))
    return store, clock, log


def restored(store: FaultyStore, last: int) -> None:
    for seq in range(last + 1, 2000):
        store.inner.delete(paths.entry(seq, 100_000))


def for_a_minute(log: Log, clock: FakeClock, name: str) -> None:
    for at in range(62):
        clock.now += 1
        log.commit(create(f"{name}{at}"))


def test_one_request_a_minute_at_most(far):
    store, clock, log = far
    clock.now += EVERY_S + 1
    log.commit(create("c"))
    store.journal.clear()
    for at in range(20):
        clock.now += 1
        log.commit(create(f"d{at}"))
    reads = [call for call in store.journal if call.operation != "create"]
    assert reads == []
    clock.now += EVERY_S - 15
    log.commit(create("e"))
    assert len([call for call in store.journal if call.operation != "create"]) <= 2


@pytest.mark.parametrize("idle_s", [EVERY_S, 10_000.0])
def test_a_bucket_that_was_put_back_is_found(far, idle_s):
    store, clock, log = far
    log.commit(create("c"))
    restored(store, 1)
    clock.now += idle_s + 1
    with pytest.raises(DivergedLogError, match="entry 3 is not there any more"):
        log.commit(create("d"))
    with pytest.raises(DivergedLogError):
        log.follow()
    assert [*Log.open(store.inner).state.topics] == ["a"]


@pytest.mark.parametrize("older_s", [90, 300])
def test_a_bucket_that_was_put_back_under_a_busy_writer_is_found(far, older_s):
    """What it looks at is not what it has written in the history that is gone, nor an older snapshot."""
    store, clock, log = far
    for at in range(400):
        clock.now += 1
        log.commit(create(f"a{at}"))
        if at == 250 and older_s < 150:
            log.maintenance.snapshot()
            assert store.inner.size(paths.snapshot(200))
    last = log.state.seq
    for seq in range(last - older_s + 1, last + 1):
        store.inner.delete(paths.entry(seq, 100_000))
    with pytest.raises(DivergedLogError):
        for_a_minute(log, clock, "b")


def test_writers_in_a_history_that_is_gone_do_not_make_each_other_sure(far):
    store, clock, one = far
    two = Log.open(store, clock)
    two.does_maintenance = False
    for at in range(200):
        clock.now += 1
        (one if at % 2 else two).commit(create(f"a{at}"))
    last = one.follow().seq
    two.follow()
    for seq in range(last - 100, last + 1):
        store.inner.delete(paths.entry(seq, 100_000))
    for log in (one, two):
        with pytest.raises(DivergedLogError):
            for_a_minute(log, clock, f"b{log is one}")


def a_burst_whose_names_are_deleted(store: FaultyStore, clock: FakeClock, log: Log) -> None:
    """No name is left of what the process looked at when its burst began."""
    clock.now += EVERY_S + 1
    other = Log.open(store, clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.maintenance, "run_slice", lambda _state: None)
        for at in range(900):
            log.commit(create(f"a{at}"))
            if at == 700:
                other.follow()
                other.maintenance.snapshot()
    other.follow()
    other.maintenance.snapshot()
    other.maintenance.retire(other.state, 1000)
    last = other.maintenance.retired(other.state)
    assert last == 600
    for seq in range(1, last + 1):
        store.inner.delete(paths.entry(seq, 100_000))


DAYS_S = 2 * 24 * 3600.0


@pytest.mark.parametrize("others", [0, pytest.param(5, marks=pytest.mark.deep)])
def test_the_name_of_the_last_look_was_deleted_since(far, others):
    """A burst of entries within a minute, and then none for days: all that this process has read is in the log."""
    store, clock, log = far
    a_burst_whose_names_are_deleted(store, clock, log)
    clock.now += DAYS_S
    seq = log.state.seq
    other = Log.open(store, clock)
    other.does_maintenance = False
    grow(other, "b", others)
    log.commit(create("c"))
    assert log.follow().seq == seq + others + 1
    assert other.follow() == log.state
    restored(store, seq - 100)
    clock.now += EVERY_S + 1
    with pytest.raises(DivergedLogError):  # It has looked, and looks again.
        log.commit(create("d"))


@pytest.mark.deep("150-False")
@pytest.mark.parametrize(("others", "goes_on"), [(0, False), (150, False), (150, True)])
def test_the_name_of_the_last_look_was_deleted_and_the_log_was_put_back(far, others, goes_on):
    """``goes_on``: the process writes an entry before it looks, which stands where it would look for its newest one."""
    store, clock, log = far
    a_burst_whose_names_are_deleted(store, clock, log)
    restored(store, 700)
    store.inner.delete(paths.snapshot(800))
    other = Log.open(store, clock)
    grow(other, "b", others)
    other.maintenance.snapshot()
    assert other.state.seq == 700 + others
    if goes_on:
        log.commit(create("c"))
    clock.now += DAYS_S
    with pytest.raises(DivergedLogError):
        log.commit(create("d"))


def test_a_copy_without_its_newest_entry_is_no_other_history(far):
    """A log that was restored to an earlier entry is one: a snapshot, and none of the entries before it."""
    store, clock, log = far
    grow(log, "a", 300)
    log.maintenance.snapshot()
    restored(store, 0)
    one, two = Log.open(store, clock), Log.open(store, clock)
    assert one.state.seq == two.state.seq == 200
    for log in (one, two):
        log.does_maintenance = False
    for at in range(3):  # At first they wait, for longer than from one look to the next.
        clock.now += EVERY_S + 1
        assert one.follow().seq == two.follow().seq == 200 + at * (at - 1)
        if at:
            two.commit(create(f"b{at}"))
            one.commit(create(f"c{at}"))
    restored(store, 201)
    clock.now += EVERY_S + 1
    with pytest.raises(DivergedLogError):
        one.follow()


def test_maintenance_looks_before_it_overwrites(far):
    """Else it could retire, in the history that is gone, the very entry that tells."""
    store, clock, log = far
    log.does_maintenance = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.maintenance, "run_slice", lambda _state: None)
        grow(log, "a", 500)
    clock.now += EVERY_S
    log.commit(create("x"))
    clock.now += 2
    for seq in range(300, 600):
        store.inner.delete(paths.entry(seq, 100_000))
    for call in (log.maintenance.snapshot, lambda: log.maintenance.retire(log.state, 1000)):
        with pytest.raises(DivergedLogError):
            call()


def test_maintenance_looks_again_while_it_overwrites(far, monkeypatch):
    store, clock, log = far
    grow(log, "a", 500)
    retired, retire = [], store.retire

    def slowly(name):
        clock.now += 2
        retire(name)
        retired.append(name)
        if len(retired) == 3:
            for seq in range(300, 600):
                with suppress(ObjectNotFoundError):
                    store.inner.delete(paths.entry(seq, 100_000))

    monkeypatch.setattr(store, "retire", slowly)
    log.maintenance.snapshot()
    with pytest.raises(DivergedLogError):
        log.maintenance.retire(log.state, 100)
    assert len(retired) == 3


# -- Requests in doubt ---------------------------------------------------------------------------------


@pytest.fixture
def doubtful(tmp_path):
    """A log whose store may lose replies, and which asks once; the same log of another process."""
    Log.create(tmp_path / "log", snapshot_interval=4, config=RETIRED_AT_ONCE).commit(create("a"))
    store = FaultyStore(PosixStore(tmp_path / "log"))
    log, other = Log.open(store, FakeClock(), Retry(deadline_s=0)), Log.open(tmp_path / "log")
    log.does_maintenance = other.does_maintenance = False
    return store, log, other


def left_in_doubt(store: FaultyStore, log: Log, fault: Fault) -> bytes:
    store.inject(fault, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("mine"))
    store.heal()
    return unknown.value.request_id


@pytest.mark.parametrize("reads_it", [True, False])
def test_a_request_that_may_be_in_the_copy_stays_in_doubt(tmp_path, doubtful, reads_it):
    """It was in entry 2, which the copy has: read by this process, or retired before that."""
    store, log, other = doubtful
    request_id = left_in_doubt(store, log, Fault.FAIL_AFTER)
    copied(tmp_path / "log", tmp_path / "copy")
    grow(other, "b", 20)
    if not reads_it:
        other.maintenance.snapshot()
        other.maintenance.retire(other.state, 100)
    assert log.follow().seq == other.state.seq
    put_back(tmp_path / "log", tmp_path / "copy")
    for _ in range(2):
        with pytest.raises(CommitOutcomeUnknownError, match="Open the log again") as unknown:
            log.commit(create("mine"), request_id=request_id)
        assert isinstance(unknown.value.__cause__, DivergedLogError)
        assert unknown.value.is_final, "a program that repeats it for ever learns nothing"
    assert "mine" in Log.open(tmp_path / "log").state.topics
    with pytest.raises(DivergedLogError):  # It was never in doubt.
        log.commit(create("c"))


def test_a_request_that_can_be_in_no_copy_is_not_in_doubt(tmp_path, doubtful):
    """All entries up to the newest one that its process knows were read, and it is in none of them."""
    store, log, other = doubtful
    copied(tmp_path / "log", tmp_path / "copy")
    other.commit(create("b"))
    log.follow()
    request_id = left_in_doubt(store, log, Fault.LOST)
    put_back(tmp_path / "log", tmp_path / "copy")
    with pytest.raises(DivergedLogError):
        log.commit(create("mine"), request_id=request_id)


# -- A gap ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [200, 5])
@pytest.mark.parametrize("missing", [6, 7])
def test_a_missing_entry_is_told_at_once_and_refused(tmp_path, caplog, missing, interval):
    """Without a snapshot by a listing, behind one by a look at the slots after the end."""
    log = Log.create(tmp_path, snapshot_interval=interval)
    log.does_maintenance = False
    grow(log, "t", 8)
    log.maintenance.snapshot()
    (tmp_path / paths.entry(missing, log.state.entries_per_folder)).unlink()
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(CorruptRecordError, match=f"{missing}.avro is missing"),
    ):
        Log.open(tmp_path, FakeClock(), Retry(deadline_s=5))
    assert [one.message.count("waiting up to 5 s") for one in caplog.records] == [1]


@pytest.mark.parametrize("is_folder", [True, False])
def test_the_only_snapshot_of_a_copy_is_missing(tmp_path, is_folder):
    """The copy has not the entries before it: it is not taken for a new log, into which the next writer writes."""
    log = unmaintained(tmp_path / "log")
    grow(log, "t", 46)
    log.maintenance.snapshot()
    assert log.maintenance.retire(log.state, 100) > 32
    copy_log(log.store, PosixStore(tmp_path / "copy"), lambda _: None)
    for snapshot in (tmp_path / "copy" / paths.SNAPSHOTS).iterdir():
        snapshot.unlink()
    store = PosixStore(tmp_path / "copy")
    store.requests_are_free = is_folder
    clock = FakeClock()
    began = clock.monotonic()
    with pytest.raises(CorruptRecordError, match=r"01.avro and the entries up to .*43.avro are missing"):
        Log.open(store, clock, Retry(deadline_s=5))
    assert (clock.monotonic() - began >= 5) == is_folder, "a bucket shows what is there"
    found: list[Finding] = []
    assert not verify(PosixStore(tmp_path / "copy"), found.append).is_sound
    assert [(one.name, one.text.partition(";")[0]) for one in found] == [
        (paths.entry(1), "is missing"),
        (paths.entry(2), f"and those up to {paths.entry(43)} are missing"),
    ]


@pytest.mark.parametrize("interval", [200, 2])
@pytest.mark.parametrize("is_folder", [True, False])
def test_two_missing_entries_in_a_row_are_told(tmp_path, is_folder, interval):
    """Behind a snapshot, too: a writer would put an entry in their place, and what comes after them would be lost."""
    log = unmaintained(tmp_path, interval)
    grow(log, "t", 2)
    log.maintenance.snapshot()
    grow(log, "u", 6)
    for seq in (3, 4):
        (tmp_path / paths.entry(seq, log.state.entries_per_folder)).unlink()
    store = PosixStore(tmp_path)
    store.requests_are_free = is_folder
    with pytest.raises(CorruptRecordError, match=r"03.avro and the entries up to .*04.avro are missing"):
        Log.open(store, FakeClock(), Retry(deadline_s=5))


def test_many_missing_entries_are_told_to_one_who_only_looks(tmp_path):
    """By one listing, from the end on, as in a bucket; names of others do not hide what is behind them."""
    log = unmaintained(tmp_path)
    grow(log, "t", 4)
    log.maintenance.snapshot()
    grow(log, "u", 80)
    first, end = log.state.seq - 76, log.state.seq
    for seq in range(first, end):
        path = tmp_path / paths.entry(seq, log.state.entries_per_folder)
        path.rename(f"{path}.aside")
    store = PosixStore(tmp_path)
    store.requests_are_free = False
    with pytest.raises(
        CorruptRecordError, match=f"{first}.avro and the entries up to .*{end - 1}.avro are missing"
    ):
        Log.open(store, FakeClock(), Retry(deadline_s=5))
    found: list[Finding] = []
    assert not verify(tmp_path, found.append).is_sound
    assert next(one.name for one in found if one.verdict is Verdict.WRONG) == paths.entry(first)


def test_the_last_entry_may_be_missing(tmp_path):
    """There is nothing that tells. A client that is still there finds out."""
    log = Log.create(tmp_path)
    log.commit(create("a"))
    log.commit(create("b"))
    (tmp_path / paths.entry(2, log.state.entries_per_folder)).unlink()
    assert Log.open(tmp_path).state.seq == 1
    with pytest.raises(EosLogError):
        log.commit(create("c"))
