"""What a person does on the page of a log of a million entries and 10,000 partitions."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from typing import Any

from benchmarks.bench import Bench
from benchmarks.long_log import WIDE, written
from benchmarks.results import Figure, Ratio, Result
from spark_eos.extensions.ui.areas.history import entries, entry_at
from spark_eos.extensions.ui.areas.overview import overview
from spark_eos.extensions.ui.areas.strip import strip
from spark_eos.extensions.ui.areas.topics import show_topic
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question

TITLE = "The page of a long log"

TEXT = f"""
A log with a topic of {WIDE:,} partitions and a million entries, none of them retired, against one of 10,000 entries,
both in memory: what the server of `eoslog ui` takes to answer, without the browser, and how many requests of a store it
sends. *Jump* is to entry 49, to the middle, and to 1,000 before the end; *by time* is a search for the entry of a time.
*Poll* is the look once a second that finds nothing new.
"""

YOUNG = 10_000


def run(bench: Bench) -> Result:
    """Both logs."""
    result = Result("long_page")
    lengths = bench.choose((YOUNG, 2 * YOUNG), (YOUNG, 1_000_000))
    young, old = (looked_at(bench, result, length) for length in lengths)
    for what, target in (("requests", 1.05), ("seconds", 2.0)):
        index = ("requests", "seconds").index(what)
        sums = [sum(cost[index] for name, cost in one.items() if name != "by time") for one in (young, old)]
        against = f"{lengths[0]:,} entries"
        result.ratios.append(
            Ratio(
                f"{what} of all, of {lengths[1]:,} entries",
                against,
                (sums[1] / sums[0],),
                target,
                at_most=True,
            )
        )
    return result


def looked_at(bench: Bench, result: Result, length: int) -> dict[str, tuple[int, float]]:
    """Requests and seconds of each step."""
    store = written(length, bench.say)
    # The store's objects are another process's in life: Python's collector would walk a million of them at each look.
    gc.collect()
    gc.freeze()
    before = _peak_kb()
    found: dict[str, tuple[int, float]] = {}
    began = time.perf_counter()
    follower = Follower(store)
    found["open"] = sum(follower.store.requests.values()), time.perf_counter() - began
    for name, step in _steps(follower, length).items():
        requests, began = sum(follower.store.requests.values()), time.perf_counter()
        step()
        found[name] = sum(follower.store.requests.values()) - requests, time.perf_counter() - began
    contender = f"{length:,} entries"
    for name, (requests, seconds) in found.items():
        result.figures.append(Figure(name, contender, (seconds * 1000,), "ms"))
        result.figures.append(Figure(name, contender, (float(requests),), "requests"))
    gc.unfreeze()
    grown = (_peak_kb() - before) / 1000
    result.figures.append(Figure("memory of it all", contender, (grown,), "MB"))
    bench.say(
        f" {contender}: " + ", ".join(f"{name} {1000 * cost[1]:.1f} ms" for name, cost in found.items())
    )
    return found


def _steps(follower: Follower, length: int) -> dict[str, Callable[[], Any]]:
    def ask(area: Callable[[Follower, Question], Any], **fields: object) -> Callable[[], Any]:
        return lambda: area(follower, Question(fields))

    return {
        "overview": ask(overview),
        "overview again": ask(overview),
        "the wide topic": ask(show_topic, topic="wide"),
        "newest entries": ask(entries),
        "strip": ask(strip),
        "the page before": ask(entries, until=length - 50),
        "jump to the first": ask(entries, until=49),
        "jump to the middle": ask(entries, until=length // 2),
        "jump near the end": ask(entries, until=length - 1000),
        "by time": lambda: entry_at(follower, Question({"time": str(_time(follower))})),
        "poll": follower.poll,
    }


def _time(follower: Follower) -> Any:
    return entries(follower, Question({"until": 49}))["rows"][0]["time"]


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
