"""Ten thousand micro-batches of one query."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing

from benchmarks.bench import Bench
from benchmarks.direct import Query
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import table
from spark_eos import Producer
from spark_eos.log.log import Log

TITLE = "Growth"

TEXT = """
One query without Spark, whose source and sink are called as Spark calls them, copies 10,000 micro-batches of 100 rows
on one log, each of them produced in a transaction of its own just before. The only maintenance is what commits do
themselves. The plot shows how long micro-batches take; it also shows how quick the machine was at that moment. So at
the end five times 250 more take turns with those of a new log. By the clock, which includes waiting for the disk, and
by the processor's time. How logs of 100,000 transactions are opened, read and maintained is in [growth](growth.md).
"""

_PARTS = 5

_Took = tuple[float, float]
"""Milliseconds by the clock, and of the processor."""


class _Copying:
    """A log, who writes to it, and the query that copies."""

    def __init__(self, bench: Bench) -> None:
        url = str(bench.fresh("log"))
        Log.create(url).ensure_topic("in")
        self._query = Query(url, bench.fresh("checkpoint"))
        self._producer = Producer(url)
        self._rows = table(100, 100, keyed=False)

    def micro_batch(self) -> _Took:
        self._producer.send_arrow("in", self._rows)
        self._producer.flush()
        began, spent = time.perf_counter(), time.process_time()
        self._query.micro_batch()
        return (time.perf_counter() - began) * 1000, (time.process_time() - spent) * 1000

    def close(self) -> None:
        self._producer.close()


def run(bench: Bench) -> Result:
    """All micro-batches of a log; then some more, in turn with those of a new one."""
    result = Result("growth")
    count = bench.choose(1_000, 10_000)
    step = count // 40
    with closing(_Copying(bench)) as old, closing(_Copying(bench)) as new:
        took = []
        for number in range(count):
            took.append(old.micro_batch())
            if (number + 1) % 1_000 == 0:
                clock = statistics.median(clock for clock, _ in took[-500:])
                bench.say(f" {number + 1} micro-batches, the last ones take {clock:.1f} ms")
        for _ in range(step):
            new.micro_batch()  # To warm up.
        parts = [[(old.micro_batch(), new.micro_batch()) for _ in range(step)] for _ in range(_PARTS)]
    for at, what in enumerate(("clock", "processor")):
        result.curves[f"{what}, ms of a micro-batch"] = [
            (low, _median(took[low : low + step], at)) for low in range(0, count, step)
        ]
        late = [_median([one for one, _ in part], at) for part in parts]
        early = [_median([one for _, one in part], at) for part in parts]
        pairs = tuple(last / first for last, first in zip(late, early, strict=True))
        behind = f"after {count:,}"
        result.ratios.append(
            Ratio(f"a micro-batch {behind}, {what}", "one of a new log", pairs, 1.1, at_most=True)
        )
        for name, values in (("of a new log", early), (behind, late)):
            result.figures.append(Figure(f"one micro-batch, {what}", name, tuple(values), "ms"))
    return result


def _median(took: Sequence[_Took], at: int) -> float:
    return statistics.median(one[at] for one in took)
