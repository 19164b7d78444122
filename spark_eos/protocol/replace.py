"""`NamedTuple._replace`, in half of the time, and with a clear error.

Every request that is applied replaces a dozen values of a state, and every process applies all requests.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])

_PLACES: dict[type, dict[str, int]] = {}


def replace(value: T, /, **changes: Any) -> T:
    """A copy of ``value``, a named tuple, with these fields.

    Raises `TypeError` for a field that it does not have.
    """
    cls = type(value)
    places = _PLACES.get(cls)
    if places is None:
        places = _PLACES[cls] = {name: at for at, name in enumerate(cls._fields)}  # type: ignore[attr-defined]
    parts = [*value]
    try:
        for name, part in changes.items():
            parts[places[name]] = part
    except KeyError as error:
        raise TypeError(f"{cls.__name__} has no field {error}") from None
    return tuple.__new__(cls, parts)
