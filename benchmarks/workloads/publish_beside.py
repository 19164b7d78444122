"""What a publication costs a writer that writes at the same time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, faster
from benchmarks.results import Ratio, Result
from spark_eos import Admin, Log
from spark_eos.extensions.tables.tables import Tables

TITLE = "A writer beside publishing"

TEXT = """
A process with a transactional producer commits 1,000 records of 100 bytes at a time as fast as it can, to a topic of
four partitions, in a log of its own each time: alone, beside `eoslog maintain --watch 1`, and beside that with a
publication of the topic, of which each pass makes a version. All of that is on two cores.
"""

NAME, TOPIC = "nightly", "t"
ROWS = 1_000
ALONE, MAINTAINED, PUBLISHED = "alone", "beside maintain", "beside maintain that publishes"


def run(bench: Bench) -> Result:
    """All three, in rounds."""
    result = Result("publish_beside")
    beside(bench, result, bench.choose(2.0, 6.0))
    return result


def beside(bench: Bench, result: Result, seconds: float) -> None:
    """A writer alone, beside maintenance, and beside maintenance that publishes."""
    case = Case(bench, "a writer")
    made: list[int] = []
    for name in (ALONE, MAINTAINED, PUBLISHED):
        case.add(name, partial(_write_beside, bench, name, seconds, made))
    case.run(bench.repeats(1, 5), warm_up=0)
    for ours, theirs, target in (
        (PUBLISHED, ALONE, 0.95),
        (PUBLISHED, MAINTAINED, 0.95),
        (MAINTAINED, ALONE, None),
    ):
        speeds = faster(case.runs[ours], case.runs[theirs])
        result.ratios.append(Ratio(f"records/s of a writer {ours}", theirs, speeds, target))
    case.figures(result, lambda taken: 1 / taken.clock / 1000, "thousand records/s")
    result.notes.append(
        f"While the writer wrote for {seconds:.0f} s, from {min(made)} to {max(made)} versions were made."
    )


def _write_beside(bench: Bench, name: str, seconds: float, made: list[int]) -> Taken:
    """Seconds of one record."""
    with bench.passing("log") as url, bench.passing("marks") as marks:
        marks.mkdir()
        Admin(Log.create(str(url))).create_topic(TOPIC, 4)
        if name == PUBLISHED:
            Tables(str(url)).create(NAME, [TOPIC])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        start: Callable[..., subprocess.Popen[str]] = partial(
            subprocess.Popen, stdout=subprocess.PIPE, text=True, env=environment
        )
        ready, go = marks / "ready", marks / "go"
        given = [str(url), str(seconds), str(ready), str(go), "0", "0", "0", str(ROWS)]
        processes = [start([sys.executable, "-m", "benchmarks.writer", *given])]
        try:
            _wait(processes, ready.exists)
            if name != ALONE:
                watch = [sys.executable, "-m", "spark_eos", "maintain", str(url), "--watch", "1"]
                with (marks / "passes").open("w") as passes:
                    processes.append(start(watch, stdout=passes))
                # The last step of the first pass, which has published what the writer has warmed up with.
                _wait(processes, lambda: "expire" in (marks / "passes").read_text())
            before = _versions(str(url))
            go.touch()
            took = json.loads(processes[0].communicate()[0])
            if name == PUBLISHED:
                made.append(_versions(str(url)) - before)
                if made[-1] < 1:
                    raise RuntimeError("nothing was published meanwhile: see the report of maintenance above")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return Taken(seconds / (len(took) * ROWS))


def _wait(processes: list[subprocess.Popen[str]], until: Callable[[], bool]) -> None:
    while not until():
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("the writer or maintenance ended too early; what it said is above")
        time.sleep(0.05)


def _versions(url: str) -> int:
    publication = Log.open(url).state.publications.get(NAME)
    return 0 if publication is None else publication.sequence
