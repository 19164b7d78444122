"""A small log with small pages, a clock that moves only when a process sleeps, and what is in the log."""

from __future__ import annotations

import pyarrow as pa

from spark_eos.config.isolation import Isolation
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AlterTopic, AppendBatches, ReplaceSegments
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage import MemoryStore
from spark_eos.testing.wrapped_store import WrappedStore
from tests.log.fakes import FakeClock
from verification.retiring import RETIRED_AT_ONCE

DAY_S = 86_400.0


class Clock(FakeClock):
    """A second passes with every commit; ``name`` keeps the ids of several processes apart."""

    def __init__(self, name=b"a"):
        super().__init__()
        self.now = 1_000_000.0
        self.name = name

    def unique(self):
        self.now += 1
        return self.name + super().unique()[len(self.name) :]


def created(store, name=b"a", **options):
    """A log with a snapshot behind every fifth entry."""
    log = Log.create(
        store,
        Clock(name),
        Retry(deadline_s=10),
        **{"snapshot_interval": 5, "config": RETIRED_AT_ONCE, **options},
    )
    log.ensure_topic("t")
    return log


def another(log, name=b"b"):
    """Another process: it has seen nothing, and has the time of the first."""
    clock = Clock(name)
    clock.now = log.clock.now
    return Log.open(log.store, clock, Retry(deadline_s=10))


def stage(log, *numbers, topic="t", partition=0, size=1, timestamp_ms=None):
    """Files with these values, not committed; ``size`` is the length of a value."""
    known = log.topic(topic)
    columns = {"value": [(b"%d" % number).ljust(size) for number in numbers]}
    if timestamp_ms is not None:
        columns["timestamp"] = pa.array([timestamp_ms] * len(numbers), pa.timestamp("ms", "UTC"))
    with log.stage(known) as writer:
        writer.append(pa.table(columns), partition)
        return writer.finish()


def left_behind(log, *numbers, topic="t", **options):
    """Files of a writer that died; the log goes on."""
    files = stage(log, *numbers, topic=topic, **options)
    log.commit(lambda state: (AlterTopic(topic, state.topics[topic].topic_id),))
    return files


def commit(log, files, topic="t"):
    action = AppendBatches(NO_PRODUCER, ((topic, log.topic(topic).topic_id),), files)
    return log.commit(lambda _: (action,))


def append(log, *numbers, **options):
    """Each number in an entry and a file of its own."""
    for number in numbers:
        commit(log, stage(log, number, **options), options.get("topic", "t"))


def partition_of(log, topic="t", number=0):
    return log.follow().partitions[log.topic(topic).topic_id, number]


def fetches(log, topic="t", number=0):
    found = partition_of(log, topic, number)
    at = TopicPartition(topic, number)
    level = Isolation.READ_COMMITTED
    return plan(log.state, at, found.start, end_offset(found, level), level, log.load)


def values(log, topic="t", number=0, planned=None):
    """The values of a partition, read by a plan."""
    planned = fetches(log, topic, number) if planned is None else planned
    known = log.topic(topic)
    return [int(v) for fetch in planned for v in log.read(known, fetch).column("value").to_pylist()]


def roll(log, topic="t", number=0, pages=None):
    """All sealed rows of a partition (or its first few pages) written into one file, and put in their place."""
    known = log.topic(topic)
    sealed = partition_of(log, topic, number).index.pages[:pages]
    if not sealed:
        return
    planned = [fetch for fetch in fetches(log, topic, number) if fetch.offset < sealed[-1].next_offset]
    staged = stage(log, *values(log, topic, number, planned), topic=topic, partition=number)
    (batch,) = staged[0].batches
    base = planned[0].offset
    first = sealed[0].base_offset
    rows = [
        IndexRow(base, batch.count, Kind.DATA, NO_PRODUCER, batch.max_timestamp_ms, staged[0].file, batch)
    ]
    if base > first:
        rows.insert(0, IndexRow(first, base - first, Kind.HOLE, NO_PRODUCER, -1))
    action = ReplaceSegments(
        topic,
        known.topic_id,
        number,
        first,
        sealed[-1].next_offset,
        checksum(sealed),
        tuple(rows),
        (staged[0].file.name,),
    )
    log.commit(lambda _: (action,))


def listed(log, prefix):
    return sorted(info.name for info in log.store.list(prefix))


def grown(numbers=23, **options):
    """A log with snapshots, retired entries, pages and rolled files, and some left-overs."""
    log = created(MemoryStore(), **options)
    append(log, *range(numbers))
    roll(log, pages=1)
    left_behind(log, 1000)
    append(log, *range(numbers, numbers + 3))
    return log


class Watched(WrappedStore):
    """Calls ``before`` with each operation and name."""

    def __init__(self, inner, before):
        super().__init__(inner)
        self._before = before

    def _call(self, operation, name, effect):
        self._before(operation, name)
        return effect()
