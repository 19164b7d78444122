"""A streaming query without Spark: our source and sink called as Spark calls them, on a checkpoint made by hand."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_eos.spark.datasource import EosLogDataSource
from spark_eos.spark.sink.sink import EosLogStreamWriter
from spark_eos.spark.sink.task import TaskMessage
from spark_eos.spark.version import ReadAllAvailable

__all__ = ["Query"]

_ROWS = StructType([StructField("value", BinaryType())])


class Query:
    """Copies the topic ``in`` of a log to ``out``, one micro-batch after the other, in one task."""

    def __init__(self, url: str, checkpoint: Path, **options: str) -> None:
        # Spark hands options over in small letters.
        source = EosLogDataSource({"path": url, "subscribe": "in", "startingoffsets": "earliest"})
        self._source = source.streamReader(source.schema())
        self._sink = EosLogDataSource(
            {"path": url, "topic": "out", "checkpointlocation": str(checkpoint), **options}
        )
        self._checkpoint = checkpoint
        self._query_id, self._run_id = str(uuid.uuid4()), str(uuid.uuid4())
        self._batch = 0
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": self._query_id}))
        self._at = self._source.initialOffset()

    def micro_batch(self) -> None:
        """Everything that is new."""
        end = self._source.latestOffset(self._at, ReadAllAvailable())
        self._write("offsets", "v1\n{}\n" + json.dumps(end))
        messages = []
        for task in self._source.partitions(self._at, end):
            # Spark makes a new writer for every batch, and another one to commit.
            message = self._writer().write(self._values(self._source.read(task)))
            assert isinstance(message, TaskMessage)
            message.query_id, message.run_id = self._query_id, self._run_id
            messages.append(message)
        self._writer().commit([*messages], self._batch)
        self._write("commits", 'v1\n{"nextBatchWatermarkMs":0}')
        self._at = end
        self._batch += 1

    def _writer(self) -> EosLogStreamWriter:
        return self._sink.streamWriter(_ROWS, overwrite=False)

    def _values(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(["value"]) for batch in batches)

    def _write(self, folder: str, text: Any) -> None:
        (self._checkpoint / folder / str(self._batch)).write_text(text)
