"""A world in which every next step is a choice: who goes on, and what the store does to what he asked for.

The choices alone decide an execution. What state a choice leads to is known without going there, because the
digest of an actor's answers stands for his inner state (`spark_eos.testing.explorer.actor`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from spark_eos.errors import ObjectExistsError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.log.names import LOG
from spark_eos.protocol.state import State
from spark_eos.testing.explorer.actor import Actor, Call, ExploredStore, Object, Role, digest, effect

__all__ = ["Late", "NondeterministicActorError", "Start", "Step", "World"]

_MISFORTUNES: Mapping[str, tuple[str, ...]] = {
    "create": ("refused", "unheard", "delayed", "doubled"),
    "delete": ("refused", "unheard"),
}
"""What can happen to a call, but for death. Of reads it does not matter why there is no answer."""

_LATE = "-late"
_CHANGES = frozenset({"create", "delete"})


class NondeterministicActorError(AssertionError):
    """The same answers led an actor to different calls: their digest does not stand for his state."""


class Late(NamedTuple):
    """A create that was asked for and may still happen, at any time or never."""

    name: str
    object: Object


class Start(NamedTuple):
    """Where all executions begin."""

    objects: dict[str, Object]
    state: State


@dataclass(frozen=True, slots=True)
class Step:
    """One choice, and all it changes. ``fault`` if it is a misfortune: their number is limited.

    The part of ``token`` before the dot says who goes on, the rest what happens to his call: ``done``,
    ``refused`` (certainly not done), ``unheard`` (done, and the reply is lost), ``delayed`` (may be done at any
    later time, or never), ``doubled`` (done twice by something below: he is told that it exists), ``killed``
    (before it is done), ``killed-after``. With ``-late`` the answer comes after all his deadlines. ``late.0``
    is a delayed create that takes effect.
    """

    token: str
    who: int
    fault: bool
    late: tuple[Late, ...]
    put: tuple[str, Object] | None = None
    drop: str | None = None
    answer: object = None
    waited: bool = False
    dies: bool = False
    digest: bytes = b""
    """Of the actor, behind this step."""


class World:
    """One execution: what the store holds, what is under way, and where every actor stands.

    ``next_calls`` is shared by all executions of an exploration: it finds out actors that are not deterministic.
    """

    def __init__(
        self, roles: tuple[Role, ...], start: Start, next_calls: dict[bytes, bytes] | None = None
    ) -> None:
        self.objects = dict(start.objects)
        self.late: tuple[Late, ...] = ()
        self.story: list[str] = []
        self._sum = 0
        self._next_calls: dict[bytes, bytes] = {} if next_calls is None else next_calls
        store = ExploredStore(self.objects)
        self.actors = [Actor(number, role, store, start.state) for number, role in enumerate(roles)]
        for actor in self.actors:
            actor.begin()

    # -- Choices ----------------------------------------------------------------------------------------

    def steps(self, *, faults: bool, last: int = -1) -> Iterator[Step]:
        """What can happen next, misfortunes last; first of all that ``last`` goes on."""
        waiting = [(actor, actor.call) for actor in self.actors if actor.call is not None]
        waiting.sort(key=lambda one: one[0].number != last)
        for actor, call in waiting:
            yield self._answered(actor, call, "done")
        for number in range(len(self.late)):
            yield self._landed(number)
        if faults:
            for actor, call in waiting:
                for kind in self._kinds(call):
                    yield self._answered(actor, call, kind)

    def step(self, token: str) -> Step:
        """The step of that name. Raises `ValueError` if it is not possible now."""
        who, _, kind = token.partition(".")
        if who == "late" and kind.isdigit() and int(kind) < len(self.late):
            return self._landed(int(kind))
        for actor in self.actors:
            if (
                actor.name == who
                and actor.call is not None
                and (kind == "done" or kind in self._kinds(actor.call))
            ):
                return self._answered(actor, actor.call, kind)
        possible = ", ".join(one.token for one in self.steps(faults=True))
        raise ValueError(f"{token!r} is not possible at this point; possible are {possible or 'no steps'}")

    def _kinds(self, call: Call) -> Iterator[str]:
        """The misfortunes that can befall the call now."""
        taken = call.operation == "create" and call.name in self.objects
        for kind in _MISFORTUNES.get(call.operation, ("refused",)):
            if taken and kind in {"delayed", "doubled"}:
                continue  # It is void, now and later.
            yield kind
            if kind != "doubled":
                yield kind + _LATE
        yield "killed"
        if call.operation in _CHANGES and not taken:
            yield "killed-after"

    def _landed(self, number: int) -> Step:
        name, body = self.late[number]
        rest = self.late[:number] + self.late[number + 1 :]
        put = None if name in self.objects else (name, body)
        return Step(f"late.{number}", -1, fault=False, late=self._possible(rest, put), put=put)

    def _answered(self, actor: Actor, call: Call, token: str) -> Step:
        kind = token.removesuffix(_LATE)
        waited = kind != token
        put, drop, late = None, None, self.late
        answer: object = None
        what = f"{call.operation} {call.name}"
        if kind == "refused":
            answer = StoreUnavailableError(f"{what}: busy")
        elif kind == "delayed":
            assert call.body is not None
            late = (*late, Late(call.name, call.body))
            answer = OutcomeUnknownError(f"{what}: no answer")
        elif kind != "killed":
            put, drop, answer = effect(self.objects, call)
            if kind == "unheard":
                answer = OutcomeUnknownError(f"{what}: the reply was lost")
            elif kind == "doubled":
                answer = ObjectExistsError(f"{what}: it exists")
        dies = kind.startswith("killed")
        so_far = actor.digest_dead() if dies else digest(actor.digest, call.digest, _heard(answer, waited))
        return Step(
            f"{actor.name}.{token}",
            actor.number,
            fault=kind != "done",
            late=self._possible(late, put),
            put=put,
            drop=drop,
            answer=answer,
            waited=waited,
            dies=dies,
            digest=so_far,
        )

    def _possible(self, late: tuple[Late, ...], put: tuple[str, Object] | None) -> tuple[Late, ...]:
        """Without creates that are void: entries are never deleted, so a taken slot stays taken."""
        if not late:
            return late
        new = None if put is None else put[0]
        return tuple(
            one
            for one in late
            if not (one.name.startswith(LOG) and (one.name == new or one.name in self.objects))
        )

    # -- Going on ---------------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        """Let it happen; whoever got an answer runs on to his next call."""
        self._sum ^= self._difference(step)
        self.late = step.late
        if step.put is not None:
            self.objects[step.put[0]] = step.put[1]
        if step.drop is not None:
            del self.objects[step.drop]
        if step.who < 0:
            self.story.append(f"{step.token}: {f'create {step.put[0]} takes effect' if step.put else 'void'}")
            return
        actor = self.actors[step.who]
        assert actor.call is not None
        answer = f" -> {type(step.answer).__name__}" if isinstance(step.answer, Exception) else ""
        self.story.append(f"{step.token}: {actor.call.operation} {actor.call.name}{answer}")
        if step.dies:
            actor.kill()
        else:
            actor.take(step.answer, waited=step.waited, so_far=step.digest)
        self.story += [f"    {actor.name} {line}" for line in actor.story]
        actor.story.clear()
        call = b"" if actor.call is None else actor.call.digest
        if self._next_calls.setdefault(actor.digest, call) != call:
            raise NondeterministicActorError(f"{actor.name} does not do the same every time: {actor.call}")

    def key(self) -> bytes:
        """Stands for the state."""
        return self._key(self._sum, self.late, [actor.digest for actor in self.actors])

    def key_after(self, step: Step) -> bytes:
        """Stands for the state behind the step."""
        digests = [actor.digest for actor in self.actors]
        if step.who >= 0:
            digests[step.who] = step.digest
        return self._key(self._sum ^ self._difference(step), step.late, digests)

    @property
    def is_over(self) -> bool:
        """Whether nobody has anything left to do; something delayed may still happen."""
        return all(actor.call is None for actor in self.actors)

    def close(self) -> None:
        """End whoever is still there."""
        for actor in self.actors:
            actor.end()

    def _difference(self, step: Step) -> int:
        changed = [step.put] if step.put is not None else []
        if step.drop is not None:
            changed.append((step.drop, self.objects[step.drop]))
        total = 0
        for name, body in changed:
            total ^= int.from_bytes(digest(name.encode(), body.digest), "big")
        return total

    @staticmethod
    def _key(objects: int, late: tuple[Late, ...], actors: list[bytes]) -> bytes:
        pending = sorted(digest(one.name.encode(), one.object.digest) for one in late)
        return digest(objects.to_bytes(16, "big"), *actors, *pending)


def _heard(answer: object, waited: bool) -> bytes:
    """Stands for an answer."""
    if isinstance(answer, Object):
        told = answer.digest
    elif isinstance(answer, BaseException):
        told = type(answer).__name__.encode()
    else:
        told = repr(answer).encode()
    return digest(told, b"late" if waited else b"")
