"""What source and sink take from the process that they run in, and not from their arguments.

Spark makes sources and sinks itself, in several processes, from options alone: nothing else can be handed to them. So
all of it is here: the shared handle on a log, the task that runs, the folder for notes, and the files of a local
checkpoint. A test or a simulator puts another host in its place (`hosted`).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from pyspark import TaskContext

from spark_eos.log.log import Log
from spark_eos.storage import NO_SETTINGS, Settings


class Host:
    """The process as it is: each method may be replaced in a subclass."""

    def log(
        self,
        url: str,
        settings: Settings = NO_SETTINGS,
        *,
        create: bool = False,
        max_age_s: float = 0.0,
        maintenance: bool = True,
    ) -> Log:
        """As `Log.shared`."""
        return Log.shared(url, settings, create=create, max_age_s=max_age_s, maintenance=maintenance)

    def task(self) -> TaskContext | None:
        """The task of Spark that runs in this thread; None on the driver."""
        return TaskContext.get()

    def notes(self) -> Path:
        """A folder that all Python processes of one JVM have in common, and no other ones."""
        local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        return Path(local, "eoslog") if local else _of_this_process()

    def read_bytes(self, path: Path) -> bytes:
        """A file of a local checkpoint. Raises ``OSError``."""
        return path.read_bytes()

    def exists(self, path: Path) -> bool:
        """Whether a file of a local checkpoint is there. Raises ``OSError`` if that cannot be told."""
        try:
            path.stat()  # `Path.exists` answers no where the folder may not be looked into.
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def write_bytes(self, path: Path, data: bytes) -> None:
        """Write a small file of a local checkpoint, which then survives a power cut. Raises ``OSError``."""
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:  # In place: the folders of Databricks rename nothing.
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        for folder in (path.parent, path.parent.parent):
            _sync(folder)


_HOSTS = [Host()]


def host() -> Host:
    """The host of this process."""
    return _HOSTS[-1]


@contextmanager
def hosted(by: Host) -> Iterator[None]:
    """Put ``by`` in place of the host, for all threads of this process, until the context ends."""
    _HOSTS.append(by)
    try:
        yield
    finally:
        _HOSTS.remove(by)


def _sync(folder: Path) -> None:
    """Make the names in a folder durable, where the file system can open folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@cache
def _of_this_process() -> Path:
    """Where there is no Spark, all is in one process."""
    folder, maker = tempfile.mkdtemp(prefix="eoslog-"), os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # Not at the end of a process that was forked from this one.
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
