"""Values of Kafka-shaped topics that have a format: Avro and JSON, one by one and as columns."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

_SERIALIZERS = ("AvroDeserializer", "AvroSerializer", "JsonDeserializer", "JsonSerializer")

EXTENSION = Extension(
    names={f"spark_eos.{name}": f"serializers:{name}" for name in _SERIALIZERS},
    value_formats=dict.fromkeys(
        ("avro", "avro-confluent", "avro-single-object", "json", "json-confluent"), "formats:FORMATS"
    ),
)
