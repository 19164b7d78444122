"""The leader's HTTPS server: one path, in a thread. It puts requests with the token of the hint into a `Mailbox`."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from spark_eos.extensions.machines.certificate import Identity, new_identity
from spark_eos.extensions.machines.encrypted import EncryptedHttp
from spark_eos.extensions.machines.hint import Hint
from spark_eos.extensions.machines.mailbox import Mailbox
from spark_eos.extensions.machines.message import MAX_BODY_BYTES, encode_answer
from spark_eos.serving.door import STRANGER_S, Door, Peer

if TYPE_CHECKING:
    from starlette.requests import Request

PATH = "/v1/submissions"
MEMBER, KNOWN = "x-member", "x-known"

HEARD_S = 0.05
"""So long the leader waits with its answer for news. A machine sends what is new there at the next question."""

_MEMBER = re.compile(r"[0-9a-f]{32}", re.ASCII)
_KNOWN = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class HttpsHost:
    """`spark_eos.extensions.machines.channel.Host`: listens at ``host`` and ``port`` until it is closed.

    Raises `OSError` if that is not possible.
    """

    def __init__(self, host: str, port: int) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as if_not_begun:
            self._socket = if_not_begun.enter_context(
                Door.at(socket.create_server(address[:2], family=family))
            )
            # Inherited by connections; asyncio sets it only where the socket names its protocol.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            identity = new_identity(host)
            self.mailbox = Mailbox(time.monotonic)
            self.hint = Hint(
                secrets.token_hex(16),
                host,
                self._socket.getsockname()[1],
                identity.certificate,
                secrets.token_urlsafe(32),
            )
            config = uvicorn.Config(
                _application(self.mailbox, self.hint.token, self._socket.admit),
                access_log=False,
                server_header=False,
                proxy_headers=False,
                log_config=None,
                log_level="critical",
                lifespan="off",
                ws="none",
                loop="asyncio",
                http=cast(Any, partial(EncryptedHttp, _context(identity))),
                backlog=self._socket.strangers,
                timeout_graceful_shutdown=1,
            )
            config.load()
            self._server = uvicorn.Server(config)
            # A daemon: the process ends though it leads. Signals are for the main thread alone, and so not caught here.
            self._thread = threading.Thread(target=self._serve, name="group-commit", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # There are too many, or the interpreter ends.
                raise OSError(str(error)) from error
            if_not_begun.pop_all()

    def _serve(self) -> None:
        with self._socket:  # Older versions of uvicorn, told to end while they begin, leave it open.
            self._server.run(sockets=[self._socket])

    def close(self) -> None:
        self.mailbox.resign()
        self._server.should_exit = True

    def abandon(self) -> None:
        self._socket.close()


def _context(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory(prefix="spark_eos-") as folder:  # Of this user alone.
        both = Path(folder) / "identity.pem"
        both.touch(0o600)
        both.write_text(identity.key + identity.certificate)
        context.load_cert_chain(both)
    return context


def _application(mailbox: Mailbox, token: str, admit: Callable[[Peer], bool]) -> Starlette:
    expected = f"Bearer {token}".encode()
    news = _News(mailbox)

    async def exchange(request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), expected):
            return Response(status_code=401)
        if request.client is None or not admit((request.client.host, request.client.port)):
            return Response(status_code=503)
        member, seq = request.headers.get(MEMBER, ""), request.headers.get(KNOWN, "")
        if not _MEMBER.fullmatch(member) or not _KNOWN.fullmatch(seq):
            return Response(status_code=400)
        try:
            body = await asyncio.wait_for(_body(request), STRANGER_S)
        except asyncio.TimeoutError:  # Its machine may be gone: it shall not keep a place for ever.
            return Response(status_code=408, headers={"connection": "close"})
        if body is None:
            return Response(status_code=413)
        if not mailbox.put(member, body):
            return Response(status_code=503)
        await news.after(int(seq))
        return Response(encode_answer(mailbox.answer()), media_type="application/json")

    return Starlette(routes=[Route(PATH, exchange, methods=["POST"])])


async def _body(request: Request) -> bytes | None:
    """None if it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


class _News:
    """Wakes the requests that wait for the next entry."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        mailbox.on_news = self._wake_waiting

    def _wake_waiting(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def after(self, seq: int) -> None:
        """Return when there is an entry after ``seq``, or the leader leads no more, or after a moment."""
        self._loop = asyncio.get_running_loop()
        event = self._event
        answer = self._mailbox.answer()
        if answer.newest > seq or not answer.leads:
            return
        try:
            await asyncio.wait_for(event.wait(), HEARD_S)
        except asyncio.TimeoutError:
            return
