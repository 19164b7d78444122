"""Requests as objects in the log's store, of machines that cannot reach the leader. Never trusted.

A machine writes all its submissions as one object, under a name of its own each time. The leader lists the names, reads
each object once, and treats what is in it as if it had come over the network: the rules on slots are the same. There
is no answer: the owner reads the log.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from spark_eos.errors import EosLogError
from spark_eos.extensions.machines.hint import Hint, Hints
from spark_eos.extensions.machines.message import MAX_BODY_BYTES, Answer, Peer
from spark_eos.storage.store import Store

REQUESTS = "_group/requests/"
"""Their names begin so; then the writer's id, and a number that rises."""

COLLECTS_S = 5.0
"""After a leader has found an object, it goes on listing for so long; else it lists when it looks at the hint."""

LEFTOVER_S = 60.0
"""The leader deletes an object that it saw so long ago: its writer deletes it when it writes the next one."""

MAX_OBJECTS = 2000
"""So many objects a leader looks at, at most."""

REWRITE_S = 0.2
"""So often, at most, a machine writes an object for one and the same slot."""

_AT_A_TIME = 32
_NAME = re.compile(re.escape(REQUESTS) + r"([0-9a-f]{32})-([0-9]{1,9})", re.ASCII)

Aside = Callable[[Callable[[], Any]], Future[Any]]


class ObjectPeer:
    """`spark_eos.extensions.machines.message.Peer` through the store. Its answer: the next entry may be there."""

    def __init__(self, store: Store, member: str, now: Callable[[], float], aside: Aside) -> None:
        self._store = store
        self._member = member
        self._now = now
        self._aside = aside
        self._count = 0
        self._written: tuple[bytes, int, float] | None = None
        """The bundle that was written last, what was known then, and when that was."""
        self._writing: Future[bool] | None = None

    def exchange(self, bundle: bytes, seq: int) -> Answer | None:
        if self._writing is not None and self._writing.done():
            if not self._writing.result():
                return None
            self._writing = None
        if self._writing is None and self._is_due(bundle, seq):
            before = self._name() if self._count else None
            self._count += 1
            self._writing = self._aside(partial(_replace, self._store, before, self._name(), bundle))
            self._written = bundle, seq, self._now()
        return Answer(seq + 1, leads=True)

    def _is_due(self, bundle: bytes, seq: int) -> bool:
        if self._written is None:
            return True
        written, at, since = self._written
        return bundle != written and (seq > at or self._now() - since >= REWRITE_S)

    def close(self) -> None:
        if self._written is not None:
            self._aside(partial(_delete, self._store, self._name()))

    def _name(self) -> str:
        return f"{REQUESTS}{self._member}-{self._count}"


class Collector:
    """The leader's side, for one term. What is there when it looks first is of before the term: it is left unread."""

    def __init__(self, store: Store, now: Callable[[], float], aside: Aside) -> None:
        self._store = store
        self._now = now
        self._aside = aside
        self._first_seen: dict[str, float] | None = None
        """All objects that it has seen, and since when."""
        self._looking: Future[dict[str, bytes]] | None = None
        self._is_asked = False
        self._until_s = -math.inf

    def look(self) -> None:
        """Look once, at the next call of `found`."""
        self._is_asked = True

    def found(self) -> dict[str, bytes]:
        """The newest object of each writer, of those that are new: what the last look has found. It waits for none."""
        result = dict[str, bytes]()
        now = self._now()
        if self._looking is not None and self._looking.done():
            with suppress(EosLogError):
                result = self._looking.result()
            self._looking = None
        if result:
            self._until_s = now + COLLECTS_S
        if self._looking is None and (self._is_asked or now <= self._until_s):
            self._is_asked = False
            self._looking = self._aside(self._look)
        return result

    def _look(self) -> dict[str, bytes]:
        now = self._now()
        listed = [
            (match, info)
            for info in itertools.islice(self._store.list(REQUESTS), MAX_OBJECTS)
            if (match := _NAME.fullmatch(info.name))
        ]
        before = self._first_seen
        self._first_seen = {info.name: (before or {}).get(info.name, now) for _, info in listed}
        for name, since in self._first_seen.items():
            if now - since > LEFTOVER_S:
                _delete(self._store, name)
        if before is None:
            return {}
        newest = dict[str, tuple[int, str]]()
        for match, info in listed:
            if info.name not in before and info.size <= MAX_BODY_BYTES:
                candidate = int(match[2]), info.name
                newest[match[1]] = max(candidate, newest.get(match[1], candidate))
        names = {member: name for member, (_, name) in newest.items()}
        return self._read(names)

    def _read(self, names: dict[str, str]) -> dict[str, bytes]:
        bodies = dict[str, bytes]()
        left = iter(names.items())
        while some := list(itertools.islice(left, _AT_A_TIME)):
            reading = [(member, self._aside(partial(self._store.read, name))) for member, name in some]
            for member, body in reading:
                with suppress(EosLogError):
                    bodies[member] = body.result().to_pybytes()
        return bodies


class RequestObjects:
    """Both sides of it, for one process; ``new_member`` makes an id that no other process has."""

    def __init__(
        self, store: Store, now: Callable[[], float], aside: Aside, new_member: Callable[[], str]
    ) -> None:
        self._store = store
        self._now = now
        self._aside = aside
        self._new_member = new_member

    def peer(self) -> ObjectPeer:
        """The way to whichever process leads."""
        return ObjectPeer(self._store, self._new_member(), self._now, self._aside)

    def collector(self) -> Collector:
        """For a process that begins to lead."""
        return Collector(self._store, self._now, self._aside)


def reached(
    hints: Hints, call: Callable[[Hint], Peer | None], leader: str, *, at_any_rate: bool
) -> tuple[Hint | None, Peer | None]:
    """The hint, and the way to the leader in it if there is one by now.

    That is tried if the hint names another one than ``leader``, or ``at_any_rate``.
    """
    hint = hints.read()
    if hint is None or (hint.leader == leader and not at_any_rate):
        return hint, None
    peer = call(hint)
    if peer is not None and peer.exchange(b"", -1) is None:
        peer.close()
        peer = None
    return hint, peer


def _replace(store: Store, before: str | None, name: str, data: bytes) -> bool:
    try:
        store.overwrite(name, data)
    except EosLogError:
        return False
    if before is not None:
        _delete(store, before)
    return True


def _delete(store: Store, name: str) -> None:
    with suppress(EosLogError):
        store.delete(name)
