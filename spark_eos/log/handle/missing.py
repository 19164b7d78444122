"""Data files that are not there when their rows are read: deleted as they should be, or missing in the log."""

from __future__ import annotations

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import note_damage
from spark_eos.log.handle.reading import LogReader


def error_of_missing(
    log: LogReader, fetch: Fetch, error: ObjectNotFoundError, planned: str
) -> CorruptRecordError | ObjectNotFoundError:
    """What to raise for ``error``, from reading ``fetch``: whether the newest state still has its rows in that file.

    If not, they were deleted or rewritten since; ``planned`` says what to do then.
    """
    state = log.follow()
    topic = state.topics.get(fetch.topic)
    partition = None if topic is None else state.partitions.get((topic.topic_id, fetch.partition))
    if partition is not None and fetch.offset >= partition.start:
        row = next(iter(partition.index.scan(fetch.offset, log.load)), None)
        if row is not None and row.file is not None and row.file.name == fetch.file.name:
            note_damage(log.url)
            last = fetch.next_offset - 1
            offsets = f"offset {last}" if last == fetch.offset else f"offsets {fetch.offset} to {last}"
            return CorruptRecordError(
                f"{error}. It is missing: it holds {fetch.topic}-{fetch.partition}, {offsets}. It was removed by hand, "
                "or by another program. Put it back from a backup or a copy, under its own name; eoslog verify "
                "names all that is missing"
            )
    return ObjectNotFoundError(f"{error}. {planned}")
