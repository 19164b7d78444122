"""What a state refers to: its data files and the sealed pieces of its indexes, one after the other.

Nothing is gathered here: a log may have more files than fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eos.log import paths
from spark_eos.protocol.index import IndexPage, Load
from spark_eos.protocol.state import State

__all__ = ["data_files", "piece_names"]


def data_files(state: State, load: Load) -> Iterator[str]:
    """Names of the data files in which a reader of this state may be sent; a name may come several times.

    What lies before the start of its partition is left out, also where its piece is still there: no plan contains it.
    """
    for partition in state.partitions.values():
        last = ""
        for row in partition.index.scan(partition.start, load):
            if row.file is not None and row.file.name != last:
                last = row.file.name
                yield last


def piece_names(state: State, load: Load) -> Iterator[str]:
    """Names of all sealed pieces, those inside of others included."""
    for partition in state.partitions.values():
        yield from _piece_names(partition.index.pieces, load)


def _piece_names(pieces: Sequence[IndexPage], load: Load) -> Iterator[str]:
    for piece in pieces:
        yield paths.piece(piece)
        if piece.level:
            yield from _piece_names(load(piece), load)  # type: ignore[arg-type]  # pieces, from level 1
