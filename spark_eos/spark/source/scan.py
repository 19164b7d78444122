"""Scans: planned fetches cut into Spark's tasks, and read there as Arrow batches in Spark's columns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_eos.errors import ObjectNotFoundError, SchemaMismatchError
from spark_eos.log.data.arrow import constant_array
from spark_eos.log.data.layout import normalise_type
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.handle.missing import error_of_missing
from spark_eos.log.log import Log
from spark_eos.log.selection.columns import place_column
from spark_eos.protocol.state import Topic
from spark_eos.spark.sink.proof import Part, Plan, Read, note_read
from spark_eos.spark.source.values import decoded, stored_names
from spark_eos.spark.types import as_spark
from spark_eos.spark.workers import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_eos.log.selection.expression import Filter
    from spark_eos.log.selection.row_filter import RowFilter
    from spark_eos.spark.options import SourceOptions

TASK_BYTES = (16 << 20, 256 << 20)
"""The fewest and the most bytes that a task is to read, unless there are fewer.

Small partitions share a task, and large ones are cut, at twice what Spark's own file sources cut them at
(``spark.sql.files.maxPartitionBytes``): theirs are encoded and compressed, ours are not unless a topic asks for it, and
a MB costs a millisecond or two. A task costs Spark and its worker 10 to 20 of the processor, and waits at its ends
(benchmarks/journal/speed.md). Order is kept: tasks are in offset order, and a sink of ours commits the files
of its tasks in task
order. A cluster with more processors than the driver's machine needs ``minPartitions``.
"""


@dataclass
class ScanTask(InputPartition):
    """What one Spark task reads. Carries all it needs, so that no task reads the transaction log."""

    stage: TaskStorage
    topics: dict[str, Topic]
    fetches: tuple[Fetch, ...]
    read: Read | None = None
    """What it has read of a streaming source's plan when it has come to its end."""

    def __repr__(self) -> str:
        rows = sum(fetch.records for fetch in self.fetches)
        return f"ScanTask({rows} records of {', '.join(sorted(self.topics))})"


