"""Records that are shown as a file: CSV, JSON Lines or Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eos.errors import InvalidRequestError

Cell = Mapping[str, Any]
Row = Mapping[str, Any]

MOST_COLUMNS = 250

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes what begins like this for a formula. So a ' comes before it, which it does not show."""


def as_csv(columns: Sequence[str], rows: Sequence[Row], _: pa.Table | None = None) -> str:
    """As of RFC 4180, in UTF-8. A null is nothing, an empty text is ""; so is a null that is all of its line.

    Text that a spreadsheet would compute has a ' before it.
    """
    lines = [[_quoted(_harmless(name)) for name in _column_names(columns)]]
    for row in rows:
        cells = [_cell(row, name) for name in columns]
        lines.append(
            ["" if cell["text"] is None else _quoted(_harmless(cell["text"], cell["as"])) for cell in cells]
        )
    # Many programs pass over an empty line, and so over its record.
    return "".join(f"{','.join(line) or _quoted('')}\r\n" for line in lines)


def as_json_lines(columns: Sequence[str], rows: Sequence[Row], _: pa.Table | None = None) -> str:
    """An object a line. Numbers have all their digits; what JSON has no value for is a text."""
    names = [json.dumps(name) for name in _column_names(columns)]
    lines = [
        ", ".join(f"{name}: {_json(_cell(row, column))}" for name, column in zip(names, columns, strict=True))
        for row in rows
    ]
    return "".join(f"{{{line}}}\n" for line in lines)


def as_parquet(columns: Sequence[str], rows: Sequence[Row], stored: pa.Table | None = None) -> bytes:
    """The columns of ``stored`` with their types. Without it, they are as in CSV, as texts."""
    names = _column_names(columns)
    arrays = [
        stored.column(column[1:]) if stored is not None and column.startswith(".") else _array(column, rows)
        for column in columns
    ]
    for name, values in zip(names, arrays, strict=True):
        try:
            pq.write_table(pa.table({name: values.slice(0, 0)}), pa.BufferOutputStream())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidRequestError(
                f"column {name!r} is of type {values.type}, which Parquet does not have ({error}): leave out this "
                "column, or save JSON Lines"
            ) from None
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, names), out)
    data: bytes = out.getvalue().to_pybytes()
    return data


FORMATS: dict[str, Callable[[Sequence[str], Sequence[Row], pa.Table | None], str | bytes]] = {
    "csv": as_csv,
    "jsonl": as_json_lines,
    "parquet": as_parquet,
}
"""By the ending of a file's name. The last argument has the columns as they are stored, of topics with a schema."""

_PLACES = {"partition": pa.int32(), "offset": pa.int64(), "time": pa.timestamp("ms", "UTC")}


def _array(column: str, rows: Sequence[Row]) -> pa.Array:
    if type_ := _PLACES.get(column):
        return pa.array([row[column] for row in rows], type_)
    texts = [_cell(row, column)["text"] for row in rows]
    return pa.array([None if text is None else _SURROGATE.sub("\ufffd", text) for text in texts], pa.string())


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can have and UTF-8 cannot."""


def _column_names(columns: Sequence[str]) -> list[str]:
    """The names in the file. A field is ``.name``; if a column has that name it is ``value.name``."""
    own = {column for column in columns if not column.startswith(".")}
    return [
        column if column in own else column[1:] if column[1:] not in own else f"value{column}"
        for column in columns
    ]


def _cell(row: Row, column: str) -> Cell:
    if column.startswith("."):
        return _uncut_cell(row, column, (row["cells"] or {}).get(column[1:], _NULL))
    value = row.get(column)
    if column == "time" and isinstance(value, int):
        return {"text": _moment(value), "as": "text"}
    if column == "headers":
        headers = [{"key": header["key"], "value": header["text"]} for header in value or []]
        return {"text": json.dumps(headers), "as": "value"}
    if isinstance(value, Mapping):
        return {**_uncut_cell(row, column, value), "as": "text"}
    return _NULL if value is None else {"text": str(value), "as": "value"}


def _uncut_cell(row: Row, column: str, cell: Cell) -> Cell:
    if cell["cut"]:
        raise InvalidRequestError(
            f"{column.removeprefix('.')!r} at offset {row['offset']} of partition {row['partition']} is too long for a "
            "file of the page: leave out this column, or use eoslog consume"
        )
    return cell


_NULL: Cell = {"text": None, "as": "null", "cut": False}


def _moment(time_ms: int) -> str:
    return f"{np.datetime64(time_ms, 'ms')}Z"


def _harmless(text: str, kind: str = "text") -> str:
    # What is no text begins with a sign only if it is a number.
    text = text.replace("\0", "\ufffd")
    return f"'{text}" if kind != "value" and text.startswith(_FORMULA) else text


def _quoted(text: str) -> str:
    return text if text and not _SPECIAL.search(text) else '"' + text.replace('"', '""') + '"'


_SPECIAL = re.compile('[",\r\n]')


def _json(cell: Cell) -> str:
    text = cell["text"]
    if cell["as"] == "value":
        try:
            json.loads(text, parse_constant=_refuse, parse_int=_is_number, parse_float=_is_number)
        except (ValueError, RecursionError):
            return json.dumps(text)
        return " ".join(str(text).splitlines())
    return json.dumps(text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_is_number: Callable[[str], str] = str
"""Python's own numbers would not take each of them."""
