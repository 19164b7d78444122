"""What a log says of one Spark query, as steps of `specs/Runs.tla`. The processes that wrote to it are not needed.

The log has what was accepted. Each request of the query is a proposal on the state before it, which lands at once: the
specification must ask for the same registrations as the code did, and accept it. Other requests are a step each that
only makes the log longer, or a file of another writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules import times
from spark_eos.protocol.rules.apply import Rejected, apply, apply_entry
from spark_eos.protocol.state import EMPTY, Query, State
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import Store
from verification.specification.query_runs import GROUPS, NAMES, File, Step

__all__ = ["NoPlaceError", "trace", "traces"]

Read = Callable[[str], "bytes | None"]
"""Gives the entry of a name, if there is one."""

Place = tuple[tuple[str, int, int], ...]
"""Offsets of all partitions that the query reads: topic id, partition, offset."""


class NoPlaceError(ValueError):
    """The specification has no place for what a query does: it reads several groups, or other partitions later."""


def traces(store: Store) -> dict[str, list[Step]]:
    """The traces of all queries that have written to a log, by their ids, but for those that have no place."""

    def read(name: str) -> bytes | None:
        with suppress(ObjectNotFoundError):
            return bytes(store.read(name))
        return None

    found = {}
    for query in dict.fromkeys(batch.query_id for batch in _batches(read)):
        with suppress(NoPlaceError):
            found[query] = trace(read, query)
    return found


def trace(read: Read, query: str) -> list[Step]:
    """The steps of a log as one query sees it.

    Parameters
    ----------
    read
        The entry of that name, if there is one. The log must have its first entry.
    query
        The id of the query. Queries that have used one of its transactional ids are in the trace as well. All of them
        read the same partitions of the log, each micro-batch for one group. There are at most two transactional ids,
        and two groups.

    Raises
    ------
    NoPlaceError
        The specification has no place for what the query does.
    """
    return _Trace(read, query).steps


class _Seen(NamedTuple):
    """What the micro-batches of a trace have: transactional ids, and groups, in the order of their first ones."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    partitions: tuple[tuple[str, str, int], ...]
    """Topic, its id, partition."""


class _Trace:
    def __init__(self, read: Read, query: str) -> None:
        self.steps: list[Step] = []
        self._all = _common([*_batches(read)], query)
        self._state = EMPTY
        self._size = 0
        self._begins: list[int] = []
        """How many steps of the specification had landed before each entry."""
        self._numbers: dict[Place, int] = {}
        """Places have no order in the specification: equal ones are equal numbers."""
        self._files: list[File] = []
        self._landed: list[File] = []
        self._proposed = 0
        for entry in _entries(read):
            self._begins.append(self._size)
            before = self._state
            for request in entry.requests:
                after, outcome = apply(self._state, request)
                if isinstance(outcome, Rejected):  # A leader took it along, and it was refused.
                    self._landed_one("Retain", "", 0, None, after)
                    continue
                self._add(request, after)
                self._state = after
            self._state, _ = apply_entry(before, entry)

    def _add(self, request: a.Request, after: State) -> None:
        inits = [one for one in request.actions if isinstance(one, a.InitProducer)]
        mine = [one for one in inits if one.transactional_id in self._all.names]
        batch = next(_micro_batches(request), None)
        landed = self._size
        if batch is not None and batch.transactional_id in self._all.names:
            file = self._staged(request)
            start, end = (
                self._number(place)
                for place in (_place(batch.sources, "start_offsets"), _place(batch.sources, "end_offsets"))
            )
            group = self._group(_group(batch))
            names = self._name(batch.transactional_id), batch.query_id, batch.run_id
            self._request((*names, batch.batch_id, group, start, end, file), after)
        elif batch is None and mine and mine[0].run_id:
            self._request(self._repeated(mine), after)
        else:
            state = times.at(self._state, request)
            for action in request.actions:
                before, (state, _) = state, times.judge(self._state, state, request, action)
                self._add_action(before, action, state)
        if self._size == landed:  # It is an entry all the same.
            self._landed_one("Retain", "", 0, None, after)

    def _add_action(self, before: State, action: a.Action, after: State) -> None:
        match action:
            case a.InitProducer() if action.transactional_id in self._all.names:
                self._landed_one("Take", self._name(action.transactional_id), 0, None, after)
            case a.AppendBatches():
                for file in action.files:
                    staged = self._stage(file.file.name)
                    self._landed.append(staged)
                    self._landed_one("Write", "", 0, staged, after)
            case a.DeleteTopic() if any(action.topic_id == one for _, one, _ in self._all.partitions):
                raise NoPlaceError(f"a topic that the query reads is deleted: {action}")
            case a.RaiseStagingFloor():
                self._step("Look", "", self._begin(action.seq), None, before)
                self._landed_one("Raise", "", 0, None, after)
                self._step("Rest", "", 0, None, after)
            case _:
                for group in self._all.groups:
                    if self._position(before, group) != (to := self._position(after, group)):
                        self._landed_one("Move", self._group(group), to, None, after)

    def _request(self, work: tuple[Any, ...], after: State) -> None:
        self._step("Propose", "", 0, None, self._state, "asked", work)
        self._proposed += 1
        if (file := work[-1]) is not None:
            self._landed.append(file)
        self._landed_one("Land", "", self._proposed, None, after, work)

    def _repeated(self, inits: list[a.InitProducer]) -> tuple[Any, ...]:
        """A run that has only registered itself: it found its micro-batch in the log."""
        name, run = inits[0].transactional_id or "", inits[0].run_id
        ids = {init.transactional_id for init in inits}
        known = [
            query
            for one in self._all.names
            if (query := self._state.queries.get(one)) is not None
            and (one in ids or ((producer := self._state.producer_of(one)) and producer.run_id == run))
        ]
        if not known:
            raise NoPlaceError(f"a run was registered before the first micro-batch of its query: {inits}")
        last = known[0]
        start, end = (self._number(_place(last.sources, which)) for which in ("start_offsets", "end_offsets"))
        group = self._group(_group(last))
        return self._name(name), last.query_id, run, last.batch_id, group, start, end, None

    # -- As the specification has it ------------------------------------------------------------------

    def _staged(self, request: a.Request) -> File | None:
        """The files of a micro-batch are one there: as old as the oldest of them."""
        names = [
            file.file.name
            for action in request.actions
            if isinstance(action, a.AppendBatches)
            for file in action.files
        ]
        return self._stage(min(names, key=staged_at)) if names else None

    def _stage(self, name: str) -> File:
        file = self._begin(staged_at(name)), len(self._files) + 1
        self._files.append(file)
        self._step("Stage", "", 0, file, self._state)
        return file

    def _begin(self, seq: int) -> int:
        return self._begins[seq] if seq < len(self._begins) else self._size

    def _name(self, transactional_id: str) -> str:
        return NAMES[self._all.names.index(transactional_id)]

    def _number(self, place: Place) -> int:
        return self._numbers.setdefault(place, len(self._numbers))

    def _group(self, group: str) -> str:
        return GROUPS[self._all.groups.index(group)]

    def _position(self, state: State, group: str) -> int:
        known = [
            (topic_id, number, at.offset)
            for topic, topic_id, number in self._all.partitions
            if (at := state.offset_of(group, topic, number)) is not None
        ]
        return self._number(tuple(sorted(known))) if known else -1

    def _landed_one(
        self,
        kind: str,
        name: str,
        number: int,
        file: File | None,
        after: State,
        work: tuple[Any, ...] = (),
    ) -> None:
        self._size += 1
        self._step(kind, name, number, file, after, "yes", work)

    def _step(
        self,
        kind: str,
        name: str,
        number: int,
        file: File | None,
        state: State,
        said: str = "yes",
        work: tuple[Any, ...] = (),
    ) -> None:
        names = _filled(self._all.names, len(NAMES))
        known = [state.producer_of(one) for one in names]
        last = [state.queries.get(one) for one in names]
        after = (
            self._size,
            self._begin(state.staging_floor) if state.staging_floor else 0,
            tuple("" if one is None else one.run_id or "" for one in known),
            tuple(-1 if one is None else one.batch_id for one in last),
            tuple(self._position(state, group) for group in _filled(self._all.groups, len(GROUPS))),
            tuple(sorted(self._landed)),
            len(self._files),
        )
        self.steps.append(Step(kind, name, number, work, file, said, after))


