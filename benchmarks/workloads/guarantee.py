"""What exactly-once costs against our own at-least-once."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

from benchmarks.bench import Bench, Case
from benchmarks.direct import Query
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import table
from benchmarks.workloads import producers
from spark_eos import Producer
from spark_eos.log.log import Log

TITLE = "Exactly once against at least once"

TEXT = """
*Sink*: two queries without Spark, whose source and sink are called as Spark calls them, copy micro-batches of 5,000
rows of 1 KB, in turn; one with `processing.guarantee=exactly_once`, one with `at_least_once`. The additional time of
the first one for a micro-batch is given as a share of the time between two transactions: the fewer transactions, the
smaller the share. *Producer*: `send_arrow` in a transaction every 100 ms, against an idempotent producer that flushes
as often.
"""

_ROWS = 5_000


def run(bench: Bench) -> Result:
    """Sinks in pairs, producers in rounds."""
    result = Result("guarantee")
    _sinks(bench, result)
    case = Case(bench, "producer, 1 KB, every 100 ms")
    seconds = bench.choose(1.5, 3.0)
    case.add("exactly once", lambda: producers.send_arrow(bench, seconds))
    case.add("at least once", lambda: producers.send_arrow(bench, seconds, **{"client.id": "bench"}))
    case.run(bench.repeats(5, 9))
    pairs = zip(case.runs["exactly once"], case.runs["at least once"], strict=True)
    slower = tuple((us.clock / them.clock - 1) * 100 for us, them in pairs)
    result.ratios.append(
        Ratio(f"{case.name}, slower by", "at least once", slower, 1.0, at_most=True, unit="%")
    )
    case.figures(result, lambda taken: 1 / taken.clock / 1000, "thousand records/s")
    return result


def _sinks(bench: Bench, result: Result) -> None:
    count = bench.choose(60, 300)
    bench.say(f" sink, {count} pairs of micro-batches")
    queries = {}
    took: dict[str, list[tuple[float, float]]] = {}
    for guarantee in ("exactly_once", "at_least_once"):
        url = str(bench.fresh("log"))
        Log.create(url).ensure_topic("in")
        producer = Producer(url)
        options = {"processing.guarantee": guarantee}
        queries[guarantee] = producer, Query(url, bench.fresh("checkpoint"), **options)
        took[guarantee] = []
    rows = table(_ROWS, 1_000, keyed=False)
    for number in range(-5, count):
        for guarantee, (producer, query) in list(queries.items())[:: 1 if number % 2 else -1]:
            producer.send_arrow("in", rows)
            producer.flush()
            began, spent = time.perf_counter(), time.process_time()
            query.micro_batch()
            if number >= 0:
                took[guarantee].append((time.perf_counter() - began, time.process_time() - spent))
    for producer, _ in queries.values():
        producer.close()
    clock, processor = (_longer_by(took["exactly_once"], took["at_least_once"], at) for at in range(2))
    result.ratios.append(Ratio("sink, a micro-batch takes longer by", "at least once", clock, unit="ms"))
    result.ratios.append(Ratio("sink, … of the processor", "at least once", processor, unit="ms"))
    for every_ms, target, what in ((100, 1.0, "100 ms"), (30_000, 0.1, "30 s")):
        share = tuple(part / every_ms * 100 for part in clock)
        name = f"sink, a transaction every {what}, slower by"
        result.ratios.append(Ratio(name, "at least once", share, target, at_most=True, unit="%"))
    for guarantee, values in took.items():
        all_ms = tuple(seconds * 1000 for seconds, _ in values)
        result.figures.append(Figure("sink, one micro-batch", guarantee.replace("_", " "), all_ms, "ms"))


def _longer_by(
    ours: list[tuple[float, float]], theirs: list[tuple[float, float]], at: int
) -> tuple[float, ...]:
    """Milliseconds: medians of five parts, because single pairs differ by what the disk does."""
    more = [(us[at] - them[at]) * 1000 for us, them in zip(ours, theirs, strict=True)]
    bounds = pairwise(range(0, len(more) + 1, len(more) // 5))
    return tuple(statistics.median(more[low:high]) for low, high in bounds)
