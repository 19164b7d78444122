"""Which encryption keys the data files of a log need: whether a key may be destroyed."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from spark_eos.errors import ObjectNotFoundError
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.reachability import data_files
from spark_eos.storage.encrypted_files import as_stored

UNKNOWN = "unknown to this log"
"""What is said of a key in place of whether it may be destroyed."""


class KeyUse(NamedTuple):
    """The data files with one key, as they are stored; ``key_id`` None: those that are not encrypted.

    ``unreferenced`` are those of the files that no entry refers to: they are about to be committed, or vacuum removes
    them. ``is_known``: a file has the key, or it is known to be one of the log's.
    """

    key_id: str | None
    files: int = 0
    bytes: int = 0
    unreferenced: int = 0
    is_known: bool = True

    @property
    def may_be_destroyed(self) -> str:
        """Whether the log can do without the key. Backups are not looked at."""
        if not self.files:
            return "yes" if self.is_known else UNKNOWN
        return "after vacuum" if self.files == self.unreferenced else "no"


def keys_in_use(log: Log, *key_ids: str) -> list[KeyUse]:
    """The keys of all data files that are there, those of ``key_ids`` also if no file has them. Needs no key.

    Of a key that no file has any more it is known that it was one of this log's if the log was encrypted with it first,
    or if the keys with which the log was opened have it. Another one may be mistyped.

    Each file costs one read of its header.
    """
    # The files first: what is committed meanwhile is referred to by the state that is read after them.
    store = as_stored(log.store)
    segments = (info for info in store.list(paths.TABLES) if paths.is_segment(info.name))
    infos = [*chain(store.list(paths.DATA), segments)]
    state = log.follow()
    needed = {*data_files(state, log.load)}
    uses: dict[str | None, KeyUse] = {
        key_id: KeyUse(key_id, is_known=_is_known(log, key_id)) for key_id in key_ids
    }
    for info in infos:
        try:
            key_id = store.key_of(info.name)
        except ObjectNotFoundError:  # Vacuum was there.
            continue
        use = uses.get(key_id) or KeyUse(key_id)
        unreferenced = use.unreferenced + (info.name not in needed)
        uses[key_id] = KeyUse(key_id, use.files + 1, use.bytes + info.size, unreferenced)
    return sorted(uses.values(), key=lambda use: use.key_id or "")


def _is_known(log: Log, key_id: str) -> bool:
    if key_id == log.state.encryption_key_id:
        return True
    return isinstance(log.store, EncryptedStore) and log.store.keys.key(key_id) is not None