def _entries(read: Read) -> Iterator[a.Entry]:
    seq, folder = 0, EMPTY.entries_per_folder
    while (data := read(name := paths.entry(seq, folder))) is not None:
        entry = decode_entry(data, seq, name)
        yield entry
        if seq == 0:
            folder = apply_entry(EMPTY, entry)[0].entries_per_folder
        seq += 1


def _batches(read: Read) -> Iterator[a.CommitMicroBatch]:
    for entry in _entries(read):
        for request in entry.requests:
            yield from _micro_batches(request)


def _micro_batches(request: a.Request) -> Iterator[a.CommitMicroBatch]:
    return (one for one in request.actions if isinstance(one, a.CommitMicroBatch))


def _common(batches: list[a.CommitMicroBatch], query: str) -> _Seen:
    ids, shared = {query}, [one for one in batches if one.query_id == query]
    while True:
        names = {one.transactional_id for one in shared}
        ids |= {one.query_id for one in batches if one.transactional_id in names}
        found = [one for one in batches if one.query_id in ids]
        if found == shared:
            break
        shared = found
    seen = _Seen(
        tuple(dict.fromkeys(one.transactional_id for one in shared)),
        tuple(dict.fromkeys(map(_group, shared))),
        tuple(
            sorted({_partition(at) for one in shared for source in one.sources for at in source.end_offsets})
        ),
    )
    if len(seen.names) > len(NAMES) or len(seen.groups) > len(GROUPS):
        raise NoPlaceError(
            f"the specification has {len(NAMES)} transactional ids and {len(GROUPS)} groups: {seen}"
        )
    for one in shared:
        read = {_partition(at) for source in one.sources for at in source.start_offsets}
        if read != {*seen.partitions}:
            raise NoPlaceError(
                f"the specification has always the same partitions: {one} reads not all of {seen}"
            )
    return seen


def _group(batch: a.CommitMicroBatch | Query) -> str:
    groups = [source.group for source in batch.sources]
    if len(groups) != 1 or groups[0] is None:
        raise NoPlaceError(f"the specification has one source for each query, and one group: {batch}")
    return groups[0]


def _partition(at: PartitionOffset) -> tuple[str, str, int]:
    return at.topic, at.topic_id, at.partition


def _filled(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    return (*names, *[""] * (count - len(names)))


def _place(sources: tuple[SourceProgress, ...], which: str) -> Place:
    offsets: list[PartitionOffset] = [at for one in sources for at in getattr(one, which)]
    return tuple(sorted((at.topic_id, at.partition, at.offset) for at in offsets))
