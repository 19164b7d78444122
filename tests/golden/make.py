"""Write the golden log of the current format: ``python -m tests.golden.make``.

It is the next folder of `tests/golden`, with what a reader sees of it beside it, as JSON; a folder that is given gets
the log alone. Run once for each format version, never again for one that has landed: the point of a golden log is that
it was written by the code of its day. Clock and ids are fixed, so the log is the same byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pyarrow as pa

from spark_eos.log.log import Log
from spark_eos.log.schemas.alteration import alteration
from spark_eos.log.schemas.edits import Edits
from spark_eos.log.topics import new_topic
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.data_place import place_beside
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.rules.sealing import PAGE_ROWS
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import NO_PRODUCER, Decider, Follower, ProducerStamp, StagedFile
from spark_eos.storage import open_store
from tests.golden import tables

AT_ONCE = ("metadata.max.retention.ms", "1")
"""Entries are retired as soon as a snapshot covers them."""


class FixedClock:
    """A clock that ticks a second with each id, and ids that are counted."""

    def __init__(self) -> None:
        self._ids = 0
        self.passed_s = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + 1000 * (self._ids + self.passed_s)

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return self.now_ms() / 1000

    def sleep(self, seconds: float) -> None:
        pass

    def unique(self) -> bytes:
        self._ids += 1
        return hashlib.sha256(str(self._ids).encode()).digest()[:16]

    def jitter(self) -> float:
        return 0.5


def _create(log: Log, name: str, topic_id: str, partitions: int, schema: pa.Schema | None = None) -> Topic:
    action = new_topic(name, partitions, {"retention.ms": -1}, schema)._replace(topic_id=topic_id)
    log.commit(lambda _: (action,), writer="golden")
    return log.topic(name)


def _stage(
    log: Log, topic: Topic, rows: pa.Table, partition: int, sequence: int = -1
) -> tuple[StagedFile, ...]:
    with log.stage(topic) as writer:
        writer.append(rows, partition)
        files = writer.finish()
    return tuple(
        file._replace(batches=tuple(batch._replace(base_sequence=sequence) for batch in file.batches))
        for file in files
    )


def _kafka(*values: str) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([value[:1].encode() for value in values]),
            "value": pa.array([v.encode() for v in values]),
        }
    )


def make(folder: Path) -> None:
    """Every action and every kind of batch, at least once."""
    clock = FixedClock()
    store = open_store(str(folder))
    store.now_ms = clock.now_ms  # type: ignore[method-assign]
    log = Log.create(store, clock=clock, snapshot_interval=8, entries_per_folder=32, config=dict((AT_ONCE,)))
    events = _create(log, "events", "00000000-0000-4000-8000-000000000001", 3)
    copies = _create(log, "copies", "00000000-0000-4000-8000-000000000002", 2)
    people_schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    people = _create(log, "people", "00000000-0000-4000-8000-000000000003", 1, people_schema)
    gone = _create(log, "gone", "00000000-0000-4000-8000-000000000004", 1)

    def append(topic: Topic, stamp: ProducerStamp, files: tuple[StagedFile, ...]) -> a.AppendBatches:
        return a.AppendBatches(stamp, ((topic.name, topic.topic_id),), files)

    # Plain and idempotent appends.
    for partition in range(3):
        files = _stage(log, events, _kafka("a1", "b2", "c3"), partition)
        log.commit(lambda _, files=files: (append(events, NO_PRODUCER, files),))
    log.commit(lambda _: (a.InitProducer(0, 0, None, 60_000),))
    files = _stage(log, events, _kafka("seq0", "seq1"), 0, sequence=0)
    log.commit(lambda _: (append(events, ProducerStamp(0, 0), files),))

    # Headers and timestamps of their own; a tombstone.
    headers = pa.array(
        [[{"key": "h", "value": b"1"}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    rows = pa.table(
        {
            "key": pa.array([b"k", b"k"]),
            "value": pa.array([b"with headers", None]),
            "headers": headers,
            "timestamp": pa.array([1_600_000_000_000, 1_600_000_000_500], pa.timestamp("ms", "UTC")),
        }
    )
    files_h = _stage(log, events, rows, 1)
    log.commit(lambda _: (append(events, NO_PRODUCER, files_h),))

    # One-shot transaction with offsets; streamed and aborted; streamed and still open.
    for producer_id, name in enumerate(("one-shot", "aborter", "opener"), 1):
        log.commit(lambda _, p=producer_id, n=name: (a.InitProducer(p, 0, n, 60_000),))
    stamp = ProducerStamp(1, 0, 0)
    offset = a.PartitionOffset("events", events.topic_id, 0, 3, "note")
    files_1 = _stage(log, copies, _kafka("committed"), 0, sequence=0)
    log.commit(
        lambda _: (
            append(copies, stamp, files_1),
            a.CommitOffsets("readers", (offset,), stamp),
            a.EndTransaction(stamp, commit=True),
        )
    )
    files_2 = _stage(log, copies, _kafka("aborted"), 0, sequence=0)
    log.commit(lambda _: (append(copies, ProducerStamp(2, 0, 0), files_2),))
    log.commit(lambda _: (a.EndTransaction(ProducerStamp(2, 0, 0), commit=False),))
    files_3 = _stage(log, copies, _kafka("open"), 1, sequence=0)
    log.commit(lambda _: (append(copies, ProducerStamp(3, 0, 0), files_3),))

    # A micro-batch.
    files_4 = _stage(log, copies, _kafka("batch"), 0)
    source = a.SourceProgress(
        '{"events": {"1": 0}}',
        '{"events": {"1": 3}}',
        "query",
        (a.PartitionOffset("events", events.topic_id, 1, 0),),
        (a.PartitionOffset("events", events.topic_id, 1, 3),),
    )
    foreign = a.SourceProgress(None, '{"rate": 7}')
    batch = MicroBatch(
        "query", "query-id", "run-id", 0, (source, foreign), ((copies.name, copies.topic_id),), files_4
    )

    def micro_batch(state: State) -> tuple[a.Action, ...]:
        return propose(state, batch, finished=False)

    log.commit(micro_batch, writer="spark")

    # Two schema versions; a log start; a topic deleted; the staging floor.
    files_5 = _stage(log, people, pa.table({"id": [1, 2], "name": ["Ada", None]}), 0)
    log.commit(lambda _: (append(people, NO_PRODUCER, files_5),))
    edits = Edits(add={"born": pa.date32()}, rename={"name": "first"}, widen={"id": pa.decimal128(20, 0)})
    log.commit(lambda _: (alteration(people, None, None, None, edits),))
    people_2 = log.topic("people")
    rows_6 = {
        "id": pa.array([3], pa.decimal128(20, 0)),
        "first": ["Bo"],
        "born": pa.array([1000], pa.date32()),
    }
    files_6 = _stage(log, people_2, pa.table(rows_6), 0)
    log.commit(lambda _: (append(people_2, NO_PRODUCER, files_6),))
    log.commit(lambda _: (a.AdvanceLogStart((a.PartitionOffset("events", events.topic_id, 2, 1),)),))
    log.commit(lambda _: (a.DeleteTopic("gone", gone.topic_id),))
    log.commit(lambda _: (a.RaiseStagingFloor(5),))

    # Version 2: members come, sync and go; offsets in their names; expiry; settings.
    _groups(log)
    settings = (AT_ONCE, ("offsets.retention.minutes", "1"), ("producer.id.expiration.ms", "1"))
    log.commit(lambda _: (a.AlterLog(settings),))
    log.commit(lambda _: (a.CommitOffsets("old", (offset,)), a.CommitOffsets("unwanted", (offset,))))
    log.commit(lambda _: (a.DeleteOffsets("unwanted", (("events", 0),)), a.DeleteOffsets("unwanted")))
    for producer_id, name in ((5, "sleeper"), (6, "leaver")):
        log.commit(lambda _, p=producer_id, n=name: (a.InitProducer(p, 0, n, 1000),))
    log.commit(lambda _: (a.CommitOffsets("late", (offset,), ProducerStamp(5, 0, 0)),))
    log.commit(lambda _: (a.ExpireTransaction(ProducerStamp(5, 0, 0), 1000),))
    log.commit(lambda _: (a.ExpireProducers((0,)),))
    later = (AT_ONCE, ("offsets.retention.minutes", "1"), ("transactional.id.expiration.ms", "1"))
    log.commit(lambda _: (a.AlterLog(later),))
    log.commit(lambda _: (a.ExpireTransactionalIds(("leaver",)),))
    clock.passed_s += 60
    log.commit(lambda _: (a.ExpireOffsets("old", (("events", 0),)),))

    # Version 3: an index that is sealed, a segment that was rewritten, a snapshot, retired entries.
    many = _create(log, "many", "00000000-0000-4000-8000-000000000005", 1)
    (file,) = _stage(log, many, _kafka("often"), 0)
    often = (file._replace(batches=file.batches * (PAGE_ROWS + 3)),)
    log.commit(lambda _: (append(many, NO_PRODUCER, often),))
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    Roller(log).run()
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    # Part of the tail, too, with rows of an aborted transaction.
    log.commit(lambda _: (a.InitProducer(7, 0, "undecided", 60_000),))
    files_7 = _stage(log, many, _kafka("not"), 0)
    log.commit(lambda _: (append(many, ProducerStamp(7, 0, 0), files_7),))
    log.commit(lambda _: (a.EndTransaction(ProducerStamp(7, 0, 0), commit=False),))
    Roller(log, tail_rows=1).run()
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 1000)

    # Version 4: a transaction that is open in a snapshot, whose first entry is not retired.
    log.commit(lambda _: (a.InitProducer(8, 0, "still open", 60_000),))
    files_8 = _stage(log, many, _kafka("open"), 0)
    log.commit(lambda _: (append(many, ProducerStamp(8, 0, 0), files_8),))
    for _ in range(3 * 8):
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 1000)

    # Version 5: names of sources, one of which comes; state; another transactional id.
    here = source._replace(name="0", start=source.end, start_offsets=source.end_offsets)
    there = foreign._replace(name="1", start=foreign.end)
    third = a.SourceProgress(None, '{"rate": 1}', name="third")
    second = batch._replace(
        transactional_id="query-2",
        batch_id=1,
        sources=(third, there, here),
        topics=(),
        files=(),
        stateful=True,
    )
    log.commit(lambda state: propose(state, second, finished=False), writer="spark")
    without = second._replace(batch_id=2, sources=(there, here), state_loss=True)
    log.commit(lambda state: propose(state, without, finished=False), writer="spark")

    # Version 6: a topic that goes under a transaction; a log's time that is set back.
    brief = _create(log, "brief", "00000000-0000-4000-8000-000000000006", 2)
    log.commit(lambda _: (a.InitProducer(10, 0, "left alone", 60_000),))
    stamp_10 = ProducerStamp(10, 0, 0)
    for topic in (brief, many):
        files_10 = _stage(log, topic, _kafka("half"), 0)
        log.commit(lambda _, t=topic, f=files_10: (append(t, stamp_10, f),))
    log.commit(lambda _: (a.DeleteTopic("brief", brief.topic_id),))
    log.commit(lambda _: (a.EndTransaction(stamp_10, commit=True),))
    clock.passed_s += 36_000
    log.commit(lambda _: (a.RaiseStagingFloor(5),))
    clock.passed_s -= 36_000
    log.commit(lambda _: (a.ResetLogTime(clock.now_ms()),))
    assert log.state.time_resets == 1

    # Version 8: versions of batch jobs.
    files_8 = _stage(log, many, _kafka("job"), 0)
    job = a.SetAppVersion("job", 7, many.topic_id)
    log.commit(lambda _: (append(many, NO_PRODUCER, files_8), job), writer="spark batch")
    log.commit(lambda _: (a.SetAppVersion("job", 3),), writer="spark batch")
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    log.maintenance.snapshot()

    # Version 9: Parquet files, publications.
    tables.make(log, clock)

    _prepare(log)
    _decide(log)
    _mark(log)
    _place(log)
    _move(log)


def _prepare(log: Log) -> None:
    """Version 11: prepared transactions. One was committed by a successor, one was aborted, one still waits."""
    many, events = log.topic("many"), log.topic("events")
    at = a.PartitionOffset("events", events.topic_id, 0, 3)
    for name in ("carried on", "given up", "waits"):
        pid = log.state.next_producer_id
        log.commit(lambda _, p=pid, n=name: (a.InitProducer(p, 0, n, 60_000),))
        first = ProducerStamp(pid, 0, 0)
        files = _stage(log, many, _kafka(name), 0, sequence=0)
        append = a.AppendBatches(first, ((many.name, many.topic_id),), files)
        offsets = a.CommitOffsets(name, (at,), first)
        prepare = (append, offsets, a.PrepareTransaction(first))
        log.commit(lambda _, w=prepare: w, writer="app")
        if name == "waits":
            continue
        keeps = name == "carried on"
        log.commit(lambda _, p=pid, n=name, k=keeps: (a.InitProducer(p, 2, n, 60_000, None, k),))
        if keeps:
            log.commit(lambda _, p=pid: (a.EndTransaction(ProducerStamp(p, 2, 0), commit=True),))


def _decide(log: Log) -> None:
    """Version 12: a decision that one of two logs has followed; two that follow another log, one has ended."""
    many = log.topic("many")
    pid = log.state.next_producer_id
    log.commit(lambda _: (a.InitProducer(pid, 0, "decides", 60_000),))
    stamp = ProducerStamp(pid, 0, 0)
    followers = tuple(Follower(f"log-{one}", f"memory://{one}", "follows") for one in "ab")
    log.commit(lambda _: (a.AddFollowers(stamp, followers),))
    files = _stage(log, many, _kafka("decided"), 0, sequence=0)
    append = a.AppendBatches(stamp, ((many.name, many.topic_id),), files)
    log.commit(lambda _: (append, a.EndTransaction(stamp, commit=True)))
    decision = log.state.producers[pid].decision
    assert decision is not None
    log.commit(lambda _: (a.NoteFollowers(stamp, decision.history, ("log-a",)),))
    for number, name in enumerate(("has followed", "follows")):
        pid = log.state.next_producer_id
        log.commit(lambda _, p=pid, n=name: (a.InitProducer(p, 0, n, 60_000),))
        first = ProducerStamp(pid, 0, 0)
        files = _stage(log, many, _kafka(name), 0, sequence=0)
        append = a.AppendBatches(first, ((many.name, many.topic_id),), files)
        decider = Decider("log-c", "memory://c", 3, 1, number, b"history", 5)
        prepare = (append, a.PrepareTransaction(first, decider))
        log.commit(lambda _, w=prepare: w, writer="app")
        if not number:
            follow = a.FollowDecision(first._replace(epoch=1), decider, commit=True)
            log.commit(lambda _, w=follow: (w,))


def _mark(log: Log) -> None:
    """Version 10: the mark of an encrypted log. Encrypted files have random keys: none is here."""
    for name, one in sorted(log.state.publications.items()):
        log.commit(lambda _, n=name, e=one.epoch: (a.DropPublication(n, e),))
    log.commit(lambda _: (a.MarkEncrypted("golden"),))
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    log.maintenance.snapshot()
    log.commit(lambda _: (a.MarkEncrypted("another"),))


def _place(log: Log) -> None:
    """Version 13: data files that are elsewhere for a while, over a snapshot. None is there: the log is one folder."""
    log.commit(lambda _: (a.PlaceData("memory://golden"),))
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    log.maintenance.snapshot()
    log.commit(lambda _: (a.PlaceData(""),))


def _move(log: Log) -> None:
    """Version 14: data files that are moved, over a snapshot, and a move that is given up for a copy's own place."""
    at = log.state.data_placed_at
    log.commit(lambda _: (a.MoveData("memory://golden", at),))
    first = log.state.data_placed_at
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(first + 1),))
    log.maintenance.snapshot()
    log.commit(lambda _: (a.DataCopied(first),))
    log.commit(lambda _: (a.DataMoved(first),))
    log.commit(lambda _: (a.MoveData(place_beside(first), first),))
    log.commit(lambda _: (a.PlaceData(""),))


