"""A folder that behaves as a Unity Catalog Volume in Python, as Databricks documents it.

Files are written from their beginning to their end, read, listed and removed. There is no append, no write at another
place, no hard link and no rename.
"""
# ruff: noqa: PTH115, PTH118  (it stands in for the calls of `os`)

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from unittest import mock

__all__ = ["mounted"]

_REAL = {name: getattr(os, name) for name in ("link", "rename", "replace", "open", "pwrite", "ftruncate")}


class Volume:
    """The calls of `os` for a folder; ``code`` is what it says to what it has not, ``refused`` what was refused."""

    def __init__(self, folder, code):
        self._root = os.path.realpath(folder)
        self._code = code
        self.refused = []

    def _check(self, call, *paths):
        if any(os.path.realpath(path).startswith(self._root) for path in paths):
            self.refused.append(call)
            raise OSError(self._code, os.strerror(self._code))

    def _two_names(self, call, src, dst, *, src_dir_fd=None, dst_dir_fd=None, **more):
        self._check(call, _path(src, src_dir_fd), _path(dst, dst_dir_fd))
        _REAL[call](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more)

    def link(self, *names, **more):
        self._two_names("link", *names, **more)

    def rename(self, *names, **more):
        self._two_names("rename", *names, **more)

    def replace(self, *names, **more):
        self._two_names("replace", *names, **more)

    def open(self, path, flags, mode=0o777, *, dir_fd=None):
        is_old = not flags & (os.O_CREAT | os.O_TRUNC)
        if flags & (os.O_APPEND | os.O_RDWR) or (flags & os.O_WRONLY and is_old):
            self._check("open", _path(path, dir_fd))
        return _REAL["open"](path, flags, mode, dir_fd=dir_fd)

    def pwrite(self, descriptor, *arguments):
        self._check("pwrite", f"/proc/self/fd/{descriptor}")
        return _REAL["pwrite"](descriptor, *arguments)

    def ftruncate(self, descriptor, length):
        self._check("ftruncate", f"/proc/self/fd/{descriptor}")
        _REAL["ftruncate"](descriptor, length)


def _path(path, dir_fd):
    return path if dir_fd is None else os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)


@contextmanager
def mounted(folder, code=errno.ENOSYS):
    """``folder`` as a Volume, for this process; the calls that it refused."""
    volume = Volume(folder, code)
    with mock.patch.multiple(os, **{name: getattr(volume, name) for name in _REAL}):
        yield volume.refused
