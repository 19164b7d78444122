"""The columns of an Iceberg table, and by which name each of them is found in Parquet files.

The log's files have no field ids, so the table has a *name mapping* (``schema.name-mapping.default``): it gives each
column of a file its id, by its name. Here one name has one id for ever, however the columns change: a snapshot that
was made before still reads its own files rightly. That is safe, since with each change but an added column all files
are written again: no file of an older shape is ever in a newer snapshot.

The mapping also lets a column of the table have another name than in the files. ``_partition`` needs that: Iceberg's
readers have a column of their own of this name, and Spark refuses to read a table that has one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError

MAPPING = "schema.name-mapping.default"

RENAMED = {"_partition": "_topic_partition"}
"""The columns of files that have another name in the table."""

_RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Columns that readers of Iceberg tables add; Spark cannot read a table that has them."""

_ID = b"PARQUET:field_id"
_MAX_DIGITS = 38

Path = tuple[str, ...]
"""A column by the names on the way to it; what is in a list is ``element``, in a map ``key`` and ``value``."""


class Columns(NamedTuple):
    """The columns of a table.

    ``ids`` has the id of every column that any file of any snapshot has, by its path in the file; ``last`` is the
    greatest one. ``table`` and ``file`` are pyiceberg schemas of the newest snapshot: with the names of the table, and
    with those of the files.
    """

    ids: Mapping[Path, int]
    last: int
    table: Any
    file: Any

    def mapping(self) -> str:
        """The name mapping, as the table's property has it."""
        from pyiceberg.table.name_mapping import NameMapping

        return NameMapping(_mapped(self.ids)).model_dump_json()