def _groups(log: Log) -> None:
    """A group whose last change is still under way."""
    events = log.topic("events")

    def join(member: str, assignors: tuple[str, ...], instance_id: str | None = None) -> None:
        action = a.JoinGroup(
            "members", member, ("events", "copies"), assignors, 45_000, instance_id, "client"
        )
        log.commit(lambda _: (action,), writer="consumer")

    join("m-1", ("range", "cooperative-sticky"), "static")
    join("m-2", ("roundrobin", "range", "cooperative-sticky"))
    log.commit(lambda _: (a.SyncGroup("members", "m-1", 2),))
    join("m-1b", ("range", "cooperative-sticky"), "static")
    at = a.PartitionOffset("events", events.topic_id, 0, 2)
    log.commit(lambda _: (a.CommitOffsets("members", (at,), None, a.Membership("m-1b", 2, "static")),))
    log.commit(lambda _: (a.LeaveGroup("members", ("m-2",), 45_000),))
    log.commit(lambda _: (a.SyncGroup("members", "m-1b", 3),))
    join("m-3", ("cooperative-sticky", "range"))


def main(arguments: list[str], golden: Path = Path(__file__).parent) -> None:
    """Write the log, and say where."""
    if arguments:
        (folder,) = map(Path, arguments)
        make(folder)
        sys.stdout.write(f"wrote {folder}\n")
        return
    from tests.golden.test_golden import seen

    numbers = [int(folder.name[1:]) for folder in golden.glob("v*") if folder.is_dir()]
    folder = golden / f"v{max(numbers, default=0) + 1}"
    make(folder)
    expected = folder.with_suffix(".json")
    expected.write_text(json.dumps(seen(Log.open(folder)), indent=1) + "\n", "utf-8")
    sys.stdout.write(f"wrote {folder} and {expected}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
