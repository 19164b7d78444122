"""HTTP behind TLS, where a connection that ends is gone at once, in whichever way it ends.

asyncio's own server leaves a connection whose greeting fails to the garbage collector (CPython's gh-109534), h11 one
that sends no HTTP, and uvicorn one that does not wait for its answer. Each has a buffer of a quarter of a megabyte. The
collector seldom looks at old objects in a process that has many: strangers that come and go take gigabytes there.
"""

from __future__ import annotations

import asyncio
import ssl
import traceback
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class EncryptedHttp(H11Protocol):
    """Uvicorn's protocol for a socket that is not encrypted itself."""

    def __init__(self, context: ssl.SSLContext, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = _Connection(h11.SERVER)
        self._context = context
        self._greeting: asyncio.Task[None] | None = None
        self._early = b""
        """What has come before this knows of the end of the greeting."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._greeting = self.loop.create_task(self._greet(transport))

    async def _greet(self, transport: asyncio.Transport) -> None:
        try:
            encrypted = await self.loop.start_tls(transport, self, self._context, server_side=True)
        except OSError as error:
            traceback.clear_frames(error.__traceback__)  # One of them has what has the error.
            return
        if encrypted is not None:
            super().connection_made(encrypted)
            early, self._early = self._early, b""
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self.flow is None:
            self._early += data
        elif data:  # To h11, nothing is the end.
            super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.flow is not None:
            # After an error uvicorn leaves its timer, which has this, and a transport that Python 3.10 calls unclosed.
            super().connection_lost(None)


class _Connection(h11.Connection):
    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            raise error.with_traceback(None)  # noqa: B904  (it has the frame of h11 that has the error)
