"""Verification of backups: each object is there, with the bytes that were backed up, and the log can be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.extensions.backup.backing_up import Progress
from spark_eos.extensions.backup.manifest import Backup, StoredFile
from spark_eos.extensions.backup.repository import MANIFESTS, OBJECTS, Repository
from spark_eos.extensions.backup.transfer import PART
from spark_eos.extensions.backup.view import BackupView
from spark_eos.maintenance.verify.verify import Finding, Verdict, verify
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store

_REMEDY = (
    "restore from another backup. Delete this object: then the next eoslog backup copies the file again, if the log "
    "still has it"
)
_LOST = "restore from another backup, and delete this object: this backup is lost"


@dataclass(frozen=True)
class Verified:
    """What was found."""

    whole: tuple[str, ...]
    damaged: tuple[str, ...]
    """The names of backups that can be restored, and of those that cannot."""
    files: int
    bytes: int
    """Objects that were compared with their checksums, and their bytes."""


def verify_backups(
    repository: str | os.PathLike[str] | Store,
    found: Callable[[Finding], None],
    names: Iterable[str] = (),
    *,
    quick: bool = False,
    progress: Progress | None = None,
    settings: Settings = NO_SETTINGS,
) -> Verified:
    """Read all that backups need, compare it with its checksums, and verify the log that each of them makes.

    Without names it is all backups. ``quick``: only that all is there and as long as it should be.
    """
    store = repository if isinstance(repository, Store) else open_store(repository, settings)
    opened = Repository.open(store)
    work = _Verifier(store, opened, found, progress)
    backups = [opened.find(name) for name in names] or opened.backups(work.lost)
    for backup in backups:
        work.backup(backup, quick=quick)
    return Verified(tuple(work.whole), tuple(work.damaged), work.files, work.bytes)


class _Verifier:
    def __init__(
        self,
        store: Store,
        repository: Repository,
        report: Callable[[Finding], None],
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._repository = repository
        self._report = report
        self._progress = progress
        self._problems: dict[str, str] = {}
        self._sizes = {info.name: info.size for info in store.list(OBJECTS)}
        self.whole: list[str] = []
        self.damaged: list[str] = []
        self.files = self.bytes = 0

    def lost(self, backup_id: str, error: CorruptRecordError) -> None:
        self._report(Finding(Verdict.WRONG, f"{MANIFESTS}{backup_id}.json", str(error), _LOST))
        self.damaged.append(backup_id)

    def backup(self, backup: Backup, *, quick: bool) -> None:
        try:
            manifest = self._repository.load(backup.id)
        except ObjectNotFoundError:
            return  # Deleted since.
        except CorruptRecordError as error:
            self.lost(backup.id, error)
            return
        files = [*manifest.files, *(pack.file for pack in manifest.packs)]
        bad = 0
        for number, file in enumerate(files, 1):
            problem = self._problem(file, quick=quick)
            if problem:
                bad += 1
                self._wrong(file.object_name, f"{problem}; backup {backup.name} needs it")
            if self._progress is not None:
                self._progress(f"backup {backup.name}", number, len(files))
        if not bad and not quick:
            # That the bytes are those of the log is known: what is left is that they make a log.
            summary = verify(BackupView(self._store, manifest), self._of_the_log, quick=True)
            bad = not summary.is_sound
        (self.damaged if bad else self.whole).append(backup.name)

    def _problem(self, file: StoredFile, *, quick: bool) -> str:
        """What is the matter with an object; looked at once, though several backups need it."""
        name = file.object_name
        if name not in self._problems:
            self.files += 1
            self.bytes += file.size
            self._problems[name] = self._look(file, quick=quick)
        return self._problems[name]

    def _look(self, file: StoredFile, *, quick: bool) -> str:
        size = self._sizes.get(file.object_name)
        if size is None:
            return "is missing"
        if size != file.size:
            return f"has {size} bytes, not {file.size}"
        if quick:
            return ""
        digest = sha256()
        for offset in range(0, file.size, PART):
            try:
                digest.update(self._store.read(file.object_name, offset, PART))
            except ObjectNotFoundError:
                return "is missing"
        return "" if digest.hexdigest() == file.sha256 else "is damaged: its SHA-256 is not the stored one"

    def _of_the_log(self, finding: Finding) -> None:
        if finding.verdict is not Verdict.NOTE:
            self._report(finding)

    def _wrong(self, name: str, text: str) -> None:
        self._report(Finding(Verdict.WRONG, name, text, _REMEDY))
