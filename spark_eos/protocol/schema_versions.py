"""Which version of a topic's schema may follow which: rows of every version must be readable under every later one.

A field is followed by its id (`spark_eos.protocol.arrow_fields`). It may be renamed, moved among its neighbours, get a
wider type, allow null, and go. A new field allows null, and has an id that no version ever had. Two programs that
change a schema at the same time both name the version that they make, so the second one is refused, and starts again
from what the first one made.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_eos.protocol.arrow_fields import SchemaField, fields_of, named_fields
from spark_eos.protocol.widening import widens


def highest_id(versions: Sequence[bytes]) -> int:
    """The highest id that a field of any of these versions has; 0 if there are none. Raises `ValueError`."""
    return max(
        (field.field_id for version in versions for field in named_fields(fields_of(version).fields)),
        default=0,
    )


def check_follows(versions: Sequence[bytes], new: bytes) -> None:
    """Raise `ValueError`, naming the column, unless ``new`` may become the version after all of ``versions``."""
    number, fields = fields_of(new)
    if number != len(versions) + 1:
        raise ValueError(
            f"it is version {number or 'without a number'}, and version {len(versions) + 1} is the next one: the "
            "schema was changed at the same time"
        )
    ids = [field.field_id for field in named_fields(fields)]
    if len({*ids}) < len(ids):
        twice = next(field_id for field_id in ids if ids.count(field_id) > 1)
        raise ValueError(f"two fields in it have the id {twice}")
    _check_siblings(fields_of(versions[-1]).fields, fields, highest_id(versions), "")


def _check_siblings(
    old: tuple[SchemaField, ...], new: tuple[SchemaField, ...], highest: int, inside: str
) -> None:
    if len({field.name for field in new}) < len(new):
        raise ValueError(f"two fields{inside and f' of {inside!r}'} have the same name")
    before = {field.field_id: field for field in old}
    for field in new:
        path = f"{inside}.{field.name}" if inside else field.name
        old_field = before.get(field.field_id)
        if old_field is not None:
            _check_field(old_field, field, highest, path)
            continue
        for inner in named_fields((field,)):
            if inner.field_id <= highest:
                raise ValueError(
                    f"column {path!r} is new here, and has the id {inner.field_id}, which another field had: ids up to "
                    f"{highest} are taken"
                )
        if not field.nullable:
            raise ValueError(
                f"column {path!r} is new and not nullable, but rows from before have no value for it"
            )


def _check_field(old: SchemaField, new: SchemaField, highest: int, path: str) -> None:
    if old.nullable and not new.nullable:
        raise ValueError(f"column {path!r} may be null, so rows may have no value for it; it has to stay so")
    if old.type != new.type:
        if not widens(old.type, new.type):
            raise ValueError(
                f"column {path!r} is {old.type} and cannot become {new.type}, which does not hold all its values: add "
                "a column of that type"
            )
    elif new.type == "struct":
        _check_siblings(old.children, new.children, highest, path)
    elif new.type == "map":
        if _plain(old.children[0]) != _plain(new.children[0]):
            raise ValueError(f"column {path!r} is a map, and the type of its keys cannot change")
        _check_field(old.children[1], new.children[1], highest, f"{path}.value")
    elif new.type == "list":
        _check_field(old.children[0], new.children[0], highest, f"{path}.element")


def _plain(field: SchemaField) -> SchemaField:
    """Without what does not count in the key of a map: what the key itself is called."""
    return field._replace(name="")


def differences(old: Sequence[SchemaField], new: Sequence[SchemaField], inside: str = "") -> list[str]:
    """What became of the columns from one version to a later one, in words, each with the column's name."""
    lines = []
    after = {field.field_id: field for field in new}
    before = {field.field_id for field in old}
    for field in old:
        path = f"{inside}{field.name}"
        now = after.get(field.field_id)
        if now is None:
            lines.append(f"column {path!r} was dropped")
            continue
        if now.name != field.name:
            lines.append(f"column {path!r} was renamed to {now.name!r}")
        lines += _inner_differences(field, now, path)
    lines += [
        f"column {inside + field.name!r} ({field.type}) was added"
        for field in new
        if field.field_id not in before
    ]
    return lines


def _inner_differences(old: SchemaField, new: SchemaField, path: str) -> list[str]:
    if old.type != new.type:
        return [f"column {path!r} was widened from {old.type} to {new.type}"]
    lines = [f"column {path!r} may be null now"] if new.nullable and not old.nullable else []
    if old.type == "struct":
        return lines + differences(old.children, new.children, f"{path}.")
    names = {"list": ("element",), "map": ("key", "value")}.get(old.type, ())
    for name, before, after in zip(names, old.children, new.children, strict=True):
        lines += _inner_differences(before, after, f"{path}.{name}")
    return lines
