"""Batch reads and writes: one range of offsets, fixed when planned; one entry, all rows or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from spark_eos.errors import CommitOutcomeUnknownError
from spark_eos.log.data.planner import Fetch, plan
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.log import Log
from spark_eos.log.time_travel import as_of, entry_at_time, plan_as_of
from spark_eos.protocol.actions import Action, AppendBatches, EndTransaction, InitProducer
from spark_eos.protocol.actions.queries.microbatch import ONE_SHOT_TIMEOUT_MS
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, StagedFile, TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.schema import arrow_schema
from spark_eos.spark.sink.sink_target import prepare, truncation
from spark_eos.spark.sink.task import TaskWriter, collect, delete_rejected_files
from spark_eos.spark.source.offset_resolution import ending_positions, starting_positions
from spark_eos.spark.source.offsets import EARLIEST
from spark_eos.spark.source.scan import read_task, split
from spark_eos.spark.topics import ColumnCheck, check_columns, selected_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import State
    from spark_eos.spark.options import SinkOptions, SourceOptions

__all__ = ["EosLogBatchReader", "EosLogBatchWriter"]


def _transaction(
    state: State,
    transactional_id: str,
    before: tuple[Action, ...],
    topics: tuple[tuple[str, str], ...],
    files: tuple[StagedFile, ...],
) -> tuple[Action, ...]:
    """A write under a transactional id: it takes the id's next epoch, and so fences the client that had it."""
    known = state.producer_of(transactional_id)
    if known is None:
        stamp = ProducerStamp(state.next_producer_id, 0, 0)
    else:
        stamp = ProducerStamp(known.producer_id, known.epoch + 1, known.number + 1)
    return (
        InitProducer(stamp.producer_id, stamp.epoch, transactional_id, ONE_SHOT_TIMEOUT_MS),
        *before,
        *((AppendBatches(stamp, topics, files),) if files else ()),
        EndTransaction(stamp, commit=True),
    )


class EosLogBatchReader(DataSourceReader):
    """Reads from the earliest to the latest offset, or what the options say, as of one applied state: now or then."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        check_columns(options, schema)
        self._columns = arrow_schema(schema)
        self._shapes = ColumnCheck(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; what is appended after this call is not read."""
        options = self._options
        log = host().log(options.path, options.settings)
        state = log.end_overdue()
        past = self._past(log)
        shown = log if past is None else past
        starts = starting_positions(
            options, shown, selected_partitions(options, shown.state), default=EARLIEST
        )
        self._shapes.check(
            [state.topics[name] for name in {at.topic for at in starts} if name in state.topics]
        )
        ends = ending_positions(options, shown, starts)
        isolation = options.isolation_level
        fetches: list[Fetch] = []
        for at, start in sorted(starts.items()):
            first, end = self._range(at, start, ends[at])
            if past is None:
                found = plan(state, at, first, end, isolation, log.load)
            else:
                found = plan_as_of(log, past, at, first, end, isolation)
            fetches += self._kept(found)
        return split(
            TaskStorage(options.path, state.seq + 1, options.settings),
            dict(state.topics),
            fetches,
            at_least=options.min_partitions,
            records=options.max_records_per_partition,
        )

    def _range(self, at: TopicPartition, start: int, end: int) -> tuple[int, int]:
        """What has to be planned of these offsets."""
        return start, end

    def _kept(self, fetches: list[Fetch]) -> list[Fetch]:
        """What has to be read of the fetches of one partition."""
        return fetches

    def _past(self, log: Log) -> Log | None:
        """The log as of ``versionAsOf`` or ``timestampAsOf``."""
        seq = self._options.version_as_of
        if self._options.timestamp_as_of_ms is not None:
            seq = entry_at_time(log, self._options.timestamp_as_of_ms)
        return None if seq is None else as_of(log, seq)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_task(partition, self._columns, options=self._options)


class EosLogBatchWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame, or replaces a topic's records with them (``mode("overwrite")``)."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        self._target = prepare(options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return TaskWriter(self._options, *self._target).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once."""
        topics, files = collect(messages)
        log = host().log(
            self._options.path, self._options.settings, maintenance=self._options.auto_maintenance_enable
        )

        def propose(state: State) -> tuple[Action, ...]:
            topic = self._options.topic
            before = truncation(state, topic) if self._overwrite and topic is not None else ()
            if self._options.transactional_id is not None:
                return _transaction(state, self._options.transactional_id, before, topics, files)
            return (*before, *((AppendBatches(NO_PRODUCER, topics, files),) if files else ()))

        if self._overwrite:
            log.end_overdue()  # An open transaction stays whole: nothing is removed from there on.
        try:
            log.check_visible(files)
            log.commit(propose, writer="spark batch")
        except CommitOutcomeUnknownError:
            raise  # They may be in the log, or get there yet.
        except Exception:
            delete_rejected_files(log, topics, files)  # For certain; see the streaming sink.
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing, as in the streaming sink: this is another process than the one that committed."""
