"""The query in whose ``foreachBatch`` this process runs: its ids, and where its sources leave their notes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import PySparkAttributeError

from spark_eos.errors import CheckpointMismatchError, IllegalStateError
from spark_eos.spark.sink.checkpoint import Checkpoint
from spark_eos.spark.version import local_folders, session_of_query

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame


class RunningQuery(NamedTuple):
    """A run of a query. ``notes`` is the folder of its driver's notes; None: that of this process (`Host.notes`)."""

    query_id: str
    run_id: str
    notes: Path | None


def running_query(batch: DataFrame, batch_id: int, checkpoint: Checkpoint) -> RunningQuery:
    """The query that called the function with ``batch``.

    Raises `IllegalStateError` outside of ``foreachBatch``, `CheckpointMismatchError` if the checkpoint is not that of
    the query, or if ``batch_id`` is not the batch that runs.
    """
    try:
        context = batch.sparkSession.sparkContext
    except PySparkAttributeError:
        return _of_connect(batch, batch_id, checkpoint)
    query_id = context.getLocalProperty("sql.streaming.queryId")
    run_id = context.getLocalProperty("spark.jobGroup.id")
    if not query_id or not run_id:
        raise IllegalStateError(
            "no micro-batch runs in this thread: make a MicroBatchTransaction in the function that is given to "
            "foreachBatch, in its own thread, with the DataFrame and the batch id that it gets. A batch job takes a "
            "BatchTransaction"
        )
    running = context.getLocalProperty("streaming.sql.batchId")
    if str(batch_id) != running:
        raise IllegalStateError(
            f"batch {batch_id} does not run, but batch {running}: give the batch id that the function of "
            "foreachBatch gets"
        )
    return RunningQuery(query_id, run_id, _notes(context))


def _of_connect(batch: DataFrame, batch_id: int, checkpoint: Checkpoint) -> RunningQuery:
    """A process of Spark Connect's server sees none of the query's properties, but its session knows the query."""
    query_id = checkpoint.query_id()
    query = next((query for query in session_of_query(batch).streams.active if query.id == query_id), None)
    if query is None:
        raise CheckpointMismatchError(
            f"{checkpoint!r} belongs to query {query_id}, which does not run in this session: checkpointLocation must "
            "be that of the query whose foreachBatch this is"
        )
    newer = checkpoint.offsets(batch_id + 1) is not None
    if newer or checkpoint.offsets(batch_id) is None or checkpoint.finished(batch_id):
        raise IllegalStateError(
            f"batch {batch_id} of query {query_id} does not run: give the batch id that the function of "
            "foreachBatch gets"
        )
    return RunningQuery(query_id, query.runId, None)


def _notes(context: SparkContext) -> Path | None:
    """Where Python processes of the driver's JVM keep their notes. Spark tells it to those that it starts alone."""
    folders = local_folders(context)
    return Path(folders[0], "eoslog") if folders else None
