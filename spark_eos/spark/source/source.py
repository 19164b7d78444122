"""The streaming source: offsets in, offsets out, and a plan that depends on nothing else."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_eos.config.isolation import Isolation
from spark_eos.errors import ConfigError, DivergedLogError, OffsetOutOfRangeError, StoreUnavailableError
from spark_eos.log.data.planner import Fetch, end_offset, plan
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.data_place import data_place
from spark_eos.log.log import Log
from spark_eos.log.poll_backoff import PollBackoff
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.schema import arrow_schema
from spark_eos.spark.sink.continuity import check_continues
from spark_eos.spark.sink.proof import Plan, PlanNotes
from spark_eos.spark.source.admission import TriggerDelay, admit
from spark_eos.spark.source.offset_resolution import starting_positions
from spark_eos.spark.source.offsets import HistoryPoint, SourceOffset, beginning, is_beginning
from spark_eos.spark.source.scan import of_plan, read_task, split
from spark_eos.spark.source.seen import as_readers_see, held_by_another_log
from spark_eos.spark.topics import ColumnCheck, check_columns, selected_partitions, where_filter
from spark_eos.spark.version import (
    HAS_READ_LIMITS,
    SPARK,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import Partition, State
    from spark_eos.spark.options import SourceOptions

_LOG = logging.getLogger(__name__)

_GLANCE_S = 0.01
"""How often news is looked for where that is no request: as often as Spark would ask."""

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
        where = where_filter(options, schema)
        self._filters = [] if where is None else [where.row_filter]
        self._shapes = ColumnCheck(options, schema, where)
        self._notes = PlanNotes()
        self._isolation = options.isolation_level
        self._bounded = False
        self._target: tuple[dict[TopicPartition, int], HistoryPoint] | None = None
        self._planned: dict[str, Any] | None = None
        """The end of the micro-batch that was planned last, by a Spark that does not say where the next one starts."""
        least = options.min_offsets_per_trigger
        self._delay = None if least is None else TriggerDelay(least, options.max_trigger_delay_ms)
        if options.max_offsets_per_trigger is not None and not HAS_READ_LIMITS:
            _LOG.warning(
                "option maxOffsetsPerTrigger has no effect: Spark %s asks for all that is there in each micro-batch; "
                "Spark 4.2 and later keep the limit",
                SPARK,
            )
        self._idle: PollBackoff | None = None
        self._not_before_s = -math.inf
        self._opened_log: Log | None = None
        """The log as this run has opened it. Opened again it is another history: positions mean nothing there."""

    def __getstate__(self) -> dict[str, Any]:
        """Tasks only read, and what the driver knows of the log is not theirs."""
        return {**vars(self), "_opened_log": None}

    # -- what Spark asks of the driver's copy -------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """That where a query without a checkpoint begins is decided with its first micro-batch (`beginning`)."""
        return beginning(self._options.starting)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next micro-batch: at most ``limit``, and never past an AvailableNow target.

        Spark 4.1 gives neither: the start is where the last planned micro-batch ended, and all that is there is read.

        While it waits for more (``minOffsetsPerTrigger``), that is ``start``. An AvailableNow run reads all that is
        there, and a limit of all that is available (Trigger.Once) goes before other limits: both wait for nothing.

        The first micro-batch may be without rows: it writes down where the query begins (``startingOffsets``).
        """
        if start is None:
            start, limit = self._planned or self.initialOffset(), ReadAllAvailable()
        log = self._log(math.inf)
        self._look(log)
        view = as_readers_see(log)
        state = view.state
        begin = self._begin(view) if is_beginning(start) else self._go_on(start, log, state)
        ends, read = self._ends(begin, state), HistoryPoint.of(state)
        if self._bounded:
            if self._target is None:
                # Captured here and not when the trigger is prepared: that is too early (SPARK-53560).
                self._target = ends, read
            target, read = self._target
            ends = {
                at: max(begin.positions[at], min(end, target.get(at, begin.positions[at])))
                for at, end in ends.items()
            }
        waits = self._waits(log, begin, ends) and not isinstance(limit, ReadAllAvailable)
        self._looked(log, has_records=ends != begin.positions and not waits)
        if waits:
            return start
        admitted = admit(begin.positions, ends, limit.max_rows) if isinstance(limit, ReadMaxRows) else ends
        reads_all = admitted == ends
        end = replace(begin, positions={**begin.positions, **admitted})
        # Where nothing is new, Spark is to see the same text again: else it would plan a micro-batch without rows.
        if reads_all and end.to_json_dict() != start:
            end = replace(end, read=read)
        return end.to_json_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``, or everything.

        Spark takes one limit. With both options it is the first, and `latestOffset` sees to the other.
        """
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the partitions, for the query's progress (lag), as `latestOffset` has seen them."""
        log = self._log(math.inf)
        state = log.as_decided(log.state)
        gone_topics = () if self._options.fail_on_data_loss else self._options.named_topics
        ends: dict[str, Any] = {}
        for at in selected_partitions(self._options, state, gone_topics):
            ends.setdefault(at.topic, {})[str(at.partition)] = end_offset(
                _partition(state, at), self._isolation
            )
        return ends

    def prepareForTriggerAvailableNow(self) -> None:
        """The run ends at what is there when the first batch is planned."""
        self._bounded = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks that read from ``start`` to ``end``: a pure function of what Spark has written down.

        After a restart this is the first call, for the offsets that Spark wrote before the crash.
        """
        self._planned = end
        finish = SourceOffset.from_json_dict(end)
        log = self._log(math.inf)
        if not _reaches(log.state, finish, Isolation.READ_UNCOMMITTED):
            log.follow()
        state = log.as_decided(log.state)
        if not _reaches(state, finish, self._isolation):
            state = as_readers_see(log).state  # A micro-batch of an earlier run: this one has not asked yet.
        begin: Mapping[TopicPartition, int] = {}  # Of a first micro-batch: where `finish` says that it began.
        if not is_beginning(start):
            offset = SourceOffset.from_json_dict(start)
            check_continues(offset, self._options, log, state)
            begin = offset.positions
        check_continues(finish, self._options, log, state)
        planned = Plan.between(begin, finish)
        self._check_columns(finish, state)
        fetches: list[Fetch] = []
        for part in planned.parts:
            at = TopicPartition(part.topic, part.partition)
            partition = state.partitions.get((finish.topic_ids[at.topic], at.partition))
            if partition is None:
                _LOG.warning(
                    "the records of %s up to offset %d are gone with their topic: this query goes on without them "
                    "(failOnDataLoss=false)",
                    at,
                    part.end,
                )
                continue
            first, stop = self._range(at, part.start, part.end, partition)
            fetches += plan(state, at, first, stop, self._isolation, log.load)
        stage = TaskStorage(
            self._options.path, state.seq + 1, self._options.settings, place=data_place(log.state)
        )
        tasks = split(
            stage,
            dict(state.topics),
            fetches,
            at_least=self._options.min_partitions,
            records=self._options.max_records_per_partition,
        )
        self._notes.note(planned)
        return of_plan(tasks, planned, stage)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: offsets are committed with the output, by the sink."""

    def stop(self) -> None:
        """Nothing is open."""

    # -- what tasks do ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_task(partition, self._columns, self._filters, self._options)

    # -- details ------------------------------------------------------------------------------------

    def _log(self, max_age_s: float = 0.0) -> Log:
        log = host().log(self._options.path, self._options.settings, max_age_s=max_age_s)
        if self._opened_log is None:
            self._opened_log = log
        if log is not self._opened_log:
            raise DivergedLogError(
                f"{log.url} was put back from a copy, moved or replaced while this query ran: what it has read may not "
                "be in the log any more. Compare its output with the log, and start it again; it goes on where its "
                "checkpoint says, or start it from a new checkpoint"
            )
        return log

    def _look(self, log: Log) -> None:
        """Look for news; after looks in vain with patience, as Spark asks again after 10 ms.

        Where looking is a request, not at once. In a folder it costs next to nothing, but Spark's question does: the
        answer waits for news instead, for a moment, unless a micro-batch has run since the last one.
        """
        if log.store.requests_are_free:
            seq = log.state.seq  # `Log.shared` has looked.
            while (wait_s := self._not_before_s - log.clock.monotonic()) > 0:
                log.clock.sleep(min(wait_s, _GLANCE_S))
                if log.follow().seq != seq:
                    return
            return
        wait_s = self._not_before_s - log.clock.monotonic()
        if wait_s > 0:
            log.clock.sleep(wait_s)
        log.follow()

    def _looked(self, log: Log, *, has_records: bool) -> None:
        if self._idle is None:
            self._idle = PollBackoff(log.store, _LONGEST_REST_S)
        if has_records:
            self._idle.over()
            self._not_before_s = -math.inf
        else:
            self._not_before_s = log.clock.monotonic() + self._idle.wait_s()

    def _waits(self, log: Log, begin: SourceOffset, ends: Mapping[TopicPartition, int]) -> bool:
        if self._delay is None or self._bounded:
            return False
        backlog = sum(end - begin.positions[at] for at, end in ends.items())
        return self._delay.waits(backlog, log.clock.monotonic())

    def _begin(self, log: Log) -> SourceOffset:
        """Where the query begins, as of now."""
        state = log.state
        positions = starting_positions(self._options, log, selected_partitions(self._options, state))
        offset = SourceOffset(
            log_id=log.log_id,
            topic_ids={at.topic: state.topics[at.topic].topic_id for at in positions},
            positions=positions,
            initial=positions,
            begins=self._options.starting.text,
            group=self._options.group_id,
        )
        self._check_columns(offset, state)
        return offset

    def _go_on(self, start: dict[str, Any], log: Log, state: State) -> SourceOffset:
        """Where the last micro-batch ended, and partitions found since from their beginning."""
        begin = SourceOffset.from_json_dict(start)
        check_continues(begin, self._options, log, state)
        begin = replace(self._join_new_partitions(begin, state), group=self._options.group_id)
        self._check_columns(begin, state)
        return begin

    def _check_columns(self, offset: SourceOffset, state: State) -> None:
        self._shapes.check([state.topics[name] for name in offset.topic_ids if name in state.topics])

    def _join_new_partitions(self, begin: SourceOffset, state: State) -> SourceOffset:
        gone_topics = () if self._options.fail_on_data_loss else begin.topic_ids
        fresh = {
            at: _partition(state, at).start
            for at in selected_partitions(self._options, state, gone_topics)
            if at not in begin.positions
        }
        if not fresh:
            return begin
        for at, first in fresh.items():
            # Its records were never out of this query's reach, as those of a topic that it did not read may have been.
            if first and at.topic in begin.topic_ids and self._options.fail_on_data_loss:
                raise _records_gone(at, 0, first)
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
            if partition is not None and partition.end < position:
                raise _checkpoint_ahead(at, position, partition.end)
            ends[at] = max(stop, position)  # After the last stable offset: it was read uncommitted before.
        return ends

    def _range(self, at: TopicPartition, start: int, stop: int, partition: Partition) -> tuple[int, int]:
        """The offsets to read; records that retention removed are an error, or skipped if that is allowed."""
        if stop > partition.end:
            raise _checkpoint_ahead(at, stop, partition.end)
        if stop > end_offset(partition, self._isolation):
            if self._opened_log is not None and (why := held_by_another_log(self._opened_log, partition)):
                raise StoreUnavailableError(
                    f"this micro-batch was begun when it was known how a transaction of another log ended, which is "
                    f"open in {at} at offset {partition.last_stable_offset}; now it is not: {why}. Start the query "
                    "again when that log can be read"
                )
            raise ConfigError(
                f"option isolation.level was read_uncommitted when this micro-batch was begun: it reads {at} up to "
                f"offset {stop}, but a transaction is open at offset {partition.last_stable_offset}, which "
                "read_committed does not read past. Set isolation.level=read_uncommitted again, or start the query "
                "when the transaction has ended"
            )
        if start >= partition.start:
            return start, stop
        if self._options.fail_on_data_loss:
            raise _records_gone(at, start, partition.start)
        _LOG.warning(
            "the records of %s from offset %d to %d are gone: this query goes on without them (failOnDataLoss=false)",
            at,
            start,
            min(stop, partition.start) - 1,
        )
        return partition.start, max(stop, partition.start)


def _reaches(state: State, offset: SourceOffset, isolation: Isolation) -> bool:
    """Whether the state has all that lies before the offset, for readers of that isolation level."""
    for at, stop in offset.positions.items():
        partition = state.partitions.get((offset.topic_ids[at.topic], at.partition))
        if partition is None or end_offset(partition, isolation) < stop:
            return False
    return True


def _partition(state: State, at: TopicPartition) -> Partition:
    return state.partitions[state.topics[at.topic].topic_id, at.partition]


def _checkpoint_ahead(at: TopicPartition, offset: int, end: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"the checkpoint is ahead of the log: it has read {at} up to offset {offset}, but the log ends at {end}. The "
        "log was put back from a backup, or the checkpoint belongs to another one. Start from a new checkpoint"
    )


def _records_gone(at: TopicPartition, first: int, start: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"the records of {at} from offset {first} to {start - 1} are gone (retention, or "
        "overwritten): this query has not read them. Set failOnDataLoss=false to go on without them"
    )
