"""The mark of an encrypted log: its data files are encrypted from this entry on (docs/design/0009-encryption.md).

It is an entry, so that each writer meets it before its next commit, and versions without encryption refuse the log. The
staging floor rises with it: a plain file that was staged before can no longer be committed.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.config.store import KEY_ID
from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.declaration import Fate, Field, declare
from spark_eos.protocol.encoding.avro import STRING
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TrailNote


class MarkEncrypted(NamedTuple):
    """Data files are encrypted from now on. ``key_id`` is the key of new files at this time."""

    key_id: str


def mark_encrypted(state: State, action: MarkEncrypted) -> tuple[State, None]:
    """The first mark stays. Tables of publications are plain files, so there must be none."""
    if not KEY_ID.fullmatch(action.key_id):
        raise InvalidRequestError(
            "the id of an encryption key has 1 to 120 characters: letters, digits and . _ / : @ -"
        )
    if state.encrypted_at >= 0:
        return state, None
    if state.publications:
        raise InvalidRequestError(
            f"the log cannot be encrypted (encryption.keys): publication {min(state.publications)!r} makes tables of "
            "it, which other programs read without keys. Drop it first: eoslog tables drop"
        )
    # Of a file that was staged on the state before, the name begins with the number of this entry.
    entry = state.seq + 1
    return (
        replace(
            state,
            encrypted_at=entry,
            encryption_key_id=action.key_id,
            staging_floor=max(state.staging_floor, entry + 1),
        ),
        None,
    )


def check_publishable(state: State, publication: str) -> None:
    """Raise `InvalidRequestError` if the log is encrypted: a publication's tables are plain files."""
    if state.encrypted_at >= 0:
        raise InvalidRequestError(
            f"publication {publication!r}: the data files of this log are encrypted since entry {state.encrypted_at} "
            f"(key {state.encryption_key_id!r}), and tables are plain files: it cannot be published"
        )


declare(
    MarkEncrypted,
    number=28,
    fields=(Field("key_id", STRING),),
    rule=mark_encrypted,
    fate=lambda state, _: Fate.UNKNOWN if state.encrypted_at >= 0 else Fate.NOT_APPLIED,
    tell=lambda before, _after, action, _writer: (
        [TrailNote("encryption begun", "", f"with key {action.key_id}")] if before.encrypted_at < 0 else []
    ),
)
