"""Batch reads of key and value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, faster, timed
from benchmarks.results import Ratio, Result
from benchmarks.rows import cached, label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

TITLE = "Batch source"

TEXT = """
The same rows, keyed, are read back into Spark's own `noop` sink, key and value of them. *bare* is a data source in
Python that returns the record batches of eoslog's own files by memory map, unchecked and in no order: no reader of
these files in Python can be faster. *bare, all columns* adds the columns that eoslog's and Kafka's rows have and the
files do not (topic, partition, offset, timestamp, timestampType). Spark does not pass the columns that a query needs
to Python sources, so *eoslog* makes all of them too; *eoslog, two columns* gets them from `.schema("key binary, value
binary")`, *Delta* and *Parquet* from the query. Only like is compared with like. eoslog checks the CRC of every
batch, and reads files instead of mapping them; *read, not mapped* is bare without the map.
"""

_TARGETS = {"bare": 0.9, "bare, all columns": 0.9, "Kafka": 3.0}

_NARROW = "eoslog, two columns"
"""Ours, with the columns that the query needs."""

_ALL_COLUMNS = ("bare, all columns", "read, not mapped, all columns", "Kafka")
"""Whose rows have all columns, whatever the query wants."""

PARTITIONS = 8


def run(bench: Bench) -> Result:
    """All sizes, all contenders."""
    result = Result("source")
    sizes = bench.choose(
        ((100, 1_000_000), (1_000, 250_000)), ((100, 2_000_000), (1_000, 400_000), (10_000, 40_000))
    )
    for size, rows in sizes:
        frame = cached(bench.peers.spark, bench.fresh("input"), rows, size, keyed=True)
        case = Case(bench, f"{label(size)}, {PARTITIONS} partitions")
        for name, read, there in contenders(bench, written(bench, frame), typed=False):
            case.add(name, read, there=there)
        frame.unpersist()
        case.run(bench.repeats(3, 5))
        ratios(result, case, small=size <= 1_000)
        case.figures(result, lambda taken, rows=rows: rows / taken.clock / 1000, "thousand rows/s")  # type: ignore[misc]
    return result


def ratios(result: Result, case: Case, *, small: bool, delta: float = 2.0) -> None:
    """Ours against all others, with the targets for rows of up to 1 KB; and what the limit would reach.

    ``delta`` is the target beside Delta.
    """
    targets = {**_TARGETS, "Delta": delta} if small else {}
    narrow = case.runs.get(_NARROW)
    for name, taken in case.runs.items():
        if name in {"eoslog", _NARROW}:
            continue
        target = targets.get(name)
        if narrow is None or name in _ALL_COLUMNS:
            result.ratios.append(Ratio(case.name, name, faster(case.runs["eoslog"], taken), target))
        else:
            what = f"{case.name}, two columns"
            result.ratios.append(Ratio(what, name, faster(narrow, taken), target))
    if "Delta" in case.runs:
        limit = faster(case.runs["bare"], case.runs["Delta"])
        result.ratios.append(Ratio(f"{case.name}; the limit, *bare*", "Delta", limit))


class Places(NamedTuple):
    """Where the same rows are: a folder of each, and Kafka's topic."""

    log: str
    parquet: str
    delta: str
    topic: str


def written(bench: Bench, frame: DataFrame, *kafka_columns: str) -> Places:
    """Write ``frame`` once for each that is there.

    ``kafka_columns``: what Kafka is given for a frame that has no value, as expressions; eoslog makes a typed topic.
    """
    log, parquet, delta, topic = (bench.fresh(name) for name in Places._fields)
    places = Places(str(log), str(parquet), str(delta), topic.name)
    writer = frame.write.format("eoslog").option("topic", "t").option("num.partitions", PARTITIONS)
    writer.mode("append").save(places.log)
    frame.write.parquet(places.parquet)
    if bench.peers.delta:
        frame.write.format("delta").save(places.delta)
    broker = bench.peers.broker
    if broker is not None:
        broker.create(places.topic, PARTITIONS)
        options = {"kafka.bootstrap.servers": broker.address, "topic": places.topic}
        shown = frame.selectExpr(*kafka_columns) if kafka_columns else frame
        shown.write.format("kafka").options(**options).save()
    return places


def timed_read(make: Callable[[], DataFrame]) -> Callable[[], Taken]:
    """Read what ``make`` makes, and drop it."""

    def run() -> Taken:
        with timed() as timer:
            make().write.format("noop").mode("overwrite").save()
        return timer.taken

    return run


def contenders(bench: Bench, places: Places, *, typed: bool) -> list[tuple[str, Callable[[], Taken], bool]]:
    """Who reads all rows, and whether the peer is there. ``typed``: with all their columns, else key and value."""
    spark, broker = bench.peers.spark, bench.peers.broker
    files = json.dumps(sorted(str(path) for path in Path(places.log).glob("data/*/*.arrow")))

    def read(make: Callable[[], DataFrame]) -> Callable[[], Taken]:
        return timed_read(make if typed else lambda: make().select("key", "value"))

    def kafka() -> DataFrame:
        assert broker is not None
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
        return reader.option("subscribe", places.topic).load()

    def plain(**options: str) -> DataFrameReader:
        return spark.read.format("bench_files").options(files=files, **options)

    def ours() -> DataFrameReader:
        return spark.read.format("eoslog").option("subscribe", "t").option("path", places.log)

    return [
        ("bare", read(lambda: plain().load()), True),
        ("eoslog", read(lambda: ours().load()), True),
        (_NARROW, read(lambda: ours().schema("key binary, value binary").load()), not typed),
        ("bare, all columns", read(lambda: plain(like_kafka="true").load()), not typed),
        ("read, not mapped", read(lambda: plain(read="true").load()), True),
        (
            "read, not mapped, all columns",
            read(lambda: plain(read="true", like_kafka="true").load()),
            not typed,
        ),
        ("Delta", read(lambda: spark.read.format("delta").load(places.delta)), bench.peers.delta),
        ("Parquet", read(lambda: spark.read.parquet(places.parquet)), True),
        ("Kafka", read(kafka), broker is not None),
    ]
