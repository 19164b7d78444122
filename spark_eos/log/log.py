"""A log: opened or created by URL, followed, written to. What clients and Spark build on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from spark_eos.config.log import LOG
from spark_eos.config.reader import check_stored
from spark_eos.errors import LogExistsError, NotALogError, StoreUnavailableError
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock, Retry, new_id
from spark_eos.log.commit.gaps import check_no_gap
from spark_eos.log.data_place import check_place, free_place
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.log.handle.unfinished import not_a_log, unfinished
from spark_eos.log.handle.writing import LogWriter
from spark_eos.protocol.actions import Action, AlterLog, CreateLog, PlaceData
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store, probe, shared_store
from spark_eos.storage.forks import Lock
from spark_eos.storage.two_stores import DATA_MARK, check_claim


class Log(LogWriter):
    """A handle on one log. Safe to share between threads; keep one per process and log (`Log.shared`).

    Use `open`, `create`, `open_or_create` or `shared`. Nothing needs to be closed. ``state`` is what was last seen, and
    `follow` looks for news. `Producer`, `Consumer` and `Admin` take an open log in place of a URL.

    Parameters
    ----------
    store
        Where the log is, or will be.
    clock
        Time and chance.
    retry
        How long a store that does not answer is asked again.
    state
        A state of this log that was seen before.
    environment
        What the handle takes from its process: durations, locks and threads.

    Examples
    --------
    >>> from spark_eos import Admin, Log
    >>> from spark_eos.storage import MemoryStore
    >>> log = Log.create(MemoryStore())
    >>> Admin(log).create_topic("orders")
    >>> log.follow().seq, list(log.state.topics)
    (1, ['orders'])

    Notes
    -----
    The log and its protocol: docs/design/0001-protocol.md.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock = SYSTEM,
        retry: Retry | None = None,
        *,
        state: State = EMPTY,
        environment: Environment = PROCESS,
    ) -> None:
        super().__init__(store, clock, retry or Retry(), state=state, environment=environment)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | Store,
        clock: Clock = SYSTEM,
        retry: Retry | None = None,
        *,
        settings: Settings = NO_SETTINGS,
        environment: Environment = PROCESS,
    ) -> Log:
        """Open a log that exists.

        Parameters
        ----------
        url
            A path, a URL (``s3://bucket/path``, …), or a `Store`.
        clock
            Time and chance.
        retry
            How long a store that does not answer is asked again.
        settings
            Settings of an object store.
        environment
            What the handle takes from its process.

        Returns
        -------
        Log
            The handle, at the newest entry.

        Raises
        ------
        NotALogError
            There is no log.
        ConfigError
            ``data.url`` of the settings is another place than the log's.
        UnsupportedVersionError
            The log has a format of a newer version.
        CorruptRecordError
            An entry is damaged or missing.
        """
        store = url if isinstance(url, Store) else open_store(url, settings)
        log = cls(store, clock, retry, environment=environment)
        if log.follow().seq < 0:
            raise not_a_log(store)
        check_place(store.settings, log.state, store.url)
        check_no_gap(store, log.state, log.follow, clock, retry or Retry())
        log.time.saw(log.state)
        return log

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str] | Store,
        clock: Clock = SYSTEM,
        retry: Retry | None = None,
        *,
        snapshot_interval: int = 200,
        entries_per_folder: int = 100_000,
        config: Mapping[str, object] | None = None,
        settings: Settings = NO_SETTINGS,
        environment: Environment = PROCESS,
    ) -> Log:
        """Create a log, after a probe that the store creates a name only once.

        The other arguments are as `Log.open` has them.

        Parameters
        ----------
        snapshot_interval
            A snapshot may be taken after each this many entries. It never changes.
        entries_per_folder
            How many entries a folder holds; 0: all. It never changes.
        config
            Settings of the whole log, as `Admin.alter_log` changes them.
        settings
            Settings of an object store. With ``data.url`` data files are in a store of their own
            (docs/guide/stores/two-stores.md).

        Returns
        -------
        Log
            The handle.

        Raises
        ------
        ConfigError
            A setting is unknown or malformed.
        LogExistsError
            There is a log already.
        NotALogError
            There are other files.
        UnsupportedStoreError
            The store cannot carry a log.
        """
        changes = check_stored(LOG, config or {})
        store = url if isinstance(url, Store) else open_store(url, settings)
        log = cls(store, clock, retry, environment=environment)
        foreign = _foreign(store)
        if log.follow().seq >= 0:
            raise LogExistsError(f"{store.url} holds a log already")
        if foreign is not None:
            raise unfinished(store) or NotALogError(
                f"{store.url} is not a log and not empty (it holds {foreign!r}): a log is not created among other "
                "files. Choose an empty or new folder. If a log was there, put it back from a backup or a copy"
            )
        place = free_place(store, clock)
        probe(store, clock.unique())
        log_id = new_id(clock)
        actions: tuple[Action, ...] = (CreateLog(log_id, snapshot_interval, entries_per_folder),)
        if place:
            actions += (PlaceData(place),)
        if changes:
            actions += (AlterLog(tuple(sorted(changes.items()))),)
        log.commit(lambda state: () if state.log_id else actions, writer="create")
        if log.state.log_id != log_id:
            raise LogExistsError(f"{store.url} was created by another process at the same time")
        if place:
            with suppress(StoreUnavailableError):  # The log is there; writers look before their first file.
                check_claim(log.store, place, log_id)
        return log

    @classmethod
    def open_or_create(
        cls,
        url: str | os.PathLike[str] | Store,
        clock: Clock = SYSTEM,
        retry: Retry | None = None,
        *,
        settings: Settings = NO_SETTINGS,
        environment: Environment = PROCESS,
    ) -> Log:
        """Open a log, or create it if there is none. As `Log.open`; the errors are those of `create`, too."""
        store = url if isinstance(url, Store) else open_store(url, settings)
        try:
            return cls.open(store, clock, retry, environment=environment)
        except NotALogError:
            try:
                return cls.create(store, clock, retry, environment=environment)
            except LogExistsError:
                return cls.open(store, clock, retry, environment=environment)

    @classmethod
    def shared(
        cls,
        url: str | os.PathLike[str],
        settings: Settings = NO_SETTINGS,
        *,
        create: bool = False,
        max_age_s: float = 0.0,
        maintenance: bool = True,
    ) -> Log:
        """Give the handle that all clients of this process share. What it has read is read once.

        Parameters
        ----------
        url
            A path or a URL.
        settings
            Settings of an object store. Clients with other settings have another handle.
        create
            Whether a missing log is created.
        max_age_s
            As `follow`.
        maintenance
            False: the handle is one `without_maintenance`, for this caller alone.

        Returns
        -------
        Log
            The handle, at the newest entry. The errors are those of `open` and `create`.
        """
        store = shared_store(url, settings)
        key = (store.url, settings) if settings else store.url
        with _SHARED_LOCK:
            log = _SHARED.get(key)
            if log is None or not log.is_believed():
                log = _SHARED[key] = (cls.open_or_create if create else cls.open)(store)
                return log if maintenance else log.without_maintenance()
        log.follow(max_age_s)
        return log if maintenance else log.without_maintenance()

    def __reduce__(self) -> tuple[object, ...]:
        """Where it is loaded, the log is opened there. Settings of the store go along, with their secrets."""
        return _reopened, (self._store, self.clock, self._parts.retry, self.log_id, self.does_maintenance)


def _reopened(store: Store, clock: Clock, retry: Retry, log_id: str, does_maintenance: bool) -> Log:
    log = Log.open(store, clock, retry)
    if log.log_id != log_id:
        raise NotALogError(f"the log that was pickled is not at {store.url} any more: another one is there")
    return log if does_maintenance else log.without_maintenance()


def _foreign(store: Store) -> str | None:
    """Something in the store that no probe or checkpoint of ours puts there.

    Entries without the first one, and data files, are what is left of a log, or are another one's: a new log would take
    the place of what is missing, and its vacuum would delete the files.
    """
    of_logs = (paths.LOG, paths.COPY, DATA_MARK)
    for info in store.list(""):
        if not info.name.startswith(("_", ".")) or info.name.startswith(of_logs):
            return info.name
    return None


_SHARED: dict[str | tuple[str, Settings], Log] = {}
_SHARED_LOCK = Lock()
