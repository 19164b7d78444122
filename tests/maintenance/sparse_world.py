"""A log whose indexes are sealed early, filled by transactions of all kinds; what readers of it see."""

from __future__ import annotations

from contextlib import contextmanager

import pyarrow as pa

from spark_eos.config.isolation import Isolation
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches, EndTransaction, InitProducer
from spark_eos.protocol.index import Index
from spark_eos.protocol.rules import sealing
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, TopicPartition
from tests.log.fakes import FakeClock
from verification.retiring import RETIRED_AT_ONCE

AT = TopicPartition("t", 0)
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


@contextmanager
def small_pages(rows=4, fan_out=2):
    """Pages of few rows, for as long as it lasts: part of the format, so all logs in a test have the same."""
    before = sealing.PAGE_ROWS, sealing.FAN_OUT
    sealing.PAGE_ROWS, sealing.FAN_OUT = rows, fan_out
    try:
        yield
    finally:
        sealing.PAGE_ROWS, sealing.FAN_OUT = before


class Clock(FakeClock):
    """A second passes with every commit; ``name`` keeps the ids of several processes apart."""

    def __init__(self, name=b"a"):
        super().__init__()
        self.name = name

    def unique(self):
        self.now += 1
        return self.name + super().unique()[1:]


class World:
    """One process that writes topic ``t``, of one partition."""

    def __init__(self, store, *, config=None, schema=None, partitions=1, interval=4, maintenance=True):
        self.store = store
        self.log = Log.create(
            store, Clock(), Retry(deadline_s=0), snapshot_interval=interval, config=RETIRED_AT_ONCE
        )
        self.log.does_maintenance = maintenance
        self.log.ensure_topic("t", partitions, config, schema)
        self.numbers = {}
        self.sequences = {}

    @property
    def topic(self):
        return self.log.topic("t")

    @property
    def partition(self):
        return self.log.state.partitions[self.topic.topic_id, 0]

    def another(self, name=b"b"):
        """Another process's log."""
        return Log.open(getattr(self.store, "inner", self.store), Clock(name), Retry(deadline_s=0))

    def stage(self, rows, **options):
        with self.log.stage(self.topic, **options) as writer:
            writer.append(rows if isinstance(rows, pa.Table) else table(rows), 0)
            return writer.finish()

    def append(self, *rows, stamp=NO_PRODUCER, **options):
        """Rows, each a value or a pair of key and value; or one table."""
        files = self.stage(rows[0] if isinstance(rows[0], pa.Table) else rows, **options)
        action = AppendBatches(stamp, (("t", self.topic.topic_id),), files)
        self.log.commit(lambda _: (action,))

    def begin(self, name="app"):
        """Begin a transaction: its stamp."""
        if name not in self.numbers:
            self.log.commit(lambda s: (InitProducer(s.next_producer_id, 0, name, 60_000),))
            self.numbers[name] = -1
        self.numbers[name] += 1
        return ProducerStamp(self.log.state.transactional_ids[name], 0, self.numbers[name])

    def end(self, stamp, commit=True):
        self.log.commit(lambda _: (EndTransaction(stamp, commit=commit),))

    def transaction(self, *rows, commit=True, name="app", **options):
        stamp = self.begin(name)
        self.append(*rows, stamp=stamp, **options)
        self.end(stamp, commit)

    def seal(self, **options):
        """Go on until everything that was written is sealed."""
        end = self.partition.end
        for number in range(100):
            pages = self.partition.index.pages
            if pages and pages[-1].next_offset >= end:
                return
            self.append((b"filler-%d" % number, b"filler-%d" % number), **options)
        raise AssertionError("it is never sealed")

    def rows(self):
        return [*self.partition.index.scan(0, self.log.load)]

    def sealed(self):
        return [*Index(self.partition.index.pages).scan(0, self.log.load)]

    def files(self):
        return {row.file.name for row in self.rows() if row.file is not None}

    def stored(self):
        return {info.name for info in self.store.list("data/")}


def table(rows):
    pairs = [row if isinstance(row, tuple) else (None, row) for row in rows]
    return pa.table(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )


def seen(log, isolation=COMMITTED, start=None, end=None, column="value"):
    """(offset, value) of what a reader gets."""
    state = log.state
    topic = state.topics["t"]
    partition = state.partitions[topic.topic_id, 0]
    start = partition.start if start is None else start
    end = end_offset(partition, isolation) if end is None else end
    found = []
    for fetch in plan(state, AT, start, end, isolation, log.load):
        records = log.read(topic, fetch)
        assert records.num_rows <= fetch.records
        values = records.column(column).to_pylist()
        found += zip(records.offsets.tolist(), values, strict=True)
    return found


def everything(log):
    """What readers may see, under both isolation levels and from any offset."""
    partition = log.state.partitions[log.topic("t").topic_id, 0]
    return {
        (isolation, start): seen(log, isolation, start)
        for isolation in Isolation
        for start in range(partition.start, end_offset(partition, isolation) + 1)
    }
