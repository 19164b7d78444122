"""What a commit has to know of the query's past, of the log and of the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_eos.errors import CheckpointMismatchError, NotALogError
from spark_eos.protocol.actions.queries.history import record_of
from spark_eos.spark.host import host
from spark_eos.spark.sink.checkpoint import Checkpoint
from spark_eos.storage import NO_SETTINGS, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import WriterCommitMessage

    from spark_eos.protocol.state import State


def keeps_state(
    state: State, checkpoint: Checkpoint, transactional_id: str, query_id: str, run_id: str
) -> bool:
    """Whether the query keeps state. Looked up in the checkpoint once in a run; from then on the log knows."""
    query, producer = state.queries.get(transactional_id), state.producer_of(transactional_id)
    same_run = producer is not None and producer.run_id == run_id
    if same_run and query is not None and query.query_id == query_id and query.stateful is not None:
        return query.stateful
    return checkpoint.stateful()


def require_own_log(location: str, path: str, settings: Settings = NO_SETTINGS) -> None:
    """Check that a query with this checkpoint has written to this log before, or has written nothing.

    The sink checks the same at its first commit, which does not come while there is nothing new to read. Call this
    function before the query starts, to be warned at once.

    Parameters
    ----------
    location
        The ``checkpointLocation`` of the query: a folder or a URL.
    path
        The log: a path or a URL.
    settings
        Settings of an object store (``s3.region``, …), as `spark_eos.storage.Settings`.

    Raises
    ------
    CheckpointMismatchError
        Micro-batches of this checkpoint were committed, but not to this log. Use the log that the query wrote to, or a
        new checkpoint.

    Examples
    --------
    >>> from spark_eos import require_own_log
    >>> require_own_log("/tmp/a-new-checkpoint", "memory://orders")

    Notes
    -----
    Checkpoints and the log: docs/design/0003-spark.md.
    """
    checkpoint = Checkpoint(location, settings)
    if not checkpoint.begun():
        return
    query_id = checkpoint.query_id()
    try:
        state = host().log(path, settings).state
    except NotALogError:
        state = None
    if state is None or record_of(state, "", query_id) is None:
        problem = "is no log" if state is None else f"has no micro-batch of its query {query_id}"
        raise CheckpointMismatchError(
            f"the checkpoint {location} has micro-batches that are done, but {path} {problem}: they went to another "
            "log. Nothing was written. Give the log that the query wrote to, or a new checkpoint"
        )


def is_committed(state: State, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> bool:
    """Whether the query has committed the batch with its offsets: at_least_once would write it a second time."""
    query_id = next(
        (id_ for message in messages if (id_ := getattr(message, "query_id", None)) is not None), None
    )
    record = None if query_id is None else record_of(state, "", query_id)
    return record is not None and batch_id <= record.batch_id
