"""Serializers and deserializers of records: functions, or objects as kafka-python's and confluent-kafka's.

What a client is given may be

- a function of the value: ``lambda value: json.dumps(value).encode()``, ``str.encode``;
- an object with the method ``serialize(topic, value)`` or ``serialize(topic, headers, value)`` (kafka-python), and for
  a consumer ``deserialize(topic, data)`` or ``deserialize(topic, headers, data)``;
- a function of the value and a `SerializationContext` (confluent-kafka).

As in Kafka, None is handed to them like every other value: a serializer decides what a tombstone is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from spark_eos.clients.records import ConsumerRecord, Header
from spark_eos.errors import ConfigError, RecordDeserializationError, SchemaRegistryError, SerializationError
from spark_eos.protocol.types import TopicPartition

if TYPE_CHECKING:
    from spark_eos.log.values.codec import ValueCodec

Field: TypeAlias = Literal["key", "value"]
_Code: TypeAlias = Callable[[str, "list[Header]", Any], Any]
"""Any of the forms above, called in one way: topic, headers, value."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class SerializationContext(NamedTuple):
    """What a function of the value and a context is given, as in confluent-kafka.

    Attributes
    ----------
    topic
        The name of the topic.
    field
        ``key`` or ``value``.
    headers
        The headers of the record. A serializer may add to the list.
    """

    topic: str
    field: str
    headers: list[Header]


class Serializers:
    """The serializers of a producer: its settings ``key.serializer`` and ``value.serializer``."""

    def __init__(self, key: object, value: object) -> None:
        self._pair = (key, value)
        self._key = _called_alike(key, "key", "serialize")
        self._value = _called_alike(value, "value", "serialize")

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

    def serialize(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header] | None
    ) -> tuple[Any, Any, Sequence[Header] | None]:
        """Key, value and headers as they are sent. Raises `SerializationError`."""
        listed = list(headers or ())
        if self._key is not None:
            key = self._called(self._key, "key", topic, listed, key)
        if self._value is not None:
            value = self._called(self._value, "value", topic, listed, value)
        return key, value, listed or headers

    def _called(self, code: _Code, field: Field, topic: str, headers: list[Header], value: Any) -> Any:
        try:
            return code(topic, headers, value)
        except SerializationError:
            raise
        except Exception as error:
            raise SerializationError(
                f"{field}.serializer failed for a record of topic {topic!r} with a {field} of type "
                f"{type(value).__name__} ({type(error).__name__}: {error}). Nothing was sent: send another {field}, or "
                "change the serializer"
            ) from error

    def close(self) -> None:
        """Close those that have a method ``close``."""
        _close(self._pair)


class Deserializers:
    """The deserializers of a consumer: its settings ``key.deserializer`` and ``value.deserializer``."""

    def __init__(self, key: object, value: object) -> None:
        self._pair = (key, value)
        self._key = _called_alike(key, "key", "deserialize")
        self._value = _called_alike(value, "value", "deserialize")

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

    def deserialize(self, record: ConsumerRecord, codec: ValueCodec | None = None) -> ConsumerRecord:
        """The record with key and value as the deserializers give them. Raises `RecordDeserializationError`.

        ``codec`` is that of the topic's values, which are decoded by it unless there is a deserializer for them.
        """
        headers = list(record.headers)
        key, value = record.key, record.value
        if self._key is not None:
            key = self._called(self._key, "key", record, headers, key)
        if self._value is not None:
            value = self._called(self._value, "value", record, headers, value)
        elif codec is not None and value is not None:
            value = self._called(
                lambda _topic, _headers, data: codec.decode(data), "value", record, headers, value
            )
        return record._replace(key=key, value=value)

    def _called(
        self, code: _Code, field: Field, record: ConsumerRecord, headers: list[Header], data: bytes | None
    ) -> Any:
        try:
            return code(record.topic, headers, data)
        except (ConfigError, SchemaRegistryError):
            raise  # Of a schema registry: the record may be as it should.
        except Exception as error:
            at = TopicPartition(record.topic, record.partition)
            raise RecordDeserializationError(
                f"{field}.deserializer failed for the record of {at} at offset {record.offset} "
                f"({type(error).__name__}: {error}). To go on without this record, seek to offset {record.offset + 1}",
                at,
                record.offset,
            ) from error

    def close(self) -> None:
        """Close those that have a method ``close``."""
        _close(self._pair)


def _called_alike(function: Any, field: Field, method: str) -> _Code | None:
    if function is None:
        return None
    code = getattr(function, method, None)
    if code is not None:
        if _takes(code) >= 3:
            return cast("_Code", code)
        return lambda topic, _headers, value: code(topic, value)
    if _takes(function) >= 2:
        return lambda topic, headers, value: function(value, SerializationContext(topic, field, headers))
    return lambda _topic, _headers, value: function(value)


def _takes(code: Callable[..., Any]) -> int:
    """How many arguments a call of it is given: those without a default, and a context."""
    try:
        parameters = inspect.signature(code).parameters.values()
    except (TypeError, ValueError):  # Written in C, without a signature.
        return 1
    return sum(
        parameter.kind in _POSITIONAL
        and (parameter.default is inspect.Parameter.empty or parameter.name == "ctx")
        for parameter in parameters
    )


def _close(codes: Iterable[object]) -> None:
    closed: list[object] = []
    for code in codes:
        close = getattr(code, "close", None)
        if close is not None and not any(code is other for other in closed):
            closed.append(code)
            with suppress(Exception):
                close()
