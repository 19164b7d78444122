"""Filters of all kinds over columns of all types, what Spark says of each row, and the same filters as SQL.

`is_kept` is Spark's logic of three values written down once more; `test_pushed_filters` compares it with Spark.
"""

from __future__ import annotations

import itertools
import math
import random
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import datasource as f

NAN = float("nan")


def utc(*parts):
    return datetime(*parts, tzinfo=timezone.utc)


def local(*parts):
    return datetime(*parts)  # noqa: DTZ001


_WHOLE = {8: 7, 16: 15, 32: 31, 64: 63}
_REALS = [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, NAN]
_PRICES = ["-999.99", "-0.01", "0.00", "1.50", "999.99"]
_SUMS = ["-9999999999999999999999999999.9999999999", "0E-10", "9999999999999999999999999999.9999999999"]
_DAYS = ["0001-01-01", "1500-02-28", "1582-10-04", "1582-10-15", "1969-12-31", "2262-04-12", "9999-12-31"]
_LAST_OF_1969 = (1969, 12, 31, 23, 59, 59, 999999)
_TIMES = [
    (1, 1, 2),
    (1500, 2, 28, 1),
    (1582, 10, 4, 23),
    (1883, 11, 18, 17),
    _LAST_OF_1969,
    (1970, 1, 1),
    (9999, 12, 30),
]
_CLOCKS = [(1, 1, 1), (1582, 10, 4, 23), _LAST_OF_1969, (2026, 3, 8, 2, 30), (9999, 12, 31)]

COLUMNS = {
    "flag": (pa.bool_(), [True, False]),
    **{
        f"int{bits}": (getattr(pa, f"int{bits}")(), [-(2**top), -1, 0, 1, 2**top - 1])
        for bits, top in _WHOLE.items()
    },
    "float": (pa.float32(), _REALS),
    "double": (pa.float64(), _REALS),
    "price": (pa.decimal128(5, 2), [*map(Decimal, _PRICES)]),
    "sum": (pa.decimal128(38, 10), [*map(Decimal, _SUMS)]),
    "text": (pa.string(), ["", " ", "a", "A", "ab", "é", "\ud7ff", "\ue000", "\U0001f600", "\U00100000"]),
    "bytes": (pa.binary(), [b"", b"\0", b"a", b"ab", b"\x7f", b"\x80", b"\xff\xff"]),
    "day": (pa.date32(), [*map(date.fromisoformat, _DAYS)]),
    "time": (pa.timestamp("us", "UTC"), [utc(*parts) for parts in _TIMES]),
    "clock": (pa.timestamp("us"), [local(*parts) for parts in _CLOCKS]),
}
"""By name the type and its values; each column has null, too."""

SCHEMA = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
COUNT = 12


def table():
    """Rows in which each value of each column is at least once, and each column is null in two of them."""
    shuffled = random.Random(1)
    arrays = []
    for type_, values in COLUMNS.values():
        some = [None, None, *itertools.islice(itertools.cycle(values), COUNT - 2)]
        shuffled.shuffle(some)
        arrays.append(pa.array(some, type_))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


_BINARY = (
    f.EqualTo,
    f.EqualNullSafe,
    f.GreaterThan,
    f.GreaterThanOrEqual,
    f.LessThan,
    f.LessThanOrEqual,
)


def filters():
    """Each operator with each value of each column, alone and under NOT."""
    drawn = random.Random(2)
    for name, (_, values) in COLUMNS.items():
        path = (name,)
        found = [kind(path, value) for kind in _BINARY for value in values]
        found += [f.IsNull(path), f.IsNotNull(path), f.EqualNullSafe(path, None)]
        found += [f.In(path, tuple(drawn.sample(values, min(size, len(values))))) for size in range(1, 6)]
        found += [f.In(path, (None, *drawn.sample(values, 2))), f.In(path, (values[0], None))]
        if name == "text":
            found += [
                kind(path, value)
                for kind in (f.StringStartsWith, f.StringEndsWith, f.StringContains)
                for value in values
            ]
        for one in found:
            yield one
            yield f.Not(one)


