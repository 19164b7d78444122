"""Several DataFrames of a micro-batch in one commit, with the offsets of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from spark_eos.errors import CheckpointMismatchError, ConfigError, IllegalStateError
from spark_eos.protocol.actions.queries.history import record_of
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import StagedFile
from spark_eos.spark.sink.checkpoint import Checkpoint
from spark_eos.spark.sink.commit import (
    Topics,
    delete_rejected_files,
    deleting_rejected_files,
    truncation,
)
from spark_eos.spark.sink.query_batch import QueryBatch, require_own
from spark_eos.spark.sink.query_history import keeps_state
from spark_eos.spark.sink.task import appended_rows
from spark_eos.spark.transactions.left_out import first_missing, not_left_out, range_left_out
from spark_eos.spark.transactions.running_query import running_query
from spark_eos.spark.transactions.transaction import FrameTransaction, plain, texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_eos.log.log import Log
    from spark_eos.protocol.state import Query


def _note_refused(batch: DataFrame, batch_id: int, options: Mapping[str, object] | None) -> None:
    """A function that passes over the error of its options has not left the batch out. Noted where that is possible."""
    for name, location in texts(options).items():
        if plain(name) == "checkpointlocation":
            with suppress(Exception):  # The error of the options is what is raised.
                checkpoint = Checkpoint(location)
                require_own(checkpoint, running_query(batch, batch_id, checkpoint).query_id, batch_id)
                checkpoint.note_transaction(None, batch_id)


_COMMITTED: dict[tuple[str, str], tuple[str, int]] = {}
"""By log and query: the run and the batch that this process has committed last."""


class MicroBatchTransaction(FrameTransaction):
    """Several DataFrames of a micro-batch, in one commit with its source offsets: for ``foreachBatch``.

    The commit is that of the streaming sink: all rows become visible in all topics at once, together with the offsets
    of the query's sources. A micro-batch that Spark repeats is recognised, and writes nothing a second time. A run of
    the query that was replaced is fenced. A micro-batch has one transaction in a log; one without a frame commits the
    offsets alone.

    Parameters
    ----------
    batch
        The DataFrame that the function of ``foreachBatch`` gets.
    batch_id
        The batch id that the function gets.
    path
        The log: a path or a URL.
    options
        Options of ``format("eoslog")`` for streams, by name. ``checkpointLocation`` is required: the same as that of
        the query. ``topic`` is one of each frame.

    Raises
    ------
    ConfigError
        An option is missing, unknown or wrong.
    IllegalStateError
        At the with statement: no micro-batch runs in this thread, or it has a transaction in this log already.
    CheckpointMismatchError
        The checkpoint is not that of the query.
    ProducerFencedError
        At the end of the context: a newer run of the query has taken over. Nothing was written.

    Examples
    --------
    >>> from spark_eos import MicroBatchTransaction
    >>> def route(batch, batch_id):
    ...     options = {"checkpointLocation": "/checkpoints/route", "transactional.id": "route"}
    ...     with MicroBatchTransaction(batch, batch_id, "/data/log", options) as transaction:
    ...         transaction.write(batch.where("amount > 0"), "orders")
    ...         transaction.write(batch.where("amount <= 0"), "rejected")

    Notes
    -----
    docs/guide/transactions.md. It works with Spark Connect as well.
    """

    def __init__(
        self, batch: DataFrame, batch_id: int, path: str, options: Mapping[str, object] | None = None
    ) -> None:
        try:
            super().__init__(path, options, streaming=True)
        except ConfigError:
            _note_refused(batch, batch_id, options)
            raise
        if self._options.checkpoint_location is None:
            raise ConfigError(
                "the transaction commits the offsets of the query's sources, which are in its checkpoint: give the "
                "option checkpointLocation here as well, with the value that the query has"
            )
        self._batch, self._batch_id = batch, batch_id
        self._checkpoint = Checkpoint(self._options.checkpoint_location, self._options.checkpoint_settings)
        self._query = running_query(batch, batch_id, self._checkpoint)

    def _begin(self) -> bool:
        query_id = require_own(self._checkpoint, self._query.query_id, self._batch_id)
        try:
            result = self._begin_in_log(query_id)
        except BaseException:
            self._checkpoint.note_transaction(None, self._batch_id)
            raise
        if isinstance(result, CheckpointMismatchError):
            raise result  # And not noted: the next transaction meets it as well.
        return result

    def _begin_in_log(self, query_id: str) -> bool | CheckpointMismatchError:
        log = self._existing()
        last = None
        if log is not None:
            if _COMMITTED.get((log.log_id, query_id)) == (self._query.run_id, self._batch_id):
                raise IllegalStateError(
                    f"batch {self._batch_id} of query {query_id} has committed a transaction to the log {log.url} "
                    "already: a micro-batch has one. Write all frames in one with statement"
                )
            last = record_of(log.state, self._transactional_id, query_id)
        if last is not None and last.batch_id >= self._batch_id:
            return True
        if self._batch_id > first_missing(last):
            log_id = None if log is None else log.log_id
            refusal = not_left_out(self._checkpoint, log_id, last, self._batch_id, self._options.path)
            if refusal is not None:
                return refusal
            self._commit_left_out(self._log(), last)
        self._checkpoint.note_transaction((log or self._log()).log_id, self._batch_id)
        return False

    def _commit_left_out(self, log: Log, last: Query | None) -> None:
        """Commit the offsets of the batches that the function has left out, as one batch without rows."""
        query_id, run_id, _ = self._query
        sources = range_left_out(
            self._checkpoint,
            last,
            self._batch_id,
            log_id=log.log_id,
            group=self._options.group_id,
            default=self._transactional_id,
        )
        batch = MicroBatch(
            *(self._transactional_id, query_id, run_id),
            0
            if last is None
            else self._batch_id - 1,  # The first batch that the log sees of a query is its batch 0.
            *(sources, (), ()),
            stateful=keeps_state(log.state, self._checkpoint, self._transactional_id, query_id, run_id),
            state_loss=self._options.allow_state_loss,
        )
        log.commit(
            lambda state: propose(state, batch, finished=True),
            writer=f"spark query {query_id} batches before {self._batch_id}, left out",
        )

    @property
    def _transactional_id(self) -> str:
        return self._options.transactional_id or self._query.query_id

    def _commit(self, topics: Topics, files: tuple[StagedFile, ...]) -> None:
        if not self._messages and self._checkpoint.stateful():
            # Spark commits the query's state, and moves its watermark, as rows are read; else it ends the query.
            self._batch.write.format("noop").mode("overwrite").save()
        log = self._log()
        if self._overwritten:
            log.end_overdue()  # Nothing is replaced while a transaction is open.
        reads = tuple(read for message in self._messages for read in message.reads)
        with deleting_rejected_files(log, topics, files):
            batch = QueryBatch(self._query.query_id, self._query.run_id, self._batch_id, reads).micro_batch(
                log, self._options, topics, files, self._query.notes
            )
            committed = log.commit(
                lambda state: propose(
                    state,
                    batch,
                    finished=self._checkpoint.finished(self._batch_id),
                    before=tuple(
                        action for topic in self._overwritten for action in truncation(state, topic)
                    ),
                ),
                writer=f"spark query {batch.query_id} batch {batch.batch_id}",
            )
        if files and not appended_rows(committed.results):
            # Another run has committed the batch in the meantime, or a lost reply has told of this very commit.
            delete_rejected_files(log, topics, files)
        self._note(log)

    def _note(self, log: Log) -> None:
        _COMMITTED[log.log_id, self._query.query_id] = (self._query.run_id, self._batch_id)
