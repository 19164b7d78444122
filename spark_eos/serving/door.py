"""Who may be inside at a leader: its peers, and of all who have not shown the token a few, for a while.

The page and the metrics have the same rule. There, a peer is who has sent the head of a request.

A connection costs the process a descriptor and, with TLS, a quarter of a megabyte. Both are the leader's own as well:
without a descriptor its commits fail. So the newest strangers are let in, and the oldest one has to leave for each: one
that is idle shuts out no one that has something to say. Peers keep their places.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

STRANGER_S = 5.0
"""So long a connection has until it has shown the token: for the greeting of TLS, and the head of a request."""

_STRANGERS, _PEERS = 128, 4000
"""More are not of use. A process of few descriptors keeps three of eight for itself, as up to twice the strangers may
be there for a moment."""

_IN_THE_KERNEL = 1024
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

Peer = tuple[str, int]
"""The address and the port of the other side."""


class _Stranger(NamedTuple):
    connection: socket.socket
    until: float


class Places:
    """Of ``strangers`` and ``peers`` so many are inside."""

    def __init__(self, strangers: int, peers: int) -> None:
        self.strangers = strangers
        self.peers = peers
        self._waiting: dict[Peer, _Stranger] = {}  # In the order in which they came.
        self._admitted: dict[Peer, socket.socket] = {}

    def enter(self, peer: Peer, connection: socket.socket, now: float) -> list[socket.socket]:
        """Let a connection in; the ones that have to leave for that."""
        self._admitted.pop(peer, None)  # A port that was used before.
        self._waiting.pop(peer, None)
        self._waiting[peer] = _Stranger(connection, now + STRANGER_S)
        surplus = [*self._waiting][: -self.strangers]
        return [self._waiting.pop(stranger).connection for stranger in surplus]

    def admit(self, peer: Peer) -> bool:
        """Whether a peer that has shown the token has a place."""
        if peer in self._admitted:
            return True
        self._admitted = {
            admitted: connection
            for admitted, connection in self._admitted.items()
            if connection.fileno() >= 0
        }
        if peer not in self._waiting or len(self._admitted) >= self.peers:
            return False
        self._admitted[peer] = self._waiting.pop(peer).connection
        return True

    def leave(self) -> list[socket.socket]:
        """All strangers leave."""
        return self.overdue(float("inf"))

    def overdue(self, now: float) -> list[socket.socket]:
        """The connections that have waited for too long, and leave."""
        late = [peer for peer, stranger in self._waiting.items() if stranger.until <= now]
        return [self._waiting.pop(peer).connection for peer in late]

    @property
    def next_until(self) -> float | None:
        """When the next stranger has waited for too long."""
        return next((stranger.until for stranger in self._waiting.values()), None)


def places_for(descriptors: int) -> Places:
    """The places of a process that may have so many descriptors; -1 is without a limit."""
    if descriptors < 0:
        return Places(_STRANGERS, _PEERS)
    return Places(max(1, min(_STRANGERS, descriptors // 16)), max(1, min(_PEERS, descriptors // 2)))


class Door(socket.socket):
    """A socket that listens for asyncio, whose `accept` keeps to the places."""

    @classmethod
    def at(cls, listening: socket.socket) -> Door:
        """In place of a socket that listens."""
        door = cls(fileno=listening.detach())
        door._places = places_for(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        return door

    _places: Places
    _is_watched = False
    _is_full = False

    @property
    def strangers(self) -> int:
        """So many are accepted at once, at most: no others come in before those who have to leave are gone."""
        return self._places.strangers

    def admit(self, peer: Peer) -> bool:
        """As `Places.admit`."""
        return self._places.admit(peer)

    def listen(self, _backlog: int = 0, /) -> None:
        """Let more wait in the kernel, than asyncio accepts at once: it has one number for both."""
        super().listen(_IN_THE_KERNEL)

    def accept(self) -> tuple[socket.socket, Any]:
        loop = asyncio.get_running_loop()
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if self._is_full:  # asyncio, which waits for a second after the first error, tries again at once.
                raise BlockingIOError from error
            self._is_full = True
            loop.call_soon(self._try_again)
            turn_out(self._places.leave())
            raise
        turn_out(self._places.enter(address[:2], connection, loop.time()))
        if not self._is_watched:
            self._is_watched = True
            self._watch()
        return connection, address

    def _try_again(self) -> None:
        self._is_full = False

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        turn_out(self._places.overdue(loop.time()))
        until = self._places.next_until
        self._is_watched = until is not None
        if until is not None:
            loop.call_at(until, self._watch)


def turn_out(connections: list[socket.socket]) -> None:
    """End connections. Their descriptors are the server's, which closes them when it has seen the end."""
    for connection in connections:
        with suppress(OSError):  # The other side has left.
            connection.shutdown(socket.SHUT_RDWR)


class Admitting:
    """An ASGI application behind a door: who has sent the head of a request has a place."""

    def __init__(self, application: Callable[..., Awaitable[None]], door: Door) -> None:
        self._application = application
        self._door = door

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope.get("client"):
            self._door.admit(tuple(scope["client"]))
        await self._application(scope, receive, send)
