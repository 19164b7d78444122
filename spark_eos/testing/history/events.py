"""Events: what clients asked of a log, and what they were answered. A history is a list of them in real time order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from spark_eos.protocol.types import TopicPartition

Isolation = Literal["read_committed", "read_uncommitted"]
READ_COMMITTED: Isolation = "read_committed"
READ_UNCOMMITTED: Isolation = "read_uncommitted"


class Kind(Enum):
    """What an event says of a call."""

    INVOKE = "invoke"
    """It begins."""
    OK = "ok"
    """It succeeded: what it sent is in the log, and its transaction is committed."""
    FAIL = "fail"
    """It certainly has no effect: nothing of it is in the log, or its transaction is aborted."""
    INFO = "info"
    """Its outcome is not known: it may be in the log, or get there later, or never."""


@dataclass(frozen=True)
class Send:
    """One record that was sent.

    Attributes
    ----------
    partition
        Where it was sent to.
    value
        Hashable, and unique in its partition over the whole history: not even a retry repeats one.
    offset
        The acknowledged offset; None: not known (-1 is taken as None).
    """

    partition: TopicPartition
    value: Any
    offset: int | None = None

    def __post_init__(self) -> None:
        if self.offset == -1:
            object.__setattr__(self, "offset", None)

    def __str__(self) -> str:
        return f"send {self.partition}{_at(self.offset)} {self.value!r}"


@dataclass(frozen=True)
class Poll:
    """What one call of ``poll`` gave of one partition.

    Attributes
    ----------
    partition
        The partition.
    records
        Pairs of offset and value, in the order in which they came.
    reassigned
        The position was set since the last poll of this process (seek, assignment, restart): what was read before says
        nothing about it.
    caught_up
        The reader has read all that it may see: its position is the end (``read_uncommitted``) or the last stable
        offset (``read_committed``) in the state of the log that answered this call.
    position
        The offset of the next record after this poll; None: not recorded. It makes the check sharper: a reader that
        passes over a record and then finds nothing more is seen by its position alone.
    turn
        The number of the call inside the event. Polls of one event and turn were answered from one state of the log;
        polls of different turns perhaps not.
    """

    partition: TopicPartition
    records: tuple[tuple[int, Any], ...] = ()
    reassigned: bool = False
    caught_up: bool = False
    position: int | None = None
    turn: int = 0

    def __str__(self) -> str:
        records = " ".join(f"{offset}:{value!r}" for offset, value in self.records)
        flags = [name for name in ("reassigned", "caught_up") if getattr(self, name)]
        if self.position is not None:
            flags.append(f"position {self.position}")
        return f"poll {self.partition} [{records}]{' (' + ', '.join(flags) + ')' if flags else ''}"


Action = Send | Poll


@dataclass(frozen=True)
class Event:
    """One line of a history.

    A process does one thing at a time: an INVOKE, then at most one completion. An INVOKE that is followed by
    the next one of the same process, or by nothing, counts as INFO: the process was killed.

    INVOKE names every value *before* it may get in; polls may come with the INVOKE or with the completion. A
    completion without actions stands for those of its INVOKE. A topic that is deleted and made again needs
    another name in the history, because its offsets begin again.
    """

    index: int
    time: float
    """Seconds, on any clock that all processes share; the checker goes by the order of the events alone."""
    process: str
    kind: Kind
    call: str
    actions: tuple[Action, ...] = ()
    transaction: str | None = None
    """Whose transaction it is (``transactional.id``); None for sends and polls outside of any."""
    streamed: bool = False
    """The transaction appended records before its end; then its INVOKE is recorded before the first one."""
    isolation: Isolation = READ_COMMITTED
    """``isolation.level`` of its polls."""

    def __str__(self) -> str:
        about = f" {self.transaction}{' (streamed)' if self.streamed else ''}" if self.transaction else ""
        level = " read_uncommitted" if self.isolation == READ_UNCOMMITTED else ""
        actions = "; ".join(map(str, self.actions))
        head = f"{self.index:>6} {self.time:12.6f} {self.process} {self.kind.value} {self.call}"
        return f"{head}{about}{level}{': ' + actions if actions else ''}"


def _at(offset: int | None) -> str:
    return "" if offset is None else f"@{offset}"
