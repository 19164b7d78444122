"""The folders of a store: made and synced before a name in them counts, and synced again after a sync that failed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from spark_eos.storage.posix.files import make_root, open_folder, sync_folder
from spark_eos.storage.posix.oserrors import translated


class Folders:
    """What one store knows of its folders, which lie under ``root``."""

    def __init__(self, root: str) -> None:
        self._root = root
        # Folders that are durable, with every name they held when this store first used them.
        self._settled: set[str] = set()
        # Folders whose sync after a link failed: what is in them must not be read before it is durable.
        self._doubted: set[str] = set()

    @property
    def has_doubts(self) -> bool:
        """Whether any folder is to be synced before what is in it may be read."""
        return bool(self._doubted)

    @contextmanager
    def folder_of(self, path: str) -> Iterator[int]:
        """A descriptor of the folder that ``path`` is in; the folder is made, durably, if it is missing."""
        folder = os.path.dirname(path)
        with translated("open the folder", folder):
            self.make_durable(folder)
            try:
                descriptor = open_folder(folder)
            except FileNotFoundError:  # it was removed since this store first used it
                self.forget()
                self.make_durable(folder)
                descriptor = open_folder(folder)
        try:
            yield descriptor
        finally:
            with suppress(OSError):  # it was only looked at: nothing can be lost any more
                os.close(descriptor)

    def make_durable(self, folder: str) -> None:
        """Make ``folder`` if it is missing, and sync it and those above it up to the root; once per store.

        Also folders that other processes made: they may have been killed before they synced them. Whatever this store
        builds on has to survive a power cut as well as what it writes itself.
        """
        if folder in self._settled:
            return
        if folder == self._root:
            with translated("make the folder", folder):
                make_root(folder)
        else:
            parent = os.path.dirname(folder)
            self.make_durable(parent)
            with translated("make the folder", folder), suppress(FileExistsError):
                try:
                    os.mkdir(folder)
                except (
                    FileNotFoundError
                ):  # the tree was removed, and another store has made a part of it again
                    self.forget()
                    self.make_durable(parent)
                    os.mkdir(folder)
            with translated("sync", parent):
                sync_folder(parent)
        with translated("sync", folder):
            sync_folder(folder)
        self._settled.add(folder)

    def forget(self) -> None:
        """The tree was removed, or another one is there: no folder is known to be durable any more."""
        self._settled.clear()

    def doubt(self, path: str) -> None:
        """An object at ``path`` may be there and not be durable: sync before an answer can rest on it."""
        folder = os.path.dirname(path)
        self._settled.discard(folder)
        self._doubted.add(folder)

    def settle_doubt(self, path: str) -> None:
        """Sync the folder that ``path`` is in, if an earlier sync of it failed."""
        folder = os.path.dirname(path)
        if folder in self._doubted:
            with translated("sync", folder), suppress(FileNotFoundError):
                sync_folder(folder)
            self._doubted.discard(folder)
