"""Changes of a topic's columns by their names: add, rename, drop, widen.

A column inside of another one has a path: ``address.zip`` is a field of the struct ``address``; ``points.element.x``
and ``prices.value.cents`` are fields of the structs in a list and in a map. A name that has a dot in it is put in
backticks. All names are those before the change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from spark_eos.config.nearest import nearest
from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.layout import normalise_type
from spark_eos.log.schemas.versions import (
    inner_fields,
    new_ids,
    numbered,
    respelled,
    with_ids,
    with_inner,
)
from spark_eos.log.topics import check_key_columns, config_value, key_columns
from spark_eos.protocol.arrow_fields import FIELD_ID
from spark_eos.protocol.state import Topic

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@dataclass(frozen=True)
class Edits:
    """Changes of columns: new ones with their types, paths with new names, paths, and paths with wider types."""

    add: Mapping[str, pa.DataType] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: Collection[str] = ()
    widen: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.add or self.rename or self.drop or self.widen)


Place = tuple[int, ...]
"""Where a field is: its number among the columns, and in each field that it is in."""


def edited(topic: Topic, edits: Edits) -> tuple[pa.Schema, dict[str, str]]:
    """The topic's columns after the changes, with ids, and the columns that have a new name, by their old names.

    Raises `SchemaMismatchError` for a column that is not there, one that is there already, or a type that no topic has.
    """
    schema = with_ids(topic)
    columns = [*schema]
    names = {_place(topic, columns, path): _name(path, new) for path, new in edits.rename.items()}
    dropped = {_place(topic, columns, path) for path in edits.drop}
    types = {_place(topic, columns, path): normalise_type(type_, path) for path, type_ in edits.widen.items()}
    for place in sorted({*names} | dropped):
        if len(place) > 1 and not pa.types.is_struct(_field(columns, place[:-1]).type):
            raise SchemaMismatchError(
                f"topic {topic.name!r}: {_field(columns, place[:-1]).name!r} is no struct. What is in a list or a map "
                "has no name that could be changed, and cannot be dropped by itself"
            )
    for place in {*names, *types} & dropped:
        raise SchemaMismatchError(
            f"topic {topic.name!r}: column {_field(columns, place).name!r} is to be dropped and changed; keep one of "
            "the two"
        )
    ids, added = new_ids(topic), dict[Place, list[pa.Field]]()
    for path, type_ in edits.add.items():
        *parents, name = _parts(path)
        parent = _place(topic, columns, path, parents) if parents else ()
        if parents and not pa.types.is_struct(_field(columns, parent).type):
            raise SchemaMismatchError(
                f"topic {topic.name!r}: {path!r} cannot be added: {'.'.join(parents)!r} is no struct. Write a name "
                "that has a dot in backticks"
            )
        beside = inner_fields(_field(columns, parent).type) if parent else columns
        if any(field.name == name for field in beside) and not dropped and not names:
            raise SchemaMismatchError(f"topic {topic.name!r} has a column {path!r} already")
        new = numbered(pa.field(name, normalise_type(type_, path)), ids)
        added.setdefault(parent, []).append(new)
    plan = _Plan(names, dropped, types, added)
    renamed = {columns[place[0]].name: new for place, new in names.items() if len(place) == 1}
    return pa.schema(plan.rebuilt(columns, ())), renamed


def check_keys(topic: Topic, schema: pa.Schema, *, settings: Mapping[str, str] | None = None) -> None:
    """Raise `SchemaMismatchError` if the columns ``schema``, with ids, would break what rests on keys.

    Those of ``key.columns`` stay, with their types: the bytes of their values say in which partition a key is. In a
    compacted topic no column goes: a row that has a value nowhere else would be a tombstone from then on.
    ``settings`` are those that the topic gets with the change; None: those of now.
    """
    before = {_id(column): column for column in with_ids(topic)}
    after = {_id(column): column for column in schema}
    keys = {_id(column) for column in before.values() if column.name in key_columns(topic)}
    for field_id, column in before.items():
        if field_id in keys and field_id not in after:
            raise SchemaMismatchError(
                f"topic {topic.name!r}: column {column.name!r} is one of key.columns, and cannot be dropped"
            )
        if field_id in keys and after[field_id].type != column.type:
            raise SchemaMismatchError(
                f"topic {topic.name!r}: column {column.name!r} is one of key.columns, and cannot become "
                f"{after[field_id].type}: the same keys would go to other partitions from then on. Add a column of "
                "that type, or create another topic"
            )
        if field_id not in after and keys and "compact" in config_value(topic, "cleanup.policy", tuple):
            raise SchemaMismatchError(
                f"topic {topic.name!r} is compacted: column {column.name!r} cannot be dropped, since rows that have a "
                "value in no other column would become tombstones, and their keys would be deleted. Set "
                "cleanup.policy=delete first"
            )
    if settings is not None:
        check_key_columns(topic.name, settings, schema)


@dataclass(frozen=True)
class _Plan:
    names: dict[Place, str]
    dropped: set[Place]
    types: dict[Place, pa.DataType]
    added: dict[Place, list[pa.Field]]

    def rebuilt(self, fields: list[pa.Field], at: Place) -> list[pa.Field]:
        """The fields that are at this place afterwards."""
        old_fields = [
            self._rebuilt(field, (*at, n)) for n, field in enumerate(fields) if (*at, n) not in self.dropped
        ]
        new_fields = [*old_fields, *self.added.get(at, [])]
        if fields and not new_fields:
            raise SchemaMismatchError(
                f"column {fields[0].name!r} is the only one {'of its struct' if at else 'there is'}: it cannot be "
                "dropped"
            )
        return new_fields

    def _rebuilt(self, field: pa.Field, at: Place) -> pa.Field:
        new = field.with_name(self.names.get(at, field.name))
        type_ = self.types.get(at)
        if type_ is not None:
            if inner_fields(field.type) or inner_fields(type_):
                raise SchemaMismatchError(
                    f"column {field.name!r} is {field.type} and cannot become {type_}: widen the fields in it, by "
                    "their paths"
                )
            new = new.with_type(type_)
        else:
            new = with_inner(new, self.rebuilt(inner_fields(field.type), at))
        if new.type != field.type:
            id_metadata = {FIELD_ID: field.metadata[FIELD_ID]} if field.metadata else {}
            new = new.with_metadata({**respelled(field, new.type), **id_metadata} or None)
        return new


def _place(topic: Topic, columns: list[pa.Field], path: str, parts: list[str] | None = None) -> Place:
    """Where the field is that a path names."""
    at: Place = ()
    fields = columns
    special = False
    for part in _parts(path) if parts is None else parts:
        names = _names(fields, special=special, at=at)
        if part not in names:
            near = nearest(part, names)
            hint = f"did you mean {near!r}?" if near else f"there is {', '.join(names) or 'nothing'}"
            raise SchemaMismatchError(
                f"topic {topic.name!r} has no column {path!r}: there is no {part!r}; {hint}"
            )
        n = names.index(part)
        at = (*at, n)
        special = not pa.types.is_struct(fields[n].type)
        fields = inner_fields(fields[n].type)
    return at


def _names(fields: list[pa.Field], *, special: bool, at: Place) -> list[str]:
    if not at or not special:
        return [field.name for field in fields]
    return ["element"] if len(fields) == 1 else ["key", "value"][: len(fields)]


def _field(columns: list[pa.Field], place: Place) -> pa.Field:
    field = columns[place[0]]
    for n in place[1:]:
        field = inner_fields(field.type)[n]
    return field


def _parts(path: str) -> list[str]:
    parts, at = [], 0
    while True:
        match = _PART.match(path, at)
        if match is None:
            break
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
        if at == len(path):
            return parts
        if path[at] != ".":
            break
        at += 1
    raise SchemaMismatchError(f"{path!r} is no name of a column, such as 'name', 'struct.field' or '`a.b`'")


def _name(path: str, new: str) -> str:
    """A new name: as `ALTER TABLE ... RENAME COLUMN` has it, without the path."""
    if not new or "`" in new:
        raise SchemaMismatchError(f"column {path!r} cannot be renamed to {new!r}: give it a plain name")
    return new


def _id(column: pa.Field) -> bytes:
    field_id: bytes = column.metadata[FIELD_ID]
    return field_id
