"""Lines to rows of a topic: as text, as JSON objects, or as Avro values in Avro's JSON."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_eos.cli.console.json_columns import bytes_of_json, from_json
from spark_eos.cli.console.properties import LineFormat
from spark_eos.config.nearest import suggestion
from spark_eos.errors import EosLogError, InvalidRecordError, RecordTooLargeError
from spark_eos.log.data.layout import TIMESTAMP_TYPE
from spark_eos.log.values.json_values import WrittenFloat, loads

if TYPE_CHECKING:
    from spark_eos.log.values.codec import ValueCodec

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ROW = re.compile(r"row (\d+) of those")


class Intake(ABC):
    """Makes rows of lines."""

    @abstractmethod
    def rows(self, lines: Sequence[bytes], first: int) -> pa.RecordBatch:
        """One row for each line, of which the first has the number ``first``. Raises `InvalidRecordError`."""


def with_line(error: EosLogError, first: int, last: int) -> EosLogError:
    """An error of the rows ``first`` to ``last`` that names the line, if it is about a row."""
    text = str(error)
    if not isinstance(error, (InvalidRecordError, RecordTooLargeError)) or text.startswith("line "):
        return error
    if _ROW.search(text):
        return type(error)(_ROW.sub(lambda row: f"line {first + int(row[1])}", text))
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    return type(error)(f"{where}: {text}")


def _wrong(number: int, text: object) -> InvalidRecordError:
    return InvalidRecordError(f"line {number}: {text}")


class TextLines(Intake):
    """A line is a value; with ``parse.key`` and ``parse.headers`` what stands before it is cut off."""

    def __init__(self, form: LineFormat, codec: ValueCodec | None = None) -> None:
        self._form = form
        self._codec = codec

    def rows(self, lines: Sequence[bytes], first: int) -> pa.RecordBatch:
        """One row for each line."""
        form = self._form
        values: Sequence[bytes | None] = lines
        columns: dict[str, pa.Array] = {}
        if form.parse_headers:
            values, headers = self._cut_headers(lines, first)
            columns["headers"] = pa.array(headers, _HEADERS)
        if form.parse_key:
            values, keys = self._cut_keys(values, first)
            columns["key"] = pa.array(keys, pa.binary())
        if form.null_marker is not None:
            values = [None if value == form.null_marker else value for value in values]
        if self._codec is not None:
            values = [_encoded(self._codec, value, first + at) for at, value in enumerate(values)]
        return pa.record_batch({**columns, "value": pa.array(values, pa.binary())})

    def _cut_headers(
        self, lines: Sequence[bytes | None], first: int
    ) -> tuple[list[bytes | None], list[list[dict[str, Any]] | None]]:
        bodies: list[bytes | None] = []
        headers: list[list[dict[str, Any]] | None] = []
        for number, line in enumerate(lines, first):
            before, delimiter, after = (line or b"").partition(self._form.headers_delimiter)
            if not delimiter and not self._form.ignore_error:
                raise _wrong(number, f"no headers delimiter {_text(self._form.headers_delimiter)}")
            bodies.append(after if delimiter else line)
            is_none = not delimiter or not before or before == self._form.null_marker
            headers.append(None if is_none else self._headers(before, number))
        return bodies, headers

    def _headers(self, text: bytes, number: int) -> list[dict[str, Any]]:
        headers = []
        for pair in text.split(self._form.headers_separator):
            name, separator, value = pair.partition(self._form.headers_key_separator)
            if not separator and not self._form.ignore_error:
                raise _wrong(
                    number,
                    f"no header key separator {_text(self._form.headers_key_separator)} in {_text(pair)}",
                )
            try:
                key = name.decode()
            except UnicodeDecodeError:
                raise _wrong(number, f"the name of header {_text(name)} is not UTF-8") from None
            is_null = not separator or value == self._form.null_marker
            headers.append({"key": key, "value": None if is_null else value})
        return headers

    def _cut_keys(
        self, lines: Sequence[bytes | None], first: int
    ) -> tuple[list[bytes | None], list[bytes | None]]:
        separator, marker = self._form.key_separator, self._form.null_marker
        cut = [(line or b"").partition(separator) for line in lines]
        if not self._form.ignore_error:
            for number, (_, delimiter, _) in enumerate(cut, first):
                if not delimiter:
                    raise _wrong(number, f"no key separator {_text(separator)}")
        values = [after if delimiter else before for before, delimiter, after in cut]
        keys = [before if delimiter and before != marker else None for before, delimiter, _ in cut]
        return [*values], keys


class JsonRecords(Intake):
    """A line is a record: ``{"key", "value", "headers", "timestamp", "partition"}``, as ``consume`` prints it."""

    _NAMES = ("key", "value", "headers", "timestamp", "partition", "topic", "offset")

    def __init__(self, codec: ValueCodec | None = None) -> None:
        self._codec = codec

    def rows(self, lines: Sequence[bytes], first: int) -> pa.RecordBatch:
        """One row for each line."""
        columns: dict[str, list[Any]] = {name: [] for name in self._NAMES[:5]}
        for number, line in enumerate(lines, first):
            record = _object(line, number)
            for name in record:
                if name not in self._NAMES:
                    raise _wrong(
                        number,
                        f"a record has no field {name!r}; {suggestion(name, self._NAMES)}. With --format text a line "
                        "is sent as it is",
                    )
            for name, column in columns.items():
                try:
                    column.append(self._field(name, record.get(name)))
                except (ValueError, TypeError, OverflowError) as error:
                    raise _wrong(number, f"{name}: {error}") from None
        types = (pa.binary(), pa.binary(), _HEADERS, TIMESTAMP_TYPE, pa.int32())
        return pa.record_batch(
            {
                name: pa.array(column, type_)
                for (name, column), type_ in zip(columns.items(), types, strict=True)
                if name == "value" or any(value is not None for value in column)
            }
        )

    def _field(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name == "timestamp":
            return _number(value, 63)
        if name == "partition":
            return _number(value, 31)
        if name == "headers":
            return [_header(pair) for pair in value] or None
        if name == "value" and self._codec is not None:
            return self._codec.encode_json(value)
        return bytes_of_json(value)


class TypedRows(Intake):
    """A line is a JSON object with the topic's columns; ``_timestamp`` and ``_partition`` may be there, too."""

    _PLACES = ("_topic", "_offset", "_partition", "_timestamp")

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns = [(field.name, from_json(field.type), field.nullable) for field in schema]
        self._names = {*schema.names, *self._PLACES}

    def rows(self, lines: Sequence[bytes], first: int) -> pa.RecordBatch:
        """One row for each line."""
        objects = [_object(line, number) for number, line in enumerate(lines, first)]
        for number, row in enumerate(objects, first):
            if not self._names.issuperset(row):
                name = next(name for name in row if name not in self._names)
                raise _wrong(
                    number, f"the topic has no column {name!r}; {suggestion(name, self._schema.names)}"
                )
        columns = {
            field.name: pa.array(self._column(name, convert, objects, first, nullable), field.type)
            for field, (name, convert, nullable) in zip(self._schema, self._columns, strict=True)
        }
        for name, target, bits, type_ in (
            ("_timestamp", "_timestamp", 63, TIMESTAMP_TYPE),
            ("_partition", "partition", 31, pa.int32()),
        ):
            if any(row.get(name) is not None for row in objects):
                if target in columns:
                    raise _wrong(
                        first, "the topic has a column 'partition': give --partition, not _partition"
                    )
                numbers = self._column(
                    name, lambda value, bits=bits: None if value is None else _number(value, bits), objects, first
                )  # fmt: skip
                columns[target] = pa.array(numbers, type_)
        return pa.record_batch(columns)

    @staticmethod
    def _column(
        name: str, convert: Any, objects: Sequence[dict[str, Any]], first: int, nullable: bool = True
    ) -> list[Any]:
        column = []
        for number, row in enumerate(objects, first):
            value = row.get(name)
            if value is None and not nullable:
                raise _wrong(number, f"column {name}: it is missing or null, and the column allows no null")
            try:
                column.append(convert(value))
            except (ValueError, OverflowError, RecursionError) as error:
                raise _wrong(number, f"column {name}: {error}") from None
        return column


def _encoded(codec: ValueCodec, line: bytes | None, number: int) -> bytes | None:
    if line is None:
        return None
    try:
        return codec.encode_json(loads(line, WrittenFloat.of))
    except ValueError as error:
        raise _wrong(number, f"value: {error}") from None


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = loads(line, WrittenFloat.of)
    except ValueError as error:
        raise _wrong(number, f"it is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise _wrong(number, f"expected a JSON object, found {line[:40].decode(errors='replace')!r}")
    return value


def _header(pair: Any) -> dict[str, Any]:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise ValueError(f"expected [[name, value], ...], found {pair!r}")
    pair[0].encode()
    return {"key": pair[0], "value": None if pair[1] is None else bytes_of_json(pair[1])}


def _number(value: Any, bits: int) -> int:
    if type(value) is not int or not -(2**bits) <= value < 2**bits:
        raise ValueError(f"expected a whole number, found {value!r}")
    return value


def _text(data: bytes) -> str:
    return repr(data.decode(errors="replace"))
