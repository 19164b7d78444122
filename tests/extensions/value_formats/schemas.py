"""Avro schemas of the tests, and random values of them."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal

import fastavro
import pyarrow as pa

from spark_eos.extensions.value_formats.avro.types import parse

EVERY = {
    "type": "record",
    "name": "Every",
    "namespace": "org.example",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "truth", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "text", "type": "string"},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["CLUB", "HEART"]}},
        {"name": "longs", "type": {"type": "array", "items": "long"}},
        {
            "name": "nested",
            "type": {"type": "array", "items": {"type": "array", "items": ["null", "string"]}},
        },
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]},
        },
        {"name": "again", "type": {"type": "array", "items": "Inner"}},
        {"name": "maybe", "type": ["null", "string"]},
        {"name": "maybe_last", "type": ["string", "null"]},
        {"name": "alone", "type": ["long"]},
        {"name": "number", "type": ["int", "null", "long"]},
        {"name": "any", "type": ["null", "int", "string", "Inner"]},
        {"name": "maybe_inner", "type": ["null", "Inner"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time_ms", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "time_us", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "at_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "at_us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "at_ns", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "local_ms", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "local_us", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}},
        {
            "name": "price",
            "type": {
                "type": "fixed",
                "name": "P",
                "size": 6,
                "logicalType": "decimal",
                "precision": 12,
                "scale": 2,
            },
        },
        {"name": "span", "type": {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"}},
        {"name": "unknown", "type": {"type": "string", "logicalType": "no-such-type"}},
    ],
}
"""Every type, every logical type, and each kind of union."""

TYPES = {
    "nothing": pa.null(),
    "truth": pa.bool_(),
    "small": pa.int32(),
    "large": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "raw": pa.binary(),
    "text": pa.string(),
    "four": pa.binary(),
    "suit": pa.string(),
    "number": pa.int64(),
    "day": pa.date32(),
    "time_ms": pa.int32(),
    "time_us": pa.int64(),
    "at_ms": pa.timestamp("us", "UTC"),
    "at_us": pa.timestamp("us", "UTC"),
    "at_ns": pa.int64(),
    "local_ms": pa.timestamp("us"),
    "local_us": pa.timestamp("us"),
    "uuid": pa.string(),
    "money": pa.decimal128(38, 4),
    "price": pa.decimal128(12, 2),
    "span": pa.binary(),
    "unknown": pa.string(),
}
"""The columns of those that have no parts, as Spark's own Avro source has them."""


def plain(schema):
    """The schema without logical types: fastavro gives the stored numbers then, and no Python dates."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if isinstance(schema, dict):
        return {name: plain(one) for name, one in schema.items() if name != "logicalType"}
    return schema


def random_value(schema, random, names):  # noqa: C901  (a case for each type)
    """A value of a schema without logical types, as fastavro takes it."""
    if isinstance(schema, list):
        return random_value(random.choice(schema), random, names)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, (dict, list)):
        return random_value(kind, random, names)
    if kind in names and isinstance(schema, str):
        return random_value(names[kind], random, names)
    match kind:
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "int":
            return random.choice([0, -1, 1, 2**31 - 1, -(2**31), random.randint(-1000, 1000)])
        case "long":
            return random.choice([0, -1, 63, 64, -65, 2**53 + 1, -(2**40), random.randint(-(10**12), 10**12)])
        case "float":
            return random.choice([0.0, -1.5, 2.0**100, math.inf])
        case "double":
            return random.choice([0.0, -1.5, 1e300, math.pi])
        case "bytes":
            return random.choice([b"", b"\x00\xff", b"\x80" * 3, random.randbytes(random.randint(0, 12))])
        case "string":
            return random.choice(["", "naïve ☕", "x" * 200, str(random.random())])
        case "fixed":
            return random.randbytes(schema["size"])
        case "enum":
            return random.choice(schema["symbols"])
        case "array":
            return [random_value(schema["items"], random, names) for _ in range(random.choice([0, 0, 1, 3]))]
        case "map":
            return {
                f"k{n}": random_value(schema["values"], random, names)
                for n in range(random.choice([0, 1, 2]))
            }
        case "record":
            names[schema["name"]] = schema
            return {part["name"]: random_value(part["type"], random, names) for part in schema["fields"]}
    raise AssertionError(kind)


def written(schema, value):
    """By fastavro, without a header."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parse(json.dumps(schema)).parsed, value)
    return out.getvalue()


def of(name, fields, **more):
    return {"type": "record", "name": name, "fields": fields, **more}


def example():
    """A value of `EVERY`, as fastavro takes it with logical types."""
    utc = dt.timezone.utc
    return {
        "nothing": None,
        "truth": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "single": 0.5,
        "double": 1e300,
        "raw": b"\x00\xff",
        "text": "naïve ☕",
        "four": b"abcd",
        "suit": "HEART",
        "longs": [1, -(2**63)],
        "nested": [["a", None], []],
        "counts": {"a": 1},
        "inner": {"x": 1.5},
        "again": [{"x": 2.5}],
        "maybe": None,
        "maybe_last": "y",
        "alone": 5,
        "number": 2**40,
        "any": "text",
        "maybe_inner": {"x": 0.0},
        "day": dt.date(1969, 7, 20),
        "time_ms": dt.time(1, 2, 3, 4000),
        "time_us": dt.time(1, 2, 3, 4),
        "at_ms": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, utc),
        "at_us": dt.datetime(2026, 11, 24, 1, 2, 3, 456789, utc),
        "at_ns": 1_795_000_000_123_456_789,
        "local_ms": dt.datetime(2026, 11, 24, 1, 2, 3, 456000),  # noqa: DTZ001
        "local_us": dt.datetime(1, 1, 1),  # noqa: DTZ001
        "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "money": Decimal("-9999999999999999999999999999999999.9999"),
        "price": Decimal("-9999999999.99"),
        "span": b"\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00",
        "unknown": "as text",
    }
