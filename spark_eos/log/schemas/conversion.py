"""Rows of one version of a topic's schema in the columns of another one, by the ids of the fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.layout import Layout
from spark_eos.protocol.arrow_fields import SchemaField, named_fields
from spark_eos.protocol.schema_versions import highest_id

Missing = Callable[[SchemaField, str], None]
"""Is called with a field that rows have no values for, and its path. It may refuse that."""


def convert_table(table: pa.Table, have: Layout, want: Layout, versions: Sequence[bytes] = ()) -> pa.Table:
    """``table``, read with the layout ``have``, in the columns of ``want``; what it has no column for is null.

    ``versions`` are the topic's schemas. Raises `SchemaMismatchError`, naming the column, if ``want`` is of an earlier
    version and has a column that was dropped before these rows were written, or a type that a value does not fit.
    """
    if have.version == want.version:
        return table

    def missing(field: SchemaField, path: str) -> None:
        if 0 < field.field_id <= highest_id(versions[: have.version]):
            raise SchemaMismatchError(
                f"column {path!r} of version {want.version} of the topic's schema was dropped since, and the rows "
                "were rewritten without it (by rolling or compaction): its values are gone. Read without the column, "
                "or as of a later entry"
            )

    at = {field.field_id: n for n, field in enumerate(have.fields)}
    columns = []
    for n, field in enumerate(want.physical):
        if n >= len(want.fields):  # The timestamp.
            columns.append(table.column(field.name))
            continue
        node = want.fields[n]
        position = at.get(node.field_id)
        if position is None:
            missing(node, field.name)
            if not field.nullable:
                raise SchemaMismatchError(
                    f"column {field.name!r} of version {want.version} of the topic's schema is not nullable, and rows "
                    f"of version {have.version} have no value for it"
                )
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(have.physical.names[position])
        chunks = [
            convert_array(chunk, have.fields[position], node, field.type, missing, field.name)
            for chunk in column.chunks
        ]
        columns.append(pa.chunked_array(chunks, field.type))
    return pa.table(columns, schema=want.physical)


def convert_array(
    array: pa.Array,
    have: SchemaField,
    want: SchemaField,
    type_: pa.DataType,
    missing: Missing,
    path: str,
) -> pa.Array:
    """Values of the field ``have`` as those of the field ``want``, whose type in Arrow is ``type_``."""
    if array.type == type_ and _ids(have) == _ids(want):
        return array
    if want.type == "struct":
        return _convert_struct(array, have, want, type_, missing, path)
    if want.type == "list":
        inner = convert_array(
            array.values, have.children[0], want.children[0], type_.value_type, missing, f"{path}.element"
        )
    elif want.type == "map":
        pairs = [
            convert_array(values, old, new, inner_type, missing, f"{path}.{part}")
            for part, values, old, new, inner_type in (
                ("key", array.keys, have.children[0], want.children[0], type_.key_type),
                ("value", array.items, have.children[1], want.children[1], type_.item_type),
            )
        ]
        inner = pa.StructArray.from_arrays(pairs, fields=[type_.key_field, type_.item_field])
    else:
        return _cast(array, type_, path)
    return pa.Array.from_buffers(
        type_, len(array), array.buffers()[:2], array.null_count, array.offset, children=[inner]
    )


def _convert_struct(
    array: pa.Array,
    have: SchemaField,
    want: SchemaField,
    type_: pa.DataType,
    missing: Missing,
    path: str,
) -> pa.Array:
    parts = array.flatten()  # What lies under a null struct is null as well, and so can be cast.
    at = {field.field_id: n for n, field in enumerate(have.children)}
    children = []
    for n, node in enumerate(want.children):
        field, position = type_.field(n), at.get(node.field_id)
        if position is None:
            missing(node, f"{path}.{field.name}")
            children.append(pa.nulls(len(array), field.type))
        else:
            inner = (parts[position], have.children[position], node, field.type)
            children.append(convert_array(*inner, missing, f"{path}.{field.name}"))
    if not children:
        return array.cast(type_)
    fields = [type_.field(n) for n in range(type_.num_fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _cast(array: pa.Array, type_: pa.DataType, path: str) -> pa.Array:
    try:
        return array.cast(type_)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"column {path!r}: a value of type {array.type} does not fit into {type_}, which the column was in the "
            f"version of the schema that is asked for: {error}. Read the newest one"
        ) from error


def _ids(field: SchemaField) -> list[int]:
    return [inner.field_id for inner in named_fields((field,), inside=not field.field_id)]


def names_under(have: Layout, names: Sequence[str], want: Layout) -> set[str]:
    """What the columns ``names`` of the layout ``have`` are called in ``want``, those that are there still."""
    if have.version == want.version:
        return {*names}
    name_set = {*names}
    ids = {
        node.field_id
        for node, name in zip(have.fields, have.physical.names, strict=False)
        if name in name_set
    }
    new_names = {
        name for node, name in zip(want.fields, want.physical.names, strict=False) if node.field_id in ids
    }
    return new_names | ({want.timestamp_column} & name_set)
