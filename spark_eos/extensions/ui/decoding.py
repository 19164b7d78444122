"""Records as a browser shows them: keys, values, headers and typed columns as text, long ones cut off."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from spark_eos.errors import ConfigError, EosLogError
from spark_eos.extensions.ui.notation import written
from spark_eos.extensions.ui.reading.cells import cells, fields_of_json
from spark_eos.log.topics import codec_of
from spark_eos.log.values.codec import ValueCodec
from spark_eos.protocol.state import Topic

DECODINGS = ("auto", "text", "json", "hex", "base64")

_REGISTRY = "schema.registry.url"
_CUT = 2000
"""Characters of a value in a list; the view of one record shows more."""


class Decoder:
    """Shows the values of one topic. No schema registry is asked: looking sends nothing anywhere."""

    def __init__(self, topic: Topic, decoding: str, cut: int = _CUT) -> None:
        self._decoding = decoding
        self._cut = cut
        self._is_typed = bool(topic.schemas)
        self._codec: ValueCodec | None = None
        self.problem: str | None = None
        """Why the topic's own format cannot be used."""
        if decoding == "auto" and not topic.schemas:
            try:
                if _REGISTRY in topic.config:
                    topic = topic._replace(config=topic.config.delete(_REGISTRY))
                self._codec = codec_of(topic)
            except (ConfigError, ValueError) as error:
                self.problem = f"values are shown as they are stored: {error}"

    def value(self, data: bytes | None) -> dict[str, Any]:
        """A value of a topic without columns."""
        if data is None or self._codec is None:
            return shown_bytes(data, self._decoding, self._cut)
        try:
            decoded = self._codec.decode(data)
        except (ValueError, EosLogError) as error:
            return {**shown_bytes(data, "auto", self._cut), "problem": str(error)[:500]}
        text, cut = self._written_json(data, self._codec) or written(decoded, self._cut)
        return {"text": text, "as": self._codec.payload, "bytes": len(data), "cut": cut}

    def cells(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """The columns of a record, or the fields of its value; None if it is no object."""
        fields = row if self._is_typed else self.fields(row["value"])
        return None if fields is None else cells(fields, self._cut)

    def fields(self, data: bytes | None) -> Mapping[Any, Any] | None:
        """The fields of a value; None if it is no object."""
        if data is None or self._decoding not in {"auto", "json"}:
            return None
        body = data if self._codec is None else self._codec.written_json(data)
        try:
            fields = fields_of_json(body) if body is not None else self._decoded(data)
        except (ValueError, EosLogError):
            return None
        return fields if isinstance(fields, Mapping) else None

    def _decoded(self, data: bytes) -> Any:
        return None if self._codec is None else self._codec.decode(data)

    def _written_json(self, data: bytes, codec: ValueCodec) -> tuple[str, bool] | None:
        """A JSON value as its writer wrote it. None: it is none, or not UTF-8."""
        body = codec.written_json(data)
        if body is None:
            return None
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return text[: self._cut], len(text) > self._cut

    def key(self, data: bytes | None) -> dict[str, Any]:
        """A key."""
        return shown_bytes(data, self._decoding, self._cut)

    def headers(self, headers: list[Mapping[str, Any] | None] | None) -> list[dict[str, Any]]:
        """The headers of a record."""
        pairs = [
            (header["key"], header["value"]) if header else (None, None) for header in (headers or [])[:100]
        ]
        return [{"key": key, **shown_bytes(value, "auto", self._cut)} for key, value in pairs]

    def columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The typed columns of a record, as Arrow scalars."""
        text, cut = written(row, self._cut)
        return {"text": text, "as": "columns", "cut": cut}


def shown_bytes(data: bytes | None, decoding: str, cut: int = _CUT) -> dict[str, Any]:
    """Bytes as text in a way that is asked for; ``auto`` takes JSON, else text, else hexadecimal digits."""
    if data is None:
        return {"text": None, "as": "null", "bytes": 0, "cut": False}
    text, kind = _DECODE[decoding](data, cut)
    return {"text": text[:cut], "as": kind, "bytes": len(data), "cut": len(text) > cut}


def _auto(data: bytes, cut: int) -> tuple[str, str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _hex(data, cut)
    if _UNREADABLE.search(text):
        return _hex(data, cut)
    return text, "json" if text[:1] in {"{", "["} and _is_json(text) else "text"


def _text(data: bytes, _: int) -> tuple[str, str]:
    text = data.decode("utf-8", "replace")
    return text, "text" if "\ufffd" not in text or _is_utf8(data) else "text: not UTF-8"


def _json(data: bytes, cut: int) -> tuple[str, str]:
    text, kind = _text(data, cut)
    return (text, "json") if kind == "text" and _is_json(text) else (text, "text: not JSON")


def _hex(data: bytes, cut: int) -> tuple[str, str]:
    return data[: cut // 3 + 2].hex(" "), "hex"


def _base64(data: bytes, cut: int) -> tuple[str, str]:
    return base64.b64encode(data[: cut + 1]).decode(), "base64"


_DECODE: dict[str, Callable[[bytes, int], tuple[str, str]]] = {
    "auto": _auto,
    "text": _text,
    "json": _json,
    "hex": _hex,
    "base64": _base64,
}

_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that no text has."""


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_json(text: str) -> bool:
    if len(text) > 1_000_000:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
