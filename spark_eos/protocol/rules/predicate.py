"""A predicate over a named tuple and all values in it, generated as Python source: far quicker than nested checks.

It is generated once, from the types that the tuples declare. It accepts only what is certainly right. What it does not
accept goes to the slower check (`spark_eos.protocol.rules.bounds`), which names what is wrong, or accepts it after all.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from spark_eos.protocol.actions.declaration import Bounds

Predicate: TypeAlias = "Callable[[Any], bool]"

_FEW = 16
"""From so many items on, columns are quicker."""


class Limits(NamedTuple):
    """What values may be, by their place, ``Record.field``."""

    bounds: Callable[[str], Bounds]
    """Of a number, a text, or the items of a tuple or of bytes."""
    hints: Callable[[Any], dict[str, Any]]
    """The types of a record's fields."""
    extra: dict[str, list[Callable[[Any], Any]]]
    """More checks for the records of these names. They raise for what is wrong."""
    columns: dict[Any, tuple[Predicate, Callable[[Any], Any]]] = {}  # noqa: RUF012  (never changed)
    """For tuples of these records: a predicate for one, and a check of many, by columns, that raises."""


def predicate(kind: Any, limits: Limits) -> Predicate:
    """Whether a value is a ``kind`` within these limits. What a check of ``limits`` raises, this raises."""
    source = _Source(limits)
    name = source.record(kind)
    exec("\n".join(source.functions), source.names)  # noqa: S102  (made from our own types, of no value from outside)
    function: Predicate = source.names[name]
    return function


class _Source:
    """The source of the functions, one for each kind of record, and the values of the names in it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.functions: list[str] = []
        self.names: dict[str, Any] = {}
        self._records: dict[Any, str] = {}

    def record(self, kind: Any) -> str:
        """The name of the function for records of a kind."""
        if kind in self._records:
            return self._records[kind]
        name = self._records[kind] = f"is_{kind.__name__}"
        hints = self._limits.hints(kind)
        tests = [self._test(hints[field], f"{kind.__name__}.{field}", field) for field in kind._fields]
        tests += [
            f"{self._bind(extra)}(record) is None" for extra in self._limits.extra.get(kind.__name__, ())
        ]
        self.functions.append(
            f"def {name}(record):\n"
            f"    if type(record) is not {self._bind(kind)} or len(record) != {len(kind._fields)}:\n"
            "        return False\n"
            f"    {''.join(f'{field}, ' for field in kind._fields)}= record\n"
            f"    return {' and '.join(tests)}"
        )
        return name

    def _bind(self, value: Any) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name

    def _test(self, kind: Any, place: str, value: str) -> str:
        origin, args = get_origin(kind), get_args(kind)
        if origin in {UnionType, Union}:
            return self._union(args, place, value)
        if origin is tuple:
            return self._tuple(args, place, value)
        if kind is int:
            low, high, *_ = self._limits.bounds(place)
            return f"type({value}) is int and {low} <= {value} <= {high}"
        if kind is str:
            most, nul = self._limits.bounds(place)[2:4]
            test = f"type({value}) is str and len({value}) <= {most} and {value}.isascii()"
            return test if nul else f"{test} and '\\0' not in {value}"
        if hasattr(kind, "_fields"):
            return f"{self.record(kind)}({value})"
        test = f"type({value}) is {self._bind(kind)}"
        return f"{test} and len({value}) <= {self._limits.bounds(place).items}" if kind is bytes else test

    def _union(self, kinds: tuple[Any, ...], place: str, value: str) -> str:
        tests = [f"{value} is None"] if NoneType in kinds else []
        some = [kind for kind in kinds if kind is not NoneType]
        if len(some) > 1 and all(hasattr(kind, "_fields") for kind in some):
            functions = ", ".join(f"{self._bind(kind)}: {self.record(kind)}" for kind in some)
            table = f"by_type_{len(self.names)}"
            self.functions.append(f"{table} = {{{functions}}}")
            tests.append(f"type({value}) in {table} and {table}[type({value})]({value})")
        else:
            tests += [self._test(kind, place, value) for kind in some]
        return "(" + " or ".join(f"({test})" for test in tests) + ")"

    def _tuple(self, kinds: tuple[Any, ...], place: str, value: str) -> str:
        test = f"type({value}) is tuple"
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            test += f" and len({value}) <= {self._limits.bounds(place).items}"
            if kinds[0] in self._limits.columns:
                item_check, list_check = map(self._bind, self._limits.columns[kinds[0]])
                few = f"len({value}) < {_FEW} and all(map({item_check}, {value}))"
                return f"{test} and ({few} or {list_check}({value}) is None)"
            if hasattr(kinds[0], "_fields"):
                return f"{test} and all(map({self.record(kinds[0])}, {value}))"
            item = self._test(kinds[0], place, f"{value}_")
            return f"{test} and all([{item} for {value}_ in {value}])"
        parts = [f"{value}_{at}" for at in range(len(kinds))]
        inner = " and ".join(self._test(kind, place, part) for kind, part in zip(kinds, parts, strict=True))
        # A loop over one item binds the parts.
        return (
            f"{test} and len({value}) == {len(kinds)} and all([{inner} for {', '.join(parts)} in ({value},)])"
        )
