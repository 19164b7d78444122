"""Types of columns as a user writes them: Spark's names (``bigint``, ``array<string>``) and Arrow's (``int64``)."""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa

from spark_eos.errors import ConfigError

_TYPES = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "int8": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int16": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "int32": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("ns"),
}

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_0-9]+|[<>(),:])")


def parse_type(text: str) -> pa.DataType:
    """The type that ``text`` names, such as ``bigint``, ``decimal(10,2)`` or ``struct<a: int, b: array<string>>``.

    Raises `ConfigError` for anything else.
    """
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong(text)
        tokens.append(match[1])
        at = match.end()
    parser = _Parser(text, tokens)
    type_, end = parser.type(0)
    if end != len(tokens):
        raise _wrong(text)
    return type_


class _Parser(NamedTuple):
    """Each call takes the number of a token, and gives what begins there and the number of the token after it."""

    text: str
    tokens: list[str]

    def type(self, at: int) -> tuple[pa.DataType, int]:
        name = self._token(at).lower()
        if name in {"decimal", "dec", "numeric", "decimal128"}:
            return self._decimal(at + 1)
        if name in {"array", "list"}:
            element, at = self.type(self._skip("<", at + 1))
            return pa.list_(pa.field("element", element)), self._skip(">", at)
        if name == "map":
            key, at = self.type(self._skip("<", at + 1))
            value, at = self.type(self._skip(",", at))
            return pa.map_(key, value), self._skip(">", at)
        if name == "struct":
            return self._struct(self._skip("<", at + 1))
        if name not in _TYPES:
            raise _wrong(self.text)
        return _TYPES[name], at + 1

    def _decimal(self, at: int) -> tuple[pa.DataType, int]:
        if at >= len(self.tokens) or self.tokens[at] != "(":
            return pa.decimal128(10, 0), at
        numbers = [self._token(at + 1)]
        at += 2
        if self._token(at) == ",":
            numbers.append(self._token(at + 1))
            at += 2
        at = self._skip(")", at)
        if not all(number.isdecimal() for number in numbers) or not 1 <= int(numbers[0]) <= 38:
            raise _wrong(self.text)
        return pa.decimal128(*map(int, numbers)), at

    def _struct(self, at: int) -> tuple[pa.DataType, int]:
        fields = []
        while True:
            name = self._token(at)
            at += 2 if self._token(at + 1) == ":" else 1
            type_, at = self.type(at)
            fields.append(pa.field(name.strip("`").replace("``", "`"), type_))
            if self._token(at) != ",":
                return pa.struct(fields), self._skip(">", at)
            at += 1

    def _token(self, at: int) -> str:
        if at >= len(self.tokens):
            raise _wrong(self.text)
        return self.tokens[at]

    def _skip(self, token: str, at: int) -> int:
        if self._token(at) != token:
            raise _wrong(self.text)
        return at + 1


def _wrong(text: str) -> ConfigError:
    return ConfigError(
        f"{text!r} is no type of a column: expected one of boolean, tinyint, smallint, int, bigint, float, double, "
        "string, binary, date, timestamp, timestamp_ntz, time, decimal(p,s), array<type>, map<type,type>, "
        "struct<name: type, ...>"
    )
