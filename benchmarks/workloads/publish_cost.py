"""What it costs to publish a topic as a table, for each GB."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import flights
from benchmarks.bench import Bench, Case
from benchmarks.pairing import Taken, timed
from benchmarks.results import Ratio, Result
from benchmarks.rows import table
from spark_eos import Admin, Log, Producer, read_arrow
from spark_eos.extensions.tables.tables import Tables
from spark_eos.maintenance.segments.sealer import Cut, seal

TITLE = "Cost of publishing"

TEXT = """
The first version of a Delta table over the log's own files, of a topic of two partitions: all rows are in Arrow files
(*not sealed*), or all in Parquet files already (*sealed*), as maintenance leaves them with `segment.format=parquet`.
The limit is pyarrow, which writes the same rows with their places from memory into two Parquet files, by zstd, and
calls `fsync`. A GB is one of Arrow in memory, without the places.
"""

NAME, TOPIC = "nightly", "t"
_CHUNK = 100_000
_GROUP_BYTES = 32 << 20
_TICK_S = 0.01
"""Processor time is counted in such steps: a short write takes none."""

SEALED, NOT_SEALED, PLAIN = "eoslog, sealed", "eoslog, not sealed", "pyarrow, Parquet"


def run(bench: Bench) -> Result:
    """Rows with columns of their own, and values."""
    result = Result("publish_cost")
    flown = _flights(bench.choose(1, 6))
    count = bench.choose(200_000, 2_000_000)
    for what, rows in (
        (f"{flown.num_rows:,} flights", flown),
        (f"{count:,} records of 100 B", table(count, 100, keyed=False)),
    ):
        cost(bench, result, what, rows)
    return result


def cost(bench: Bench, result: Result, what: str, rows: pa.Table) -> None:
    """The first version of a topic with these rows, beside a plain write of them."""
    unsealed, sealed = bench.fresh("unsealed"), bench.fresh("sealed")
    _fill(unsealed, rows)
    shutil.copytree(unsealed, sealed)
    _seal(str(sealed))
    places = read_arrow(str(unsealed), TOPIC).read_all()
    case = Case(bench, f"publish {what}")
    case.add(NOT_SEALED, partial(_publish_copy, bench, unsealed))
    case.add(SEALED, partial(_publish_copy, bench, sealed))
    case.add(PLAIN, partial(_write_plain, bench, places))
    case.run(bench.repeats(2, 3))
    shutil.rmtree(unsealed)
    shutil.rmtree(sealed)
    size = rows.nbytes / 1e9
    for contender in (NOT_SEALED, SEALED):
        pairs = [*zip(case.runs[contender], case.runs[PLAIN], strict=True)]
        clock = tuple(ours.clock / plain.clock for ours, plain in pairs)
        spent = tuple(ours.processor / max(plain.processor, _TICK_S) for ours, plain in pairs)
        name = contender.removeprefix("eoslog, ")
        result.ratios.append(Ratio(f"{case.name}, {name}, time", PLAIN, clock, at_most=True))
        result.ratios.append(Ratio(f"{case.name}, {name}, processor", PLAIN, spent, at_most=True))
    case.figures(result, lambda taken: taken.clock / size, "s per GB of Arrow")
    case.figures(result, lambda taken: taken.processor / size, "CPU s per GB of Arrow")


def _flights(times: int) -> pa.Table:
    found = flights.table()
    at = found.schema.get_field_index("time_hour")
    found = found.set_column(at, "time_hour", found.column(at).cast(pa.timestamp("us", "UTC")))
    return pa.concat_tables([found] * times)


def _fill(folder: Path, rows: pa.Table) -> None:
    """A log with a topic of two partitions, which each have half of the rows."""
    admin = Admin(Log.create(str(folder)))
    admin.create_topic(TOPIC, 2, schema=None if rows.schema.names == ["value"] else rows.schema)
    with Producer(str(folder)) as producer:
        for number, at in enumerate(range(0, rows.num_rows, _CHUNK)):
            chunk = rows.slice(at, _CHUNK).combine_chunks()
            producer.send_arrow(TOPIC, chunk, partition=number % 2).result(timeout=600)


def _seal(url: str) -> None:
    log = Log.shared(url)
    topic = log.follow().topics[TOPIC]
    partitions = [log.state.partitions[topic.topic_id, number] for number in range(topic.partitions)]
    seal(
        log,
        [
            Cut(TOPIC, topic.topic_id, number, at.start, at.last_stable_offset)
            for number, at in enumerate(partitions)
        ],
    )


def _publish_copy(bench: Bench, log: Path) -> Taken:
    with bench.passing("log") as url:
        shutil.copytree(log, url)
        os.sync()
        tables = Tables(str(url))
        tables.create(NAME, [TOPIC])
        publisher = tables.publisher(NAME)
        with timed() as timer:
            done = publisher.publish()
        assert done.is_new
    return timer.taken


def _write_plain(bench: Bench, rows: pa.Table) -> Taken:
    half = rows.num_rows // 2
    group = max(1, rows.num_rows * _GROUP_BYTES // rows.nbytes)
    with bench.passing("plain") as folder:
        folder.mkdir()
        with timed() as timer:
            for number, part in enumerate((rows.slice(0, half), rows.slice(half))):
                with (folder / f"{number}.parquet").open("wb") as file:
                    pq.write_table(part, file, compression="zstd", row_group_size=group)
                    file.flush()
                    os.fsync(file.fileno())
    return timer.taken
