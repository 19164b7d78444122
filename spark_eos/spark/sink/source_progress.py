"""From the checkpoint's offsets to what the commit says about each source of a micro-batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_eos.protocol.actions import PartitionOffset, SourceProgress
from spark_eos.protocol.encoding.offset_columns import offsets_text
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.sink.checkpoint import SourceRange
from spark_eos.spark.sink.proof import Plan
from spark_eos.spark.source.offsets import SourceOffset


def source_progress(
    sources: Sequence[SourceRange], *, log_id: str, group: str | None, default_group: str
) -> tuple[SourceProgress, ...]:
    """Start and end of every source of a batch, with its name if it has one, of the checkpoint (``sources``).

    Offsets of sources that read this log are committed for a consumer group: the source's own
    ``group.id``, else the sink's ``group``, else ``default_group``. Offsets of all others (another log of
    ours among them) are kept as they are.
    """
    return tuple(
        _progress(start, end, log_id, group, default_group)._replace(name=name)
        for name, start, end in sources
    )


def plans(sources: Sequence[SourceRange]) -> dict[int, Plan]:
    """What the sources of a batch have to have planned, by place, given their offsets in the checkpoint.

    Sources that are not ours say nothing about that. Those that have not moved are not planned by Spark.
    """
    by_place = {}
    for place, (_, start, end) in enumerate(sources):
        if end is None or start == end or not SourceOffset.is_ours(end):
            continue
        is_ours = start is not None and SourceOffset.is_ours(start)
        begin = SourceOffset.from_json_dict(json.loads(start or "")).positions if is_ours else {}
        by_place[place] = Plan.between(begin, SourceOffset.from_json_dict(json.loads(end)))
    return by_place


def unread(source: SourceRange) -> SourceRange:
    """The range of one of our sources as if nothing of it had been read."""
    finish = SourceOffset.from_json_dict(json.loads(source.end or ""))
    is_ours = source.start is not None and SourceOffset.is_ours(source.start)
    begin = SourceOffset.from_json_dict(json.loads(source.start or "")).positions if is_ours else {}
    positions = {at: begin.get(at, finish.initial.get(at, 0)) for at in finish.positions}
    return source._replace(end=json.dumps(replace(finish, positions=positions).to_json_dict()))


def has_a_name(source: SourceRange) -> bool:
    """Whether the user has given the source a name, so that it may come and go."""
    return source.name is not None and not source.name.isdecimal()


def _progress(
    start: str | None, end: str | None, log_id: str, group: str | None, default_group: str
) -> SourceProgress:
    if end is None or not SourceOffset.is_ours(end):
        return SourceProgress(start, end)
    finish = SourceOffset.from_json_dict(json.loads(end))
    if start is not None and SourceOffset.is_ours(start):
        begin = SourceOffset.from_json_dict(json.loads(start)).positions
    else:
        begin = finish.initial  # The first batch: the source says in its end where it began.
    starts, ends = _offsets(begin, finish.topic_ids), _offsets(finish.positions, finish.topic_ids)
    text = (offsets_text(starts), offsets_text(ends))
    if finish.log_id != log_id:
        return SourceProgress(*text)
    source_group = finish.group or group or default_group
    return SourceProgress(*text, group=source_group, start_offsets=starts, end_offsets=ends)


def _offsets(
    positions: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> tuple[PartitionOffset, ...]:
    return tuple(
        PartitionOffset(at.topic, topic_ids[at.topic], at.partition, offset)
        for at, offset in sorted(positions.items())
    )
