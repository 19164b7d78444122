"""Serializers and deserializers of Avro and JSON, for topics that do not say themselves what their values are.

They have the methods that kafka-python calls. They serve for keys as well as for values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spark_eos.errors import ConfigError, SerializationError

if TYPE_CHECKING:
    from spark_eos.log.values.codec import ValueCodec

AvroFormat: TypeAlias = Literal["avro", "avro-confluent", "avro-single-object"]


class _OfOneSchema:
    """The codec of settings that are the same for all topics."""

    _codec: ValueCodec

    def _set_up(self, **settings: Any) -> None:
        from spark_eos.extensions.value_formats.formats import codec_for
        from spark_eos.extensions.value_formats.settings import ValueSettings

        self._codec = codec_for(ValueSettings("of the serializer", **settings))

    def _encoded(self, topic: str, value: Any) -> bytes | None:
        try:
            return None if value is None else self._codec.encode(value)
        except ValueError as error:
            raise SerializationError(f"a record of topic {topic!r}: {error}. Nothing was sent") from error

    def _decoded(self, topic: str, data: bytes | None) -> Any:
        try:
            return None if data is None else self._codec.decode(data)
        except ConfigError:
            raise  # The registry refuses the question.
        except ValueError as error:
            raise SerializationError(f"a record of topic {topic!r}: {error}") from error


class AvroSerializer(_OfOneSchema):
    """Makes Avro of Python's objects: a ``value.serializer`` or ``key.serializer`` of a producer.

    A topic with ``value.format`` needs none. None stays None, a tombstone.

    Parameters
    ----------
    schema
        The Avro schema, as JSON text or as what that is in Python.
    format
        What is in front of a value: ``avro-single-object`` (the schema's fingerprint), ``avro-confluent`` (the schema's
        id), or ``avro`` (nothing).
    schema_id
        For ``avro-confluent``: the id of the schema in the registry.

    Raises
    ------
    ConfigError
        The schema is not valid, or an id is missing or has no effect.

    Examples
    --------
    >>> from spark_eos import AvroDeserializer, AvroSerializer
    >>> schema = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
    >>> data = AvroSerializer(schema).serialize("orders", {"item": "apples"})
    >>> AvroDeserializer(schema).deserialize("orders", data)
    {'item': 'apples'}

    See Also
    --------
    AvroDeserializer : the other way.
    """

    def __init__(
        self,
        schema: Any,
        format: AvroFormat = "avro-single-object",  # noqa: A002
        *,
        schema_id: int | None = None,
    ) -> None:
        if (format == "avro-confluent") != (schema_id is not None):
            raise ConfigError("schema_id is for format='avro-confluent', which needs it")
        number = -1 if schema_id is None else schema_id
        self._set_up(format=_format(format), schema=_text(schema), schema_id=number)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Make bytes of a value.

        Parameters
        ----------
        topic
            The name of the topic, for errors.
        value
            What fastavro takes for the schema.

        Returns
        -------
        bytes or None
            None for None.

        Raises
        ------
        SerializationError
            The value does not fit the schema.
        """
        return self._encoded(topic, value)


class AvroDeserializer(_OfOneSchema):
    """Makes Python's objects of Avro: a ``value.deserializer`` or ``key.deserializer`` of a consumer.

    Parameters
    ----------
    schema
        The schema to read with, by Avro's rules, as JSON text or as what that is in Python.
    format
        As of `AvroSerializer`.
    writer_schemas
        The other schemas that values were written with: for ``avro-confluent`` by id, for ``avro-single-object`` in any
        order.
    registry_url
        For ``avro-confluent``: the schema registry where other ids are looked up.
    user_info
        ``user:password`` for the registry.

    Raises
    ------
    ConfigError
        A schema is not valid.

    Examples
    --------
    >>> from spark_eos import AvroDeserializer
    >>> schema = {"type": "record", "name": "Order", "fields": [{"name": "count", "type": "long"}]}
    >>> AvroDeserializer(schema, "avro-confluent", writer_schemas={7: schema}).deserialize(
    ...     "t", bytes([0, 0, 0, 0, 7, 4])
    ... )
    {'count': 2}

    See Also
    --------
    AvroSerializer : the other way.
    """

    def __init__(
        self,
        schema: Any,
        format: AvroFormat = "avro-single-object",  # noqa: A002
        *,
        writer_schemas: Mapping[int, Any] | Sequence[Any] = (),
        registry_url: str | None = None,
        user_info: str | None = None,
    ) -> None:
        if registry_url is not None:
            from spark_eos.extensions.value_formats.registry import check_url

            check_url(registry_url)
        if format == "avro-confluent":
            writers = json.dumps({str(number): writer for number, writer in dict(writer_schemas).items()})
        else:
            writers = json.dumps(list(writer_schemas)) if writer_schemas else ""
        self._set_up(
            format=_format(format),
            schema=_text(schema),
            writers=writers,
            registry_url=registry_url or "",
            user_info=user_info,
        )

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Make a value of bytes.

        Parameters
        ----------
        topic
            The name of the topic, for errors.
        data
            The bytes, or None.

        Returns
        -------
        object
            The value; None for None.

        Raises
        ------
        SerializationError
            The bytes are no value of their schema, or that is not known.
        SchemaRegistryError
            The registry does not answer.
        """
        return self._decoded(topic, data)


class JsonSerializer(_OfOneSchema):
    """Makes JSON of Python's objects: a ``value.serializer`` or ``key.serializer`` of a producer.

    Times become ISO 8601, bytes base64, UUIDs and dates text. None stays None, a tombstone.

    Parameters
    ----------
    schema
        A JSON Schema that values have to be valid by, as JSON text or as what that is in Python. None: anything.
    schema_id
        The id of Confluent's header. None: there is no header.

    Raises
    ------
    ConfigError
        The schema is not valid, or the package that checks values is missing.

    Examples
    --------
    >>> from spark_eos import JsonDeserializer, JsonSerializer
    >>> JsonSerializer().serialize("orders", {"item": "apples"})
    b'{"item":"apples"}'

    See Also
    --------
    JsonDeserializer : the other way.
    """

    def __init__(self, schema: Any = None, *, schema_id: int | None = None) -> None:
        self._set_up(
            format="json" if schema_id is None else "json-confluent",
            schema="" if schema is None else _text(schema),
            schema_id=-1 if schema_id is None else schema_id,
        )

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Make bytes of a value. As `AvroSerializer.serialize`.

        Parameters
        ----------
        value
            What JSON has, and times, bytes, decimals and UUIDs.

        Raises
        ------
        SerializationError
            The value cannot be written as JSON, or is not valid by the schema.
        """
        return self._encoded(topic, value)


class JsonDeserializer(_OfOneSchema):
    """Makes Python's objects of JSON: a ``value.deserializer`` or ``key.deserializer`` of a consumer.

    Parameters
    ----------
    is_framed
        Whether values have Confluent's header, which is passed over.

    Examples
    --------
    >>> from spark_eos import JsonDeserializer
    >>> JsonDeserializer().deserialize("orders", b'{"item":"apples"}')
    {'item': 'apples'}

    See Also
    --------
    JsonSerializer : the other way.
    """

    def __init__(self, *, is_framed: bool = False) -> None:
        self._set_up(format="json-confluent" if is_framed else "json")

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Make a value of bytes. As `AvroDeserializer.deserialize`."""
        return self._decoded(topic, data)


def _format(name: str) -> str:
    if name not in {"avro", "avro-confluent", "avro-single-object"}:
        raise ConfigError(f"format={name!r}: expected avro, avro-confluent or avro-single-object")
    return name


def _text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
