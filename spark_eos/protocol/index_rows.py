"""Index rows, and the newest ones of a partition: an append-only sequence that states share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain, islice
from typing import NamedTuple, TypeAlias, overload

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.packing import BLOCK_ROWS, Block, Head, Heads, blocks, pack, unpack
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp


class Kind(IntEnum):
    """What a batch is: records, or the control batch that ends a transaction (Kafka's type numbers, +1).

    ``ABORTED`` are records of an aborted transaction, once they are sealed: so the state need not remember which
    transactions were aborted. ``HOLE`` are offsets of which nothing is left after compaction.
    """

    DATA = 0
    ABORT = 1
    COMMIT = 2
    ABORTED = 3
    HOLE = 4


class IndexRow(NamedTuple):
    """One batch of a partition: offsets ``base_offset`` to ``base_offset + count - 1``.

    ``file`` and ``batch`` are None for control batches, which have one offset and no rows. A batch of a file
    that was rewritten may have fewer rows than offsets; then the file says which offset each row has.
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
        """The offset after the last one of this batch."""
        return self.base_offset + self.count


_Located: TypeAlias = "tuple[int, Block, Heads]"
"""The number of the first row of a block, where it lies, and its heads."""


class Rows(Sequence[IndexRow]):
    """Index rows by rising offset.

    Immutable for its holders: `append` returns new ones, which share rows with the old one. The newest
    holder appends in place, an older one copies first. So following a log costs O(1) for each batch, and a state
    whose entry did not get its slot is seen by no other holder.

    The newest rows are *open*, objects in a list; each time there are `BLOCK_ROWS` of them they become a block of
    bytes (`spark_eos.protocol.encoding.packing`), from which they are read again when they are needed.
    """

    __slots__ = ("_closed", "_heads", "_last", "_length", "_located", "_open", "_packed")

    def __init__(self, rows: Sequence[IndexRow] = ()) -> None:
        rows = list(rows)
        self._closed = len(rows) // BLOCK_ROWS * BLOCK_ROWS
        blocks = [pack(rows[at : at + BLOCK_ROWS]) for at in range(0, self._closed, BLOCK_ROWS)]
        self._packed = b"".join([data for data, _ in blocks])
        self._heads = tuple(heads for _, heads in blocks)
        self._open = rows[self._closed :]
        self._last: tuple[bytes, Heads] | None = None
        """The open rows as a snapshot has them, until they are needed for the first time."""
        self._length = len(rows)
        self._located: list[_Located] | None = None
        """Where the blocks lie, once that was asked for; `append` hands it on while no block is added."""

    @classmethod
    def packed(cls, data: bytes, heads: tuple[Heads, ...], opened: int) -> Rows:
        """The rows from the result of `pack`. They are decoded when they are needed."""
        block_list = [*blocks(data)]
        if len(block_list) != len(heads) or any(
            block.rows != len(of.rows) for block, of in zip(block_list, heads, strict=True)
        ):
            raise CorruptRecordError("packed rows of an index are damaged: other heads belong to them")
        end = block_list[-1].position if opened else len(data)
        rows = sum(block.rows for block in block_list)
        last = (data[end:], heads[-1]) if opened else None
        return _rows(data[:end], heads[: -1 if opened else None], rows - opened, [], last, rows)

    def pack(self) -> tuple[bytes, tuple[Heads, ...], int]:
        """All rows as blocks with their heads, and how many rows the last one has, which are open (0: none)."""
        opened = self._length - self._closed
        if not opened:
            return self._packed, self._heads, 0
        data, heads = self._last or pack(self._open[:opened])
        return self._packed + data, (*self._heads, heads), opened

    def append(self, row: IndexRow) -> Rows:
        """These rows and ``row`` after them."""
        rows, opened = self._open_rows(), self._length - self._closed
        if opened + 1 == BLOCK_ROWS:
            data, heads = pack([*rows[:opened], row])
            length = self._length + 1
            return _rows(self._packed + data, (*self._heads, heads), length, [], None, length)
        if len(rows) != opened or not opened:  # No rows at all: they are shared by all empty partitions.
            rows = rows[:opened]
        rows.append(row)
        # Two threads may have appended to one list at once: the one that came second takes a copy.
        if rows[opened] is not row:
            rows = [*rows[:opened], row]
        return _rows(self._packed, self._heads, self._closed, rows, None, self._length + 1, self._located)

    def _open_rows(self) -> list[IndexRow]:
        """The list of the open rows; after them it may have rows of newer holders."""
        last = self._last
        if last is not None:
            data, heads = last
            (block,) = blocks(data)
            # Two threads may do so at once: each has the same rows, and `append` copes with two lists.
            self._open = unpack(data, block, heads, _row)
            self._last = None
        return self._open

    def find(self, offset: int) -> int:
        """The number of the first row whose ``next_offset`` is greater than ``offset``."""
        opened = self._length - self._closed
        if opened and (rows := self._open_rows())[0].base_offset <= offset:
            return self._closed + _find(rows, offset, opened)
        located = self._blocks()
        at = bisect_right(located, offset, key=_base_of_block) - 1
        if at < 0:
            return 0
        first, block, heads = located[at]
        return first + _find(unpack(self._packed, block, heads, _row), offset, block.rows)

    def _blocks(self) -> list[_Located]:
        """All blocks, in order. Their bytes are walked once for a state and those after it that add no block."""
        if self._located is None:
            located, first = [], 0
            for block, heads in zip(blocks(self._packed), self._heads, strict=True):
                located.append((first, block, heads))
                first += block.rows
            self._located = located
        return self._located

    def begins_with(self, older: Rows) -> bool:
        """Whether all rows of ``older`` are the first ones of these. Bytes are compared, and the last few rows."""
        blocks_of_older = len(older._heads)
        is_packed_alike = (
            self._length >= older._length
            and self._packed.startswith(older._packed)
            and self._heads[:blocks_of_older] == older._heads
        )
        closed = older._closed
        return is_packed_alike and all(
            row == old for row, old in zip(self.rows(closed), older.rows(closed), strict=False)
        )

    def since(self, offset: int) -> Rows:
        """The rows that hold ``offset`` or later ones."""
        return self.without_first(self.find(offset))

    def without_first(self, count: int) -> Rows:
        """Without the first ``count`` rows. Whole blocks stay as they are."""
        if count <= 0:
            return self
        if count >= self._closed:
            opened = self._open_rows()[count - self._closed : self._length - self._closed]
            return _rows(b"", (), 0, opened, None, len(opened))
        number = at = 0
        for block in blocks(self._packed):
            if number + block.rows > count:
                break
            number += block.rows
            at += 1
        data, heads = self._packed[block.position :], self._heads[at:]
        if number < count:
            first, head = pack(unpack(self._packed, block, heads[0], _row)[count - number :])
            data, heads = first + self._packed[block.end :], (head, *heads[1:])
        last = (
            self._last
        )  # Read before the list: another thread fills the list first, and removes this afterwards.
        return _rows(data, heads, self._closed - count, self._open, last, self._length - count)

    @property
    def start(self) -> int | None:
        """The first offset; None if there are no rows."""
        if self._packed:
            return next(blocks(self._packed)).base_offset
        return self._open_rows()[0].base_offset if self._length else None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> IndexRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[IndexRow]: ...
    def __getitem__(self, at: int | slice) -> IndexRow | list[IndexRow]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._length)
            if step < 0:
                return [*self][at]
            return [*islice(self.rows(start), 0, max(stop - start, 0), step)]
        if not -self._length <= at < self._length:
            raise IndexError(at)
        at %= self._length
        return self._open_rows()[at - self._closed] if at >= self._closed else next(self.rows(at))

    def heads(self, count: int) -> Iterator[Head]:
        """Kind, producer and file of the first ``count`` rows: quicker than the rows."""
        closed = chain.from_iterable(heads.rows for heads in self._heads)
        opened = self._open_rows()[: self._length - self._closed]
        heads = chain(closed, ((int(row.kind), row.producer, row.file) for row in opened))
        return islice(heads, count)

    def rows(self, start: int) -> Iterator[IndexRow]:
        """The rows from number ``start`` on."""
        if start < self._closed:
            located = self._blocks()
            for at in range(bisect_right(located, start, key=_first_of_block) - 1, len(located)):
                first, block, heads = located[at]
                yield from unpack(self._packed, block, heads, _row)[max(start - first, 0) :]
        if self._closed < self._length:
            opened = self._open_rows()
            for at in range(max(start - self._closed, 0), self._length - self._closed):
                yield opened[at]

    def __iter__(self) -> Iterator[IndexRow]:
        return self.rows(0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows) or self._length != other._length:
            return False
        return all(row == other_row for row, other_row in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Rows({self[:]!r})"


def _rows(
    packed: bytes,
    heads: tuple[Heads, ...],
    closed: int,
    opened: list[IndexRow],
    last: tuple[bytes, Heads] | None,
    length: int,
    located: list[_Located] | None = None,
) -> Rows:
    new = Rows.__new__(Rows)
    new._packed, new._heads, new._closed = packed, heads, closed  # noqa: SLF001
    new._open, new._last, new._length = opened, last, length  # noqa: SLF001
    new._located = located  # noqa: SLF001
    return new


def _first_of_block(located: _Located) -> int:
    return located[0]


def _base_of_block(located: _Located) -> int:
    return located[1].base_offset


_KINDS = tuple(Kind)


def _row(
    base: int,
    count: int,
    kind: int,
    stamp: ProducerStamp,
    newest: int,
    file: FileRef | None = None,
    batch: BatchRef | None = None,
) -> IndexRow:
    return IndexRow(base, count, _KINDS[kind], stamp, newest, file, batch)


def _find(rows: list[IndexRow], offset: int, count: int) -> int:
    at = bisect_right(rows, offset, 0, count, key=_base_offset) - 1
    if at < 0:
        return 0
    return at if rows[at].next_offset > offset else at + 1


def _base_offset(row: IndexRow) -> int:
    return row.base_offset
