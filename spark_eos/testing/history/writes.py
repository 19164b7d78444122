"""Anomalies of writers: the order of what they sent, and whether it is in the log exactly once."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history.events import Kind, Send
from spark_eos.testing.history.operations import Facts, Fate, Operation
from spark_eos.testing.history.reads import Run, at, fate
from spark_eos.testing.history.report import Anomaly

# -- Order ------------------------------------------------------------------------------------------


def send_order(facts: Facts) -> Iterator[Anomaly]:
    """nonmonotonic-send, int-nonmonotonic-send, int-send-skip."""
    before: dict[tuple[str, TopicPartition], tuple[int, Operation]] = {}
    for operation in facts.operations:
        last: dict[TopicPartition, int] = {}
        for send in operation.sends:
            partition, offset = send.partition, facts.offset((send.partition, send.value))
            if offset is None:
                continue
            if partition in last:
                yield from _inside(facts, operation, partition, last[partition], offset)
            elif (operation.process, partition) in before:
                previous, sender = before[operation.process, partition]
                if offset <= previous:
                    text = f"{operation} sent {send.value!r} after {sender} had sent to offset {previous}"
                    where, events = at(partition, offset), fate(sender, operation)
                    yield Anomaly("nonmonotonic-send", where, events, text)
            last[partition] = offset
        for partition, offset in _settled(facts, operation):
            before[operation.process, partition] = (offset, operation)


def _inside(
    facts: Facts, operation: Operation, partition: TopicPartition, last: int, offset: int
) -> Iterator[Anomaly]:
    if offset <= last:
        text = f"{operation} sent to offset {last}, and then to {offset}"
        yield Anomaly("int-nonmonotonic-send", at(partition, offset), fate(operation), text)
        return
    values = facts.values[partition]
    between = range(last + 1, offset)
    # Offsets may be far apart where the log is compacted: walk over whichever is shorter.
    if len(between) < len(values):
        inside = [o for o in between if o in values]
    else:
        inside = [o for o in sorted(values) if o in between]
    for other in inside:
        writers = [facts.writers.get((partition, value)) for value in values[other]]
        strangers = [writer for writer in writers if writer is not operation]
        if strangers:
            who = strangers[0] or "an unrecorded writer"
            text = f"{operation} sent to offsets {last} and {offset}; between them is what {who} sent"
            yield Anomaly(
                "int-send-skip",
                at(partition, other),
                fate(operation, strangers[0]),
                text,
                allowed=not operation.atomic,
            )
            return


def _settled(facts: Facts, operation: Operation) -> Iterator[tuple[TopicPartition, int]]:
    """Offsets that were taken before the operation's completion: what its process sends later lies after."""
    for send in operation.sends:
        offset = send.offset
        if operation.kind is Kind.OK:
            offset = facts.offset((send.partition, send.value))
        if offset is not None:
            yield send.partition, offset


# -- Presence ---------------------------------------------------------------------------------------


def _must_be_in(facts: Facts) -> Iterator[tuple[Operation, Send]]:
    for operation in facts.operations:
        for send in operation.sends:
            if facts.fate((send.partition, send.value)) is Fate.COMMITTED:
                yield operation, send


def lost_writes(facts: Facts, runs: Iterable[Run]) -> Iterator[Anomaly]:
    """lost-write: in a stretch that was read, but not read itself."""
    stretches: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for run in runs:
        if run.committed:
            # A final read begins at the start of the partition, whatever it finds first.
            start = facts.starts.get(run.partition, 0) if run.partition in facts.final else run.start
            stretches[run.partition].append((start, run.end))
    covered = {partition: _union(ranges) for partition, ranges in stretches.items()}
    for operation, send in _must_be_in(facts):
        key = (send.partition, send.value)
        offset = facts.offset(key)
        if offset is None or key in facts.committed_reads or offset < facts.starts.get(send.partition, 0):
            continue
        ranges = covered.get(send.partition, [])
        nearest = bisect_right(ranges, (offset, float("inf"))) - 1
        if nearest >= 0 and offset < ranges[nearest][1]:
            text = f"{send.value!r} of {operation} was not read, though a reader came to {ranges[nearest][1]}"
            yield Anomaly("lost-write", at(send.partition, offset), fate(operation), text)


def _union(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    union: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def unseen_writes(facts: Facts) -> Iterator[Anomaly]:
    """unseen: in a partition that was read to its end, acknowledged, and never polled."""
    for operation, send in _must_be_in(facts):
        key = (send.partition, send.value)
        if send.partition in facts.final and key not in facts.committed_reads and not _retired(facts, send):
            text = f"{send.value!r} of {operation} was never read, and all is read"
            yield Anomaly("unseen", at(send.partition, facts.offset(key)), fate(operation), text)


def conservation(facts: Facts) -> Iterator[Anomaly]:
    """conservation: what must be in is there once, what may be in at most once, nothing else."""
    counts: dict[TopicPartition, Counter[Any]] = {}
    for partition, records in facts.final.items():
        counts[partition] = Counter(value for _, value in records)
    for (partition, value), writer in facts.writers.items():
        if partition in counts:
            times = counts[partition][value]
            text = _contradiction(facts, writer, partition, value, times)
            if text is not None:
                where = at(partition, facts.offset((partition, value)))
                yield Anomaly("conservation", where, fate(writer), text)
    for partition, value_counts in counts.items():
        for value, times in value_counts.items():
            key = (partition, value)
            if key in facts.writers:
                continue
            if partition in facts.written:
                text = f"the final read holds {value!r}, which was never sent"
            elif times > 1:
                text = f"the final read holds {value!r} {times} times"
            else:
                continue
            events = fate(facts.reads[key])
            yield Anomaly("conservation", at(partition, facts.offset(key)), events, text)


def _contradiction(
    facts: Facts, writer: Operation, partition: TopicPartition, value: Any, times: int
) -> str | None:
    fate = facts.fate((partition, value))
    if times > 1:
        return f"the final read holds {value!r} of {writer} {times} times"
    if times and fate is Fate.ABORTED:
        return f"the final read holds {value!r} of {writer}, which failed"
    if not times and fate is Fate.COMMITTED:
        # Unless all of it was before the start of the partition, where nothing can be missed.
        send = next(s for s in writer.sends if (s.partition, s.value) == (partition, value))
        return None if _retired(facts, send) else f"the final read misses {value!r} of {writer}, which is in"
    return None


def _retired(facts: Facts, send: Send) -> bool:
    """Whether the record may be gone, because the partition now starts after it."""
    start = facts.starts.get(send.partition, 0)
    offset = facts.offset((send.partition, send.value))
    return start > 0 and (offset is None or offset < start)
