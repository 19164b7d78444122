"""A handle on one log: what it knows, and how it reads."""

from __future__ import annotations

import copy
from typing import TypeVar

from spark_eos.config.isolation import Isolation
from spark_eos.errors import DivergedLogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.clock import Clock, Retry
from spark_eos.log.commit.counts import CommitCounts
from spark_eos.log.commit.loop import Committer
from spark_eos.log.commit.tail import Tail
from spark_eos.log.components import Components
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records, offset_for_time, read
from spark_eos.log.data_place import DataPlace, data_place
from spark_eos.log.environment import Environment
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.log.topics import topic_of
from spark_eos.protocol.actions import CreateLog
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.index import IndexPage, PageContent
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import Store
from spark_eos.storage.two_stores import absolute_place

_BELIEVED_S = 60.0
"""For so long a log far away is believed to be the one that was opened."""

Handle = TypeVar("Handle", bound="LogReader")


class LogReader:
    """The calls that look at a log."""

    def __init__(
        self, store: Store, clock: Clock, retry: Retry, *, state: State, environment: Environment
    ) -> None:
        self._store = store
        self._bound = (DataPlace(), store)
        """A place of data files, and the store that has them there: one value, so that threads see both or neither."""
        self._claimed = ""
        """The place of data files that was seen to be this log's."""
        self._has_checked_key = False
        """Whether the key of new files was seen not to be another one of the same id."""
        self.clock = clock
        self._parts = Components(store, clock, retry, state, self.is_same, environment)
        self.does_maintenance = True
        """Whether a commit by this handle is followed by a share of the log's maintenance."""
        self._staged_s = clock.monotonic()
        self._believed_until = clock.monotonic() + _BELIEVED_S

    def without_maintenance(self: Handle) -> Handle:  # noqa: PYI019  (Self needs Python 3.11)
        """Give a handle on the same log whose commits leave maintenance to other processes.

        Returns
        -------
        Log
            It shares all that is known of the log.
        """
        twin = copy.copy(self)
        twin.does_maintenance = False
        return twin

    def __copy__(self: Handle) -> Handle:  # noqa: PYI019  (Self needs Python 3.11)
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    @property
    def store(self) -> Store:
        """Where the log is: entries and data files, also where these are in two stores."""
        place = data_place(self._tail.state)
        bound_to, bound = self._bound
        if place != bound_to:
            bound = place.of(self._store)
            self._bound = (place, bound)
        return bound

    @property
    def data_location(self) -> str:
        """Where new data files are: the URL of the log, or of the store that the log names for them.

        Earlier ones may be elsewhere while they are being moved (`has_all_data`).
        """
        return absolute_place(self.url, self.state.data_url)

    @property
    def environment(self) -> Environment:
        """What this handle takes from its process: durations, locks, threads."""
        return self._parts.environment

    @property
    def time(self) -> Timekeeper:
        """The time, by the clocks of the store and of this process."""
        return self._parts.time

    @property
    def _tail(self) -> Tail:
        return self._parts.tail

    @property
    def _committer(self) -> Committer:
        return self._parts.committer

    @property
    def commit_counts(self) -> CommitCounts:
        """What this process has done to commit since it opened the log: entries, conflicts, lost replies."""
        return self._committer.counts

    @property
    def in_doubt(self) -> int:
        """How many requests of this process have no known outcome now; those under way do not count."""
        return self._parts.in_doubt.unknown(self._tail.state)

    @property
    def maintenance(self) -> BackgroundMaintenance:
        """The share of the log's maintenance that commits do."""
        return self._parts.maintenance

    @property
    def url(self) -> str:
        """Where the log is: its entries, if data files are elsewhere."""
        return self._store.url

    @property
    def log_id(self) -> str:
        """The identity that the log got when it was created."""
        return self._tail.state.log_id

    @property
    def state(self) -> State:
        """The newest known state, without a look at the store."""
        return self._tail.state

    def follow(self, max_age_s: float = 0.0) -> State:
        """Read the entries that were added since the last look: one read if there are none.

        Parameters
        ----------
        max_age_s
            Where a look costs a request: do not look if the state was the newest one this many seconds ago, or later.

        Returns
        -------
        State
            The newest state: ``topics``, ``partitions``, ``offsets`` and more. It never changes.

        Raises
        ------
        CorruptRecordError, UnsupportedVersionError
            An entry cannot be read.
        DivergedLogError
            The files of the log were exchanged or restored.
        """
        if max_age_s and not self._store.requests_are_free and self._tail.age_s <= max_age_s:
            return self._tail.state
        return self._tail.follow()

    def is_same(self) -> bool:
        """Look whether the log behind the URL is still the one that was opened. A folder may have been replaced.

        Returns
        -------
        bool
            False, if there is no log, or another one.
        """
        try:
            data = self._store.read(paths.entry(0))
        except ObjectNotFoundError:
            return False
        entry = decode_entry(data, 0, f"{self.url}/{paths.entry(0)}")
        action = entry.requests[0].actions[0]
        return isinstance(action, CreateLog) and action.log_id == self.log_id

    def check(self) -> None:
        """Check that the newest entry that was read is still in the log, unchanged.

        It costs one system call in a folder. Where it costs a request, it is asked at most once a minute, for the entry
        that was the newest one a minute ago.

        Raises
        ------
        DivergedLogError
            The files of the log were exchanged or restored.
        """
        self._tail.check()

    def is_believed(self) -> bool:
        """Do `is_same` and `check`; where that costs requests, once a minute.

        Returns
        -------
        bool
            Whether the log may be used on.
        """
        now = self.clock.monotonic()
        if not self._store.requests_are_free and now < self._believed_until:
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
        """Look up a topic, in the newest state if need be.

        Parameters
        ----------
        name
            The name of the topic.

        Returns
        -------
        Topic
            Its identity, settings and number of partitions.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        """
        return self.state.topics.get(name) or topic_of(self.follow(), name, self.url)

    def read(self, topic: Topic, fetch: Fetch) -> Records:
        """Read the rows of a planned fetch, and check them.

        Parameters
        ----------
        topic
            The topic.
        fetch
            A part of a plan of `spark_eos.log.data.planner`.

        Returns
        -------
        Records
            The rows with their offsets.

        Raises
        ------
        CorruptRecordError
            Stored bytes are not those that were written.
        """
        return read(self.store, topic, fetch)

    def offset_for_time(
        self, at: TopicPartition, timestamp_ms: int, isolation: Isolation
    ) -> tuple[int, int] | None:
        """Find the first visible record at or after a time.

        Parameters
        ----------
        at
            The partition.
        timestamp_ms
            Milliseconds since 1970 (UTC).
        isolation
            Which records are visible.

        Returns
        -------
        tuple of int, or None
            Its offset and timestamp (ms); None if no record is that late.
        """
        return offset_for_time(self.store, self.state, at, timestamp_ms, isolation, self.load)

    def load(self, page: IndexPage) -> PageContent:
        """Load a sealed page of an index, for `spark_eos.log.data.planner.plan`.

        Parameters
        ----------
        page
            The page, as the state names it.

        Returns
        -------
        PageContent
            Its rows.
        """
        return self._parts.pages.load(page)
