"""What a scenario is: a cast, where it begins, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from unittest import mock

from spark_eos.clients.admin import Admin
from spark_eos.log.log import Log
from spark_eos.protocol.rules import sealing
from verification.explorer.actor import FrozenClock, Role
from verification.explorer.actor_programs import TOPIC
from verification.explorer.group_channel import ExploredGroupChannel
from verification.explorer.history import Chain
from verification.explorer.scheduler import Start, World
from verification.explorer.state_fingerprint import Position
from verification.explorer.store import ExploredStore
from verification.retiring import RETIRED_AT_ONCE

__all__ = ["UNSEALED", "Check", "Scenario"]

UNSEALED = 1000
"""So many entries there are in no scenario."""

Check = Callable[[Sequence[Position], Chain], Iterator[str]]
"""What must hold when all actors have ended, beyond what always must."""


def _nothing_else(_actors: Sequence[Position], _chain: Chain) -> Iterator[str]:
    yield from ()


@dataclass(frozen=True)
class Scenario:
    """A cast and where it begins. ``faults`` is how many misfortunes there are at most, unless said otherwise."""

    name: str
    about: str
    roles: tuple[Role, ...]
    faults: int = 1
    partitions: int = 1
    deletes: bool = False
    """Whether an actor looks at data files of others."""
    interval: int = UNSEALED
    """Entries from one snapshot to the next. Unless so many that there is none, pages of indexes are small, too."""
    before: Callable[[Log], None] = lambda _log: None
    check: Check = _nothing_else
    meets: type[ExploredGroupChannel] | None = None
    """Where those that write at once meet, to share an entry."""

    ages: bool = False
    """Whether the store has a clock, by which everything is old at once."""

    @property
    def maintained(self) -> bool:
        """Whether entries may be retired, and there are snapshots and pages of indexes."""
        return self.interval != UNSEALED

    def surroundings(self) -> AbstractContextManager[object]:
        """What the scenario has to run in."""
        if not self.maintained:
            return nullcontext()
        return mock.patch.multiple(sealing, PAGE_ROWS=2, FAN_OUT=2)

    def start(self) -> Start:
        """The log with its topic, and whatever was done ``before``."""
        store = ExploredStore({})
        log = Log.create(
            store, FrozenClock("before"), snapshot_interval=self.interval, config=RETIRED_AT_ONCE
        )
        Admin(log).create_topic(TOPIC, self.partitions)
        self.before(log)
        if self.maintained:
            log.maintenance.snapshot()  # Actors share this state: nothing in it may be dropped from memory later.
        state = log.follow()
        pages = (page for one in state.partitions.values() for page in one.index.pages)
        assert all(page.content is None for page in pages), "let it end where a snapshot is"
        return Start(dict(store.objects), state)

    def world(self) -> World:
        """All executions of this cast."""
        return World(
            self.roles,
            self.start(),
            deletes=self.deletes,
            maintained=self.maintained,
            meets=self.meets,
            ages=self.ages,
        )
