"""Actors of an exploration: real code in a greenlet, which stops at every call of the store.

Nothing is left to chance: ids are counters, the wall clock stands still, the actor's own clock moves only when
it sleeps or waits in vain. So what an actor does next is a function of the answers it got, and their digest
stands for all of its inner state.

An actor is a process. It may have several threads, one greenlet each, that share one log; they give way at calls
of the store, and wherever they take one of the locks of the commit loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import greenlet

from spark_eos.errors import CommitOutcomeUnknownError, RetriableError
from spark_eos.log import paths
from spark_eos.log.commit.group import LEADER_TIMEOUT_S
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.deciding.following import FollowingTask
from spark_eos.log.environment import Environment, Lag
from spark_eos.log.expiration import ExpirationTask
from spark_eos.log.log import Log
from spark_eos.protocol.state import State
from spark_eos.storage.store import Store
from verification.explorer.store import Asking, Call, digest

__all__ = [
    "COMMITTED",
    "REFUSED",
    "TRIES",
    "UNKNOWN",
    "Actor",
    "Body",
    "FrozenClock",
    "Killed",
    "Role",
    "Told",
]

T = TypeVar("T")

COMMITTED, REFUSED, UNKNOWN = "committed", "refused", "unknown"
"""What an actor can be told of something it asked for; unknown also while it waits for the answer."""

WAITED_IN_VAIN_S = 1e6
"""Longer than any deadline: what a call took whose answer came late."""

TRIES = 2
"""How often an application tries a call that may work later."""

_NOW_MS = 1_800_000_000_000


class Killed(BaseException):
    """The actor is dead: raised in it where it stands, and by whatever it still tries."""


Body = Callable[["Actor"], None]


class Role(NamedTuple):
    """The part of one actor. When it is killed it starts again, until it has had so many ``lives``.

    With ``others`` it has further threads, one for each body.
    """

    name: str
    body: Body
    lives: int = 1
    others: tuple[Body, ...] = ()


class Actor:
    """One life of one actor."""

    def __init__(self, role: Role, life: int, store: Store, state: State, told: Told) -> None:
        self.name = role.name
        self.life = life
        self.told = dict(told.told)
        """The outcomes of all that it asked for: of requests by their id, of the rest by its name."""
        self.slots = dict(told.slots)
        """The slots of its requests, as far as it was answered."""
        self.error: BaseException | None = None
        self.story: list[str] = []
        self.clock = FrozenClock(f"{self.name}/{life}")
        self.store = store
        self.state = state
        self._log: ExploredLog | None = None
        self._dead = False
        self._hub = greenlet.getcurrent()
        bodies = (role.body, *role.others)
        self._threads = [Thread(self, number, body) for number, body in enumerate(bodies)]
        for thread in self._threads:
            thread.switch()

    # -- For bodies -------------------------------------------------------------------------------------

    def open(self) -> ExploredLog:
        """The log as it was when everything began. All threads share it."""
        if self._log is None:
            alone = len(self._threads) == 1
            self._log = ExploredLog(self, ALONE if alone else replace(ALONE, lock=_Locks()))
        return self._log

    def note(self, name: str, told: str) -> None:
        """What the application was told of something that has this name in the log."""
        self.told[name] = told
        self.story.append(f"{name}: {told}")

    def patiently(self, call: Callable[[], T]) -> T:
        """Repeat a call that may work later, a few times."""
        for _ in range(TRIES - 1):
            try:
                return call()
            except RetriableError as error:
                self.story.append(f"tries again: {type(error).__name__}")
        return call()

    # -- For the world ----------------------------------------------------------------------------------

    def calls(self) -> tuple[tuple[int, Call], ...]:
        """What its threads wait for, and which thread; without those that wait for a lock that is taken."""
        return tuple(
            (thread.number, thread.call)
            for thread in self._threads
            if thread.call is not None and not (thread.lock is not None and thread.lock.held)
        )

    @property
    def is_over(self) -> bool:
        """Whether all threads have ended."""
        return all(thread.dead for thread in self._threads)

    def take(self, thread: int, answer: object, *, waited: bool) -> None:
        """Give a thread its answer, and let it run to its next call."""
        if waited:
            self.clock.now += WAITED_IN_VAIN_S
        chosen = self._threads[thread]
        self._hub = greenlet.getcurrent()
        chosen.parent = self._hub
        chosen.answer, chosen.call = answer, None
        chosen.switch()

    def end(self) -> None:
        """Unwind what it was about to do."""
        self._dead = True
        for thread in self._threads:
            if not thread.dead:
                thread.parent = greenlet.getcurrent()
                thread.throw(Killed)

    def ask(self, call: Call, lock: Lock | None = None) -> object:
        """Wait for an answer. Called in a thread's greenlet."""
        if self._dead:
            raise Killed
        thread = greenlet.getcurrent()
        assert isinstance(thread, Thread)
        thread.call, thread.lock, thread.answer = call, lock, None
        self._hub.switch()
        if isinstance(thread.answer, BaseException):
            raise thread.answer
        return thread.answer


