"""A log moves while it is used: the copy has all that was acknowledged, and its old place takes nothing more."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from itertools import count

import pytest

from spark_eos import Consumer, Producer
from spark_eos.cli.command import main
from spark_eos.errors import CorruptRecordError, LogExistsError, NotALogError
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.maintenance import copying
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.storage import MemoryStore
from spark_eos.testing import crash_points
from tests.crashpoints.test_maintenance import Interrupted
from tests.maintenance.world import Clock, append, created, values
from tests.starting import start
from verification.retiring import RETIRED_AT_ONCE


def test_writers_go_on_until_the_log_is_closed_and_nothing_is_lost_or_doubled(tmp_path, capsys):
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    Log.create(old, snapshot_interval=20, config=RETIRED_AT_ONCE).ensure_topic("t")
    writers = [
        start("extensions/backup/writes_until_it_is_moved", old, stdout=subprocess.PIPE) for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    log = Log.open(old)
    while log.follow().seq < 60:
        time.sleep(0.01)
    assert main(("copy", old, new, "--close")) == 0
    assert "the copy is verified; the log at its old place is closed" in capsys.readouterr().out
    acknowledged = []
    for writer in writers:
        number, told = writer.communicate(timeout=60)[0].split()
        assert told == "True"
        acknowledged.append(int(number))
    found = values(Log.open(new))
    assert sorted(found) == sorted(one for number in acknowledged for one in range(number))


@pytest.mark.deep
def test_a_group_goes_on_at_the_new_place(tmp_path):
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    settings = {
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 2000,  # So long the member at the old place is waited for.
        "heartbeat.interval.ms": 500,
    }
    Log.create(old)
    producer, consumer = Producer(old), Consumer(old, settings)
    for number in range(10):
        producer.send("t", b"%d" % number)
    producer.flush()
    consumer.subscribe(["t"])
    read = []
    while len(read) < 4:
        read += consumer.poll(timeout_ms=1000, max_records=1)
    consumer.commit()
    copy_log(old, new, print, close=True)
    for call in (lambda: producer.send("t", b"late").result(), lambda: consumer.poll(timeout_ms=1000)):
        with pytest.raises(NotALogError, match="at its new place"):
            call()
    producer.close()
    consumer.close()
    with pytest.raises(NotALogError, match="was closed after entry"):
        Log.open(old)
    with Producer(new) as producer, Consumer(new, settings) as consumer:
        producer.send("t", b"10").result()
        consumer.subscribe(["t"])
        while len(read) < 11:
            read += consumer.poll(timeout_ms=1000)
    assert [int(record.value) for record in read] == [*range(11)]


def test_a_closed_log_is_copied_backed_up_and_opened_again():
    log, target, repository = created(MemoryStore()), MemoryStore(), MemoryStore()
    append(log, *range(12))
    copy_log(log.store, target, print, close=True)
    again, back = MemoryStore(), MemoryStore()
    copy_log(log.store, again, print)
    backup_log(log.store, repository)
    restore_log(repository, back)
    for store in (target, again, back):
        assert values(Log.open(store)) == [*range(12)]
    found = []
    assert verify(log.store, found.append).is_sound
    (note,) = [one for one in found if "closed" in one.text]
    assert note.verdict is Verdict.NOTE
    with pytest.raises(NotALogError):
        append(log, 12)
    log.store.delete(note.name)
    append(Log.open(log.store), 12)
    assert values(Log.open(log.store)) == [*range(13)]


def test_the_mark_is_bytes_that_nothing_else_has():
    """An empty file there is an entry whose bytes were lost, and so is a mark that is damaged."""
    log = created(MemoryStore())
    append(log, *range(3))
    copy_log(log.store, MemoryStore(), print, close=True)
    name = paths.entry(log.state.seq + 1)
    assert bytes(log.store.read(name)) == b"eoslog: closed, version 1\n"
    for damaged in (b"", b"eoslog: closed, version 1", b"eoslog: closed, version 9\n"):
        log.store.overwrite(name, damaged)
        with pytest.raises(CorruptRecordError, match=name):
            Log.open(log.store)
        found = []
        assert not verify(log.store, found.append).is_sound
        assert name in {one.name for one in found if one.verdict is Verdict.WRONG}


@pytest.mark.deep
def test_others_write_at_every_operation_of_a_move():
    done = 0
    for at in count():
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(7))
        told = []

        def work(log=log, told=told):
            try:
                append(log, 7)
                told.append(7)
            except NotALogError:
                pass

        source = Interrupted(log.store, at, work)
        copy_log(source, target, lambda _: None, close=True)
        if source.count <= at:
            break
        done += 1
        assert values(Log.open(target)) == [*range(7), *told]
        with pytest.raises(NotALogError):
            append(log, 8)
    assert done > 15


def test_others_go_far_and_retire_entries_at_every_operation_of_a_move():
    """As while the process that moves the log sleeps for an hour: the slot it meant to fill was used, and retired."""
    done = 0
    for at in count():
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(7))
        told = []

        def work(log=log, told=told):
            try:
                for number in range(7, 30):
                    append(log, number)
                    told.append(number)
                list(Maintainer(log, only=["snapshot", "retire"]).run())
            except NotALogError:
                pass

        source = Interrupted(log.store, at, work)
        copy_log(source, target, lambda _: None, close=True)
        if source.count <= at:
            break
        done += 1
        assert values(Log.open(target)) == [*range(7), *told]
        with pytest.raises(NotALogError):
            append(log, 99)
    assert done > 15


def test_a_copy_that_was_begun_without_closing_does_not_end_as_a_move():
    """Nor the other way round: what is there may be older than the end of the closed log."""
    for first in (False, True):
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(7))

        def stop(*_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy_log(log.store, target, print, close=first, progress=_at_verification(stop))
        with pytest.raises(LogExistsError, match="with or without --close"):
            copy_log(log.store, target, print, close=not first)
        copy_log(log.store, target, print, close=first)
        assert values(Log.open(target)) == [*range(7)]


@pytest.mark.deep
@pytest.mark.parametrize("what", ["restore", "move", "copy"])
def test_the_same_call_comes_first_at_every_operation_of_a_copy(what, monkeypatch):
    """As while the first process sleeps for an hour: the log that is there by then is in use, and stays as it is."""
    monkeypatch.setattr(copying, "probe", lambda *_: None)  # Many operations, which leave nothing.
    done = ended = 0
    for at in count():
        log, target, repository = created(MemoryStore()), MemoryStore(), MemoryStore()
        append(log, *range(4))
        if what == "restore":
            backup_log(log.store, repository)

        def call(place, log=log, repository=repository):
            if what == "restore":
                restore_log(repository, place, quick=True)
            else:
                copy_log(log.store, place, lambda _: None, close=what == "move", quick=True)

        went = []

        def work(call=call, target=target, went=went):
            with suppress(
                LogExistsError, NotALogError
            ):  # The first one has made it a log, or probes the place.
                call(target)
                append(another(target), *range(100, 110))
                list(Maintainer(another(target), only=["snapshot", "retire"]).run())
                went.append(1)

        store = Interrupted(target, at, work)
        try:
            call(store)
        except (LogExistsError, NotALogError):
            ended += 1
        if store.count <= at:
            break
        if went:
            done += 1
            assert values(another(target)) == [*range(4), *range(100, 110)]
            findings = []
            verify(target, findings.append)
            assert [one for one in findings if one.verdict is not Verdict.NOTE] == []
    assert done > 15
    assert ended > 5


def another(store):
    """The log, as another process has it."""
    return Log.open(store, Clock(b"n"), Retry(deadline_s=10))


def _at_verification(stop):
    return lambda what, *_: stop() if "cop" not in what and what != "entries" else None


def test_a_move_at_every_crash_point_of_its_log():
    """The copy is made by the next process; the old place is closed, or goes on as if nothing had happened."""
    targets = {}

    def target_of(store):
        return targets.setdefault(id(store.inner), (store.inner, MemoryStore()))[1]

    def make():
        log = created(MemoryStore())
        append(log, *range(7))
        return log.store

    def job(store):
        copy_log(store, target_of(store), lambda _: None, close=True)

    def check(store):
        assert values(Log.open(target_of(store))) == [*range(7)]
        with pytest.raises(NotALogError, match="new place"):
            Log.open(store.inner)
        assert paths.entry(8) in {info.name for info in store.inner.list(paths.LOG)}

    assert len([*crash_points(job, job, check, make)]) > 20
