"""Where processes that write to one log meet, to share an entry. Hints, all of it: safety stays with `Store.create`.

One process at a time has the *lead* and creates the next entry. The others *submit* the requests that they want to be
in it, and the leader *publishes* what it has created. A process that does not take part, dies or sleeps does no harm.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from spark_eos.storage.forks import tell_in_child

__all__ = ["FileGroupChannel", "GroupChannel", "local_group_channel"]

LEADER_TTL_S = 1.0
"""A process that took the lead longer ago has not succeeded, or is gone."""

ANNOUNCED = 64
"""So many of the newest announcements can be read."""

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
    """

    def __init__(self, folder: str | os.PathLike[str], *, reports_outcomes: bool = False) -> None:
        self._folder = os.fspath(folder)
        self.reports_outcomes = reports_outcomes
        self._lead_path = os.path.join(self._folder, "lead")
        self._own = f"request-{uuid4().hex}"
        self._lock = -1
        self._is_open = False
        self._leads = False
        self._led_ns = 0
        """When this process last took the lead."""
        self._ahead_ns: int | None = None
        """How far the file system's clock is ahead of this process's monotonic one, as far as is known."""
        self._no_news: tuple[int, int] | None = None
        """An entry that was not announced when the file for it was this one."""
        self._told: tuple[tuple[int, int, int], bytes] = ((-1, -1, -1), b"")
        """The file of the outcomes that was read last, and what is in it."""
        self._newest_file = -1
        """In it is the newest entry that was announced. A process that has missed one need not wait for it."""
        self._in_vain = -1
        """The newest one that was announced when an entry was not there."""
        tell_in_child(self)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`: a name and a lock of its own.

        The lock is closed and not released: it is the same one as the parent's, who may lead.
        """
        lock, self._lock = self._lock, -1
        self._own, self._leads, self._is_open = f"request-{uuid4().hex}", False, False
        newest, self._newest_file = self._newest_file, -1
        for descriptor in (lock, newest):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)

    def try_lead(self) -> bool:
        if not self._is_open:
            self._is_open = True
            try:
                os.makedirs(self._folder, exist_ok=True)
                self._lock = os.open(self._lead_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._newest_file = os.open(
                    self._path("newest"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
                )
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
        try:
            os.unlink(self._path(self._own))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def submissions(self) -> Iterator[bytes]:
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.startswith("request-") and entry.name != self._own:
                    with suppress(OSError):
                        if self._is_fresh(entry.stat()):
                            yield Path(entry.path).read_bytes()
                        else:
                            os.unlink(entry.path)

    def publish(self, seq: int, data: bytes) -> None:
        if self._write(f"entry-{seq % ANNOUNCED}", seq.to_bytes(8, "big") + data):
            self.note_entry(seq)

    def note_entry(self, seq: int) -> None:
        if self._newest() < seq:
            with suppress(OSError):
                os.pwrite(self._newest_file, seq.to_bytes(8, "big"), 0)

    def relay(self, seq: int, data: bytes) -> None:
        self.publish(seq, data)

    def published(self, seq: int) -> bytes | None:
        path = self._path(f"entry-{seq % ANNOUNCED}")
        try:
            # Asked again and again until there is news, which is a new file: mostly one look is enough.
            if (seq, os.stat(path).st_ino) == self._no_news:
                return self._missed(seq)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return self._missed(seq)
        with open(descriptor, "rb", buffering=0) as file:
            try:
                status = os.fstat(descriptor)
                data = file.read() if self._is_fresh(status) else b""
            except OSError:
                return None
        told = int.from_bytes(data[:8], "big") if len(data) >= 8 else -1
        if told < seq:
            self._no_news = seq, status.st_ino
            return self._missed(seq)
        return data[8:] if told == seq else b""

    def report_outcomes(self, data: bytes) -> None:
        self._write("outcomes", data)

    def outcomes(self) -> bytes | None:
        path = self._path("outcomes")
        try:
            status = os.stat(path)
            if not self._is_fresh(status):
                return None
            if _file(status) != self._told[0]:
                with open(path, "rb", buffering=0) as file:
                    self._told = _file(os.fstat(file.fileno())), file.read()
        except OSError:
            return None
        return self._told[1]

    def newest(self) -> int:
        newest = self._newest()
        return -1 if newest == self._in_vain else newest

    def distrust(self) -> None:
        self._in_vain = self._newest()

    def _missed(self, seq: int) -> bytes | None:
        """What is known of an entry that was not announced: it is there if a later one was."""
        return b"" if self.newest() >= seq else None

    def _newest(self) -> int:
        try:
            data = os.pread(self._newest_file, 8, 0)
            if len(data) == 8 and self._is_fresh(os.fstat(self._newest_file)):
                return int.from_bytes(data, "big")
        except OSError:
            pass
        return -1

    def _now_ns(self) -> int:
        """The time as the file system has it: this machine's clock may be off by years."""
        return time.time_ns() if self._ahead_ns is None else time.monotonic_ns() + self._ahead_ns

    def _is_fresh(self, status: os.stat_result) -> bool:
        return abs(self._now_ns() - status.st_mtime_ns) < SUBMISSION_TTL_S * 1e9

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, name: str, data: bytes) -> bool:
        temporary = self._path(f"_{self._own}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                written = os.write(descriptor, data)
                self._ahead_ns = os.fstat(descriptor).st_mtime_ns - time.monotonic_ns()
            finally:
                os.close(descriptor)
            if written < len(data):
                return False
            os.rename(temporary, self._path(name))
        except OSError:
            return False
        return True


def _file(status: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from the one that took its place. Some file systems use the same number for every other one."""
    return status.st_ino, status.st_mtime_ns, status.st_size


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
