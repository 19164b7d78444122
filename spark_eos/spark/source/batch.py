"""Batch reads: one range of offsets, fixed when it is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)

from spark_eos.log.data.planner import Fetch, plan
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.data_place import data_place
from spark_eos.log.selection.units import whole_cut
from spark_eos.log.time_travel import plan_as_of, topic_as_of
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.schema import arrow_schema
from spark_eos.spark.source.offset_resolution import wanted_ranges
from spark_eos.spark.source.scan import read_task, split
from spark_eos.spark.source.seen import as_readers_see
from spark_eos.spark.topics import ColumnCheck, check_columns, selected_partitions, shown_past, where_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.log.selection.expression import Filter
    from spark_eos.log.selection.row_filter import RowFilter
    from spark_eos.spark.options import SourceOptions


class EosLogBatchReader(DataSourceReader):
    """Reads from the earliest to the latest offset, or what the options say, as of one applied state: now or then."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        check_columns(options, schema)
        self._columns = arrow_schema(schema)
        where = where_filter(options, schema)
        self._filters: list[Filter | RowFilter] = [] if where is None else [where.row_filter]
        self._shapes = ColumnCheck(options, schema, where)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; what is appended after this call is not read."""
        options = self._options
        log = host().log(options.path, options.settings)
        past = shown_past(options, log)  # First: what is planned on is not older than what is shown.
        view = as_readers_see(log)
        state = view.state
        shown = view if past is None else past
        selected = selected_partitions(options, shown.state)
        names = sorted({at.topic for at in selected})
        self._shapes.check([shown.state.topics[name] for name in names if name in shown.state.topics])
        isolation = options.isolation_level
        cut = whole_cut(log, shown.state) if options.whole_transactions else {}
        fetches: list[Fetch] = []
        for at, start, stop in wanted_ranges(options, shown, selected):
            key = shown.state.topics[at.topic].topic_id, at.partition
            first, end = self._range(at, start, max(start, min(stop, cut.get(key, stop))))
            if past is None:
                range_fetches = plan(state, at, first, end, isolation, log.load)
            else:
                range_fetches = plan_as_of(log, state, past, at, first, end, isolation)
            fetches += self._matching_fetches(range_fetches)
        topics = {name: topic for name in names if (topic := state.topics.get(name)) is not None}
        if past is not None:
            topics = {name: topic_as_of(topic, past.state.topics[name]) for name, topic in topics.items()}
        return split(
            TaskStorage(options.path, state.seq + 1, options.settings, place=data_place(log.state)),
            topics,
            fetches,
            at_least=options.min_partitions,
            records=options.max_records_per_partition,
        )

    def _range(self, at: TopicPartition, start: int, end: int) -> tuple[int, int]:
        """What has to be planned of these offsets."""
        return start, end

    def _matching_fetches(self, fetches: list[Fetch]) -> list[Fetch]:
        """What has to be read of the fetches of one partition."""
        return fetches

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_task(partition, self._columns, self._filters, self._options)
