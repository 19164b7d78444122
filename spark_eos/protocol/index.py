"""The index of a partition: its batches by offset. The older ones are in index pages, which need no memory.

The newest rows are the *tail*, an append-only sequence that states share. From time to time the oldest of
them are sealed into an *index page* (`spark_eos.protocol.rules.sealing`). The state keeps where a page begins and ends,
how much is in it, and its checksum. The content can be dropped once it is stored; it is read again when a plan needs
it. Many pages are sealed into one page of the next level, so a state holds O(log history) of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from spark_eos.errors import IllegalStateError
from spark_eos.protocol.index_rows import IndexRow, Kind, Rows

__all__ = ["Index", "IndexPage", "IndexRow", "Kind", "Load", "Measures", "PageContent", "Rows", "in_memory"]


class Measures(NamedTuple):
    """What is only known from the encoded content of a page."""

    bytes: int
    """Of the batches in the data files."""
    max_timestamp_ms: int
    crc: int
    """CRC32C of the encoded content."""


class IndexPage:
    """A sealed part of a partition's index: all rows of its offsets, or (from level 1 on) the pages of them.

    Immutable but for ``content``, which is a cache: None after it was dropped. Two pages are equal if they
    say the same of their content, checksum included.

    The rows and their `Measures` take long to compute, so they are computed at their first use: a commit that seals a
    million rows does not wait for that. Several threads may compute them at once; each gets the same result.
    """

    __slots__ = (
        "_content",
        "_measure",
        "_measures",
        "base_offset",
        "level",
        "next_offset",
        "partition",
        "rows",
    )

    def __init__(
        self,
        partition: tuple[str, int],
        level: int,
        base_offset: int,
        next_offset: int,
        rows: int,
        measures: Measures | _Measure,
        content: PageContent | Callable[[], PageContent] | None = None,
    ) -> None:
        """``measures`` may be a function that computes them from the content, and ``content`` one that makes it."""
        #: Topic id and number of the partition.
        self.partition = partition
        self.level = level
        self.base_offset = base_offset
        self.next_offset = next_offset
        #: Rows of the index, on the lowest level.
        self.rows = rows
        self._measures: Measures | None = measures if isinstance(measures, Measures) else None
        self._measure: _Measure | None = None if isinstance(measures, Measures) else measures
        self._content: PageContent | Callable[[], PageContent] | None = content

    @property
    def content(self) -> PageContent | None:
        """Its rows or pages; None after they were dropped."""
        content = self._content
        return content() if callable(content) else content

    @property
    def is_held(self) -> bool:
        """Whether it still has its content."""
        return self._content is not None

    def forget(self) -> PageContent | None:
        """Drop the content, which is in the store. Returns what was in memory of it."""
        self.measures  # noqa: B018  (what is dropped cannot be measured any more)
        content, self._content = self._content, None
        return None if callable(content) else content

    @property
    def measures(self) -> Measures:
        """What is known from its encoded content."""
        measure, content = self._measure, self._content
        if self._measures is None:  # Else another thread has computed them and dropped the content.
            assert measure is not None
            assert content is not None
            self._measures = measure(content() if callable(content) else content)
        return self._measures

    @property
    def bytes(self) -> int:
        """Bytes of the batches in the data files."""
        return self.measures.bytes

    @property
    def max_timestamp_ms(self) -> int:
        """The newest timestamp in it."""
        return self.measures.max_timestamp_ms

    @property
    def crc(self) -> int:
        """CRC32C of the encoded content."""
        return self.measures.crc

    @property
    def identity(self) -> tuple[tuple[str, int], int, int, int, int, int, int, int]:
        """All that the state keeps of it."""
        return (self.partition, self.level, self.base_offset, self.next_offset, self.rows, *self.measures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexPage) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"IndexPage{self.identity!r}"


PageContent: TypeAlias = "tuple[IndexRow, ...] | tuple[IndexPage, ...]"

_Measure: TypeAlias = "Callable[[PageContent], Measures]"

Load: TypeAlias = "Callable[[IndexPage], PageContent]"
"""Returns the content of a page, from memory or from the store."""


def in_memory(page: IndexPage) -> PageContent:
    """The content of a page that still has it: for states of which nothing was dropped."""
    content = page.content
    if content is None:
        raise IllegalStateError(
            f"the content of {page!r} is not in memory: read it with the log's own loader"
        )
    return content


class Index(NamedTuple):
    """All batches of a partition by rising offset: pages (``pages``), whose levels never rise, then the ``tail``."""

    pages: tuple[IndexPage, ...] = ()
    tail: Rows = Rows()

    def append(self, row: IndexRow) -> Index:
        """This index with ``row`` at its end."""
        return Index(self.pages, self.tail.append(row))

    def scan(
        self, offset: int, load: Load = in_memory, *, newer_than_ms: int | None = None
    ) -> Iterator[IndexRow]:
        """The rows that hold ``offset`` or later ones, in order. A page is loaded when the scan reaches it.

        ``newer_than_ms`` leaves out what has only older records, without loading it.
        """
        if self.pages and offset < self.pages[-1].next_offset:
            yield from _scan(self.pages, offset, load, newer_than_ms)
        for row in self.tail.rows(self.tail.find(offset)):
            if newer_than_ms is None or row.max_timestamp_ms >= newer_than_ms:
                yield row

    def back(self, offset: int, load: Load = in_memory) -> Iterator[IndexRow]:
        """The rows that begin before ``offset``, the newest first. A page is loaded when it is reached."""
        end = self.tail.find(offset)
        if end < len(self.tail) and self.tail[end].base_offset < offset:
            end += 1
        count = 16  # Most want a few of them, and each slice unpacks whole blocks.
        while end > 0:
            first = max(end - count, 0)
            yield from reversed(self.tail[first:end])
            end, count = first, min(2 * count, 1024)
        yield from _rows_backwards(self.pages, offset, load)

    def find(self, offset: int, load: Load = in_memory) -> IndexRow | None:
        """The row that holds ``offset``, or else the next one; None after the last one."""
        return next(self.scan(offset, load), None)

    def since(self, offset: int) -> Index:
        """Without the pages and rows that lie wholly before ``offset``."""
        pages = tuple(page for page in self.pages if page.next_offset > offset)
        return Index(pages, self.tail.since(offset))

    @property
    def start(self) -> int | None:
        """The first offset of the index; None if it is empty."""
        if self.pages:
            return self.pages[0].base_offset
        return self.tail.start


def _scan(
    pages: Sequence[IndexPage], offset: int, load: Load, newer_than_ms: int | None
) -> Iterator[IndexRow]:
    for at in range(max(bisect_right(pages, offset, key=_base_of_page) - 1, 0), len(pages)):
        page = pages[at]
        if page.next_offset <= offset:
            continue
        if newer_than_ms is not None and page.max_timestamp_ms < newer_than_ms:
            continue
        content = load(page)
        if page.level:
            yield from _scan(content, offset, load, newer_than_ms)  # type: ignore[arg-type]  # pages, from level 1
            continue
        for row in content:
            assert isinstance(row, IndexRow)
            if row.next_offset > offset and (newer_than_ms is None or row.max_timestamp_ms >= newer_than_ms):
                yield row


def _rows_backwards(pages: Sequence[IndexPage], offset: int, load: Load) -> Iterator[IndexRow]:
    for page in reversed(pages[: bisect_left(pages, offset, key=_base_of_page)]):
        content = load(page)
        if page.level:
            yield from _rows_backwards(content, offset, load)  # type: ignore[arg-type]  # pages, from level 1
            continue
        for row in reversed(content):
            assert isinstance(row, IndexRow)
            if row.base_offset < offset:
                yield row


def _base_of_page(page: IndexPage) -> int:
    return page.base_offset
