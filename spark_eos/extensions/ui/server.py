"""The server of the page: a socket, the application, and an end that waits for no browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from spark_eos.errors import ConfigError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import Access
from spark_eos.serving.address import url_of
from spark_eos.serving.door import Admitting, Door

if TYPE_CHECKING:
    import uvicorn


class Server:
    """Serves the page of some logs at one address.

    ``url`` is where this machine reaches it. It is known before `run`, also if ``port`` is 0: then the system chooses a
    free one.
    """

    def __init__(
        self,
        followers: Sequence[Follower],
        access: Access,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_writes: bool = False,
    ) -> None:
        self._followers = followers
        self._access = access
        self._allow_writes = allow_writes
        self._closing = threading.Event()
        self._socket = _listen(host, port)
        self._server: uvicorn.Server | None = None
        self.port = self._socket.getsockname()[1]
        self.url = f"{url_of(host, self.port)}/"

    def run(self) -> None:
        """Serve until a signal, or `stop`, ends it."""
        with self._socket:  # Open after a failure, and with older versions of uvicorn after an early end.
            self._serve()

    def _serve(self) -> None:
        import uvicorn

        from spark_eos.extensions.ui.app import create_app

        closing = self._closing

        class Ended(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                closing.set()  # Streams of events end by themselves then.
                super().handle_exit(sig, frame)

        app = create_app(
            self._followers, self._access, allow_writes=self._allow_writes, is_closing=self._closing.is_set
        )
        config = uvicorn.Config(
            Admitting(app, self._socket),
            access_log=False,
            server_header=False,
            proxy_headers=False,
            log_level="warning",
            ws="none",
            limit_concurrency=1000,
            loop="asyncio",  # The door is asyncio's.
            http="h11",  # httptools, which uvicorn takes if it is there, has no bound of a head.
            backlog=self._socket.strangers,
            timeout_graceful_shutdown=2,
        )
        self._server = Ended(config)
        if closing.is_set():  # `stop` came before there was a server.
            self._server.should_exit = True
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End it, from another thread."""
        self._closing.set()
        if self._server is not None:
            self._server.should_exit = True


def _listen(host: str, port: int) -> Door:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return Door.at(socket.create_server(address[:2], family=family))
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--host {host} --port {port} cannot be served at: {error}. Choose another one; --port 0 takes a free one"
        ) from error
