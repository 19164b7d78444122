"""Small pieces of work, timed, for `benchmarks.gate`: ``python gate_work.py ROOT FOLDER [NAME ...]``.

Run as a file, so that the ``spark_eos`` of another tree, ROOT, can be measured by the same work: it needs nothing of
its own package, and of ``spark_eos`` only what is public or what Spark calls. Prints seconds by the clock and of the
processor as JSON.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # The folder of this file, whose modules nobody means.

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

import spark_eos
from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.spark.datasource import EosLogDataSource
from spark_eos.spark.version import ReadAllAvailable

KEYED = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
VALUES = StructType([StructField("value", BinaryType())])

Timed = tuple[float, float]
Work = Callable[[Path], Callable[[], object]]
"""Prepares, in a folder of its own, and returns what is timed."""


def batches(rows: int, size: int, *, keyed: bool) -> list[pa.RecordBatch]:
    """Rows as Spark hands them over."""
    made = []
    for first in range(0, rows, 10_000):
        count = min(10_000, rows - first)
        digits = np.random.default_rng(first).integers(48, 58, count * size, np.uint8)
        offsets = np.arange(0, count * size + 1, size, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
        columns = {"value": pa.Array.from_buffers(pa.binary(), count, buffers)}
        if keyed:
            columns = {
                "key": pa.array([b"key-%d" % number for number in range(first, first + count)]),
                **columns,
            }
        made.append(pa.record_batch(columns))
    return made


def _write(url: str, rows: list[pa.RecordBatch], partitions: int) -> None:
    schema = KEYED if "key" in rows[0].schema.names else VALUES
    source = EosLogDataSource({"path": url, "topic": "t", "num.partitions": str(partitions)})
    staged = source.writer(schema, overwrite=False).write(iter(rows))
    source.writer(schema, overwrite=False).commit([staged])


def writing(rows: int, size: int, *, keyed: bool, partitions: int) -> Work:
    """The batch sink."""

    def prepare(folder: Path) -> Callable[[], object]:
        made = batches(rows, size, keyed=keyed)
        return lambda: _write(str(folder / "log"), made, partitions)

    return prepare


def reading(rows: int, size: int, *, keyed: bool, partitions: int) -> Work:
    """The batch source."""

    def prepare(folder: Path) -> Callable[[], object]:
        url = str(folder / "log")
        _write(url, batches(rows, size, keyed=keyed), partitions)

        def read() -> None:
            source = EosLogDataSource({"path": url, "subscribe": "t"})
            reader = source.reader(source.schema())
            found = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
            assert found == rows

        return read

    return prepare


def micro_batches(folder: Path) -> Callable[[], object]:
    """The streaming source and sink, as Spark calls them."""
    url, checkpoint = str(folder / "log"), folder / "checkpoint"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    query, run = str(uuid.uuid4()), str(uuid.uuid4())
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))
    rows = batches(1_000, 100, keyed=False)[0]
    with Producer(url) as producer:
        producer.send_arrow("in", rows)
    source = EosLogDataSource({"path": url, "subscribe": "in", "startingoffsets": "earliest"})
    reader = source.streamReader(source.schema())
    sink = EosLogDataSource({"path": url, "topic": "out", "checkpointlocation": str(checkpoint)})

    def copy() -> None:
        at = reader.initialOffset()
        with Producer(url) as producer:
            for number in range(30):
                producer.send_arrow("in", rows)
                producer.flush()
                end = reader.latestOffset(at, ReadAllAvailable())
                (checkpoint / "offsets" / str(number)).write_text("v1\n{}\n" + json.dumps(end))
                messages: list[Any] = []
                for task in reader.partitions(at, end):
                    values = (batch.select(["value"]) for batch in reader.read(task))
                    message: Any = sink.streamWriter(VALUES, overwrite=False).write(values)
                    message.query_id, message.run_id = query, run
                    messages.append(message)
                sink.streamWriter(VALUES, overwrite=False).commit(messages, number)
                (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
                at = end

    return copy


def transactions(folder: Path) -> Callable[[], object]:
    """Small transactions of one producer."""

    def commit() -> None:
        with Producer(str(folder / "log"), {"transactional.id": "t"}) as producer:
            producer.init_transactions()
            for number in range(150):
                producer.begin_transaction()
                producer.send("t", b"%d" % number, key=b"key")
                producer.commit_transaction()

    return commit


def sending(folder: Path) -> Callable[[], object]:
    """Record by record, in one transaction."""

    def send() -> None:
        with Producer(str(folder / "log"), {"transactional.id": "t"}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for _ in range(10_000):
                producer.send("t", b"x" * 1_000)
            producer.commit_transaction()

    return send


def sending_arrow(folder: Path) -> Callable[[], object]:
    """A thousand records a call."""
    rows = batches(1_000, 1_000, keyed=False)[0]

    def send() -> None:
        with Producer(str(folder / "log"), {"transactional.id": "t"}) as producer:
            producer.init_transactions()
            for _ in range(5):
                producer.begin_transaction()
                for _ in range(30):
                    producer.send_arrow("t", rows)
                producer.commit_transaction()

    return send


def consuming(folder: Path) -> Callable[[], object]:
    """A consumer that reads record by record."""
    url = str(folder / "log")
    _write(url, batches(50_000, 100, keyed=True), 1)

    def consume() -> None:
        with Consumer(url) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek_to_beginning()
            found = 0
            while found < 50_000:
                found += len(consumer.poll(timeout_ms=1_000))

    return consume


def opening(folder: Path) -> Callable[[], object]:
    """A log of some hundred entries, by its folder."""
    url = str(folder / "log")
    transactions(folder)()
    # Another name for it: what this process knows of the log does not count.
    other = folder / "other"
    other.symlink_to(url)

    def open_() -> None:
        with Admin(str(other)) as admin:
            assert admin.list_topics()

    return open_


PIECES: dict[str, Work] = {
    "write-100B": writing(500_000, 100, keyed=False, partitions=1),
    "write-1KB": writing(100_000, 1_000, keyed=False, partitions=1),
    "write-keyed": writing(300_000, 100, keyed=True, partitions=64),
    "read-100B": reading(500_000, 100, keyed=False, partitions=1),
    "read-1KB": reading(100_000, 1_000, keyed=False, partitions=1),
    "read-keyed": reading(300_000, 100, keyed=True, partitions=64),
    "micro-batches": micro_batches,
    "transactions": transactions,
    "send": sending,
    "send_arrow": sending_arrow,
    "consume": consuming,
    "open": opening,
}


def measure(folder: Path, names: list[str]) -> dict[str, Timed]:
    """Each piece of work twice, each time from the beginning; the second one counts."""
    took = {}
    for name in names or list(PIECES):
        for turn in range(2):
            place = folder / f"{name}-{turn}"
            place.mkdir()
            timed = PIECES[name](place)
            began, spent = time.perf_counter(), time.process_time()
            timed()
            took[name] = time.perf_counter() - began, time.process_time() - spent
    return took


def main(root: str, folder: str, *names: str) -> None:
    """Measure the tree at ``root``, and no other."""
    found = Path(spark_eos.__file__).resolve().parent.parent
    if found != Path(root).resolve():
        raise SystemExit(f"meant to measure {root}, but Python found {found}")
    print(json.dumps(measure(Path(folder), list(names))))


if __name__ == "__main__":
    main(*sys.argv[1:])
