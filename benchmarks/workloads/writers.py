"""Many processes that write small transactions to one log."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.results import Figure, Ratio, Result
from spark_eos.log.log import Log

TITLE = "Many writers"

TEXT = """
1, 4 and 16 processes, each with a transactional producer of its own, commit transactions of one record to one
partition as fast as they can: commits per second of all together, and how long one takes. Once in a folder, once in a
folder where each write takes 5 ms longer, as on a disk that is attached by the network, and once on a store where
each request takes 100 ms longer, as on a distant store.

Processes that write at the same time share entries (docs/design/0006-group-commit.md). In a folder on a quick disk
the 16 are limited by the two processors: one process alone keeps three quarters of a core busy, so two cores could
give at most 2.6 times its commits, if no process had to know what the others write. One of them leads and reads what
all submit, and the others read no entries: they take the outcomes from its reports. Where a write takes longer they
commit many times as much. Before entries were shared the 16 committed 0.16 times as much as one, and 1.1 times when
each of them read all entries.
"""

COUNTS = (1, 4, 16)


class Found(NamedTuple):
    """What the writers of one run did."""

    rate: float
    p50: float
    p99: float


def run(bench: Bench) -> Result:
    """Both stores, all counts, in rounds."""
    result = Result("writers")
    for case, delay, writes, seconds, target in (
        ("folder", 0.0, False, bench.choose(3.0, 5.0), 2.0),
        ("folder, 5 ms a write", 0.005, True, bench.choose(3.0, 5.0), None),
        ("100 ms a request", 0.1, False, bench.choose(6.0, 12.0), 8.0),
    ):
        bench.say(f" {case}")
        repeat = bench.repeats(2, 3)
        runs: dict[int, list[Found]] = {count: [] for count in COUNTS}
        for number in range(repeat):
            for count in COUNTS if number % 2 == 0 else reversed(COUNTS):
                runs[count].append(writers(bench, count, seconds, delay, writes=writes))
            told = ", ".join(f"{count}: {found[-1].rate:.1f}/s" for count, found in runs.items())
            bench.say(f"  round {number + 1} of {repeat}: {told}")
        for count in COUNTS[1:]:
            pairs = tuple(many.rate / one.rate for one, many in zip(runs[1], runs[count], strict=True))
            most = count == COUNTS[-1]
            result.ratios.append(
                Ratio(
                    f"{case}, commits/s of {count} processes", "one process", pairs, target if most else None
                )
            )
            tail = tuple(found.p99 / found.p50 for found in runs[count])
            result.ratios.append(
                Ratio(
                    f"{case}, {count} processes, p99",
                    "p50",
                    tail,
                    5.0 if most and target else None,
                    at_most=True,
                )
            )
        for count, found in runs.items():
            name = f"{count} process{'es' * (count > 1)}"
            result.figures += [
                Figure(case, name, tuple(one.rate for one in found), "commits/s"),
                Figure(f"{case}, p50", name, tuple(one.p50 for one in found), "ms of a commit"),
                Figure(f"{case}, p99", name, tuple(one.p99 for one in found), "ms of a commit"),
            ]
    return result


def writers(bench: Bench, count: int, seconds: float, delay: float, *, writes: bool = False) -> Found:
    """Start them all, let them go together, and gather what they say."""
    url, marks = str(bench.fresh("log")), bench.fresh("marks")
    marks.mkdir()
    Log.create(url).ensure_topic("t")
    go = marks / "go"
    processes = []
    try:
        for number in range(count):
            command = [sys.executable, "-m", "benchmarks.writer", url, str(seconds), str(marks / str(number))]
            command += [str(go), str(delay), "1" if writes else "0", str(number)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))  # noqa: S603
        while len(list(marks.iterdir())) < count:
            if any(process.poll() for process in processes):
                raise RuntimeError("a writer ended before it began; what it said is above")
            time.sleep(0.02)
        go.touch()
        took = [ms for process in processes for ms in json.loads(process.communicate()[0])]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    quantiles = statistics.quantiles(took, n=100, method="inclusive") if len(took) > 1 else took * 99
    return Found(len(took) / seconds, quantiles[49], quantiles[98])
