"""Index rows packed in a few bytes each, in memory and in snapshots.

Rows are packed in *blocks* of `BLOCK_ROWS`. A block has columns of numbers. A column has its least value, and the
distances of the others from it, in as many bytes as the largest distance needs; a column that follows from another one
costs next to nothing. What is no number (`Heads`) lies beside the blocks: all partitions that one entry appends to
share it. The same rows in the same blocks give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812  (the name of an exception)
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp

if TYPE_CHECKING:
    from spark_eos.protocol.index_rows import IndexRow

BLOCK_ROWS = 16
"""Rows of a block. At most so many rows of a partition are in memory unpacked."""

Head: TypeAlias = "tuple[int, ProducerStamp, FileRef | None]"
"""Kind, producer and file of a row."""


class Heads:
    """The heads of the rows of one block. There is one object for all blocks with the same ones."""

    __slots__ = ("__weakref__", "rows")

    def __init__(self, rows: tuple[Head, ...]) -> None:
        self.rows = rows


_heads: WeakValueDictionary[tuple[Head, ...], Heads] = WeakValueDictionary()


def heads_of(rows: tuple[Head, ...]) -> Heads:
    """The shared object with these heads, or an equal one."""
    heads = _heads.get(rows)
    if heads is None:
        heads = _heads[rows] = Heads(rows)
    return heads


class Block(NamedTuple):
    """Where one block lies in the bytes of many: its body, how many rows are in it, and the first one's offset."""

    position: int
    end: int
    rows: int
    base_offset: int


# A block: how many rows (1 byte), how long all of it is (2), bytes of the first offset (1), it, flags (1), columns.
_START = Struct("<BHB")
_HOLES, _SEQUENCES_FOLLOW = 1, 2


def pack(rows: Sequence[IndexRow]) -> tuple[bytes, Heads]:
    """One block of at most `BLOCK_ROWS` rows."""
    base = expected = rows[0].base_offset
    flags, bases, batches = 0, [], []
    heads: list[Head] = []
    counts, newest = [], []
    for at, count, kind, stamp, time, file, batch in rows:
        if at != expected:
            flags |= _HOLES
        expected = at + count
        bases.append(at)
        counts.append(count)
        newest.append(time)
        if file is None or batch is None:
            heads.append((int(kind), stamp, None))
        else:
            heads.append((int(kind), stamp, file))
            part, records, position, length, crc, low, high, sequence = batch
            batches.append(
                (
                    part,
                    records - count,
                    position,
                    length,
                    crc,
                    time - low,
                    time - high,
                    sequence,
                    sequence - at,
                )
            )
    columns = [_column(counts), _column(newest)]
    if flags & _HOLES:
        columns.append(_column(bases))
    if batches:
        *fields, sequences, following = zip(*batches, strict=True)
        columns += map(_column, fields)
        plain, less = _column(sequences), _column(following)
        if len(less) < len(plain):
            flags |= _SEQUENCES_FOLLOW
            plain = less
        columns.append(plain)
    first = _signed(base)
    size = _START.size + len(first) + 1 + sum(map(len, columns))
    return b"".join((_START.pack(len(rows), size, len(first)), first, bytes((flags,)), *columns)), heads_of(
        tuple(heads)
    )


def blocks(data: bytes) -> Iterator[Block]:
    """Where all blocks lie. Their rows are not decoded."""
    at, end = 0, len(data)
    while at < end:
        rows, size, width = _START.unpack_from(data, at) if end - at >= _START.size else (0, 0, 0)
        if not rows or size <= _START.size + width or at + size > end:
            raise CorruptRecordError(f"packed rows of an index are damaged at byte {at} of {end}")
        first = at + _START.size
        yield Block(at, at + size, rows, int.from_bytes(data[first : first + width], "little", signed=True))
        at += size


def unpack(data: bytes, block: Block, heads: Heads, make: Callable[..., IndexRow]) -> list[IndexRow]:
    """The rows of a block; ``make`` makes one of its values. Raises `CorruptRecordError` if there is no block."""
    try:
        return _unpack(data, block, heads, make)
    except (ValueError, IndexError, TypeError, StopIteration, StructError) as error:
        raise CorruptRecordError(f"packed rows of an index are damaged: {error!r}") from error


def _unpack(data: bytes, block: Block, heads: Heads, make: Callable[..., IndexRow]) -> list[IndexRow]:
    count = block.rows
    at = block.position + _START.size + data[block.position + _START.size - 1]
    flags = data[at]
    counts, at = _read(data, at + 1, count)
    newest, at = _read(data, at, count)
    if flags & _HOLES:
        bases, at = _read(data, at, count)
    else:
        base, bases = block.base_offset, []
        for row_count in counts:
            bases.append(base)
            base += row_count
    batch_count = sum(head[2] is not None for head in heads.rows)
    columns = []
    for _ in range(8 if batch_count else 0):
        column, at = _read(data, at, batch_count)
        columns.append(column)
    batches = zip(*columns, strict=True)
    rows = []
    for (kind, stamp, file), base, row_count, time in zip(heads.rows, bases, counts, newest, strict=True):
        if file is None:
            rows.append(make(base, row_count, kind, stamp, time))
            continue
        part, records, position, length, crc, low, high, sequence = next(batches)
        if flags & _SEQUENCES_FOLLOW:
            sequence += base
        batch = BatchRef(part, records + row_count, position, length, crc, time - low, time - high, sequence)
        rows.append(make(base, row_count, kind, stamp, time, file, batch))
    return rows


_ARRAYS = {
    (count, width): Struct(f"<{count}{code}")
    for count in range(1, BLOCK_ROWS + 1)
    for width, code in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
}


def _signed(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 8) >> 3 if number else 0, "little", signed=True)


def _column(numbers: Sequence[int]) -> bytes:
    """One byte (of 4 bits each: bytes of the least number, bytes of each distance), and then these."""
    least = min(numbers)
    low = _signed(least)
    width = ((max(numbers) - least).bit_length() + 7) >> 3
    head = bytes((len(low) << 4 | width,)) + low
    if not width:
        return head
    distances = [number - least for number in numbers] if least else numbers
    packed = _ARRAYS.get((len(numbers), width))
    if packed is not None:
        return head + packed.pack(*distances)
    return head + b"".join([distance.to_bytes(width, "little") for distance in distances])


def _read(data: bytes, at: int, count: int) -> tuple[Sequence[int], int]:
    """The numbers of the column at ``at``, and where it ends."""
    low, width = data[at] >> 4, data[at] & 15
    at += 1
    end = at + low
    least = int.from_bytes(data[at:end], "little", signed=True)
    if not width:
        return [least] * count, end
    at, end = end, end + width * count
    packed = _ARRAYS.get((count, width))
    if packed is not None:
        return [least + distance for distance in packed.unpack_from(data, at)], end
    return [
        least + int.from_bytes(data[start : start + width], "little") for start in range(at, end, width)
    ], end
