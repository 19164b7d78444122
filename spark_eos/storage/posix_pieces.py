"""Large files on their way to the disk, past the system's cache."""

from __future__ import annotations

import mmap
import os

from spark_eos.storage.posix_files import TemporaryFile

__all__ = ["PIECE_BYTES", "Pieces"]

PIECE_BYTES = 4 << 20
"""Files of this size and more go to the disk directly, in pieces of it; their rest, and smaller ones, by the cache.

A fsync has to wait for the disk anyway: to copy everything into the cache first, and have it written from there, took
eight times as much of the processor and twice as long (docs/speed.md). What is written directly is not in memory for
whoever reads next; small files, those of quick micro-batches, are.
"""

_spare: list[memoryview] = []
"""One piece at most, for the next file: that the system clears new memory takes longer than to fill it."""

# Its memory is shared with whoever is forked from here (see `_new_piece`).
os.register_at_fork(after_in_child=_spare.clear)


class Pieces:
    """Gathers what is appended to ``file``. `finish` writes the rest; without it, the file is not whole."""

    def __init__(self, file: TemporaryFile) -> None:
        self._file = file
        try:
            self._piece = _spare.pop()
        except IndexError:
            self._piece = _new_piece()
        self._filled = 0

    def write(self, view: memoryview) -> None:
        """Append all of ``view``."""
        while view.nbytes:
            end = min(self._filled + view.nbytes, PIECE_BYTES)
            taken = end - self._filled
            self._piece[self._filled : end] = view[:taken]
            view = view[taken:]
            self._filled = end
            if end == PIECE_BYTES:
                self._file.write_directly(self._piece)
                self._filled = 0

    def finish(self) -> None:
        """Append what has been gathered since."""
        self._file.write(self._piece[: self._filled])
        # Not after an error: who knows what still reads it.
        piece, self._piece = self._piece, memoryview(b"")
        if not _spare:
            _spare.append(piece)


def _new_piece() -> memoryview:
    """Whole pages of memory, which a fork does not copy while the disk reads them (open(2), O_DIRECT)."""
    return memoryview(mmap.mmap(-1, PIECE_BYTES))
