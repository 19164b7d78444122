"""JSON Schema: the columns of JSON values, and whether a value is valid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.errors.loading import Loading

_NEWER = ("2019-09", "2020-12", "next")
"""Drafts that the library that checks values does not know."""

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "null": pa.null(),
    "number": pa.float64(),
}
_FORMATS: dict[str, pa.DataType] = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}

_RAW = "Read the topic with row.format=kafka, and its values with from_json"


class Required(NamedTuple):
    """Of an object the names that must be there, and those of its parts; arrays have ``element``, maps ``value``."""

    names: frozenset[str] = frozenset()
    parts: Mapping[str, Required] = MappingProxyType({})

    def of(self, name: str) -> Required:
        """Those of a part."""
        return self.parts.get(name, Required())


def check_schema(text: str) -> None:
    """Raise `ConfigError` unless the text is a JSON Schema by which values can be checked."""
    validator(text)


@lru_cache(maxsize=64)
def validator(text: str) -> Callable[[Any], object]:
    """Raises an error for a value that is not valid. Raises `ConfigError` for a text that is no such schema."""
    schema = _loads(text)
    draft = str(schema.get("$schema", ""))
    if any(newer in draft for newer in _NEWER):
        raise ConfigError(
            f"value.schema is of JSON Schema's draft {draft}: drafts 4, 6 and 7 can be checked. Write it in draft 7"
        )
    with Loading("value.schema of JSON values", "value-formats", "fastjsonschema"):
        import fastjsonschema
    try:
        compiled: Callable[[Any], object] = fastjsonschema.compile(schema, handlers=_NotFetched())
    except ConfigError:
        raise
    except Exception as error:
        # Of a schema that is none the library raises what its own code runs into, such as the errors of `re`.
        raise ConfigError(f"value.schema is not a valid JSON Schema: {error}") from error
    return compiled


class _NotFetched(dict[str, Callable[[str], Any]]):
    """What the library asks for schemas elsewhere, by the schemes of URLs. Each reader of the topic would go there."""

    def __contains__(self, scheme: object) -> bool:
        return True

    def __missing__(self, scheme: str) -> Callable[[str], Any]:
        return _refuse


def _refuse(url: str) -> Any:
    raise ConfigError(
        f"value.schema refers to {url}, outside of itself: put that schema into its definitions"
    )


@lru_cache(maxsize=64)
def schema_fields(text: str) -> tuple[pa.Field, ...]:
    """The columns of values of a schema: the properties of an object, or one column ``value``.

    Raises `SchemaMismatchError`, naming the property, for one that no column can have.
    """
    columns = _Columns(_loads(text))
    top = columns.resolved(columns.schema, "value", ())
    if is_object(text):
        return tuple(pa.field(name, columns.type(part, name, ())) for name, part in top["properties"].items())
    return (pa.field("value", columns.type(columns.schema, "value", ())),)


@lru_cache(maxsize=64)
def is_object(text: str) -> bool:
    """Whether values are objects whose properties are named, which are the columns."""
    columns = _Columns(_loads(text))
    top = columns.resolved(columns.schema, "value", ())
    return top["type"] == "object" and bool(top.get("properties"))


@lru_cache(maxsize=64)
def required_of(text: str) -> Required:
    """The properties that must be there, and so are written as null and not left out. Raises as `schema_fields`."""
    columns = _Columns(_loads(text))
    return columns.required(columns.schema, "value", ())


def _loads(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"value.schema of JSON values is a JSON Schema; this is not JSON: {error}"
        ) from error
    if not isinstance(schema, dict):
        raise ConfigError(f"value.schema of JSON values is a JSON object; this is {text[:40]}")
    return schema


class _Columns:
    """The columns of one schema, in which ``$ref`` points to parts of it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def resolved(self, part: Any, path: str, around: tuple[str, ...]) -> dict[str, Any]:
        """The part that is meant: without references, and without the null that a value may be instead."""
        if not isinstance(part, dict):
            raise SchemaMismatchError(f"property {path!r} may be anything, which is no column. {_RAW}")
        if "$ref" in part:
            target = part["$ref"]
            if target in around:
                raise SchemaMismatchError(
                    f"property {path!r} is {target} inside of itself. A column cannot have a recursive type. {_RAW}"
                )
            return {
                **self.resolved(self._at(target, path), path, (*around, target)),
                "$seen": (*around, target),
            }
        for word in ("anyOf", "oneOf", "allOf"):
            choices = [choice for choice in part.get(word) or () if choice != {"type": "null"}]
            if len(choices) == 1:
                return self._of_one_choice(part, word, choices[0], path, around)
            if choices:
                raise SchemaMismatchError(
                    f"property {path!r} is of several types ({word}), which is no column. {_RAW}"
                )
        kind = part.get("type")
        if isinstance(kind, list):
            kinds = [name for name in kind if name != "null"] or ["null"]
            if set(kinds) == {"integer", "number"}:
                kinds = ["number"]
            if len(kinds) > 1:
                raise SchemaMismatchError(
                    f"property {path!r} is of several types ({', '.join(kinds)}), which is no column. {_RAW}"
                )
            return {**part, "type": kinds[0]}
        if kind is None:
            return {**part, "type": self._of_values(part, path)}
        return part

    def _of_one_choice(
        self, part: dict[str, Any], word: str, choice: Any, path: str, around: tuple[str, ...]
    ) -> dict[str, Any]:
        """The part with what its only choice says: a value has the properties of both."""
        rest = {name: value for name, value in part.items() if name != word}
        if not isinstance(choice, dict) or "$ref" in choice:
            choice = self.resolved(choice, path, around)
        both = {**rest, **choice}
        if "properties" in rest and "properties" in choice:
            both["properties"] = {**rest["properties"], **choice["properties"]}
        if "required" in rest and "required" in choice:
            both["required"] = [*rest["required"], *choice["required"]]
        return self.resolved(both, path, choice.get("$seen", around))

    def type(self, part: Any, path: str, around: tuple[str, ...]) -> pa.DataType:
        """The type of a property's column."""
        schema = self.resolved(part, path, around)
        around = schema.get("$seen", around)
        kind = schema["type"]
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "string":
            return _FORMATS.get(schema.get("format", ""), pa.string())
        if kind == "array" and isinstance(schema.get("items"), dict):
            return pa.list_(pa.field("element", self.type(schema["items"], f"{path}.element", around)))
        if kind == "object" and schema.get("properties"):
            parts = schema["properties"].items()
            return pa.struct(
                [pa.field(name, self.type(inner, f"{path}.{name}", around)) for name, inner in parts]
            )
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            value = pa.field("value", self.type(schema["additionalProperties"], f"{path}.value", around))
            return pa.map_(pa.field("key", pa.string(), nullable=False), value)
        raise SchemaMismatchError(f"property {path!r} is of type {kind} and does not say of what. {_RAW}")

    def required(self, part: Any, path: str, around: tuple[str, ...]) -> Required:
        """The properties that a part requires, as deep as its column goes."""
        schema = self.resolved(part, path, around)
        around = schema.get("$seen", around)
        inner = {**(schema.get("properties") or {})}
        if not inner:
            items = {"element": schema.get("items"), "value": schema.get("additionalProperties")}
            inner = {name: item for name, item in items.items() if isinstance(item, dict)}
        parts = {name: self.required(below, f"{path}.{name}", around) for name, below in inner.items()}
        return Required(frozenset(schema.get("required") or ()), parts)

    def _at(self, pointer: str, path: str) -> Any:
        node: Any = self.schema
        if not pointer.startswith("#"):
            raise SchemaMismatchError(f"property {path!r} refers to {pointer}, outside of the schema. {_RAW}")
        for step in pointer.lstrip("#").strip("/").split("/"):
            if step:
                name = step.replace("~1", "/").replace("~0", "~")
                node = node.get(name) if isinstance(node, Mapping) else None
        return node

    def _of_values(self, part: Mapping[str, Any], path: str) -> str:
        """The type of a property that lists its values, or has properties."""
        if "properties" in part:
            return "object"
        if "items" in part:
            return "array"
        listed = [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]
        values = [value for value in listed if value is not None]
        names = {bool: "boolean", int: "integer", float: "number", str: "string"}
        kinds = {names.get(type(value)) for value in values}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None:
            raise SchemaMismatchError(f"property {path!r} does not say of which type it is. {_RAW}")
        return kind
