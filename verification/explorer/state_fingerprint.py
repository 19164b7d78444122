"""The position of each actor: what it does next follows from the answers it got.

Real code cannot be copied in the middle of a call. But what an actor does depends on nothing but the answers to
its own calls, so all of it is a tree for each actor: a position for every list of answers that it can get. Real
code runs once for every position; the executions of all actors together are walks through these trees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from spark_eos.protocol.state import State
from verification.explorer.actor import (
    COMMITTED,
    REFUSED,
    Actor,
    Role,
    Told,
)
from verification.explorer.group_channel import ExploredGroupChannel
from verification.explorer.store import Call, ExploredStore, Object, digest

__all__ = ["Cast", "NondeterministicActorError", "Position", "Transition"]

_LIVES = 3000
"""How many actors are kept where they stand; others repeat what they did when they are needed."""


class NondeterministicActorError(AssertionError):
    """The same answers led an actor to different calls: they do not stand for its state."""


class Position:
    """The position of an actor. ``digest`` stands for its answers, or, when it has ended, for the outcomes it got."""

    __slots__ = (
        "answer", "before", "calls", "digest", "error", "is_over", "life", "name", "number", "origin", "slots",
        "then", "thread", "told", "waited",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        name: str,
        life: int,
        calls: tuple[tuple[int, Call], ...],
        stands: bytes,
        told: Told,
    ) -> None:
        self.number = number
        self.name = name
        self.life = life
        self.calls = calls
        """What its threads wait for; empty when it has ended."""
        self.digest = stands
        self.told = told.told
        self.slots = told.slots
        self.error: BaseException | None = None
        self.is_over = not calls
        self.before: Position | None = None
        self.thread = 0
        self.answer: object = None
        self.waited = False
        self.origin = told
        """The outcomes that it had got when this life began."""
        self.then: dict[object, Transition] = {}
        """Where every answer that came up leads to."""

    def label(self, thread: int) -> str:
        """The name of a thread."""
        return f"{self.name}/{thread}" if thread else self.name


class Transition(NamedTuple):
    """What an answer leads to. ``takes_back``: the actor gets another outcome for something than before."""

    position: Position
    story: tuple[str, ...]
    takes_back: bool


class Cast:
    """All actors, and every position that came up."""

    def __init__(
        self,
        roles: Sequence[Role],
        objects: dict[str, Object],
        state: State,
        *,
        meets: type[ExploredGroupChannel] | None = None,
        ages: bool = False,
    ) -> None:
        self.executions = 0
        """How often an actor was run from the beginning of a life."""
        self.steps = 0
        """How many answers were given to real code."""
        self.positions = 0
        self._roles = tuple(roles)
        self._state = state
        self._store = ExploredStore(objects, meets, ages=ages)
        self._roots: dict[bytes, Transition] = {}
        self._living: OrderedDict[Position, Actor] = OrderedDict()

    def first(self) -> tuple[Transition, ...]:
        """The positions at which all actors begin."""
        return tuple(self._begin(number, 1, Told()) for number in range(len(self._roles)))

    def after(self, position: Position, thread: int, answer: object, *, waited: bool) -> Transition:
        """The position after an answer."""
        heard = (thread, _heard(answer), waited)
        known = position.then.get(heard)
        if known is None:
            actor = self._living.pop(position, None) or self._repeat(position)
            known = position.then[heard] = self._go_on(actor, position, thread, answer, waited=waited)
        return known

    def killed(self, position: Position) -> Transition:
        """The position after its death: the beginning of the next life, if it has one left."""
        known = position.then.get("killed")
        if known is None:
            told, life = Told(position.told, position.slots), position.life
            if life < self._roles[position.number].lives:
                known = self._begin(position.number, life + 1, told)
            else:
                known = Transition(self._ended(position.number, life, told, None), (), takes_back=False)
            position.then["killed"] = known
        return known

    def close(self) -> None:
        """End the actors that still run."""
        while self._living:
            self._living.popitem()[1].end()

    # -- Inside -----------------------------------------------------------------------------------------

    def _begin(self, number: int, life: int, told: Told) -> Transition:
        name = self._roles[number].name
        stands = _standing(b"begins", name, life, told)
        known = self._roots.get(stands)
        if known is None:
            actor = self._start(number, life, told)
            known = self._roots[stands] = self._arrive(actor, number, stands, told)
            known.position.origin = told
        return known

    def _start(self, number: int, life: int, told: Told) -> Actor:
        self.executions += 1
        return Actor(self._roles[number], life, self._store, self._state, told)

    def _ended(self, number: int, life: int, told: Told, error: BaseException | None) -> Position:
        name = self._roles[number].name
        stands = _standing(b"ended" if error is None else repr(error).encode(), name, life, told)
        known = self._roots.get(stands)
        if known is None:
            position = Position(number, name, life, (), stands, told)
            position.error = error
            known = self._roots[stands] = Transition(position, (), takes_back=False)
        return known.position

    def _go_on(
        self, actor: Actor, position: Position, thread: int, answer: object, *, waited: bool
    ) -> Transition:
        call = next(call for number, call in position.calls if number == thread)
        stands = digest(
            position.digest, b"%d" % thread, call.digest, _heard(answer), b"late" if waited else b""
        )
        self.steps += 1
        actor.take(thread, _anew(answer), waited=waited)
        found = self._arrive(actor, position.number, stands, Told(position.told, position.slots))
        here = found.position
        if here.calls:
            here.before, here.thread, here.answer, here.waited = position, thread, answer, waited
            here.origin = position.origin
        return found

    def _arrive(self, actor: Actor, number: int, stands: bytes, before: Told) -> Transition:
        """The position of the actor now; ``stands`` is for its answers."""
        story = tuple(actor.story)
        actor.story.clear()
        told = Told(dict(actor.told), dict(actor.slots))
        told = before if told == before else told
        takes_back = told is not before and any(
            how in {COMMITTED, REFUSED} and told.told.get(name) != how for name, how in before.told.items()
        )
        calls = actor.calls()
        if not calls and not actor.is_over:
            actor.error = AssertionError("its threads wait for each other for ever")
        if not calls:
            actor.end()
            return Transition(self._ended(number, actor.life, told, actor.error), story, takes_back)
        self.positions += 1
        position = Position(number, actor.name, actor.life, calls, stands, told)
        position.error = actor.error
        self._keep(position, actor)
        return Transition(position, story, takes_back)

    def _keep(self, position: Position, actor: Actor) -> None:
        self._living[position] = actor
        if len(self._living) > _LIVES:
            self._living.popitem(last=False)[1].end()

    def _repeat(self, position: Position) -> Actor:
        """An actor at that position, run from the beginning of its life."""
        path = [position]
        while (before := path[-1].before) is not None:
            path.append(before)
        root = path[-1]
        actor = self._start(root.number, root.life, root.origin)
        for last, here in zip(path[::-1], path[-2::-1], strict=False):
            self._same(actor, last)
            self.steps += 1
            actor.take(here.thread, _anew(here.answer), waited=here.waited)
        self._same(actor, position)
        actor.story.clear()
        return actor

    @staticmethod
    def _same(actor: Actor, position: Position) -> None:
        calls = actor.calls()
        if [(number, call.digest) for number, call in calls] != [
            (number, call.digest) for number, call in position.calls
        ]:
            raise NondeterministicActorError(f"{actor.name} does not do the same every time: {calls}")


def _standing(how: bytes, name: str, life: int, told: Told) -> bytes:
    """Stands for an actor of which only the outcomes that it got matter."""
    return digest(how, repr((name, life, sorted(told.told.items()), sorted(told.slots.items()))).encode())


def _heard(answer: object) -> bytes:
    """Stands for an answer."""
    if isinstance(answer, Object):
        return answer.digest
    if isinstance(answer, BaseException):
        return type(answer).__name__.encode()
    return repr(answer).encode()


def _anew(answer: object) -> object:
    """An answer to give: an exception is not raised twice."""
    return type(answer)(*answer.args) if isinstance(answer, BaseException) else answer
