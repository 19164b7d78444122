"""Avro schemas, and how values are turned into what Avro stores (`Shape`).

A schema that a release has written never changes: readers know it by its fingerprint. So the names of records and
fields here and in `spark_eos.protocol.encoding.values` are frozen, also where the code has better ones by now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "BOOLEAN",
    "BYTES",
    "LONG",
    "STRING",
    "Shape",
    "array",
    "array_of",
    "fingerprint",
    "named_once",
    "optional",
    "optional_of",
    "record",
    "record_of",
    "same",
]


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """Avro's schema of a record."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


def array(items: Any) -> dict[str, Any]:
    """Avro's schema of an array."""
    return {"type": "array", "items": items}


def optional(kind: Any) -> list[Any]:
    """Avro's schema of a value that may be missing."""
    return ["null", kind]


def fingerprint(schema: dict[str, Any]) -> bytes:
    """The 8 bytes of Avro's CRC-64 (Rabin) fingerprint of the schema's canonical form."""
    from fastavro.schema import fingerprint as of_text
    from fastavro.schema import to_parsing_canonical_form

    return bytes.fromhex(of_text(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def named_once(schema: Any) -> Any:
    """The schema with each named type defined where it is met first, and named later, as Avro wants it."""
    return _named_once(schema, {})


def _named_once(schema: Any, known: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_named_once(one, known) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("name")
    if name in known:
        if known[name] != schema:
            raise ValueError(f"two schemas have the name {name}")
        return name
    if name is not None:
        known[name] = schema
    if schema["type"] == "array":
        return {**schema, "items": _named_once(schema["items"], known)}
    if schema["type"] == "record":
        fields = [{**field, "type": _named_once(field["type"], known)} for field in schema["fields"]]
        return {**schema, "fields": fields}
    return schema


def same(value: Any) -> Any:
    """The value itself: what Avro stores of it."""
    return value


class Shape(NamedTuple):
    """How a value is stored: its Avro schema in each version of the entries, and the value that Avro takes and gives.

    ``write`` and ``read`` convert the protocol's value to Avro's and back.
    """

    schema: Callable[[int], Any]
    write: Callable[[Any], Any] = same
    read: Callable[[Any], Any] = same


LONG = Shape(lambda _: "long")
STRING = Shape(lambda _: "string")
BOOLEAN = Shape(lambda _: "boolean")
BYTES = Shape(lambda _: "bytes")


def optional_of(shape: Shape) -> Shape:
    """The shape of a value that may be None."""
    write, read = shape.write, shape.read
    return Shape(
        lambda version: optional(shape.schema(version)),
        write if write is same else (lambda value: None if value is None else write(value)),
        read if read is same else (lambda stored: None if stored is None else read(stored)),
    )


def array_of(shape: Shape) -> Shape:
    """The shape of a tuple of any length, of items of this shape."""
    write, read = shape.write, shape.read
    return Shape(
        lambda version: array(shape.schema(version)),
        list if write is same else (lambda values: list(map(write, values))),
        tuple if read is same else (lambda stored: tuple(map(read, stored))),
    )


def record_of(kind: Any, /, **fields: Shape) -> Shape:
    """The shape of a named tuple ``kind``, whose fields are stored in this order, as a record of the same name."""
    writers = [(name, shape.write) for name, shape in fields.items() if shape.write is not same]
    readers = [(name, shape.read) for name, shape in fields.items() if shape.read is not same]

    def write(value: Any) -> dict[str, Any]:
        stored: dict[str, Any] = value._asdict()
        for name, convert in writers:
            stored[name] = convert(stored[name])
        return stored

    def read(stored: dict[str, Any]) -> Any:
        for name, convert in readers:
            stored[name] = convert(stored[name])
        return kind(**stored)

    def schema(version: int) -> dict[str, Any]:
        return record(kind.__name__, **{name: shape.schema(version) for name, shape in fields.items()})

    return Shape(schema, write, read)
