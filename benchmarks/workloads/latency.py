"""From a producer through a stream to a consumer."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.bench import Bench
from benchmarks.kafka import Broker
from benchmarks.results import Figure, Ratio, Result
from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "End to end"

TEXT = """
A record is produced, a stream at a zero trigger copies it to another topic, and a polling consumer sees it there;
then, after a pause that is different each time, the next. From before `send` until after `poll`, in milliseconds, and
in micro-batches: by the median `triggerExecution` of those that copied something. eoslog's stream is exactly-once;
Kafka's is at-least-once.
"""

Pipe = tuple[Callable[[bytes], None], Callable[[], list[bytes]], Any]
"""Sends a value, polls for values, and the query between."""


def run(bench: Bench) -> Result:
    """Both pipes, in turn."""
    result = Result("latency")
    count = bench.choose(25, 60)
    broker = bench.peers.broker
    found: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(bench.repeats(1, 3)):
        found.setdefault("eoslog", []).append(_measure(eoslog(bench), count))
        if broker is not None:
            found.setdefault("Kafka", []).append(_measure(kafka(bench, broker), count))
        bench.say(
            f"  round {number + 1}: {', '.join(f'{name} {runs[-1][0]:.0f} ms' for name, runs in found.items())}"
        )
    for name, runs in found.items():
        batches = tuple(p50 / batch for p50, _, batch in runs)
        target = 2.0 if name == "eoslog" else None
        result.ratios.append(
            Ratio(f"{name}, produced to consumed", "one micro-batch", batches, target, at_most=True)
        )
        for at, what in enumerate(("median", "90 % are below", "one micro-batch")):
            result.figures.append(Figure(what, name, tuple(run[at] for run in runs), "ms"))
    if "Kafka" in found:
        pairs = tuple(us[0] / them[0] for us, them in zip(found["eoslog"], found["Kafka"], strict=True))
        result.ratios.append(Ratio("eoslog, produced to consumed", "Kafka", pairs, at_most=True))
    return result


def _measure(pipe: Any, count: int) -> tuple[float, float, float]:
    """Median and 90th percentile of the latency, and the median micro-batch; ms."""
    took = []
    with pipe as (send, poll, query):
        for number in range(-5, count):
            wanted = b"record %d" % number
            began = time.perf_counter()
            send(wanted)
            end = began + 120
            while wanted not in poll():
                if query.exception() is not None or time.perf_counter() > end:
                    raise RuntimeError(f"{wanted!r} did not arrive: {query.exception()}")
            if number >= 0:
                took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.037 * (number % 7))
        batches = [
            float(one["durationMs"]["triggerExecution"])
            for one in query.recentProgress
            if one["numInputRows"]
        ]
    tenths = statistics.quantiles(took, n=10, method="inclusive")
    return statistics.median(took), tenths[8], statistics.median(batches[5:])


@contextmanager
def eoslog(bench: Bench) -> Iterator[Pipe]:
    """Producer, query and consumer on one log."""
    url = str(bench.fresh("log"))
    log = Log.create(url)
    log.ensure_topic("in")
    log.ensure_topic("out")
    reader = bench.peers.spark.readStream.format("eoslog").option("subscribe", "in")
    frame = reader.option("startingOffsets", "earliest").load(url).select("value")
    with Producer(url) as producer, Consumer(url) as consumer:
        consumer.assign([TopicPartition("out", 0)])
        consumer.seek_to_beginning()
        query = _start(bench, frame, "eoslog", {"topic": "out", "path": url})
        try:
            yield (
                lambda value: producer.send("in", value).result() and None,
                lambda: [record.value or b"" for record in consumer.poll(timeout_ms=1000)],
                query,
            )
        finally:
            query.stop()


@contextmanager
def kafka(bench: Bench, broker: Broker) -> Iterator[Pipe]:
    """The same through Kafka, with its connector."""
    from confluent_kafka import Consumer as KafkaConsumer
    from confluent_kafka import Producer as KafkaProducer

    name = str(uuid.uuid4())
    here, there = f"in-{name}", f"out-{name}"
    for topic in (here, there):
        broker.create(topic)
    servers = {"bootstrap.servers": broker.address}
    options = {"kafka.bootstrap.servers": broker.address}
    reader = bench.peers.spark.readStream.format("kafka").options(**options).option("subscribe", here)
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    producer = KafkaProducer({**servers, "linger.ms": 0})
    consumer = KafkaConsumer({**servers, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([there])
    query = _start(bench, frame, "kafka", {**options, "topic": there})

    def send(value: bytes) -> None:
        producer.produce(here, value)
        producer.flush()

    def poll() -> list[bytes]:
        message = consumer.poll(1.0)
        value = None if message is None or message.error() else message.value()
        return [] if value is None else [value]

    try:
        yield send, poll, query
    finally:
        query.stop()
        consumer.close()
        broker.delete(here, there)


def _start(bench: Bench, frame: DataFrame, kind: str, options: dict[str, str]) -> Any:
    writer = frame.writeStream.format(kind).options(**options).trigger(processingTime="0 seconds")
    return writer.option("checkpointLocation", str(bench.fresh("checkpoint"))).start()
