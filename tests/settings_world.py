"""What a setting does: a log that is written to and maintained with two values of it, and what each comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import EosLogError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.data.arrow_file import compression_of
from spark_eos.log.log import Log
from spark_eos.maintenance.compaction import Compactor
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from tests.log.fakes import FakeClock

AT = TopicPartition("t", 0)


class Effect(NamedTuple):
    """Values of a setting, and what `observe` sees with each: an outcome, or the error that refuses the value."""

    observe: Callable[[World, str, str], Any]
    outcomes: dict[str, Any]


class World:
    """A log with a clock of its own, and a topic ``t``."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = FaultyStore(MemoryStore())
        self.log = Log.create(self.store, self.clock, Retry(deadline_s=0))
        self.admin = Admin(self.log)

    # -- What is there ------------------------------------------------------------------------------------

    def topic(self, partitions: int = 1, schema: pa.Schema | None = None, **config: str) -> None:
        given = {name.replace("_", "."): value for name, value in config.items()}
        self.admin.create_topic("t", partitions, config=given, schema=schema)

    def producer(self, **config: object) -> Producer:
        return Producer(self.log, {name.replace("_", "."): value for name, value in config.items()})

    def consumer(self, **config: object) -> Consumer:
        given = {name.replace("_", "."): value for name, value in config.items()}
        return Consumer(self.log, {"auto.offset.reset": "earliest", **given})

    def reader(self, **config: object) -> Consumer:
        consumer = self.consumer(**config)
        consumer.assign([AT])
        return consumer

    def fill(self, *values: bytes, key: bytes | None = None, **config: object) -> None:
        """Each value in an entry of its own."""
        with self.producer(**config) as producer:
            for value in values:
                producer.send("t", value, key=key).result(timeout=60)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    # -- What came of it ----------------------------------------------------------------------------------

    @property
    def rows(self) -> list[Any]:
        known = self.log.topic("t")
        return [*self.log.follow().partitions[known.topic_id, 0].index.scan(0, self.log.load)]

    @property
    def codec(self) -> str | None:
        """How the newest batch is compressed."""
        row = self.rows[-1]
        return compression_of(self.store.read(row.file.name, row.batch.position, row.batch.length))

    @property
    def start(self) -> int:
        known = self.log.topic("t")
        return self.log.follow().partitions[known.topic_id, 0].start

    @property
    def writer(self) -> str:
        """Who wrote the newest entry."""
        seq = self.log.follow().seq
        name = paths.entry(seq, self.log.state.entries_per_folder)
        return decode_entry(self.store.read(name), seq, name).requests[0].writer

    def values(self) -> list[bytes]:
        with self.reader() as reader:
            return [record.value for record in reader.poll(max_records=1000)]

    def compact(self) -> list[bytes]:
        """Compaction, with all that is there sealed."""
        Compactor(self.log).run()
        return self.values()


def refusal(observe: Callable[[], Any]) -> Any:
    """What is observed, or the class of the error."""
    try:
        return observe()
    except EosLogError as error:
        return type(error)
