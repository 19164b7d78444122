"""What records that are sent by themselves, partitions and offsets may be made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import iscoroutinefunction
from math import isnan
from numbers import Real
from operator import index
from typing import SupportsIndex, TypeVar

import pyarrow as pa

from spark_eos.clients.records import ConsumerGroupMetadata, Header
from spark_eos.errors import ConfigError, InvalidRecordError, InvalidRequestError
from spark_eos.protocol.types import LATEST_MS, OffsetAndMetadata, TopicPartition

V = TypeVar("V")


def as_partition(value: object) -> TopicPartition:
    """A partition: a `TopicPartition`, or a pair of a topic and a number. Raises `InvalidRequestError`."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        topic, number = value
        if isinstance(topic, str) and hasattr(number, "__index__") and not isinstance(number, bool):
            return TopicPartition(topic, int(index(number)))  # Of an `IntEnum`, too.
    raise InvalidRequestError(
        f"{value!r} is no partition: give TopicPartition(topic, partition) of spark_eos, text and a number"
    )


def as_partitions(values: object) -> list[TopicPartition]:
    """Partitions, of a list of them. Raises `InvalidRequestError`."""
    if isinstance(values, (str, TopicPartition)) or not isinstance(values, Iterable):
        raise InvalidRequestError(
            f"{values!r} is no list of partitions: give [TopicPartition(topic, partition), ...]"
        )
    return [as_partition(value) for value in values]


def as_names(value: str | Iterable[str], kind: str) -> list[str]:
    """Names, of a list of them, or a single one. Raises `InvalidRequestError`."""
    names = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    for name in names:
        if not isinstance(name, str):
            raise InvalidRequestError(f"{name!r} is no {kind}: give its text, or a list of them")
    return names


def check_function(function: object, name: str) -> None:
    """Raise `InvalidRequestError` for what cannot be called, unless it is None: a later call would fail in silence."""
    if function is not None and not callable(function):
        raise InvalidRequestError(f"{name}={function!r}: it has to be a function, or None")


def check_callback(function: object, name: str) -> None:
    """The same for what a thread calls, which awaits nothing: a coroutine function would never do what it says."""
    check_function(function, name)
    if iscoroutinefunction(function):
        raise InvalidRequestError(
            f"{name}={function!r} is a coroutine function, and is called by a thread, which awaits nothing: give one "
            "without async"
        )


def check_time(value: object, name: str, unit: str = "milliseconds") -> None:
    """Raise `InvalidRequestError` unless a time, or how long to wait, is a number."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool) and not isnan(value):
            return
    except OverflowError:
        raise InvalidRequestError(f"{name} is too large: no float is such a number of {unit}") from None
    raise InvalidRequestError(f"{name} is {value!r}: it has to be a number of {unit}")


def check_poll(timeout_ms: float, limit: int) -> None:
    """Raise `InvalidRequestError`, or `ConfigError`, for a wait or a number of records that no poll can have."""
    check_time(timeout_ms, "timeout_ms")
    if not hasattr(limit, "__index__"):
        raise InvalidRequestError(f"max_records={limit!r}: it has to be a whole number, or None")
    if limit < 1:
        raise ConfigError(f"max_records={limit}: at least one record has to be asked for")


def check_group(group: ConsumerGroupMetadata) -> None:
    """Raise `InvalidRequestError` unless each field has its type."""
    for field, kinds in (
        ("group_id", str),
        ("generation_id", int),
        ("member_id", str),
        ("group_instance_id", (str, type(None))),
        ("topic_ids", tuple),
    ):
        value = getattr(group, field)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise InvalidRequestError(
                f"{field} of ConsumerGroupMetadata is {value!r}: give what consumer.group_metadata() returns, or the "
                "text group.id"
            )


def as_offsets(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by partition; those that are numbers have no metadata. Raises `InvalidRequestError`."""
    return {at: _offset(at, value) for at, value in by_partition(offsets, "offset").items()}


