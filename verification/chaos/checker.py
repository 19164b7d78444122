"""What was found, compared with what went in. Pure: numbers and records in, a verdict out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import Event, Kind, Send, check

__all__ = ["Rows", "compare", "holes", "torn", "verify_inputs"]

_SHOWN = 5


@dataclass(frozen=True)
class Rows:
    """How the rows of a topic compare with those that should be there."""

    wanted: int
    found: int
    lost: int
    doubled: int
    strange: int
    """Rows that should not be there at all: aborted ones, for instance."""
    examples: tuple[str, ...] = field(default=())

    @property
    def exact(self) -> bool:
        """Every row once, and nothing else."""
        return not (self.lost or self.doubled or self.strange)

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            self.wanted + other.wanted,
            self.found + other.found,
            self.lost + other.lost,
            self.doubled + other.doubled,
            self.strange + other.strange,
            self.examples + other.examples,
        )


NO_ROWS = Rows(0, 0, 0, 0, 0)


def compare(wanted: Mapping[str, int], found: Iterable[str] | Mapping[str, int]) -> Rows:
    """Two multisets of values."""
    there = Counter(found)
    expected = Counter(wanted)
    lost = expected - there
    more = there - expected
    doubled = {value: count for value, count in more.items() if value in expected}
    strange = {value: count for value, count in more.items() if value not in expected}
    examples = [
        f"{what} {value!r}"
        for what, values in (("lost", lost), ("doubled", doubled), ("must not be there:", strange))
        for value in sorted(values)[:_SHOWN]
    ]
    return Rows(
        expected.total(),
        there.total(),
        lost.total(),
        sum(doubled.values()),
        sum(strange.values()),
        tuple(examples),
    )


def verify_inputs(
    events: Sequence[Event], final: Mapping[TopicPartition, Sequence[tuple[int, str]]]
) -> tuple[Rows, list[str]]:
    """Acknowledged records exactly once, aborted ones never, and the history without any anomaly.

    ``final``: offset and value of all that a committed reader finds in each partition in the end. A record
    whose outcome is not known may be there once.
    """
    report = check(events, partitions_read_fully=final)
    acknowledged, maybe = Counter[str](), Counter[str]()
    for completion in _last_words(events):
        for action in completion.actions:
            if isinstance(action, Send):
                if completion.kind is Kind.OK:
                    acknowledged[action.value] += 1
                elif completion.kind is not Kind.FAIL:
                    maybe[action.value] += 1
    found = Counter(value for records in final.values() for _, value in records)
    allowed = {value: 1 for value in maybe if found[value]}
    rows = compare(acknowledged + Counter(allowed), found)
    return rows, [str(anomaly).splitlines()[0] for anomaly in report.forbidden]


def _last_words(events: Iterable[Event]) -> list[Event]:
    """The completion of each call, or its invocation if there is none. One process has one call at a time."""
    open_calls: dict[str, Event] = {}
    found = []
    for event in events:
        before = open_calls.pop(event.process, None)
        if event.kind is Kind.INVOKE:
            if before is not None:
                found.append(before)
            open_calls[event.process] = event
        else:
            found.append(event)
    return [*found, *open_calls.values()]


def holes(where: str, batches: Iterable[tuple[int, int]], start: int, end: int) -> list[str]:
    """What is wrong with the offsets of a partition: its batches (first offset, offset after) join up."""
    problems = []
    at = start
    for first, behind in batches:
        if first != at:
            problems.append(f"{where}: a batch begins at offset {first}, the one before ends at {at}")
        at = behind
    if at != end:
        problems.append(f"{where}: the last batch ends at offset {at}, the partition at {end}")
    return problems


def torn(where: str, seq: int, consumed: int, written: int) -> list[str]:
    """Output and committed source offsets belong together in every state."""
    if consumed == written:
        return []
    return [
        f"{where}: in entry {seq} committed offsets stand behind {consumed} rows, but {written} are written"
    ]
