"""Which type may become which, so that every value stays what it was: Delta's and Iceberg's widenings.

Types are as Arrow writes them. What Iceberg allows is a part of what Delta does. See docs/guide/schema-evolution.md.
"""

from __future__ import annotations

import re

WIDER: dict[str, tuple[str, ...]] = {
    "int8": ("int16", "int32", "int64", "double"),
    "int16": ("int32", "int64", "double"),
    "int32": ("int64", "double"),
    "float": ("double",),
    "date32[day]": ("timestamp[us]",),
}
"""The types without parameters, and what each may become. Whole numbers may become decimals, too (`widens`)."""

_DIGITS = {"int8": 10, "int16": 10, "int32": 10, "int64": 20}
"""The digits in front of the point that a decimal needs to become the type of such whole numbers."""

_DECIMAL = re.compile(r"decimal128\(([0-9]{1,2}), (-?[0-9]{1,2})\)", re.ASCII)


def widens(old: str, new: str) -> bool:
    """Whether a column of the type ``old`` may become one of the type ``new``, another one that holds all its values.

    A decimal may get more digits in front of the point and behind it, and fewer at neither place.
    """
    if new in WIDER.get(old, ()):
        return True
    to = _decimal(new)
    if to is None or to[1] < 0:
        return False
    if old in _DIGITS:
        return to[0] >= _DIGITS[old]
    of = _decimal(old)
    return of is not None and of != to and to[0] >= of[0] and to[1] >= of[1]


def widens_by_itself(old: str, new: str) -> bool:
    """Whether ``mergeSchema`` widens so: not from whole numbers to others, which a faulty job may have by mistake."""
    return widens(old, new) and (old not in _DIGITS or new in _DIGITS)


def _decimal(type_: str) -> tuple[int, int] | None:
    """The digits of a decimal in front of the point, and behind it; None for another type."""
    match = _DECIMAL.fullmatch(type_)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return precision - scale, scale
