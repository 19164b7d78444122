"""Maps that a snapshot stores in parts (`spark_eos.protocol.packed_map`): each is bytes, Avro inside of Avro."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from io import BytesIO
from typing import Any

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import Shape, array, fingerprint, record, versions
from spark_eos.protocol.packed_map import Layout, PackedMap, Part


def in_parts(name: str, part_of: Callable[[Any], int], shape: Shape) -> Shape:
    """The shape of a `PackedMap`, of whose parts ``shape`` is the one, as columns: their numbers, and bytes of each.

    The name of the second column has the fingerprint of the schema that wrote the bytes. So the fingerprint of a
    snapshot covers it. A snapshot of an older version is read whole, by the schema of that version.
    """
    parts = _Parts(name, part_of, shape)
    return Shape(parts.schema, parts.write, parts.read, since=shape.since, newest=shape.newest)


class _Parts:
    def __init__(self, name: str, part_of: Callable[[Any], int], shape: Shape) -> None:
        self._name = name
        self._part_of = part_of
        self._shape = shape

    @cached_property
    def _known(self) -> dict[str, Any]:
        """All schemas of a part by the names of their columns, parsed; the last one is written now."""
        from fastavro.schema import parse_schema

        return {_column(inner): parse_schema(inner) for inner in versions(self._shape).values()}

    def schema(self, version: int) -> dict[str, Any]:
        """As in `Shape`."""
        since = max(version, self._shape.since)
        # What is parsed now is not parsed within a commit.
        by_version = zip(versions(self._shape).items(), self._known, strict=True)
        inner, column = [(inner, column) for (at, inner), column in by_version if at <= since][-1]
        return record(self._name, parts=array("long"), **{column: array({"type": "bytes", "packed": inner})})

    def write(self, values: PackedMap[Any, Any]) -> dict[str, Any]:
        """As in `Shape`. What is packed stays so, for the next snapshot."""
        from fastavro import schemaless_writer

        column, newest = [*self._known.items()][-1]
        numbers, bodies = [], []
        for number, part in sorted(values.parts.items()):
            if part.packed is None:
                stream = BytesIO()
                schemaless_writer(stream, newest, self._shape.write(part.values))
                part.packed = stream.getvalue()
            numbers.append(number)
            bodies.append(part.packed)
        return {"parts": numbers, column: bodies}

    def read(self, stored: dict[str, Any]) -> PackedMap[Any, Any]:
        """As in `Shape`. The parts stay packed."""
        numbers = stored.pop("parts")
        ((column, bodies),) = stored.items()
        newest, inner = [*self._known][-1], self._known[column]

        def part(number: int, data: bytes) -> Part[Any, Any]:
            if column == newest:
                return Part(None, data)
            return Part(self._unpack(inner, number, data, "a snapshot"))

        parts = {number: part(number, data) for number, data in zip(numbers, bodies, strict=True)}
        if len(parts) != len(numbers):
            raise CorruptRecordError(f"a part of {self._name} is there twice")
        return PackedMap(Layout(self._part_of, partial(self._unpack, self._known[newest])), Map(parts))

    def _unpack(self, inner: Any, number: int, data: bytes, where: str) -> Map[Any, Any]:
        from fastavro import schemaless_reader

        stream = BytesIO(data)
        try:
            values: Map[Any, Any] = self._shape.read(schemaless_reader(stream, inner, None))
        except Exception as error:
            raise self._damaged(number, where, repr(error)) from error
        if stream.read(1) or not values or any(self._part_of(key) != number for key in values):
            raise self._damaged(number, where, "other keys are in it")
        return values

    def _damaged(self, number: int, where: str, problem: str) -> CorruptRecordError:
        return CorruptRecordError(
            f"{where}: part {number} of {self._name} is not valid: {problem}. A faulty program or machine wrote it, "
            "and later snapshots may have it, too. Run `eoslog verify --repair`: it names those that are damaged, and "
            "writes again what entries tell. Move the others out of the log, so that an older one is read, and open "
            "the log again"
        )


def _column(schema: Any) -> str:
    return f"as_{fingerprint(schema).hex()}"
