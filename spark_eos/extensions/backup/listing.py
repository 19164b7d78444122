"""Which backups a repository has."""

from __future__ import annotations

import os

from spark_eos.extensions.backup.manifest import Backup
from spark_eos.extensions.backup.repository import Repository
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store


def list_backups(
    repository: str | os.PathLike[str] | Store, *, settings: Settings = NO_SETTINGS
) -> list[Backup]:
    """List the backups in a repository, the oldest first: those that are whole."""
    store = repository if isinstance(repository, Store) else open_store(repository, settings)
    return Repository.open(store).backups()


def unfinished_backups(
    repository: str | os.PathLike[str] | Store, *, settings: Settings = NO_SETTINGS
) -> list[str]:
    """List the names of backups that are under way, or whose processes have died."""
    store = repository if isinstance(repository, Store) else open_store(repository, settings)
    parts = [(run, run.split("-", 2)) for run in Repository.open(store).running()]
    return [of[2] if len(of) > 2 else run for run, of in parts]
