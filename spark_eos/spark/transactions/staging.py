"""Staging a DataFrame without committing it: its tasks write files, and what they have written comes back as rows.

Spark's writers end each in a commit of their own. `DataFrame.mapInArrow` hands its tasks the same Arrow batches, works
in classic Spark and in Spark Connect, and brings the tasks' messages back to the process that asked.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_eos.spark.sink.sink_target import Target
from spark_eos.spark.sink.task import TaskMessage, TaskWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_eos.spark.options import SinkOptions

_COLUMN = "message"


def stage(frame: DataFrame, options: SinkOptions, target: Target) -> list[TaskMessage]:
    """Stage the rows of ``frame``; the messages of its tasks, in their order.

    Of a task that Spark has run twice, only the message of the attempt that counts comes back.
    """
    rows = frame.mapInArrow(partial(_stage_task, options, target), f"{_COLUMN} binary").collect()
    return [pickle.loads(row[_COLUMN]) for row in rows]  # noqa: S301  (written by our own task)


def _stage_task(
    options: SinkOptions, target: Target, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    message = TaskWriter(options, *target).write(map(_without_large_types, batches))
    yield pa.RecordBatch.from_pydict({_COLUMN: pa.array([pickle.dumps(message)], pa.binary())})


def _without_large_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As Spark hands batches to a writer: ``spark.sql.execution.arrow.useLargeVarTypes`` is for functions alone."""
    schema = pa.schema([field.with_type(_small(field.type)) for field in batch.schema])
    return batch if schema == batch.schema else batch.cast(schema)


def _small(type_: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_large_string(type_):
        return pa.string()
    if types.is_large_binary(type_):
        return pa.binary()
    if types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_small(type_.value_type)))
    if types.is_struct(type_):
        return pa.struct([field.with_type(_small(field.type)) for field in type_])
    if types.is_map(type_):
        return pa.map_(
            type_.key_field.with_type(_small(type_.key_type)),
            type_.item_field.with_type(_small(type_.item_type)),
        )
    return type_
