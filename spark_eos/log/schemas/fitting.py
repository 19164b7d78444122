"""Rows whose columns are narrower than a topic's: a writer that does not know yet that a column was widened goes on.

By name, before rows get their partitions: the bytes of a key's values depend on its type.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from spark_eos.log.data.layout import Layout, normalise_type
from spark_eos.log.schemas.conversion import convert_array
from spark_eos.protocol.arrow_fields import SchemaField
from spark_eos.protocol.widening import widens

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def fits_into(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether values of the type ``have`` can be written as ``want``, both normalised, without loss.

    They can if it is the same type or a wider one; a struct may have fields that ``have`` does not have.
    """
    types = pa.types
    if have == want:
        return True
    if types.is_struct(have) and types.is_struct(want):
        return all(
            want.get_field_index(field.name) >= 0 and fits_into(field.type, want.field(field.name).type)
            for field in (have.field(n) for n in range(have.num_fields))
        )
    if types.is_map(have) and types.is_map(want):
        return bool(have.key_type == want.key_type) and fits_into(have.item_type, want.item_type)
    if types.is_list(have) and types.is_list(want):
        return fits_into(have.value_type, want.value_type)
    return widens(str(have), str(want))


class Fitting:
    """Brings columns of narrower types to those of a layout. What does not fit is left as it is."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._schema: pa.Schema | None = None
        self._narrow: list[int] = []

    def __call__(self, rows: Rows) -> Rows:
        """The rows, which are the same object if there is nothing to convert."""
        if self._layout.is_kafka:
            return rows
        if self._schema is None or not rows.schema.equals(self._schema):
            self._narrow = [n for n, field in enumerate(rows.schema) if self._is_narrow(field)]
            self._schema = rows.schema
        for n in self._narrow:
            name = rows.schema.names[n]
            rows = rows.set_column(n, name, self._converted(name, rows.column(n)))
        return rows

    def _is_narrow(self, field: pa.Field) -> bool:
        at = self._layout.physical.get_field_index(field.name)
        if at < 0 or at >= len(self._layout.physical) - 1 or pa.types.is_null(field.type):
            return False
        want, have = self._layout.physical.field(at).type, normalise_type(field.type, field.name)
        return bool(have != want) and fits_into(have, want)

    def _converted(self, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        at = self._layout.physical.get_field_index(name)
        node, want = self._layout.fields[at], self._layout.physical.field(at).type
        type_ = normalise_type(column.type, name)
        have = _described_field(node, type_)
        if isinstance(column, pa.ChunkedArray):
            chunks = [
                convert_array(chunk.cast(type_), have, node, want, _is_null, name) for chunk in column.chunks
            ]
            return pa.chunked_array(chunks, want)
        try:
            column.validate(full=True)
        except (pa.ArrowException, ValueError):
            return column  # `RowConverter` refuses it.
        return convert_array(column.cast(type_), have, node, want, _is_null, name)


def _described_field(node: SchemaField, type_: pa.DataType) -> SchemaField:
    """The field of the rows, with the ids of the topic's fields that have the same names."""
    if pa.types.is_struct(type_):
        by_name = {child.name: child for child in node.children}
        fields = (type_.field(n) for n in range(type_.num_fields))
        children = tuple(_described_field(by_name[field.name], field.type) for field in fields)
        return node._replace(children=children)
    if pa.types.is_map(type_):
        key, value = node.children
        return node._replace(children=(key, _described_field(value, type_.item_type)))
    if pa.types.is_list(type_):
        return node._replace(children=(_described_field(node.children[0], type_.value_type),))
    return node._replace(type=str(type_))


def _is_null(field: SchemaField, path: str) -> None:
    """A field that the rows do not have is null."""
