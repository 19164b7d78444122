"""What is given to the calls of the admin client has the form that their signatures say: checked at one place."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache, wraps
from numbers import Real
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from spark_eos.errors import InvalidRequestError
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

_SHOWN: dict[Any, str] = {
    Any: "any value",
    object: "any value",
    NoneType: "None",
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    os.PathLike: "a path",
    Callable: "a function",
    datetime: "a datetime",
    timedelta: "a timedelta",
    pa.Schema: "a pyarrow.Schema",
    pa.DataType: "a type of pyarrow",
    Log: "a Log",
    TopicPartition: "TopicPartition(topic, partition)",
}
"""How errors call a type."""

_ALIKE = {Any, TopicPartition}
"""Of these, and of those that errors call by their own names, all is taken: who uses it knows what looks like one."""


def checks_arguments(kind: C) -> C:
    """The same class. Its calls raise `InvalidRequestError` for an argument that is of another form than its type."""
    for name, call in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            setattr(kind, name, _checked(call))
    return kind


def _checked(call: Callable[P, R]) -> Callable[P, R]:
    @wraps(call)
    def check(*args: P.args, **kwargs: P.kwargs) -> R:
        signature, types = _of(call)
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            arguments = {}  # The call itself says which arguments it has.
        for name, value in arguments.items():
            if name in types and not _fits(value, types[name]):
                raise InvalidRequestError(f"{call.__name__}: {name}={value!r}; expected {_text(types[name])}")
        return call(*args, **kwargs)

    return check


@cache
def _of(call: Callable[..., object]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(call), get_type_hints(call)


def _fits(value: Any, type_: Any) -> bool:
    kind, parts = get_origin(type_) or type_, get_args(type_)
    if kind in {Union, UnionType}:
        return any(_fits(value, part) for part in parts)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, parts[0]) and _fits(item, parts[1]) for key, item in value.items()
        )
    if kind in {Iterable, Collection}:
        if isinstance(value, str):
            return str in {parts[0], *get_args(parts[0])}  # A single name, not its letters.
        if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
            return False
        return not isinstance(value, Collection) or all(_fits(item, parts[0]) for item in value)
    if kind is Callable:
        return callable(value)
    if kind in {int, float}:
        is_number = hasattr(value, "__index__") if kind is int else isinstance(value, Real)
        return is_number and not isinstance(value, bool)
    return kind not in _SHOWN or kind in _ALIKE or isinstance(value, kind)


def _text(type_: Any) -> str:
    kind, parts = get_origin(type_) or type_, get_args(type_)
    if kind in {Union, UnionType}:
        return " or ".join(map(_text, parts))
    if kind is Mapping:
        return f"a dict of {_text(parts[0])} to {_text(parts[1])}"
    if kind in {Iterable, Collection}:
        return f"a list of {_text(parts[0])}"
    return _SHOWN[kind] if kind in _SHOWN else str(kind.__name__)
