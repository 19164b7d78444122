"""Scans: planned fetches cut into Spark's tasks, and read there as Arrow batches in Spark's columns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log.arrays import numbers, repeated
from spark_eos.log.plan import Fetch
from spark_eos.log.read import Records
from spark_eos.log.stage import Stage
from spark_eos.protocol.state import Topic
from spark_eos.spark.workers import spare_imports

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TASK_BYTES", "ScanTask", "read_task", "split"]

TASK_BYTES = (16 << 20, 256 << 20)
"""The fewest and the most bytes that a task is to read, unless there are fewer.

Small partitions share a task, and large ones are cut, at twice what Spark's own file sources cut them at
(``spark.sql.files.maxPartitionBytes``): theirs are encoded and compressed, ours are not unless a topic asks for it, and
a MB costs a millisecond or two. A task costs Spark and its worker 10 to 20 of the processor, and waits at its ends
(docs/speed.md). Order is kept: tasks are in offset order, and a sink of ours commits the files of its tasks in task
order. Who has more processors than the driver's machine asks for ``minPartitions``.
"""


@dataclass
class ScanTask(InputPartition):
    """What one Spark task reads. Carries all it needs, so that no task reads the transaction log."""

    stage: Stage
    topics: dict[str, Topic]
    fetches: tuple[Fetch, ...]

    def __repr__(self) -> str:
        rows = sum(fetch.records for fetch in self.fetches)
        return f"ScanTask({rows} records of {', '.join(sorted(self.topics))})"


def split(
    stage: Stage,
    topics: dict[str, Topic],
    fetches: Sequence[Fetch],
    *,
    at_least: int | None = None,
    records: int | None = None,
) -> list[ScanTask]:
    """Tasks for the fetches, in order, with about as many bytes each, because the longest one is waited for.

    As many as this machine, the driver's, has processors: it is where all tasks run, or the best guess there is.
    ``at_least`` of them if there are as many records (``minPartitions``), and none with more than
    ``records`` (``maxRecordsPerPartition``).
    """
    total = sum(fetch.records for fetch in fetches)
    longest = records or total
    if at_least:
        longest = min(longest, max(1, total // at_least))
    size = sum(_bytes(fetch, fetch.records) for fetch in fetches)
    fewest, most = TASK_BYTES
    wanted = min(max(size / (os.cpu_count() or 1), fewest), most)
    share = size / max(1, math.ceil(size / wanted))
    tasks: list[list[Fetch]] = []
    rows = 0
    done, edge = 0.0, share
    for fetch in fetches:
        first = 0
        while first < fetch.records:
            half = _bytes(fetch, min(fetch.records - first, longest)) / 2
            if not tasks or rows >= longest or done + half > edge:
                tasks.append([])
                rows = 0
            while done + half > edge:
                edge += share
            taken = min(fetch.records - first, longest - rows)
            tasks[-1].append(fetch.take(first, taken))
            first += taken
            rows += taken
            done += _bytes(fetch, taken)
    return [_task(stage, topics, task) for task in tasks]


def read_task(task: InputPartition, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The task's rows, in the columns ``columns`` (names, order, types and nullability that Spark expects)."""
    if not isinstance(task, ScanTask):
        return  # Spark's stand-in where a batch read has nothing to plan.
    spare_imports()
    with task.stage.reading(task.fetches) as read:
        for fetch in task.fetches:
            topic = task.topics[fetch.topic]
            try:
                records = read(topic, fetch)
            except ObjectNotFoundError as error:
                raise ObjectNotFoundError(
                    f"{error}. It was there when this query was planned: its records were deleted or written anew "
                    "since, and it went when file.delete.delay.ms of its topic was over. Start the query again, which "
                    "plans anew; if tasks take that long, raise file.delete.delay.ms"
                ) from error
            arrays = [_column(records, fetch, field) for field in columns]
            yield from pa.Table.from_arrays(arrays, schema=columns).to_batches()


def _bytes(fetch: Fetch, records: int) -> float:
    """What so many of its records have to do with the bytes to be read."""
    return fetch.size * records / fetch.batch.count


def _task(stage: Stage, topics: dict[str, Topic], fetches: list[Fetch]) -> ScanTask:
    return ScanTask(
        stage, {name: topics[name] for name in {fetch.topic for fetch in fetches}}, tuple(fetches)
    )


def _column(records: Records, fetch: Fetch, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    name, count = field.name, records.num_rows
    if name in records.table.schema.names:
        return records.column(name).cast(field.type)
    if name in {"topic", "_topic"}:
        return repeated(fetch.topic, field.type, count)
    if name in {"partition", "_partition"}:
        return repeated(fetch.partition, field.type, count)
    if name in {"offset", "_offset"}:
        return numbers(records.offsets, field.type)
    return repeated(0, field.type, count)  # timestampType: CreateTime
