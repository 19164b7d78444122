"""Which encryption keys the data files of a log need: whether a key may be destroyed."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.reachability import data_files
from spark_eos.storage.encrypted_files import as_stored

__all__ = ["KeyUse", "keys_in_use"]


class KeyUse(NamedTuple):
    """The data files with one key, as they are stored; ``key_id`` None: those that are not encrypted.

    ``unreferenced`` are those of the files that no entry refers to: they are about to be committed, or vacuum removes
    them.
    """

    key_id: str | None
    files: int = 0
    bytes: int = 0
    unreferenced: int = 0

    @property
    def may_be_destroyed(self) -> str:
        """Whether the log can do without the key. Backups are not looked at."""
        if not self.files:
            return "yes"
        return "after vacuum" if self.files == self.unreferenced else "no"


def keys_in_use(log: Log, *key_ids: str) -> list[KeyUse]:
    """The keys of all data files that are there, those of ``key_ids`` also if no file has them. Needs no key.

    Each file costs one read of its header.
    """
    # The files first: what is committed meanwhile is referred to by the state that is read after them.
    store = as_stored(log.store)
    segments = (info for info in store.list(paths.TABLES) if paths.is_segment(info.name))
    infos = [*chain(store.list(paths.DATA), segments)]
    state = log.follow()
    needed = {*data_files(state, log.load)}
    uses: dict[str | None, KeyUse] = {key_id: KeyUse(key_id) for key_id in key_ids}
    for info in infos:
        try:
            key_id = store.key_of(info.name)
        except ObjectNotFoundError:  # Vacuum was there.
            continue
        use = uses.get(key_id) or KeyUse(key_id)
        unreferenced = use.unreferenced + (info.name not in needed)
        uses[key_id] = KeyUse(key_id, use.files + 1, use.bytes + info.size, unreferenced)
    return sorted(uses.values(), key=lambda use: use.key_id or "")
