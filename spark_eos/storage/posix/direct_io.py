"""Large files on their way to the disk, past the system's cache."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from spark_eos.errors import IllegalStateError
from spark_eos.storage.forks import generation
from spark_eos.storage.posix.files import Appender, TemporaryFile

PIECE_BYTES = 4 << 20
"""Files of this size and more go to the disk directly, in pieces of it; their rest, and smaller ones, by the cache.

A fsync has to wait for the disk anyway. To copy everything into the cache and write it from there took eight times as
much of the processor, and twice as long (benchmarks/journal/speed.md). The cache does not have what is written directly
for the next reader; it has small files, those of quick micro-batches.
"""

_SPARES = 2
"""What one file uses."""

_spare: list[memoryview] = []
"""Pieces for the next file: that the system clears new memory takes longer than to fill it."""

# Their memory is shared with forked processes (see `_take_piece`).
os.register_at_fork(after_in_child=_spare.clear)


class Pieces:
    """Gathers what is appended to ``file``. With ``write_behind`` one piece is written while the next one is filled.

    `finish` writes the rest, without it the file is not whole; after an error of `write` it must not be called.
    """

    def __init__(self, file: TemporaryFile, *, write_behind: bool = False) -> None:
        self._file = file
        self._write_behind = write_behind
        self._made_in = generation()
        self._piece = _take_piece()
        self._filled = 0
        self._behind: _BackgroundWriter | None = None

    def write(self, view: memoryview) -> None:
        """Append all of ``view``. The error may be that of an earlier piece."""
        self._check_process()
        while view.nbytes:
            end = min(self._filled + view.nbytes, PIECE_BYTES)
            length = end - self._filled
            self._piece[self._filled : end] = view[:length]
            view = view[length:]
            self._filled = end
            if end == PIECE_BYTES:
                self._write_piece()

    def _write_piece(self) -> None:
        if self._write_behind and self._behind is None:
            self._begin()
        if self._behind is not None:
            self._piece = self._behind.exchange(self._piece)
        else:
            self._file.write_directly(self._piece)
        self._filled = 0

    def _begin(self) -> None:
        self._behind = _BackgroundWriter(self._file.twin())
        try:
            self._behind.start()
        except RuntimeError:  # The system has no thread for us, or the process is ending.
            self._write_behind = False
            self.close()

    def finish(self) -> None:
        """Append what has been gathered since."""
        self._check_process()
        if self._behind is not None:
            spare = self._behind.wait()
            self._behind.close()
            self._behind = None
            _give_back(spare)
        self._file.write(self._piece[: self._filled])
        # Not after an error: something may still read it.
        piece, self._piece = self._piece, memoryview(b"")
        _give_back(piece)

    def _check_process(self) -> None:
        """A child has the same memory (`_take_piece`) and the same place in the file, but not the thread."""
        if self._made_in != generation():
            raise IllegalStateError(
                "this upload was begun by the process that this one was forked from, which goes on with it: begin one "
                "of its own in the child"
            )

    def close(self) -> None:
        """End what is under way, whose errors count no more. Nothing to do after `finish`."""
        behind, self._behind = self._behind, None
        if behind is not None:
            with suppress(OSError):
                behind.close()


class _BackgroundWriter:
    """A thread that writes whole pieces to ``file``, one at a time, while its user fills the next one.

    The user may be interrupted anywhere. Nothing else gets the memory and the descriptor that the thread uses before
    the thread has ended; at worst they are lost.
    """

    def __init__(self, file: Appender) -> None:
        self._file = file
        self._full: SimpleQueue[memoryview | None] = SimpleQueue()
        self._written: SimpleQueue[memoryview | BaseException] = SimpleQueue()
        self._written.put(_take_piece())
        # An upload that is never ended must not keep the process from ending.
        self._thread = Thread(target=self._run, name="eoslog-upload", daemon=True)

    def start(self) -> None:
        """Begin. Raises ``RuntimeError`` if the system has no thread."""
        self._thread.start()

    def exchange(self, piece: memoryview) -> memoryview:
        """Have a full piece written, and get one that can be filled. Raises what writing the one before raised."""
        free = self.wait()
        self._full.put(piece)
        return free

    def wait(self) -> memoryview:
        """The piece that is written now, or was never used. Raises what writing it raised."""
        written = self._written.get()
        if isinstance(written, BaseException):
            raise written
        return written

    def close(self) -> None:
        """End the thread, after the piece that it writes. The system may tell of an error only here (NFS)."""
        self._full.put(None)
        # It cannot be joined if its start failed or was interrupted: then it was given nothing to write.
        with suppress(RuntimeError):
            self._thread.join()
        self._file.close()

    def _run(self) -> None:
        while (piece := self._full.get()) is not None:
            try:
                self._file.write_directly(piece)
            except BaseException as error:  # noqa: BLE001  (for the thread that waits)
                self._written.put(error)
            else:
                self._written.put(piece)


def _take_piece() -> memoryview:
    """Whole pages of memory, which a fork does not copy while the disk reads them (open(2), O_DIRECT)."""
    try:
        return _spare.pop()
    except IndexError:
        return memoryview(mmap.mmap(-1, PIECE_BYTES))


def _give_back(piece: memoryview) -> None:
    if len(_spare) < _SPARES:
        _spare.append(piece)