class Told(NamedTuple):
    """The outcomes that an actor got so far, in all its lives. Survives the actor."""

    told: Mapping[str, str] = {}
    slots: Mapping[str, int] = {}


class Thread(Asking):
    """One thread of an actor, and the call that it waits for."""

    def __init__(self, actor: Actor, number: int, body: Body) -> None:
        super().__init__(self._go)
        self.actor = actor
        self.who = f"{actor.name}{actor.life}"
        self.number = number
        self.call: Call | None = None
        self.lock: Lock | None = None
        self.answer: object = None
        self._body = body

    def ask(self, call: Call) -> object:
        return self.actor.ask(call)

    def _go(self) -> None:
        try:
            self._body(self.actor)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  (the explorer reports it)
            self.actor.error = error


class Lock:
    """`threading.Lock` for threads of an actor.

    With ``yields`` a thread gives way before it takes the lock, else only if it is taken.
    """

    def __init__(self, name: str, *, yields: bool) -> None:
        self.held = False
        self._yields = yields
        self._call = Call.of("lock", name)

    def __enter__(self) -> None:
        if self._yields or self.held:
            thread = greenlet.getcurrent()
            assert isinstance(thread, Thread)
            thread.actor.ask(self._call, self)
        assert not self.held
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False


class _Locks:
    """Makes the locks of the commit loop and the tail, numbered by their names."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()

    def __call__(self, name: str) -> Lock:
        self._made[name] += 1
        # The lock of the tail is only ever taken by the thread that has the turn: it is no place to give way.
        return Lock(f"{name} {self._made[name]}", yields=name != "tail")


_LOOK_S = 0.7 * LEADER_TIMEOUT_S
_LAG = Lag(after=0, requests=0.0, skips=1000, most_s=0.0, each_s=0.0)
ALONE = Environment(leader_looks_s=(_LOOK_S, _LOOK_S), lag=_LAG)
"""Of an actor with one thread. It looks at most twice whether the leader of group commit is done.

It lags as soon as another one has led, where that is reported.
"""


class FrozenClock:
    """`spark_eos.log.clock.Clock` of one life of an actor: ``who`` makes its ids differ from all others'."""

    def __init__(self, who: str) -> None:
        self.now = 0.0
        self._who = who
        self._ids = 0

    def now_ms(self) -> int:
        return _NOW_MS

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds  # The call after it is where others get their turn.

    def unique(self) -> bytes:
        self._ids += 1
        return digest(f"{self._who}/{self._ids}".encode())

    def jitter(self) -> float:
        return 0.5


class ExploredLog(Log):
    """A log whose actor remembers the outcome of every request."""

    def __init__(self, actor: Actor, environment: Environment) -> None:
        super().__init__(actor.store, actor.clock, state=actor.state, environment=environment)
        self._actor = actor
        name = paths.entry(max(self.state.seq, 0), self.state.entries_per_folder)
        # The entry after which the exploration begins was read: it is no step to look at it again.
        self._tail._divergence.has_read(self.state, self.store.identity(name))  # noqa: SLF001
        self._parts.following = FollowingTask(self.commit, self.clock, self._parts.decider)
        self._parts.expiration_task = ExpirationTask(self.commit, self.store, self.clock, self.time)

    def commit(
        self, propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
    ) -> Committed:
        request_id = request_id or self.clock.unique()
        key, actor = request_id.hex(), self._actor
        actor.told[key] = UNKNOWN
        try:
            committed = super().commit(propose, writer=writer, request_id=request_id, alone=alone)
        except CommitOutcomeUnknownError:
            actor.story.append(f"request {key[:6]}: told unknown")
            raise
        except Exception as error:
            actor.told[key] = REFUSED
            actor.story.append(f"request {key[:6]}: told refused ({type(error).__name__})")
            raise
        if committed.results:
            actor.told[key] = COMMITTED
            actor.slots[key] = committed.seq
        else:
            del actor.told[key]  # There was nothing to do.
        actor.story.append(f"request {key[:6]}: told committed at {committed.seq}")
        return committed
