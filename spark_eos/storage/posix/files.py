"""System calls as `PosixStore` needs them: whole writes, whole reads, and syncs that reach the disk."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import cast, final

import pyarrow as pa

from spark_eos.errors import StoreUnavailableError
from spark_eos.storage.forks import generation

WRITEBACK_BYTES = 4 << 20
"""After so many bytes the disk begins with them, while the next ones are made; `TemporaryFile.seal` waits less."""

_CLOSED = -1
"""A descriptor that every system call refuses."""

_NOT_OURS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
)
"""A folder that is not open to us, or cannot be synced at all: so this store has made nothing in it just now."""

_NOT_DIRECTLY = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""A file system that has no direct writes (tmpfs), or wants them in another form."""


class Appender:
    """Appends to an open file. Not for several threads at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._written = self._begun = 0
        self._takes_pages = hasattr(os, "O_DIRECT")

    def twin(self) -> Appender:
        """One more for the same file, which goes on where either stops, and is closed by itself.

        For another thread: if that is still in a call when this one is closed, its bytes go into no other file.
        """
        return Appender(os.dup(self._descriptor))

    def write(self, view: memoryview) -> None:
        """Append all of ``view``, in as many calls as the system likes."""
        while view.nbytes:
            written = os.write(self._descriptor, view)
            if written == 0:
                raise OSError(errno.EIO, "the system takes no more bytes and does not say why")
            view = view[written:]
            self._written += written
        if self._written - self._begun >= WRITEBACK_BYTES:
            begin_writeback(self._descriptor, self._begun, self._written - self._begun)
            self._begun = self._written

    def write_directly(self, pages: memoryview) -> None:
        """As `write`, but not through the system's cache where the file system can do without.

        ``pages`` are whole pages, in memory that begins with one, and so are all bytes before them.
        """
        if self._takes_pages:
            written = self._write_pages(pages)
            self._written += written
            self._begun = self._written
            pages = pages[written:]
        self.write(pages)

    def _write_pages(self, pages: memoryview) -> int:
        """How many bytes could be written directly."""
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
            try:
                written = os.write(self._descriptor, pages)
            finally:
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)
        except OSError as error:
            if error.errno not in _NOT_DIRECTLY:
                raise
            written = 0
        # After a part of a page, nothing would be aligned any more.
        self._takes_pages = written == pages.nbytes
        return written

    def close(self) -> None:
        """Nothing to do if it is closed."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


@final
class TemporaryFile(Appender):
    """A new file of a unique name in ``folder``; closed, and its name gone, when the context ends."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, uuid.uuid4().hex)
        self._made_in = generation()
        super().__init__(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))

    def __enter__(self) -> TemporaryFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What counts is decided by now, and a leftover does no harm: no error from here.
        with suppress(OSError):
            self.close()
        if self._made_in == generation():  # Else a forked process drops what its parent still writes.
            with suppress(OSError):
                os.unlink(self.path)

    def seal(self) -> None:
        """Make the bytes durable and close the file: an open one would outlive its name on NFS."""
        sync(self._descriptor)
        self.close()


def begin_writeback(descriptor: int, offset: int, length: int) -> None:
    """Let the disk begin with these bytes, where the system can be asked to. A hint: it syncs nothing."""
    if _SYNC_FILE_RANGE is not None:
        _SYNC_FILE_RANGE(descriptor, offset, length, _SYNC_FILE_RANGE_WRITE)


def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux's system call, which Python's ``os`` does not have."""
    try:
        call = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return cast("Callable[[int, int, int, int], int]", call)


_SYNC_FILE_RANGE = _sync_file_range()
_SYNC_FILE_RANGE_WRITE = 2


def sync(descriptor: int) -> None:
    """``fsync`` that also empties the cache of the drive."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # on a Mac, fsync stops short of it
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


def open_folder(folder: str) -> int:
    """A descriptor of ``folder``, to link into and to sync."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def sync_folder(folder: str) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = open_folder(folder)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def make_root(root: str) -> None:
    """Make ``root`` and what is missing above it, durably."""
    missing = []
    folder = root
    while not os.path.isdir(folder):
        if os.path.islink(folder):
            raise StoreUnavailableError(
                f"{folder} is a link to {os.readlink(folder)}, which is not there, or is no folder. Nothing was done: "
                "make that folder, mount its disk, or remove the link"
            )
        missing.append(folder)
        folder = os.path.dirname(folder)
    # Folders are made from the top, and each is synced before the next one is made. So of those that are there, only
    # the last one may not be synced yet, if the process that made it was killed in between.
    try:
        sync_folder(os.path.dirname(folder))
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder)
        sync_folder(os.path.dirname(folder))


def read_fully(descriptor: int, offset: int, length: int) -> pa.Buffer:
    """``length`` bytes from ``offset``, fewer only if the file ends before; read straight into the buffer."""
    buffer = pa.allocate_buffer(length)
    view = memoryview(buffer).cast("B")
    total = 0
    while total < length:
        count = os.preadv(descriptor, [view[total:]], offset + total)
        if count == 0:
            return buffer.slice(0, total)
        total += count
    return buffer


def exists(path: str) -> bool:
    """Is there such a name? Unlike `os.path.lexists`, raises ``OSError`` if that cannot be told."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def link_count(path: str) -> int:
    """How many names the file has; 0 if it cannot be told. Opened again, which makes NFS ask its server."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.fstat(descriptor).st_nlink
        finally:
            os.close(descriptor)
    except OSError:
        return 0
