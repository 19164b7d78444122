"""What an action declares of itself: how it is stored, its rule, its evidence, its effects.

The module of an action calls `declare` once for each of its actions. Everything else looks the declaration up: the
schemas and the codec (`spark_eos.protocol.encoding`), the rules (`spark_eos.protocol.rules`), dumps and histories. So
no other module has a case for an action, and an action that was not declared cannot be written, read or applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from spark_eos.errors.hidden import safe_url
from spark_eos.protocol.encoding.avro import Shape, record, same
from spark_eos.protocol.state import PartitionKey, State
from spark_eos.protocol.types import MAX_NUMBER, ProducerStamp, TrailNote

A = TypeVar("A", bound=tuple[Any, ...])


class Bounds(NamedTuple):
    """What the values of a field may be, in any state: numbers, texts, and how many items.

    ``characters`` are those of a text at most: by default what a name has room for in Kafka's protocol. ``nul`` says
    whether a text may have NUL characters.
    """

    least: int = -1
    most: int = MAX_NUMBER
    characters: int = 32_767
    nul: bool = False
    items: int = 2**24


INT32 = Bounds(-(2**31), 2**31 - 1)
"""A number of 32 bits. If it must not be negative, the rule rejects it with a better message."""
CRC = Bounds(0, 2**32 - 1)
SETTINGS = Bounds(characters=2**20, nul=True, items=1000)


class Field(NamedTuple):
    """A field of an action: its name, how it is stored, and since which version of the format.

    A ``since`` of 0 is the version that the action itself came with. What an older entry lacks gets the default of the
    action's class.
    """

    name: str
    shape: Shape
    since: int = 0
    bounds: Bounds = Bounds()


class Fate(Enum):
    """What the state says of a request whose writer got no reply."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class Clock(Enum):
    """Which time an action is judged by (`spark_eos.protocol.rules.times`)."""

    REQUEST = "request"
    """The log's time, which the request may have moved ahead."""
    IDLE = "idle"
    """It forgets what was not used for long: a time that was checked, or the log's time before the request."""
    CHECKED = "checked"
    """It is rejected unless its writer compared its clock with the store's."""


class Answer(NamedTuple):
    """How the process that has put an action into the log reports its result to the writer of the action.

    ``write`` makes something of a result that JSON has, and ``read`` makes the result of that.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Effects(NamedTuple):
    """What an action may do beyond its own noun, as far as its values tell. Dumps and histories follow it up.

    ``producer`` is the id of the producer in whose name it acts, or whose open transaction it may end (-1: none);
    ``partitions`` are those that it appends to; ``groups`` those whose offsets it commits; ``ended`` is the transaction
    that it ends, and whether by COMMIT.
    """

    producer: int = -1
    partitions: frozenset[PartitionKey] = frozenset()
    groups: frozenset[str] = frozenset()
    ended: tuple[ProducerStamp, bool] | None = None


Tell = Callable[[State, State, Any, str], Iterable[TrailNote]]
"""``tell(before, after, action, writer)``: the states are those around the whole request.

What was so before is not told: requests are repeated, and name what is gone already.
"""


class Declaration(NamedTuple):
    """What was declared of a kind of action. See `declare` for its parts."""

    kind: type[Any]
    number: int
    since: int
    fields: tuple[Field, ...]
    rule: Callable[[State, Any], tuple[State, Any]]
    clock: Clock
    fate: Callable[[State, Any], Fate] | None
    fate_decides: bool
    is_repeatable: Callable[[Any], bool]
    effects: Callable[[Any], Effects]
    show: Callable[[Any], dict[str, Any]]
    check: Callable[[Any], None] | None
    check_written: Callable[[Any], None] | None
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any]], Any]
    answer: Answer | None
    tell: Tell | None

    @property
    def newest(self) -> int:
        """The version of the format in which the action got its newest field."""
        return max(self.since, *(max(field.since, field.shape.newest) for field in self.fields))

    def schema(self, version: int) -> dict[str, Any]:
        """Avro's schema of the action, as that version of the entries has it."""
        schemas = {field.name: field.shape.schema(version) for field in self.fields if field.since <= version}
        return record(self.kind.__name__, **schemas)


DECLARED: dict[type[Any], Declaration] = {}
"""Every action by its class."""


