"""Typed values as text: what is in quotes is text, and nothing else is.

Objects and lists look as in JSON. Without quotes are numbers with all their digits (``9007199254740993``, ``1.50``,
``NaN``, ``-Infinity``), ``true``, ``null``, dates, times, durations and ids. Bytes are ``b"abc"`` if all of them are
printable ASCII characters, else hexadecimal: ``X'00ff'``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

_DEEPEST = 50
"""Lists in lists are shown down to this depth."""

_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
"""Of a second."""

_NO_TIME = -(2**63)
"""numpy has no time of this number."""


def written(value: Any, most: int) -> tuple[str, bool]:
    """A value as text, and whether it was cut off: after ``most`` characters, or below the deepest level.

    ``value`` is one of Python, an Arrow scalar, or lists and mappings of both. Of a long value only the beginning is
    looked at.
    """
    writer = _Writer(most)
    try:
        writer.any(value, 0)
    except _Full:
        return "".join(writer.parts)[:most], True
    return "".join(writer.parts), writer.is_cut


class Digits:
    """A number of JSON as its writer wrote it, which Python's numbers would not show."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


class _Full(Exception):  # noqa: N818  (no error)
    """So much was wanted."""


class _Writer:
    def __init__(self, most: int) -> None:
        self.parts: list[str] = []
        self.is_cut = False
        self._left = most

    def put(self, text: str) -> None:
        self.parts.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _Full

    def any(self, value: Any, depth: int) -> None:
        if depth > _DEEPEST:
            self.is_cut = True
            self.put("…")
        elif isinstance(value, pa.Scalar):
            self._scalar(value, depth)
        elif isinstance(value, str):
            self._text(value)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self._bytes(memoryview(value))
        elif isinstance(value, Mapping):
            self._object(value.items(), depth)
        elif isinstance(value, (list, tuple, set, frozenset)):
            self._list(value, depth)
        else:
            self.put(_plain(value))

    def _text(self, value: str) -> None:
        # A few characters more than there is room for, so that it does not end here.
        self.put(json.dumps(value[: self._left + 1], ensure_ascii=False))

    def _bytes(self, value: memoryview) -> None:
        shown = bytes(value[: self._left + 1])
        if all(32 <= byte < 127 for byte in shown):
            self.put("b" + json.dumps(shown.decode("ascii")))
        else:
            self.put(f"X'{shown.hex()}'")

    def _list(self, values: Iterable[Any], depth: int) -> None:
        self.put("[")
        for at, value in enumerate(values):
            if at:
                self.put(", ")
            self.any(value, depth + 1)
        self.put("]")

    def _object(self, values: Iterable[tuple[Any, Any]], depth: int) -> None:
        self.put("{")
        for at, (name, value) in enumerate(values):
            if at:
                self.put(", ")
            self.any(name, depth + 1)
            self.put(": ")
            self.any(value, depth + 1)
        self.put("}")

    def _scalar(self, value: pa.Scalar, depth: int) -> None:
        kind = value.type
        if not value.is_valid:
            self.put("null")
        elif pa.types.is_struct(kind):
            self._object(((kind.field(at).name, value[at]) for at in range(kind.num_fields)), depth)
        elif pa.types.is_map(kind):
            items = value.values
            self._object(zip(items.field(0), items.field(1), strict=True), depth)
        elif isinstance(value, pa.ListScalar):
            self._list(value.values, depth)
        elif pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
            self._scalar(value.value, depth)
        elif _is_text(kind):
            self._stored_text(value)
        elif _is_bytes(kind):
            self._bytes(memoryview(value.as_buffer()))
        else:
            self.put(_of_arrow(value))

    def _stored_text(self, value: pa.Scalar) -> None:
        data = value.as_buffer().to_pybytes()
        try:
            self._text(data.decode("utf-8"))
        except UnicodeDecodeError:
            self._bytes(memoryview(data))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_it(kind)
        for is_it in (
            *(pa.types.is_binary, pa.types.is_large_binary),
            *(pa.types.is_binary_view, pa.types.is_fixed_size_binary),
        )
    )


def _of_arrow(value: pa.Scalar) -> str:
    """A scalar that is neither text nor bytes nor nested. Python has not all times that Arrow has: numpy has."""
    kind = value.type
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        number = value.as_py()
        # As few digits as tell it from its neighbours of its own type.
        return _float(number, (np.float32 if pa.types.is_float32(kind) else np.float16)(number))
    if pa.types.is_date32(kind):
        return _moment(value.value, "D")
    if pa.types.is_date64(kind):
        return _moment(value.value // 86_400_000, "D")
    if pa.types.is_timestamp(kind):
        return _moment(value.value, kind.unit) + ("Z" if kind.tz is not None else "")
    if pa.types.is_time(kind):
        return _clock(value.value, kind.unit)
    if pa.types.is_duration(kind):
        return _duration(value.value, kind.unit)
    return _plain(value.as_py())


def _plain(value: Any) -> str:
    """A value of Python that is neither text nor bytes nor a list."""
    kind = next((kind for kind in _PLAIN if isinstance(value, kind)), None)
    return json.dumps(str(value), ensure_ascii=False) if kind is None else _PLAIN[kind](value)


def _float(value: float, shortest: Any = None) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value if shortest is None else shortest)


def _moment(number: int, unit: str) -> str:
    if number == _NO_TIME:
        return f"{number} {unit} since 1970"
    return str(np.array(number, f"M8[{unit}]"))


def _clock(number: int, unit: str) -> str:
    seconds, part = divmod(number, _UNITS[unit])
    digits = len(str(_UNITS[unit])) - 1
    shown = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{shown}.{part:0{digits}}" if digits else shown


def _duration(number: int, unit: str) -> str:
    """Days and the time of day; all of it is negative if it begins with a sign."""
    days, remainder = divmod(abs(number), 86_400 * _UNITS[unit])
    return f"{'-' if number < 0 else ''}{days} days {_clock(remainder, unit)}"


def _datetime(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"


_PLAIN: dict[Any, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: _float,
    Decimal: lambda value: format(value, "f"),
    datetime: _datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: _duration(value // timedelta(microseconds=1), "us"),
    UUID: str,
    Digits: str,
}
"""The first that fits: a truth value is an int of Python, a datetime is a date."""
