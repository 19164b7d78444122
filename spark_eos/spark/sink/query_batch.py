"""A micro-batch of a query as the log wants it: whose it is, and from where to where its sources were read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_eos.errors import CheckpointMismatchError
from spark_eos.log.log import Log
from spark_eos.protocol.actions.queries.microbatch import MicroBatch
from spark_eos.protocol.types import StagedFile
from spark_eos.spark.sink.checkpoint import Checkpoint, SourceRange, sources_of_batch
from spark_eos.spark.sink.commit import Topics
from spark_eos.spark.sink.proof import Read, require_proof
from spark_eos.spark.sink.query_history import keeps_state
from spark_eos.spark.sink.source_progress import has_a_name, plans, source_progress, unread

if TYPE_CHECKING:
    from spark_eos.spark.options import SinkOptions


class QueryBatch(NamedTuple):
    """Batch ``batch_id`` of the run ``run_id``; None where the tasks have not said which query they ran for."""

    query_id: str | None
    run_id: str | None
    batch_id: int
    reads: tuple[Read, ...]

    def micro_batch(
        self,
        log: Log,
        options: SinkOptions,
        topics: Topics,
        files: tuple[StagedFile, ...],
        notes: Path | None = None,
    ) -> MicroBatch:
        """What is committed: these files with the offsets of the checkpoint.

        ``notes`` as in `require_proof`. Raises `CheckpointMismatchError` if the checkpoint is not that of the query, or
        if its offsets are not those of the rows.
        """
        checkpoint = Checkpoint(options.checkpoint_location or "", options.checkpoint_settings)
        run_id = self.run_id or ""
        query_id = require_own(checkpoint, self.query_id if run_id else None, self.batch_id)
        transactional_id = options.transactional_id or query_id
        offsets, away = _proved(sources_of_batch(checkpoint, self.batch_id), self.reads, self.batch_id, notes)
        sources = source_progress(
            offsets,
            log_id=log.log_id,
            group=options.group_id,
            default_group=transactional_id,
        )
        return MicroBatch(
            *(transactional_id, query_id, run_id, self.batch_id, sources, topics, files),
            stateful=keeps_state(log.state, checkpoint, transactional_id, query_id, run_id),
            state_loss=options.allow_state_loss,
            away=away,
        )


def require_own(checkpoint: Checkpoint, query_id: str | None, batch_id: int) -> str:
    """The id of the query, which is that of the checkpoint; else raises `CheckpointMismatchError`."""
    owner = checkpoint.query_id()
    if query_id != owner:
        raise CheckpointMismatchError(
            f"{checkpoint!r} belongs to query {owner}, but batch {batch_id} was run by query {query_id}: "
            "checkpointLocation must be this query's own"
        )
    return owner


def _proved(
    sources: tuple[SourceRange, ...], reads: Iterable[Read], batch_id: int, notes: Path | None
) -> tuple[list[SourceRange], frozenset[str]]:
    """What was read of the sources, and the names of those that are away.

    Spark repeats a micro-batch without a source that was taken out of the query meanwhile, though the checkpoint
    has its offsets. Its rows are not there, so the log leaves it where the batch before ended.
    """
    planned = plans(sources)
    named_plans = [plan for place, plan in planned.items() if has_a_name(sources[place])]
    away = require_proof([*planned.values()], reads, batch_id=batch_id, may_be_away=named_plans, notes=notes)
    places = {place for place, plan in planned.items() if plan in away and has_a_name(sources[place])}
    ranges = [unread(source) if place in places else source for place, source in enumerate(sources)]
    return ranges, frozenset(str(sources[place].name) for place in places)
