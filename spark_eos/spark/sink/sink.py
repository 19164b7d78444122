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

from spark_eos.protocol.actions import Action
from spark_eos.protocol.actions.queries.microbatch import propose
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.spark.host import host
from spark_eos.spark.sink.checkpoint import Checkpoint
from spark_eos.spark.sink.commit import append, deleting_rejected_files, truncation
from spark_eos.spark.sink.query_batch import QueryBatch
from spark_eos.spark.sink.query_history import is_committed
from spark_eos.spark.sink.sink_target import METADATA_AGE_S, check_checkpoint, prepare
from spark_eos.spark.sink.task import TaskMessage, TaskWriter, appended_rows, collect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import State
    from spark_eos.spark.options import SinkOptions


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
        if self._overwrite:
            log.end_overdue()  # Nothing is replaced while a transaction is open.
        with deleting_rejected_files(log, topics, files):
            if self._options.processing_guarantee == "at_least_once":
                committed = log.commit(
                    lambda state: (
                        ()
                        if is_committed(state, messages, batchId)
                        else (*self._overwritten_rows(state), *append(NO_PRODUCER, topics, files))
                    ),
                    writer="spark",
                )
            else:
                batch = query_batch(messages, batchId).micro_batch(log, self._options, topics, files)
                finished = Checkpoint(self._location, self._options.checkpoint_settings).finished
                committed = log.commit(
                    lambda state: propose(
                        state, batch, finished=finished(batchId), before=self._overwritten_rows(state)
                    ),
                    writer=f"spark query {batch.query_id} batch {batch.batch_id}",
                )
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

    def _overwritten_rows(self, state: State) -> tuple[Action, ...]:
        topic = self._options.topic
        return truncation(state, topic) if self._overwrite and topic is not None else ()


def query_batch(messages: Sequence[WriterCommitMessage | None], batch_id: int) -> QueryBatch:
    """The batch by what its tasks say."""
    task_messages = [message for message in messages if isinstance(message, TaskMessage)]
    query_id, run_id = (task_messages[0].query_id, task_messages[0].run_id) if task_messages else (None, None)
    return QueryBatch(
        query_id, run_id, batch_id, tuple(read for message in task_messages for read in message.reads)
    )
