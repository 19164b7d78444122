"""What all writes of Spark do around their commit: the staged files of a refused one are deleted, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, AdvanceLogStart, AppendBatches, PartitionOffset
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.actions.log_start import TO_THE_END
from spark_eos.protocol.state import State
from spark_eos.protocol.types import ProducerStamp, StagedFile

Topics = tuple[tuple[str, str], ...]
"""Names and ids of topics."""


@contextmanager
def deleting_rejected_files(log: Log, topics: Topics, files: tuple[StagedFile, ...]) -> Iterator[None]:
    """Delete ``files`` if the commit in this context is refused for certain.

    Here, and not in ``abort`` of Spark's writers: Spark calls that in a process that knows nothing of the commit.
    """
    try:
        log.check_visible(files)
        yield
    except CommitOutcomeUnknownError:
        raise  # They may be in the log, or get there yet.
    except Exception:
        delete_rejected_files(log, topics, files)
        raise


def delete_rejected_files(log: Log, topics: Topics, files: tuple[StagedFile, ...]) -> None:
    """Delete what a commit that was refused for certain had staged.

    Only what no partition refers to: the same messages may have been committed once before. What was staged
    before the last boundary, and so may be in a sealed index page, is left to `eoslog vacuum`.
    """
    try:
        state = log.follow()
    except EosLogError:
        return  # What is in the log is not known. Garbage collection deletes what is not.
    topic_ids = {topic_id for _, topic_id in topics}
    listed = {
        row.file.name
        for (topic_id, _), partition in state.partitions.items()
        if topic_id in topic_ids
        for row in partition.index.tail
        if row.file is not None
    }
    boundary = state.seq - state.seq % state.snapshot_interval
    with suppress(EosLogError):  # The refusal is what the caller has to hear of.
        log.discard(
            tuple(
                staged
                for staged in files
                if staged.file.name not in listed and staged_at(staged.file.name) > boundary
            )
        )


def append(stamp: ProducerStamp, topics: Topics, files: tuple[StagedFile, ...]) -> tuple[Action, ...]:
    """The action that appends ``files``; none if there are none."""
    return (AppendBatches(stamp, topics, files),) if files else ()


def truncation(state: State, name: str) -> tuple[Action, ...]:
    """Everything the topic holds goes, in the same entry in which the new rows come."""
    topic = state.topics[name]
    return (
        AdvanceLogStart(
            tuple(
                PartitionOffset(name, topic.topic_id, number, TO_THE_END)
                for number in range(topic.partitions)
            )
        ),
    )
