"""The HTTP server of ``eoslog metrics --serve``. A connection has a thread, so those that ask nothing are few."""

from __future__ import annotations

import errno
import resource
import socket
import threading
import time
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from spark_eos.serving.door import places_for, turn_out
from spark_eos.storage.forks import Lock

_AGAIN_S = 1.0
"""So long the server accepts no connection after one for which there was no descriptor."""

_SLOW_S = 30.0
"""So long it waits for a reader of its answer."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves a WSGI application at an address until it is closed. Raises `OSError` if that is not possible."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, host: str, port: int, application: Callable[..., Any]) -> None:
        self.address_family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._places = places_for(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._lock = Lock()
        super().__init__((str(address[0]), int(address[1])), _Handler)
        self.set_app(application)
        self._thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().get_request()
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                with self._lock:
                    turn_out(self._places.leave())
                time.sleep(
                    _AGAIN_S
                )  # The connection is still there, and accepting it would be tried at once.
            raise
        with self._lock:
            turn_out(self._places.enter(address[:2], connection, time.monotonic()))
        return connection, address

    def service_actions(self) -> None:
        """Called twice a second, and after each connection."""
        with self._lock:
            turn_out(self._places.overdue(time.monotonic()))

    def has_asked(self, address: tuple[Any, ...]) -> bool:
        """Whether a connection whose request is there has a place."""
        with self._lock:
            return self._places.admit(address[:2])

    def handle_error(self, _request: Any, _address: Any) -> None:
        """The other side has left."""

    def stop(self) -> None:
        """End it."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    server: MetricsServer
    timeout = _SLOW_S

    def parse_request(self) -> bool:
        return super().parse_request() and self.server.has_asked(self.client_address)

    def log_message(self, *_: object) -> None:
        """Requests are not told."""
