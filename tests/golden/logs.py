"""One golden log for each group of features. Each has every kind of value that its actions carry."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pyarrow as pa

from spark_eos.log.schemas.alteration import alteration
from spark_eos.log.schemas.edits import Edits
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.data_place import place_beside
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.rules.sealing import PAGE_ROWS
from spark_eos.protocol.types import Decider, Follower, ProducerStamp
from tests.golden.tables import tables
from tests.golden.world import HEADERS, World, appending, kafka

AT_ONCE = ("metadata.max.retention.ms", "1")
"""Entries are retired as soon as a snapshot covers them."""


def records(folder: Path) -> None:
    """Topics, plain and idempotent appends, transactions, versions of a schema, a log start. No snapshot."""
    world = World(folder, interval=200)
    events, copies = world.events, world.create("copies", 2)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    people, gone = world.create("people", 1, schema), world.create("gone")
    for partition in range(3):
        world.commit(world.append(events, kafka("a1", "b2", "c3"), partition))
    world.commit(world.append(events, kafka("seq0", "seq1"), 0, world.producer(None)._replace(number=-1)))
    rows = {
        "key": pa.array([b"k", b"k"]),
        "value": pa.array([b"with headers", None]),
        "headers": pa.array([[{"key": "h", "value": b"1"}], None], HEADERS),
        "timestamp": pa.array([1_600_000_000_000, 1_600_000_000_500], pa.timestamp("ms", "UTC")),
    }
    world.commit(world.append(events, pa.table(rows), 1))

    # One in one entry, with offsets; one aborted; one still open; one that loses a topic.
    one, aborted, opened, left = map(world.producer, ("one-shot", "aborter", "opener", "left alone"))
    world.commit(
        world.append(copies, kafka("committed"), 0, one),
        a.CommitOffsets("readers", (world.offset(3, 0, "note"),), one),
        a.EndTransaction(one, commit=True),
    )
    world.commit(world.append(copies, kafka("aborted"), 0, aborted))
    world.commit(a.EndTransaction(aborted, commit=False))
    world.commit(world.append(copies, kafka("open"), 1, opened))
    for topic in (gone, copies):
        world.commit(world.append(topic, kafka("half"), 0, left))
    world.commit(a.DeleteTopic("gone", gone.topic_id))
    world.commit(a.EndTransaction(left, commit=True))

    world.commit(world.append(people, pa.table({"id": [1, 2], "name": ["Ada", None]})))
    edits = Edits(add={"born": pa.date32()}, rename={"name": "first"}, widen={"id": pa.decimal128(20, 0)})
    world.commit(alteration(people, None, None, None, edits))
    newer = {
        "id": pa.array([3], pa.decimal128(20, 0)),
        "first": ["Bo"],
        "born": pa.array([1000], pa.date32()),
    }
    world.commit(world.append(world.log.topic("people"), pa.table(newer)))
    world.commit(
        a.AlterTopic("copies", copies.topic_id, 3, (("retention.ms", "-1"), ("cleanup.policy", "compact")))
    )
    world.commit(a.AdvanceLogStart((world.offset(1, 2),)))
    world.commit(a.RaiseStagingFloor(5))


def growth(folder: Path) -> None:
    """An index that is sealed, segments that were rewritten, snapshots, retired entries, transactions that expire."""
    world = World(folder, **dict((AT_ONCE,)))
    many, log = world.create("many"), world.log
    (file,) = world.stage(many, kafka("often"))
    world.commit(appending(many, (file._replace(batches=file.batches * (PAGE_ROWS + 3)),)))
    world.snapshot()
    Roller(log).run()
    world.snapshot()
    # Part of the tail, too, with rows of an aborted transaction.
    undecided = world.producer("undecided")
    world.commit(world.append(many, kafka("not"), 0, undecided))
    world.commit(a.EndTransaction(undecided, commit=False))
    Roller(log, tail_rows=1).run()
    world.snapshot()
    log.maintenance.retire(log.state, 1000)

    # Transactions that are open in a snapshot; their first entries are not retired. Two of them have time-outs.
    opened, sleeper = world.producer("still open"), world.producer("sleeper", 1000)
    world.commit(
        world.append(many, kafka("open"), 0, opened), a.CommitOffsets("late", (world.offset(0),), opened)
    )
    world.commit(a.CommitOffsets("late", (world.offset(0),), sleeper))
    world.commit(world.append(world.events, kafka("seq"), 0, world.producer(None)._replace(number=-1)))
    world.producer("leaver")
    world.snapshot()
    log.maintenance.retire(log.state, 1000)
    world.commit(a.ExpireTransaction(sleeper, 1000))
    world.commit(a.AlterLog((AT_ONCE, ("producer.id.expiration.ms", "1"))))
    world.commit(a.ExpireProducers((3,)))
    world.commit(a.AlterLog((AT_ONCE, ("transactional.id.expiration.ms", "1"))))
    world.commit(a.ExpireTransactionalIds(("leaver",)))
    world.clock.passed_s += 36_000
    world.commit(a.RaiseStagingFloor(5))
    world.clock.passed_s -= 36_000
    world.commit(a.ResetLogTime(world.clock.now_ms()))
    world.snapshot()


def groups(folder: Path) -> None:
    """Members, committed offsets, expiry; and a group whose last change is still under way."""
    world = World(folder)

    def join(member: str, assignors: tuple[str, ...], instance_id: str | None = None) -> None:
        world.commit(
            a.JoinGroup("members", member, ("events",), assignors, 45_000, instance_id, "client"),
            writer="consumer",
        )

    world.commit(world.append(world.events, kafka("a1", "b2", "c3")))
    join("m-1", ("range", "cooperative-sticky"), "static")
    join("m-2", ("roundrobin", "range", "cooperative-sticky"))
    world.commit(a.SyncGroup("members", "m-1", 2))
    join("m-1b", ("range", "cooperative-sticky"), "static")
    membership = a.Membership("m-1b", 2, "static")
    world.commit(a.CommitOffsets("members", (world.offset(2),), None, membership))
    world.commit(a.LeaveGroup("members", ("m-2",), 45_000))
    world.commit(a.SyncGroup("members", "m-1b", 3))
    join("m-3", ("cooperative-sticky", "range"))
    for name in ("old", "unwanted", "kept"):
        world.commit(a.CommitOffsets(name, (world.offset(3, 0, "note"), world.offset(0, 2))))
    world.commit(a.DeleteOffsets("unwanted", (("events", 0),)), a.DeleteOffsets("unwanted"))
    world.commit(a.AlterLog((("offsets.retention.minutes", "1"),)))
    world.clock.passed_s += 60
    world.commit(a.ExpireOffsets("old", (("events", 0),)))
    world.snapshot()
    world.commit(a.SyncGroup("members", "m-3", 4))


def queries(folder: Path) -> None:
    """Micro-batches: sources that have names, come and go; state; another transactional id."""
    world = World(folder)
    world.commit(world.append(world.events, kafka("a1", "b2", "c3"), 1))
    copies = world.create("copies", 2)
    source = a.SourceProgress(
        '{"events": {"1": 0}}', '{"events": {"1": 3}}', "query", (world.offset(0, 1),), (world.offset(3, 1),)
    )
    foreign = a.SourceProgress(None, '{"rate": 7}')
    topics = ((copies.name, copies.topic_id),)
    first = MicroBatch(
        "query", "query-id", "run-id", 0, (source, foreign), topics, world.stage(copies, kafka("batch"))
    )
    here = source._replace(name="0", start=source.end, start_offsets=source.end_offsets)
    there = foreign._replace(name="1", start=foreign.end)
    third = a.SourceProgress(None, '{"rate": 1}', name="third")
    second = first._replace(
        transactional_id="query-2",
        batch_id=1,
        sources=(third, there, here),
        topics=(),
        files=(),
        stateful=True,
    )
    without = second._replace(batch_id=2, sources=(there, here), state_loss=True)
    for batch in (first, second, without):
        world.log.commit(lambda state, b=batch: propose(state, b, finished=False), writer="spark")
    world.snapshot()
    third_batch = without._replace(batch_id=3, sources=(there, here), state_loss=False)
    world.log.commit(lambda state: propose(state, third_batch, finished=False), writer="spark")


def two_phase(folder: Path) -> None:
    """Prepared transactions: of one log, of one that decides for others, and of some that follow another one."""
    world = World(folder)
    events = world.events

    def prepared(name: str, decider: Decider | None = None) -> ProducerStamp:
        stamp = world.producer(name)
        offsets = a.CommitOffsets(name, (world.offset(3),), stamp)
        world.commit(
            world.append(events, kafka(name), 0, stamp),
            offsets,
            a.PrepareTransaction(stamp, decider),
            writer="app",
        )
        return stamp

    for name, keep in (("carried on", True), ("given up", False)):
        stamp = prepared(name)
        world.commit(a.InitProducer(stamp.producer_id, 2, name, 60_000, None, keep))
        if keep:
            world.commit(a.EndTransaction(stamp._replace(epoch=2), commit=True))
    decides = world.producer("decides")
    world.commit(
        a.AddFollowers(decides, tuple(Follower(f"log-{one}", f"memory://{one}", "follows") for one in "ab"))
    )
    world.commit(world.append(events, kafka("decided"), 0, decides), a.EndTransaction(decides, commit=True))
    decision = world.log.state.producers[decides.producer_id].decision
    assert decision is not None
    world.commit(a.NoteFollowers(decides, decision.history, ("log-a",)))
    deciders = [Decider("log-c", "memory://c", 3, 1, number, b"history", 5) for number in range(2)]
    followed = prepared("has followed", deciders[0])
    world.commit(a.FollowDecision(followed._replace(epoch=1), deciders[0], commit=True))
    prepared("waits")
    prepared("follows", deciders[1])
    world.snapshot()
    prepared("behind the snapshot")


def places(folder: Path) -> None:
    """The mark of an encrypted log, and data files that are elsewhere for a while.

    Encrypted files have random keys, and the log is one folder: there is no such file here.
    """
    world = World(folder)
    log = world.log
    world.commit(world.append(world.events, kafka("a1", "b2", "c3")))
    world.commit(a.PlaceData("memory://golden"))
    world.snapshot()
    world.commit(a.PlaceData(""))
    world.commit(a.MoveData("memory://golden", log.state.data_placed_at))
    first = log.state.data_placed_at
    world.commit(a.RaiseStagingFloor(first + 1))
    world.snapshot()
    world.commit(a.DataCopied(first))
    world.commit(a.DataMoved(first))
    world.commit(a.MoveData(place_beside(first), first))
    world.snapshot()
    world.commit(a.PlaceData(""))
    for key_id in ("golden", "another"):
        world.commit(a.MarkEncrypted(key_id))
    world.snapshot()


def of_tests(folder: Path) -> None:
    """What tests in ``tests/protocol`` have a function ``golden`` for: each is called with the log."""
    world = World(folder)
    for path in sorted((Path(__file__).parents[1] / "protocol").glob("test_*.py")):
        if "\ndef golden(world)" in path.read_text("utf-8"):
            import_module(f"tests.protocol.{path.stem}").golden(world)
    world.snapshot()


LOGS: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (records, growth, groups, queries, two_phase, places, tables, of_tests)
}
