"""Scans: planned fetches cut into Spark's tasks, and read there as Arrow batches in Spark's columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log.plan import Fetch
from spark_eos.log.read import Records
from spark_eos.log.stage import Stage
from spark_eos.protocol.state import Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TASK_BYTES", "ScanTask", "read_task", "split"]

TASK_BYTES = 16 * 1024 * 1024
"""Small partitions share a task until it has this many bytes to read, and large ones are cut there.

Order is kept: tasks are in offset order, and a sink of ours commits the files of its tasks in task order.
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
    """Tasks for the fetches, in order.

    ``at_least`` of them if there are as many records (``minPartitions``), and none with more than
    ``records`` (``maxRecordsPerPartition``).
    """
    total = sum(fetch.records for fetch in fetches)
    longest = records or total
    if at_least:
        longest = min(longest, max(1, total // at_least))
    tasks: list[list[Fetch]] = []
    rows = size = 0
    for fetch in fetches:
        first = 0
        while first < fetch.records:
            if not tasks or rows >= longest or size >= TASK_BYTES:
                tasks.append([])
                rows = size = 0
            taken = min(fetch.records - first, longest - rows)
            tasks[-1].append(fetch.take(first, taken))
            first += taken
            rows += taken
            size += fetch.size * taken // fetch.batch.count
    return [_task(stage, topics, task) for task in tasks]


def read_task(task: InputPartition, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The task's rows, in the columns ``columns`` (names, order, types and nullability that Spark expects)."""
    if not isinstance(task, ScanTask):
        return  # Spark's stand-in where a batch read has nothing to plan.
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


def _task(stage: Stage, topics: dict[str, Topic], fetches: list[Fetch]) -> ScanTask:
    return ScanTask(
        stage, {name: topics[name] for name in {fetch.topic for fetch in fetches}}, tuple(fetches)
    )


def _column(records: Records, fetch: Fetch, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    name, count = field.name, records.num_rows
    if name in records.table.schema.names:
        return records.column(name).cast(field.type)
    if name in {"topic", "_topic"}:
        return pa.repeat(pa.scalar(fetch.topic, field.type), count)
    if name in {"partition", "_partition"}:
        return pa.repeat(pa.scalar(fetch.partition, field.type), count)
    if name in {"offset", "_offset"}:
        return pa.array(records.offsets)
    # timestampType: 0, CreateTime
    return pa.repeat(pa.scalar(0, field.type), count)
