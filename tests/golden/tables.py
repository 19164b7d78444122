"""Parquet files and publications, in the golden log of that name."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_eos.log.schemas.alteration import alteration
from spark_eos.log.schemas.edits import Edits
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import ProducerStamp
from tests.golden.world import HEADERS, FixedClock, World, appending
from tests.sealing import seal

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


def tables(folder: Path) -> None:
    """A Kafka-shaped topic, rolled and compacted, a typed one of several row groups, and publications of both."""
    world = World(folder)
    log = world.log
    visits = _visits(world)
    orders = world.create("orders", 2, ORDERS, segment_format="parquet")
    world.commit(world.append(orders, _orders(0, 5), 1))
    seal(log, "orders", 5, partition=1, unique=lambda: _Hex(world.clock))

    # The first version pins a page that is not in the index any more, once the partition is rolled again.
    _publication(world, "lake", "delta", "orders", {})
    _begin(world, "lake")
    known = log.state.publications["lake"]
    world.commit(a.EndPublish("lake", known.epoch, known.sequence, (("orders", 3),)))
    for first in range(5, 20, 3):
        world.commit(world.append(orders, _orders(first, first + 3), 1))
        Roller(log, ("orders",), tail_rows=1).run()

    # Two files: one of two row groups, in the first of which the log starts, and one of one; then newer columns.
    world.commit(world.append(orders, _orders(0, 12), 0))
    seal(log, "orders", 8, 12, partition=0, group=4, unique=lambda: _Hex(world.clock))
    world.commit(a.AdvanceLogStart((a.PartitionOffset("orders", orders.topic_id, 0, 2),)))
    edits = Edits(add={"note": pa.string()}, rename={"took": "duration"}, widen={"id": pa.int64()})
    world.commit(alteration(log.topic("orders"), None, None, None, edits))

    # A version that has copies, one that is dropped, and one that is begun.
    _publication(world, "mirror", "iceberg", "visits", {"catalog": "c", "retention.ms": "1000"})
    _begin(world, "mirror")
    mirror = log.state.publications["mirror"]
    natives = (("visits", 2**62),)
    world.commit(a.EndPublish("mirror", mirror.epoch, mirror.sequence, natives, released=("visits",)))
    _publication(world, "gone", "delta", "visits", {})
    world.commit(a.DropPublication("gone", 1))
    _begin(world, "lake")
    world.snapshot()
    # After the snapshot: read from entries.
    world.commit(world.append(visits, _visits_rows("z9")))
    world.commit(a.FencePublisher("lake"))


def _visits(world: World) -> Topic:
    config = {"segment_format": "parquet", "cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0"}
    visits = world.create("visits", 2, **config)
    for values in (("a1", "b1", "c1"), ("b2", "d1"), ("a2", "e1", "b3")):
        world.commit(world.append(visits, _visits_rows(*values)))
    Roller(world.log, ("visits",), tail_rows=1).run()
    Compactor(world.log, ("visits",)).run()
    # Records of an aborted transaction between others go into an Arrow file.
    stamp = world.producer("visitor")
    for number, commit in enumerate((True, False, True)):
        stamp = ProducerStamp(stamp.producer_id, 0, number)
        files = world.stage(visits, _visits_rows(f"t{number}", f"u{number}"), 1)
        world.commit(appending(visits, files, stamp))
        world.commit(a.EndTransaction(stamp, commit=commit))
    Roller(world.log, ("visits",), tail_rows=1).run()
    return visits


class _Hex:
    """An id as `seal` takes it."""

    def __init__(self, clock: FixedClock) -> None:
        self.hex = clock.unique().hex()


def _visits_rows(*values: str) -> pa.Table:
    """Records of which each second one has headers."""
    headers = [[{"key": "h", "value": v.encode()}] if n % 2 else None for n, v in enumerate(values)]
    return pa.table(
        {
            "key": pa.array([v[:1].encode() for v in values]),
            "value": pa.array([v.encode() for v in values]),
            "headers": pa.array(headers, HEADERS),
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


def _publication(world: World, name: str, format_: str, topic: str, config: dict[str, str]) -> None:
    topics = ((topic, world.log.topic(topic).topic_id),)
    world.commit(
        a.CreatePublication(name, format_, tuple(sorted(config.items())), topics), writer="publisher"
    )
    world.commit(a.FencePublisher(name), writer="publisher")


def _begin(world: World, name: str) -> None:
    """Begin a version of all that is stable."""
    state = world.log.state
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
    world.commit(action, writer="publisher")
