"""The sources of a micro-batch: which of them is which of the batch before, and whether each goes on where it ended.

From version 2 of Spark's offset log on a source has a name. A name of digits alone is a place in the plan, as in
version 1, which has no names. A source with a name of its own may come, and may go; the log keeps where it ended.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from spark_eos.protocol.state import Query
from spark_eos.protocol.types import PartitionOffset, SourceProgress

Sources = tuple[SourceProgress, ...]


class Batches(NamedTuple):
    """The names of a batch and of the one before it in messages, and how to have the batch planned again."""

    now: str
    last: str
    again: str = ""


def by_name(sources: Sources) -> dict[str, SourceProgress]:
    """Each source by its name; one without a name by its place."""
    return {
        str(place) if source.name is None else source.name: source for place, source in enumerate(sources)
    }


def repeats(ours: Sources, theirs: Sources, away: Collection[str] = ()) -> bool:
    """Whether ``ours`` read the ranges of ``theirs`` again; of the sources ``away`` they read nothing."""
    again, before = _ranges(ours), _ranges(theirs)
    return again.keys() == before.keys() and all(
        range_ == before[name] or (name in away and range_[0] == before[name][0])
        for name, range_ in again.items()
    )


def former_sources(sources: Sources, last: Query | None) -> Sources:
    """The sources that the query once had and has no more after a batch with ``sources``, by name."""
    if last is None:
        return ()
    gone = {**by_name(last.former), **by_name(last.sources)}
    return tuple(
        source._replace(name=name) for name, source in sorted(gone.items()) if name not in by_name(sources)
    )


def moved(sources: Sources, last: Query, batches: Batches, *, same_query: bool) -> str | None:
    """What is wrong with ``sources`` after the batch ``last``; None if each goes on where it ended."""
    new, old = by_name(sources), by_name(last.sources)
    if not same_query and len(new) == len(old) == 1:
        new = dict(zip(old, new.values(), strict=True))  # A new checkpoint may have another version.
    came, went = sorted(set(new) - set(old)), sorted(set(old) - set(new))
    fixed = not same_query or any(source.name is None for source in sources)
    if (came or went) if fixed else any(map(str.isdecimal, went)):
        return f"the query reads {len(new)} sources, but {batches.last} read {len(old)}"
    for name, source in new.items():
        before = old.get(name)
        wrong = (
            _of_new(name, source, went, last, batches)
            if before is None
            else _of_known(name, source, before, batches)
        )
        if wrong is not None:
            return wrong
    return None


def changed_places(sources: Sources, last: Query, batches: Batches) -> str | None:
    """What is wrong if a source reads a topic that until now another one read; None if none does."""
    old = by_name(last.sources)
    for name, source in by_name(sources).items():
        if name not in old:
            continue
        joined = _topics(source) - _topics(old[name])
        for other, theirs in old.items():
            if other != name and (shared := sorted(joined & _topics(theirs))):
                return (
                    f"{batches.now} reads topic {shared[0][0]!r} as source {name}, which until now was read as source "
                    f"{other}: the sources of the query have changed places. Put them back in their order, or give "
                    "each a name (docs/reference/spark.md, sources that come and go)"
                )
    return None


def _continues(start: tuple[PartitionOffset, ...], end: tuple[PartitionOffset, ...]) -> bool:
    """Every partition that was read goes on at its end; further ones may join."""
    starts = _offsets(start)
    return all(starts.get((at.topic, at.topic_id, at.partition)) == at.offset for at in end)


def shown(offset: str | None) -> str:
    """An offset in a message."""
    return "an unknown place" if offset is None else offset


def _of_known(name: str, source: SourceProgress, before: SourceProgress, batches: Batches) -> str | None:
    if source.group is not None and before.group is not None:
        matches = _continues(source.start_offsets, before.end_offsets)
    else:
        matches = source.start == before.end
    if not matches:
        return (
            f"{batches.now} reads source {name} from {shown(source.start)}, but {batches.last} ended at "
            f"{shown(before.end)}"
        )
    return None


def _of_new(name: str, source: SourceProgress, went: list[str], last: Query, batches: Batches) -> str | None:
    """A source that was not there in the last batch: it must not be an earlier one that begins again."""
    gone = {**by_name(last.former), **{key: by_name(last.sources)[key] for key in went}}
    start = _offsets(source.start_offsets)
    for earlier, before in gone.items():
        for at in before.end_offsets:
            offset = start.get((at.topic, at.topic_id, at.partition))
            if offset is not None and offset != at.offset:
                return (
                    f"{batches.now} reads {at.topic}-{at.partition} as source {name} from {offset}, but the query has "
                    f"read it as source {earlier} up to {at.offset}. Begin the source there: startingOffsets=committed "
                    f"and group.id={before.group} on the source. {batches.again}"
                )
    if source.group is not None or source.start in {before.end for before in gone.values()} - {None}:
        return None
    if name in gone and not _is_files(source.end):
        return (
            f"{batches.now} reads source {name} again, which the query has read up to {shown(gone[name].end)} and "
            "then no more: this source cannot go on there. Give it another name if it may start over. "
            f"{batches.again}"
        )
    foreign = [key for key in went if by_name(last.sources)[key].group is None]
    if foreign:
        return (
            f"source {foreign[0]} is gone in {batches.now}, and source {name} is new: if it is the same one under "
            "another name, it starts over. Keep its name; or, if it is another one, run the query without both first. "
            f"{batches.again}"
        )
    return None


def _is_files(end: str | None) -> bool:
    """Whether it is Spark's source of files, which keeps a list of those it has read in the checkpoint."""
    return end is not None and re.fullmatch(r'\{"logOffset": ?[0-9]+\}', end, re.ASCII) is not None


def _ranges(sources: Sources) -> dict[str, tuple[str | None, str | None]]:
    return {name: (source.start, source.end) for name, source in by_name(sources).items()}


def _offsets(offsets: tuple[PartitionOffset, ...]) -> dict[tuple[str, str, int], int]:
    return {(at.topic, at.topic_id, at.partition): at.offset for at in offsets}


def _topics(source: SourceProgress) -> set[tuple[str, str]]:
    return {(at.topic, at.topic_id) for at in source.end_offsets}
