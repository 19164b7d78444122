"""The files that a rewriter writes, one after the other: the same calls for Arrow and for Parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.log import paths
from spark_eos.log.data.arrow_file import PartitionRun, StagedFileWriter
from spark_eos.log.data.layout import SKIPPED
from spark_eos.log.data.parquet.writer import ParquetFileWriter
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of
from spark_eos.maintenance.segments.form import Form
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import StagedFile


class Output:
    """One file of one partition, in the form that is asked for. ``base_seq`` is where its writer began."""

    def __init__(
        self, log: Log, topic: Topic, partition: int, base_seq: int, form: Form, *, parquet: bool
    ) -> None:
        self.batches = 0
        """How many it has so far."""
        self._topic = topic
        self._partition = partition
        self._form = form
        self._file: ParquetFileWriter | StagedFileWriter
        # The base seq comes last, as in every name: vacuum knows by it what can still be committed.
        where = (topic.name, topic.topic_id, base_seq, log.clock.unique().hex(), partition)
        layout = layout_of(topic)
        if parquet:
            assert form.parquet is not None
            name = paths.segment_file(*where)
            self._file = ParquetFileWriter(
                log.store, name, layout, partition, form.parquet, offsets=form.offsets
            )
        else:
            name = paths.data_file(*where)
            self._file = StagedFileWriter(
                log.store, name, layout, form.omitted, form.compression, offsets=form.offsets
            )

    @property
    def is_full(self) -> bool:
        """Whether it has grown to the size at which it is closed."""
        return self._file.size >= self._form.file_bytes

    def append(
        self, table: pa.Table, offsets: npt.NDArray[Any], first: int, times_ms: tuple[int, int]
    ) -> None:
        """One batch: rows in the newest layout, and their offsets. ``first`` is where the batch begins."""
        if isinstance(self._file, ParquetFileWriter):
            self._file.append(table, offsets, times_ms)
        else:
            self._file.append(PartitionRun(self._partition, self._arrow(table, offsets, first), *times_ms))
        self.batches += 1

    def _arrow(self, table: pa.Table, offsets: npt.NDArray[Any], first: int) -> list[pa.RecordBatch]:
        assert isinstance(self._file, StagedFileWriter)
        if self._form.omitted:
            table = table.drop_columns(list(self._form.omitted))
        if self._form.offsets:
            skipped = _skipped(offsets, first)
            table = table.add_column(0, SKIPPED, pa.array(skipped, SKIPPED.type))
        return [
            pa.RecordBatch.from_arrays(batch.columns, schema=self._file.schema)
            for batch in table.to_batches()
        ]

    def close(self) -> StagedFile:
        """Make the file durable."""
        return StagedFile(self._topic.name, *self._file.close())

    def discard(self) -> None:
        """Leave no file."""
        self._file.discard()


def _skipped(offsets: npt.NDArray[Any], first: int) -> npt.NDArray[Any]:
    """How many offsets before each row have none, from ``first`` on."""
    return np.diff(offsets, prepend=first - 1) - 1
