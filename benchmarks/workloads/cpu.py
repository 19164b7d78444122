"""Time of the processor, in all processes together."""

from __future__ import annotations

from benchmarks.bench import Bench, Case
from benchmarks.pairing import Runs
from benchmarks.results import Ratio, Result
from benchmarks.rows import cached, label
from benchmarks.workloads import sink, source

TITLE = "Processor time"

TEXT = """
Seconds of the processor per million rows, keyed, 8 partitions: of Spark's virtual machine and of all Python processes
together, and of the broker for Kafka. Other programs on the machine change these figures less than times by the
clock. The ratios are of times: below 1, eoslog needs less.
"""


def run(bench: Bench) -> Result:
    """Sink and source, two sizes."""
    result = Result("cpu")
    for size, rows in ((100, 1_000_000), (1_000, 250_000)):
        frame = cached(bench.peers.spark, bench.fresh("input"), rows, size, keyed=True)
        writing, reading = (Case(bench, f"{what}, {label(size)}") for what in ("sink", "source"))
        for name, write, there in sink.contenders(bench, frame, 8):
            writing.add(name, write, there=there)
        for name, read, there in source.contenders(bench, source.written(bench, frame), typed=False):
            reading.add(name, read, there=there)
        writing.run(bench.repeats(2, 5))
        frame.unpersist()
        reading.run(bench.repeats(2, 5))
        for case in (writing, reading):
            _ratios(result, case.name, case.runs)
            scale = 1_000_000 / rows
            case.figures(result, lambda taken, scale=scale: taken.processor * scale, "CPU s per million rows")  # type: ignore[misc]
    return result


def _ratios(result: Result, case: str, runs: Runs) -> None:
    for name, taken in runs.items():
        if name != "eoslog":
            pairs = zip(runs["eoslog"], taken, strict=True)
            values = tuple(us.processor / them.processor for us, them in pairs)
            result.ratios.append(Ratio(case, name, values, at_most=True))
