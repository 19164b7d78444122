"""Whether a handle may write data files: into an encrypted log only with keys, and with keys only into a marked one.

The mark is `spark_eos.protocol.actions.MarkEncrypted`; why it is an entry: docs/design/0009-encryption.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    IllegalStateError,
    ObjectNotFoundError,
    StorePermissionError,
)
from spark_eos.log.commit.loop import Propose
from spark_eos.protocol.actions import Action, AppendBatches, MarkEncrypted, ReplaceSegments
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.index import Index
from spark_eos.protocol.state import State
from spark_eos.storage import Store

_FEW = 8
"""The id of the key is looked up in so many of the newest files."""


def keys_missing(url: str, state: State, context: str) -> ConfigError:
    """The error of a handle without keys."""
    return ConfigError(
        f"{context}: the data files of {url} are encrypted since entry {state.encrypted_at} (key "
        f"{state.encryption_key_id!r}); give the settings encryption.keys (file:/path, env:NAME or module:attribute) "
        "and encryption.key.id"
    )


def check_writable(store: Store, state: State) -> None:
    """Raise `ConfigError` if data files would be written as they are into an encrypted log."""
    if state.encrypted_at >= 0 and store.encryption_key_id is None:
        raise keys_missing(store.url, state, "nothing was written")


def check_key(store: Store, state: State) -> None:
    """Raise `StorePermissionError` if the newest file with this key's id was encrypted with another key.

    The id would name two keys, and no reader could open the files of both. Files with another id tell nothing.
    """
    for name in heapq.nlargest(_FEW, set(_newest_files(state)), key=staged_at):
        try:
            key_id = store.key_of(name)
        except (ObjectNotFoundError, StorePermissionError):
            continue  # Vacuum was there, or the topic is hidden from this process.
        if key_id == store.encryption_key_id:
            with suppress(ObjectNotFoundError, CorruptRecordError):  # A damaged file keeps none from writing.
                store.size(name)  # It needs the key.
                return


def _newest_files(state: State) -> Iterator[str]:
    """Of each partition the newest file, of those that no sealed page holds."""
    for partition in state.partitions.values():
        rows = Index(tail=partition.index.tail).back(partition.end)
        name = next((row.file.name for row in rows if row.file is not None), None)
        if name is not None:
            yield name


def marks(store: Store) -> Callable[[State], tuple[MarkEncrypted, ...]]:
    """What makes the log one for encrypted files, if it is not yet."""
    assert store.encryption_key_id is not None
    action = MarkEncrypted(store.encryption_key_id)
    return lambda state: () if state.encrypted_at >= 0 else (action,)


def checking_encryption(store: Store, propose: Propose) -> Propose:
    """``propose``, but files of another kind than the log's are refused, on the state to which they are applied."""

    def proposed(state: State) -> Sequence[Action]:
        actions = tuple(propose(state))
        if state.encrypted_at >= 0:
            if store.encryption_key_id is None and any(map(_has_files, actions)):
                raise keys_missing(store.url, state, "nothing was committed")
        elif store.encryption_key_id is not None and any(map(_has_files, actions)):
            raise IllegalStateError(
                f"encrypted files for {store.url}, which has no mark: call Log.prepare_to_stage before files are staged"
            )
        return actions

    return proposed


def _has_files(action: Action) -> bool:
    if isinstance(action, AppendBatches):
        return bool(action.files)
    return isinstance(action, ReplaceSegments) and bool(action.staged)
