"""The schema that fastavro reads with: its aliases are those that the rules for columns take.

Where a field was written under the name that it has for the reader, and under an alias of it as well, fastavro takes
what has the alias, or fails; where two fields have one alias, or one field two that were written, it fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from spark_eos.extensions.value_formats.avro.resolution import chosen_fields, has_same_name
from spark_eos.extensions.value_formats.avro.types import (
    ArrayOf,
    AvroSchema,
    AvroType,
    MapOf,
    Record,
    Union,
)


@lru_cache(maxsize=256)
def reader_of(writer: AvroSchema, reader: AvroSchema) -> Any:
    """What fastavro takes as the reader's schema; None: the writer's."""
    import fastavro

    if writer.text == reader.text:
        return None
    idle = {*_idle(writer.type, reader.type)}
    return fastavro.parse_schema(_without(json.loads(reader.text), idle)) if idle else reader.parsed


def _idle(writer: AvroType, reader: AvroType) -> Iterator[tuple[str, str]]:
    """Fields of the reader's, each with an alias that a field was written under which is none of it."""
    match writer, reader:
        case Union(branches), _:
            for branch in branches:
                yield from _idle(branch, reader)
        case _, Union(branches):
            for branch in branches:
                yield from _idle(writer, branch)
        case (ArrayOf(written), ArrayOf(known)) | (MapOf(written), MapOf(known)):
            yield from _idle(written, known)
        case Record(), Record() if has_same_name(writer, reader):
            places = chosen_fields(writer, reader)
            for part in writer.fields:
                if part.name in places:
                    yield from _idle(part.type, reader.fields[places[part.name]].type)
            written_names = {part.name for part in writer.fields}
            for number, own in enumerate(reader.fields):
                for alias in written_names.intersection(own.aliases):
                    if places.get(alias) != number:
                        yield own.name, alias


def _without(schema: Any, idle: set[tuple[str, str]]) -> Any:
    """The JSON of a schema without these aliases."""
    if isinstance(schema, list):
        return [_without(part, idle) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _without(part, idle) for key, part in schema.items()}
    if isinstance(plain.get("aliases"), list):
        plain["aliases"] = [alias for alias in plain["aliases"] if (plain.get("name"), alias) not in idle]
    return plain
