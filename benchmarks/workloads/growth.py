"""Ten thousand micro-batches of one query."""

from __future__ import annotations

import statistics
import time

from benchmarks.bench import Bench
from benchmarks.direct import Query
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import table
from spark_eos import Producer
from spark_eos.log.log import Log

TITLE = "Growth"

TEXT = """
One query without Spark, whose source and sink are called as Spark calls them, copies 10,000 micro-batches of 100 rows
on one log, each of them produced in a transaction of its own just before. The log is never maintained but by what
commits do themselves. By the clock, which includes waiting for the disk, and by the processor's time. How logs of
100,000 transactions are opened, read and maintained is in [growth](growth.md).
"""

_PARTS = 5


def run(bench: Bench) -> Result:
    """All micro-batches; the last ones against the first."""
    result = Result("growth")
    count = bench.choose(1_000, 10_000)
    url = str(bench.fresh("log"))
    Log.create(url).ensure_topic("in")
    query = Query(url, bench.fresh("checkpoint"))
    rows = table(100, 100, keyed=False)
    took: list[tuple[float, float]] = []
    with Producer(url) as producer:
        for number in range(count):
            producer.send_arrow("in", rows)
            producer.flush()
            began, spent = time.perf_counter(), time.process_time()
            query.micro_batch()
            took.append(((time.perf_counter() - began) * 1000, (time.process_time() - spent) * 1000))
            if (number + 1) % 1_000 == 0:
                clock = statistics.median(clock for clock, _ in took[-500:])
                bench.say(f" {number + 1} micro-batches, the last ones take {clock:.1f} ms")
    step = count // 40
    for at, what in enumerate(("clock", "processor")):
        medians = [
            statistics.median(one[at] for one in took[low : low + step]) for low in range(0, count, step)
        ]
        result.curves[f"{what}, ms of a micro-batch"] = [(low * step, ms) for low, ms in enumerate(medians)]
        # The first part is left out: it is warming up.
        early, late = medians[1 : 1 + _PARTS], medians[-_PARTS:]
        pairs = tuple(last / first for first, last in zip(early, late, strict=True))
        result.ratios.append(
            Ratio(f"the last of {count:,} micro-batches, {what}", "the first ones", pairs, 1.1, at_most=True)
        )
        for name, values in (("the first ones", early), ("the last ones", late)):
            result.figures.append(Figure(f"one micro-batch, {what}", name, tuple(values), "ms"))
    return result
