"""What a partition holds: its batches in offset order, as an append-only sequence that states can share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, overload

from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp

__all__ = ["Index", "IndexRow", "Kind"]


class Kind(IntEnum):
    """What a batch is: records, or the control batch that ends a transaction (Kafka's type numbers, +1)."""

    DATA = 0
    ABORT = 1
    COMMIT = 2


class IndexRow(NamedTuple):
    """One batch of a partition: offsets ``base_offset`` to ``base_offset + count - 1``.

    ``file`` and ``batch`` are None for control batches, which have one offset and no rows.
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


class Index(Sequence[IndexRow]):
    """Index rows by rising offset.

    Immutable to its holders: `append` gives a new index that shares the rows with the old one. The newest
    holder appends in place, an older one copies first, so following a log costs O(1) a batch and a state
    that lost its race for a slot is never seen by others.
    """

    __slots__ = ("_length", "_rows")

    def __init__(self, rows: Sequence[IndexRow] = ()) -> None:
        self._rows = list(rows)
        self._length = len(self._rows)

    def append(self, row: IndexRow) -> Index:
        """This index and ``row`` behind it."""
        longer = Index.__new__(Index)
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

    def since(self, offset: int) -> Index:
        """The rows that hold ``offset`` or later ones."""
        return Index(self._rows[self.find(offset) : self._length])

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
        return isinstance(other, Index) and self[:] == other[:]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Index({self[:]!r})"


def _base_offset(row: IndexRow) -> int:
    return row.base_offset
