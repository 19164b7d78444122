"""The order in which Spark calls a Python source and sink, as it was recorded (tests/spark_calls).

A call is told as a word: who is called, what, from which offset, with which state of the checkpoint. `AFTER` says which
words may follow a word; `words` makes them of calls, and refuses arguments that Spark has never passed: an offset that
is neither the answer to ``initialOffset`` nor what the checkpoint has, an object that should be another copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from verification.simulator.spark_order import AFTER

__all__ = ["Call", "Listener", "UnknownCallError", "check", "transitions"]

BEGINS = "the query begins: "
FAILS = "the query fails"
FAILED = ", failed"
ENDS = frozenset({"the query ends", FAILS})


class UnknownCallError(AssertionError):
    """Spark does not do this in any recording."""


class Call(NamedTuple):
    """A call, or what became of the query: then ``name`` is one of `ENDS`, or ``killed`` or ``stopped``.

    ``place`` is the kind of process; ``owner`` names the source, or is ``sink``; ``object`` the object that is called,
    ``made_by`` the one that it is a copy of, or was made by. ``offsets`` and ``commits`` are the newest batches in the
    checkpoint.
    """

    place: str
    owner: str
    name: str
    object: str = ""
    made_by: str | None = None
    args: tuple[Any, ...] = ()
    answer: Any = None
    failed: bool = False
    offsets: int = -1
    commits: int = -1


@dataclass
class _Source:
    """What is known of one source of a query: positions outlive drivers, readers do not."""

    ends: dict[int, Any] = field(default_factory=dict)
    latest: Any = None
    initial: Any = None
    reader: str | None = None
    planned: str | None = None
    """The reader that is pickled to the tasks."""
    asked: bool = False
    """Whether this run has asked the driver's reader for anything yet."""


class Listener:
    """Makes words of the calls of one query, over all its drivers.

    ``ends``: where each source is in the batches that the checkpoint has already.
    """

    def __init__(self, ends: Mapping[str, Mapping[int, Any]] | None = None) -> None:
        self._sources = {name: _Source(dict(known)) for name, known in (ends or {}).items()}
        self._seen = max((number for known in (ends or {}).values() for number in known), default=-1)
        self._alive = False
        self._writer: str | None = None
        self._committer: str | None = None

    def words(self, call: Call) -> Iterator[tuple[str | None, str]]:
        """The words of a call, each with its source; None: it concerns all of them."""
        if not call.place:
            if self._alive and call.name in ENDS:
                yield None, call.name
            self._alive = False
            return
        if not self._alive:
            self._begin(call)
            yield None, BEGINS + _state(call)
        if call.offsets > self._seen:
            for source in self._sources.values():
                source.ends[call.offsets] = source.latest
            self._seen = call.offsets
        said = self._of_sink(call) if call.owner == "sink" else self._of_source(call)
        if said is not None:
            yield (None if call.owner == "sink" else call.owner), said + FAILED * call.failed

    def _begin(self, call: Call) -> None:
        another = call.offsets < self._seen
        self._seen = call.offsets if another else self._seen
        for source in self._sources.values():
            if another:
                source.ends, source.latest = {}, None
            source.reader = source.initial = None  # A frame that is used again keeps the planned reader.
            source.asked = False
        self._writer = self._committer = None
        self._alive = True

    def _of_sink(self, call: Call) -> str | None:
        if call.name == "writer":
            if call.place == "committer":
                self._committer = call.object
                return "the committer makes a writer"
            self._writer = call.object
            return "a writer is planned"
        if call.place == "task":
            if call.name == "unpickled":
                _require(call.made_by == self._writer, call, "the tasks' writer is a copy of the planned one")
                return "task: writer arrives"
            return f"task: {call.name}" if call.name == "write" else None
        if call.name in {"commit", "abort"}:
            _require(call.place == "committer", call, "it is called where nothing else is done")
            _require(call.object == self._committer, call, "the writer was made for this call")
            _require(call.args[-1] == call.offsets, call, "the batch is the newest in the checkpoint")
            return f"sink {call.name}"
        return None

    def _of_source(self, call: Call) -> str | None:
        source = self._sources.setdefault(call.owner, _Source())
        if call.name == "reader":
            if call.place == "reader":
                _require(source.reader is None, call, "a driver has one reader for each source")
                source.reader = call.object
                return "the reader is made"
            source.planned = call.object
            return "a reader for the tasks is planned"
        if call.place == "task":
            if call.name == "unpickled" and call.object.startswith("reader"):
                _require(
                    call.made_by == source.planned, call, "the tasks' reader is a copy of the planned one"
                )
                return "task: reader arrives"
            return f"task: {call.name}" if call.name == "read" else None
        if call.place != "reader" or call.name not in _OF_READER:
            return None
        _require(call.object == source.reader, call, "the driver calls its one reader")
        said = call.name + self._about(source, call)
        source.asked = True
        return said

    def _about(self, source: _Source, call: Call) -> str:
        if call.name == "initialOffset":
            source.initial = call.answer
            return ", a batch is planned" if call.offsets > call.commits else ", no batch is planned"
        if call.name == "latestOffset":
            kind = self._start(source, call, call.commits) if call.args else ", from where is not said"
            source.latest = source.latest if call.failed else call.answer
            return kind
        if call.name == "partitions":
            newest = source.ends.get(call.offsets)
            if not source.asked and newest is not None and call.args == (newest, newest):
                return " of nothing, at the newest end"
            kind = self._start(source, call, call.offsets - 1)
            _require(call.args[1] == source.ends.get(call.offsets), call, "the end is that in the checkpoint")
            return kind
        if call.name == "commit":
            _require(
                call.args[0] == source.ends.get(call.offsets - 1), call, "the batch before has ended there"
            )
        return ""

    def _start(self, source: _Source, call: Call, batch: int) -> str:
        known = source.ends.get(batch)
        if known is None:
            _require(call.args[0] == source.initial, call, "the start is the last answer to initialOffset")
            return " from the beginning"
        _require(call.args[0] == known, call, "the start is where the batch before ended")
        return " from the last end"


