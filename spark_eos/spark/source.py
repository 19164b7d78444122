"""The streaming source: offsets in, offsets out, and a plan that depends on nothing else."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_eos.errors import (
    CheckpointMismatchError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.idle import Idle
from spark_eos.log.log import Log
from spark_eos.log.plan import Fetch, Isolation, end_offset, plan
from spark_eos.log.stage import Stage
from spark_eos.spark.admission import admit
from spark_eos.spark.offsets import SourceOffset
from spark_eos.spark.positions import starting_positions
from spark_eos.spark.scan import read_task, split
from spark_eos.spark.schema import arrow_schema
from spark_eos.spark.topics import check_columns, selected_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import Partition, State
    from spark_eos.protocol.types import TopicPartition
    from spark_eos.spark.options import SourceOptions

__all__ = ["EosLogStreamReader"]

_LOG = logging.getLogger(__name__)

_LONGEST_REST_S = 0.2
"""Another source of the same query waits, too."""


class EosLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics of one log as a stream.

    One copy lives in the driver for a query run; others are pickled to the tasks, which only `read`.
    Positions come from committed state alone; nothing is kept between calls but the target of an
    AvailableNow run.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        check_columns(options, schema)
        self._columns = arrow_schema(schema)
        self._isolation = Isolation.parse(options.isolation_level)
        self._bounded = False
        self._target: dict[TopicPartition, int] | None = None
        self._idle: Idle | None = None
        self._not_before_s = -math.inf

    # -- what Spark asks of the driver's copy -------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins (``startingOffsets``)."""
        log = self._log()
        state = log.state
        positions = starting_positions(self._options, log, selected_partitions(self._options, state))
        return SourceOffset(
            log_id=log.log_id,
            topic_ids={at.topic: state.topics[at.topic].topic_id for at in positions},
            positions=positions,
            initial=positions,
            group=self._options.group_id,
        ).to_json_dict()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch: at most ``limit``, and never past an AvailableNow target."""
        log = self._log(math.inf)
        self._look(log)
        log.sweep()  # This query waits for open transactions: it may as well end those that nobody will.
        state = log.state
        begin = self._check(SourceOffset.from_json_dict(start), log, state)
        begin = self._join_new_partitions(begin, state)
        ends = self._ends(begin, state)
        if self._bounded:
            if self._target is None:
                # Captured here and not when the trigger is prepared: that is too early (SPARK-53560).
                self._target = ends
            ends = {
                at: max(begin.positions[at], min(end, self._target.get(at, begin.positions[at])))
                for at, end in ends.items()
            }
        self._looked(log, found=ends != begin.positions)
        if isinstance(limit, ReadMaxRows):
            ends = admit(begin.positions, ends, limit.max_rows)
        return replace(begin, positions={**begin.positions, **ends}).to_json_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, or everything."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the partitions, for the query's progress (lag), as `latestOffset` has seen them."""
        state = self._log(math.inf).state
        ends: dict[str, Any] = {}
        for at in selected_partitions(self._options, state):
            ends.setdefault(at.topic, {})[str(at.partition)] = end_offset(
                _partition(state, at), self._isolation
            )
        return ends

    def prepareForTriggerAvailableNow(self) -> None:
        """The run ends at what is there when the first batch is planned."""
        self._bounded = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks that read from ``start`` to ``end``: a pure function of the two.

        After a restart this is the first call, for the offsets that Spark wrote before the crash.
        """
        finish = SourceOffset.from_json_dict(end)
        log = self._log(math.inf)
        if not _reaches(log.state, finish):
            log.follow()
        state = log.state
        begin = self._check(SourceOffset.from_json_dict(start), log, state)
        self._check(finish, log, state)
        fetches: list[Fetch] = []
        for at, stop in sorted(finish.positions.items()):
            partition = state.partitions.get((finish.topic_ids[at.topic], at.partition))
            if partition is None:
                _LOG.warning(
                    "the records of %s up to offset %d are gone with their topic: this query goes on without them "
                    "(failOnDataLoss=false)",
                    at,
                    stop,
                )
                continue
            first = begin.positions.get(at, finish.initial.get(at, partition.start))
            fetches += plan(state, at, *self._range(at, first, stop, partition), self._isolation, log.load)
        return split(
            Stage(self._options.path, state.seq + 1, self._options.settings),
            dict(state.topics),
            fetches,
            at_least=self._options.min_partitions,
            records=self._options.max_records_per_partition,
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: offsets are committed with the output, by the sink."""

    def stop(self) -> None:
        """Nothing is open."""

    # -- what tasks do ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_task(partition, self._columns)

    # -- details ------------------------------------------------------------------------------------

    def _log(self, max_age_s: float = 0.0) -> Log:
        return Log.shared(self._options.path, self._options.settings, max_age_s=max_age_s)

    def _look(self, log: Log) -> None:
        """Look for news where that is a request; after looks in vain not at once, as Spark asks again after 10 ms."""
        if log.store.is_local:
            return  # `Log.shared` has.
        left = self._not_before_s - log.clock.monotonic()
        if left > 0:
            log.clock.sleep(left)
        log.follow()

    def _looked(self, log: Log, *, found: bool) -> None:
        if self._idle is None:
            self._idle = Idle(log.store, _LONGEST_REST_S)
        if found:
            self._idle.over()
            self._not_before_s = -math.inf
        else:
            self._not_before_s = log.clock.monotonic() + self._idle.wait_s()

    def _check(self, offset: SourceOffset, log: Log, state: State) -> SourceOffset:
        """The offset belongs to this log and to the topics that are there now."""
        if offset.log_id != log.log_id:
            raise CheckpointMismatchError(
                f"the checkpoint belongs to log {offset.log_id}, but {log.url} is log {log.log_id}: the checkpoint "
                "was pointed at another log, or the log was replaced. Use the right path, or a new checkpoint"
            )
        for name, topic_id in offset.topic_ids.items():
            topic = state.topics.get(name)
            if topic is not None and topic.topic_id != topic_id:
                raise CheckpointMismatchError(
                    f"topic {name!r} was deleted and created again since this checkpoint was written: its offsets "
                    "mean other records now. Start from a new checkpoint to read the new topic"
                )
            if topic is None and self._options.fail_on_data_loss:
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} of the checkpoint is no longer in the log {log.url}: records may be lost. Set "
                    "failOnDataLoss=false to go on without it"
                )
        return offset

    def _join_new_partitions(self, begin: SourceOffset, state: State) -> SourceOffset:
        """Partitions found since the last batch are read from their beginning."""
        fresh = {
            at: _partition(state, at).start
            for at in selected_partitions(self._options, state)
            if at not in begin.positions
        }
        if not fresh:
            return begin
        return replace(
            begin,
            positions={**begin.positions, **fresh},
            initial={**begin.initial, **fresh},
            topic_ids={**begin.topic_ids, **{at.topic: state.topics[at.topic].topic_id for at in fresh}},
        )

    def _ends(self, begin: SourceOffset, state: State) -> dict[TopicPartition, int]:
        ends = {}
        for at, position in begin.positions.items():
            partition = state.partitions.get((begin.topic_ids[at.topic], at.partition))
            stop = position if partition is None else end_offset(partition, self._isolation)
            if stop < position:
                raise _lost(at, position, stop, "ahead of the log")
            ends[at] = stop
        return ends

    def _range(self, at: TopicPartition, start: int, stop: int, partition: Partition) -> tuple[int, int]:
        """The offsets to read; records that retention removed are an error, or skipped if that is allowed."""
        end = end_offset(partition, self._isolation)
        if stop > end:
            raise _lost(at, stop, end, "ahead of the log")
        if start >= partition.start:
            return start, stop
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRangeError(
                f"the records of {at} from offset {start} to {partition.start - 1} are gone (retention, or "
                "overwritten): this query has not read them. Set failOnDataLoss=false to go on without them"
            )
        _LOG.warning(
            "the records of %s from offset %d to %d are gone: this query goes on without them (failOnDataLoss=false)",
            at,
            start,
            min(stop, partition.start) - 1,
        )
        return partition.start, max(stop, partition.start)


def _reaches(state: State, offset: SourceOffset) -> bool:
    """Whether the state has all that lies before the offset."""
    for at, stop in offset.positions.items():
        partition = state.partitions.get((offset.topic_ids[at.topic], at.partition))
        if partition is None or partition.end < stop:
            return False
    return True


def _partition(state: State, at: TopicPartition) -> Partition:
    return state.partitions[state.topics[at.topic].topic_id, at.partition]


def _lost(at: TopicPartition, wanted: int, end: int, how: str) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"the checkpoint is {how}: it has read {at} up to offset {wanted}, but the log ends at {end}. The log was "
        "put back from a backup, or the checkpoint belongs to another one. Start from a new checkpoint"
    )
