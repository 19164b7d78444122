"""Where processes that write to one log meet, to share an entry. Hints, all of it: safety stays with `Store.create`.

One process at a time has the *lead* and creates the next entry. The others *submit* the requests that they want to be
in it, and the leader *publishes* what it has created. A process that does not take part, dies or sleeps does no harm.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import stat
import tempfile
import time
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from spark_eos.storage.forks import tell_in_child

LEADER_TTL_S = 1.0
"""A process that took the lead longer ago has not succeeded, or is gone."""

ANNOUNCED = 64
"""So many of the newest announcements can be read."""

_SUBMISSION = "submission-"

_HEAD, _PAGE = 12, 4096

REOPENED_S = 0.03
"""The file of reports is opened again after so long: only then does NFS ask its server whether it has changed."""

SUBMISSION_TTL_S = 60.0
"""What is older was left behind by a process that died, or is of before the folder was put back from a copy."""


class GroupChannel(ABC):
    """One process's place in it. Nothing raises: a process that cannot reach the others goes on without them."""

    reach: int | None = None
    """A submission may be in so many slots, from the one that it names on. None: until it is withdrawn.

    For channels over a network, where no process knows whether a withdrawal has arrived.
    """

    is_trusted = True
    """Whether a published entry is certainly durable. Else it is only a reason to read the log."""

    reports_outcomes = False
    """Whether the leader reports what came of the requests of others, so that they need not read the entries."""

    @abstractmethod
    def try_lead(self) -> bool:
        """Take the lead, if it is free, and keep it until `release_lead`. True also where that cannot be told."""

    def keep_lead(self) -> None:  # noqa: B027  (the lead of others does not end by time)
        """Give a sign to be awake, if the lead is had."""

    @abstractmethod
    def release_lead(self) -> None:
        """Give up the lead, if it is had."""

    @abstractmethod
    def leader_token(self) -> int:
        """A number that is another one each time that another process takes the lead; 0 if none did of late."""

    @abstractmethod
    def submit(self, data: bytes) -> bool:
        """Let the leader find ``data``, in place of what was submitted before; whether that worked."""

    @abstractmethod
    def withdraw(self) -> bool:
        """Let no leader find it any more that has not read it already; whether that worked."""

    @abstractmethod
    def submissions(self) -> Iterator[bytes]:
        """What the others have handed over."""

    @abstractmethod
    def publish(self, seq: int, data: bytes) -> None:
        """Entry ``seq`` has been created and is durable; ``data`` are its bytes, or nothing if they are near."""

    @abstractmethod
    def published(self, seq: int) -> bytes | None:
        """What was announced of entry ``seq``, or nothing but that it is there; None if no word was heard of late."""

    def report_outcomes(self, data: bytes) -> None:  # noqa: B027  (the others read the entries)
        """Let the others find ``data``, the outcomes of the requests in the newest entries."""

    def outcomes(self) -> bytes | None:
        """The outcomes that were reported last; None if none were of late."""
        return None

    def newest(self) -> int:
        """The newest entry that was announced of late; -1 if none was."""
        return -1

    def note_entry(self, seq: int) -> None:  # noqa: B027  (others find out by themselves)
        """Entry ``seq`` is there: another process has created it, perhaps on another machine."""

    def relay(self, seq: int, data: bytes) -> None:  # noqa: B027  (others find out by themselves)
        """Entry ``seq``, which was announced without its bytes, was read from the log: others need not read it."""

    def distrust(self) -> None:  # noqa: B027  (what a trusted channel publishes is there)
        """What was published last is not in the log: its publisher is not to be waited for."""


