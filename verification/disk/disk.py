# ruff: noqa: PTH100, PTH103, PTH117, PTH118  (it is about `os` and its paths)
"""A disk whose power can be cut after every system call, under code that writes files with `os`."""

from __future__ import annotations

import fcntl
import os
import random
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from spark_eos.errors import IllegalStateError
from verification.disk.failure import Failure
from verification.disk.model import FileNode, Folder, Images, load, place_of
from verification.disk.power_cut import PowerCut

Place: TypeAlias = "tuple[Folder, str]"


class Disk:
    """A folder that is watched through the module `os`, and what a power cut could leave of it.

    What was not synced may be lost, in part or altogether, and in any order: that is all that POSIX promises. After
    every call that changes something, ``cuts`` gets the states that a power cut could leave: nothing of what is not
    synced is there, all of it, all but one thing, one thing alone, and random ones. Things are the content of a file
    (torn, or zeros, too) and each name in a folder. ``calls`` lists the calls with their paths.

    Recorded are open, write, pwrite, truncate, ftruncate, fsync, fdatasync, dup, close, link, rename, replace, unlink,
    remove, mkdir and rmdir of `os`, and ``F_FULLFSYNC``; no symbolic links. Syncs go to the model alone.

    Parameters
    ----------
    root
        The folder, made if it is missing. What it holds is durable.
    samples
        How many random states to draw after each call.
    seed
        Decides the random states.
    """

    def __init__(self, root: str | os.PathLike[str], *, samples: int = 4, seed: int = 0) -> None:
        os.makedirs(root, exist_ok=True)
        self.root = os.path.realpath(root)
        self.cuts: list[PowerCut] = []
        self.calls: list[tuple[str, str]] = []
        """Every call under the folder: its name in `os`, and the path relative to ``root``."""
        self._top = load(self.root)
        self._images = Images(self._top, samples, random.Random(seed))
        self._descriptors: dict[int, FileNode | Folder] = {}
        self._paths: dict[int, str] = {}
        self._notes: tuple[Hashable, ...] = ()
        self._cut_keys: set[Hashable] = set()
        self._failures: list[Failure] = []
        self._lock = threading.RLock()
        self._real: dict[str, Callable[..., Any]] = {}

    def note(self, what: Hashable) -> None:
        """Note that something holds from now on, for instance that a call has returned.

        Parameters
        ----------
        what
            Any hashable value. It is in the ``notes`` of later power cuts.
        """
        with self._lock:
            self._notes = (*self._notes, what)
            self._cut()

    def fail(
        self,
        code: int,
        *,
        at: int | None = None,
        call: str = "*",
        path: str = "*",
        times: int | None = 1,
        done: bool = False,
    ) -> None:
        """Let calls fail.

        Parameters
        ----------
        code
            The errno.
        at
            The number of the call in ``calls``.
        call, path
            Shell patterns for the calls.
        times
            How many. None: all from now on.
        done
            The call does its work and fails then. A ``close`` always does its work, as on Linux.
        """
        with self._lock:
            self._failures.append(Failure(code, at, call, path, times, done))

    def heal(self) -> None:
        """No failures any more."""
        with self._lock:
            self._failures.clear()

    @contextmanager
    def recording(self) -> Iterator[Disk]:
        """Watch all threads of this process while the context is open.

        Yields
        ------
        Disk
            This disk.

        Raises
        ------
        IllegalStateError
            The disk is watched already, or something was changed without `os` (by another process, or the built-in
            ``open``).
        """
        if self._real:
            raise IllegalStateError(f"{self.root} is being recorded already; leave that context first")
        recorders = {name: getattr(self, f"_{name}") for name in _RECORDED}
        self._real = {name: getattr(os, name) for name in _RECORDED}
        real_fcntl = fcntl.fcntl
        try:
            for name, recorder in recorders.items():
                setattr(os, name, recorder)
            if hasattr(fcntl, "F_FULLFSYNC"):
                fcntl.fcntl = self._fcntl(real_fcntl, fcntl.F_FULLFSYNC)
            yield self
        finally:
            fcntl.fcntl = real_fcntl
            for name, function in self._real.items():
                setattr(os, name, function)
            self._real = {}
        strange = self._images.difference(self.root)
        if strange is not None:
            raise IllegalStateError(
                f"{self.root}/{strange} was changed past the functions of the module os that a Disk records; "
                "write it with os.open, os.write and so on"
            )

    # -- Files ------------------------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def opened(descriptor: int) -> None:
            assert place is not None
            node = self._top if place[1] == "" else place[0].get(place[1])
            if node is None:
                node = FileNode()
                place[0].put(place[1], node)
            elif flags & os.O_TRUNC and isinstance(node, FileNode):
                node.truncate(0)
            self._descriptors[descriptor] = node
            self._paths[descriptor] = self._relative(path, dir_fd)
            if isinstance(node, FileNode):
                node.appends = bool(flags & os.O_APPEND)

        place = self._place(path, dir_fd)
        call = self._bound("open", path, flags, mode, dir_fd=dir_fd)
        descriptor: int = self._run("open", place and self._relative(path, dir_fd), call, opened)
        return descriptor

    def _dup(self, fd: int) -> int:
        def copied(descriptor: int) -> None:
            self._descriptors[descriptor] = self._descriptors[fd]
            self._paths[descriptor] = self._paths[fd]

        descriptor: int = self._run("dup", self._paths.get(fd), self._bound("dup", fd), copied)
        return descriptor

    def _close(self, fd: int) -> None:
        def closed(_: object) -> None:
            self._descriptors.pop(fd, None)
            self._paths.pop(fd, None)

        self._run("close", self._paths.get(fd), self._bound("close", fd), closed)

    def _write(self, fd: int, data: Any) -> int:
        node = self._descriptors.get(fd)
        position = 0
        if isinstance(node, FileNode):
            position = len(node.data) if node.appends else os.lseek(fd, 0, os.SEEK_CUR)
        return self._written("write", fd, data, position, self._bound("write", fd, data))

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        return self._written("pwrite", fd, data, offset, self._bound("pwrite", fd, data, offset))

    def _written(self, name: str, fd: int, data: Any, position: int, call: Callable[[], Any]) -> int:
        node = self._descriptors.get(fd)

        def change(count: int) -> None:
            if isinstance(node, FileNode):
                node.write(position, bytes(memoryview(data).cast("B")[:count]))

        count: int = self._run(name, self._paths.get(fd), call, change)
        return count

    def _ftruncate(self, fd: int, length: int) -> None:
        node = self._descriptors.get(fd)

        def change(_: object) -> None:
            if isinstance(node, FileNode):
                node.truncate(length)

        self._run("ftruncate", self._paths.get(fd), self._bound("ftruncate", fd, length), change)

    def _truncate(self, path: Any, length: int) -> None:
        if isinstance(path, int):
            return self._ftruncate(path, length)
        place = self._place(path, None)

        def change(_: object) -> None:
            node = place and place[0].get(place[1])
            if isinstance(node, FileNode):
                node.truncate(length)

        self._run(
            "truncate", place and self._relative(path, None), self._bound("truncate", path, length), change
        )
        return None

    def _fsync(self, fd: int) -> None:
        self._synced("fsync", fd, "fsync")

    def _fdatasync(self, fd: int) -> None:
        self._synced("fdatasync", fd, "fdatasync")

    def _fcntl(self, real: Callable[..., Any], full: int) -> Callable[..., Any]:
        def call(fd: int, command: int, argument: Any = 0) -> Any:
            if command != full or fd not in self._descriptors:
                return real(fd, command, argument)
            return self._synced("fsync", fd, "fsync")

        return call

    def _synced(self, name: str, fd: int, real: str) -> Any:
        node = self._descriptors.get(fd)

        def change(_: object) -> None:
            if node is not None:
                node.sync()

        # The model is what counts: nothing is synced here in truth, which takes long.
        call = self._bound(real, fd) if node is None else (lambda: os.fstat(fd) and None)
        return self._run(name, self._paths.get(fd), call, change)

    # -- Names ------------------------------------------------------------------------------------------

    def _link(
        self,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        call = self._bound(
            "link", src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks
        )
        self._moved("link", self._place(src, src_dir_fd), (dst, dst_dir_fd), call, keep=True)

    def _rename(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        call = self._bound("rename", src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._moved("rename", self._place(src, src_dir_fd), (dst, dst_dir_fd), call)

    def _replace(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        call = self._bound("replace", src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._moved("replace", self._place(src, src_dir_fd), (dst, dst_dir_fd), call)

    def _moved(
        self,
        name: str,
        source: Place | None,
        target: tuple[Any, int | None],
        call: Callable[[], Any],
        *,
        keep: bool = False,
    ) -> None:
        place = self._place(*target)

        def change(_: object) -> None:
            assert place is not None
            node = source and source[0].get(source[1])
            # A rename of one name of a file onto another name of it does nothing, says POSIX.
            if node is None or node is place[0].get(place[1]):
                return
            place[0].put(place[1], node)
            if source is not None and not keep:
                source[0].put(source[1], None)

        self._run(name, place and self._relative(*target), call, change)

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._forget_name("unlink", path, dir_fd)

    def _remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._forget_name("remove", path, dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._forget_name("rmdir", path, dir_fd)

    def _forget_name(self, name: str, path: Any, dir_fd: int | None) -> None:
        place = self._place(path, dir_fd)

        def change(_: object) -> None:
            assert place is not None
            place[0].put(place[1], None)

        self._run(
            name, place and self._relative(path, dir_fd), self._bound(name, path, dir_fd=dir_fd), change
        )

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)

        def change(_: object) -> None:
            assert place is not None
            place[0].put(place[1], Folder())

        call = self._bound("mkdir", path, mode, dir_fd=dir_fd)
        self._run("mkdir", place and self._relative(path, dir_fd), call, change)

    # -- The model --------------------------------------------------------------------------------------

    def _bound(self, name: str, *args: Any, **options: Any) -> Callable[[], Any]:
        real = self._real[name]
        return lambda: real(*args, **options)

    def _run(
        self, name: str, path: str | None, call: Callable[[], Any], change: Callable[[Any], None]
    ) -> Any:
        """Do a call of the system, or let it fail, and what it means for the model; elsewhere, just do it."""
        if path is None:
            return call()
        with self._lock:
            number = len(self.calls)
            self.calls.append((name, path))
            failure = next((f for f in self._failures if f.fires(number, name, path)), None)
            if failure is not None and not failure.done and name != "close":
                raise OSError(failure.code, os.strerror(failure.code))
            result = call()
            change(result)
            self._cut()
            if failure is None:
                return result
            if name in {"open", "dup"}:  # the caller cannot close it
                self._descriptors.pop(result), self._paths.pop(result)
                self._real["close"](result)
            raise OSError(failure.code, os.strerror(failure.code))

    def _cut(self) -> None:
        step = len(self.calls)
        call = " ".join(self.calls[-1]) if self.calls else ""
        for folders, files in self._images.possible():
            key = (self._notes, folders, frozenset(files.items()))
            if key not in self._cut_keys:
                self._cut_keys.add(key)
                self.cuts.append(PowerCut(step, call, self._notes, folders, files))

    def _relative(self, path: Any, dir_fd: int | None) -> str:
        if dir_fd is not None and not os.path.isabs(path):
            return os.path.join(self._paths.get(dir_fd, ""), os.fsdecode(path))
        return os.path.relpath(os.fsdecode(path), self.root)

    def _place(self, path: Any, dir_fd: int | None) -> Place | None:
        """Where a path is in the model: its folder and name; the root has the empty name; None if elsewhere."""
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if dir_fd is not None and not os.path.isabs(text):
            start = self._descriptors.get(dir_fd)
            return (start, text) if isinstance(start, Folder) else None
        head, name = os.path.split(os.path.abspath(text))
        whole = os.path.join(os.path.realpath(head), name)
        return place_of(self._top, self.root, whole)


_RECORDED = (
    *("open", "write", "pwrite", "truncate", "ftruncate", "fsync", "fdatasync", "dup", "close"),
    *("link", "rename", "replace", "unlink", "remove", "mkdir", "rmdir"),
)
