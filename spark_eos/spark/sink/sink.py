"""The streaming sink: output rows and source offsets of a micro-batch in one entry.

Spark makes a new writer for every batch in a planner process, pickles it to the tasks, and makes another
one, in a longer-lived process, to commit or abort. Between the two only the tasks' messages and the
checkpoint carry anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_eos.errors import CheckpointMismatchError, CommitOutcomeUnknownError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, AppendBatches
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import NO_PRODUCER, StagedFile
from spark_eos.spark.host import host
from spark_eos.spark.sink.checkpoint import Checkpoint, SourceRange, sources_of_batch
from spark_eos.spark.sink.proof import require_proof
from spark_eos.spark.sink.query_history import is_committed, keeps_state
from spark_eos.spark.sink.sink_target import METADATA_AGE_S, check_checkpoint, prepare, truncation
from spark_eos.spark.sink.source_progress import has_a_name, plans, source_progress, unread
from spark_eos.spark.sink.task import TaskMessage, TaskWriter, appended_rows, collect, delete_rejected_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import State
    from spark_eos.spark.options import SinkOptions

__all__ = ["EosLogStreamWriter"]


class EosLogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query run."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        check_checkpoint(options)
        self._options = options
        self._overwrite = overwrite
        self._target = prepare(options, schema, overwrite=overwrite, max_age_s=METADATA_AGE_S)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return TaskWriter(self._options, *self._target).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the micro-batch visible, once: rows, source offsets and COMMIT in one entry."""
        topics, files = collect(messages)
        # The commit looks for news if it has to.
        log = host().log(
            self._options.path,
            self._options.settings,
            max_age_s=math.inf,
            maintenance=self._options.auto_maintenance_enable,
        )
        try:
            log.check_visible(files)
            if self._options.processing_guarantee == "at_least_once":
                committed = log.commit(
                    lambda state: (
                        () if is_committed(state, messages, batchId) else self._append(state, topics, files)
                    ),
                    writer="spark",
                )
            else:
                batch = self._micro_batch(log, messages, batchId, topics, files)
                finished = Checkpoint(self._location, self._options.checkpoint_settings).finished
                committed = log.commit(
                    lambda state: propose(
                        state, batch, finished=finished(batchId), before=self._before(state)
                    ),
                    writer=f"spark query {batch.query_id} batch {batchId}",
                )
        except CommitOutcomeUnknownError:
            raise  # They may be in the log, or get there yet.
        except Exception:
            # Refused, for certain. Here and not in `abort`: Spark calls that in a process that knows nothing.
            delete_rejected_files(log, topics, files)
            raise
        if committed.results and not appended_rows(committed.results):
            # A replay by another run: the batch is in the log with that run's files. (No results: this very
            # run had committed the batch, so these may be the files that are in the log.)
            log.discard(files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing.

        Spark calls this after a task failed, and after a commit that failed, with the same messages, but in
        another process, which cannot know whether the outcome is unknown. `commit` deletes what was refused;
        whatever else was staged and is in no entry goes with the staging floor.
        """

    # -- details ------------------------------------------------------------------------------------

    @property
    def _location(self) -> str:
        return self._options.checkpoint_location or ""

    def _before(self, state: State) -> tuple[Action, ...]:
        topic = self._options.topic
        return truncation(state, topic) if self._overwrite and topic is not None else ()

    def _append(
        self, state: State, topics: tuple[tuple[str, str], ...], files: tuple[StagedFile, ...]
    ) -> tuple[Action, ...]:
        append = (AppendBatches(NO_PRODUCER, topics, files),) if files else ()
        return (*self._before(state), *append)

    def _proved(
        self, sources: Sequence[SourceRange], messages: list[WriterCommitMessage | None], batch_id: int
    ) -> tuple[list[SourceRange], frozenset[str]]:
        """What was read of the sources, and the names of those that are away.

        Spark repeats a micro-batch without a source that was taken out of the query meanwhile, though the checkpoint
        has its offsets. Its rows are not there, so the log leaves it where the batch before ended.
        """
        reads = [read for message in messages if isinstance(message, TaskMessage) for read in message.reads]
        planned = plans(sources)
        named = [plan for place, plan in planned.items() if has_a_name(sources[place])]
        away = require_proof([*planned.values()], reads, batch_id=batch_id, may_be_away=named)
        places = {place for place, plan in planned.items() if plan in away and has_a_name(sources[place])}
        read = [unread(source) if place in places else source for place, source in enumerate(sources)]
        return read, frozenset(str(sources[place].name) for place in places)

    def _micro_batch(
        self,
        log: Log,
        messages: list[WriterCommitMessage | None],
        batch_id: int,
        topics: tuple[tuple[str, str], ...],
        files: tuple[StagedFile, ...],
    ) -> MicroBatch:
        told = next((message for message in messages if isinstance(message, TaskMessage)), None)
        checkpoint = Checkpoint(self._location, self._options.checkpoint_settings)
        query_id = checkpoint.query_id()
        if told is None or told.run_id is None or told.query_id != query_id:
            raise CheckpointMismatchError(
                f"the checkpoint {self._location} belongs to query {query_id}, but batch {batch_id} was run by query "
                f"{told and told.query_id}: checkpointLocation must be this query's own"
            )
        transactional_id = self._options.transactional_id or query_id
        offsets, away = self._proved(sources_of_batch(checkpoint, batch_id), messages, batch_id)
        sources = source_progress(
            offsets,
            log_id=log.log_id,
            group=self._options.group_id,
            default_group=transactional_id,
        )
        return MicroBatch(
            *(transactional_id, query_id, told.run_id, batch_id, sources, topics, files),
            stateful=keeps_state(log.state, checkpoint, transactional_id, query_id, told.run_id),
            state_loss=self._options.allow_state_loss,
            away=away,
        )
