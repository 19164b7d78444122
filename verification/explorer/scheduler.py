"""A world in which every next step is a choice: which actor goes on, and what the store does with its call.

The choices alone decide an execution. A moment of it holds what is in the store, what is under way, and the position
of every actor (`verification.explorer.state_fingerprint`); a step leads to another moment and changes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from immutables import Map

from spark_eos.errors import ObjectExistsError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.log import paths
from spark_eos.log.paths import DATA, LOG
from spark_eos.protocol.state import State
from verification.explorer.actor import Role
from verification.explorer.group_channel import ExploredGroupChannel
from verification.explorer.history import Chain, Chains
from verification.explorer.state_fingerprint import Cast, Position, Transition
from verification.explorer.store import GROUP_CHANNEL, Call, Object, digest, effect

__all__ = ["Configuration", "Late", "SharedNameError", "Start", "Step", "World"]

_MISFORTUNES: Mapping[str, tuple[str, ...]] = {
    "create": ("refused", "unheard", "delayed", "doubled"),
    "delete": ("refused", "unheard"),
    "overwrite": ("refused", "unheard"),
}
"""What can happen to a call, but for death. Of reads it does not matter why there is no answer."""

_LATE = "-late"
_CHANGES = frozenset({"create", "delete", "overwrite"})
_FIRST = paths.entry(0)


class SharedNameError(AssertionError):
    """Something is deleted or looked at by others than who wrote it, and the scenario does not say so."""


class Late(NamedTuple):
    """A create that was asked for and may still happen, at any time or never."""

    name: str
    object: Object


class Start(NamedTuple):
    """Where all executions begin."""

    objects: dict[str, Object]
    state: State


class Configuration:
    """What the store holds, what is under way, and the positions of all actors. It is never changed."""

    __slots__ = ("chain", "key", "late", "objects", "positions", "sum")

    def __init__(
        self,
        objects: Map[str, Object],
        total: int,
        late: tuple[Late, ...],
        positions: tuple[Position, ...],
        chain: Chain,
    ) -> None:
        self.objects = objects
        self.sum = total
        """Stands for the objects."""
        self.late = late
        self.positions = positions
        self.chain = chain
        pending = sorted(_differs(*one) for one in late) if late else ()
        self.key = digest(
            total.to_bytes(16, "big"),
            b"".join([one.digest for one in positions]),
            b"".join([one.to_bytes(16, "big") for one in pending]),
        )
        """Stands for the moment."""

    @property
    def is_over(self) -> bool:
        """Whether all actors have ended; something delayed may still happen."""
        return all(one.is_over for one in self.positions)


class Step(NamedTuple):
    """One choice, and where it leads. ``fault`` if it is a misfortune: their number is limited.

    The part of ``token`` before the dot names the actor that goes on, the rest what happens to its call: ``done``,
    ``refused`` (certainly not done), ``unheard`` (done, and the reply is lost), ``delayed`` (may be done at any
    later time, or never), ``doubled`` (done twice by a library below: the answer says that it exists), ``killed``
    (before it is done), ``killed-after``. With ``-late`` the answer comes after all its deadlines. ``late.0``
    is a delayed create that takes effect.
    """

    token: str
    who: int
    fault: bool
    moment: Configuration
    story: tuple[str, ...]
    takes_back: bool


class World:
    """All executions of a cast. ``deletes``: some actors look at data files of others, to delete them.

    ``maintained``: entries may be retired, and there are snapshots and pages of indexes, which come and go.
    ``meets``: where those that write at once meet, to share an entry. ``ages``: the store has a clock, by which all is
    old.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        start: Start,
        *,
        deletes: bool = False,
        maintained: bool = False,
        meets: type[ExploredGroupChannel] | None = None,
        ages: bool = False,
    ) -> None:
        self.cast = Cast(roles, start.objects, start.state, meets=meets, ages=ages)
        self.chains = Chains()
        self._deletes = deletes
        self._maintained = maintained
        self._users: dict[str, tuple[int, int]] = {}
        """The user of a data file: the number of the actor, and its life."""
        positions = tuple(one.position for one in self.cast.first())
        self.start = Configuration(Map(start.objects), 0, (), positions, self.chains.of(start.objects))
        self._remember(self.start.chain, self.start.objects)

    # -- Choices ----------------------------------------------------------------------------------------

    def steps(
        self,
        moment: Configuration,
        *,
        faults: bool,
        last: int = -1,
        positions: Sequence[Position] | None = None,
    ) -> Iterator[Step]:
        """What can happen next, misfortunes last; first of all that ``last`` goes on.

        Only what can happen to those of ``positions``, if they are given.
        """
        chosen = moment.positions if positions is None else positions
        waiting = [(one, thread, call) for one in chosen for thread, call in one.calls]
        waiting.sort(key=lambda one: one[0].number != last)
        for position, thread, call in waiting:
            yield self._answered(moment, position, thread, call, "done")
        if positions is None:
            for number in range(len(moment.late)):
                yield self._landed(moment, number)
        if faults:
            for position, thread, call in waiting:
                for kind in _kinds(moment, call):
                    yield self._answered(moment, position, thread, call, kind)

    def step(self, moment: Configuration, token: str) -> Step:
        """The step of that name. Raises `ValueError` if it is not possible now."""
        who, _, kind = token.partition(".")
        if who == "late" and kind.isdigit() and int(kind) < len(moment.late):
            return self._landed(moment, int(kind))
        for position in moment.positions:
            for thread, call in position.calls:
                if position.label(thread) == who and (kind == "done" or kind in _kinds(moment, call)):
                    return self._answered(moment, position, thread, call, kind)
        possible = ", ".join(one.token for one in self.steps(moment, faults=True))
        raise ValueError(f"{token!r} is not possible at this point; possible are {possible or 'no steps'}")

    def alone(self, moment: Configuration, position: Position) -> bool:
        """Whether nothing that others do can change what its next steps do, nor be changed by it.

        So is a thread that takes a lock of its process, an answer that cannot be another one any more (entries, and
        notes of a checkpoint, are never deleted, but they may be retired), and what becomes of a data file that
        no other actor looks at.
        """
        return bool(position.calls) and all(self._is_alone(moment, call) for _, call in position.calls)

    def _is_alone(self, moment: Configuration, call: Call) -> bool:
        if call.operation == "lock":
            return True
        if call.name.startswith(GROUP_CHANNEL):
            return False
        there = call.name in moment.objects
        if not call.name.startswith(DATA):
            if self._maintained and call.name != _FIRST:
                return there and call.operation == "create" and _is_entry(call.name)
            return there and call.operation in {"create", "read", "size", "age_s"}
        if self._deletes or moment.late:
            return False  # What is under way may be this file, or an entry that lists it.
        return call.operation in _CHANGES or (there and call.operation in {"read", "size"})

    def _landed(self, moment: Configuration, number: int) -> Step:
        name, body = moment.late[number]
        rest = moment.late[:number] + moment.late[number + 1 :]
        put = None if name in moment.objects else (name, body)
        then = self._then(moment, moment.positions, put, None, rest)
        what = f"create {name} takes effect" if put else "void"
        return Step(f"late.{number}", -1, False, then, (f"late.{number}: {what}",), False)

    def _answered(
        self, moment: Configuration, position: Position, thread: int, call: Call, token: str
    ) -> Step:
        kind = token.removesuffix(_LATE)
        put, drop, late = None, None, moment.late
        answer: object = None
        what = f"{call.operation} {call.name}"
        if call.operation != "lock":
            self._check_user(moment, position, call)
        if kind == "refused":
            answer = StoreUnavailableError(f"{what}: busy")
        elif kind == "delayed":
            assert call.body is not None
            late = (*late, Late(call.name, call.body))
            answer = OutcomeUnknownError(f"{what}: no answer")
        elif kind != "killed" and call.operation != "lock":
            put, drop, answer = effect(moment.objects, call)
            if kind == "unheard":
                answer = OutcomeUnknownError(f"{what}: the reply was lost")
            elif kind == "doubled":
                answer = ObjectExistsError(f"{what}: it exists")
        reached: Transition
        if kind.startswith("killed"):
            reached = self.cast.killed(position)
        else:
            reached = self.cast.after(position, thread, answer, waited=kind != token)
        positions = moment.positions
        number = position.number
        positions = (*positions[:number], reached.position, *positions[number + 1 :])
        then = self._then(moment, positions, put, drop, late)
        label = f"{position.label(thread)}.{token}"
        told = f" -> {type(answer).__name__}" if isinstance(answer, Exception) else ""
        story = (f"{label}: {what}{told}", *(f"    {position.name} {line}" for line in reached.story))
        return Step(label, number, kind != "done", then, story, reached.takes_back)

    def _then(
        self,
        moment: Configuration,
        positions: tuple[Position, ...],
        put: tuple[str, Object] | None,
        drop: str | None,
        late: tuple[Late, ...],
    ) -> Configuration:
        objects, total, chain = moment.objects, moment.sum, moment.chain
        if put is not None:
            name = put[0]
            if name in objects:
                total ^= _differs(name, objects[name])
            elif _is_entry(name):
                chain = self.chains.after(chain, *put)
            objects, total = objects.set(*put), total ^ _differs(*put)
            self._remember(chain, objects)
        if drop is not None:
            if not self._maintained and not drop.startswith((DATA, GROUP_CHANNEL)):
                raise SharedNameError(f"{drop} is deleted: only data files ever are")
            total ^= _differs(drop, objects[drop])
            objects = objects.delete(drop)
        if late:  # Entries are never deleted, so a taken slot stays taken: a create there is void.
            late = tuple(one for one in late if not (_is_entry(one.name) and one.name in objects))
        return Configuration(objects, total, late, positions, chain)

    def _remember(self, chain: Chain, objects: Map[str, Object]) -> None:
        """See what is committed in the log while it is there: files may be deleted that were rolled since."""
        if self._maintained and chain.values is None and all(name in objects for name in chain.files):
            chain.committed(objects)

    def _check_user(self, moment: Configuration, position: Position, call: Call) -> None:
        """Check that only one life of one actor uses a data file, if no actor deletes files."""
        if self._deletes or not call.name.startswith(DATA):
            return
        if call.operation == "read" and call.name in moment.chain.ever:
            return  # It is or was in the log: its writer does nothing more with it.
        if call.operation == "list" or (
            self._users.setdefault(call.name, (position.number, position.life))
            != (position.number, position.life)
        ):
            raise SharedNameError(f"{position.name} uses {call.name} ({call.operation}), as others do")


def _kinds(moment: Configuration, call: Call) -> Iterator[str]:
    """The misfortunes that can befall the call now."""
    if call.operation == "lock":
        return  # Death of a process is seen at its calls of the store: nothing outside changes meanwhile.
    taken = call.operation == "create" and call.name in moment.objects
    meets = call.name.startswith(GROUP_CHANNEL)
    for kind in _MISFORTUNES.get(call.operation, ("refused",)):
        if (taken or meets) and kind in {"delayed", "doubled"}:
            continue  # It is void, now and later.
        yield kind
        if kind != "doubled":
            yield kind + _LATE
    yield "killed"
    if call.operation in _CHANGES and not taken:
        yield "killed-after"


def _is_entry(name: str) -> bool:
    return name.startswith(LOG) and not name.startswith((paths.SNAPSHOTS, paths.INDEX))


_differences: dict[tuple[str, bytes], int] = {}


def _differs(name: str, body: Object) -> int:
    """What an object adds to the sum that stands for all of them."""
    known = _differences.get((name, body.digest))
    if known is None:
        known = int.from_bytes(digest(name.encode(), body.digest), "big")
        _differences[name, body.digest] = known
    return known
