"""What golden logs are made with: a clock and ids that are always the same, and one call for each kind of commit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_eos.log.log import Log
from spark_eos.log.topics import new_topic
from spark_eos.protocol import actions as a
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, StagedFile
from spark_eos.storage import open_store

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


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


class World:
    """A new log in a folder, with the topic ``events`` of three partitions."""

    def __init__(self, folder: Path, interval: int = 4, **config: str) -> None:
        self.clock = FixedClock()
        store = open_store(str(folder))
        store.now_ms = self.clock.now_ms  # type: ignore[method-assign]
        self.log = Log.create(
            store, clock=self.clock, snapshot_interval=interval, entries_per_folder=16, config=config
        )
        self.events = self.create("events", 3)

    def commit(self, *actions: a.Action, writer: str = "golden") -> None:
        self.log.commit(lambda _: actions, writer=writer)

    def create(self, name: str, partitions: int = 1, schema: pa.Schema | None = None, **config: Any) -> Topic:
        settings = {"retention.ms": -1, **{key.replace("_", "."): value for key, value in config.items()}}
        topic_id = f"00000000-0000-4000-8000-{len(self.log.state.topics) + 1:012}"
        self.commit(new_topic(name, partitions, settings, schema)._replace(topic_id=topic_id))
        return self.log.topic(name)

    def stage(
        self, topic: Topic, rows: pa.Table, partition: int = 0, sequence: int = -1
    ) -> tuple[StagedFile, ...]:
        with self.log.stage(topic) as writer:
            writer.append(rows, partition)
            files = writer.finish()
        return tuple(
            file._replace(batches=tuple(one._replace(base_sequence=sequence) for one in file.batches))
            for file in files
        )

    def append(
        self,
        topic: Topic,
        rows: pa.Table,
        partition: int = 0,
        stamp: ProducerStamp = NO_PRODUCER,
    ) -> a.AppendBatches:
        """The action. Batches of a transaction have sequence numbers."""
        sequence = -1 if stamp is NO_PRODUCER else 0
        return appending(topic, self.stage(topic, rows, partition, sequence), stamp)

    def producer(self, name: str | None, timeout_ms: int = 60_000) -> ProducerStamp:
        """A new producer, and its first transaction."""
        producer_id = self.log.state.next_producer_id
        self.commit(a.InitProducer(producer_id, 0, name, timeout_ms))
        return ProducerStamp(producer_id, 0, 0)

    def offset(self, offset: int, partition: int = 0, metadata: str = "") -> a.PartitionOffset:
        """Of the topic ``events``."""
        return a.PartitionOffset("events", self.events.topic_id, partition, offset, metadata)

    def snapshot(self) -> None:
        """A snapshot at the next boundary."""
        while self.log.state.seq % self.log.state.snapshot_interval:
            self.commit(a.RaiseStagingFloor(0))
        self.log.maintenance.snapshot()


def appending(
    topic: Topic, files: tuple[StagedFile, ...], stamp: ProducerStamp = NO_PRODUCER
) -> a.AppendBatches:
    return a.AppendBatches(stamp, ((topic.name, topic.topic_id),), files)


def kafka(*values: str) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([value[:1].encode() for value in values]),
            "value": pa.array([value.encode() for value in values]),
        }
    )
