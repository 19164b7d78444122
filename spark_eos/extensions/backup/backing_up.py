"""Back a log up while it is used: only what is new is copied, and the manifest makes it a backup.

Writers, readers and maintenance of the log go on meanwhile, and this module only reads the log. A file that is gone
when its turn comes is no part of the newest state any more: then that one is backed up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby

import pyarrow as pa

from spark_eos.errors import ConfigError, CorruptRecordError, EosLogError, NotALogError, ObjectNotFoundError
from spark_eos.extensions.backup.contents import Part, contents, earliest
from spark_eos.extensions.backup.history import History, read_history
from spark_eos.extensions.backup.manifest import Backup, Manifest, Pack, StoredFile
from spark_eos.extensions.backup.repository import MARK, OBJECTS, Repository, Run, check_name
from spark_eos.extensions.backup.transfer import copy_file, store_bytes
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.data_place import check_apart, data_place
from spark_eos.log.handle.unfinished import not_a_log
from spark_eos.log.log import Log
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.protocol.actions import CreateLog
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.index_pages import decode_page
from spark_eos.protocol.index import IndexPage, PageContent
from spark_eos.protocol.state import State
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store
from spark_eos.storage.encrypted_files import as_stored
from spark_eos.storage.probe import is_there

Progress = Callable[[str, int, int], None]
"""Called with what is done, how many are done, and of how many."""

_AT_A_TIME = 8
"""Files under way, where that is requests."""


def backup_log(
    url: str | os.PathLike[str] | Store,
    repository: str | os.PathLike[str] | Store,
    *,
    name: str | None = None,
    progress: Progress | None = None,
    settings: Settings = NO_SETTINGS,
    repository_settings: Settings = NO_SETTINGS,
    clock: Clock = SYSTEM,
) -> Backup:
    """Back up a log that may be in use. Files that an earlier backup in the repository has are not copied again.

    Raises `NotALogError` if there is no log, or something else than backups in the repository; `LogExistsError` if that
    has the backups of another log; `CorruptRecordError` if the log is damaged: then there is no backup of it; and
    `ConfigError` if the name is taken, or the places lie in one another.
    """
    source = as_stored(url if isinstance(url, Store) else open_store(url, settings))
    target = repository if isinstance(repository, Store) else open_store(repository, repository_settings)
    if target.encryption_key_id is not None:
        raise ConfigError(
            f"encryption.keys does not fit the repository {target.url}: a backup has the log's files as they are "
            "stored. Leave it out"
        )
    check_apart(source, target, "repository")
    log_id = _log_id(source)
    if name is not None:
        check_name(name)
    if not is_there(target, MARK):  # What is refused leaves nothing there.
        check_apart(_with_data(source, clock), target, "repository")
    opened = Repository.open_or_create(target, log_id, clock)
    run = opened.begin(name, clock)
    try:
        manifest = _Work(source, opened, run, progress or _silent).copy()
    except BaseException:
        # Nothing refers to what was copied. Where this fails, too, it counts as under way until it is given up.
        with suppress(EosLogError):
            opened.end(run)
        raise
    opened.finish(run, manifest)
    return manifest.backup


def _log_id(source: Store) -> str:
    try:
        data = source.read(paths.entry(0))
    except ObjectNotFoundError:
        raise not_a_log(source) from None
    for action in decode_entry(data, 0, f"{source.url}/{paths.entry(0)}").requests[0].actions:
        if isinstance(action, CreateLog):
            return action.log_id
    raise CorruptRecordError(f"{source.url}/{paths.entry(0)} makes no log: run eoslog verify {source.url}")


def _with_data(source: Store, clock: Clock) -> Store:
    """The log's store with the place of its data, as far as that can be read now: the backup learns it once more."""
    with suppress(EosLogError):
        return data_place(Log.open(source, clock).state).of(source)
    return source


