"""Steps of several operating-system processes in one order: the order in which they took effect.

Each process records its own steps (`verification.specification.recording`) into a file of its own, its *journal*. What
others can see is done, and recorded, while the process holds a lock that all of them share, and each step gets its
number from a counter in the file of that lock. So no step of another process comes between an effect and its record.

A process may be killed at any moment. What it has written is in the system's cache and stays. Before a create it
writes down what it is about to do; if there is nothing after that in its journal, the log itself tells whether it was
done (`merged`).
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.environment import Commit
from spark_eos.storage.group_channel import FileGroupChannel
from verification.specification.events import Event, Name
from verification.specification.recording import Create, Recorder

__all__ = ["Order", "RealRecorder", "merged", "request_id"]

_MARK = b"request "
"""With it the ids of the requests begin that callers know; a filler has another one."""

_Key = tuple[int, float]
"""The place of a step in the order: its number, and its place among the steps that were recorded with it."""

_Written = tuple[str, int, tuple[Name, ...], tuple[bool, bool], tuple[int, ...]]


def request_id(process: int, number: int) -> bytes:
    """The id of a request that tells all processes whose it is."""
    return _MARK + process.to_bytes(4, "big") + number.to_bytes(4, "big")


class _Names(dict[bytes, Name]):
    """The names of all requests: read from their ids."""

    def __contains__(self, one: object) -> bool:
        return isinstance(one, bytes) and one.startswith(_MARK)

    def __getitem__(self, one: bytes) -> Name:
        return int.from_bytes(one[8:12], "big"), int.from_bytes(one[12:], "big")


class Order:
    """A lock of all processes of a run, and the number of the last step. To be made after a fork, not before."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "order", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> Order:
        self._lock.acquire()
        if not self._depth:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._lock.release()

    @property
    def steps(self) -> int:
        """How many numbers were given so far."""
        return int.from_bytes(os.pread(self._file, 8, 0), "big")

    def next(self) -> int:
        """The next number. For the holder of the lock."""
        number = self.steps + 1
        os.pwrite(self._file, number.to_bytes(8, "big"), 0)
        return number


class RealRecorder(Recorder):
    """The steps of one process, ``process`` by its number; 0 is the one that started the others."""

    def __init__(self, folder: Path, process: int) -> None:
        super().__init__(names=_Names())
        self.order = Order(folder)
        self._journal = os.open(
            folder / f"journal-{process}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666
        )
        self._known: dict[int, tuple[int, _Key, _Written]] = {}
        """What was written of each event, by the identity of the object: its number here, its place, and its text."""
        self._count = 0

    def _around(self, original: Commit) -> Commit:
        recorded = super()._around(original)

        def commit(
            propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
        ) -> Committed:
            try:
                return recorded(propose, writer=writer, request_id=request_id, alone=alone)
            finally:
                self.flush()

        return commit

    # -- What is written ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what has changed since: new steps, and what became known of earlier ones."""
        with self.order:
            self._give_places()
            lines = []
            for event in self.events:
                number, key, before = self._known[id(event)]
                if (now := _written(event)) != before:
                    self._known[id(event)] = number, key, now
                    lines.append([number, *key, event.process, *now])
            if lines:
                self._write(lines)

    def _give_places(self) -> None:
        """Steps that were put before others that have a place come right before those; all others are the newest."""
        events, known = self.events, self._known
        at = 0
        while at < len(events):
            begin = at
            while at < len(events) and id(events[at]) not in known:
                at += 1
            if count := at - begin:
                before = known[id(events[begin - 1])][1] if begin else (0, 0.0)
                after = known[id(events[at])][1] if at < len(events) else None
                for event, key in zip(events[begin:at], self._places(count, before, after), strict=True):
                    self._count += 1
                    known[id(event)] = self._count, key, ("", 0, (), (False, False), ())
            at += 1

    def _places(self, count: int, before: _Key, after: _Key | None) -> list[_Key]:
        if after is None:
            number = self.order.next()
            return [(number, float(one)) for one in range(count)]
        number, end = after
        start = before[1] if before[0] == number else end - 1
        return [(number, start + (end - start) * (one + 1) / (count + 1)) for one in range(count)]

    def _write(self, what: object) -> None:
        os.write(self._journal, json.dumps(what).encode() + b"\n")

    def add_now(self, event: Event, inode: int = 0) -> None:
        """A step that is no part of this process's calls. ``inode``: that of the file that is replaced or deleted."""
        with self.order:
            self._count += 1
            self._write([[self._count, self.order.next(), 0.0, event.process, *_written(event), inode]])

    # -- Effects, for the holder of the lock -----------------------------------------------------------------

    def intends(self, create: Create, inode: int) -> None:
        """The file of this inode is about to be linked to the name of the slot."""
        self.flush()
        self._count += 1
        kind = "Create" if create.watch.creating is create else "Land"
        step = [kind, create.slot, create.requests, (False, False), ()]
        self._write(
            {"inode": inode, "step": [self._count, self.order.next(), 0.0, create.watch.number, *step]}
        )

    def has_not_landed(self) -> None:
        """The link was refused."""
        self._write([])

    def landed(self, create: Create) -> None:
        if create.watch.creating is create:
            super().landed(create)
            self.flush()
        else:
            self.add_now(Event("Land", create.watch.number, create.slot, create.requests))

    def intends_submission(self, path: str, data: bytes) -> None:
        """The file at ``path`` is about to hold this submission. The step is the newest one of this process."""
        self.flush()
        number = next(
            self._known[id(one)][0] for one in reversed(self.events) if one.kind in {"Submit", "Lag"}
        )
        self._write({"submission": number, "path": path, "data": data.hex()})


