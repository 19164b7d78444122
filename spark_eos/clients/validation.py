"""What a record that is sent by itself may be made of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import index
from typing import SupportsIndex

from spark_eos.clients.records import Header
from spark_eos.errors import InvalidRecordError
from spark_eos.protocol.types import LATEST_MS

__all__ = ["as_bytes", "as_timestamp", "bytes_of", "check_headers"]


def as_bytes(value: object, what: str) -> bytes:
    """A key or value as it is stored: text as UTF-8. Raises `InvalidRecordError`."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InvalidRecordError(f"a record's {what} must be bytes, text or None, not {type(value).__name__}")


def bytes_of(headers: Sequence[Header]) -> int:
    """How many bytes they are, as `spark_eos.log.data.arrow.bytes_of_rows` counts them in columns."""
    return sum(8 + len(name.encode()) + (0 if value is None else len(value)) for name, value in headers)


def check_headers(headers: Sequence[Header]) -> None:
    """Raise `InvalidRecordError` unless they are pairs of text and bytes (or None)."""
    for header in headers:
        if not (
            isinstance(header, tuple)
            and len(header) == 2
            and isinstance(header[0], str)
            and (header[1] is None or isinstance(header[1], bytes))
        ):
            raise InvalidRecordError(f"a header must be a pair of text and bytes (or None), not {header!r}")


def as_timestamp(timestamp_ms: SupportsIndex) -> int:
    """A timestamp as a number; NumPy's will do. Raises `InvalidRecordError` for all else, and, as Kafka, below 0."""
    with suppress(TypeError):
        number = index(timestamp_ms)
        if 0 <= number <= LATEST_MS and not isinstance(timestamp_ms, bool):
            return number
    raise InvalidRecordError(
        f"timestamp_ms={timestamp_ms!r}: a record's timestamp is whole milliseconds since 1970, not below 0 and not "
        "after the year 9999; None is the time of the call"
    )
