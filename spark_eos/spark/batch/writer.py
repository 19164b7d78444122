"""Batch writes: one entry, all rows or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_eos.protocol.actions import SetAppVersion
from spark_eos.spark.batch.job import BatchJob, skips
from spark_eos.spark.host import host
from spark_eos.spark.sink.sink_target import prepare
from spark_eos.spark.sink.task import TaskMessage, TaskWriter, collect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.spark.options import SinkOptions


def app_version(options: SinkOptions, topic_id: str | None) -> SetAppVersion | None:
    """The version under which a write to this topic (None: to several) is repeated; None without one."""
    if options.txn_app_id is None or options.txn_version is None:
        return None
    return SetAppVersion(options.txn_app_id, options.txn_version, topic_id)


class EosLogBatchWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame, or replaces a topic's records with them (``mode("overwrite")``)."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        self._target = prepare(options, schema, overwrite=overwrite)
        topic = self._target.topic
        self._version = app_version(options, None if topic is None else topic.topic_id)
        self._skips = self._version is not None and skips(
            host().log(options.path, options.settings, maintenance=options.auto_maintenance_enable).state,
            self._version,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task; none of a version that is in the log."""
        return TaskMessage() if self._skips else TaskWriter(self._options, *self._target).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once."""
        options = self._options
        log = host().log(options.path, options.settings, maintenance=options.auto_maintenance_enable)
        topics, files = collect(messages)
        overwritten = (options.topic,) if self._overwrite and options.topic is not None else ()
        BatchJob(topics, files, overwritten, options.transactional_id, self._version).commit(log)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing, as in the streaming sink: this is another process than the one that committed."""
