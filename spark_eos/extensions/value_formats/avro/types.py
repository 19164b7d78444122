"""Avro schemas as trees: parsed by fastavro, with names resolved and recursion marked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from spark_eos.errors import ConfigError

MISSING: Final = object()
"""Stands for the default of a field that has none; None is a default."""

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

LOGICAL: dict[str, frozenset[str]] = {
    "date": frozenset({"int"}),
    "time-millis": frozenset({"int"}),
    "time-micros": frozenset({"long"}),
    "timestamp-millis": frozenset({"long"}),
    "timestamp-micros": frozenset({"long"}),
    "timestamp-nanos": frozenset({"long"}),
    "local-timestamp-millis": frozenset({"long"}),
    "local-timestamp-micros": frozenset({"long"}),
    "local-timestamp-nanos": frozenset({"long"}),
    "uuid": frozenset({"string", "fixed"}),
    "decimal": frozenset({"bytes", "fixed"}),
    "duration": frozenset({"fixed"}),
}
"""The types that a logical type may annotate. On another one it is ignored, as the specification says."""


MOST_TYPES = 20_000


@dataclass(frozen=True)
class Primitive:
    """A type without a name. ``precision`` and ``scale`` are those of a decimal."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Fixed:
    """So many bytes."""

    name: str
    aliases: tuple[str, ...]
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Enum:
    """One of some symbols; ``default`` stands for those that a reader does not know."""

    name: str
    aliases: tuple[str, ...]
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True)
class RecordField:
    """A field of a record. ``default`` is JSON, or `MISSING`."""

    name: str
    aliases: tuple[str, ...]
    type: AvroType
    default: Any = field(compare=False)


@dataclass(frozen=True)
class Record:
    """Named fields, in their order."""

    name: str
    aliases: tuple[str, ...]
    fields: tuple[RecordField, ...]


@dataclass(frozen=True)
class ArrayOf:
    """Any number of values of one type."""

    items: AvroType


@dataclass(frozen=True)
class MapOf:
    """Values of one type, by text."""

    values: AvroType


