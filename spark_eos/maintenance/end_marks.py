"""What one pass of maintenance tells a later one by notes in the store; delays, and times of entries."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import NamedTuple

from spark_eos.config.topic import TOPIC
from spark_eos.errors import ConfigError, ObjectNotFoundError, StoreFullError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value
from spark_eos.maintenance.unreadable import Unreadable
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.state import State
from spark_eos.storage import Store

_LOG = logging.getLogger(__name__)

_LINE = re.compile(r"^([0-9]{1,18}) ([0-9]{1,18})$", re.MULTILINE | re.ASCII)

_SEEN = re.compile(r"^([0-9]{1,18}) ([^\x00-\x1f]+)$", re.MULTILINE)

DEFAULT_DELAY_MS = int(TOPIC["file.delete.delay.ms"].default)

_KEPT = 50
"""Of them for the time that is waited."""


class Milestone(NamedTuple):
    """At ``time_ms`` since 1970, by the clock of the process that noted it, the log stood at ``seq``."""

    time_ms: int
    seq: int


class LogEndMarks:
    """One file of them; lines that are none are passed over. Two who note at once lose one, which waits longer."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def read(self, limit: int, now_ms: int) -> list[Milestone]:
        """All of them up to ``limit``, by time: what lies after it was noted of another log.

        Those after ``now_ms`` were noted by a wrong clock. Until its time comes no other one would be added.
        """
        try:
            text = bytes(self._store.read(self._name)).decode("ascii", "replace")
        except ObjectNotFoundError:
            return []
        milestones = (Milestone(int(match[1]), int(match[2])) for match in _LINE.finditer(text))
        return sorted(
            milestone for milestone in milestones if milestone.seq <= limit and milestone.time_ms <= now_ms
        )

    def add(self, milestones: list[Milestone], new: Milestone, wait_ms: float) -> None:
        """Add one to those that were read, unless there is a recent one; of those past the wait one stays."""
        if milestones and new.time_ms - milestones[-1].time_ms < wait_ms / _KEPT:
            return
        limit_ms = new.time_ms - wait_ms
        old = [milestone for milestone in milestones if milestone.time_ms <= limit_ms][-1:]
        remaining = [*old, *(milestone for milestone in milestones if milestone.time_ms > limit_ms), new]
        self._store.overwrite(
            self._name, "".join(f"{milestone.time_ms} {milestone.seq}\n" for milestone in remaining).encode()
        )


class FirstSeen:
    """One file of objects that are left over, and since when that is known: a time since 1970 and a name in each line.

    Other lines are passed over, and without the file the times begin again. Of two processes that write it at the same
    time one loses its names. Then their objects stay for longer, and nothing else happens.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._written: dict[str, int] = {}

    def read(self, now_ms: int) -> dict[str, int]:
        """The times by the names; a time after ``now_ms`` is of a clock that was wrong, and counts as now."""
        try:
            text = bytes(self._store.read(self._name)).decode("utf-8", "replace")
        except ObjectNotFoundError:
            text = ""
        self._written = {match[2]: int(match[1]) for match in _SEEN.finditer(text)}
        return {name: min(time_ms, now_ms) for name, time_ms in self._written.items()}

    def write(self, times: dict[str, int]) -> None:
        """Replace the file by these, unless it says the same."""
        if times != self._written:
            lines = (f"{time_ms} {name}\n" for name, time_ms in sorted(times.items()))
            self._store.overwrite(self._name, "".join(lines).encode())
            self._written = times


class Room:
    """Whether the store had room for what a vacuum writes: what needs no entry and no note is deleted without it."""

    def __init__(self) -> None:
        self.error: StoreFullError | None = None

    def has(self, write: Callable[[], object]) -> bool:
        """Write, and say whether there was room."""
        try:
            write()
        except StoreFullError as error:
            self.error = error
            return False
        return True

    def report(self, *, deleted: bool) -> None:
        """If there was none: raise `StoreFullError`, or warn that more could be deleted if something was."""
        if self.error is None:
            return
        text = (
            "an entry has to be written first, which says that files that were staged by then cannot be committed any "
            "more. Free some 100 KB on the disk that the log does not use, and run vacuum again"
        )
        if not deleted:
            raise StoreFullError(f"{self.error}. Nothing was deleted: {text}") from self.error
        _LOG.warning("%s. Not all was deleted: %s", self.error, text)


class Delays:
    """How long files stay once it is known that they have no reference, by the folder of their topic."""

    def __init__(self, state: State, left: Unreadable) -> None:
        """``left`` gets the topics whose delay is not known: their files stay (`knows`)."""
        self._delays: dict[str, int] = {}
        self._unknown: set[str] = set()
        self._promises: dict[str, tuple[int, int]] = {}
        """By folder: the entry by which the newest version was begun, and how long readers of older ones have."""
        for topic in state.topics.values():
            folder = paths.table_folder(topic.name, topic.topic_id)
            try:
                delay_ms = max(config_value(topic, "file.delete.delay.ms", int), 0)
            except ConfigError as error:
                left.leave(topic, error)
                self._unknown |= {folder, paths.data_folder(topic.name, topic.topic_id)}
                continue
            self._delays[paths.data_folder(topic.name, topic.topic_id)] = self._delays[folder] = delay_ms
            for publication in state.publications_of(topic.topic_id):
                if publication.newest is not None and publication.shares(topic.topic_id):
                    seq, known_ms = self._promises.get(folder, (-1, 0))
                    self._promises[folder] = (
                        max(publication.newest.begun_seq, seq),
                        max(publication.retention_ms, known_ms),
                    )

    def knows(self, name: str) -> bool:
        """Whether the file may be deleted at all."""
        return _folder_of(name) not in self._unknown

    def of(self, name: str) -> tuple[int, int]:
        """The delay for running readers of the log, and that which tables promise to theirs (ms)."""
        folder = _folder_of(name)
        begun_seq, promised_ms = self._promises.get(folder, (-1, 0))
        # What was written after the newest version was begun was never in one.
        was_there = begun_seq >= 0 and staged_at(name) <= begun_seq
        return self._delays.get(folder, DEFAULT_DELAY_MS), promised_ms if was_there else 0


def _folder_of(name: str) -> str:
    return "/".join(name.split("/", 2)[:2]) + "/"


def floor_by_times(log: Log, state: State, limit_ms: int) -> int:
    """After the last entry that is as old by what it says; 0 if that one is retired, and says nothing."""
    low, high, is_known = 0, state.seq + 1, True
    while low < high:
        middle = (low + high) // 2
        time_ms = _time_of(log, middle, state)
        if time_ms is None or time_ms <= limit_ms:
            low, is_known = middle + 1, time_ms is not None
        else:
            high = middle
    return low if is_known else 0


def _time_of(log: Log, seq: int, state: State) -> int | None:
    name = paths.entry(seq, state.entries_per_folder)
    try:
        data = log.store.read(name)
    except ObjectNotFoundError:
        return None  # Retired, and its name deleted.
    if not data.size:
        return None
    entry = decode_entry(data, seq, f"{log.url}/{name}")
    return max((request.timestamp_ms for request in entry.requests), default=None)
