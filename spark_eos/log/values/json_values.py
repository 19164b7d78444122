"""JSON values to Arrow's types and back, one by one: the exact rules, which faster ways must keep."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import pyarrow as pa


class WrittenFloat(float):
    """A float that has the text that it was read from: a column may keep more digits than a float."""

    __slots__ = ("_text",)
    _text: str

    @classmethod
    def of(cls, text: str) -> WrittenFloat:
        """The number of a JSON text. Raises `ValueError` if it is too large for a float."""
        number = cls(_finite(text))
        number._text = text
        return number

    def __str__(self) -> str:
        return self._text


def loads(data: bytes | str, parse_float: Callable[[str], float] | None = None) -> Any:
    """The value of a JSON text. Raises `ValueError`; NaN and Infinity are no JSON, and 1e400 is no float.

    For `to_column` and `as_written` ``parse_float`` is `WrittenFloat.of`.
    """
    try:
        return json.loads(data, parse_constant=_refuse_constant, parse_float=parse_float or _finite)
    except RecursionError as error:
        raise _too_deep() from error


def dumps(value: Any) -> bytes:
    """A value as JSON in UTF-8. Times become ISO 8601, bytes base64, UUIDs text. Raises `ValueError`, `TypeError`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=to_plain)
    except RecursionError as error:
        raise _too_deep() from error
    return text.encode()


def as_written(value: Any) -> bytes:
    """A value of `loads` as JSON in UTF-8, with the digits that were read of its numbers. Raises `ValueError`."""
    try:
        return _written(value).encode("utf-8", "backslashreplace")  # Half a character was an escape.
    except RecursionError as error:
        raise _too_deep() from error


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(f'{_ENCODE(name)}:{_written(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return str(value) if isinstance(value, WrittenFloat) else _ENCODE(value)


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def to_plain(value: Any) -> Any:
    """A value that JSON does not have, as one that it has. Raises `ValueError`, `TypeError`."""
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return _iso(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def to_column(type_: pa.DataType) -> Callable[[Any], Any]:
    """A function that makes of a JSON value what `pyarrow.array` takes for a type. It raises `ValueError`.

    A property that an object lacks is null; one that the type does not have is passed over.
    """
    types = pa.types
    if types.is_struct(type_):
        parts = [
            (type_.field(place).name, to_column(type_.field(place).type)) for place in range(type_.num_fields)
        ]
        return lambda value: None if value is None else _struct(value, parts)
    if types.is_list(type_):
        item = to_column(type_.value_type)
        return lambda value: (
            None if value is None else [item(element) for element in _of(value, list, "an array")]
        )
    if types.is_map(type_):
        if type_.key_type != pa.string():
            return _refuse(f"a map with keys of type {type_.key_type}")
        entry = to_column(type_.item_type)
        return lambda value: (
            None
            if value is None
            else [(key, entry(element)) for key, element in _of(value, dict, "an object").items()]
        )
    simple = _simple(type_)
    return lambda value: None if value is None else simple(value)


def _simple(type_: pa.DataType) -> Callable[[Any], Any]:
    types = pa.types
    if types.is_string(type_):
        return lambda value: _of(value, str, "text")
    if types.is_boolean(type_):
        return lambda value: _of(value, bool, "true or false")
    if types.is_integer(type_):
        return lambda value: _integer(value, type_)
    if types.is_floating(type_):
        return lambda value: float(_of(value, (int, float), "a number"))
    if types.is_decimal(type_):
        return lambda value: _decimal(value, type_)
    if types.is_binary(type_):
        return lambda value: base64.b64decode(_of(value, str, "text in base64"), validate=True)
    if types.is_date(type_):
        return lambda value: dt.date.fromisoformat(_of(value, str, "a date such as 2026-11-24"))
    if types.is_timestamp(type_):
        return lambda value: _timestamp(value, zoned=type_.tz is not None)
    if types.is_null(type_):
        return _refuse("a value where only null can be")
    return _refuse(f"the type {type_}")


def _struct(value: Any, parts: list[tuple[str, Callable[[Any], Any]]]) -> dict[str, Any]:
    properties = _of(value, dict, "an object")
    fields = {}
    for name, convert in parts:
        part = properties.get(name)
        if part is not None:
            try:
                part = convert(part)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"property {name}: {error}") from error
        fields[name] = part
    return fields


def _of(value: Any, kind: type | tuple[type, ...], form: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"expected {form}, found {json.dumps(value)[:60]}")
    return value


def _integer(value: Any, type_: pa.DataType) -> int:
    number = _of(value, (int, float), "a whole number")
    exact = Decimal(str(number)) if isinstance(number, float) else number
    whole = int(exact)
    if whole != exact:
        raise ValueError(f"expected a whole number, found {number}")
    bits = type_.bit_width - 1
    if not -(2**bits) <= whole < 2**bits:
        raise ValueError(f"{whole} has more than {type_.bit_width} bits")
    return whole


def _decimal(value: Any, type_: pa.DataType) -> Decimal:
    try:
        number = Decimal(str(_of(value, (int, float, str), "a number")))
    except InvalidOperation as error:
        raise ValueError(f"expected a number, found {value!r}") from error
    _, digits, exponent = number.as_tuple()
    if (
        not isinstance(exponent, int)
        or (-exponent > type_.scale and any(digits[exponent + type_.scale :]))
        or (any(digits) and len(digits) + exponent > type_.precision - type_.scale)
    ):
        raise ValueError(f"{number} does not fit {type_}")
    return number.quantize(Decimal(1).scaleb(-type_.scale), context=Context(prec=type_.precision))


def _timestamp(value: Any, *, zoned: bool) -> dt.datetime:
    text = _of(value, str, "a time such as 2026-11-24T01:02:03Z")
    # Python 3.10 knows neither Z nor fractions of other lengths than 3 and 6.
    time = _parsed(text)
    if zoned and time.tzinfo is None:
        return time.replace(tzinfo=dt.timezone.utc)
    if not zoned and time.tzinfo is not None:
        return time.astimezone(dt.timezone.utc).replace(tzinfo=None)
    return time


def _parsed(text: str) -> dt.datetime:
    body = text[:-1] + "+00:00" if text[-1:] in {"Z", "z"} else text
    head, dot, fraction = body.partition(".")
    if dot:
        digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
        body = f"{head}.{digits[:6]:0<6}{fraction[len(digits) :]}"
    return dt.datetime.fromisoformat(body)


def _number(value: Decimal) -> float | int:
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise ValueError(f"{value} has more digits than a JSON number keeps: cast it to string")
    return number


def _iso(value: dt.datetime | dt.date | dt.time) -> str:
    text = value.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _refuse(kind: str) -> Callable[[Any], Any]:
    def refuse(_value: Any) -> Any:
        raise ValueError(f"JSON has no form for {kind}")

    return refuse


def _too_deep() -> ValueError:
    return ValueError("its JSON is too deep")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:60]} is too large")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
