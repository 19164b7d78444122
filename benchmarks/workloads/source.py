"""Batch reads of key and value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

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

_TARGETS = {"bare": 0.9, "bare, all columns": 0.9, "Kafka": 3.0, "Delta": 2.0}

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
        for name, read, there in contenders(bench, frame):
            case.add(name, read, there=there)
        frame.unpersist()
        case.run(bench.repeats(3, 5))
        ratios(result, case, small=size <= 1_000)
        case.figures(result, lambda taken, rows=rows: rows / taken.clock / 1000, "thousand rows/s")  # type: ignore[misc]
    return result


def ratios(result: Result, case: Case, *, small: bool) -> None:
    """Ours against all others, with the targets for rows of up to 1 KB; and what the limit would reach."""
    narrow = case.runs.get(_NARROW)
    for name, taken in case.runs.items():
        if name in {"eoslog", _NARROW}:
            continue
        target = _TARGETS.get(name) if small else None
        if narrow is None or name in _ALL_COLUMNS:
            result.ratios.append(Ratio(case.name, name, faster(case.runs["eoslog"], taken), target))
        else:
            what = f"{case.name}, two columns"
            result.ratios.append(Ratio(what, name, faster(narrow, taken), target))
    if "Delta" in case.runs:
        limit = faster(case.runs["bare"], case.runs["Delta"])
        result.ratios.append(Ratio(f"{case.name}; the limit, *bare*", "Delta", limit))


def contenders(
    bench: Bench, frame: DataFrame, *kafka_columns: str
) -> list[tuple[str, Callable[[], Taken], bool]]:
    """Write ``frame`` once for each; who reads it, and whether the peer is there.

    ``kafka_columns``: what Kafka is given for a frame that has no value, as expressions; eoslog makes a typed topic.
    """
    spark, broker, delta = bench.peers.spark, bench.peers.broker, bench.peers.delta
    log, parquet, table = (str(bench.fresh(name)) for name in ("log", "parquet", "delta"))
    writer = frame.write.format("eoslog").option("topic", "t").option("num.partitions", PARTITIONS)
    writer.mode("append").save(log)
    files = json.dumps(sorted(str(path) for path in Path(log).glob("data/*/*.arrow")))
    frame.write.parquet(parquet)
    if delta:
        frame.write.format("delta").save(table)
    topic = bench.fresh("topic").name
    if broker is not None:
        broker.create(topic, PARTITIONS)
        options = {"kafka.bootstrap.servers": broker.address}
        shown = frame.selectExpr(*kafka_columns) if kafka_columns else frame
        shown.write.format("kafka").options(**options).option("topic", topic).save()

    def read(make: Callable[[], DataFrame]) -> Callable[[], Taken]:
        def run() -> Taken:
            with timed() as timer:
                rows = make() if kafka_columns else make().select("key", "value")
                rows.write.format("noop").mode("overwrite").save()
            return timer.taken

        return run

    def kafka() -> DataFrame:
        assert broker is not None
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
        return reader.option("subscribe", topic).load()

    def plain(**options: str) -> DataFrameReader:
        return spark.read.format("bench_files").options(files=files, **options)

    def ours() -> DataFrameReader:
        return spark.read.format("eoslog").option("subscribe", "t").option("path", log)

    return [
        ("bare", read(lambda: plain().load()), True),
        ("eoslog", read(lambda: ours().load()), True),
        (_NARROW, read(lambda: ours().schema("key binary, value binary").load()), not kafka_columns),
        ("bare, all columns", read(lambda: plain(like_kafka="true").load()), not kafka_columns),
        ("read, not mapped", read(lambda: plain(read="true").load()), True),
        (
            "read, not mapped, all columns",
            read(lambda: plain(read="true", like_kafka="true").load()),
            not kafka_columns,
        ),
        ("Delta", read(lambda: spark.read.format("delta").load(table)), delta),
        ("Parquet", read(lambda: spark.read.parquet(parquet)), True),
        ("Kafka", read(kafka), broker is not None),
    ]
