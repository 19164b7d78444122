"""Actors of an exploration: real code in a greenlet, which stops at every call of the store.

Nothing is left to chance: ids are counters, the wall clock stands still, the actor's own clock moves only when
it sleeps or waits in vain. So what an actor does next is a function of the answers it got, and their digest
stands for all of its inner state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import greenlet
import pyarrow as pa

from spark_eos.errors import CommitOutcomeUnknownError, ObjectExistsError, ObjectNotFoundError, RetriableError
from spark_eos.log.commit import Committed, Propose
from spark_eos.log.log import Log
from spark_eos.log.sweep import Sweeper
from spark_eos.log.tail import Tail
from spark_eos.protocol.state import State
from spark_eos.storage.store import Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import gathered

__all__ = [
    "COMMITTED",
    "REFUSED",
    "UNKNOWN",
    "Actor",
    "Body",
    "Call",
    "ExploredStore",
    "FrozenClock",
    "Killed",
    "Object",
    "Role",
    "digest",
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


class Object(NamedTuple):
    """What the store holds under a name."""

    body: pa.Buffer
    digest: bytes


class Call(NamedTuple):
    """A call of the store that waits for its answer."""

    operation: str
    name: str
    body: Object | None
    offset: int
    length: int | None
    digest: bytes
    """Stands for the call."""

    @staticmethod
    def of(
        operation: str, name: str, body: Object | None = None, offset: int = 0, length: int | None = None
    ) -> Call:
        """A call, with its digest."""
        content = b"" if body is None else body.digest
        stands = digest(f"{operation} {name} {offset} {length}".encode(), content)
        return Call(operation, name, body, offset, length, stands)


Body = Callable[["Actor"], None]


class Role(NamedTuple):
    """Somebody who takes part; when he is killed he begins anew, until he had so many ``lives``."""

    name: str
    body: Body
    lives: int = 1


def digest(*parts: bytes) -> bytes:
    """16 bytes that stand for ``parts``."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(4, "big"))
        hashed.update(part)
    return hashed.digest()


