"""Avro schemas, and how values are turned into what Avro stores (`Shape`).

A schema that a release has written never changes: readers know it by its fingerprint. So the names of records and
fields here and in `spark_eos.protocol.encoding.values` are frozen, also where the code has better ones by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from immutables import Map


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


def parsed(schemas: Iterable[Any]) -> dict[bytes, Any]:
    """The schemas by their fingerprints, as fastavro takes them."""
    from fastavro.schema import parse_schema

    return {fingerprint(schema): parse_schema(schema) for schema in schemas}


def _named_once(schema: Any, by_name: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_named_once(part, by_name) for part in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("name")
    if name in by_name:
        if by_name[name] != schema:
            raise ValueError(f"two schemas have the name {name}")
        return name
    if name is not None:
        by_name[name] = schema
    if schema["type"] == "array":
        return {**schema, "items": _named_once(schema["items"], by_name)}
    if schema["type"] == "record":
        fields = [{**field, "type": _named_once(field["type"], by_name)} for field in schema["fields"]]
        return {**schema, "fields": fields}
    return schema


def same(value: Any) -> Any:
    """The value itself: what Avro stores of it."""
    return value


class Shape(NamedTuple):
    """How a value is stored: its Avro schema in each version of the format, and the value that Avro takes and gives.

    ``write`` and ``read`` convert the protocol's value to Avro's and back. ``since`` is the version that brings it,
    ``newest`` the one in which a part of it came last.
    """

    schema: Callable[[int], Any]
    write: Callable[[Any], Any] = same
    read: Callable[[Any], Any] = same
    since: int = 1
    newest: int = 1


LONG = Shape(lambda _: "long")
STRING = Shape(lambda _: "string")
BOOLEAN = Shape(lambda _: "boolean")
BYTES = Shape(lambda _: "bytes")
LONGS = Shape(lambda _: array("long"))
"""A column of numbers: any sequence of them is stored, and a list is read."""


def since(version: int, shape: Shape) -> Shape:
    """The shape of a field that came with this version. What is older has the default of the field's named tuple."""
    return shape._replace(since=version)


def versions(shape: Shape) -> dict[int, Any]:
    """Every schema of the shape that differs from the one before it, by the version that brought it."""
    schemas: dict[int, Any] = {}
    for version in range(1, max(shape.since, shape.newest) + 1):
        schema = _named_once(shape.schema(version), {})
        if schema not in schemas.values():
            schemas[version] = schema
    return schemas


def converted(shape: Shape, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Shape:
    """A shape of the values that ``write`` makes values of ``shape`` of, and ``read`` makes of them."""
    then, first = shape.write, shape.read
    return shape._replace(
        write=write if then is same else (lambda value: then(write(value))),
        read=read if first is same else (lambda stored: read(first(stored))),
    )


def optional_of(shape: Shape) -> Shape:
    """The shape of a value that may be None."""
    write, read = shape.write, shape.read
    return shape._replace(
        schema=lambda version: optional(shape.schema(version)),
        write=write if write is same else (lambda value: None if value is None else write(value)),
        read=read if read is same else (lambda stored: None if stored is None else read(stored)),
    )


def array_of(shape: Shape) -> Shape:
    """The shape of a tuple of any length, of items of this shape."""
    write, read = shape.write, shape.read
    return shape._replace(
        schema=lambda version: array(shape.schema(version)),
        write=list if write is same else (lambda values: list(map(write, values))),
        read=tuple if read is same else (lambda stored: tuple(map(read, stored))),
    )


def record_of(kind: Any, /, **fields: Shape) -> Shape:
    """The shape of a named tuple ``kind``, whose fields are stored in this order, as a record of the same name.

    A field of ``kind`` that is not named is not stored.
    """
    writers = [(name, shape.write) for name, shape in fields.items() if shape.write is not same]
    readers = [(name, shape.read) for name, shape in fields.items() if shape.read is not same]

    names = kind._fields

    def write(value: Any) -> dict[str, Any]:
        stored: dict[str, Any] = dict(zip(names, value, strict=True))
        for name, convert in writers:
            stored[name] = convert(stored[name])
        return stored

    def read(stored: dict[str, Any]) -> Any:
        for name, convert in readers:
            if name in stored:
                stored[name] = convert(stored[name])
        return kind(**stored)

    def schema(version: int) -> dict[str, Any]:
        schemas = {name: shape.schema(version) for name, shape in fields.items() if shape.since <= version}
        return record(kind.__name__, **schemas)

    return Shape(schema, write, read, newest=max(max(shape.since, shape.newest) for shape in fields.values()))


def columns_of(name: str, /, **columns: Shape) -> Shape:
    """The shape of columns that belong together: a dictionary of values that Avro takes as they are."""
    return Shape(
        lambda version: record(name, **{key: shape.schema(version) for key, shape in columns.items()})
    )


def keyed_by(name: str, shape: Shape) -> Shape:
    """The shape of a map of named tuples of this shape, by their field ``name``: an array in the order of the keys."""
    write, read, key = shape.write, shape.read, attrgetter(name)

    def write_map(values: Any) -> list[Any]:
        return [write(value) for _, value in sorted(values.items())]

    def read_map(stored: list[Any]) -> Map[Any, Any]:
        return Map((key(value), value) for value in map(read, stored))

    return shape._replace(schema=lambda version: array(shape.schema(version)), write=write_map, read=read_map)


def map_of(shape: Shape, /, **parts: str) -> Shape:
    """The shape of a map of named tuples of this shape, as records that have the parts of the key before all else.

    ``parts`` are their names and Avro types; a key of several parts is a tuple. The order is that of the keys.
    """
    write, read, names = shape.write, shape.read, tuple(parts)
    (only,) = names if len(names) == 1 else (None,)

    def write_map(values: Any) -> list[Any]:
        if not values:
            return []
        if only is not None:
            return [{only: key, **write(value)} for key, value in sorted(values.items())]
        return [
            {**dict(zip(names, key, strict=True)), **write(value)} for key, value in sorted(values.items())
        ]

    def read_map(stored: list[Any]) -> Map[Any, Any]:
        if not stored:
            return Map()
        if only is not None:
            return Map([(item.pop(only), read(item)) for item in stored])
        return Map([(tuple([item.pop(name) for name in names]), read(item)) for item in stored])

    def schema(version: int) -> dict[str, Any]:
        inner = shape.schema(version)
        name = f"{inner['name']}By{''.join(part.title().replace('_', '') for part in names)}"
        return array({**inner, "name": name, "fields": [*record(name, **parts)["fields"], *inner["fields"]]})

    return shape._replace(schema=schema, write=write_map, read=read_map)