def by_partition(values: Mapping[TopicPartition, V], kind: str) -> dict[TopicPartition, V]:
    """What is given for each partition, in a dict. Raises `InvalidRequestError`."""
    if not isinstance(values, Mapping):
        raise InvalidRequestError(
            f"{kind}s are given as a dict, {{TopicPartition(topic, partition): {kind}}}, not as {values!r}"
        )
    return {as_partition(at): value for at, value in values.items()}


def _offset(at: TopicPartition, value: object) -> OffsetAndMetadata:
    offset, metadata, *_ = value if isinstance(value, tuple) and len(value) in {2, 3} else (value, "")
    if not hasattr(offset, "__index__") or isinstance(offset, bool):
        raise InvalidRequestError(f"the offset of {at} is {offset!r}: it has to be a whole number")
    if metadata is not None and not isinstance(metadata, str):
        raise InvalidRequestError(
            f"the metadata of the offset of {at} is {metadata!r}: it has to be text, "
            "as in OffsetAndMetadata(offset, metadata)"
        )
    return OffsetAndMetadata(int(index(offset)), metadata or "")


def as_bytes(value: object, field: str) -> bytes:
    """A key or value as it is stored: text as UTF-8. Raises `InvalidRecordError`."""
    if isinstance(value, str):
        return _utf8(value, f"a record's {field}")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    hint = f". Set {field}.serializer" if isinstance(value, (dict, list)) else ""
    if hint and field == "value":
        hint += (
            ", or the topic's value.format (JSON, Avro), or create the topic with columns and use send_arrow"
        )
    raise InvalidRecordError(
        f"a record's {field} must be bytes, text or None, not {type(value).__name__}{hint}"
    )


def as_number(partition: SupportsIndex) -> int:
    """The number of a partition; NumPy's will do. Raises `InvalidRequestError` for all else."""
    if not hasattr(partition, "__index__") or isinstance(partition, bool):
        raise InvalidRequestError(f"partition={partition!r}: it has to be a whole number, or None")
    return int(index(partition))


def check_rows(rows: pa.Table | pa.RecordBatch) -> None:
    """Raise `InvalidRecordError` for rows in another form than Arrow's."""
    if not isinstance(rows, (pa.Table, pa.RecordBatch)):
        raise InvalidRecordError(
            f"send_arrow takes rows as a pyarrow.Table or RecordBatch, not {type(rows).__name__}: give "
            "pyarrow.table({column: [...]}), or pyarrow.Table.from_pylist(rows), from_batches(batches) or "
            "from_pandas(frame, preserve_index=False)"
        )


def check_headers(headers: Sequence[Header]) -> int:
    """How many bytes they are, as `spark_eos.log.data.arrow.bytes_of_rows` counts them in columns.

    Raises `InvalidRecordError` unless they are a list of pairs of text and bytes (or None).
    """
    # What can be walked through once would be checked, and not be sent.
    if type(headers) is not list and not isinstance(headers, Sequence):
        hint = "list(headers.items())" if isinstance(headers, Mapping) else "[(name, value), ...]"
        raise InvalidRecordError(
            f"headers must be a list of pairs, not {type(headers).__name__}: give {hint}"
        )
    size = 0
    for header in headers:
        if not (
            isinstance(header, tuple)
            and len(header) == 2
            and isinstance(header[0], str)
            and (header[1] is None or isinstance(header[1], bytes))
        ):
            raise InvalidRecordError(f"a header must be a pair of text and bytes (or None), not {header!r}")
        name, value = header
        # A call for each header would be dear: most names are ASCII.
        name_bytes = len(name) if name.isascii() else len(_utf8(name, "the name of a header"))
        size += 8 + name_bytes + (0 if value is None else len(value))
    return size


def _utf8(text: str, noun: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecordError(
            f"{noun} is no text that UTF-8 has ({error}): give bytes, or text without lone surrogates"
        ) from None


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