class FileGroupChannel(GroupChannel):
    """In a folder that all of them see, made when it is needed: a lock, and small files that are never synced.

    The kernel frees the lock of a process that dies. Safe for one thread at a time.

    What is written again and again is written over what was there: a new file and its name cost three times as
    much on ext4 without a journal. A length and a checksum tell what was read while it was written.
    """

    def __init__(self, folder: str | os.PathLike[str], *, reports_outcomes: bool = False) -> None:
        self._folder = os.fspath(folder)
        self.reports_outcomes = reports_outcomes
        self._lead_path = os.path.join(self._folder, "lead")
        self._begin()
        self._led_ns = 0
        """When this process last took the lead."""
        self._ahead_ns: int | None = None
        """How far the file system's clock is ahead of this process's monotonic one, as far as is known."""
        self._last_outcomes = _Message(b"", b"")
        """The outcomes that were read last."""
        self._reopen_at = -math.inf
        """Until then, the head of their file is read through the descriptor that is open."""
        self._in_vain = -1
        """The newest entry that was announced when an entry was not there."""
        tell_in_child(self)

    def _begin(self) -> None:
        self._own = f"{_SUBMISSION}{uuid4().hex}"
        self._lock = self._outcomes = -1
        self._is_open = self._leads = False
        self._reopen_at = -math.inf
        self._descriptors: set[int] = set()
        self._removal = weakref.finalize(self, _remove, self._path(self._own), self._descriptors)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`: a name and a lock of its own.

        The lock is closed and not released: it is the same one as the parent's, who may lead.
        """
        self._removal.detach()
        _close(self._descriptors)
        self._begin()

    def try_lead(self) -> bool:
        if not self._is_open:
            self._is_open = True
            try:
                os.makedirs(self._folder, exist_ok=True)
                self._lock = os.open(self._lead_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._descriptors.add(self._lock)
            except OSError:
                self._lock = -1
        if self._lock < 0:
            return True
        if not self._leads:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:
                return True
        self._leads = True
        self.keep_lead()
        return True

    def keep_lead(self) -> None:
        if self._leads:
            with suppress(OSError):
                os.utime(self._lock)
                self._led_ns = os.fstat(self._lock).st_mtime_ns
                self._ahead_ns = self._led_ns - time.monotonic_ns()

    def release_lead(self) -> None:
        if self._leads:
            self._leads = False
            with suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def leader_token(self) -> int:
        try:
            led_ns = os.stat(self._lead_path).st_mtime_ns
        except OSError:
            return 0
        of_late = abs(self._now_ns() - led_ns) < LEADER_TTL_S * 1e9
        return led_ns if of_late and led_ns != self._led_ns else 0

    def submit(self, data: bytes) -> bool:
        return self._write(self._own, data)

    def withdraw(self) -> bool:
        # The file stays: the next submission is written over it.
        if self._write(self._own, b""):
            return True
        try:
            os.unlink(self._path(self._own))
        except FileNotFoundError:  # It is gone, perhaps with its folder.
            return True
        except OSError:
            return False
        return True

    def submissions(self) -> Iterator[bytes]:
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.startswith(_SUBMISSION) and entry.name != self._own:
                    with suppress(OSError):
                        message = self._read(entry.path)
                        if message is None:
                            os.unlink(entry.path)
                        elif message.data:
                            yield message.data

    def publish(self, seq: int, data: bytes) -> None:
        if not data or self._replace(f"entry-{seq % ANNOUNCED}", seq.to_bytes(8, "big") + data):
            self._write("newest-entry", seq.to_bytes(8, "big"))

    def note_entry(self, seq: int) -> None:
        if self._newest() < seq:
            self._write("newest-entry", seq.to_bytes(8, "big"))

    def relay(self, seq: int, data: bytes) -> None:
        if self._replace(f"entry-{seq % ANNOUNCED}", seq.to_bytes(8, "big") + data):
            self.note_entry(seq)

    def published(self, seq: int) -> bytes | None:
        newest = self.newest()
        return None if newest < seq else self._bytes_of(seq)

    def _bytes_of(self, seq: int) -> bytes:
        """The bytes with which an entry was announced, if they were and are still there."""
        try:
            with open(self._path(f"entry-{seq % ANNOUNCED}"), "rb", buffering=0) as file:
                data = file.read() if self._is_fresh(os.fstat(file.fileno())) else b""
        except OSError:
            return b""
        return data[8:] if int.from_bytes(data[:8], "big") == seq else b""

    def report_outcomes(self, data: bytes) -> None:
        self._write("reported-outcomes", data)

    def outcomes(self) -> bytes | None:
        # A process that waits looks again and again, mostly in vain: one system call.
        now = time.monotonic()
        try:
            if now >= self._reopen_at:
                self._open_outcomes()
                self._reopen_at = now + REOPENED_S
            elif os.pread(self._outcomes, _HEAD, 0) == self._last_outcomes.head:
                return self._last_outcomes.data or None
            message = self._message(self._outcomes, self._last_outcomes)
        except OSError:
            self._reopen_at = -math.inf
            return None
        if message is None:
            return None
        if message.data:  # Else it is being written.
            self._last_outcomes = message
        return self._last_outcomes.data or None

    def _open_outcomes(self) -> None:
        earlier = self._outcomes
        self._outcomes = os.open(self._path("reported-outcomes"), os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors.add(self._outcomes)
        if earlier >= 0:
            self._descriptors.discard(earlier)
            os.close(earlier)

    def newest(self) -> int:
        newest = self._newest()
        return -1 if newest == self._in_vain else newest

    def distrust(self) -> None:
        self._in_vain = self._newest()

    def _newest(self) -> int:
        try:
            message = self._read(self._path("newest-entry"))
        except OSError:
            return -1
        return int.from_bytes(message.data, "big") if message is not None and message.data else -1

    def _now_ns(self) -> int:
        """The time as the file system has it: this machine's clock may be off by years."""
        return time.time_ns() if self._ahead_ns is None else time.monotonic_ns() + self._ahead_ns

    def _is_fresh(self, status: os.stat_result) -> bool:
        return abs(self._now_ns() - status.st_mtime_ns) < SUBMISSION_TTL_S * 1e9

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _read(self, path: str) -> _Message | None:
        """The message in a file, see `_message`. Opened each time, as a server of files is asked only then."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._message(descriptor)
        finally:
            os.close(descriptor)

    def _message(self, descriptor: int, last: _Message | None = None) -> _Message | None:
        """The message in an open file: without data if there is none, or not yet the whole of it; None if it is old.

        ``last`` is given back if it is still there.
        """
        status = os.fstat(descriptor)
        if not self._is_fresh(status):
            return None
        page = os.pread(descriptor, _PAGE, 0)
        head, data = page[:_HEAD], page[_HEAD:]
        if last is not None and head == last.head:
            return last
        size = min(int.from_bytes(head[:8], "big"), status.st_size)
        if size > len(data):
            data += os.pread(descriptor, size - len(data), len(page))
        data = data[:size]
        return _Message(head, data if head == _head(data) else b"")

    def _write(self, name: str, data: bytes) -> bool:
        """Write a message over the one that is there."""
        try:
            descriptor = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                written = os.write(descriptor, _head(data) + data)
                self._ahead_ns = os.fstat(descriptor).st_mtime_ns - time.monotonic_ns()
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return written == _HEAD + len(data)

    def _replace(self, name: str, data: bytes) -> bool:
        """A new file in place of the one that is there: what is believed as it is must be whole."""
        temporary = self._path(f"_{self._own}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
            if written < len(data):
                return False
            os.rename(temporary, self._path(name))
        except OSError:
            return False
        return True


class _Message(NamedTuple):
    head: bytes
    """The length of the data, 8 bytes, and their checksum, 4 bytes."""
    data: bytes


def _head(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + zlib.crc32(data).to_bytes(4, "big")


def _remove(path: str, descriptors: set[int]) -> None:
    """Close and delete what a channel leaves."""
    _close(descriptors)
    with suppress(OSError):
        os.unlink(path)


def _close(descriptors: set[int]) -> None:
    while descriptors:
        with suppress(OSError):
            os.close(descriptors.pop())


def local_group_channel(url: str, name: str) -> FileGroupChannel | None:
    """For the processes of one user and one machine that write to the log ``name`` at ``url``, wherever that is.

    Announcements are believed, so the folder has to be this user's alone; None if it cannot be.
    """
    user = os.getuid()
    folder = Path(tempfile.gettempdir()) / f"spark_eos-{user}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == user and not status.st_mode & 0o077:
            return FileGroupChannel(folder / hashlib.sha256(f"{url}\0{name}".encode()).hexdigest()[:32])
    return None