class Actor:
    """One who takes part, in his present life."""

    def __init__(self, number: int, role: Role, store: ExploredStore, state: State) -> None:
        self.number = number
        self.name = role.name
        self.life = 0
        self.call: Call | None = None
        """What he waits for; None once he has ended."""
        self.digest = b""
        self.told: dict[str, str] = {}
        """What he was told of everything he asked for: of requests by their id, of the rest by its name."""
        self.slots: dict[str, int] = {}
        """The slots in which he was told that requests are."""
        self.error: BaseException | None = None
        self.story: list[str] = []
        self.clock = FrozenClock(self.name)
        self.store = store
        self.state = state
        self._role = role
        self._answer: object = None
        self._dead = False
        self._hub = greenlet.getcurrent()
        self._greenlet = greenlet.greenlet(self._run)

    # -- For bodies -------------------------------------------------------------------------------------

    def open(self) -> ExploredLog:
        """The log as it was when everything began."""
        return ExploredLog(self)

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

    def begin(self) -> None:
        """A new life: run to the first call."""
        self.life += 1
        self.clock = FrozenClock(f"{self.name}/{self.life}")
        self._dead = False
        self._hub = greenlet.getcurrent()
        self._greenlet = _Greenlet(self._run)
        self._greenlet.actor = self
        self.digest = self._standing(b"begins")
        self._go(None)

    def take(self, answer: object, *, waited: bool, so_far: bytes) -> None:
        """Give him the answer, and let him run to his next call. ``so_far`` stands for all he was answered."""
        self.digest = so_far
        if waited:
            self.clock.now += WAITED_IN_VAIN_S
        self._go(answer)

    def kill(self) -> None:
        """He does nothing any more; if he has lives left, the next one begins."""
        self.end()
        if self.life < self._role.lives:
            self.begin()

    def end(self) -> None:
        """Unwind what he was about to do."""
        self._dead = True
        if not self._greenlet.dead:
            self._greenlet.throw(Killed)
        self.call, self.digest = None, self.digest_dead()

    def digest_dead(self) -> bytes:
        """Stands for him after a death now: of all he knew only what he was told matters."""
        return self._standing(b"ended")

    def ask(self, call: Call) -> object:
        """Wait for an answer. Called in his greenlet."""
        if self._dead:
            raise Killed
        self.call = call
        self._answer = None
        self._hub.switch()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def _go(self, answer: object) -> None:
        self._answer = answer
        self.call = None
        self._greenlet.switch()
        if self.call is None:
            self.digest = self.digest_dead()

    def _run(self) -> None:
        try:
            self._role.body(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  (whoever explores reports it)
            self.error = error

    def _standing(self, how: bytes) -> bytes:
        told = repr((self.name, self.life, sorted(self.told.items()), sorted(self.slots.items())))
        return digest(how, told.encode())


class _Greenlet(greenlet.greenlet):
    actor: Actor


class FrozenClock:
    """`spark_eos.log.clock.Clock` of one life of an actor: ``who`` makes its ids differ from all others'."""

    def __init__(self, who: str) -> None:
        self.now = 0.0
        self._who = who
        self._ids = 0

    def now_ms(self) -> int:
        return _NOW_MS

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds  # The call behind it is where others get their turn.

    def unique(self) -> bytes:
        self._ids += 1
        return digest(f"{self._who}/{self._ids}".encode())

    def jitter(self) -> float:
        return 0.5


class ExploredLog(Log):
    """A log whose actor remembers what he was told of every request."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(actor.store, Tail(actor.store, actor.state), actor.clock)
        self._actor = actor
        self._sweeper = Sweeper(self.commit, self.clock)

    def commit(self, propose: Propose, *, writer: str = "", request_id: bytes | None = None) -> Committed:
        request_id = request_id or self.clock.unique()
        key, actor = request_id.hex(), self._actor
        actor.told[key] = UNKNOWN
        try:
            committed = super().commit(propose, writer=writer, request_id=request_id)
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


class ExploredStore(Store):
    """What the actors share. Outside of them it just works."""

    url = "explored://"
    is_local = True

    def __init__(self, objects: dict[str, Object]) -> None:
        self.objects = objects

    def create(self, name: str, data: Data) -> None:
        body = bytes(data)
        self._ask(Call.of("create", name, Object(pa.py_buffer(body), digest(body))))

    def upload(self, name: str) -> AbstractContextManager[Upload]:
        return gathered(lambda body: self.create(name, body))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        found = self._ask(Call.of("read", name, None, offset, length))
        assert isinstance(found, Object)
        return found.body

    def size(self, name: str) -> int:
        found = self._ask(Call.of("size", name))
        assert isinstance(found, int)
        return found

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found: Any = self._ask(Call.of("list", prefix))
        return iter(found)

    def delete(self, name: str) -> None:
        self._ask(Call.of("delete", name))

    def overwrite(self, name: str, data: Data) -> None:
        raise NotImplementedError("nothing that is explored overwrites")

    def _ask(self, call: Call) -> object:
        running = greenlet.getcurrent()
        if isinstance(running, _Greenlet):
            return running.actor.ask(call)
        put, drop, answer = effect(self.objects, call)
        if put is not None:
            self.objects[put[0]] = put[1]
        if drop is not None:
            del self.objects[drop]
        if isinstance(answer, BaseException):
            raise answer
        return answer


Effect = tuple[tuple[str, Object] | None, str | None, object]
"""What a call puts into the store, what it takes out, and its answer (raised if it is an exception)."""


def effect(objects: dict[str, Object], call: Call) -> Effect:
    """What a call does that nothing goes wrong with."""
    there = objects.get(call.name)
    if call.operation == "list":
        found = sorted(name for name in objects if name.startswith(call.name))
        return None, None, [ObjectInfo(name, objects[name].body.size) for name in found]
    if call.operation == "create":
        if there is not None:
            return None, None, ObjectExistsError(f"{call.name} exists")
        assert call.body is not None
        return (call.name, call.body), None, None
    if call.operation == "delete":
        return None, call.name if there is not None else None, None
    if there is None:
        return None, None, ObjectNotFoundError(f"there is no {call.name}")
    if call.operation == "size":
        return None, None, int(there.body.size)
    if call.offset == 0 and call.length is None:
        return None, None, there
    start = min(call.offset, there.body.size)
    rest = there.body.size - start
    body = there.body.slice(start, rest if call.length is None else min(call.length, rest))
    return None, None, Object(body, digest(body))
