"""A repository of backups: names and bytes in a store, and the two rules that make deletion safe.

- A backup writes its objects into a folder of its own, and its manifest last. The manifest is created atomically, so
  a backup is whole or not there.
- A deletion looks for backups that are under way, and frees nothing while there is one: it may need the files of
  earlier backups. One that died is *given up*: something else is created in place of its manifest, which it can
  never create any more, however late it goes on.
"""

from __future__ import annotations

import calendar
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    LogExistsError,
    NotALogError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedVersionError,
)
from spark_eos.extensions.backup.manifest import (
    VERSION,
    Backup,
    Manifest,
    decode,
    encode,
    given_up,
    summary_of,
)
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.storage import PROBES, Data, Store
from spark_eos.storage.probe import is_there, probe

MARK = "repository.json"
MANIFESTS = "backups/"
RUNNING = "running/"
OBJECTS = "objects/"

_HEAD = 4096
"""Bytes of a manifest in which its first line is."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

_TIME = "%Y%m%dT%H%M%S"
_STAMP = re.compile(r"(\d{8}T\d{6})\.(\d{3})Z-", re.ASCII)
"""How ids begin: with the time of the backup, or one after the id before it."""

_BEAT_S = 15.0
"""How often a backup shows that it goes on."""

_TRIES = 5

_LOG = logging.getLogger(__name__)


class Run(NamedTuple):
    """A backup that is under way."""

    id: str
    name: str
    created_ms: int


class Repository:
    """The backups of one log in ``store``."""

    def __init__(self, store: Store, log_id: str) -> None:
        self.store = store
        self.log_id = log_id

    @staticmethod
    def open(store: Store) -> Repository:
        """The repository in a store. Raises `NotALogError` if there is none, `UnsupportedVersionError`."""
        try:
            data = store.read(MARK).to_pybytes()
        except ObjectNotFoundError:
            raise NotALogError(
                f"{store.url} is no repository of backups: it has no {MARK}. Check the path; eoslog backup makes one"
            ) from None
        try:
            mark = json.loads(data)
            version, log_id = int(mark["version"]), str(mark["log_id"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptRecordError(
                f"{store.url}/{MARK} is damaged ({error}): back up into a new place"
            ) from error
        if version > VERSION:
            raise UnsupportedVersionError(
                f"{store.url} is a repository of format version {version}; this spark_eos reads versions up to "
                f"{VERSION}: upgrade it"
            )
        return Repository(store, log_id)

    @staticmethod
    def open_or_create(store: Store, log_id: str, clock: Clock) -> Repository:
        """The repository for a log, made in an empty place. Raises `LogExistsError` if it is that of another log."""
        if not is_there(store, MARK):
            own = (".", PROBES)
            foreign_name = next((info.name for info in store.list("") if not info.name.startswith(own)), None)
            if foreign_name not in {None, MARK} and not is_there(store, MARK):
                raise NotALogError(
                    f"{store.url} is no repository of backups, and not empty (it holds {foreign_name!r}): choose an "
                    "empty folder or prefix"
                )
            probe(store, clock.unique())
            mark = {"format": "eoslog-backups", "version": VERSION, "log_id": log_id}
            with suppress(ObjectExistsError):  # Another backup was first: what it says is read now.
                put(store, MARK, json.dumps(mark).encode())
        repository = Repository.open(store)
        if repository.log_id != log_id:
            raise LogExistsError(
                f"{store.url} has the backups of log {repository.log_id}, not of log {log_id}: choose a folder or "
                "prefix of its own for each log"
            )
        return repository

    # -- What is there ------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The ids of all manifests, also of backups that were given up."""
        return sorted(
            info.name.removeprefix(MANIFESTS).removesuffix(".json")
            for info in self.store.list(MANIFESTS)
            if info.name.endswith(".json")
        )

    def backups(self, damaged: Callable[[str, CorruptRecordError], None] | None = None) -> list[Backup]:
        """All backups that are whole, the oldest first. Raises `UnsupportedVersionError`.

        ``damaged`` is called with the id of each whose manifest is none, and why. None: they are passed over.
        """
        return [*self._summaries(self.ids(), damaged)]

    def _summaries(
        self, ids: Iterable[str], damaged: Callable[[str, CorruptRecordError], None] | None = None
    ) -> Iterator[Backup]:
        for backup_id in ids:
            name = f"{MANIFESTS}{backup_id}.json"
            try:
                data = self.store.read(name, 0, _HEAD).to_pybytes()
                if b"\n" not in data:
                    data = self.store.read(name).to_pybytes()
            except ObjectNotFoundError:
                continue  # Deleted since.
            try:
                summary = summary_of(data, f"{self.store.url}/{name}")
            except CorruptRecordError as error:
                (damaged or _pass_over)(backup_id, error)
                continue
            if summary is not None:
                yield summary

    def newest(self) -> Manifest | None:
        """The newest manifest that can be read; older ones are not looked at. Raises `UnsupportedVersionError`."""
        for backup_id in reversed(self.ids()):
            try:
                return self.load(backup_id)
            except ObjectNotFoundError:
                continue  # Deleted since, or given up.
            except CorruptRecordError as error:
                _pass_over(backup_id, error)
        return None

    def load(self, backup_id: str) -> Manifest:
        """A whole manifest. Raises `ObjectNotFoundError`, also if it was given up, and what `decode` raises."""
        name = f"{MANIFESTS}{backup_id}.json"
        data, where = self.store.read(name).to_pybytes(), f"{self.store.url}/{name}"
        if summary_of(data, where) is None:
            raise ObjectNotFoundError(f"{where}: the backup was given up")
        return decode(data, where)

    def find(self, name: str) -> Backup:
        """The backup of this name or id. Raises `ConfigError`, with the names that there are."""
        backups = self.backups()
        matches = [backup for backup in backups if name == backup.id] or [
            backup for backup in backups if name == backup.name
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(backup.id for backup in matches)
            raise ConfigError(
                f"{self.store.url} has several backups named {name!r}: give an id, one of {ids}"
            )
        names = ", ".join(backup.name for backup in backups) or "none at all"
        raise ConfigError(f"{self.store.url} has no backup {name!r}; it has {names}")

    # -- A backup under way -------------------------------------------------------------------------------

    def begin(self, name: str | None, clock: Clock) -> Run:
        """Announce a backup: what it may refer to is not freed any more. Raises `ConfigError` if the name is taken."""
        ids = self.ids()
        created_ms = clock.now_ms()
        # By a clock that was ahead once, a later backup would not be the newest one, which is restored.
        after_ms = max([created_ms, *(_time_ms(newest) + 1 for newest in ids[-1:])])
        stamp = time.strftime(_TIME, time.gmtime(after_ms / 1000))
        # Names are found among the ids: no manifest has to be read for that.
        end = "" if name is None else f"-{name}"
        backup_id = f"{stamp}.{after_ms % 1000:03d}Z-{clock.unique()[-4:].hex()}{end}"
        run = Run(backup_id, name or backup_id, created_ms)
        if name is not None and any(
            backup.name == name for backup in self._summaries([id_ for id_ in ids if _may_have(id_, name)])
        ):
            raise ConfigError(
                f"{self.store.url} has a backup named {name!r} already: choose another name, or delete that one with "
                f"eoslog backups delete {self.store.url} {name}"
            )
        put(self.store, f"{RUNNING}{run.id}", json.dumps({"name": run.name}).encode())
        return run

    def finish(self, run: Run, manifest: Manifest) -> None:
        """Make the backup one. Raises `ConfigError` if it was given up meanwhile."""
        name = f"{MANIFESTS}{run.id}.json"
        data = encode(manifest)
        try:
            put(self.store, name, data)
        except ObjectExistsError:
            self.end(run)  # A late sign of life may have put it there again.
            raise ConfigError(
                f"backup {run.name} was given up by eoslog backups vacuum, since it did nothing for a long time: back "
                "up again"
            ) from None
        self.end(run)

    def end(self, run: Run) -> None:
        """The backup is whole, or will never be."""
        self.store.delete(f"{RUNNING}{run.id}")

    def running(self) -> list[str]:
        """The ids of backups that are under way, or that died."""
        return sorted(info.name.removeprefix(RUNNING) for info in self.store.list(RUNNING))

    def give_up(self, backup_id: str) -> bool:
        """See that a backup is never made whole any more; False if it is."""
        try:
            put(self.store, f"{MANIFESTS}{backup_id}.json", given_up(backup_id))
        except ObjectExistsError:
            self.store.delete(f"{RUNNING}{backup_id}")
            return False
        self.store.delete(f"{RUNNING}{backup_id}")
        return True

    def beats(self, run: Run) -> Callable[[], None]:
        """A function that shows now and then, when it is called, that the backup goes on."""
        last = SYSTEM.monotonic()

        def beat() -> None:
            nonlocal last
            now_s = SYSTEM.monotonic()
            if now_s - last >= _BEAT_S:
                last = now_s
                self.store.overwrite(f"{RUNNING}{run.id}", json.dumps({"name": run.name}).encode())

        return beat


def check_name(name: str) -> None:
    """Raise `ConfigError` if a backup cannot have the name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"a backup cannot be named {name!r}: use 1 to 100 letters, digits, '.', '_' and '-', a letter or digit "
            "first"
        )


def _time_ms(backup_id: str) -> int:
    """The time in an id; -1 if it has none."""
    match = _STAMP.match(backup_id)
    if match is None:
        return -1
    return calendar.timegm(time.strptime(match[1], _TIME)) * 1000 + int(match[2])


def _may_have(backup_id: str, name: str) -> bool:
    """Whether a backup of this id may have this name."""
    return backup_id == name or backup_id.endswith(f"-{name}")


def _pass_over(_backup_id: str, error: CorruptRecordError) -> None:
    _LOG.warning("a backup is passed over: %s", error)


def put(store: Store, name: str, data: Data) -> None:
    """Have ``name`` hold ``data``, from now or from an earlier try of the same caller.

    Raises `ObjectExistsError` if it holds something else. A create whose outcome is unknown is repeated: only that
    decides it.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            store.create(name, data)
        except ObjectExistsError:
            try:
                stored = store.read(name)
            except ObjectNotFoundError:  # The store refused a free name.
                if tries_left:
                    continue
                raise StoreUnavailableError(
                    f"{store.url}/{name} could not be created, as if it existed, and is not there: try again"
                ) from None
            if bytes(stored) != bytes(data):
                raise
            return
        except OutcomeUnknownError:
            if not tries_left:
                raise
        else:
            return