def columns(schema: pa.Schema, ids: Mapping[Path, int], last: int, schema_id: int) -> Columns:
    """The columns of a table with ``schema``: ids that are known are taken again, others follow ``last``."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.schema import Schema

    all_ids = dict(ids)
    numbered, last = _with_ids(stored_form(schema), all_ids, last)
    fields = pyarrow_to_schema(numbered).fields
    renamed = (
        field.model_copy(update={"name": RENAMED[field.name]}) if field.name in RENAMED else field
        for field in fields
    )
    return Columns(all_ids, last, Schema(*renamed, schema_id=schema_id), Schema(*fields, schema_id=schema_id))


def with_hidden(table_columns: Columns, files: Iterable[pa.Schema]) -> Columns:
    """With ids for the columns that files have and the table has not: readers want to know each by its name."""
    ids, last = dict(table_columns.ids), table_columns.last
    for schema in files:
        _, last = _with_ids(schema, ids, last)
    return table_columns._replace(ids=ids, last=last)


def paths_of_mapping(mapping: Any) -> dict[Path, int]:
    """The ids of a name mapping (pyiceberg's, or None) by path."""
    return {} if mapping is None else dict(_paths(mapping.root, ()))


def _paths(fields: Iterable[Any], above: Path) -> Iterator[tuple[Path, int]]:
    for field in fields:
        for name in field.names:
            if field.field_id is not None:
                yield (*above, name), field.field_id
            yield from _paths(field.fields, (*above, name))


def _mapped(ids: Mapping[Path, int]) -> list[Any]:
    from pyiceberg.table.name_mapping import MappedField

    below: dict[str, dict[Path, int]] = {}
    for path, number in ids.items():
        below.setdefault(path[0], {})[path[1:]] = number
    return [
        MappedField.model_validate(
            {
                "field-id": inner.get(()),
                "names": [name],
                "fields": _mapped({path: number for path, number in inner.items() if path}),
            }
        )
        for name, inner in below.items()
    ]


def stored_form(schema: pa.Schema) -> pa.Schema:
    """The columns as a table has them: each may be null, since a file of an older schema may not have it."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def small_type(type_: pa.DataType) -> pa.DataType:
    """Arrow's usual type for one that pyiceberg gives with 64-bit lengths."""
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_struct(type_):
        fields = [type_.field(number) for number in range(type_.num_fields)]
        return pa.struct([pa.field(field.name, small_type(field.type)) for field in fields])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(pa.field("element", small_type(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(small_type(type_.key_type), small_type(type_.item_type))
    return type_


def _with_ids(schema: pa.Schema, ids: dict[Path, int], last: int) -> tuple[pa.Schema, int]:
    """The schema with field ids; those that are new go into ``ids``."""
    highest = last

    def number(path: Path) -> dict[bytes, bytes]:
        nonlocal highest
        if path not in ids:
            highest += 1
            ids[path] = highest
        return {_ID: str(ids[path]).encode()}

    def field(column: pa.Field, path: Path) -> pa.Field:
        metadata = number(path)  # Before those of its own columns.
        return pa.field(column.name, type_(column.type, path), metadata=metadata)

    def type_(of: pa.DataType, path: Path) -> pa.DataType:
        if pa.types.is_struct(of):
            return pa.struct([field(of.field(n), (*path, of.field(n).name)) for n in range(of.num_fields)])
        if pa.types.is_list(of):
            return pa.list_(field(of.value_field, (*path, "element")).with_name("element"))
        if pa.types.is_map(of):
            key = field(of.key_field, (*path, "key"))
            return pa.map_(key.with_nullable(False), field(of.item_field, (*path, "value")))
        return of

    return pa.schema([field(column, (column.name,)) for column in schema]), highest


# -- What Iceberg cannot keep -----------------------------------------------------------------------------


def check_schema(schema: pa.Schema, place: str) -> None:
    """Raise `SchemaMismatchError`, which names the column, for what an Iceberg table cannot keep."""
    names = {field.name for field in schema}
    for field in schema:
        if field.name in RENAMED:
            if RENAMED[field.name] in names:
                raise SchemaMismatchError(
                    f"column {RENAMED[field.name]!r}: {place} has {field.name!r} under this name, since Iceberg's "
                    "readers have a column of their own of that name; rename it"
                )
        elif field.name in _RESERVED:
            raise SchemaMismatchError(
                f"column {field.name!r}: readers of Iceberg tables have a column of their own of this name; rename it "
                f"before the topic is published as {place}"
            )
        problem = next(_problems(field.type, field.name), None)
        if problem is not None:
            raise SchemaMismatchError(f"{problem}, which Iceberg does not have: {place} cannot keep it")
    owners: dict[str, str] = {}
    for field in schema:
        for name in _full_names(field.type, RENAMED.get(field.name, field.name)):
            if name in owners:
                raise SchemaMismatchError(
                    f"columns {owners[name]!r} and {field.name!r}: Iceberg calls something in each of them {name!r}, "
                    f"so {place} cannot keep both; rename one"
                )
            owners[name] = field.name


def _full_names(type_: pa.DataType, name: str) -> Iterator[str]:
    """What Iceberg calls a column, and those inside of it."""
    yield name
    if pa.types.is_struct(type_):
        for number in range(type_.num_fields):
            inner = type_.field(number)
            yield from _full_names(inner.type, f"{name}.{inner.name}")
    elif pa.types.is_list(type_):
        yield from _full_names(type_.value_type, f"{name}.element")
    elif pa.types.is_map(type_):
        yield from _full_names(type_.key_type, f"{name}.key")
        yield from _full_names(type_.item_type, f"{name}.value")


def _problems(type_: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(type_):
        if not type_.num_fields:
            yield f"column {path!r} is a struct without fields"
        for number in range(type_.num_fields):
            inner = type_.field(number)
            yield from _problems(inner.type, f"{path}.{inner.name}")
    elif pa.types.is_list(type_):
        yield from _problems(type_.value_type, f"{path}.element")
    elif pa.types.is_map(type_):
        yield from _problems(type_.key_type, f"{path}.key")
        yield from _problems(type_.item_type, f"{path}.value")
    elif not _is_kept(type_):
        yield f"column {path!r} has the type {type_}"


def _is_kept(type_: pa.DataType) -> bool:
    types = pa.types
    if types.is_timestamp(type_):
        return type_.unit == "us" and type_.tz in (None, "UTC")
    if types.is_decimal128(type_):
        return bool(0 <= type_.scale <= type_.precision <= _MAX_DIGITS)
    return bool(
        types.is_boolean(type_)
        or types.is_signed_integer(type_)
        or types.is_float32(type_)
        or types.is_float64(type_)
        or types.is_string(type_)
        or types.is_binary(type_)
        or types.is_fixed_size_binary(type_)
        or types.is_date32(type_)
        or type_ == pa.time64("us")
    )
