"""A log: opened or created by URL, followed, written to. What clients and Spark build on."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    DivergedLogError,
    EosLogError,
    LogExistsError,
    NotALogError,
    ObjectNotFoundError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock, Retry, new_id
from spark_eos.log.commit.gaps import check_no_gap
from spark_eos.log.commit.loop import Committed, Committer, Propose
from spark_eos.log.commit.tail import Tail
from spark_eos.log.components import Components
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records, offset_for_time, read
from spark_eos.log.data.task_io import BUFFER_BYTES, stage_rows
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.log.topics import missing_topic, new_topic, unless_exists
from spark_eos.protocol.actions import Action, CreateLog, ExpireTransaction
from spark_eos.protocol.actions.appends import check_floor
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.index import IndexPage, PageContent
from spark_eos.protocol.state import EMPTY, State, Topic
from spark_eos.protocol.types import StagedFile, TopicPartition
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store, probe, shared_store
from spark_eos.storage.forks import Lock

__all__ = ["Log"]

_BELIEVED_S = 60.0
"""For so long a log far away is believed to be the one that was opened."""

_OLD_S = 60.0
"""After so long without staging anything, the log's end is looked for before."""


class Log:
    """A handle on one log. Safe to share between threads; keep one per process and log (`Log.shared`).

    ``state`` is what was last seen; `follow` looks for news. Nothing needs to be closed.
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
        """Of a store that may not hold a log yet: use `open` or `create`. ``state`` is one seen before."""
        self.store = store
        self.clock = clock
        self._parts = Components(store, clock, retry or Retry(), state, self.is_same, environment)
        self.does_maintenance = True
        """Whether a commit by this handle is followed by a share of the log's maintenance."""
        self._staged_s = clock.monotonic()
        self._believed_until = clock.monotonic() + _BELIEVED_S

    # -- open and create ----------------------------------------------------------------------------

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
        """Open a log that is there. Raises `NotALogError`, `UnsupportedVersionError`, `CorruptRecordError`.

        ``settings`` are those of an object store, here and below.
        """
        store = url if isinstance(url, Store) else open_store(url, settings)
        log = cls(store, clock, retry, environment=environment)
        if log.follow().seq < 0:
            raise NotALogError(
                f"{store.url} is not a log: it has no {paths.entry(0)}. Reading never creates a log; check the "
                "path, or write to it first"
            )
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
        settings: Settings = NO_SETTINGS,
        environment: Environment = PROCESS,
    ) -> Log:
        """Create a log, after a probe that the store keeps its word.

        A snapshot may be taken behind every ``snapshot_interval`` entries; a folder holds
        ``entries_per_folder`` of them (0: all). Both are for ever.

        Raises `LogExistsError`, `NotALogError` if something else is there, `UnsupportedStoreError`.
        """
        store = url if isinstance(url, Store) else open_store(url, settings)
        log = cls(store, clock, retry, environment=environment)
        if log.follow().seq >= 0:
            raise LogExistsError(f"{store.url} holds a log already")
        foreign = _foreign(store)
        if foreign is not None:
            raise NotALogError(
                f"{store.url} is not a log and not empty (it holds {foreign!r}): a log is not created among other "
                "files. Choose an empty or new folder"
            )
        probe(store, clock.unique())
        log_id = new_id(clock)
        action = CreateLog(log_id, snapshot_interval, entries_per_folder)
        log.commit(lambda state: () if state.log_id else (action,), writer="create")
        if log.state.log_id != log_id:
            raise LogExistsError(f"{store.url} was created by another process at the same time")
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
        """Open the log, or create it if nothing is there."""
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
        """The handle that all clients of this process share: what it has read is read once.

        Clients share it if they have the same ``settings``: others may have other credentials. Looks for new entries
        as `follow` says of ``max_age_s``. With ``maintenance`` False the handle is one `without_maintenance`, for
        this caller alone.
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

    def without_maintenance(self) -> Log:
        """A handle on the same log, with all that is known of it, whose commits leave maintenance to others."""
        twin = copy.copy(self)
        twin.does_maintenance = False
        return twin

    def __copy__(self) -> Log:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def __reduce__(self) -> tuple[object, ...]:
        """Where it is loaded, the log is opened there. Settings of the store go along, with their secrets."""
        return _reopened, (self.store, self.clock, self._parts.retry, self.log_id, self.does_maintenance)

    @property
    def environment(self) -> Environment:
        """What this handle takes from its process."""
        return self._parts.environment

    @property
    def time(self) -> Timekeeper:
        """What this process knows of the time, by the store's clock and its own."""
        return self._parts.time

    # -- state --------------------------------------------------------------------------------------

    @property
    def _tail(self) -> Tail:
        return self._parts.tail

    @property
    def _committer(self) -> Committer:
        return self._parts.committer

    @property
    def maintenance(self) -> BackgroundMaintenance:
        """What keeps the log quick to open."""
        return self._parts.maintenance

    @property
    def url(self) -> str:
        """Where the log is."""
        return self.store.url

    @property
    def log_id(self) -> str:
        """The identity it got when it was created."""
        return self._tail.state.log_id

    @property
    def state(self) -> State:
        """The newest state seen so far."""
        return self._tail.state

    def follow(self, max_age_s: float = 0.0) -> State:
        """Look for news: one read if there is none.

        With ``max_age_s``, not where that costs a request, if the state was the newest one so long ago at most.
        """
        if max_age_s and not self.store.is_local and self._tail.age_s <= max_age_s:
            return self._tail.state
        return self._tail.follow()

    def is_same(self) -> bool:
        """Whether the log behind the URL is still the one that was opened (a folder may have been replaced)."""
        try:
            data = self.store.read(paths.entry(0))
        except ObjectNotFoundError:
            return False
        entry = decode_entry(data, 0, f"{self.url}/{paths.entry(0)}")
        action = entry.requests[0].actions[0]
        return isinstance(action, CreateLog) and action.log_id == self.log_id

    def check(self) -> None:
        """Raise `DivergedLogError` if the newest entry that was read is gone or another one: files were put back.

        One system call in a folder; at most one request a minute where it costs one: then it is the entry that was the
        newest one a minute ago.
        """
        self._tail.check()

    def is_believed(self) -> bool:
        """`is_same` and `check`, asked once a minute where that is a request."""
        now = self.clock.monotonic()
        if not self.store.is_local and now < self._believed_until:
            return True
        try:
            if not self.is_same():
                return False
            self.check()
        except DivergedLogError:
            return False
        self._believed_until = now + _BELIEVED_S
        return True

    def topic(self, name: str) -> Topic:
        """The topic, looked for in the newest state if need be. Raises `UnknownTopicOrPartitionError`."""
        topic = self.state.topics.get(name) or self.follow().topics.get(name)
        if topic is None:
            raise missing_topic(self.state, name, self.url)
        return topic

    # -- write --------------------------------------------------------------------------------------

    def commit(self, propose: Propose, *, writer: str = "", request_id: bytes | None = None) -> Committed:
        """See `spark_eos.log.commit.loop.Committer.commit`. Maintenance may follow (`does_maintenance`)."""
        if request_id is not None:
            self._parts.check_repeatable(request_id)
        committed = self._parts.commit(propose, writer=writer, request_id=request_id)
        if self.does_maintenance:
            self.maintenance.run_slice(committed.state)
        return committed

    def expire_overdue(self, *, everything: bool = False, trust_clock: bool = False) -> tuple[Action, ...]:
        """End what is over in the state seen last: open transactions past their timeout, old ids and offsets.

        Cheap if there is nothing; any process may call it at any time. Returns what was ended. Old ids are
        looked for once an hour, or at once with ``everything``, which also raises what goes wrong. In a log that was
        idle they are at most a day older than its newest entry, or with ``trust_clock`` as old as the store says.
        """
        return self._parts.expiration_task.expire_overdue(
            self.state, everything=everything, trust_clock=trust_clock
        )

    def end_overdue(self) -> State:
        """`expiration`, for a reader that would have to wait for open transactions; the newest state seen then.

        Raises nothing: a reader may not be allowed to write; another process ends them then.
        """
        with suppress(EosLogError):
            self.expire_overdue()
        return self.state

    def due(self, *, trust_clock: bool = False) -> list[Action]:
        """The ids and offsets that `expiration` would forget with ``everything``."""
        return self._parts.expiration_task.due(self.state, trust_clock=trust_clock)

    def overdue(self) -> list[ExpireTransaction]:
        """The open transactions that `expiration` would end with ``everything``. Raises what the store raises."""
        return self._parts.expiration_task.overdue(self.state, everything=True)

    def ensure_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
        *,
        auto_create: bool = True,
    ) -> Topic:
        """The topic of that name, created now if it is missing and ``auto_create`` allows."""
        (topic,) = self.ensure_topics([name], partitions, schema, config=config, auto_create=auto_create)
        return topic

    def ensure_topics(
        self,
        names: Sequence[str],
        partitions: int = 1,
        schema: pa.Schema | None = None,
        *,
        config: Mapping[str, object] | None = None,
        auto_create: bool = True,
    ) -> list[Topic]:
        """The topics of these names; all that are missing are created now, in one entry, if ``auto_create`` allows."""
        missing = [name for name in names if name not in self.state.topics]
        if missing:
            known = self.follow().topics
            missing = [name for name in dict.fromkeys(missing) if name not in known]
        if missing and not auto_create:
            raise UnknownTopicOrPartitionError(
                f"{missing_topic(self.state, missing[0], self.url)} Create it with Admin.create_topic, or allow "
                "auto.create.topics.enable"
            )
        if missing:
            actions = [new_topic(name, partitions, config, schema, new_id(self.clock)) for name in missing]
            self.commit(
                lambda state: tuple(made for action in actions for made in unless_exists(state, action)),
                writer="auto.create.topics",
            )
        return [self.topic(name) for name in names]

    def stage(
        self, topic: Topic, *, compression: str | None = None, buffer_bytes: int = BUFFER_BYTES
    ) -> SegmentWriter:
        """A writer for rows of the topic; what it finishes can be committed by `commit`.

        For callers that make the rows in this thread: a second thread writes large files meanwhile. Spark's tasks get
        their rows from other processes, which work while a task writes (`spark_eos.log.data.task_io.TaskStorage`).
        Looks for news first if nothing was staged for a minute: the staging floor may have passed by a state so old.
        """
        now = self.clock.monotonic()
        if now - self._staged_s >= _OLD_S:
            self.follow()
        self._staged_s = now
        return stage_rows(
            self.store,
            topic,
            self.state.seq + 1,
            self.clock,
            compression=compression,
            buffer_bytes=buffer_bytes,
            write_behind=True,
            now_ms=self.time.record_ms(self.state),
        )

    def check_visible(self, files: tuple[StagedFile, ...]) -> None:
        """See that staged files are there for this process, whole: a commit must never list one that is not.

        Asked only of folders, where it costs a system call: a driver and executors that do not share the
        folder, and files that were removed, are found before the commit, and not by a reader.
        """
        if not self.store.is_local:
            return
        for staged in files:
            try:
                size = self.store.size(staged.file.name)
            except ObjectNotFoundError:
                check_floor(self.follow(), staged.file.name)
                raise StorageError(
                    f"{self.url}/{staged.file.name} was staged but is not here. It was removed, or the log's "
                    "folder is not shared by the driver and all executors. Nothing was committed"
                ) from None
            if size != staged.file.size:
                raise StorageError(
                    f"{self.url}/{staged.file.name} has {size} bytes here, but {staged.file.size} were written. "
                    "Nothing was committed"
                )

    def discard(self, files: tuple[StagedFile, ...]) -> None:
        """Delete staged files that are certainly in no entry: never after an unknown outcome."""
        for staged in files:
            self.store.delete(staged.file.name)

    # -- read ---------------------------------------------------------------------------------------

    def read(self, topic: Topic, fetch: Fetch) -> Records:
        """The rows of a planned fetch, checked. See `spark_eos.log.data.records.read`."""
        return read(self.store, topic, fetch)

    def offset_for_time(
        self, at: TopicPartition, timestamp_ms: int, isolation: Isolation
    ) -> tuple[int, int] | None:
        """The first visible record at or after a time, as (offset, timestamp in ms)."""
        return offset_for_time(self.store, self.state, at, timestamp_ms, isolation, self.load)

    def load(self, piece: IndexPage) -> PageContent:
        """The content of a sealed piece of an index, for `spark_eos.log.data.planner.plan`."""
        return self._parts.pieces.load(piece)


def _reopened(store: Store, clock: Clock, retry: Retry, log_id: str, does_maintenance: bool) -> Log:
    log = Log.open(store, clock, retry)
    if log.log_id != log_id:
        raise NotALogError(f"the log that was pickled is not at {store.url} any more: another one is there")
    return log if does_maintenance else log.without_maintenance()


def _foreign(store: Store) -> str | None:
    """Something in the store that no log, probe or checkpoint of ours puts there."""
    for info in store.list(""):
        if not info.name.startswith((paths.LOG, paths.DATA, "_", ".")):
            return info.name
    return None


_SHARED: dict[str | tuple[str, Settings], Log] = {}
_SHARED_LOCK = Lock()
