"""Moves the data files of a log in use to another store, or back. May be killed anywhere, and run again.

The order is what makes it safe (docs/design/0016-chain-and-data-on-two-stores.md):

1. The new place is this log's alone. Then an entry says that files that are staged from now on are there (`MoveData`).
2. Writers that staged at the old place have ``min_age_s`` to commit. Files are copied meanwhile. Then the staging floor
   rises, and no file of the old place can be committed any more.
3. What a state after that refers to is copied, and an entry says so (`DataCopied`).
4. When ``file.delete.delay.ms`` of the topics is over, the old place is emptied, and an entry ends the move
   (`DataMoved`). No log ever has its data at that place again, so a process that slept deletes nothing that is in use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    EosLogError,
    InvalidRequestError,
    NotALogError,
    ObjectNotFoundError,
)
from spark_eos.log import paths
from spark_eos.log.data_place import check_beside, check_empty
from spark_eos.log.log import Log
from spark_eos.log.snapshots.derived import create_idempotent, idempotent_upload
from spark_eos.log.topics import config_value
from spark_eos.maintenance.reachability import data_sizes
from spark_eos.protocol.actions import DataCopied, DataMoved, MoveData, RaiseStagingFloor
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.actions.data_place import move_data, place_beside
from spark_eos.protocol.state import DataBefore, State
from spark_eos.storage import Store, probe
from spark_eos.storage.encrypted_files import stored_size
from spark_eos.storage.two_stores import DATA_MARK, absolute_place, at_place, check_claim, is_apart
from spark_eos.storage.urls import data_store

MIN_AGE_S = 3600.0
"""How long a writer has from its start to its commit, and a reader from its plan to its end, before it may fail."""

_PART = 16 * 1024 * 1024
"""Bytes of a file that are held in memory."""
_AT_A_TIME = 8
"""Files under way, where that is requests."""
_CHUNK = 10_000
"""Names of the old place that are held at once."""
_LOOK_AGAIN = 1000
"""After how many deletions it is made sure again that the log is still the one that was looked at."""
_WRITER = "move"

Progress = Callable[[str, int, int], None]


class Moved(NamedTuple):
    """Where the data files of the log are, and what this call has done: files copied, their bytes, files deleted."""

    location: str
    files: int
    bytes: int
    deleted: int


class _OverError(Exception):
    """Another process has ended the move, or more than that."""


class DataMover:
    """Moves the data of ``log`` to the store at ``to``; empty: into the store of the entries.

    Its settings are those of the log's store and those with ``data.`` before them. ``progress`` is called with (what,
    done, of how many); it may raise, to stop.
    """

    def __init__(
        self, log: Log, to: str, *, min_age_s: float = MIN_AGE_S, progress: Progress | None = None
    ) -> None:
        self._log = log.without_maintenance()
        self._to = to
        self._min_age_s = min_age_s
        self._tell = progress or (lambda *_: None)
        self._seen_s = self._log.clock.monotonic()
        """When this process has seen that the move has begun."""
        self._files = self._bytes = self._deleted = 0

    def run(self) -> Moved:
        """Move the data, or go on with what an earlier call or another process has begun.

        Raises `ConfigError` if the place does not fit or another move is under way, `NotALogError` if something else is
        there, `InvalidRequestError` if published tables share the files, `CorruptRecordError` if a file is missing, and
        what the stores raise.
        """
        self._check_same()
        state = self._log.follow()
        place = self._wanted_place(state)
        if place is not None:
            try:
                self._begin(state, place)
            except EosLogError:
                if self._wanted_place(self._log.follow()) is not None:
                    raise
                # Another process was quicker to begin the same move.
        state = self._log.state
        if state.data_before is not None:
            self._seen_s = self._log.clock.monotonic()
            try:
                self._finish(state.data_placed_at)
            except (_OverError, ObjectNotFoundError):
                if _is_under_way(self._log.follow(), state.data_placed_at):
                    raise
        return Moved(self._log.data_location, self._files, self._bytes, self._deleted)

    def look(self) -> Moved:
        """What `run` would copy, and to where, as far as it can be told without writing. Raises as `run`."""
        state = self._log.follow()
        place = self._wanted_place(state)
        before = state.data_before
        if place is None and before is None:
            return Moved(self._log.data_location, 0, 0, 0)
        if place is not None:
            self._check(state, place)
        sizes = data_sizes(state, self._log.load)
        if place is None:
            sizes = {name: size for name, size in sizes.items() if staged_at(name) <= state.data_placed_at}
        location = absolute_place(self._log.url, state.data_url if place is None else place)
        return Moved(location, len(sizes), sum(sizes.values()), 0)

    # -- Where to -----------------------------------------------------------------------------------------

    def _wanted_place(self, state: State) -> str | None:
        """The place as the log is to name it; None if the data is there, or on its way there."""
        current_place = absolute_place(self._log.url, state.data_url)
        if self._to:
            place = data_store(self._to, self._log.store.settings).url
            is_there = place == state.data_url
        else:
            place, is_there = place_beside(state.data_placed_at), not is_apart(state.data_url)
        if is_there:
            return None
        if state.data_before is not None:
            raise ConfigError(
                f"the data files of {self._log.url} are being moved to {current_place} since entry "
                f"{state.data_placed_at}: end that move first, by the same command with that place"
            )
        return place

    def _begin(self, state: State, place: str) -> None:
        """See that the place is free and this log's, and have the log name it."""
        log = self._log
        action = self._check(state, place)
        check_claim(log.store, state.data_url, log.log_id)
        if is_apart(place):
            probe(data_store(place, log.store.settings), log.clock.unique())
            check_claim(log.store.with_data(place), place, log.log_id)
        log.commit(lambda now: (action,) if now.data_placed_at == action.placed_at else (), writer=_WRITER)
        if log.state.data_url != place:
            raise ConfigError(
                f"the data files of {log.url} are being moved to {log.data_location} by another process: end that move "
                "first"
            )

    def _check(self, state: State, place: str) -> MoveData:
        """What the rules or the place refuse is refused before anything is written."""
        action = MoveData(place, state.data_placed_at)
        move_data(state, action)
        if is_apart(place):
            check_beside(place, self._log.store)
            target = data_store(place, self._log.store.settings)
            self._check_not_left(target)
            check_empty(target)
        return action

    def _check_not_left(self, target: Store) -> None:
        try:
            mark = _mark(bytes(target.read(DATA_MARK)))
        except ObjectNotFoundError:
            return
        if "left" in mark:
            raise ConfigError(
                f"{target.url} had the data files of a log before ({DATA_MARK} there says of which): a process that "
                "slept since may still delete there. Choose another folder or prefix"
            )

    # -- The steps ----------------------------------------------------------------------------------------

    def _finish(self, at: int) -> None:
        """All that follows the entry ``at``, from where earlier calls have left it."""
        if self._old_place(at)[1].copied_at < 0:
            self._copy(at)
            self._close_old_place(at)
            self._copy(at)
            self._log.commit(lambda now: (DataCopied(at),) if _is_under_way(now, at) else (), writer=_WRITER)
        self._wait("until running readers have finished", self._delay_s, self._log.clock.monotonic())
        self._empty(at)
        self._log.commit(lambda now: (DataMoved(at),) if _is_under_way(now, at) else (), writer=_WRITER)

    def _old_place(self, at: int) -> tuple[State, DataBefore]:
        """The newest state, and what it says of the old place. Raises `_OverError`."""
        state = self._log.follow()
        if state.data_placed_at != at or state.data_before is None:
            raise _OverError
        return state, state.data_before

    def _close_old_place(self, at: int) -> None:
        """Give writers their time, and then let no file of the old place be committed any more."""
        state, before = self._old_place(at)
        passed_s = (self._log.time.now_ms(state) - before.begun_ms) / 1000
        since_s = min(self._seen_s, self._log.clock.monotonic() - passed_s)
        self._wait("until writers have committed what they staged at the old place", self._min_age_s, since_s)
        self._log.commit(
            lambda now: (
                (RaiseStagingFloor(at + 1),) if _is_under_way(now, at) and now.staging_floor <= at else ()
            ),
            writer=_WRITER,
        )

    def _wait(self, why: str, length_s: float, since_s: float) -> None:
        clock = self._log.clock
        while True:
            rest_s = since_s + length_s - clock.monotonic()
            self._tell(f"waiting {why}, seconds left", max(int(rest_s), 0), int(length_s))
            if rest_s <= 0:
                return
            clock.sleep(min(rest_s, 0.5))

    @property
    def _delay_s(self) -> float:
        """For how long running readers have files that are to be deleted."""
        topics = self._log.state.topics.values()
        return max((config_value(topic, "file.delete.delay.ms", int) for topic in topics), default=0) / 1000

    # -- Copying ------------------------------------------------------------------------------------------

    def _copy(self, at: int) -> None:
        """Copy what the newest state refers to, or a newer one where parts have been removed since."""
        missed: set[str] = set()
        while True:
            state, before = self._old_place(at)
            if before.copied_at >= 0:
                return
            try:
                self._copy_files(state, at)
            except ObjectNotFoundError as error:
                newer, _ = self._old_place(at)
                if newer.seq == state.seq or str(error) in missed:
                    raise CorruptRecordError(
                        f"{error}: the log refers to it. The log itself is damaged: run eoslog verify {self._log.url}"
                    ) from error
                missed.add(str(error))  # A newer state refers to it no more, unless the log is damaged.
            else:
                return

    def _copy_files(self, state: State, at: int) -> None:
        self._tell("looking for data files", 0, 0)
        sizes = {
            name: size for name, size in data_sizes(state, self._log.load).items() if staged_at(name) <= at
        }
        for folder in (paths.DATA, paths.TABLES):
            prefix = at_place(at, folder, new=True)
            for info in self._log.store.list(prefix):
                name = folder + info.name.removeprefix(prefix)
                size = sizes.pop(name, info.size)
                if info.size not in (size, stored_size(size)):
                    raise CorruptRecordError(
                        f"{self._log.data_location}/{name} has {info.size} bytes, not {size}: another program has "
                        "written there. Delete it, and run the same command again"
                    )
        for number, _ in enumerate(self._in_parallel(sizes, at), 1):
            self._tell("data files", number, len(sizes))

    def _in_parallel(self, names: Iterable[str], at: int) -> Iterator[None]:
        if self._log.store.requests_are_free:
            for name in names:
                self._copy_file(name, at)
                yield
            return
        waiting = iter(names)
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            while some := [*islice(waiting, 16 * _AT_A_TIME)]:
                yield from pool.map(lambda name: self._copy_file(name, at), some)

    def _copy_file(self, name: str, at: int) -> None:
        """Copy one, as it is stored. Another process may do the same: the bytes are the same."""
        store = self._log.store
        old, new = at_place(at, name, new=False), at_place(at, name, new=True)
        size = store.size(old)
        if size <= _PART:
            create_idempotent(store, new, store.read(old))
        else:
            with idempotent_upload(store, new) as out:
                for offset in range(0, size, _PART):
                    out.write(store.read(old, offset, _PART))
        self._files += 1
        self._bytes += size

    # -- The old place ------------------------------------------------------------------------------------

    def _empty(self, at: int) -> None:
        """Delete all files that the log had at the old place. Files with other names are not the log's."""
        state, before = self._old_place(at)
        if before.copied_at < 0:
            raise _OverError
        self._mark_left(before, at)
        self._settle(state)
        for folder in (paths.DATA, paths.TABLES):
            while names := [*islice(self._at_old_place(folder, at), _CHUNK)]:
                for number, name in enumerate(names):
                    if number % _LOOK_AGAIN == 0:
                        self._check_same()
                    self._log.check()  # Costs nothing in a folder, and a request a minute elsewhere.
                    self._log.store.delete(name)
                    self._deleted += 1
                    self._tell("files of the old place deleted", self._deleted, self._deleted)

    def _at_old_place(self, folder: str, at: int) -> Iterator[str]:
        prefix = at_place(at, folder, new=False)
        for info in self._log.store.list(prefix):
            name = folder + info.name.removeprefix(prefix)
            if not (paths.is_data(name) or paths.is_segment(name)):
                continue
            try:
                if staged_at(name) <= at:
                    yield info.name
            except InvalidRequestError:
                continue

    def _mark_left(self, before: DataBefore, at: int) -> None:
        """Say at the old place that this log has left it. Raises `ConfigError` if that place is another log's."""
        if not is_apart(before.url):
            return
        name, store = at_place(at, DATA_MARK, new=False), self._log.store
        mine = {"log_id": self._log.log_id, "chain": self._log.url}
        try:
            data = bytes(store.read(name))
        except ObjectNotFoundError:
            data = b""
        mark = _mark(data) if data else mine
        if {**mark, "left": at} != {**mine, "left": at}:
            raise ConfigError(
                f"{before.url} has the data files of another log or of another copy of this one ({DATA_MARK} there "
                f"says {data.decode(errors='replace')}): nothing was deleted there. The data of this log is at "
                f"{self._log.data_location}"
            )
        if "left" not in mark or not data:
            store.overwrite(name, json.dumps({**mine, "left": at}, sort_keys=True).encode())

    def _settle(self, state: State) -> None:
        """What the deletions rest on must outlive a power cut: an entry may still be undone whose writer died."""
        folder = state.entries_per_folder
        self._log.store.ensure_durable(paths.entry(state.seq, folder))
        if folder and state.seq >= folder:
            self._log.store.ensure_durable(paths.entry(state.seq // folder * folder - 1, folder))

    def _check_same(self) -> None:
        if not self._log.is_same():
            raise NotALogError(
                f"{self._log.url} does not hold log {self._log.log_id} any more: it was removed or replaced. Nothing "
                "more is moved or deleted"
            )


def _mark(data: bytes) -> dict[str, object]:
    """What the mark of a place says; nothing, if it makes no sense."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_under_way(state: State, at: int) -> bool:
    return state.data_placed_at == at and state.data_before is not None
