"""Plain producers, without Spark."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench, Case
from benchmarks.kafka import Broker
from benchmarks.pairing import Taken, faster
from benchmarks.results import Ratio, Result
from benchmarks.rows import table
from spark_eos import Producer
from spark_eos.log.log import Log
from spark_eos.storage import Store, open_store

TITLE = "Producers"

TEXT = """
One producer without Spark, to one partition, 1 KB values, a transaction every 100 ms. *Kafka, Java* is Kafka's own
`ProducerPerformance` with `acks=all`, by the rate that it reports after 100,000 records to warm up; *Kafka,
confluent-kafka* calls `produce` for each record. `send` and `produce` are called with the same value again and again,
`send_arrow` with batches of 1,000 rows. eoslog's commits wait for `fsync`; Kafka's do not. *kept* is a method in
Python that puts its value into a list, and every 1,000 of them into an Arrow file, a new one every 100 ms, to the
disk in the same way as eoslog's: no keys, partitions, checksums, transactions. No producer in Python that keeps its
records can do less. *kept and promised* also does what Kafka's `send` promises: it may be called by several threads,
notes the time, and returns an object for each record that could say where it went.
"""

SIZE = 1_000
SLICE_S = 0.1
_ROWS = 1_000
_WARM_UP = 100_000


def run(bench: Bench) -> Result:
    """All producers, for some seconds each."""
    result = Result("producers")
    case = Case(bench, "1 KB, a transaction every 100 ms")
    seconds = bench.choose(2.0, 4.0)
    case.add("eoslog, send_arrow", lambda: send_arrow(bench, seconds))
    case.add("eoslog, send", lambda: send(bench, seconds))
    case.add("kept", lambda: kept(bench, seconds, Kept))
    case.add("kept and promised", lambda: kept(bench, seconds, Promised))
    broker = bench.peers.broker
    if broker is not None:
        case.add("Kafka, Java", lambda: _java(broker, bench, int(seconds * 40_000)))
        case.add("Kafka, confluent-kafka", lambda: _confluent(broker, bench, seconds))
    case.run(bench.repeats(2, 5))
    case.figures(result, lambda taken: 1 / taken.clock / 1000, "thousand records/s")
    for limit in ("kept", "kept and promised"):
        result.ratios.append(Ratio("send", limit, faster(case.runs["eoslog, send"], case.runs[limit])))
    if broker is not None:
        for ours, theirs, target in (
            ("eoslog, send_arrow", "Kafka, Java", 5.0),
            ("eoslog, send_arrow", "Kafka, confluent-kafka", None),
            ("eoslog, send", "Kafka, confluent-kafka", 1.0),
            ("eoslog, send", "Kafka, Java", None),
            ("kept", "Kafka, confluent-kafka", None),
            ("kept and promised", "Kafka, confluent-kafka", None),
        ):
            pairs = faster(case.runs[ours], case.runs[theirs])
            what = f"the limit, *{ours}*" if ours.startswith("kept") else ours.removeprefix("eoslog, ")
            result.ratios.append(Ratio(what, theirs, pairs, target))
    return result


def send_arrow(bench: Bench, seconds: float, **config: object) -> Taken:
    """Seconds per record; ``config`` without a ``transactional.id``: no transactions, flushed as often."""
    rows = table(_ROWS, SIZE, keyed=False).to_batches()[0]
    return _ours(bench, seconds, _ROWS, lambda producer: producer.send_arrow("t", rows), config)


def send(bench: Bench, seconds: float) -> Taken:
    """Seconds per record."""
    value = b"x" * SIZE

    def fifty(producer: Producer) -> None:
        for _ in range(50):
            producer.send("t", value)

    return _ours(bench, seconds, 50, fifty, {})


class Kept:
    """Values in a list, until there are as many as eoslog makes columns of: these go into an Arrow file."""

    schema = pa.schema([("value", pa.binary())])

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._file: pa.RecordBatchFileWriter | None = None

    @contextmanager
    def file(self, store: Store) -> Iterator[None]:
        """One that is durable when the block ends."""
        name = f"{uuid.uuid4().hex}.arrow"
        with store.upload(name, write_behind=True) as file, pa.ipc.new_file(file, self.schema) as self._file:
            yield
            self._hand_on()

    def send(self, topic: str, value: bytes) -> object:
        """Keep it."""
        self._values.append(value)
        if len(self._values) >= _ROWS:
            self._hand_on()
        return None

    def _hand_on(self) -> None:
        assert self._file is not None
        self._file.write_batch(pa.RecordBatch.from_arrays(self._columns(), schema=self.schema))
        self._values = []

    def _columns(self) -> list[pa.Array]:
        return [pa.array(self._values, pa.binary())]


class Receipt:
    """Which record it is."""

    __slots__ = ("row",)

    def __init__(self, row: int) -> None:
        self.row = row


class Promised(Kept):
    """As safe and as telling as Kafka's."""

    schema = Kept.schema.append(pa.field("timestamp", pa.int64()))

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._times: list[int] = []

    def send(self, topic: str, value: bytes) -> object:
        """Keep it, and when it came."""
        with self._lock:
            self._values.append(value)
            self._times.append(time.time_ns())
            receipt = Receipt(len(self._values))
            if receipt.row >= _ROWS:
                self._hand_on()
            return receipt

    def _columns(self) -> list[pa.Array]:
        times, self._times = self._times, []
        return [*super()._columns(), pa.array(np.array(times, np.int64) // 1_000_000)]


def kept(bench: Bench, seconds: float, kind: type[Kept]) -> Taken:
    """Seconds per record."""
    value = b"x" * SIZE
    with bench.passing("kept") as path:
        keeper, store = kind(), open_store(str(path))
        sent = 0
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            with keeper.file(store):
                while time.perf_counter() < now + SLICE_S:
                    for _ in range(50):
                        keeper.send("t", value)
                    sent += 50
        return Taken((time.perf_counter() - began) / sent)


def _ours(bench: Bench, seconds: float, count: int, step: Any, config: dict[str, object]) -> Taken:
    with bench.passing("log") as path:
        return _sent(str(path), seconds, count, step, config or {"transactional.id": "bench"})


def _sent(url: str, seconds: float, count: int, step: Any, config: dict[str, object]) -> Taken:
    Log.create(url).ensure_topic("t")
    with Producer(url, config) as producer:
        transactional = "transactional.id" in config
        if transactional:
            producer.init_transactions()
        sent = 0
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            if transactional:
                producer.begin_transaction()
            while time.perf_counter() < now + SLICE_S:
                step(producer)
                sent += count
            if transactional:
                producer.commit_transaction()
            else:
                producer.flush()
        return Taken((time.perf_counter() - began) / sent)


def _java(broker: Broker, bench: Bench, records: int) -> Taken:
    topic = bench.fresh("java").name
    broker.create(topic)
    done = broker.tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", records + _WARM_UP, "--warmup-records", _WARM_UP),
        *("--record-size", SIZE, "--throughput", -1),
        *("--transactional-id", topic, "--transaction-duration-ms", int(SLICE_S * 1000)),
        *("--bootstrap-server", broker.address, "--command-property", "acks=all"),
    )
    rate = re.findall(r"^\d+ steady state records sent, ([\d.]+) records/sec", done.stdout, re.MULTILINE)
    if not rate:
        raise RuntimeError(f"ProducerPerformance said no rate: {done.stdout[-1000:]} {done.stderr[-1000:]}")
    broker.delete(topic)
    return Taken(1 / float(rate[-1]))


def _confluent(broker: Broker, bench: Bench, seconds: float) -> Taken:
    from confluent_kafka import Producer as KafkaProducer

    topic = bench.fresh("confluent").name
    broker.create(topic)
    value = b"x" * SIZE
    producer = KafkaProducer({"bootstrap.servers": broker.address, "transactional.id": topic, "acks": "all"})
    producer.init_transactions()
    sent = 0
    began = time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        producer.begin_transaction()
        while time.perf_counter() < now + SLICE_S:
            for _ in range(50):
                while True:
                    try:
                        producer.produce(topic, value)
                        break
                    except BufferError:
                        producer.poll(0.01)  # Its queue is full: the broker is behind.
            producer.poll(0)
            sent += 50
        producer.commit_transaction()
    taken = Taken((time.perf_counter() - began) / sent)
    broker.delete(topic)
    return taken
