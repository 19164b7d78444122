"""Batch writes of key and value."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.bench import LIMIT, Bench, Case
from benchmarks.pairing import Taken, faster, timed
from benchmarks.results import Ratio, Result
from benchmarks.rows import cached, label
from spark_eos.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Batch sink"

TEXT = """
Rows that Spark holds in memory, in two tasks, are written by one `df.write…save()`; no measurement includes the time
to make them. *no-op* is a data source in Python whose Arrow writer drops its rows: no sink in Python can be faster.
*Arrow files* writes the rows of each task into an Arrow file of its own, to the disk in the same way as eoslog, and
does nothing else: no partitions, no checksums, no commit. Values are random hexadecimal digits of equal length, which
eoslog uses where it sorts them by partition (benchmarks/journal/speed.md); keys are 100,000 different ones of 5 to 9
bytes. Delta and Parquet compress; eoslog tries to, by default, and leaves such digits plain. eoslog waits for `fsync`
and is exactly-once; Kafka's sink is at-least-once, and neither its broker nor Delta nor Parquet calls `fsync`.
"""


class Shape(NamedTuple):
    """What is written."""

    size: int
    rows: int
    keyed: bool
    partitions: int

    def __str__(self) -> str:
        """The case's name."""
        keyed = "keyed" if self.keyed else "unkeyed"
        return f"{label(self.size)}, {keyed}, {self.partitions} partition{'s' * (self.partitions > 1)}"


_FULL = (
    *((100, 1_000_000, False, partitions) for partitions in (1, 64)),
    *((100, 1_000_000, True, partitions) for partitions in (1, 8, 64)),
    (1_000, 250_000, False, 1),
    (1_000, 250_000, True, 64),
    (10_000, 25_000, False, 1),
    (10_000, 25_000, True, 64),
)

_QUICK = (
    (100, 1_000_000, False, 1),
    (100, 1_000_000, True, 64),
    (1_000, 250_000, False, 1),
)


def run(bench: Bench) -> Result:
    """All shapes, all contenders."""
    result = Result("sink")
    frames: dict[tuple[int, bool], DataFrame] = {}
    for shape in (Shape(*one) for one in bench.choose(_QUICK, _FULL)):
        key = shape.size, shape.keyed
        if key not in frames:
            for old in frames.values():
                old.unpersist()
            folder = bench.fresh(f"input-{shape.size}-{shape.keyed}")
            frames = {
                key: cached(bench.peers.spark, folder, shape.rows, shape.size, keyed=shape.keyed),
            }
        _compare(bench, result, shape, frames[key])
    for old in frames.values():
        old.unpersist()
    return result


def _compare(bench: Bench, result: Result, shape: Shape, frame: DataFrame) -> None:
    case = Case(bench, str(shape))
    for name, write, there in contenders(bench, frame, shape.partitions):
        case.add(name, write, there=there)
    case.run(bench.repeats(3, 5))
    ratios(result, case, keyed=shape.keyed and shape.partitions > 1, small=shape.size <= 1_000)
    case.figures(result, lambda taken: shape.rows / taken.clock / 1000, "thousand rows/s")


def ratios(result: Result, case: Case, *, keyed: bool, small: bool) -> None:
    """Ours against all others, with the targets for rows of up to 1 KB."""
    targets = {LIMIT: 0.7 if keyed else 0.9, "Kafka": 3.0, "Delta": 1.3}
    for name, taken in case.runs.items():
        if name != "eoslog":
            target = targets.get(name) if small else None
            result.ratios.append(Ratio(case.name, name, faster(case.runs["eoslog"], taken), target))


def contenders(
    bench: Bench, frame: DataFrame, partitions: int, *kafka_columns: str
) -> list[tuple[str, Callable[[], Taken], bool]]:
    """Who writes ``frame``, each to a new place which is gone afterwards; and whether the peer is there.

    ``kafka_columns``: what Kafka is given for a frame that has no value, as expressions; eoslog makes a typed topic.
    """
    broker = bench.peers.broker

    def folder(write: Callable[[str], None]) -> Callable[[], Taken]:
        def run() -> Taken:
            with bench.passing("out") as path:
                with timed() as timer:
                    write(str(path))
                return timer.taken

        return run

    def eoslog() -> Taken:
        with bench.passing("out") as path:
            if not kafka_columns:
                Log.create(str(path)).ensure_topic("t", partitions)
            with timed() as timer:
                writer = (
                    frame.write.format("eoslog").option("topic", "t").option("num.partitions", partitions)
                )
                writer.mode("append").save(str(path))
            return timer.taken

    def kafka() -> Taken:
        assert broker is not None
        topic = f"t-{uuid.uuid4()}"
        broker.create(topic, partitions)
        try:
            with timed() as timer:
                shown = frame.selectExpr(*kafka_columns) if kafka_columns else frame
                writer = shown.write.format("kafka").option("kafka.bootstrap.servers", broker.address)
                writer.option("topic", topic).save()
            return timer.taken
        finally:
            broker.delete(topic)

    def noop() -> Taken:
        with timed() as timer:
            frame.write.format("bench_noop").mode("append").save()
        return timer.taken

    return [
        (LIMIT, noop, True),
        ("eoslog", eoslog, True),
        (
            "Arrow files",
            folder(lambda path: frame.write.format("bench_files").mode("append").save(path)),
            True,
        ),
        ("Delta", folder(lambda path: frame.write.format("delta").save(path)), bench.peers.delta),
        ("Parquet", folder(frame.write.parquet), True),
        ("Kafka", kafka, broker is not None),
    ]
