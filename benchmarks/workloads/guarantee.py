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
rows of 1 KB, in turn; one with `processing.guarantee=exactly_once`, one with `at_least_once`. What the one takes longer
for a micro-batch is a share of the time between two transactions, and less if there are fewer of them. *Producer*:
`send_arrow` in a transaction every 100 ms, against an idempotent producer that flushes as often.
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
    took: dict[str, list[float]] = {}
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
            began = time.perf_counter()
            query.micro_batch()
            if number >= 0:
                took[guarantee].append(time.perf_counter() - began)
    for producer, _ in queries.values():
        producer.close()
    more = [(us - them) * 1000 for us, them in zip(took["exactly_once"], took["at_least_once"], strict=True)]
    # Medians of five parts: single pairs differ by what the disk does.
    bounds = pairwise(range(0, count + 1, count // 5))
    parts = tuple(statistics.median(more[low:high]) for low, high in bounds)
    result.ratios.append(Ratio("sink, a micro-batch takes longer by", "at least once", parts, unit="ms"))
    for every_ms, target, what in ((100, 1.0, "100 ms"), (30_000, 0.1, "30 s")):
        share = tuple(part / every_ms * 100 for part in parts)
        result.ratios.append(
            Ratio(
                f"sink, a transaction every {what}, slower by",
                "at least once",
                share,
                target,
                at_most=True,
                unit="%",
            )
        )
    for guarantee, values in took.items():
        result.figures.append(
            Figure(
                "sink, one micro-batch",
                guarantee.replace("_", " "),
                tuple(value * 1000 for value in values),
                "ms",
            )
        )
