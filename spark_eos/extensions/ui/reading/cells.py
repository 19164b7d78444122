"""The columns of a record as cells of a table: those of a topic with a schema, or the fields of an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_eos.extensions.ui.notation import Digits, written

_MOST_FIELDS = 200
_LONGEST_JSON = 1 << 20


def cells(values: Mapping[Any, Any], cut: int) -> dict[str, dict[str, Any]]:
    """Up to 200 columns, each as text of at most ``cut`` characters.

    ``as`` is ``text``, which is shown as it is; ``value``, which is written as `written` does; or ``null``.
    """
    return {str(name): _cell(value, cut) for name, value in islice(values.items(), _MOST_FIELDS)}


def fields_of_json(data: bytes) -> Mapping[str, Any] | None:
    """The fields of an object in JSON, its numbers with all their digits; None if it is none, or too long."""
    if len(data) > _LONGEST_JSON or not data.lstrip().startswith(b"{"):
        return None
    try:
        value = json.loads(data.decode("utf-8"), parse_float=Digits, parse_int=Digits, parse_constant=Digits)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _cell(value: Any, cut: int) -> dict[str, Any]:
    if isinstance(value, pa.DictionaryScalar) and value.is_valid:
        value = value.value
    if value is None or (isinstance(value, pa.Scalar) and not value.is_valid):
        return {"text": None, "as": "null", "cut": False}
    text = _text(value)
    if text is not None:
        return {"text": text[:cut], "as": "text", "cut": len(text) > cut}
    text, is_cut = written(value, cut)
    return {"text": text, "as": "value", "cut": is_cut}


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, (pa.StringScalar, pa.LargeStringScalar, pa.StringViewScalar)):
        try:
            return str(value.as_py())
        except UnicodeDecodeError:  # It is shown as bytes.
            return None
    return None
