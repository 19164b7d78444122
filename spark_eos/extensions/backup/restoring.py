"""Make a log of a backup, as it was after one of its entries."""

from __future__ import annotations

import os
from collections.abc import Callable

from spark_eos.errors import ConfigError
from spark_eos.extensions.backup.backing_up import Progress
from spark_eos.extensions.backup.manifest import Backup
from spark_eos.extensions.backup.repository import Repository
from spark_eos.extensions.backup.view import BackupView
from spark_eos.log.data_place import check_apart, place_of_copy
from spark_eos.log.log import Log
from spark_eos.log.time_travel import entry_at_time, iso
from spark_eos.maintenance.copying import Copied, copy_log
from spark_eos.maintenance.verify.verify import Finding
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store
from spark_eos.storage.encrypted_files import as_stored

Restored = Copied


def restore_log(
    repository: str | os.PathLike[str] | Store,
    destination: str | os.PathLike[str] | Store,
    *,
    backup: str | None = None,
    to_entry: int | None = None,
    to_time_ms: int | None = None,
    found: Callable[[Finding], None] | None = None,
    quick: bool = False,
    progress: Progress | None = None,
    repository_settings: Settings = NO_SETTINGS,
    settings: Settings = NO_SETTINGS,
) -> Restored:
    """Make a log in an empty place, as it was after an entry of a backup, and verify it.

    After an error or a kill the same call goes on. The place is no log before all of it is there. The log has the id of
    the one that was backed up: it takes its place.

    Without ``backup`` it is the newest one that has the entry or time; without those it is all of it. The last entry is
    the last one whose time is not after ``to_time_ms``. ``quick``: verify that all files are there, without reading the
    log again. Raises `ConfigError` if there is no such backup, `LogExistsError` or `NotALogError` if the place is
    not empty, and `CorruptRecordError` if the backup is damaged.
    """
    store = repository if isinstance(repository, Store) else open_store(repository, repository_settings)
    target = destination if isinstance(destination, Store) else open_store(destination, settings)
    if to_entry is not None and to_time_ms is not None:
        raise ConfigError("restore to an entry or to a time, not to both")
    # Deleting backups frees all in the repository that none of them needs.
    check_apart(store, as_stored(target).with_data(place_of_copy(target)), "restored log", "repository")
    opened = Repository.open(store)
    source = _choose(opened, backup, to_entry, to_time_ms)
    manifest = opened.load(source.id)
    last = source.last if to_entry is None else to_entry
    if to_time_ms is not None and to_time_ms < source.last_ms:
        last = entry_at_time(Log.open(BackupView(store, manifest)), to_time_ms)
    view = BackupView(store, manifest, last)
    return copy_log(
        view,
        target,
        found or _silent,
        quick=quick,
        progress=progress,
        mark={"log_id": source.log_id, "backup": source.id, "entry": last},
    )


def _choose(repository: Repository, name: str | None, entry: int | None, time_ms: int | None) -> Backup:
    """The backup that has the entry or time. Raises `ConfigError`, with what the backups have."""
    url = repository.store.url
    backups = repository.backups() if name is None else [repository.find(name)]
    if not backups:
        raise ConfigError(f"{url} has no backup: none was finished there, or all were deleted")
    until_ms = max(_until_ms(backup) for backup in backups)
    for backup in reversed(backups):
        # A backup cannot know of what came after a later one, though its clock may have been ahead.
        until_ms = min(until_ms, _until_ms(backup))
        if entry is not None and backup.first <= entry <= backup.last:
            return backup
        if time_ms is not None and backup.first_ms <= time_ms <= until_ms:
            return backup
        if entry is None and time_ms is None:
            return backup
    subject = f"entry {entry}" if entry is not None else f"the time {iso(time_ms or 0)}"
    have = "; ".join(
        f"{backup.name}: entries {backup.first} to {backup.last}, of {iso(backup.first_ms)} to "
        f"{iso(_until_ms(backup))}"
        for backup in backups[-10:]
    )
    raise ConfigError(f"no backup in {url} has {subject}. They have: {have}")


def _until_ms(backup: Backup) -> int:
    """Up to when it tells what there was."""
    return max(backup.created_ms, backup.last_ms)


def _silent(_finding: Finding) -> None:
    """Drop it: the errors say it."""