class _Work:
    """One backup: what it has copied stays copied if the log moves on meanwhile."""

    def __init__(self, source: Store, repository: Repository, run: Run, tell: Progress) -> None:
        self._source = source
        self._repository = repository
        self._target = repository.store
        self._run = run
        self._tell = tell
        self._beat = repository.beats(run)
        self._inside: Mapping[str, tuple[str, ...]] = {}
        self._earlier, self._stored_files = self._look_back()
        self._copied: dict[str, StoredFile] = {}

    def copy(self) -> Manifest:
        """Copy the newest state, or a newer one where parts have been removed since."""
        newest = False
        missed: set[str] = set()
        while True:
            self._tell("entries", 0, 0)
            history = read_history(self._source, self._repository, self._earlier, newest=newest)
            if history.last.log_id != self._repository.log_id:
                raise NotALogError(
                    f"{self._source.url} does not hold log {self._repository.log_id} any more: it was replaced"
                )
            self._source = data_place(history.last).of(self._source)
            check_apart(self._source, self._target, "repository")
            try:
                return self._copy(history)
            except ObjectNotFoundError as error:
                if str(error) in missed:
                    if newest:
                        raise CorruptRecordError(
                            f"{error}: the log refers to it. The log itself is damaged: run eoslog verify "
                            f"{self._source.url}"
                        ) from error
                    newest = True  # Only earlier states may need what is gone.
                    missed.clear()
                missed.add(str(error))  # A newer state refers to it no more, unless the log is damaged.

    def _look_back(self) -> tuple[Manifest | None, dict[str, StoredFile]]:
        """The newest backup that can be read, and what it has that is still there."""
        manifest = self._repository.newest()
        if manifest is None:
            return None, {}
        sizes = {info.name: info.size for info in self._target.list(OBJECTS)}
        stored_files = {
            file.name: file for file in manifest.files if sizes.get(file.object_name) == file.size
        }
        packs = all(sizes.get(pack.file.object_name) == pack.file.size for pack in manifest.packs)
        self._inside = manifest.inside
        return (manifest if packs else None), stored_files

    def _copy(self, history: History) -> Manifest:
        load = _Pages(self._source, self._target, self._stored_files).load
        needs = contents(history, load, self._stored_files, self._inside)
        files = []
        for noun, jobs in (
            ("indexes", [(name, None, set()) for name in needs.pages]),
            (
                "data files",
                [(name, size, needs.parts.get(name, set())) for name, size in needs.files.items()],
            ),
        ):
            for number, file in enumerate(self._in_parallel(jobs), 1):
                files.append(file)
                self._tell(noun, number, len(jobs))
        missing = set()
        for name, size in needs.former.items():
            try:
                files.append(self._file(name, size, needs.parts.get(name, set())))
            except ObjectNotFoundError:
                missing.add(name)
        first = history.states[earliest(history, missing, load)]
        for seq, (_, data) in sorted(history.snapshots.items()):
            name = paths.snapshot(seq)
            stored_file = self._stored_files.get(name) if seq in history.earlier_snapshots else None
            files.append(stored_file or store_bytes(self._target, self._run.id, name, data))
        packs = (*history.packs, *self._packs(history.entries))
        packs = tuple(sorted(packs, key=lambda pack: pack.first))
        return Manifest(
            self._summary(history.last, first, packs, files),
            history.last.entries_per_folder,
            packs,
            tuple(files),
            needs.inside,
        )

    def _summary(self, last: State, first: State, packs: tuple[Pack, ...], files: list[StoredFile]) -> Backup:
        new = [file for file in (*files, *(pack.file for pack in packs)) if file.owner == self._run.id]
        return Backup(
            id=self._run.id,
            name=self._run.name,
            log_id=last.log_id,
            source=self._source.url,
            created_ms=self._run.created_ms,
            first=first.seq,
            first_ms=first.timestamp_ms,
            last=last.seq,
            last_ms=last.timestamp_ms,
            files=len(files) + len(packs),
            bytes=sum(file.size for file in files) + sum(pack.file.size for pack in packs),
            new_files=len(new),
            new_bytes=sum(file.size for file in new),
        )

    def _file(self, name: str, size: int | None, parts: set[Part]) -> StoredFile:
        """The file in the repository; copied, unless it is there. Files of a name never change."""
        file = self._stored_files.get(name) or self._copied.get(name)
        if file is not None:
            return file
        self._beat()
        copied = self._copied[name] = copy_file(self._source, self._target, self._run.id, name, size, parts)
        return copied

    def _in_parallel(self, jobs: Sequence[tuple[str, int | None, set[Part]]]) -> Iterator[StoredFile]:
        free = self._source.requests_are_free and self._target.requests_are_free
        with ThreadPoolExecutor(1 if free else _AT_A_TIME) as pool:
            waiting = [pool.submit(self._file, *job) for job in jobs]
            try:
                for future in waiting:
                    yield future.result()
            finally:
                for future in waiting:
                    future.cancel()

    def _packs(self, entries: dict[int, pa.Buffer]) -> Iterator[Pack]:
        """The entries, those that follow one another in one object."""
        for _, run in groupby(enumerate(sorted(entries)), lambda pair: pair[1] - pair[0]):
            numbers = [seq for _, seq in run]
            # In another history the same name has other bytes: it is never taken from an earlier plan.
            data = b"".join(bytes(entries[seq]) for seq in numbers)
            file = store_bytes(self._target, self._run.id, f"_log/entries-{numbers[0]}-{numbers[-1]}", data)
            yield Pack(file, numbers[0], tuple(entries[seq].size for seq in numbers))


class _Pages(IndexPageStore):
    """Index pages of the log; those that it has dropped are read from the repository."""

    def __init__(self, source: Store, target: Store, files: dict[str, StoredFile]) -> None:
        super().__init__(source)
        self._repository = target
        self._names = files

    def load(self, page: IndexPage) -> PageContent:
        try:
            return super().load(page)
        except ObjectNotFoundError:
            file = self._names.get(paths.page(page))
            if file is None:
                raise
        where = f"{self._repository.url}/{file.object_name}"
        return decode_page(self._repository.read(file.object_name), page, where)


def _silent(_what: str, _done: int, _of: int) -> None:
    """Drop it."""
