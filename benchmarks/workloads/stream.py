"""The streaming sink: how much it takes, and how long one micro-batch is."""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.bench import LIMIT, Bench
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import label, table
from benchmarks.streams import PARTS, micro_batches
from spark_eos.log.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TITLE = "Streaming"

TEXT = """
*Throughput*: Spark's own `rate-micro-batch` source makes rows for a sink, at a zero trigger, in large micro-batches;
rows of a micro-batch by its `triggerExecution`, the median of a run. *One micro-batch* has 1,000 rows of 100 B.
*eoslog* reads from a log and writes to the same log, exactly-once; *no-op* is a source in Python that makes rows and
a sink that drops them: the difference between the two is the cost of eoslog. The others have `rate-micro-batch` as
source, which costs nothing; eoslog has it too where it is compared with them. Delta runs with `snapshotPartitions=1`.
A run is a query of its own, whose first micro-batches are not counted.
"""

_SLICE = 1_000

Query = Callable[[], list[dict[str, Any]]]


def run(bench: Bench) -> Result:
    """Throughput of two sizes, then small micro-batches."""
    result = Result("stream")
    sizes = bench.choose(((100, 500_000),), ((100, 1_000_000), (1_000, 250_000)))
    for size, rows in sizes:
        _throughput(bench, result, size, rows)
    _small(bench, result)
    return result


def _throughput(bench: Bench, result: Result, size: int, rows: int) -> None:
    case = f"{label(size)}, {rows:,} rows a micro-batch"
    bench.say(f" {case}")
    frame = _rate(bench, rows, size)
    count = bench.choose(4, 6)
    runs = _rounds(
        bench,
        {name: _query(bench, frame, write, count) for name, write in _sinks(bench).items()},
        bench.repeats(2, 3),
    )
    rates = {
        name: [
            statistics.median(one["numInputRows"] / one["durations"]["triggerExecution"] for one in run)
            for run in found
        ]
        for name, found in runs.items()
    }
    targets = {LIMIT: 0.9, "Kafka": 3.0, "Delta": 1.3}
    for name, values in rates.items():
        if name != "eoslog":
            pairs = tuple(us / them for us, them in zip(rates["eoslog"], values, strict=True))
            result.ratios.append(Ratio(f"throughput, {case}", name, pairs, targets[name]))
        result.figures.append(Figure(f"throughput, {case}", name, tuple(values), "thousand rows/s"))


def _small(bench: Bench, result: Result) -> None:
    bench.say(f" one micro-batch of {_SLICE:,} rows")
    count = bench.choose(20, 30)
    frame = _rate(bench, _SLICE, 100)
    sinks = _sinks(bench)
    queries = {f"rate → {name}": _query(bench, frame, write, count) for name, write in sinks.items()}
    noop = bench.peers.spark.readStream.format("bench_noop").option("rows", _SLICE).option("size", 100).load()
    queries = {
        "no-op → no-op": _query(bench, noop, sinks[LIMIT], count),
        "eoslog → eoslog": lambda: _through(bench, count),
        **queries,
    }
    runs = _rounds(bench, queries, bench.repeats(2, 3))
    total = _medians(runs, "triggerExecution")
    for name, values in total.items():
        result.figures.append(Figure(f"one micro-batch of {_SLICE:,} rows", name, tuple(values), "ms"))
    for part in PARTS:
        for name, values in _medians(runs, part).items():
            result.figures.append(Figure(part, name, tuple(values), "ms of one micro-batch"))

    def compare(us: str, them: str, target: float | None) -> None:
        if them in total:
            pairs = tuple(ours / theirs for ours, theirs in zip(total[us], total[them], strict=True))
            result.ratios.append(Ratio(f"one micro-batch, {us}", them, pairs, target, at_most=True))

    over = tuple(us - them for us, them in zip(total["eoslog → eoslog"], total["no-op → no-op"], strict=True))
    result.ratios.append(
        Ratio(
            "one micro-batch, eoslog → eoslog, longer by", "no-op → no-op", over, 20, at_most=True, unit="ms"
        )
    )
    compare("eoslog → eoslog", "no-op → no-op", None)
    compare("rate → eoslog", "rate → no-op", None)
    compare("rate → eoslog", "rate → Delta", 0.4)
    compare("rate → eoslog", "rate → Kafka", None)


