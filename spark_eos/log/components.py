"""What a handle on a log consists of: tail, commit loop, maintenance. A forked process makes them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_eos.errors import IllegalStateError
from spark_eos.log.clock import Clock, Retry
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.loop import Committer
from spark_eos.log.commit.tail import Tail
from spark_eos.log.deciding.following import FollowingTask
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.log.expiration import ExpirationTask
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.log.snapshots.snapshots import Snapshots
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.log.warmup import ready_to_commit
from spark_eos.protocol.state import State
from spark_eos.protocol.types import Decider
from spark_eos.storage import Store
from spark_eos.storage.forks import tell_in_child
from spark_eos.storage.settings import DATA_URL
from spark_eos.storage.urls import log_settings_of

if TYPE_CHECKING:
    from spark_eos.log.handle.writing import LogWriter

_DECIDER_RETRY = Retry(deadline_s=5.0)
"""Readers wait while a log that decides for this one is asked: not for long, if its store does not answer."""


class Components:
    """The parts of one handle, and of all that were made from it.

    A forked child keeps what is known of the log, which never changes, and nothing else. Locks may be held by threads
    that the child does not have. What the parent has sent, submitted or promised to store, the parent brings to an end.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        retry: Retry,
        state: State,
        is_same: Callable[[], bool],
        environment: Environment = PROCESS,
    ) -> None:
        ready_to_commit()
        self.store = store
        self.clock = clock
        self.retry = retry
        self.environment = environment
        self._is_same = is_same
        self._of_the_parent: frozenset[bytes] = frozenset()
        self.deciders: dict[str, LogWriter] = {}
        """Logs that decide for this one, by id, as a caller has registered them."""
        self._deciders: dict[str, LogWriter] = {}
        self._make(state)
        tell_in_child(self)

    def _make(self, state: State) -> None:
        store, clock, environment = self.store, self.clock, self.environment
        self.pages = IndexPageStore(store)
        snapshots = Snapshots(store, self.pages, clock)
        self.in_doubt = InDoubtRequests()
        self.tail = Tail(store, state, snapshots.passed, clock, self.in_doubt, environment)
        self.time = Timekeeper(store, clock)
        self.time.saw(state)
        self.committer = Committer(store, self.tail, self.in_doubt, clock, self.retry, self.time, environment)
        self.commit = environment.around_commit(self.committer.commit)
        tail = self.tail
        self.maintenance = BackgroundMaintenance(
            store, snapshots, clock, self._is_same, tail.check, lambda: tail.state
        )
        self.expiration_task = ExpirationTask(self.commit, store, clock, self.time)
        self.following = FollowingTask(self.commit, clock, self.decider)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`."""
        before = self.tail
        self._of_the_parent |= self.in_doubt.ids
        self._make(before.state)
        self.tail.goes_on_from(before)

    def decider(self, decider: Decider) -> LogWriter:
        """The log that decides: where a caller has said that it is, else where the entry says."""
        log = self.deciders.get(decider.log_id) or self._deciders.get(decider.url)
        if log is None or (decider.log_id not in self.deciders and not log.is_believed()):
            from spark_eos.log.log import Log

            settings = log_settings_of(decider.url, self.store.settings).without(DATA_URL)
            opened = Log.open(
                decider.url, self.clock, _DECIDER_RETRY, settings=settings, environment=self.environment
            )
            log = self._deciders[decider.url] = opened.without_maintenance()
        return log

    def check_repeatable(self, request_id: bytes) -> None:
        """Raise `IllegalStateError` for a request of the parent's whose outcome was not known when it forked.

        Both would send it, each to another slot.
        """
        if request_id in self._of_the_parent:
            raise IllegalStateError(
                "the outcome of this commit was not known when this process was forked from the one that tried it: "
                "only that one can repeat it"
            )
