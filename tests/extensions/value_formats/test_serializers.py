"""The serializers for topics that do not say what their values are, with producers and consumers."""

from __future__ import annotations

import pytest

from spark_eos import (
    AvroDeserializer,
    AvroSerializer,
    Consumer,
    JsonDeserializer,
    JsonSerializer,
    Producer,
    TopicPartition,
)
from spark_eos.errors import ConfigError, RecordDeserializationError, SerializationError
from tests.extensions.value_formats.registry_server import RegistryServer
from tests.extensions.value_formats.schemas import of

OLD = of("N", [{"name": "n", "type": "int"}])
NEW = of("N", [{"name": "n", "type": "long"}, {"name": "unit", "type": "string", "default": "m"}])


def polled(url, **settings):
    consumer = Consumer(url, auto_offset_reset="earliest", **settings)
    consumer.assign([TopicPartition("t", 0)])
    return consumer


def test_keys_and_values_through_a_topic(log_url):
    with Producer(
        log_url, key_serializer=AvroSerializer('"string"'), value_serializer=AvroSerializer(OLD)
    ) as producer:
        producer.send("t", {"n": 1}, key="anna")
        producer.send("t", None, key="anna")
        with pytest.raises(SerializationError, match="does not fit"):
            producer.send("t", {"n": "x"}, key="anna")
    found = polled(
        log_url,
        key_deserializer=AvroDeserializer('"string"'),
        value_deserializer=AvroDeserializer(NEW, writer_schemas=[OLD]),
    ).poll()
    assert [(record.key, record.value) for record in found] == [
        ("anna", {"n": 1, "unit": "m"}),
        ("anna", None),
    ]
    with pytest.raises(RecordDeserializationError, match="no schema has the fingerprint"):
        polled(log_url, value_deserializer=AvroDeserializer(NEW)).poll()


def test_confluents_format_with_and_without_a_registry():
    data = AvroSerializer(OLD, "avro-confluent", schema_id=100).serialize("t", {"n": 3})
    assert data == b"\x00\x00\x00\x00\x64\x06"
    read = AvroDeserializer(NEW, "avro-confluent", writer_schemas={100: OLD})
    assert read.deserialize("t", data) == {"n": 3, "unit": "m"}
    with RegistryServer("me:secret") as registry:
        registry.add("t-value", OLD)
        read = AvroDeserializer(NEW, "avro-confluent", registry_url=registry.url, user_info="me:secret")
        assert read.deserialize("t", data) == {"n": 3, "unit": "m"}
        assert read.deserialize("t", None) is None
        refused = AvroDeserializer(NEW, "avro-confluent", registry_url=registry.url)
        with pytest.raises(
            ConfigError, match="HTTP 401"
        ):  # It is the registry that refuses, and no value is broken.
            refused.deserialize("t", b"\x00\x00\x00\x00\x65\x06")


def test_json():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert JsonSerializer(schema, schema_id=7).serialize("t", {"n": 1}) == b'\x00\x00\x00\x00\x07{"n":1}'
    assert JsonDeserializer(is_framed=True).deserialize("t", b'\x00\x00\x00\x00\x09{"n":1}') == {"n": 1}
    with pytest.raises(ValueError, match="n must be integer"):
        JsonSerializer(schema).serialize("t", {"n": "x"})
    assert JsonSerializer().serialize("t", None) is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AvroSerializer(OLD, "avro-confluent"), "needs it"),
        (lambda: AvroSerializer(OLD, schema_id=1), "schema_id is for"),
        (lambda: AvroSerializer(OLD, "xml"), "expected avro, "),
        (lambda: AvroSerializer("{"), "this is not"),
        (lambda: AvroDeserializer(OLD, "avro-confluent", registry_url="nowhere"), "expected a URL"),
    ],
)
def test_settings_that_cannot_be(make, says):
    with pytest.raises(ConfigError, match=says):
        make()
