"""What `Disk` knows of a folder: what is in it, what of that is durable, what a power cut could leave."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

Image: TypeAlias = tuple[tuple[str, ...], dict[str, bytes]]
"""Folders, parents first, and files with their bytes; by paths relative to the root."""

_RECENT = 6
"""Things that are lost or kept alone: the newest ones. Older ones had their turn when they were new."""

_SECTOR = 512
"""Bytes that a disk writes together: a torn write ends at a multiple, or anywhere, to be strict."""


class FileNode:
    """A file, whatever its names are: ``data`` as it is read now, ``durable`` as it was at the last sync."""

    def __init__(self, durable: bytes = b"") -> None:
        self.data = bytearray(durable)
        self.durable = durable
        self.pending: list[tuple[int, bytes | None]] = []
        """Writes since the last sync: position and bytes; None cuts the file there."""
        self.appends = False

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self.pending.append((position, data))

    def truncate(self, length: int) -> None:
        _apply(self.data, length, None)
        self.pending.append((length, None))

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.pending.clear()

    def torn(self, chance: random.Random) -> bytes:
        """What some of the pending writes leave: parts of them, or the right length full of zeros."""
        if chance.random() < 0.25:
            return self.durable[: len(self.data)].ljust(len(self.data), b"\0")
        content = bytearray(self.durable)
        for position, data in self.pending:
            if chance.random() < 0.6:
                cut = None if data is None else data[: _piece(len(data), chance)]
                _apply(content, position, cut)
        return bytes(content)


class Folder:
    """A folder: for each name, what it stood for at the last sync, and since then, the newest last."""

    def __init__(self) -> None:
        self.names: dict[str, list[Node | None]] = {}

    def get(self, name: str) -> Node | None:
        return self.names[name][-1] if name in self.names else None

    def put(self, name: str, node: Node | None) -> None:
        history = self.names.setdefault(name, [None])
        history.append(node)
        # The order is that of the last change: `Images` looks at the newest ones most.
        self.names[name] = self.names.pop(name)

    def sync(self) -> None:
        self.names = {name: history[-1:] for name, history in self.names.items() if history[-1] is not None}


Node: TypeAlias = "FileNode | Folder"


class Images:
    """The states of the tree under ``top`` after a power cut: the plain ones, and ``samples`` drawn ones."""

    def __init__(self, top: Folder, samples: int, chance: random.Random) -> None:
        self._top = top
        self._samples = samples
        self._chance = chance

    def possible(self) -> Iterator[Image]:
        """Some of the states that are possible now; they may repeat."""
        lost = _Survival(lambda _: False)
        whole = _Survival(lambda _: True)
        yield lost.image(self._top)
        yield whole.image(self._top)
        things = whole.things[-_RECENT:]
        for thing in things:
            yield _Survival(lambda at, thing=thing: at == thing).image(self._top)  # type: ignore[misc]
            yield _Survival(lambda at, thing=thing: at != thing).image(self._top)  # type: ignore[misc]
        if whole.things:
            for _ in range(self._samples):
                share = self._chance.random()
                drawn = _Survival(lambda _, share=share: self._chance.random() < share, self._chance)  # type: ignore[misc]
                yield drawn.image(self._top)

    def difference(self, root: str) -> str | None:
        """The first path under the real folder ``root`` that is not as the model has it; None if all are."""
        _, files = _Survival(lambda _: True).image(self._top)
        _, real = _Survival(lambda _: True).image(load(root))
        strange = sorted(name for name in {*files, *real} if files.get(name) != real.get(name))
        return strange[0] if strange else None


class _Survival:
    """One power cut: ``keeps`` decides for each thing that is pending; with ``chance``, it may be torn."""

    def __init__(self, keeps: Callable[[object], bool], chance: random.Random | None = None) -> None:
        self._keeps = keeps
        self._chance = chance
        self._contents: dict[int, bytes] = {}
        self.things: list[object] = []

    def image(self, top: Folder) -> Image:
        folders: list[str] = []
        files: dict[str, bytes] = {}
        self._walk(top, "", folders, files)
        return tuple(folders), files

    def _walk(self, folder: Folder, path: str, folders: list[str], files: dict[str, bytes]) -> None:
        for name, history in folder.names.items():
            node = history[-1] if len(history) == 1 else self._name((id(folder), name), history)
            where = f"{path}{name}"
            if isinstance(node, Folder):
                folders.append(where)
                self._walk(node, f"{where}/", folders, files)
            elif node is not None:
                files[where] = self._content(node)

    def _name(self, thing: object, history: list[Node | None]) -> Node | None:
        self.things.append(thing)
        if self._keeps(thing):
            return history[-1]
        return history[0] if self._chance is None else self._chance.choice(history[:-1])

    def _content(self, file: FileNode) -> bytes:
        if not file.pending:
            return file.durable
        # A file has one content under all its names.
        if id(file) not in self._contents:
            self.things.append(id(file))
            survives = self._keeps(id(file))
            if survives:
                self._contents[id(file)] = bytes(file.data)
            else:
                self._contents[id(file)] = file.durable if self._chance is None else file.torn(self._chance)
        return self._contents[id(file)]


def load(root: str) -> Folder:
    """The real folder ``root`` as a model in which everything is durable."""
    folder = Folder()
    with os.scandir(root) as entries:
        by_name: Mapping[str, os.DirEntry[str]] = {entry.name: entry for entry in entries}
    for name, entry in sorted(by_name.items()):
        if entry.is_dir(follow_symlinks=False):
            folder.names[name] = [load(entry.path)]
        elif entry.is_file(follow_symlinks=False):
            folder.names[name] = [FileNode(Path(entry.path).read_bytes())]
    return folder


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if len(content) < position:
        content += bytes(position - len(content))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _piece(length: int, chance: random.Random) -> int:
    """How much of a write arrives: anything, whole sectors, or all."""
    cut = chance.randint(0, length)
    return (cut, cut - cut % _SECTOR, length)[chance.randrange(3)]


def place_of(top: Folder, root: str, path: str) -> tuple[Folder, str] | None:
    """The folder and the name of an absolute path below ``root``; the root has the empty name; None if elsewhere."""
    if path == root:
        return top, ""
    if not path.startswith(f"{root}/"):
        return None
    folder = top
    *parents, name = path[len(root) + 1 :].split("/")
    for part in parents:
        below = folder.get(part)
        if not isinstance(below, Folder):
            return Folder(), name  # The call will fail by itself.
        folder = below
    return folder, name
