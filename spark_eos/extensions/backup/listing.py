"""Which backups a repository has."""

from __future__ import annotations

import os

from spark_eos.extensions.backup.manifest import Backup
from spark_eos.extensions.backup.repository import Repository
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store


def list_backups(
    repository: str | os.PathLike[str] | Store, *, settings: Settings = NO_SETTINGS
) -> list[Backup]:
    """List the backups in a repository, the oldest first.

    Parameters
    ----------
    repository
        Where the backups are.
    settings
        Settings of the repository's object store.

    Returns
    -------
    list of Backup
        Those that are whole.

    Raises
    ------
    NotALogError
        There is no repository.

    Examples
    --------
    >>> from spark_eos import Log
    >>> from spark_eos.extensions.backup.backing_up import backup_log
    >>> from spark_eos.extensions.backup.listing import list_backups
    >>> from spark_eos.storage import MemoryStore
    >>> log, repository = Log.create(MemoryStore()), MemoryStore()
    >>> _ = backup_log(log.store, repository, name="monday")
    >>> [backup.name for backup in list_backups(repository)]
    ['monday']
    """
    store = repository if isinstance(repository, Store) else open_store(repository, settings)
    return Repository.open(store).backups()


def unfinished_backups(
    repository: str | os.PathLike[str] | Store, *, settings: Settings = NO_SETTINGS
) -> list[str]:
    """List the names of backups that are under way, or whose processes have died.

    Parameters
    ----------
    repository
        Where the backups are.
    settings
        Settings of the repository's object store.

    Returns
    -------
    list of str
        In the order in which they were begun.

    Raises
    ------
    NotALogError
        There is no repository.

    Examples
    --------
    >>> from spark_eos import Log
    >>> from spark_eos.extensions.backup.backing_up import backup_log
    >>> from spark_eos.extensions.backup.listing import unfinished_backups
    >>> from spark_eos.storage import MemoryStore
    >>> log, repository = Log.create(MemoryStore()), MemoryStore()
    >>> _ = backup_log(log.store, repository, name="monday")
    >>> unfinished_backups(repository)
    []
    """
    store = repository if isinstance(repository, Store) else open_store(repository, settings)
    return [run.split("-", 2)[2] for run in Repository.open(store).running()]
