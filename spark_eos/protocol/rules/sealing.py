"""Sealing: every so many entries the older rows of long indexes go into pieces, in the same way for everybody.

A function of the state alone, done behind each entry whose number is a multiple of the log's snapshot interval:
so everybody who has read the same entries has the same pieces, whoever stores them. Only rows below the last
stable offset are sealed; their transactions have ended, and which of them were aborted is written into the rows.
"""

from __future__ import annotations

from dataclasses import replace

from spark_eos.protocol.index import Index, IndexRow, Kind, Piece, Rows
from spark_eos.protocol.pieces import seal_pieces, seal_rows
from spark_eos.protocol.state import Partition, PartitionKey, State

__all__ = ["FAN_OUT", "PIECE_ROWS", "is_boundary", "seal"]

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
    for key, partition in state.partitions.items():
        if len(partition.index.tail) >= PIECE_ROWS:
            sealed = _sealed(key, partition)
            if sealed is not partition:
                changed[key] = sealed
    return replace(state, partitions=state.partitions.update(changed)) if changed else state


def _sealed(key: PartitionKey, partition: Partition) -> Partition:
    tail, stable = partition.index.tail, partition.last_stable_offset
    ready = len(tail) if partition.end == stable else tail.find(stable)
    count = ready // PIECE_ROWS * PIECE_ROWS
    if not count:
        return partition
    rows = tail[:count]
    aborted = partition.aborted
    if aborted:
        rows = [_marked(row, partition) for row in rows]
        ended = {(row.producer.producer_id, row.producer.number) for row in rows if row.kind is Kind.ABORT}
        for one in sorted(ended):
            if one in aborted:
                aborted = aborted.delete(one)
    pieces = [*partition.index.pieces]
    for first in range(0, count, PIECE_ROWS):
        pieces.append(seal_rows(key, tuple(rows[first : first + PIECE_ROWS])))
        _join(pieces)
    return replace(partition, index=Index(tuple(pieces), Rows(tail[count:])), aborted=aborted)


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
