"""What a backup needs of a log: pages and data files of its states, with the bytes that each batch vouches for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from spark_eos.extensions.backup.history import History, added_rows
from spark_eos.extensions.backup.manifest import StoredFile
from spark_eos.extensions.backup.sealed import Sealed
from spark_eos.maintenance.reachability import pins
from spark_eos.protocol.index import Index, IndexRow, Load
from spark_eos.protocol.state import PartitionKey, State
from spark_eos.protocol.types import FileRef


class Part(NamedTuple):
    """Bytes of a file whose CRC32C is known."""

    position: int
    length: int
    crc: int


class Contents(NamedTuple):
    """What states need.

    ``pages`` are names of index pages. ``files`` are the data files that the newest state needs, ``former`` those that
    only earlier ones need, with their sizes. ``parts`` are those of files that are new. ``inside`` says of pages what
    they name: of the lowest level files, of the others pages.
    """

    pages: list[str]
    files: dict[str, int]
    former: dict[str, int]
    parts: dict[str, set[Part]]
    inside: dict[str, tuple[str, ...]]


def contents(
    history: History,
    load: Load,
    stored_files: Mapping[str, StoredFile],
    inside: Mapping[str, tuple[str, ...]],
) -> Contents:
    """What the states of a history need; ``stored_files`` are files whose parts are not asked for.

    ``inside`` is that of an earlier backup: pages whose files are all known are not loaded.

    Raises `ObjectNotFoundError` if a page is gone.
    """
    sealed = Sealed(load, stored_files, inside)
    pages: dict[str, None] = {}
    for _, (state, _) in sorted(history.snapshots.items()):
        pages.update(dict.fromkeys(sealed.names(state.sealed_pages())))
    parts: dict[str, set[Part]] = {}
    files: dict[str, int] = {}
    former: dict[str, int] = {}

    def add(rows: Iterable[IndexRow | StoredFile], to: dict[str, int]) -> None:
        for row in rows:
            if isinstance(row, StoredFile):
                name, size = row.name, row.size
            elif row.file is None or row.batch is None:
                continue
            else:
                name, size = row.file.name, row.file.size
                if name not in stored_files:
                    parts.setdefault(name, set()).update(_parts(row.file, row))
            if name not in files:
                to[name] = size

    add(_rows(history.last, sealed), files)
    add(_more_rows(history.states[0], history.last, sealed), former)
    for before, entry, after in zip(history.states, history.added, history.states[1:], strict=False):
        add(added_rows(before, entry, after, load), former)
    return Contents([*pages], files, former, parts, sealed.inside)


def earliest(history: History, missing: set[str], load: Load) -> int:
    """The first of the states from which on none needs a file of ``missing``: as a place in ``history.states``."""
    if not missing:
        return 0
    added = [
        {row.file.name for row in added_rows(before, entry, after, load) if row.file is not None} & missing
        for before, entry, after in zip(history.states, history.added, history.states[1:], strict=False)
    ]

    def needs(at: int) -> bool:
        if any(added[at:]):  # It came later, and went again.
            return True
        rows = _rows(history.states[at], Sealed(load, {}, {}))
        return any(
            isinstance(row, IndexRow) and row.file is not None and row.file.name in missing for row in rows
        )

    low, high = -1, len(history.states) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needs(middle) else (low, middle)
    return high


def _parts(file: FileRef, row: IndexRow) -> Iterator[Part]:
    assert row.batch is not None
    yield Part(row.batch.position, row.batch.length, row.batch.crc)
    if file.is_parquet:
        yield Part(file.size - file.footer, file.footer, file.footer_crc)


def _rows(state: State, sealed: Sealed) -> Iterator[IndexRow | StoredFile]:
    """All rows of a state that a reader or a table needs."""
    for partition in state.partitions.values():
        yield from sealed.rows(partition.index.pages, partition.start)
        yield from Index(tail=partition.index.tail).scan(partition.start)
    for key, pin in pins(state):
        partition = state.partitions[key]
        # Most of what is pinned was visited right now.
        visited = {id(page) for page in partition.index.pages if page.base_offset >= partition.start}
        yield from sealed.rows((page for page in pin.pages if id(page) not in visited), pin.start, pin.end)


def _more_rows(state: State, than: State, sealed: Sealed) -> Iterator[IndexRow | StoredFile]:
    """The rows of ``state`` without most of those that a later state has as well: they share pages."""
    visited: dict[PartitionKey, set[int]] = {}
    for key, partition in state.partitions.items():
        later = than.partitions.get(key)
        shared = (
            set()
            if later is None
            else {
                id(page)
                for page in later.index.pages
                if page.base_offset >= max(later.start, partition.start)
            }
        )
        visited[key] = shared
        yield from sealed.rows(
            (page for page in partition.index.pages if id(page) not in shared), partition.start
        )
        yield from Index(tail=partition.index.tail).scan(partition.start)
    for key, pin in pins(state):
        pages = (page for page in pin.pages if id(page) not in visited.get(key, ()))
        yield from sealed.rows(pages, pin.start, pin.end)
