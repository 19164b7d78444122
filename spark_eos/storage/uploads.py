"""The file object behind every `Store.upload`: gathers small writes, remembers a failed one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from spark_eos.storage.store import Data, Upload

BUFFER_BYTES = 32 << 10
"""Arrow writes paddings of a few bytes; below this size they are gathered into one call of the sink.

Not more: what is gathered is copied once more, and the values of 64 partitions come in pieces of 400 KB.
"""


def as_bytes_view(data: Data) -> memoryview:
    """The bytes of ``data``, not copied, as a flat view of unsigned bytes."""
    return memoryview(data).cast("B")


class UploadFile(io.RawIOBase):
    """A writable binary file that hands everything to ``sink``, in order and in large pieces.

    ``close`` ends nothing: Arrow's wrappers close what they are given, and only the end of the upload's
    context may decide. `finish` does, exactly once.
    """

    def __init__(self, sink: Callable[[memoryview], None]) -> None:
        super().__init__()
        self._sink = sink
        self._gathered = bytearray()
        self._position = 0
        self._failure: BaseException | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError("write to an upload that has ended")
        view = as_bytes_view(data)
        if len(self._gathered) + view.nbytes < BUFFER_BYTES:
            self._gathered += view
        else:
            self._drain()
            self._pour(view)
        self._position += view.nbytes
        return view.nbytes

    def finish(self) -> None:
        """Hand the rest to the sink; raise again what an earlier write raised, lest half a file is kept."""
        if self._failure is not None:
            raise self._failure
        self._drain()
        self.close()

    def _drain(self) -> None:
        if self._gathered:
            self._pour(memoryview(self._gathered))
            self._gathered = bytearray()

    def _pour(self, view: memoryview) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            self._sink(view)
        except BaseException as error:
            self._failure = error
            raise


@contextmanager
def buffered(deliver: Callable[[bytearray], object]) -> Iterator[Upload]:
    """An upload in memory: ``deliver`` gets all of it at the end, and nothing after an error."""
    body = bytearray()
    file = UploadFile(body.extend)
    try:
        yield file
        file.finish()
    finally:
        file.close()
    deliver(body)