_OF_READER = {
    *("initialOffset", "latestOffset", "reportLatestOffset", "getDefaultReadLimit", "commit", "partitions"),
    "prepareForTriggerAvailableNow",
}


def transitions(
    calls: Iterable[Call], ends: Mapping[str, Mapping[int, Any]] | None = None
) -> Iterator[tuple[str, str]]:
    """Which word follows which, for each source of the query: the sink's words count for all of them."""
    listener = Listener(ends)
    last: dict[str, str] = {}
    everything = ""
    for call in calls:
        for owner, word in listener.words(call):
            if word.startswith(BEGINS):
                last, everything = {}, word
            elif owner is None:
                for source, before in last.items():
                    yield before, word
                    last[source] = word
                everything = word
            else:
                yield last.get(owner, everything), word
                last[owner] = word


def check(
    calls: Iterable[Call],
    ends: Mapping[str, Mapping[int, Any]] | None = None,
    after: Mapping[str, frozenset[str]] = AFTER,
) -> None:
    """Raise `UnknownCallError` unless Spark was seen to make these calls in this order.

    A query may fail at any moment: another run writes to its checkpoint. A call may fail where it may be made.
    """
    for before, word in transitions(calls, ends):
        # To Spark, a commit whose writer cannot be made is a commit that fails.
        known = "sink commit, failed" if before == "the committer makes a writer, failed" else before
        followers = after.get(known, frozenset())
        if word not in followers and word.removesuffix(FAILED) not in followers and word != FAILS:
            raise UnknownCallError(f"after {before!r} Spark has never been seen to do {word!r}")


def _state(call: Call) -> str:
    if call.offsets < 0:
        return "on a new checkpoint"
    if call.offsets == call.commits:
        return "all is done"
    return "batch 0 is not done" if call.offsets == 0 else "a later batch is not done"


def _require(held: object, call: Call, what: str) -> None:
    if not held:
        raise UnknownCallError(f"{call}: {what}")