def _rate(bench: Bench, rows: int, size: int) -> DataFrame:
    reader = (
        bench.peers.spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 2)
    )
    # Cheap: what the source costs is the same for all sinks, and hides what they do.
    filling = "".join(f"{number % 256:02X}" for number in range(size - 8))
    return reader.load().selectExpr(f"concat(X'{filling}', cast(cast(value as string) as binary)) as value")


def _sinks(bench: Bench) -> dict[str, Callable[[DataFrame], tuple[DataStreamWriter, str | None]]]:
    """By name: a writer to a new place, and its path."""
    broker = bench.peers.broker

    def eoslog(frame: DataFrame) -> tuple[DataStreamWriter, str | None]:
        return frame.writeStream.format("eoslog").option("topic", "t"), str(bench.fresh("log"))

    def kafka(frame: DataFrame) -> tuple[DataStreamWriter, str | None]:
        assert broker is not None
        topic = f"t-{uuid.uuid4()}"
        broker.create(topic)
        options = {"kafka.bootstrap.servers": broker.address, "topic": topic}
        return frame.writeStream.format("kafka").options(**options), None

    sinks: dict[str, Callable[[DataFrame], tuple[DataStreamWriter, str | None]]] = {
        LIMIT: lambda frame: (frame.writeStream.format("bench_noop"), None),
        "eoslog": eoslog,
    }
    if bench.peers.delta:
        sinks["Delta"] = lambda frame: (frame.writeStream.format("delta"), str(bench.fresh("delta")))
    if broker is not None:
        sinks["Kafka"] = kafka
    return sinks


def _query(
    bench: Bench,
    frame: DataFrame,
    sink: Callable[[DataFrame], tuple[DataStreamWriter, str | None]],
    count: int,
) -> Query:
    def run() -> list[dict[str, Any]]:
        writer, path = sink(frame)
        return micro_batches(writer, str(bench.fresh("checkpoint")), count, path=path)

    return run


def _through(bench: Bench, count: int) -> list[dict[str, Any]]:
    """From one topic of a log to another."""
    url = str(bench.fresh("log"))
    fill(url, _SLICE * (count + 10))
    reader = (
        bench.peers.spark.readStream.format("eoslog")
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
    )
    frame = reader.option("maxOffsetsPerTrigger", _SLICE).load(url).select("value")
    writer = frame.writeStream.format("eoslog").option("topic", "t")
    return micro_batches(writer, str(bench.fresh("checkpoint")), count, path=url)


def fill(url: str, rows: int) -> None:
    """A log with a topic ``in`` of so many rows."""
    from spark_eos import Producer

    Log.create(url).ensure_topic("in")
    with Producer(url) as producer:
        producer.send_arrow("in", table(rows, 100, keyed=False))


def _rounds(bench: Bench, queries: Mapping[str, Query], repeat: int) -> dict[str, list[list[dict[str, Any]]]]:
    runs: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in queries}
    for number in range(repeat):
        for name in queries if number % 2 == 0 else reversed(list(queries)):
            runs[name].append(queries[name]())
        told = ", ".join(
            f"{name} {_median(found[-1], 'triggerExecution'):.0f} ms" for name, found in runs.items()
        )
        bench.say(f"  round {number + 1} of {repeat}: {told}")
    return runs


def _median(run: list[dict[str, Any]], part: str) -> float:
    return statistics.median(float(one["durations"].get(part, 0)) for one in run)


def _medians(runs: dict[str, list[list[dict[str, Any]]]], part: str) -> dict[str, list[float]]:
    return {name: [_median(run, part) for run in found] for name, found in runs.items()}
