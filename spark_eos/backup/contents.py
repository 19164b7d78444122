"""What a backup needs of a log: pages and data files of its states, with the bytes that each batch vouches for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from spark_eos.backup.history import History, added_rows
from spark_eos.maintenance.reachability import page_names, pins
from spark_eos.protocol.index import Index, IndexRow, Load
from spark_eos.protocol.state import PartitionKey, State
from spark_eos.protocol.types import FileRef

__all__ = ["Contents", "Part", "contents", "earliest"]


class Part(NamedTuple):
    """Bytes of a file whose CRC32C is known."""

    position: int
    length: int
    crc: int


class Contents(NamedTuple):
    """What states need.

    ``pages`` are names of index pages. ``files`` are the data files that the newest state needs, ``former`` those that
    only earlier ones need, with their sizes. ``parts`` are those of files that are new.
    """

    pages: list[str]
    files: dict[str, int]
    former: dict[str, int]
    parts: dict[str, set[Part]]


def contents(history: History, load: Load, known: Iterable[str]) -> Contents:
    """What the states of a history need; ``known`` are files whose parts are not asked for.

    Raises `ObjectNotFoundError` if a page is gone.
    """
    had = known if isinstance(known, dict | set | frozenset) else set(known)
    pages: dict[str, None] = {}
    for _, (state, _) in sorted(history.snapshots.items()):
        pages.update(dict.fromkeys(page_names(state, load)))
    parts: dict[str, set[Part]] = {}
    files: dict[str, int] = {}
    former: dict[str, int] = {}

    def add(rows: Iterable[IndexRow], to: dict[str, int]) -> None:
        for row in rows:
            if row.file is None or row.batch is None:
                continue
            name = row.file.name
            if name not in files:
                to[name] = row.file.size
            if name not in had:
                parts.setdefault(name, set()).update(_parts(row.file, row))

    add(_rows(history.last, load), files)
    first = history.states[0]
    add(_more_rows(first, history.last, load), former)
    for before, entry, after in zip(history.states, history.added, history.states[1:], strict=False):
        add(added_rows(before, entry, after, load), former)
    return Contents([*pages], files, former, parts)


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
        return any(
            row.file is not None and row.file.name in missing for row in _rows(history.states[at], load)
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


def _rows(state: State, load: Load) -> Iterator[IndexRow]:
    """All rows of a state that a reader or a table needs."""
    for one in state.partitions.values():
        yield from one.index.scan(one.start, load)
    for key, pin in pins(state):
        partition = state.partitions[key]
        # Most of what is pinned was visited right now.
        visited = {id(page) for page in partition.index.pages if page.base_offset >= partition.start}
        yield from pin._replace(pages=tuple(page for page in pin.pages if id(page) not in visited)).rows(load)


def _more_rows(state: State, than: State, load: Load) -> Iterator[IndexRow]:
    """The rows of ``state`` without most of those that a later state has as well: they share pages."""
    visited: dict[PartitionKey, set[int]] = {}
    for key, one in state.partitions.items():
        later = than.partitions.get(key)
        shared = (
            set()
            if later is None
            else {id(page) for page in later.index.pages if page.base_offset >= max(later.start, one.start)}
        )
        visited[key] = shared
        pages = tuple(page for page in one.index.pages if id(page) not in shared)
        yield from Index(pages, one.index.tail).scan(one.start, load)
    for key, pin in pins(state):
        pages = tuple(page for page in pin.pages if id(page) not in visited.get(key, ()))
        yield from chain(pin._replace(pages=pages).rows(load))
