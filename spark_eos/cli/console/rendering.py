"""Records as lines: Kafka's text, JSON objects without loss, Avro's JSON, hexadecimal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_eos.cli.console.json_columns import bytes_as_json, plain_type, to_json
from spark_eos.cli.console.properties import PrintFormat
from spark_eos.errors import RecordDeserializationError

if TYPE_CHECKING:
    from spark_eos.log.values.codec import ValueCodec

Renderer = Callable[[pa.Table], Iterator[bytes]]
"""Makes the bytes of each record. Raises `RecordDeserializationError` where it comes to one that it cannot."""

Write = Callable[[bytes], bytes]

_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_PLACES = ("_topic", "_partition", "_offset", "_timestamp")


def shown_on_terminal(line: bytes) -> bytes:
    r"""The line with control characters as ``\x1b``: records must not steer a terminal."""
    return _CONTROL.sub(lambda match: b"\\x%02x" % match[0][0], line)


def rendered_text(
    form: PrintFormat,
    *,
    is_hex: bool = False,
    codec: ValueCodec | None = None,
    on_error: OnError | None = None,
) -> Renderer:
    """As Kafka's DefaultMessageFormatter; a row with columns is its JSON object."""
    show: Write = _hex if is_hex else bytes

    def render(table: pa.Table) -> Iterator[bytes]:
        is_typed = "_topic" in table.column_names
        values = _objects(table) if is_typed else table.column("value").to_pylist()
        parts = _before_the_value(table, form, show, is_typed=is_typed)
        end, separator = form.line_separator, form.key_separator
        for row, value in enumerate(values):
            shown = [part[row] for part in parts]
            if form.print_value:
                if value is None:
                    shown.append(form.null_literal)
                elif is_typed:
                    shown.append(_dumped(value))
                elif codec is None:
                    shown.append(show(value))
                else:
                    decoded = _decoded(codec, value, table, row, on_error)
                    if decoded is None:
                        continue
                    shown.append(decoded)
            yield (separator.join(shown) if len(shown) != 1 else shown[0]) + end

    return render


def _before_the_value(
    table: pa.Table, form: PrintFormat, show: Write, *, is_typed: bool
) -> list[list[bytes]]:
    prefix = "_" if is_typed else ""
    parts: list[list[bytes]] = []
    if form.print_timestamp:
        parts.append([b"CreateTime:%d" % at for at in _milliseconds(table, f"{prefix}timestamp")])
    for is_printed, column, text in (
        (form.print_partition, "partition", b"Partition:%d"),
        (form.print_offset, "offset", b"Offset:%d"),
    ):
        if is_printed:
            parts.append([text % number for number in table.column(prefix + column).to_pylist()])
    nothing = [None] * table.num_rows
    if form.print_headers:
        headers = nothing if is_typed else table.column("headers").to_pylist()
        parts.append([_headers_text(row_headers, form, show) for row_headers in headers])
    if form.print_key:
        keys = nothing if is_typed else table.column("key").to_pylist()
        parts.append([form.null_literal if key is None else show(key) for key in keys])
    return parts


def rendered_json(codec: ValueCodec | None = None, on_error: OnError | None = None) -> Renderer:
    """A JSON object for each record, from which `eoslog produce --format json` makes the same record."""

    def render(table: pa.Table) -> Iterator[bytes]:
        if "_topic" in table.column_names:
            for json_row in _objects(table, with_places=True):
                yield _dumped(json_row) + b"\n"
            return
        names = ("topic", "partition", "offset", "key", "value", "headers")
        columns: list[list[Any]] = [table.column(name).to_pylist() for name in names]
        stamps = _milliseconds(table, "timestamp")
        for row, (topic, partition, offset, key, value, headers) in enumerate(zip(*columns, strict=True)):
            place = {"topic": topic, "partition": partition, "offset": offset, "timestamp": stamps[row]}
            shown: dict[str, Any] = {**place, "key": None if key is None else bytes_as_json(key)}
            if value is None or codec is None:
                text = _dumped(None if value is None else bytes_as_json(value))
            else:
                decoded = _decoded(codec, value, table, row, on_error)
                if decoded is None:
                    continue
                text = decoded
            line = _dumped(shown)[:-1] + b', "value": ' + text
            if headers:
                line += b', "headers": ' + _dumped(
                    [header and _header_as_json(**header) for header in headers]
                )
            yield line + b"}\n"

    return render


OnError = Callable[[RecordDeserializationError], None]
"""Called in place of raising the error: the record is passed over."""


def _decoded(
    codec: ValueCodec, value: bytes, table: pa.Table, row: int, on_error: OnError | None
) -> bytes | None:
    """The JSON of a value; None if it cannot be decoded and is passed over."""
    try:
        return codec.json_of(value)
    except ValueError as error:
        topic, partition, offset = (
            table.column(name)[row].as_py() for name in ("topic", "partition", "offset")
        )
        wrong = RecordDeserializationError(
            f"{topic}-{partition}, offset {offset}: {error}. --skip-message-on-error passes over such records, "
            "--format hex shows their bytes",
            (topic, partition),
            offset,
        )
        if on_error is None:
            raise wrong from None
        on_error(wrong)
        return None


def _dumped(value: object) -> bytes:
    return _ENCODE(value).encode()


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _milliseconds(table: pa.Table, name: str) -> list[int]:
    stamps: list[int] = table.column(name).cast(pa.int64()).to_pylist()
    return stamps


def _headers_text(headers: list[dict[str, Any]] | None, form: PrintFormat, show: Write) -> bytes:
    if not headers:
        return b"NO_HEADERS"
    nothing = form.null_literal
    return form.headers_separator.join(
        nothing  # Of an earlier version, as one without a name.
        if header is None
        else (nothing if header["key"] is None else header["key"].encode())
        + b":"
        + (nothing if header["value"] is None else show(header["value"]))
        for header in headers
    )


def _header_as_json(key: str | None, value: bytes | None) -> list[Any]:
    return [key, None if value is None else bytes_as_json(value)]


def _objects(table: pa.Table, *, with_places: bool = False) -> list[dict[str, Any]]:
    names = [name for name in table.column_names if with_places or name not in _PLACES]
    columns: list[list[Any]] = []
    for name in names:
        column = table.column(name)
        if name == "_timestamp":
            columns.append(_milliseconds(table, name))
            continue
        convert, type_ = to_json(column.type), plain_type(column.type)
        values = (column if type_ == column.type else column.cast(type_)).to_pylist()
        columns.append(
            values if convert is None else [None if value is None else convert(value) for value in values]
        )
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
