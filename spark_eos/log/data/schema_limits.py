"""What a new schema of a topic may be, said before anything is written.

How large, as the rules say of stored schemas, and of which names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.protocol.arrow_schema import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_SCHEMA_FIELDS


def check_limits(schema: pa.Schema) -> None:
    """Raise `SchemaMismatchError`, naming the column, for a schema that is too deep or has too many fields.

    As well for fields of a struct whose names differ in case alone, of which Spark can read none; the
    rules do not look at that. Before anything else looks at it: most code that walks a schema calls itself for
    each level.
    """
    fields = 0
    for field in schema:
        waiting = [(field.type, 1, field.name)]
        while waiting:
            type_, level, path = waiting.pop()
            fields += 1
            if level > MAX_SCHEMA_DEPTH:
                raise SchemaMismatchError(
                    f"column {field.name!r} is nested more than {MAX_SCHEMA_DEPTH} levels deep (a struct or a list is "
                    "one level, a map two), which neither Arrow's files nor Spark carry: flatten it, or store its "
                    "inner part as text or bytes"
                )
            if fields > MAX_SCHEMA_FIELDS:
                raise SchemaMismatchError(
                    f"the schema has more than {MAX_SCHEMA_FIELDS} fields of all levels, from column {field.name!r} "
                    "on: make it several topics, or store some of it as text or bytes"
                )
            if pa.types.is_struct(type_):
                _check_names(type_, path)
            waiting += [
                (inner, level + deeper, f"{path}.{name}" if name else path)
                for inner, deeper, name in _inside(type_)
            ]


def check_size(schema: bytes) -> bytes:
    """The stored form of a schema. Raises `SchemaMismatchError` if it is too long."""
    if len(schema) > MAX_SCHEMA_BYTES:
        raise SchemaMismatchError(
            f"the schema takes {len(schema)} bytes; {MAX_SCHEMA_BYTES} are possible: use shorter names, fewer columns, "
            "or less metadata of columns"
        )
    return schema


def _check_names(struct: pa.StructType, path: str) -> None:
    names: dict[str, str] = {}
    for name in (struct.field(position).name for position in range(struct.num_fields)):
        other = names.setdefault(name.casefold(), name)
        if other != name:
            raise SchemaMismatchError(
                f"column {path!r} would have the fields {other!r} and {name!r}, which are the same name in Spark (it "
                "ignores case) and could not be read; rename one"
            )


def _inside(type_: pa.DataType) -> Iterator[tuple[pa.DataType, int, str]]:
    """The types inside of a type, how many levels deeper they are, and their names; an empty one if it is the same."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        yield type_.storage_type, 0, ""
    elif types.is_dictionary(type_):
        yield type_.value_type, 0, ""
    elif types.is_map(type_):
        yield type_.key_type, 2, "key"
        yield type_.item_type, 2, "value"
    elif types.is_struct(type_) or types.is_union(type_):
        for position in range(type_.num_fields):
            yield type_.field(position).type, 1, type_.field(position).name
    elif hasattr(type_, "value_type"):  # Lists of all kinds, and runs.
        yield type_.value_type, 1, "element"