def _written(event: Event) -> _Written:
    return event.kind, event.slot, event.requests, event.flags, event.others


# -- The trace of a run -------------------------------------------------------------------------------------


class _Step(NamedTuple):
    key: _Key
    event: Event
    inode: int


def merged(folder: Path, entry: dict[int, Path]) -> list[Event]:
    """The steps of all processes of a run, which have ended, in order; ``entry`` has the files of the log's slots."""
    journals = [_read(path) for path in folder.glob("journal-*")]
    steps = [step for journal in journals for step in _steps(journal)]
    replaced = {(step.event.slot, step.inode) for step in steps if step.inode}
    for journal in journals:
        # What was done is written next, by the same holder of the lock.
        if journal and isinstance(journal[-1], dict) and "inode" in journal[-1]:
            (step,) = _steps([[journal[-1]["step"]]])
            slot, inode = step.event.slot, journal[-1]["inode"]
            if (slot, inode) in replaced or _inode(entry.get(slot)) == inode:
                steps.append(step)
    return [one.event for one in sorted(steps, key=lambda one: one.key) if one.event.kind != "free"]


def _read(path: Path) -> list[Any]:
    """The lines of a journal. A process that was killed may have left half a line."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def _steps(journal: list[Any]) -> Iterator[_Step]:
    """The steps as they were written last."""
    newest: dict[int, _Step] = {}
    for line in journal:
        for number, at, among, process, kind, slot, requests, flags, others, *inode in (
            line if isinstance(line, list) else []
        ):
            names = tuple((one, count) for one, count in requests)
            event = Event(kind, process, slot, names, (flags[0], flags[1]), tuple(others))
            newest[number] = _Step((at, among), event, *(inode or [0]))
    if journal and isinstance(journal[-1], dict) and "submission" in journal[-1]:
        channel = FileGroupChannel(Path(journal[-1]["path"]).parent)
        is_there = bytes.fromhex(journal[-1]["data"]) in channel.submissions()
        newest[journal[-1]["submission"]].event.flags = (is_there, True)
    yield from newest.values()


def _inode(path: Path | None) -> int:
    return path.stat().st_ino if path is not None and path.exists() else 0
