"""Delete backups, and free what no backup needs any more.

What is freed is decided in this order, which no backup that runs meanwhile can get around:

1. List the objects. Those of a backup that begins later are not among them.
2. Read all manifests.
3. Look for backups that are under way; free nothing while there is one. It may refer to anything that the manifests it
   has read refer to.
4. List the manifests again. If one of them was not read in step 2, go back to step 1: its backup was under way then.

A backup that begins after step 3 sees only manifests that were read in step 2, or that came from backups like itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.extensions.backup.backing_up import Progress
from spark_eos.extensions.backup.manifest import Backup
from spark_eos.extensions.backup.repository import MANIFESTS, OBJECTS, RUNNING, Repository
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store

GIVE_UP_S = 3600.0
"""A backup under way that has shown no sign for so long has died, and is given up."""


@dataclass(frozen=True)
class Freed:
    """What was done."""

    deleted: tuple[Backup, ...]
    """The backups that were deleted."""
    given_up: tuple[str, ...]
    """The ids of backups that had died."""
    files: int
    bytes: int
    """Files that no backup needed, and their bytes."""
    running: int
    """Backups that are under way: while there are any, nothing is freed."""


def delete_backups(
    repository: str | os.PathLike[str] | Store,
    names: Iterable[str],
    *,
    give_up_s: float = GIVE_UP_S,
    progress: Progress | None = None,
    settings: Settings = NO_SETTINGS,
) -> Freed:
    """Delete backups by name or id, and free the files that no other backup needs.

    Raises `ConfigError` if there is no such backup: nothing was deleted then. Raises `CorruptRecordError` if a manifest
    is damaged, so that nothing tells what its backup needs: nothing was freed.
    """
    opened = Repository.open(
        repository if isinstance(repository, Store) else open_store(repository, settings)
    )
    backups = tuple({backup.id: backup for backup in map(opened.find, names)}.values())
    for backup in backups:
        opened.store.delete(f"{MANIFESTS}{backup.id}.json")
    return _free(opened, backups, give_up_s, progress)


def vacuum_backups(
    repository: str | os.PathLike[str] | Store,
    *,
    give_up_s: float = GIVE_UP_S,
    progress: Progress | None = None,
    settings: Settings = NO_SETTINGS,
) -> Freed:
    """Free what no backup needs: of backups that were deleted or have died."""
    opened = Repository.open(
        repository if isinstance(repository, Store) else open_store(repository, settings)
    )
    return _free(opened, (), give_up_s, progress)


def _free(
    repository: Repository, deleted: tuple[Backup, ...], give_up_s: float, progress: Progress | None
) -> Freed:
    store = repository.store
    given_up = tuple(run for run in repository.running() if _is_dead(repository, run, give_up_s))
    given_up = tuple(run for run in given_up if repository.give_up(run))
    while True:
        objects = [*store.list(OBJECTS)]
        ids = repository.ids()
        needed_names: set[str] = set()
        for backup in repository.backups(_refuse):
            try:
                manifest = repository.load(backup.id)
            except ObjectNotFoundError:
                continue  # Deleted since.
            needed_names.update(file.object_name for file in manifest.files)
            needed_names.update(pack.file.object_name for pack in manifest.packs)
        running = repository.running()
        if running:
            return Freed(deleted, given_up, 0, 0, len(running))
        if {*repository.ids()} <= {*ids}:
            break
    garbage = [info for info in objects if info.name not in needed_names]
    for number, info in enumerate(garbage, 1):
        store.delete(info.name)
        if progress is not None:
            progress("files", number, len(garbage))
    return Freed(deleted, given_up, len(garbage), sum(info.size for info in garbage), 0)


def _refuse(_backup_id: str, error: CorruptRecordError) -> None:
    raise error


def _is_dead(repository: Repository, backup_id: str, give_up_s: float) -> bool:
    try:
        age_s = repository.store.age_s(f"{RUNNING}{backup_id}")
    except ObjectNotFoundError:
        return False
    return give_up_s <= 0 or (age_s is not None and age_s >= give_up_s)
