"""Records as a browser shows them: keys, values, headers and typed columns as text, long ones cut off."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from spark_eos.errors import ConfigError, EosLogError
from spark_eos.log.values.codec import ValueCodec, codec_for
from spark_eos.log.values.settings import value_settings
from spark_eos.protocol.state import Topic

__all__ = ["DECODINGS", "Decoder", "shown_bytes"]

DECODINGS = ("auto", "text", "json", "hex", "base64")

_CUT = 2000
"""Characters of a value in a list; the view of one record shows more."""

_LOSSLESS = 2**53
"""A browser's numbers are exact up to this one."""


class Decoder:
    """Shows the values of one topic. No schema registry is asked: looking sends nothing anywhere."""

    def __init__(self, topic: Topic, decoding: str, cut: int = _CUT) -> None:
        self._decoding = decoding
        self._cut = cut
        self._codec: ValueCodec | None = None
        self.problem: str | None = None
        """Why the topic's own format cannot be used."""
        if decoding == "auto" and not topic.schemas:
            try:
                settings = value_settings(topic.name, topic.config)
                if settings is not None:
                    self._codec = codec_for(settings._replace(registry_url="", user_info=None))
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
        text = json.dumps(plain(decoded), ensure_ascii=False)
        return self._cut_off(text, self._codec.settings.payload, len(data))

    def key(self, data: bytes | None) -> dict[str, Any]:
        """A key."""
        return shown_bytes(data, self._decoding, self._cut)

    def headers(self, headers: list[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """The headers of a record."""
        return [
            {"key": one["key"], **shown_bytes(one["value"], "auto", self._cut)}
            for one in (headers or [])[:100]
        ]

    def columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The typed columns of a record, as one JSON object."""
        text = json.dumps({name: plain(value) for name, value in row.items()}, ensure_ascii=False)
        return self._cut_off(text, "columns", len(text))

    def _cut_off(self, text: str, kind: str, size: int) -> dict[str, Any]:
        return {"text": text[: self._cut], "as": kind, "bytes": size, "cut": len(text) > self._cut}


def shown_bytes(data: bytes | None, decoding: str, cut: int = _CUT) -> dict[str, Any]:
    """Bytes as text in a way that is asked for; ``auto`` takes JSON, else text, else hexadecimal digits."""
    if data is None:
        return {"text": None, "as": "null", "bytes": 0, "cut": False}
    text, kind = _DECODE[decoding](data)
    return {"text": text[:cut], "as": kind, "bytes": len(data), "cut": len(text) > cut}


def _auto(data: bytes) -> tuple[str, str]:
    text = _readable(data)
    if text is None:
        return data.hex(" "), "hex"
    return text, "json" if text[:1] in {"{", "["} and _is_json(text) else "text"


def _text(data: bytes) -> tuple[str, str]:
    return data.decode("utf-8", "replace"), "text"


def _json(data: bytes) -> tuple[str, str]:
    text = data.decode("utf-8", "replace")
    return (text, "json") if _is_json(text) else (text, "text: not JSON")


_DECODE: dict[str, Callable[[bytes], tuple[str, str]]] = {
    "auto": _auto,
    "text": _text,
    "json": _json,
    "hex": lambda data: (data.hex(" "), "hex"),
    "base64": lambda data: (base64.b64encode(data).decode(), "base64"),
}


def _readable(data: bytes) -> str | None:
    """The text, unless it has characters that no text has."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if any(ord(one) < 32 and one not in "\t\r\n" for one in text[:1000]) else text


def _is_json(text: str) -> bool:
    if len(text) > 1_000_000:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def plain(value: Any, depth: int = 0) -> Any:
    """A value of a column or of Avro as JSON has it. Whole numbers that a browser would round become text."""
    if depth > 50:
        return "…"
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < _LOSSLESS else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return shown_bytes(bytes(value), "auto")["text"]
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, timedelta)):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one, depth + 1) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one, depth + 1) for one in value]
    return str(value)