def declare(
    kind: type[A],
    *,
    number: int,
    since: int = 1,
    fields: tuple[Field, ...],
    rule: Callable[[State, A], tuple[State, Any]],
    clock: Clock = Clock.REQUEST,
    fate: Callable[[State, A], Fate] | None = None,
    fate_decides: bool = False,
    is_repeatable: Callable[[A], bool] = lambda _: True,
    effects: Callable[[A], Effects] = lambda _: Effects(),
    show: Callable[[A], dict[str, Any]] | None = None,
    check: Callable[[A], None] | None = None,
    check_written: Callable[[A], None] | None = None,
    read: Callable[[dict[str, Any]], A] | None = None,
    answer: Answer | None = None,
    tell: Tell | None = None,
) -> Declaration:
    """Declare an action, a named tuple.

    Parameters
    ----------
    kind
        The class. It is stored under its name.
    number
        Its place among the actions of an entry: 0, 1, ... in the order in which actions came. Entries store it, so it
        never changes.
    since
        The version of the format that it came with (`spark_eos.protocol.encoding.schema`).
    fields
        Those of the class, in their order.
    rule
        The state after the action and its result. It raises an error of `spark_eos.errors` if the state does not allow
        the action, looks at nothing but its arguments, and never changes its verdict: entries keep their outcome.
    clock
        Which time the rule sees.
    fate
        Whether the action is part of a state, for a writer that got no reply (`spark_eos.protocol.rules.fate`).
        None: the state keeps no trace of the action.
    fate_decides
        The answer of ``fate`` counts for the whole request, also if it is "unknown".
    is_repeatable
        Whether it does no harm if the action is applied twice.
    effects
        What the action may do to producers, partitions and groups.
    show
        How a dump shows it. None: its fields by name (`shown`).
    check
        Raises `InvalidRequestError` for what no state allows and neither the types nor the bounds of the fields say.
    check_written
        The same for what could not be stored without loss. It is checked before an entry is written, too.
    read
        Makes the action of its stored record, where the fields cannot be read one by one.
    answer
        How its result is reported to a writer that does not apply the entry (`spark_eos.log.commit.lagging`). None: its
        writer has to apply the entry.
    tell
        What it adds to the trail of the log (`spark_eos.protocol.rules.trail`). None: nothing.
    """
    fields = tuple(field if field.since else field._replace(since=since) for field in fields)
    names = tuple(field.name for field in fields)
    if names != kind._fields:  # type: ignore[attr-defined]
        raise TypeError(f"{kind.__name__} has the fields {kind._fields}, and declares {names}")  # type: ignore[attr-defined]
    for field in fields:
        if field.since > since and field.name not in kind._field_defaults:  # type: ignore[attr-defined]
            raise TypeError(
                f"{kind.__name__}.{field.name} needs a default: entries before version {field.since} lack it"
            )
    for other in DECLARED.values():
        if other.kind is not kind and other.number == number:
            raise TypeError(f"{kind.__name__} cannot have number {number}: {other.kind.__name__} has it")
    declaration = Declaration(
        *(kind, number, since, fields, rule, clock, fate, fate_decides, is_repeatable, effects),
        show=show or _shown_fields,
        check=check,
        check_written=check_written,
        write=_writer(fields),
        read=read or _reader(kind, fields),
        answer=answer,
        tell=tell,
    )
    DECLARED[kind] = declaration
    return declaration


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Settings that differ, for people, without what may be secret in a URL."""
    return ", ".join(
        f"{name}={safe_url(after[name])} (was {safe_url(before.get(name, 'not set'))})"
        if name in after
        else f"{name} not set any more"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _writer(fields: tuple[Field, ...]) -> Callable[[Any], dict[str, Any]]:
    writers = [(field.name, field.shape.write) for field in fields if field.shape.write is not same]

    def write(action: Any) -> dict[str, Any]:
        stored: dict[str, Any] = action._asdict()
        for name, convert in writers:
            stored[name] = convert(stored[name])
        return stored

    return write


def _reader(kind: type[A], fields: tuple[Field, ...]) -> Callable[[dict[str, Any]], A]:
    readers = [(field.name, field.shape.read) for field in fields if field.shape.read is not same]

    def read(stored: dict[str, Any]) -> A:
        for name, convert in readers:
            if name in stored:
                stored[name] = convert(stored[name])
        return kind(**stored)

    return read


def shown(value: object) -> Any:
    """A value for people and for JSON: named tuples as dicts, bytes by their length."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, tuple):
        return _shown_fields(value) if hasattr(value, "_fields") else [shown(part) for part in value]
    return value


def _shown_fields(value: Any) -> dict[str, Any]:
    return {name: shown(part) for name, part in zip(value._fields, value, strict=True)}
