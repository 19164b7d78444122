"""What version 9 of the format brought: Parquet files and publications, written by `tests.golden.make`."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_eos.log.log import Log
from spark_eos.log.schemas.alteration import alteration
from spark_eos.log.schemas.edits import Edits
from spark_eos.log.topics import new_topic
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp
from tests.sealing import seal

if TYPE_CHECKING:
    from tests.golden.make import FixedClock

TIME_MS = 1_650_000_000_000
ORDERS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("weight", pa.float64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("took", pa.duration("us")),
        pa.field("lines", pa.list_(pa.struct([("sku", pa.string()), ("wait", pa.duration("us"))]))),
        pa.field("tags", pa.map_(pa.string(), pa.int64())),
    ]
)


def make(log: Log, clock: FixedClock) -> None:
    """A Kafka-shaped topic, rolled and compacted, a typed one of several row groups, and publications of both."""
    _visits(log)
    orders = _create(log, "orders", "00000000-0000-4000-8000-000000000008", {}, ORDERS)
    _append(log, orders, _orders(0, 5), 1)
    seal(log, "orders", 5, partition=1, unique=lambda: _Hex(clock))

    # The first version pins a page that is not in the index any more, once the partition is rolled again.
    _publication(log, "lake", "delta", "orders", {})
    _begin(log, "lake")
    known = log.state.publications["lake"]
    log.commit(lambda _: (a.EndPublish("lake", known.epoch, known.sequence, (("orders", 3),)),))
    for first in range(5, 20, 3):
        _append(log, orders, _orders(first, first + 3), 1)
        Roller(log, ("orders",), tail_rows=1).run()

    # Two files: one of two row groups, in the first of which the log starts, and one of one; then newer columns.
    _append(log, orders, _orders(0, 12), 0)
    seal(log, "orders", 8, 12, partition=0, group=4, unique=lambda: _Hex(clock))
    log.commit(lambda _: (a.AdvanceLogStart((a.PartitionOffset("orders", orders.topic_id, 0, 2),)),))
    edits = Edits(add={"note": pa.string()}, rename={"took": "duration"}, widen={"id": pa.int64()})
    log.commit(lambda _: (alteration(log.topic("orders"), None, None, None, edits),))

    # A version that has copies, one that is dropped, and one that is begun.
    _publication(log, "mirror", "iceberg", "visits", {"catalog": "c", "retention.ms": "1000"})
    _begin(log, "mirror")
    mirror = log.state.publications["mirror"]
    natives = (("visits", 2**62),)
    log.commit(
        lambda _: (a.EndPublish("mirror", mirror.epoch, mirror.sequence, natives, released=("visits",)),)
    )
    _publication(log, "gone", "delta", "visits", {})
    log.commit(lambda _: (a.DropPublication("gone", 1),))
    _begin(log, "lake")
    while log.state.seq % 8:
        log.commit(lambda _: (a.RaiseStagingFloor(5),))
    log.maintenance.snapshot()
    # After the snapshot: read from entries.
    _append(log, log.topic("visits"), _visits_rows("z9"), 0)
    log.commit(lambda _: (a.FencePublisher("lake"),))


def _visits(log: Log) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    visits = _create(log, "visits", "00000000-0000-4000-8000-000000000007", config)
    for values in (("a1", "b1", "c1"), ("b2", "d1"), ("a2", "e1", "b3")):
        _append(log, visits, _visits_rows(*values), 0)
    Roller(log, ("visits",), tail_rows=1).run()
    Compactor(log, ("visits",)).run()
    # Records of an aborted transaction between others go into an Arrow file.
    log.commit(lambda _: (a.InitProducer(11, 0, "visitor", 60_000),))
    for number, commit in enumerate((True, False, True)):
        _append(log, visits, _visits_rows(f"t{number}", f"u{number}"), 1, ProducerStamp(11, 0, number))
        log.commit(lambda _, n=number, c=commit: (a.EndTransaction(ProducerStamp(11, 0, n), commit=c),))
    Roller(log, ("visits",), tail_rows=1).run()


class _Hex:
    """An id as `seal` takes it."""

    def __init__(self, clock: FixedClock) -> None:
        self.hex = clock.unique().hex()


def _create(
    log: Log, name: str, topic_id: str, config: dict[str, Any], schema: pa.Schema | None = None
) -> Topic:
    config = {"retention.ms": -1, "segment.format": "parquet", **config}
    action = new_topic(name, 2, config, schema)._replace(topic_id=topic_id)
    log.commit(lambda _: (action,), writer="golden")
    return log.topic(name)


def _append(
    log: Log, topic: Topic, rows: pa.Table, partition: int, stamp: ProducerStamp = NO_PRODUCER
) -> None:
    with log.stage(topic) as writer:
        writer.append(rows, partition)
        files = writer.finish()
    log.commit(lambda _: (a.AppendBatches(stamp, ((topic.name, topic.topic_id),), files),))


def _visits_rows(*values: str) -> pa.Table:
    """Records of which each second one has headers."""
    headers = [[{"key": "h", "value": v.encode()}] if n % 2 else None for n, v in enumerate(values)]
    type_ = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.table(
        {
            "key": pa.array([v[:1].encode() for v in values]),
            "value": pa.array([v.encode() for v in values]),
            "headers": pa.array(headers, type_),
            "timestamp": pa.array([TIME_MS + n for n in range(len(values))], pa.timestamp("ms", "UTC")),
        }
    )


def _orders(first: int, end: int) -> pa.Table:
    def row(n: int) -> dict[str, Any]:
        if n % 4 == 3:
            return {"id": n}
        lines = [{"sku": f"s{n}", "wait": timedelta(microseconds=n)}, {"sku": None, "wait": None}]
        return {
            "id": n,
            "price": Decimal(n) / 100,
            "weight": float("nan") if n % 4 == 1 else n / 2,
            "at": TIME_MS * 1000 + n,
            "took": timedelta(seconds=n, microseconds=1),
            "lines": lines[: n % 3],
            "tags": [("a", n), ("b", None)],
        }

    return pa.Table.from_pylist([row(n) for n in range(first, end)], schema=ORDERS)


def _publication(log: Log, name: str, format_: str, topic: str, config: dict[str, str]) -> None:
    topics = ((topic, log.topic(topic).topic_id),)
    action = a.CreatePublication(name, format_, tuple(sorted(config.items())), topics)
    log.commit(lambda _: (action,), writer="publisher")
    log.commit(lambda _: (a.FencePublisher(name),), writer="publisher")


def _begin(log: Log, name: str) -> None:
    """Begin a version of all that is stable."""
    state = log.state
    publication = state.publications[name]
    ranges, schemas = [], []
    for topic, topic_id in publication.topics:
        schemas.append((topic, len(state.topics[topic].schemas)))
        for number in range(state.topics[topic].partitions):
            key = (topic_id, number)
            known = state.partitions[key]
            start, end = known.start, known.last_stable_offset
            found = checksum(pages_of(key, known, start, end)[1])
            ranges.append(a.PinnedRange(topic_id, number, start, end, found))
    action = a.BeginPublish(
        name,
        publication.epoch,
        publication.sequence + 1,
        state.seq,
        tuple(ranges),
        state.timestamp_ms,
        schemas=tuple(schemas),
    )
    log.commit(lambda _: (action,), writer="publisher")
