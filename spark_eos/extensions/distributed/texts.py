"""Tokens and receipts as text: ASCII without spaces, safe to print, to log, to put into a URL or a queue."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from spark_eos.errors import InvalidRequestError


def pack(mark: str, content: Any) -> str:
    """The content (JSON) as text that begins with ``mark``. Its checksum is in it."""
    data = zlib.compress(json.dumps(content, separators=(",", ":")).encode())
    return f"{mark}.{base64.urlsafe_b64encode(data).decode().rstrip('=')}"


def unpack(mark: str, text: str, noun: str) -> Any:
    """The content of a text of `pack`. Raises `InvalidRequestError` if it is another text, or a part of one."""
    if not isinstance(text, str):
        raise InvalidRequestError(f"{text!r} is not a {noun}: give its text")
    prefix, _, body = text.strip().partition(".")
    if prefix != mark:
        raise InvalidRequestError(f"{text[:40]!r} is not a {noun}: it does not begin with {mark + '.'!r}")
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), b"-_", validate=True)
        inflate = zlib.decompressobj()
        content = json.loads(inflate.decompress(data))
    except (ValueError, zlib.error) as error:
        raise InvalidRequestError(_spoiled(text, noun, str(error))) from error
    if inflate.unused_data or not inflate.eof:
        raise InvalidRequestError(_spoiled(text, noun, "its end is another one"))
    return content


def _spoiled(text: str, noun: str, why: str) -> str:
    return f"{text[:40]!r} (of {len(text)} characters) is not a {noun}: {why}. Hand on the whole text"
