"""What a partition holds: its batches in offset order, the older ones sealed into pieces that need no memory.

The newest rows are the *tail*, an append-only sequence that states share. From time to time the oldest of
them are sealed into a *piece* (`spark_eos.protocol.rules.sealing`): the state keeps where it begins and ends,
how much is in it and its checksum, and its content can be dropped once it is stored, to be read again when
a plan needs it. Many pieces are sealed into one of the next level, so a state holds O(log history) of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias, overload

from spark_eos.errors import IllegalStateError
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp

__all__ = ["Index", "IndexRow", "Kind", "Load", "Piece", "PieceContent", "Rows", "in_memory"]


class Kind(IntEnum):
    """What a batch is: records, or the control batch that ends a transaction (Kafka's type numbers, +1).

    ``ABORTED`` are records of an aborted transaction, once they are sealed: so nobody has to remember which
    transactions were aborted. ``NOTHING`` are offsets of which nothing is left.
    """

    DATA = 0
    ABORT = 1
    COMMIT = 2
    ABORTED = 3
    NOTHING = 4


class IndexRow(NamedTuple):
    """One batch of a partition: offsets ``base_offset`` to ``base_offset + count - 1``.

    ``file`` and ``batch`` are None for control batches, which have one offset and no rows. A batch of a file
    that was written anew may have fewer rows than offsets; the file says then which each row has.
    """

    base_offset: int
    count: int  # type: ignore[assignment]
    kind: Kind
    producer: ProducerStamp
    max_timestamp_ms: int
    file: FileRef | None = None
    batch: BatchRef | None = None

    @property
    def next_offset(self) -> int:
        """The offset behind the last one of this batch."""
        return self.base_offset + self.count


class Rows(Sequence[IndexRow]):
    """Index rows by rising offset.

    Immutable to its holders: `append` gives new ones that share the rows with the old one. The newest
    holder appends in place, an older one copies first, so following a log costs O(1) a batch and a state
    that lost its race for a slot is never seen by others.
    """

    __slots__ = ("_length", "_rows")

    def __init__(self, rows: Sequence[IndexRow] = ()) -> None:
        self._rows = list(rows)
        self._length = len(self._rows)

    def append(self, row: IndexRow) -> Rows:
        """These rows and ``row`` behind them."""
        longer = Rows.__new__(Rows)
        rows = self._rows if len(self._rows) == self._length else self._rows[: self._length]
        rows.append(row)
        # Two threads may have appended to one list at once: who did not get the place takes a copy.
        longer._rows = rows if rows[self._length] is row else [*rows[: self._length], row]  # noqa: SLF001
        longer._length = self._length + 1  # noqa: SLF001
        return longer

    def find(self, offset: int) -> int:
        """The number of the first row whose ``next_offset`` lies behind ``offset``; O(log n)."""
        at = bisect_right(self._rows, offset, 0, self._length, key=_base_offset) - 1
        if at < 0:
            return 0
        return at if self._rows[at].next_offset > offset else at + 1

    def since(self, offset: int) -> Rows:
        """The rows that hold ``offset`` or later ones."""
        return Rows(self._rows[self.find(offset) : self._length])

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> IndexRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[IndexRow]: ...
    def __getitem__(self, at: int | slice) -> IndexRow | list[IndexRow]:
        if isinstance(at, slice):
            return [self._rows[i] for i in range(*at.indices(self._length))]
        if not -self._length <= at < self._length:
            raise IndexError(at)
        return self._rows[at % self._length]

    def __iter__(self) -> Iterator[IndexRow]:
        for at in range(self._length):
            yield self._rows[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self[:] == other[:]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Rows({self[:]!r})"


class Piece:
    """A sealed stretch of a partition's index: all rows of its offsets, or (level 1 and up) pieces of them.

    Immutable but for ``content``, which is a cache: None once it was dropped. Two pieces are equal if they
    say the same of their content, checksum included.
    """

    __slots__ = (
        *("base_offset", "bytes", "content", "crc", "level", "max_timestamp_ms", "next_offset"),
        *("partition", "rows"),
    )

    def __init__(
        self,
        partition: tuple[str, int],
        level: int,
        base_offset: int,
        next_offset: int,
        rows: int,
        size: int,
        max_timestamp_ms: int,
        crc: int,
        content: PieceContent | None = None,
    ) -> None:
        #: Topic id and number of the partition.
        self.partition = partition
        self.level = level
        self.base_offset = base_offset
        self.next_offset = next_offset
        #: Rows of the index, on the lowest level.
        self.rows = rows
        #: Bytes of the batches in the data files.
        self.bytes = size
        self.max_timestamp_ms = max_timestamp_ms
        #: CRC32C of the encoded content.
        self.crc = crc
        self.content = content

    @property
    def identity(self) -> tuple[tuple[str, int], int, int, int, int, int, int, int]:
        """All that it says of itself and its content."""
        return (
            self.partition,
            self.level,
            self.base_offset,
            self.next_offset,
            self.rows,
            self.bytes,
            self.max_timestamp_ms,
            self.crc,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Piece) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"Piece{self.identity!r}"


PieceContent: TypeAlias = "tuple[IndexRow, ...] | tuple[Piece, ...]"

Load: TypeAlias = "Callable[[Piece], PieceContent]"
"""Gives the content of a piece, from wherever it is."""


def in_memory(piece: Piece) -> PieceContent:
    """The content of a piece that still has it: for states that nobody has dropped anything from."""
    if piece.content is None:
        raise IllegalStateError(
            f"the content of {piece!r} is not in memory: read it with the log's own loader"
        )
    return piece.content


@dataclass(frozen=True, slots=True)
class Index:
    """All batches of a partition by rising offset: ``pieces``, whose levels never rise, and then the ``tail``."""

    pieces: tuple[Piece, ...] = ()
    tail: Rows = field(default_factory=Rows)

    def append(self, row: IndexRow) -> Index:
        """This index and ``row`` behind it."""
        return Index(self.pieces, self.tail.append(row))

    def scan(
        self, offset: int, load: Load = in_memory, *, newer_than_ms: int | None = None
    ) -> Iterator[IndexRow]:
        """The rows that hold ``offset`` or later ones, in order; pieces are loaded as they are reached.

        ``newer_than_ms`` leaves out what has only older records, without loading it.
        """
        if self.pieces and offset < self.pieces[-1].next_offset:
            yield from _scan(self.pieces, offset, load, newer_than_ms)
        tail = self.tail
        for at in range(tail.find(offset), len(tail)):
            row = tail[at]
            if newer_than_ms is None or row.max_timestamp_ms >= newer_than_ms:
                yield row

    def find(self, offset: int, load: Load = in_memory) -> IndexRow | None:
        """The row that holds ``offset``, or else the next one; None behind the last one."""
        return next(self.scan(offset, load), None)

    def since(self, offset: int) -> Index:
        """Without the pieces and rows that lie wholly before ``offset``."""
        pieces = tuple(piece for piece in self.pieces if piece.next_offset > offset)
        return Index(pieces, self.tail.since(offset))

    @property
    def start(self) -> int | None:
        """The first offset that is in it; None if there is none."""
        if self.pieces:
            return self.pieces[0].base_offset
        return self.tail[0].base_offset if self.tail else None


def _scan(pieces: Sequence[Piece], offset: int, load: Load, newer_than_ms: int | None) -> Iterator[IndexRow]:
    for at in range(max(bisect_right(pieces, offset, key=_base_of_piece) - 1, 0), len(pieces)):
        piece = pieces[at]
        if piece.next_offset <= offset:
            continue
        if newer_than_ms is not None and piece.max_timestamp_ms < newer_than_ms:
            continue
        content = load(piece)
        if piece.level:
            yield from _scan(content, offset, load, newer_than_ms)  # type: ignore[arg-type]  # pieces, from level 1
            continue
        for row in content:
            assert isinstance(row, IndexRow)
            if row.next_offset > offset and (newer_than_ms is None or row.max_timestamp_ms >= newer_than_ms):
                yield row


def _base_of_piece(piece: Piece) -> int:
    return piece.base_offset


def _base_offset(row: IndexRow) -> int:
    return row.base_offset
