"""Sealing: every so many entries the older rows of long indexes go into pieces, in the same way for everybody.

A function of the state alone, done behind each entry whose number is a multiple of the log's snapshot interval:
so everybody who has read the same entries has the same pieces, whoever stores them. Only rows below the last
stable offset are sealed; their transactions have ended, and which of them were aborted is written into the rows.
"""

from __future__ import annotations

from immutables import Map

from spark_eos.protocol.index import Index, IndexRow, Kind, Piece
from spark_eos.protocol.pieces import seal_pieces, seal_rows
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.bounds import MAX_NUMBER
from spark_eos.protocol.state import Partition, PartitionKey, State

__all__ = ["FAN_OUT", "PIECE_ROWS", "is_boundary", "ready", "seal", "sealed_to", "trimmed"]

PIECE_ROWS = 512
"""Rows of a piece. A part of the format, as `FAN_OUT` is: another number gives other states."""

FAN_OUT = 64
"""Pieces in a piece of the next level. As many as that stay beside it: what was written last is read most."""


def is_boundary(state: State, seq: int) -> bool:
    """Whether indexes are sealed, and a snapshot may be taken, behind entry ``seq``."""
    return seq > 0 and seq % state.snapshot_interval == 0


def seal(state: State) -> State:
    """The state with long indexes sealed."""
    changed = {}
    for key, known in state.partitions.items():
        partition = known
        if state.rules >= 2:
            if partition.end > MAX_NUMBER:
                continue  # Rules 1 took any number of records; these offsets cannot be written down.
            partition = trimmed(partition)
        if len(partition.index.tail) >= PIECE_ROWS:
            partition = _sealed(key, partition)
        if partition is not known:
            changed[key] = partition
    return replace(state, partitions=state.partitions.update(changed)) if changed else state


def trimmed(partition: Partition) -> Partition:
    """The partition without the aborted transactions that no row in the tail needs any more.

    What is sealed says so itself, and a transaction has no rows behind the control batch that ended it.
    """
    if not partition.aborted:
        return partition
    ended = {
        (row.producer.producer_id, row.producer.number)
        for row in partition.index.tail
        if row.kind is Kind.ABORT
    }
    if ended.issuperset(partition.aborted):
        return partition
    return replace(partition, aborted=Map({one: True for one in partition.aborted if one in ended}))


def ready(partition: Partition) -> int:
    """How many rows of the tail lie below the last stable offset."""
    tail, stable = partition.index.tail, partition.last_stable_offset
    return len(tail) if partition.end == stable else tail.find(stable)


def sealed_to(key: PartitionKey, partition: Partition, offset: int) -> Partition:
    """The partition with all that ends at ``offset`` or before sealed, as far as it is stable.

    For who replaces the newest segments and cannot wait for a boundary. The last piece may have fewer rows.
    """
    tail = partition.index.tail
    count = min(ready(partition), tail.find(offset))
    pieces, aborted = _cut(key, partition, count)
    index = Index((*partition.index.pieces, *pieces), tail.behind(count))
    return replace(partition, index=index, aborted=aborted)


def _sealed(key: PartitionKey, partition: Partition) -> Partition:
    count = ready(partition) // PIECE_ROWS * PIECE_ROWS
    if not count:
        return partition
    cut, aborted = _cut(key, partition, count)
    pieces = [*partition.index.pieces]
    for piece in cut:
        pieces.append(piece)
        _join(pieces)
    tail = partition.index.tail.behind(count)
    return replace(partition, index=Index(tuple(pieces), tail), aborted=aborted)


def _cut(
    key: PartitionKey, partition: Partition, count: int
) -> tuple[list[Piece], Map[tuple[int, int], bool]]:
    """The first ``count`` rows of the tail as pieces, and the aborted transactions that are left to remember."""
    rows, aborted = partition.index.tail[:count], partition.aborted
    if aborted:
        rows = [_marked(row, partition) for row in rows]
        ended = {(row.producer.producer_id, row.producer.number) for row in rows if row.kind is Kind.ABORT}
        for one in sorted(ended):
            if one in aborted:
                aborted = aborted.delete(one)
    pieces = [
        seal_rows(key, tuple(rows[first : first + PIECE_ROWS])) for first in range(0, count, PIECE_ROWS)
    ]
    return pieces, aborted


def _marked(row: IndexRow, partition: Partition) -> IndexRow:
    stamp = row.producer
    if row.kind is Kind.DATA and (stamp.producer_id, stamp.number) in partition.aborted:
        return row._replace(kind=Kind.ABORTED)
    return row


def _join(pieces: list[Piece]) -> None:
    """Where two fans of one level stand side by side, the older one becomes a piece of the next level."""
    level = 0
    while True:
        end = len(pieces)
        while end and pieces[end - 1].level < level:
            end -= 1
        start = end
        while start and pieces[start - 1].level == level:
            start -= 1
        if end - start < 2 * FAN_OUT:
            return
        pieces[start : start + FAN_OUT] = [seal_pieces(tuple(pieces[start : start + FAN_OUT]))]
        level += 1