@dataclass(frozen=True)
class Union:
    """A value of one of some types."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True)
class Recursion:
    """A named type inside of itself."""

    name: str


AvroType: TypeAlias = "Primitive | Fixed | Enum | Record | ArrayOf | MapOf | Union | Recursion"


@dataclass(frozen=True)
class AvroSchema:
    """A schema: its text, as fastavro knows it, as a tree, and its fingerprint.

    ``fingerprint`` is the CRC-64-AVRO of the schema's parsing canonical form, 8 bytes with the lowest one first, as in
    the header of the single-object encoding. Equal texts give the same object.
    """

    text: str
    parsed: Any = field(compare=False, repr=False)
    type: AvroType = field(compare=False, repr=False)
    fingerprint: bytes = field(compare=False)


@lru_cache(maxsize=1024)
def parse(text: str, references: tuple[str, ...] = ()) -> AvroSchema:
    """The schema of its JSON text, given those of the types that it refers to.

    Raises `ConfigError`, which says what is wrong with it.
    """
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"an Avro schema is JSON; this is not: {error}") from error
    try:
        names: dict[str, Any] = {}
        for reference in references:
            fastavro.parse_schema(json.loads(reference), names)
        parsed: Any = fastavro.parse_schema(schema, names)
        tree = _Trees(names).tree(parsed, ())
        # A schema that refers to others has an id, and needs no fingerprint.
        canonical = "" if references else to_parsing_canonical_form(schema)
        print_ = bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
    except UnknownType as error:
        raise ConfigError(
            f"the Avro schema uses the type {error.name!r}, which it does not define"
        ) from error
    except SchemaParseException as error:
        raise ConfigError(f"the Avro schema is not valid: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the Avro schema is not valid: {type(error).__name__}: {error}. A record has name and fields, an enum "
            "symbols, a fixed size, an array items, a map values"
        ) from error
    return AvroSchema(text, parsed, tree, print_)


def describe(type_: AvroType) -> str:
    """A type in a few words."""
    match type_:
        case Primitive(kind, logical):
            return kind if logical is None else f"{kind} ({logical})"
        case Fixed(name, _, size):
            return f"fixed {name} of {size} bytes"
        case Enum(name):
            return f"enum {name}"
        case Record(name) | Recursion(name):
            return f"record {name}"
        case ArrayOf(items):
            return f"array of {describe(items)}"
        case MapOf(values):
            return f"map of {describe(values)}"
        case Union(branches):
            return f"union of {', '.join(describe(branch) for branch in branches) or 'nothing'}"


class _Trees:
    """Makes trees of what fastavro has parsed, in which each name is a full one."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._count = 0

    def tree(self, schema: Any, around: tuple[str, ...]) -> AvroType:
        self._count += 1
        if self._count > MOST_TYPES:  # Names that are used twice in each of many levels.
            raise ValueError(f"with all names resolved it has more than {MOST_TYPES} types")
        if isinstance(schema, list):
            return self._union(schema, around)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return Primitive(schema)
            return self._named_type(self._names[schema], around)
        kind = schema["type"]
        if isinstance(kind, (list, dict)):
            return self.tree(kind, around)
        if kind in PRIMITIVES:
            logical, precision, scale = _logical(schema, kind)
            return Primitive(kind, logical, precision, scale)
        if kind == "array":
            return ArrayOf(self.tree(schema["items"], around))
        if kind == "map":
            return MapOf(self.tree(schema["values"], around))
        if kind in {"record", "error", "enum", "fixed"}:
            return self._named_type(schema, around)
        return self._named_type(self._names[kind], around)

    def _union(self, schemas: list[Any], around: tuple[str, ...]) -> Union:
        branches = tuple(self.tree(branch, around) for branch in schemas)
        names = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise ValueError("a union is directly inside of another one")  # noqa: TRY004  (`parse` catches it)
            name = getattr(branch, "name", None) or getattr(branch, "kind", type(branch).__name__)
            if name in names:
                raise ValueError(f"a union has {describe(branch)} twice")
            names.add(name)
        return Union(branches)

    def _named_type(self, schema: dict[str, Any], around: tuple[str, ...]) -> AvroType:
        name, kind = schema["name"], schema["type"]
        aliases = tuple(schema.get("aliases") or ())
        if name in around:
            return Recursion(name)
        if kind == "fixed":
            size = schema["size"]
            if type(size) is not int or size < 0:
                raise ValueError(f"fixed {name} has the size {size!r}")
            logical, precision, scale = _logical(schema, kind, size)
            return Fixed(name, aliases, size, logical, precision, scale)
        if kind == "enum":
            return Enum(name, aliases, tuple(schema["symbols"]), schema.get("default"))
        fields = tuple(
            RecordField(
                part["name"],
                tuple(part.get("aliases") or ()),
                self.tree(part["type"], (*around, name)),
                part.get("default", MISSING),
            )
            for part in schema["fields"]
        )
        names = [part.name for part in fields]
        for part in names:
            if names.count(part) > 1:
                raise ValueError(f"record {name} has the field {part!r} twice")
        return Record(name, aliases, fields)


def _logical(schema: dict[str, Any], kind: str, size: int = 0) -> tuple[str | None, int, int]:
    """Logical type, precision and scale; none where the specification says that the annotation is ignored."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or kind not in LOGICAL.get(logical, ()):
        return None, 0, 0
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if (
            type(precision) is not int
            or type(scale) is not int
            or not 0 <= scale <= precision
            or not precision
        ):
            return None, 0, 0
        if kind == "fixed" and precision > _digits(size):
            return None, 0, 0
        return logical, precision, scale
    if kind == "fixed" and size != {"uuid": 16, "duration": 12}[logical]:
        return None, 0, 0
    return logical, 0, 0


def _digits(size: int) -> int:
    """How many decimal digits any number of so many bytes has at least."""
    return len(str(2 ** (8 * size - 1) - 1)) - 1 if size else 0
