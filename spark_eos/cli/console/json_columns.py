"""Values of columns as JSON, without loss, and back.

JSON has no bytes, times or exact decimals. Bytes are text where they are UTF-8, else ``{"base64": "..."}``; decimals,
dates, times and durations are text; NaN and the infinities are text.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pyarrow as pa

from spark_eos.config.nearest import suggestion
from spark_eos.log.values.json_values import to_column

Convert = Callable[[Any], Any]

_MARKER = "base64"
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=timezone.utc), date(1970, 1, 1)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?", re.ASCII)
_DURATION = re.compile(
    r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?(?<!P)(?<!T)", re.ASCII
)


def bytes_as_json(data: bytes) -> object:
    """Text if the bytes are UTF-8, else ``{"base64": "..."}``."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {_MARKER: base64.b64encode(data).decode()}


def bytes_of_json(value: Any) -> bytes:
    """The bytes of `bytes_as_json`. Raises `ValueError`."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {_MARKER} and isinstance(value[_MARKER], str):
        return base64.b64decode(value[_MARKER], validate=True)
    raise ValueError(f'expected text or {{"base64": "..."}}, found {_shown(value)}')


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type to which a column is cast before `to_json`: numbers in place of dates and times, however deep."""
    types = pa.types
    if types.is_date32(type_):
        return pa.int32()
    if types.is_time(type_) or types.is_timestamp(type_) or types.is_duration(type_):
        return pa.int64()
    if types.is_list(type_):
        return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)))
    if types.is_map(type_):
        return pa.map_(
            type_.key_field.with_type(plain_type(type_.key_type)),
            type_.item_field.with_type(plain_type(type_.item_type)),
        )
    if types.is_struct(type_):
        return pa.struct([field.with_type(plain_type(field.type)) for field in type_])
    return type_


def to_json(type_: pa.DataType) -> Convert | None:
    """A function of a value (of `plain_type`) that is not null; None if JSON has such values itself."""
    types = pa.types
    if types.is_floating(type_):
        return lambda value: value if math.isfinite(value) else _not_finite(value)
    if types.is_decimal(type_):
        return lambda value: format(value, "f")
    if types.is_binary(type_):
        return bytes_as_json
    if types.is_date32(type_):
        return _date
    if types.is_time(type_):
        return _time
    if types.is_timestamp(type_):
        return partial(_timestamp, zoned=type_.tz is not None)
    if types.is_duration(type_):
        return _duration
    if types.is_list(type_):
        item = to_json(type_.value_type)
        return None if item is None else lambda value: [_applied(item, element) for element in value]
    if types.is_map(type_):
        entries = partial(_entries, key=to_json(type_.key_type), item=to_json(type_.item_type))
        return partial(_object, entries=entries) if types.is_string(type_.key_type) else entries
    if types.is_struct(type_):
        parts = {field.name: to_json(field.type) for field in type_}
        if not any(parts.values()):
            return None
        return lambda value: {name: _applied(parts[name], field_value) for name, field_value in value.items()}
    return None


def from_json(type_: pa.DataType) -> Convert:
    """A function that makes of a JSON value what `pyarrow.array` takes for a type. It raises `ValueError`."""
    convert = _from_json(type_)
    return lambda value: None if value is None else convert(value)


def _from_json(type_: pa.DataType) -> Convert:
    types = pa.types
    if types.is_binary(type_):
        return bytes_of_json
    if types.is_string(type_):
        return _text
    if types.is_time(type_):
        return _nanoseconds
    if types.is_duration(type_):
        return _microseconds
    if types.is_list(type_):
        item = from_json(type_.value_type)
        return lambda value: [
            _converted_column(item, element, f"[{at}]") for at, element in enumerate(_list(value))
        ]
    if types.is_map(type_):
        return partial(_pairs, key=_from_json(type_.key_type), item=from_json(type_.item_type))
    if types.is_struct(type_):
        return partial(_struct, parts={field.name: from_json(field.type) for field in type_})
    simple = to_column(type_)
    if types.is_floating(type_):
        return lambda value: (
            _NOT_FINITE[value] if value in ("NaN", "Infinity", "-Infinity") else simple(value)
        )
    return simple


# -- To JSON --------------------------------------------------------------------------------------------


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> object:
    try:
        return (_DAY + timedelta(days=days)).isoformat()
    except OverflowError:  # No calendar has it: as the number that is stored.
        return days


def _time(nanoseconds: int) -> str:
    seconds, nanos = divmod(nanoseconds, 1_000_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{nanos:09}".rstrip("0") if nanos else text


def _timestamp(microseconds: int, *, zoned: bool) -> object:
    try:
        text = (_EPOCH + timedelta(microseconds=microseconds)).isoformat().removesuffix("+00:00")
    except OverflowError:
        return microseconds
    return f"{text}Z" if zoned else text


def _duration(microseconds: int) -> str:
    seconds, micros = divmod(abs(microseconds), 1_000_000)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{'-' if microseconds < 0 else ''}PT{seconds}{fraction}S"


def _entries(value: list[tuple[Any, Any]], *, key: Convert | None, item: Convert | None) -> object:
    return [[_applied(key, map_key), _applied(item, map_value)] for map_key, map_value in value]


def _object(value: list[tuple[Any, Any]], *, entries: Convert) -> object:
    """An object, unless a key is there twice."""
    pairs = entries(value)
    names = dict(pairs)
    return names if len(names) == len(pairs) else pairs


# -- From JSON ------------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _converted_column(convert: Convert, value: Any, name: str) -> Any:
    try:
        return convert(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from None


def _expect(value: Any, kind: type, form: str) -> Any:
    if isinstance(value, kind):
        return value
    raise ValueError(f"expected {form}, found {_shown(value)}")


def _text(value: Any) -> str:
    text: str = _expect(value, str, "text")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair is no text") from None
    return text


def _list(value: Any) -> list[Any]:
    items: list[Any] = _expect(value, list, "an array")
    return items


def _struct(value: Any, *, parts: dict[str, Convert]) -> dict[str, Any]:
    _expect(value, dict, "an object")
    for name in value:
        if name not in parts:
            raise ValueError(f"there is no field {name!r}; {suggestion(name, parts)}")
    return {name: _converted_column(convert, value.get(name), name) for name, convert in parts.items()}


def _pairs(value: Any, *, key: Convert, item: Convert) -> list[tuple[Any, Any]]:
    pairs = [*value.items()] if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError(f"expected an object or an array of [key, value], found {_shown(value)}")
    return [
        (_converted_column(key, map_key, "key"), _converted_column(item, map_value, str(map_key)))
        for map_key, map_value in pairs
    ]


def _nanoseconds(value: Any) -> int:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a time such as 13:05:00.25, found {_shown(value)}")
    hours, minutes, seconds = map(int, match.group(1, 2, 3))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + int((match[4] or "").ljust(9, "0"))


def _microseconds(value: Any) -> int:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a duration such as PT1H30M or PT0.5S, found {_shown(value)}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4, 5))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    micros = whole * 1_000_000 + int((match[6] or "").ljust(6, "0"))
    if micros >= 2**63:
        raise ValueError(f"{value} is longer than a duration can be")
    return -micros if match[1] else micros
