"""The tail: the newest state this process has seen, brought forward entry by entry."""

from __future__ import annotations

import threading

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log import names
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.codec import decode_entry
from spark_eos.protocol.rules import Outcome, apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store

__all__ = ["Found", "Tail"]

Found = tuple[int, Outcome]
"""The slot in which a request was found, and what the rules made of it there."""


class Tail:
    """Follows the chain of entries. Safe to share between threads; ``state`` is immutable.

    Requests can be *watched*: when one of them turns up in an entry, `found` tells where. That is how a
    writer whose create got no reply recognises its own entry by its body, never by the error it got.
    """

    def __init__(self, store: Store, state: State = EMPTY) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._state = state
        self._watched: dict[bytes, Found | None] = {}

    @property
    def state(self) -> State:
        """The newest state seen so far, without looking at the store."""
        return self._state

    def follow(self) -> State:
        """Read what was added since; one read if nothing was."""
        with self._lock:
            while (entry := self._read(self._state.seq + 1)) is not None:
                self._state, outcomes = apply_entry(self._state, entry)
                for request, outcome in zip(entry.requests, outcomes, strict=True):
                    if request.request_id in self._watched:
                        self._watched[request.request_id] = (entry.seq, outcome)
            return self._state

    def advance(self, state: State) -> None:
        """Take over the state behind an entry that this process has just created itself."""
        with self._lock:
            if self._state.seq == state.seq - 1:
                self._state = state

    def watch(self, request_id: bytes) -> None:
        """Look out for a request from now on."""
        with self._lock:
            self._watched.setdefault(request_id, None)

    def is_watched(self, request_id: bytes) -> bool:
        """Whether a request is being looked out for: an earlier try of it is in doubt."""
        return request_id in self._watched

    def found(self, request_id: bytes) -> Found | None:
        """Where a watched request was found, if it was."""
        return self._watched.get(request_id)

    def unwatch(self, request_id: bytes) -> None:
        """Forget about a request whose outcome is known."""
        with self._lock:
            self._watched.pop(request_id, None)

    def _read(self, seq: int) -> Entry | None:
        name = names.entry(seq)
        try:
            data = self._store.read(name)
        except ObjectNotFoundError:
            return None
        return decode_entry(data, seq, f"{self._store.url}/{name}")
