"""Uploads: small ones are one request, and as good as a create; large ones are sent in parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from spark_eos.errors import EosLogError, ObjectExistsError, OutcomeUnknownError
from spark_eos.storage.forks import generation
from spark_eos.storage.objects.requests import Requests

SINGLE_BYTES = 48 << 20
"""An upload of up to so many bytes is one PUT, and as good as a create: what a task's buffer makes, and a bit."""

PART_BYTES = 16 << 20
"""Larger ones go in parts of so many bytes, `PARTS_AT_ONCE` under way."""

PARTS_AT_ONCE = 4


class MultipartUpload:
    """The bytes of one upload: kept up to ``single_bytes``, and from then on sent in parts.

    ``create`` makes the object of few bytes. ``client`` gives the library's client for parts, which tries each of them
    again by itself; ``is_there`` tells whether the name is taken.
    """

    def __init__(
        self,
        url: str,
        name: str,
        key: str,
        requests: Requests,
        client: Callable[[], Any],
        create: Callable[[bytearray], None],
        is_there: Callable[[], bool],
        single_bytes: int,
    ) -> None:
        self._url = url
        self._name = name
        self._key = key
        self._requests = requests
        self._client = client
        self._create = create
        self._is_there = is_there
        self._single_bytes = single_bytes
        self._part_bytes = min(PART_BYTES, single_bytes)  # Of less than one part the library makes no parts.
        self._buffer = bytearray()
        self._size = 0
        self._writer: Any = None
        self._made_in = generation()

    def write(self, view: memoryview) -> None:
        self._size += view.nbytes
        if self._writer is None and self._size <= self._single_bytes:
            self._buffer += view
            return
        if self._writer is None:
            self._writer = self._open()
            buffer, self._buffer = self._buffer, bytearray()
            if buffer:
                self._send(bytes(buffer))
        self._send(bytes(view))

    def _open(self) -> Any:
        import obstore

        return self._requests.ask_once(
            self._name,
            lambda: obstore.open_writer(
                self._client(),
                self._key,
                buffer_size=self._part_bytes,
                max_concurrency=PARTS_AT_ONCE,
            ),
        )

    def _send(self, data: bytes) -> None:
        self._requests.ask_once(self._name, lambda: self._writer.write(data))

    def abort(self) -> None:
        """Take back what was sent; what cannot be taken back is never visible, and goes by the bucket's own rule."""
        writer, self._writer = self._writer, None
        self._buffer = bytearray()
        # The writer of a forked child is its parent's, and so are the writer's threads.
        if writer is not None and self._made_in == generation():
            with suppress(Exception):
                writer.__exit__(InterruptedError, InterruptedError(), None)

    def finish(self) -> None:
        """Make the object. Of parts no store makes one on a condition, as far as the library goes."""
        if self._writer is None:
            buffer, self._buffer = self._buffer, bytearray()
            self._create(buffer)
            return
        try:
            is_taken = self._is_there()
        except BaseException:
            self.abort()
            raise
        if is_taken:
            self.abort()
            raise ObjectExistsError(
                f"{self._url}/{self._name}: cannot upload: it exists already; read it to see whose it is"
            )
        writer, self._writer = self._writer, None
        try:
            self._requests.ask_once(self._name, writer.close, ends=True)
            return
        except OutcomeUnknownError as error:
            failure = error
        # The last request may have done its work all the same: then the object is there.
        is_taken = False
        with suppress(EosLogError):
            is_taken = self._is_there()
        if is_taken:
            raise ObjectExistsError(
                f"{self._url}/{self._name}: its upload got no reply, but it is there; read it"
            ) from failure
        raise failure
