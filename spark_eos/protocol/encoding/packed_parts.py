"""Maps that a snapshot stores in parts (`spark_eos.protocol.packed_map`): each is bytes, Avro inside of Avro."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from io import BytesIO
from typing import Any

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import Shape, array, parsed, record, versions
from spark_eos.protocol.packed_map import PackedMap, Part

_AS = "as_"
"""What the name of the column begins with; it ends with the fingerprint of the schema of the parts."""


def in_parts(name: str, part_of: Callable[[Any], int], shape: Shape) -> Shape:
    """The shape of a `PackedMap`, of whose parts ``shape`` is the one, as columns: their numbers, and bytes of each.

    The name of the second column has the fingerprint of the schema that wrote the bytes. So the fingerprint of a
    snapshot covers it, and a snapshot of an older version is read by the schema of that version.
    """

    @cache
    def known() -> dict[str, Any]:
        """All schemas of a part by the names of their columns, parsed."""
        return {f"{_AS}{key.hex()}": schema for key, schema in parsed(versions(shape).values()).items()}

    def schema(version: int) -> dict[str, Any]:
        at, column = [
            found
            for found in zip(versions(shape).items(), known(), strict=True)
            if found[0][0] <= max(version, shape.since)
        ][-1]
        packed = {"type": "bytes", "packed": at[1]}
        return record(name, parts=array("long"), **{column: array(packed)})

    def write(values: PackedMap[Any, Any]) -> dict[str, Any]:
        from fastavro import schemaless_writer

        column, newest = [*known().items()][-1]
        numbers, packed = [], []
        for number, part in sorted(values.parts.items()):
            if part.packed is None:
                stream = BytesIO()
                schemaless_writer(stream, newest, shape.write(part.values))
                part.packed = stream.getvalue()
            numbers.append(number)
            packed.append(part.packed)
        return {"parts": numbers, column: packed}

    def unpack(number: int, data: bytes, of: Any) -> Map[Any, Any]:
        from fastavro import schemaless_reader

        stream = BytesIO(data)
        try:
            values: Map[Any, Any] = shape.read(schemaless_reader(stream, of, None))
        except Exception as error:
            raise CorruptRecordError(
                f"part {number} of {name} in a snapshot is not valid: {error!r}"
            ) from error
        if stream.read(1) or not values or any(part_of(key) != number for key in values):
            raise CorruptRecordError(
                f"part {number} of {name} in a snapshot is not valid: other keys are in it"
            )
        return values

    def read(stored: dict[str, Any]) -> PackedMap[Any, Any]:
        numbers = stored.pop("parts")
        ((column, bodies),) = stored.items()
        of = known()[column]
        is_newest = column == [*known()][-1]
        parts: Map[int, Part[Any, Any]] = Map(
            {
                number: Part(None, partial(unpack, number, data, of), data if is_newest else None)
                for number, data in zip(numbers, bodies, strict=True)
            }
        )
        if len(parts) != len(numbers):
            raise CorruptRecordError(f"a part of {name} is there twice")
        return PackedMap(part_of, parts)

    return Shape(schema, write, read, since=shape.since, newest=shape.newest)
