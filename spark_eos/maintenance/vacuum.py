"""Vacuum: deletes objects that are not referred to, and cannot be referred to any more.

*Data files.* A file's name says where the log was when its writer started (its base seq). An entry raises the
staging floor; from then on no file below it can be committed. A file below the floor that a state after that
entry does not refer to is garbage for ever. Readers that planned it before have ``file.delete.delay.ms``.

*Files of tables.* A published table may refer to the log's own Parquet files. Those of its newest version are pinned.
When the log and the newest version have no use for a file any more, readers of earlier versions have the publication's
``retention.ms``, from when a vacuum has first seen that; a note in the store says since when.

*Pages of indexes.* They are stored after an entry of the log. So they are listed first, and the log is followed
to its end after that: what the state does not refer to then, no later one will.

No clock decides what is safe. How old a file has to be before the floor rises above it is politeness towards
those who write for a long time: they are refused, and have to write again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spark_eos.errors import (
    CorruptRecordError,
    InvalidRequestError,
    NotALogError,
    ObjectNotFoundError,
)
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.end_marks import (
    DEFAULT_DELAY_MS,
    Delays,
    FirstSeen,
    LogEndMarks,
    Milestone,
    Room,
    floor_by_times,
)
from spark_eos.maintenance.reachability import data_files, page_names
from spark_eos.maintenance.steps import MIN_AGE_S
from spark_eos.maintenance.unreadable import Unreadable
from spark_eos.protocol.actions import Action, RaiseStagingFloor
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.state import State
from spark_eos.storage import PROBES, ObjectInfo, PosixStore
from spark_eos.storage.two_stores import check_claim, parts_of

CHUNK = 100_000
"""Names that are held at once, some 30 MB: more garbage takes more rounds."""

_TEMPORARY_AGE_S = 3600.0
_GROUPS = "_groups/"
_ENDS = "_maintenance/ends"
"""Where vacuums note when the log's end was where: a line each of milliseconds since 1970 and next free slot."""
_SEEN = "_maintenance/unreferenced"
"""Where vacuums note since when they have seen a table's file without a reference."""

_LOOK_AGAIN = 1000
"""After how many deletions it is made sure again that the log is still the one that was looked at."""

_WRITER = "vacuum"

Tell = Callable[[str], None]
"""Told what is being done, often; may raise to stop it."""

HeartbeatName = Callable[[str, str], str]
"""The name of the object by which a member of a group (group id, member id) shows that it is alive."""


def silent(_text: str) -> None:
    """Drop the text."""


@dataclass(frozen=True)
class Leftover:
    """An object without a reference, its size in bytes, and how long it stays once that is known (s)."""

    kind: str
    """``data``, ``index``, ``heartbeat`` or ``probe``."""
    name: str
    size: int
    delay_s: float = DEFAULT_DELAY_MS / 1000


@dataclass(frozen=True)
class Vacuumed:
    """What was deleted: objects and bytes by kind. ``waiting`` are those whose delay is not over.

    ``promised`` are files that a published table had: readers of its earlier versions may have them for a while yet.
    """

    objects: dict[str, int]
    size: int = 0
    waiting: int = 0
    promised: int = 0


