"""Micro-batches that a function of ``foreachBatch`` has left out: Spark has noted them, the log has nothing of them.

A log that was put back from a copy looks the same, and so does a function that catches the error of a commit. What
tells them apart is the checkpoint's note of the last transaction that was begun (`Checkpoint.note_transaction`).
"""

from __future__ import annotations

from spark_eos.errors import CheckpointMismatchError
from spark_eos.protocol.actions.queries.sources import by_name
from spark_eos.protocol.state import Query
from spark_eos.protocol.types import SourceProgress
from spark_eos.spark.sink.checkpoint import Checkpoint, SourceRange
from spark_eos.spark.sink.source_progress import source_progress


def first_missing(last: Query | None) -> int:
    """The first micro-batch that the log does not have."""
    return 0 if last is None else last.batch_id + 1


def not_left_out(
    checkpoint: Checkpoint, log_id: str | None, last: Query | None, batch_id: int, where: str
) -> CheckpointMismatchError | None:
    """Why the batches between ``last`` and ``batch_id`` may have begun a transaction; None if none of them did.

    ``log_id`` is None where there is no log at ``where`` yet.
    """
    first = first_missing(last)
    last_begun = None if log_id is None else checkpoint.transaction(log_id)
    failed = checkpoint.transaction(None)
    if failed is not None and first <= failed < batch_id:
        why = f"the transaction of batch {failed} could not begin: the function caught its error and went on"
    elif last_begun == (None if last is None else last.batch_id):
        if last is not None or not checkpoint.has_transactions():
            return None
        why = (
            "the transactions of this checkpoint went to another log (a function that writes to several logs enters a "
            "with statement for each of them in every batch, from batch 0 on, also where it writes nothing)"
        )
    elif last_begun is not None and last_begun >= first:
        why = (
            f"batch {last_begun} began a transaction of which the log has nothing: the function caught its error and "
            "went on, or left the batch out when it was repeated, or the log was put back from a copy"
        )
    else:
        why = "the checkpoint does not tell whether they wrote nothing"
    return CheckpointMismatchError(
        f"batch {batch_id} begins a transaction of the log {where}, which has "
        f"{'no micro-batch' if last is None else f'micro-batches up to {last.batch_id}'} of this query, while Spark "
        f"has noted the batches {first} to {batch_id - 1} as done, and {why}. Nothing was written. If this is the "
        f"right log, let Spark repeat these batches: stop the query, remove in {checkpoint!r} the files from batch "
        f"{first} on in commits and from batch {first + 1} on in offsets, each with its sums (5 with .5.crc), and "
        "start it again; or start from a new checkpoint with startingOffsets=committed and the same transactional.id. "
        "A batch that is to be left out when it is repeated has to enter the with statement, and write nothing there"
    )


def range_left_out(
    checkpoint: Checkpoint, last: Query | None, batch_id: int, *, log_id: str, group: str | None, default: str
) -> tuple[SourceProgress, ...]:
    """What the sources had in the batches between ``last`` and ``batch_id``, from where ``last`` ended.

    The checkpoint keeps the offsets of some hundred batches only, so the beginning is what the log knows.
    """
    ends = checkpoint.require_offsets(batch_id - 1)
    ranges = [SourceRange(name if ends.named else None, None, end) for name, end in ends.offsets.items()]
    sources = source_progress(ranges, log_id=log_id, group=group, default_group=default)
    earlier = {} if last is None else by_name(last.sources)
    return tuple(
        source._replace(start=earlier[name].end, start_offsets=earlier[name].end_offsets)
        if name in earlier
        else source
        for name, source in by_name(sources).items()
    )
