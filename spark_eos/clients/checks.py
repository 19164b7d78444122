"""What a record that is sent by itself may be made of."""

from __future__ import annotations

from collections.abc import Sequence

from spark_eos.clients.records import Header
from spark_eos.errors import InvalidRecordError

__all__ = ["as_bytes", "check_headers", "check_timestamp"]

_LATEST_MS = (1 << 63) - 1


def as_bytes(value: object, what: str) -> bytes:
    """A key or value as it is stored: text as UTF-8. Raises `InvalidRecordError`."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InvalidRecordError(f"a record's {what} must be bytes, text or None, not {type(value).__name__}")


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


def check_timestamp(timestamp_ms: object) -> None:
    """Raise `InvalidRecordError` unless it is a whole number of milliseconds, as Kafka: not below 0."""
    if (
        not isinstance(timestamp_ms, int)
        or isinstance(timestamp_ms, bool)
        or not 0 <= timestamp_ms <= _LATEST_MS
    ):
        raise InvalidRecordError(
            f"timestamp_ms={timestamp_ms!r}: a record's timestamp is whole milliseconds since 1970, not below 0; None "
            "is the time of the call"
        )
