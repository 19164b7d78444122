"""Histories: what clients asked of a log and what they were told, for `spark_eos.testing.history.checker`.

A history is a list of `Event` in the order of real time. A simulator builds it with a `Recorder` and its own
clock; processes that may be killed give the recorder a file each, which is merged afterwards::

    with open("writer-1.jsonl", "a") as file:
        recorder = Recorder(file=file)
        token = recorder.invoke("writer-1", "commit", [Send(t0, "a")], transaction="orders")
        ...
        recorder.ok(token, [Send(t0, "a", offset=17)])

    report = check(merge(*(read_history(path) for path in paths)))
"""

from __future__ import annotations

import base64
import heapq
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TextIO

from spark_eos.errors import IllegalStateError, InvalidRequestError
from spark_eos.protocol.types import TopicPartition

__all__ = [
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Action",
    "Event",
    "Isolation",
    "Kind",
    "Poll",
    "Recorder",
    "Send",
    "Token",
    "dump_event",
    "load_event",
    "merge",
    "read_history",
    "write_history",
]

Isolation = Literal["read_committed", "read_uncommitted"]
READ_COMMITTED: Isolation = "read_committed"
READ_UNCOMMITTED: Isolation = "read_uncommitted"


class Kind(Enum):
    """What an event says of a call."""

    INVOKE = "invoke"
    """It begins."""
    OK = "ok"
    """It succeeded: what it sent is in and acknowledged, a transaction is committed."""
    FAIL = "fail"
    """It certainly has no effect: nothing of it is in, or its transaction is aborted."""
    INFO = "info"
    """Nobody knows: it may be in, or come in later, or never."""


@dataclass(frozen=True)
class Send:
    """One record that was sent.

    Values are hashable and unique in their partition over the whole history: not even a retry repeats one.
    ``offset`` is the acknowledged one; None if it is not known (-1 is taken as None).
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
    """What one call of ``poll`` gave of one partition."""

    partition: TopicPartition
    records: tuple[tuple[int, Any], ...] = ()
    """(offset, value) in the order in which they came."""
    reassigned: bool = False
    """The position was set anew since this process's last poll (seek, assignment, restart): compare nothing
    with what it read before."""
    caught_up: bool = False
    """All that the reader may see of the partition, in the state of the log that answered this call, is read:
    its position is the end (read_uncommitted) or the last stable offset (read_committed)."""
    position: int | None = None
    """Offset of the next record to read, after this poll; None if it was not recorded. It makes the checks
    sharper: a reader that passes over a record and then finds nothing more is seen by its position alone."""
    turn: int = 0
    """The number of the call inside the event. Polls of one event and turn were answered from one state of
    the log, polls of different turns perhaps not."""

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


# -- Recording --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Token:
    """A call that was invoked and not yet completed."""

    invoke: Event


class Recorder:
    """Writes a history down while it happens; threads may share it.

    ``clock`` gives seconds (default: `time.monotonic`, which all processes of one machine share). With
    ``file``, each event is a line of JSON there, flushed at once, so that it outlives a killed process.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, file: TextIO | None = None) -> None:
        self._clock, self._file = clock, file
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._open: dict[str, Token] = {}

    @property
    def history(self) -> list[Event]:
        """The events so far (a copy)."""
        with self._lock:
            return [*self._events]

    def invoke(
        self,
        process: str,
        call: str,
        actions: Iterable[Action] = (),
        *,
        transaction: str | None = None,
        streamed: bool = False,
        isolation: Isolation = READ_COMMITTED,
    ) -> Token:
        """Note that ``process`` begins ``call``, before it does. What it left open before counts as INFO."""
        with self._lock:
            event = self._append(
                process, Kind.INVOKE, call, (*actions,), transaction, streamed=streamed, isolation=isolation
            )
            token = self._open[process] = Token(event)
            return token

    def ok(self, token: Token, actions: Iterable[Action] | None = None, *, streamed: bool = False) -> None:
        """It succeeded. ``actions``: with offsets and what was polled; None: those of the invocation.

        ``streamed``: the transaction turned out to append before its end; also noted by ``fail``, ``info``.

        Raises `IllegalStateError` if the call was completed before, or its process went on without it.
        """
        self._complete(token, Kind.OK, actions, streamed)

    def fail(self, token: Token, actions: Iterable[Action] | None = None, *, streamed: bool = False) -> None:
        """It has certainly no effect, or its transaction was aborted."""
        self._complete(token, Kind.FAIL, actions, streamed)

    def info(self, token: Token, actions: Iterable[Action] | None = None, *, streamed: bool = False) -> None:
        """Nobody knows what became of it."""
        self._complete(token, Kind.INFO, actions, streamed)

    def _complete(self, token: Token, kind: Kind, actions: Iterable[Action] | None, streamed: bool) -> None:
        invoke = token.invoke
        with self._lock:
            if self._open.get(invoke.process) is not token:
                raise IllegalStateError(
                    f"{invoke.call} of {invoke.process} (event {invoke.index}) is not open any more: "
                    "complete each call once, before its process invokes the next one"
                )
            del self._open[invoke.process]
            self._append(
                invoke.process,
                kind,
                invoke.call,
                invoke.actions if actions is None else (*actions,),
                invoke.transaction,
                streamed=invoke.streamed or streamed,
                isolation=invoke.isolation,
            )

    def _append(
        self,
        process: str,
        kind: Kind,
        call: str,
        actions: tuple[Action, ...],
        transaction: str | None,
        *,
        streamed: bool,
        isolation: Isolation,
    ) -> Event:
        index, now = len(self._events), self._clock()
        event = Event(index, now, process, kind, call, actions, transaction, streamed, isolation)
        self._events.append(event)
        if self._file is not None:
            self._file.write(dump_event(event) + "\n")
            self._file.flush()
        return event