def nested(count):
    """``count`` conditions of several filters: ("and" or "or", parts), ("not", part), or a filter."""
    drawn, all_ = random.Random(3), [*filters()]

    def some(depth):
        if depth == 0 or drawn.random() < 0.2:
            return drawn.choice(all_)
        kind = drawn.choice(["and", "or", "not"])
        if kind == "not":
            return "not", some(depth - 1)
        return kind, *(some(depth - 1) for _ in range(drawn.randint(2, 3)))

    return [some(3) for _ in range(count)]


# -- What Spark says -----------------------------------------------------------------------------------------------


def _order(value):
    """What compares as Spark compares: NaN is equal to NaN and greater than all, -0.0 is 0.0, text is its bytes."""
    if isinstance(value, float):
        return math.isnan(value), 0.0 if math.isnan(value) else value
    return value.encode("utf-8") if isinstance(value, str) else value


_COMPARED = {
    f.EqualTo: lambda a, b: a == b,
    f.EqualNullSafe: lambda a, b: a == b,
    f.GreaterThan: lambda a, b: a > b,
    f.GreaterThanOrEqual: lambda a, b: a >= b,
    f.LessThan: lambda a, b: a < b,
    f.LessThanOrEqual: lambda a, b: a <= b,
    f.StringStartsWith: bytes.startswith,
    f.StringEndsWith: bytes.endswith,
    f.StringContains: bytes.__contains__,
}


def outcome(condition, row):
    """True, False or None for null."""
    if isinstance(condition, tuple) and isinstance(condition[0], str):
        parts = [outcome(one, row) for one in condition[1:]]
        if condition[0] == "not":
            return None if parts[0] is None else not parts[0]
        decides = condition[0] == "or"
        return decides if decides in parts else None if None in parts else not decides
    if isinstance(condition, f.Not):
        return outcome(("not", condition.child), row)
    value = row[condition.attribute[0]]
    if isinstance(condition, f.IsNull):
        return value is None
    if isinstance(condition, f.IsNotNull):
        return value is not None
    if isinstance(condition, f.In):
        return outcome(("or", *(f.EqualTo(condition.attribute, one) for one in condition.value)), row)
    if isinstance(condition, f.EqualNullSafe) and (value is None or condition.value is None):
        return value is condition.value
    if value is None or condition.value is None:
        return None
    return _COMPARED[type(condition)](_order(value), _order(condition.value))


def is_kept(condition, row):
    return outcome(condition, row) is True


# -- As SQL --------------------------------------------------------------------------------------------------------

_SIGNS = {
    f.EqualTo: "=",
    f.EqualNullSafe: "<=>",
    f.GreaterThan: ">",
    f.GreaterThanOrEqual: ">=",
    f.LessThan: "<",
    f.LessThanOrEqual: "<=",
}
_FUNCTIONS = {f.StringStartsWith: "startswith", f.StringEndsWith: "endswith", f.StringContains: "contains"}
_NAMES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float"}


def _literal(value, name):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"cast('{value}' as {_NAMES.get(name, 'double')})"
    if isinstance(value, Decimal):
        return f"cast('{value:f}' as decimal({COLUMNS[name][0].precision}, {COLUMNS[name][0].scale}))"
    if isinstance(value, datetime):
        kind, zone = ("timestamp_ntz", "") if value.tzinfo is None else ("timestamp", "Z")
        return f"{kind}'{value.replace(tzinfo=None).isoformat()}{zone}'"
    if isinstance(value, date):
        return f"date'{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else f"cast('{value}' as {_NAMES[name]})"


def sql(condition):
    """The condition as Spark parses it."""
    if isinstance(condition, tuple) and isinstance(condition[0], str):
        parts = [f"({sql(one)})" for one in condition[1:]]
        return f"not {parts[0]}" if condition[0] == "not" else f" {condition[0]} ".join(parts)
    if isinstance(condition, f.Not):
        return f"not ({sql(condition.child)})"
    name = condition.attribute[0]
    if isinstance(condition, (f.IsNull, f.IsNotNull)):
        return f"`{name}` is {'' if isinstance(condition, f.IsNull) else 'not '}null"
    if isinstance(condition, f.In):
        return f"`{name}` in ({', '.join(_literal(one, name) for one in condition.value)})"
    literal = _literal(condition.value, name)
    if type(condition) in _FUNCTIONS:
        return f"{_FUNCTIONS[type(condition)]}(`{name}`, {literal})"
    return f"`{name}` {_SIGNS[type(condition)]} {literal}"