def split(
    stage: TaskStorage,
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
    target = min(max(size / (os.cpu_count() or 1), fewest), most)
    share = size / max(1, math.ceil(size / target))
    tasks: list[list[Fetch]] = []
    rows = 0
    planned_bytes, edge = 0.0, share
    for fetch in fetches:
        first = 0
        while first < fetch.records:
            half = _bytes(fetch, min(fetch.records - first, longest)) / 2
            if not tasks or rows >= longest or planned_bytes + half > edge:
                tasks.append([])
                rows = 0
            while planned_bytes + half > edge:
                edge += share
            count = min(fetch.records - first, longest - rows)
            tasks[-1].append(fetch.take(first, count))
            first += count
            rows += count
            planned_bytes += _bytes(fetch, count)
    return [_task(stage, topics, task) for task in tasks]


def of_plan(tasks: Sequence[ScanTask], plan: Plan, stage: TaskStorage) -> list[ScanTask]:
    """The tasks, each with its part of the plan: together exactly the plan; offsets without a record go with others.

    At least one: a plan that no task carries out could not be proved to have been carried out.
    """
    carried = list(tasks) or [ScanTask(stage, {}, ())]
    ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number, task in enumerate(carried):
        for fetch, following in zip_longest(task.fetches, task.fetches[1:]):
            if following is None or (following.topic, following.partition) != (fetch.topic, fetch.partition):
                ends.setdefault((fetch.topic, fetch.partition), []).append((number, fetch.next_offset))
    parts: list[list[Part]] = [[] for _ in carried]
    for whole in plan.parts:
        reached = whole.start
        # The last task with records of the partition reads it to its end. Tasks that share a batch with holes cannot
        # say at which offset one leaves it to the next: the last one of them has it.
        leaving = ends.get((whole.topic, whole.partition), [(0, 0)])
        for number, end in leaving[:-1]:
            if reached < end < whole.end and not _goes_on(carried, number, whole, end):
                parts[number].append(whole._replace(start=reached, end=end))
                reached = end
        if reached < whole.end:
            parts[leaving[-1][0]].append(whole._replace(start=reached))
    for task, read in zip(carried, Read.of_tasks(plan, parts), strict=True):
        task.read = read
    return carried


def read_task(
    task: InputPartition,
    columns: pa.Schema,
    filters: Sequence[Filter | RowFilter] = (),
    options: SourceOptions | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's rows, in the columns ``columns`` (names, order, types and nullability that Spark expects).

    No others are decoded but those that ``filters`` name, which leave out rows, and batches of which none is wanted are
    not read. ``options`` say how values are decoded; None: they are not. Raises `RecordDeserializationError` for a
    value that cannot be decoded.
    """
    if not isinstance(task, ScanTask):
        return  # Spark's stand-in where a batch read has nothing to plan.
    freeze_imports()
    read_columns = columns
    for field in chain.from_iterable(row_filter.fields for row_filter in filters):
        if field.name not in read_columns.names:
            read_columns = read_columns.append(field)
    names = stored_names(options, task.topics, read_columns)
    with task.stage.reading(task.topics, task.fetches, names) as read:
        for fetch in task.fetches:
            topic = task.topics[fetch.topic]
            try:
                records = read(fetch)
            except ObjectNotFoundError as error:
                raise error_of_missing(
                    Log.open(task.stage.url, settings=task.stage.settings),
                    fetch,
                    error,
                    "It was there when this read was planned: its records were deleted or rewritten "
                    "since, and it went when file.delete.delay.ms of its topic was over. A stream plans again when it "
                    "is started again. A DataFrame or view does not, whatever is called on it: make it again, with "
                    "spark.read...load(). If tasks take that long, raise file.delete.delay.ms",
                ) from error
            arrays = None if options is None else decoded(options, topic, fetch, records, read_columns)
            if arrays is None:
                arrays = [_column(records, topic, fetch, field) for field in read_columns]
            table = pa.Table.from_arrays(arrays, schema=read_columns)
            for row_filter in filters:
                table = row_filter.apply(table)
            yield from table.select(columns.names).to_batches()
    if task.read is not None:
        note_read(task.read)


def _bytes(fetch: Fetch, records: int) -> float:
    """What so many of its records have to do with the bytes to be read."""
    return fetch.size * records / fetch.batch.count


def _task(stage: TaskStorage, topics: dict[str, Topic], fetches: list[Fetch]) -> ScanTask:
    return ScanTask(
        stage, {name: topics[name] for name in {fetch.topic for fetch in fetches}}, tuple(fetches)
    )


def _goes_on(tasks: Sequence[ScanTask], number: int, part: Part, end: int) -> bool:
    """Whether a later task reads further records of the batch that ends at ``end``."""
    return any(
        (fetch.topic, fetch.partition, fetch.next_offset) == (part.topic, part.partition, end)
        for task in tasks[number + 1 : number + 2]
        for fetch in task.fetches
    )


def _column(records: Records, topic: Topic, fetch: Fetch, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """A column as Spark wants it: stored, or one of those that every record has. Never one that is made up."""
    name, count = field.name, records.num_rows
    if records.table.schema.get_field_index(name) >= 0:
        stored = records.table.schema.field(name).type
        if stored == field.type or _same_type(name, stored, field.type):
            return as_spark(records.column(name), field.type)
        raise SchemaMismatchError(
            f"column {name!r} of topic {fetch.topic!r} is {stored}, but the query was planned with {field.type}: "
            "start it again, or read this topic with a source of its own"
        )
    place = place_column(field, records, fetch, is_typed=bool(topic.schemas))
    if place is not None:
        return place
    if name == "timestampType" and not topic.schemas:
        return constant_array(0, field.type, count)  # CreateTime
    raise SchemaMismatchError(
        f"topic {fetch.topic!r} has no column {name!r}, which the query was planned with: start it again, or read this "
        "topic with a source of its own"
    )


def _same_type(name: str, stored: pa.DataType, spark_type: pa.DataType) -> bool:
    """Whether Spark's type is the stored one in another spelling, or in a finer unit of time."""
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(spark_type):
        return bool(stored.tz == spark_type.tz)
    return bool(normalise_type(spark_type, name) == normalise_type(stored, name))
