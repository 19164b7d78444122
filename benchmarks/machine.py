"""What the figures depend on: the machine, what else it does, and the processor's time of processes."""

from __future__ import annotations

import array
import ctypes
import fcntl
import math
import os
import platform
import subprocess
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parent.parent

_GET_FLAGS, _SET_FLAGS, _TOP_FOLDER = 0x80086601, 0x40086602, 0x00020000
"""``FS_IOC_GETFLAGS``, ``FS_IOC_SETFLAGS`` and ``FS_TOPDIR_FL`` of Linux (``chattr +T``)."""


_KERNEL = 2
"""The process below which the kernel's own threads are."""


def processor_seconds(root: int | None = None) -> float:
    """Seconds of the processor, user and system, of the process ``root`` (this one) and of all below it.

    With those of children that have ended and were waited for. NaN where there is no /proc (macOS).
    """
    root = os.getpid() if root is None else root
    parents, spent = _processes()
    return (
        sum(seconds for pid, seconds in spent.items() if _is_below(pid, root, parents)) if spent else math.nan
    )


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    """The parent of each process, and its seconds of the processor. Without /proc there are none."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It has ended meanwhile; its parent counts it.
            # The command, in brackets, may have spaces and brackets.
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            spent[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return parents, spent


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == root:
            return True
        pid = parents.get(pid, 0)
    return False


MOST_OF_OTHERS = 0.2
"""Of how many cores others may take the time while something is measured. What a hypervisor takes is theirs."""


class Others:
    """What the rest of the machine does from now on, but for the kernel's own threads, which write our files.

    Their processes are counted, not what is left of the machine's time without ours: of ours some end unseen, and their
    time with them. Spark's daemons end before their workers: from now on such orphans are children of this process.
    """

    def __init__(self) -> None:
        _adopt_orphans()
        self._began, self._before = time.monotonic(), _seconds_of_others()

    def cores(self) -> float:
        """How many cores others have kept busy since. NaN where there is no /proc (macOS)."""
        elapsed = max(time.monotonic() - self._began, 1e-9)
        # One that has ended without a parent that waits takes its time with it.
        return max(_seconds_of_others() - self._before, 0.0) / elapsed


def _seconds_of_others() -> float:
    """Of the processor, taken by processes that are neither ours nor the kernel's, and by the hypervisor."""
    parents, spent = _processes()
    ours = {os.getpid(), _KERNEL if _has_kernel_threads() else 0}
    return _stolen_seconds() + sum(
        seconds for pid, seconds in spent.items() if not any(_is_below(pid, root, parents) for root in ours)
    )


def _has_kernel_threads() -> bool:
    """In a container the process of that number is any."""
    comm = Path(f"/proc/{_KERNEL}/comm")
    return comm.exists() and comm.read_text() == "kthreadd\n"


def _adopt_orphans() -> None:
    """Processes below this one whose parents end become its children, not those of the first process. Linux alone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _stolen_seconds() -> float:
    """That the hypervisor gave to others, since the machine was started."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return math.nan
    return int(stat.read_text().split("\n", 1)[0].split()[8]) / os.sysconf("SC_CLK_TCK")


def place(folder: Path) -> str:
    """The kind of file system that a folder lies on."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    kinds = {line.split()[1]: line.split()[2] for line in mounts.read_text().splitlines()}
    return next(kinds[str(at)] for at in (folder.resolve(), *folder.resolve().parents) if str(at) in kinds)


def spread(folder: Path) -> None:
    """Let ext4 put each folder in this one into another part of the disk. Elsewhere nothing is done.

    On ext4 without a journal a new file sometimes cost 0.2 to 1.4 ms of the processor in a folder beside those of
    earlier runs, which had been deleted, and 0.02 ms in another part of the disk (benchmarks/journal/speed.md).
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = array.array("L", [0])
            fcntl.ioctl(descriptor, _GET_FLAGS, flags)
            flags[0] |= _TOP_FOLDER
            fcntl.ioctl(descriptor, _SET_FLAGS, flags)
        finally:
            os.close(descriptor)


def describe(folder: Path) -> str:
    """One line about the machine and the versions that matter."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "confluent-kafka"))
    return (
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores ({platform.machine()}), "
        f"{place(folder)}; Python {platform.python_version()}, {packages}"
    )


def commit() -> str:
    """The commit of the working tree, with a plus if it has changes in more than the page that the benchmarks write."""
    name = _git("rev-parse", "--short=10", "HEAD")
    changes = _git("status", "--porcelain", "--", ":/", ":(exclude,top)docs/quality")
    return f"{name}{'+' if changes else ''}" or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(_ROOT), *arguments], check=False, capture_output=True, text=True)  # noqa: S603, S607
    return done.stdout.strip()
