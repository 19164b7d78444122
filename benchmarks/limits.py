"""Data sources in Python that do nothing: what the Python Data Source API itself allows.

``bench_noop`` takes rows and forgets them; as a stream's source it makes rows of nothing. ``bench_files`` reads Arrow
files, by memory map or not, as they are, and writes what each task is given into one of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_eos.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_eos.spark.version import ReadLimit

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make both formats known to Spark."""
    spark.dataSource.register(Noop)
    spark.dataSource.register(Files)


@dataclass
class Counted(WriterCommitMessage):
    """How many rows a task was given."""

    rows: int


def _count(batches: Iterator[pa.RecordBatch]) -> Counted:
    return Counted(sum(batch.num_rows for batch in batches))


class Noop(DataSource):
    """Takes rows, or makes them."""

    @classmethod
    def name(cls) -> str:
        return "bench_noop"

    def schema(self) -> StructType:
        return StructType([StructField("value", BinaryType())])

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return NoopWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return NoopStreamWriter()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NoopStreamReader(int(self.options["rows"]), int(self.options["size"]))


class NoopWriter(DataSourceArrowWriter):
    """Counts."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _count(iterator)


class NoopStreamWriter(DataSourceStreamArrowWriter):
    """Counts."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _count(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing."""


@dataclass
class _Range(InputPartition):
    rows: int


class NoopStreamReader(DataSourceStreamReader):
    """So many rows a micro-batch, all the same, without end."""

    def __init__(self, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"batch": start["batch"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Range(self._rows * (end["batch"] - start["batch"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        values = pa.array([b"x" * self._size] * partition.rows, pa.binary())
        yield pa.RecordBatch.from_arrays([values], names=["value"])


class Files(DataSource):
    """Rows of Arrow files: option ``files`` (a list as JSON); with ``like_kafka`` in the columns of Spark's connector.

    They come from memory maps, with ``read`` by reading. They are written to the folder ``path`` as eoslog writes to
    folders, and synced, and that is all: no checksum, partition, or commit.

    The first file says which columns there are; of rows in Kafka's columns, those that are not stored are the same in
    every row, but for the offset.
    """

    @classmethod
    def name(cls) -> str:
        return "bench_files"

    def schema(self) -> StructType:
        if "like_kafka" in self.options:
            from spark_eos.spark.schema import kafka_schema

            return kafka_schema()
        with pa.memory_map(json.loads(self.options["files"])[0]) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilesReader(
            json.loads(self.options["files"]),
            schema,
            kafka="like_kafka" in self.options,
            mapped="read" not in self.options,
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return FilesWriter(self.options["path"])


class FilesWriter(DataSourceArrowWriter):
    """One file for each task, durable."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        first = next(iterator, None)
        if first is None:
            return Counted(0)
        rows = 0
        with (
            open_store(self._folder).upload(f"{uuid.uuid4().hex}.arrow") as file,
            pa.ipc.new_file(file, first.schema) as writer,
        ):
            for batch in chain([first], iterator):
                writer.write_batch(batch)
                rows += batch.num_rows
        return Counted(rows)


@dataclass
class _File(InputPartition):
    path: str


class FilesReader(DataSourceReader):
    """One task for each file."""

    def __init__(self, files: list[str], schema: StructType, *, kafka: bool, mapped: bool) -> None:
        self._files = files
        self._open = pa.memory_map if mapped else pa.OSFile
        self._columns = to_arrow_schema(schema, timezone="UTC")
        self._kafka = kafka

    def partitions(self) -> Sequence[InputPartition]:
        return [_File(path) for path in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File)
        with self._open(partition.path) as opened:
            file = pa.ipc.open_file(opened)
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                if self._kafka:
                    yield self._like_kafka(batch)
                else:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self._columns)

    def _like_kafka(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made: dict[str, Any] = {"topic": "t", "partition": 0, "timestamp": 0, "timestampType": 0, "key": None}
        columns = []
        for field in self._columns:
            if field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            elif field.name == "offset":
                columns.append(pa.array(np.arange(batch.num_rows, dtype=np.int64)))
            else:
                columns.append(pa.repeat(pa.scalar(made[field.name], field.type), batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self._columns)