# -- JSON lines -------------------------------------------------------------------------------------


def merge(*histories: Sequence[Event]) -> list[Event]:
    """One history of several, by time; each keeps its own order, and events are numbered anew.

    Of events at the same time invocations come first: then the calls overlap, and no order is claimed.
    """
    merged = heapq.merge(*histories, key=lambda event: (event.time, event.kind is not Kind.INVOKE))
    return [replace(event, index=index) for index, event in enumerate(merged)]


def write_history(path: str | Path, history: Iterable[Event]) -> None:
    """Write events as JSON lines."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(dump_event(event) + "\n" for event in history)


def read_history(path: str | Path) -> list[Event]:
    """Read JSON lines. A last line without its end is left out: its writer was killed in the middle of it.

    Raises `InvalidRequestError`, naming the line, for anything else that is no event.
    """
    lines = Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    history = []
    for number, line in enumerate(lines, 1):
        try:
            history.append(load_event(line))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequestError(f"{path}, line {number} is no event of a history: {error!r}") from error
    return history


def dump_event(event: Event) -> str:
    """An event as one line of JSON.

    Values may be strings, numbers, booleans, None, bytes, and tuples of them; `InvalidRequestError` if not.
    """
    return json.dumps(
        {
            "index": event.index,
            "time": event.time,
            "process": event.process,
            "kind": event.kind.value,
            "call": event.call,
            "actions": [_dump_action(action) for action in event.actions],
            "transaction": event.transaction,
            "streamed": event.streamed,
            "isolation": event.isolation,
        }
    )


def load_event(line: str) -> Event:
    """The event of a line that `dump_event` wrote."""
    fields = json.loads(line)
    fields["kind"] = Kind(fields["kind"])
    fields["actions"] = tuple(map(_load_action, fields["actions"]))
    return Event(**fields)


def _dump_action(action: Action) -> dict[str, Any]:
    fields: dict[str, Any]
    if isinstance(action, Send):
        fields = {"send": [*action.partition], "value": _dump_value(action.value), "offset": action.offset}
    else:
        fields = {
            "poll": [*action.partition],
            "records": [[offset, _dump_value(value)] for offset, value in action.records],
            "reassigned": action.reassigned,
            "caught_up": action.caught_up,
            "position": action.position,
            "turn": action.turn,
        }
    return fields


def _load_action(fields: dict[str, Any]) -> Action:
    if "send" in fields:
        return Send(TopicPartition(*fields["send"]), _load_value(fields["value"]), fields["offset"])
    partition = TopicPartition(*fields.pop("poll"))
    records = tuple((offset, _load_value(value)) for offset, value in fields.pop("records"))
    return Poll(partition, records, **fields)


def _dump_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple):
        return {"tuple": [*map(_dump_value, value)]}
    if value is None or isinstance(value, str | int | float):
        return value
    raise InvalidRequestError(
        f"a value of type {type(value).__name__} cannot be written to a history file: "
        "use str, int, float, bool, None, bytes or tuples of them"
    )


def _load_value(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            base64.b64decode(value["bytes"]) if "bytes" in value else tuple(map(_load_value, value["tuple"]))
        )
    return value
