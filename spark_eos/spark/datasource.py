"""``format("eoslog")``: the entry that Spark calls. Everything is imported when it is needed.

Spark makes this object again for each query and each micro-batch, in short-lived Python processes, so
what it costs to import is paid again and again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from spark_eos.spark.version import check_version

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_eos.spark.batch.writer import EosLogBatchWriter
    from spark_eos.spark.sink.rejected_files import RefusedStreamReader
    from spark_eos.spark.sink.sink import EosLogStreamWriter
    from spark_eos.spark.source.batch import EosLogBatchReader
    from spark_eos.spark.source.source import EosLogStreamReader


class EosLogDataSource(DataSource):
    """A transactional log in a folder, as a streaming and batch source and sink.

    The path is the log. Options and their defaults: see docs/reference/options.md.
    Reading never creates anything; writing creates the log and the topic unless
    ``auto.create.topics.enable=false``.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_version()
        self._load_id = os.urandom(8).hex()
        """Spark makes this object once for each ``load()``, and copies of it for each query."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "eoslog"

    def schema(self) -> StructType:
        """Kafka's columns, or the columns of the topics' own schema."""
        from spark_eos.spark.options import parse_any_source
        from spark_eos.spark.topics import source_schema

        return source_schema(parse_any_source(self.options, also=source_schema))

    def reader(self, schema: StructType) -> EosLogBatchReader:
        """A batch read: one consistent range of offsets, fixed when the query is planned."""
        from spark_eos.spark.options import parse_source
        from spark_eos.spark.source.batch import EosLogBatchReader

        options = parse_source(self.options, streaming=False)
        if options.filter_pushdown:
            from spark_eos.spark.source.pushdown import EosLogPushdownReader

            return EosLogPushdownReader(options, schema, self._load_id)
        return EosLogBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> EosLogStreamReader | RefusedStreamReader:
        """A streaming read."""
        from spark_eos.spark.options import parse_source
        from spark_eos.spark.sink.rejected_files import RefusedStreamReader
        from spark_eos.spark.source.source import EosLogStreamReader

        try:
            return EosLogStreamReader(parse_source(self.options, streaming=True), schema)
        except Exception as error:  # noqa: BLE001  (whatever it is, `RefusedStreamReader` raises it)
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> EosLogBatchWriter:
        """A batch write: all rows in one entry, or none."""
        from spark_eos.spark.batch.writer import EosLogBatchWriter
        from spark_eos.spark.sink.sink_target import options_for

        options = options_for(self.options, schema, streaming=False, overwrite=overwrite)
        return EosLogBatchWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> EosLogStreamWriter:
        """A streaming write: each micro-batch with its source offsets in one entry."""
        from spark_eos.spark.sink.sink import EosLogStreamWriter
        from spark_eos.spark.sink.sink_target import options_for

        options = options_for(self.options, schema, streaming=True, overwrite=overwrite)
        return EosLogStreamWriter(options, schema, overwrite=overwrite)
