"""Verification of the chain: entries decode and apply, and snapshots are what the entries lead to."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from spark_eos.errors import CorruptRecordError, DivergedLogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.commit.closing import is_closing
from spark_eos.log.commit.gaps import listed_beyond
from spark_eos.log.handle.unfinished import not_a_log
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.maintenance.verify.index_pages import IndexPageCheck
from spark_eos.maintenance.verify.report import FindingCollector, Verdict
from spark_eos.protocol.actions import CreateLog, Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.snapshots import check_parts, decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import InvariantError, apply_checked, check_later
from spark_eos.protocol.rules.apply import Outcome, Rejected, apply_entry
from spark_eos.protocol.rules.sealing import is_boundary
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store

_FROM_A_COPY = "put it back from a copy of the log; what it held is not written anywhere else"

_BROUGHT_BACK = (
    "though younger ones are: harmless, a power cut or a copy of the log may have brought them back"
)


class _Slot(IntEnum):
    """What became of an old entry, in the order in which a log's entries have it: oldest first."""

    GONE = 0
    RETIRED = 1
    FULL = 2


class Chain:
    """The entries and snapshots of one log.

    ``quick`` checks rules only where snapshots may be taken, and does not look at entries that a snapshot
    stands for.
    """

    def __init__(
        self, store: Store, pages: IndexPageCheck, notes: FindingCollector, *, repair: bool, quick: bool
    ) -> None:
        self._store = store
        self._pages = pages
        self._notes = notes
        self._repair = repair
        self._quick = quick
        self._per_folder = 0
        self._end = 0
        self._compared: set[int] = set()
        self._boundary: State | None = None

    def walk(self) -> State:
        """The state after the last entry that could be applied. Raises `NotALogError`."""
        stored = self._snapshots()
        self._per_folder = self._folder_size(stored)
        self._end = self._find_end(max(stored, default=0))
        if self._is_closing(self._end):
            self._notes.add(
                Verdict.NOTE,
                self._name(self._end),
                "is no entry: the log was closed after the entry before it, when it was moved to another place",
                "use the log at its new place; if that is lost, delete this file, and the log goes on here",
            )
            self._end -= 1
        self._notes.summary.last_entry = self._end
        state, checked = EMPTY, EMPTY
        while state.seq < self._end:
            seq = state.seq + 1
            self._notes.at("entries", seq, self._end)
            entry, problem = self._read(seq)
            if entry is None:
                after = self._jump(seq, problem)
                if after is None:
                    self._only_decode(seq + 1, self._end)
                    break
                state = checked = after
                continue
            try:
                state, outcomes = self._applied(state, entry)
            except DivergedLogError as error:
                self._diverged(seq, error)
                break
            self._notes.summary.entries += 1
            self._notes.summary.refused_requests += sum(isinstance(outcome, Rejected) for outcome in outcomes)
            boundary = is_boundary(state, seq)
            if self._quick and (boundary or seq == self._end):
                self._check(checked, state)
                checked = state
            if boundary:
                self._pass(state)
        self._rest()
        return state

    def _diverged(self, seq: int, error: DivergedLogError) -> None:
        self._notes.wrong(
            self._name(seq),
            f"is of another history: {error}",
            "if the log was put back from a copy, stop all processes that use it, move this entry and those after it "
            "out of the log, and keep them: what they hold is not in this history. Else put the entry before it back",
        )

    # -- Where it begins and ends -----------------------------------------------------------------------

    def _folder_size(self, stored: list[int]) -> int:
        entry, _ = self._read(0)
        if entry is not None and isinstance(action := entry.requests[0].actions[0], CreateLog):
            return action.entries_per_folder
        for seq in reversed(stored):
            state = self._decoded(seq)
            if isinstance(state, State):
                return state.entries_per_folder
        if not stored and not self._exists(0) and not self._exists(1):
            raise not_a_log(self._store)
        return 0

    def _find_end(self, low: int) -> int:
        """The last entry that is there, as of now."""
        while True:
            step = 1
            while self._exists(low + step):
                low, step = low + step, step * 2
            high = low + step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._exists(middle) else (low, middle)
            later = listed_beyond(self._store, low, self._per_folder)
            if later is None:
                return low
            low = later

    def _is_closing(self, seq: int) -> bool:
        try:
            return is_closing(self._store.read(self._name(seq)))
        except ObjectNotFoundError:
            return False

    def _exists(self, seq: int) -> bool:
        try:
            self._store.size(self._name(seq))
        except ObjectNotFoundError:
            return False
        return True

    def _name(self, seq: int) -> str:
        return paths.entry(seq, self._per_folder)

    # -- Entries ----------------------------------------------------------------------------------------

    def _read(self, seq: int) -> tuple[Entry | None, str]:
        """The entry, or why there is none."""
        name = self._name(seq)
        try:
            data = self._store.read(name)
            if not data.size and seq:
                return None, "is empty"
            return decode_entry(data, seq, name), ""
        except ObjectNotFoundError:
            return None, "is missing"
        except CorruptRecordError as error:
            return None, str(error)

    def _applied(self, state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
        if not self._quick:
            try:
                return apply_checked(state, entry)
            except InvariantError as error:
                self._impossible(entry.seq, error)
        return apply_entry(state, entry)

    def _check(self, before: State, after: State) -> None:
        try:
            check_later(before, after)
        except InvariantError as error:
            self._impossible(after.seq, error)

    def _impossible(self, seq: int, error: InvariantError) -> None:
        problem = f"leads to an impossible state: {error}"
        self._notes.wrong(self._name(seq), problem, "report it as an error of spark_eos")

    def _jump(self, seq: int, problem: str) -> State | None:
        """From an entry that cannot be applied to the state of the next good snapshot.

        None if there is none. An empty entry is all right if a snapshot stands for it and those before it.
        """
        name, empty = self._name(seq), problem == "is empty"
        for at in self._snapshots():
            if at < seq:
                continue
            state = self._decoded(at)
            if state is None:
                continue
            if isinstance(state, str):
                self._damaged_start(at, state)
                continue
            first = seq
            if empty and seq > 1 and self._slot(seq - 1) is _Slot.FULL:
                if self._slot(seq + 1) is _Slot.RETIRED:
                    self._notes.add(Verdict.NOTE, self._name(seq - 1), f"is not retired, {_BROUGHT_BACK}")
                else:
                    self._emptied(name, at)
            elif not empty and not (problem == "is missing" and seq == 1):
                self._notes.wrong(name, problem, f"{paths.snapshot(at)} stands for it; {_FROM_A_COPY}")
                first = seq + 1
            self._skipped_entries(first, at)
            self._boundary = None
            self._compared.add(at)
            self._notes.summary.snapshots += 1
            self._check(state, state)
            return state
        why = "is retired, and no good snapshot stands for it" if empty else problem
        self._notes.wrong(
            name, f"{why}; what comes after it cannot be applied, and was only looked at", _FROM_A_COPY
        )
        return None

    def _emptied(self, name: str, snapshot: int) -> None:
        self._notes.wrong(
            name,
            "is empty, though the entry before it is not: entries are retired from the oldest on. A process that "
            "slept while the log was put back from a copy may have retired it, or the file is damaged",
            f"nothing is lost, {paths.snapshot(snapshot)} stands for it; put it back from a copy of the log",
        )

    def _slot(self, seq: int) -> _Slot:
        try:
            return _Slot.FULL if self._store.size(self._name(seq)) else _Slot.RETIRED
        except ObjectNotFoundError:
            return _Slot.GONE

    def _skipped_entries(self, first: int, last: int) -> None:
        """Look at entries ``first`` to ``last``, which a snapshot stands for: oldest gone, then retired, then not."""
        if self._quick:
            return
        reached, waiting, count = _Slot.GONE, -1, 0
        for seq in range(first, last + 1):
            self._notes.at("retired entries", seq, self._end)
            slot = self._slot(seq)
            if slot is not _Slot.GONE and reached is _Slot.GONE and self._is_alone(seq, first, last):
                self._notes.add(
                    Verdict.NOTE,
                    self._name(seq),
                    "stands alone among names that were deleted: harmless, a writer that slept has left it, and it is "
                    "never read",
                )
                continue
            if slot is _Slot.FULL:
                self._only_decode(seq, seq)
                waiting = seq if waiting < 0 else waiting
                reached, count = slot, count + 1
                continue
            self._notes.summary.retired += 1
            if slot is _Slot.GONE and reached is not _Slot.GONE:
                # Not if the names of retired entries are being deleted right now, from the oldest on.
                if self._slot(seq - 1) is _Slot.GONE:
                    reached = slot
                    continue
                self._notes.wrong(
                    self._name(seq),
                    "is missing, though older ones are there: its name is free, and who slept could write there",
                    f"nothing is lost, {paths.snapshot(last)} stands for it; put an empty file of that name there",
                )
            elif waiting >= 0:
                # Not if they are being retired right now: then the older ones are empty by now, too.
                if self._slot(waiting) is _Slot.FULL:
                    self._notes.add(
                        Verdict.NOTE,
                        self._name(waiting),
                        f"and {count - 1} others are not retired, {_BROUGHT_BACK}",
                    )
                waiting, count = -1, 0
            reached = max(reached, slot) if slot is _Slot.GONE else slot

    def _is_alone(self, seq: int, first: int, last: int) -> bool:
        """Whether the names of the slots on both sides were deleted."""
        return first < seq < last and self._slot(seq - 1) is self._slot(seq + 1) is _Slot.GONE

    def _only_decode(self, first: int, last: int) -> None:
        """Look whether entries that cannot be applied here are whole. Missing ones in a row are one finding."""
        missing = 0
        for seq in range(first, last + 2):
            self._notes.at("entries", seq, self._end)
            entry, problem = self._read(seq) if seq <= last else (None, "")
            if problem == "is missing":
                missing += 1
                continue
            if missing:
                name, until = self._name(seq - missing), self._name(seq - 1)
                told = "is missing" if missing == 1 else f"and those up to {until} are missing"
                self._notes.wrong(name, told, _FROM_A_COPY)
                missing = 0
            if entry is not None:
                self._notes.summary.entries += 1
            elif problem not in {"", "is empty"}:
                self._notes.wrong(self._name(seq), problem, _FROM_A_COPY)

    # -- Snapshots --------------------------------------------------------------------------------------

    def _snapshots(self) -> list[int]:
        seqs = (paths.snapshot_seq(info.name) for info in self._store.list(paths.SNAPSHOTS))
        return sorted(seq for seq in seqs if seq is not None)

    def _decoded(self, seq: int) -> State | str | None:
        """The state that is stored, what is the matter with it, or None: it has been dropped by now."""
        name = paths.snapshot(seq)
        try:
            state = decode_snapshot(self._store.read(name), seq, name)
            check_parts(state)
        except ObjectNotFoundError:
            return None
        except CorruptRecordError as error:
            return str(error)
        return state

    def _damaged_start(self, seq: int, problem: str) -> None:
        self._compared.add(seq)
        later = [at for at in self._snapshots() if at > seq and isinstance(self._decoded(at), State)]
        remedy = (
            f"delete it: {paths.snapshot(later[0])} stands for it"
            if later
            else "put it back from a copy of the log: the entries before it are retired"
        )
        self._notes.wrong(paths.snapshot(seq), problem, remedy)

    def _pass(self, state: State) -> None:
        """A boundary, by way of the entries: what is stored of it has to be just that."""
        self._boundary = state
        self._pages.passed(state)
        self._compared.add(state.seq)
        name = paths.snapshot(state.seq)
        result = self._decoded(state.seq)
        if result is None:
            return
        self._notes.summary.snapshots += 1
        if isinstance(result, State):
            if result == state:
                self._pages.require(state)
                return
            result = "holds another state than the one that its entries lead to"
        if self._repair:
            self._store.delete(name)
            self._write(state)
            self._notes.add(Verdict.REPAIRED, name, result)
        else:
            self._notes.wrong(name, result, "verify --repair rewrites it: its entries are still there")

    def _write(self, state: State) -> None:
        self._store.ensure_durable(self._name(state.seq))
        IndexPageStore(self._store).save([*state.sealed_pages()])
        create_idempotent(self._store, paths.snapshot(state.seq), encode_snapshot(state))
        self._pages.passed(state)
        self._pages.require(state)

    def _rest(self) -> None:
        """Snapshots that no replay came by; and the newest one, if it is missing."""
        stored = self._snapshots()
        for seq in self._uncompared(stored):
            result = self._decoded(seq)
            if isinstance(result, str):
                self._damaged_start(seq, result)
            elif result is not None:
                self._notes.summary.snapshots += 1
        state = self._boundary
        if state is None or any(seq >= state.seq for seq in stored):
            return
        name = paths.snapshot(state.seq)
        if self._repair:
            self._write(state)
            self._notes.add(Verdict.REPAIRED, name, "was not there yet")
        else:
            self._notes.add(
                Verdict.NOTE, name, "is not there (yet): opening the log takes longer. --repair writes it"
            )

    def _uncompared(self, stored: list[int]) -> Iterator[int]:
        return (seq for seq in stored if seq not in self._compared and seq <= self._end)
