"""What the figures depend on: the machine, what else it does, and the processor's time of processes."""

from __future__ import annotations

import array
import ctypes
import fcntl
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
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return float("nan")
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # It has ended meanwhile; its parent counts it.
            # The command, in brackets, may have spaces and brackets.
            fields = text.rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total = sum(spent for pid, spent in ticks.items() if _is_below(pid, root, parents))
    return total / os.sysconf("SC_CLK_TCK")


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

    Spark's daemons end before their workers: from now on such orphans are children of this process, and count as its
    own.
    """

    def __init__(self) -> None:
        _adopt_orphans()
        self._before = _times()

    def cores(self) -> float:
        """How many cores others have kept busy since. NaN where there is no /proc (macOS)."""
        elapsed, busy, known = (new - old for new, old in zip(_times(), self._before, strict=True))
        return max(0.0, busy - known) / max(elapsed, 1e-9)


def _times() -> tuple[float, float, float]:
    """The clock, how long the cores were busy, and for how much of it this process and the kernel's threads were."""
    is_there = Path(f"/proc/{_KERNEL}/comm")
    of_kernel = is_there.exists() and is_there.read_text() == "kthreadd\n"
    kernel = processor_seconds(_KERNEL) if of_kernel else 0.0
    return time.monotonic(), _busy_seconds(), processor_seconds() + kernel


def _adopt_orphans() -> None:
    """Processes below this one whose parents end become its children, not those of the first process. Linux alone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _busy_seconds() -> float:
    """For which all cores together were not idle, nor waiting for a disk, since the machine was started."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return float("nan")
    user, nice, system, _idle, _waiting, *interrupts = map(
        int, stat.read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


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
