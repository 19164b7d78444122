"""What a checked history is found to hold: anomalies, by Jepsen's names for Kafka, and how much was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_eos.testing.history.events import Event

ANOMALIES = {
    "inconsistent-offset": "one offset with two values",
    "duplicate": "one value at two offsets",
    "G1a": "an aborted read: a value was read whose writer failed",
    "precommitted-read": "a transaction polled what itself sent",
    "lost-write": "a value that must be in was not read, though a reader passed its place",
    "unseen": "an acknowledged value is not in the final read and was never polled",
    "poll-skip": "a reader passed over a value between two polls",
    "int-poll-skip": "a reader passed over a value inside one event",
    "nonmonotonic-poll": "a reader went back between two polls",
    "int-nonmonotonic-poll": "a reader went back inside one event",
    "nonmonotonic-send": "a later send of a process has a lower offset",
    "int-nonmonotonic-send": "a later send inside one event has a lower offset",
    "int-send-skip": "another writer's record lies between two sends of one transaction",
    "G0": "writers that overwrote one another in a circle",
    "G1c": "transactions in a circle of writes and reads",
    "torn": "a reader saw a part of a committed transaction and not the rest",
    "conservation": "the final read does not hold what was acknowledged exactly once, or holds what must not be",
}
"""Every name, and what it means."""

TOLERABLE = frozenset({"G0", "G1c", "int-send-skip", "torn"})
"""Names that are allowed where a transaction was streamed; all others never are."""


@dataclass(frozen=True)
class Anomaly:
    """One thing that is wrong, or would be among one-shot transactions."""

    name: str
    where: str
    """Partition and offset, or the operations of a cycle."""
    events: tuple[Event, ...]
    """The evidence, in the order of the history; a final read is an event with a negative index."""
    message: str
    allowed: bool = False
    """It comes from a streamed transaction, whose records may lie between those of others, as in Kafka."""

    def __post_init__(self) -> None:
        assert self.name in ANOMALIES, self.name
        assert self.name in TOLERABLE or not self.allowed, self

    def __str__(self) -> str:
        title = f"{self.name}{' (allowed)' if self.allowed else ''} at {self.where}: {self.message}"
        return "\n".join([title, *(f"    {event}" for event in self.events)])


@dataclass(frozen=True)
class Report:
    """The verdict on a history.

    Attributes
    ----------
    anomalies
        What was found, allowed anomalies included.
    counts
        How much was looked at: events, operations by outcome, transactions, values sent and read.
    """

    anomalies: Sequence[Anomaly]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def forbidden(self) -> list[Anomaly]:
        """The anomalies that must not happen."""
        return [anomaly for anomaly in self.anomalies if not anomaly.allowed]

    @property
    def allowed(self) -> list[Anomaly]:
        """The anomalies that streamed transactions may have."""
        return [anomaly for anomaly in self.anomalies if anomaly.allowed]

    @property
    def ok(self) -> bool:
        """Whether nothing forbidden was found."""
        return not self.forbidden

    @property
    def names(self) -> Counter[str]:
        """How often each anomaly was found, allowed ones too."""
        return Counter(anomaly.name for anomaly in self.anomalies)

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        head = f"{len(self.forbidden)} forbidden and {len(self.allowed)} allowed anomalies in {counts}"
        return "\n".join([head, *map(str, self.forbidden), *map(str, self.allowed)])