class Vacuum:
    """The vacuum of one log. Remembers, from one pass to the next, since when things are left over.

    ``heartbeat_name`` tells the names of clients' heartbeats; without it the heartbeats of groups are let alone.
    """

    def __init__(
        self,
        log: Log,
        *,
        min_age_s: float = MIN_AGE_S,
        heartbeat_name: HeartbeatName | None = None,
        tell: Tell = silent,
        chunk: int = CHUNK,
    ) -> None:
        self._log = log
        self._min_age_s = min_age_s
        self._heartbeat_name = heartbeat_name
        self._tell = tell
        self._chunk = chunk
        self._ends: list[tuple[float, int]] = []
        """When this process has seen the log's end where: (monotonic seconds, next free slot)."""
        self._since: dict[str, float] = {}
        self._more, self._room, self._left = False, Room(), Unreadable()
        self._notes = LogEndMarks(log.store, _ENDS)
        self._first_seen = FirstSeen(log.store, _SEEN)
        self.promised = 0
        """Files that are left over, and stay for readers of a table's earlier versions; as of the last look."""

    def look(self) -> list[Leftover]:
        """What a vacuum would delete, at most `CHUNK` names of each kind; nothing is changed.

        Raises `NotALogError` if another log is there by now, and what the store raises.
        """
        leftovers = self._find(raise_floor=False)
        self._left.say()
        return leftovers

    def run(self, *, wait: bool = True) -> Vacuumed:
        """Delete what is left over, and whose delay is over; with ``wait`` all of it, after its delay.

        Raises as `look` does. May be stopped anywhere, and run by several processes at once.
        """
        objects: dict[str, int] = {}
        size = 0
        while True:
            self._more, self._room = False, Room()
            leftovers = self._find(raise_floor=True)
            state = self._log.state
            self._mark(leftovers)
            if wait:
                self._wait(leftovers)
            due = [leftover for leftover in leftovers if self._due_in(leftover) <= 0]
            for leftover in self._delete(due, state):
                objects[leftover.kind] = objects.get(leftover.kind, 0) + 1
                size += leftover.size
            # What was deleted makes room for the entry that lets the rest go.
            if not (wait and (self._more or (due and self._room.error))):
                break
        removed = self._discard_temporary()
        if removed:
            objects["temporary"] = removed
        self._room.report(deleted=bool(objects))
        self._left.say()
        return Vacuumed(objects, size, len(leftovers) - len(due), self.promised)

    # -- Looking ----------------------------------------------------------------------------------------

    def _find(self, *, raise_floor: bool) -> list[Leftover]:
        self._check_same(None)
        return [*self._data(raise_floor=raise_floor), *self._pages(), *self._heartbeats(), *self._probes()]

    def _data(self, *, raise_floor: bool) -> list[Leftover]:
        state = self._log.follow()
        floor = max(self._polite_floor(state, note=raise_floor), state.staging_floor)
        self._tell("looking for data files without a reference")
        now_ms = self._log.time.now_ms(state)
        delays, first_seen = Delays(state, self._left), self._first_seen.read(now_ms)
        promised = {
            name: ms
            for name, ms in first_seen.items()
            if _is_below(name, floor) and now_ms < ms + delays.of(name)[1]
        }
        kept: dict[str, int] = {}
        candidates = self._left_over(self._below(floor, promised, kept), self._take_out_data)
        state = self._log.state
        if raise_floor and any(not _is_below(name, state.staging_floor) for name in candidates):
            if self._room.has(
                lambda: self._log.commit(lambda newest: _raised(newest, floor), writer=_WRITER)
            ):
                # Only now it is certain that none of them was committed since they were looked for.
                state = self._take_out_data(candidates)
                assert state.staging_floor >= floor
            else:
                # Of those that can be committed no more, that was certain before.
                candidates = {
                    name: size for name, size in candidates.items() if _is_below(name, state.staging_floor)
                }
        delays = Delays(state, self._left)
        leftovers = []
        for name, size in candidates.items():
            delay_ms, promised_ms = delays.of(name)
            since_ms = first_seen.get(name, now_ms)
            if promised_ms:
                kept[name] = since_ms  # Until it is deleted.
            if now_ms >= since_ms + promised_ms and delays.knows(name):
                leftovers.append(Leftover("data", name, size, delay_ms / 1000))
        if raise_floor:
            self._room.has(lambda: self._first_seen.write({**first_seen, **kept} if self._more else kept))
        self.promised = sum(now_ms < ms + delays.of(name)[1] for name, ms in kept.items())
        return leftovers

    def _below(self, floor: int, promised: dict[str, int], kept: dict[str, int]) -> Iterator[ObjectInfo]:
        """The data files that were staged below the floor. Those that are promised for a while yet go into ``kept``."""
        for info in self._listed_objects(paths.DATA):
            if paths.is_data(info.name) and _is_below(info.name, floor):
                yield info
        for info in self._listed_objects(paths.TABLES):
            # All else there belongs to the tables.
            if paths.is_segment(info.name) and _is_below(info.name, floor):
                if info.name in promised:
                    kept[info.name] = promised[info.name]
                else:
                    yield info

    def _pages(self) -> list[Leftover]:
        self._tell("looking for index pages without a reference")
        candidates = self._left_over(self._listed_objects(paths.INDEX), self._take_out_pages)
        return [Leftover("index", name, size) for name, size in candidates.items()]

    def _left_over(
        self, listed: Iterator[ObjectInfo], take_out: Callable[[dict[str, int]], State]
    ) -> dict[str, int]:
        """Names and sizes that are left when ``take_out`` has removed those in use; no more than fit."""
        candidates: dict[str, int] = {}
        for info in listed:
            candidates[info.name] = info.size
            if len(candidates) >= self._chunk:
                take_out(candidates)  # What is in use makes room for the next ones.
                if len(candidates) > self._chunk // 2:
                    self._more = True
                    return candidates
        take_out(candidates)
        return candidates

    def _take_out_data(self, candidates: dict[str, int]) -> State:
        def visit(state: State) -> None:
            for name in data_files(state, self._log.load):
                candidates.pop(name, None)

        return self._walk(visit)

    def _take_out_pages(self, candidates: dict[str, int]) -> State:
        """Called when they have been listed; the log is followed only then, and not the other way round."""

        def visit(state: State) -> None:
            for name in page_names(state, self._log.load):
                candidates.pop(name, None)

        snapshots = [info.name for info in self._listed_objects(paths.SNAPSHOTS)]
        state = self._walk(visit)
        for snapshot in snapshots:
            try:
                self._take_out_snapshot(snapshot, visit)
            except (ObjectNotFoundError, CorruptRecordError):
                continue  # It was dropped since, or no process can begin there anyway.
        return state

    def _take_out_snapshot(self, name: str, visit: Callable[[State], None]) -> None:
        seq = paths.snapshot_seq(name)
        if seq is not None:
            store = self._log.store
            visit(decode_snapshot(store.read(name), seq, f"{store.url}/{name}"))

    def _heartbeats(self) -> list[Leftover]:
        name_of = self._heartbeat_name
        if name_of is None:
            return []
        # Before the log is followed: a member joins before its first heartbeat.
        listed = [*self._listed_objects(_GROUPS)]
        state = self._log.follow()
        alive = {
            name_of(group_id, member) for group_id, group in state.groups.items() for member in group.members
        }
        return [Leftover("heartbeat", info.name, info.size) for info in listed if info.name not in alive]

    def _probes(self) -> list[Leftover]:
        # One that is still being made is as old as its delay by the time it is deleted: it takes a moment.
        return [Leftover("probe", info.name, info.size) for info in self._listed_objects(PROBES)]

    def _listed_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        for number, info in enumerate(self._log.store.list(prefix)):
            if number % 1000 == 999:
                self._tell(f"{number + 1} objects under {prefix} looked at")
            yield info

    def _walk(self, visit: Callable[[State], None]) -> State:
        """Visit the newest state; a newer one, if pages of this one are gone by now."""
        state, missed = self._log.follow(), set[str]()
        while True:
            try:
                visit(state)
            except ObjectNotFoundError as error:
                newer = self._log.follow()
                if newer.seq == state.seq or str(error) in missed:
                    raise
                missed.add(str(error))  # A newer state refers to it no more, unless the log is damaged.
                state = newer
            else:
                return state

    # -- The floor --------------------------------------------------------------------------------------

    def _polite_floor(self, state: State, *, note: bool) -> int:
        """Where the log's end was ``min_age_s`` ago: a writer that has started since is not refused.

        As this process has seen it itself, as earlier ones have noted, or by the times that the entries say: the
        latest one. A clock that is wrong refuses writers that started lately; it never deletes what is in use.
        """
        now = self._log.clock.monotonic()
        if not self._ends or self._ends[-1][1] != state.seq + 1:
            self._ends.append((now, state.seq + 1))
        own = 0
        while self._ends and now - self._ends[0][0] >= self._min_age_s:
            own = self._ends[0][1]
            if len(self._ends) == 1 or now - self._ends[1][0] < self._min_age_s:
                break
            self._ends.pop(0)
        now_ms = self._log.time.now_ms(self._log.state)
        limit_ms = int(now_ms - self._min_age_s * 1000)
        noted = self._noted_end(state, now_ms, limit_ms, note=note)
        return max(own, noted, floor_by_times(self._log, state, limit_ms) if own <= state.seq else 0)

    def _noted_end(self, state: State, now_ms: int, limit_ms: int, *, note: bool) -> int:
        """Where processes before this one have seen the end, by that time; notes where it is now."""
        ends = self._notes.read(state.seq + 1, now_ms)
        if note:
            here = Milestone(now_ms, state.seq + 1)
            self._room.has(lambda: self._notes.add(ends, here, self._min_age_s * 1000))
        return max((end.seq for end in ends if end.time_ms <= limit_ms), default=0)

    # -- Deleting ---------------------------------------------------------------------------------------

    def _mark(self, leftovers: list[Leftover]) -> None:
        now = self._log.clock.monotonic()
        self._since = {leftover.name: self._since.get(leftover.name, now) for leftover in leftovers}

    def _due_in(self, leftover: Leftover) -> float:
        return self._since[leftover.name] + leftover.delay_s - self._log.clock.monotonic()

    def _wait(self, leftovers: list[Leftover]) -> None:
        while (delay := max(map(self._due_in, leftovers), default=0)) > 0:
            self._tell(
                f"objects that are deleted in {delay:.0f} s, after running readers: {len(leftovers):,}"
            )
            self._log.clock.sleep(min(delay, 0.5))

    def _delete(self, due: list[Leftover], state: State) -> Iterator[Leftover]:
        if due:
            check_claim(self._log.store, state.data_url, self._log.log_id)
            self._settle(state)
        for number, leftover in enumerate(due):
            if number % _LOOK_AGAIN == 0:
                self._check_same(state)
            self._log.check()  # Costs nothing in a folder, and a request a minute elsewhere.
            self._tell(f"deleting: {number} of {len(due)}")
            self._log.store.delete(leftover.name)
            yield leftover

    def _settle(self, state: State) -> None:
        """What the deletions rest on must outlive a power cut: an entry may still be undone whose writer died."""
        folder = state.entries_per_folder
        self._log.store.ensure_durable(paths.entry(state.seq, folder))
        if folder and state.seq >= folder:
            self._log.store.ensure_durable(paths.entry(state.seq // folder * folder - 1, folder))

    def _check_same(self, state: State | None) -> None:
        """Whether the log is still there that was looked at, as long as it was: its folder may have been replaced."""
        if not self._log.is_same():
            raise NotALogError(
                f"{self._log.url} does not hold log {self._log.log_id} any more: it was removed or replaced. Nothing "
                "more is deleted; start again"
            )
        if state is not None:
            self._log.check()

    def _discard_temporary(self) -> int:
        parts = [part for part in parts_of(self._log.store) if isinstance(part, PosixStore)]
        return sum(part.discard_leftovers(_TEMPORARY_AGE_S) for part in parts)


def _raised(state: State, floor: int) -> tuple[Action, ...]:
    return (RaiseStagingFloor(floor),) if state.staging_floor < floor else ()


def _is_below(name: str, floor: int) -> bool:
    """Whether it is a data file that was staged below the floor; what has another name is not ours."""
    try:
        return staged_at(name) < floor
    except InvalidRequestError:
        return False
