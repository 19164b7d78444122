"""The hint: an object in the log's store that says where the leader of all machines may be. Never trusted.

It holds the leader's address, its certificate and the token for it. So only what may read the log's store can hand
requests over, and a process at an address of a leader that is gone is not taken for the leader: it has another key.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Protocol

from spark_eos.errors import EosLogError
from spark_eos.storage.store import Store

HINT = "_group/leader.json"
"""The name of the object."""

_VERSION = 1
_MAX_BYTES = 20_000


@dataclass(frozen=True)
class Hint:
    """One term of a leader; ``leader`` is another one each time that a process begins to lead."""

    leader: str
    host: str = ""
    port: int = 0
    certificate: str = ""
    """PEM: the only one that is accepted there."""
    token: str = ""
    beat: int = 0
    """It rises while others wait for the leader: a process that writes alone is to come, or it wins every slot."""

    def __repr__(self) -> str:
        return f"Hint({self.leader!r}, {self.host!r}, {self.port})"


class Hints(Protocol):
    """Where the hint is. Nothing raises."""

    def read(self) -> Hint | None:
        """The hint; None if there is none, or it cannot be read."""

    def write(self, hint: Hint) -> bool:
        """Put ``hint`` in the place of the one that is there; whether that worked."""


def encode_hint(hint: Hint) -> bytes:
    """The bytes of the object."""
    return json.dumps({"version": _VERSION, **asdict(hint)}).encode()


def decode_hint(data: bytes) -> Hint | None:
    """What `encode_hint` has made; None if it is anything else, or of another version."""
    if len(data) > _MAX_BYTES:
        return None
    try:
        fields = json.loads(data)
        if fields.pop("version") != _VERSION:
            return None
        hint = Hint(**fields)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    texts = (hint.leader, hint.host, hint.certificate, hint.token)
    fits = (
        all(isinstance(text, str) for text in texts)
        and type(hint.port) is int
        and 0 <= hint.port < 65_536
        and type(hint.beat) is int
    )
    return hint if fits and hint.leader else None


class StoredHints:
    """The hint in a log's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> Hint | None:
        with suppress(EosLogError):
            return decode_hint(self._store.read(HINT).to_pybytes())
        return None

    def write(self, hint: Hint) -> bool:
        with suppress(EosLogError):
            self._store.overwrite(HINT, encode_hint(hint))
            return True
        return False
