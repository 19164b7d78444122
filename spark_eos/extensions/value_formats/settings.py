"""The settings of a topic about its values: read, checked together, and kept when they change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.extensions.value_formats.framing import CONFLUENT, SINGLE_OBJECT, Framing
from spark_eos.log.topics import setting_of

if TYPE_CHECKING:
    from spark_eos.extensions.value_formats.avro.types import AvroSchema, AvroType
    from spark_eos.extensions.value_formats.registry import Registry

_FRAMINGS: dict[str, Framing | None] = {
    "avro": None,
    "avro-confluent": CONFLUENT,
    "avro-single-object": SINGLE_OBJECT,
    "json": None,
    "json-confluent": CONFLUENT,
}


class ValueSettings(NamedTuple):
    """What a topic says of its values. ``user_info`` is that of the registry, and never stored.

    ``schema_id`` is -1 and ``schema`` and ``writers`` are empty where they are not set.
    """

    topic: str
    format: str
    schema: str = ""
    schema_id: int = -1
    writers: str = ""
    registry_url: str = ""
    user_info: str | None = None

    def __repr__(self) -> str:
        return f"ValueSettings({self.topic!r}, {self.format!r})"

    @property
    def payload(self) -> Literal["avro", "json"]:
        """What a value is, without its header."""
        return "avro" if self.format.startswith("avro") else "json"

    @property
    def text(self) -> str:
        """All that decides what bytes mean."""
        return "\0".join((self.format, self.schema, str(self.schema_id), self.writers))

    @property
    def framing(self) -> Framing | None:
        """The header of a value."""
        return _FRAMINGS[self.format]

    @property
    def registry(self) -> Registry | None:
        """Where schemas are looked up that the topic does not have."""
        if not self.registry_url:
            return None
        from spark_eos.extensions.value_formats.registry import Registry

        return Registry(self.registry_url, self.user_info)


def value_settings(topic: str, config: Mapping[str, str]) -> ValueSettings | None:
    """The settings of a topic; None if its values are bytes without a format."""
    format_ = config.get("value.format", "bytes")
    if format_ == "bytes":
        return None
    return ValueSettings(
        topic,
        format_,
        config.get("value.schema", ""),
        setting_of(topic, config, "value.schema.id", int) if "value.schema.id" in config else -1,
        config.get("value.writer.schemas", ""),
        config.get("schema.registry.url", ""),
    )


def check(topic: str, config: Mapping[str, str], *, typed: bool) -> None:
    """Raise `ConfigError`, naming the setting, unless the settings of a topic fit together."""
    settings = value_settings(topic, config)
    assert settings is not None, "the kernel asks about topics with a format"
    if typed:
        raise ConfigError(
            f"topic {topic!r}: value.format={settings.format} is for values of a Kafka-shaped topic; this one has a "
            "schema of its own. Leave one of them out"
        )
    framed = settings.framing
    if settings.payload == "avro" and not settings.schema:
        raise ConfigError(
            f"topic {topic!r}: value.format={settings.format} needs value.schema, an Avro schema"
        )
    if framed is CONFLUENT and settings.schema_id < 0:
        raise ConfigError(
            f"topic {topic!r}: value.format={settings.format} needs value.schema.id, the id that written values carry; "
            "with schema.registry.url, Admin.create_topic asks the registry for it"
        )
    if framed is not CONFLUENT:
        for name in ("value.schema.id", "schema.registry.url"):
            if config.get(name):
                raise ConfigError(
                    f"topic {topic!r}: {name} has no effect with value.format={settings.format}, whose values have no "
                    "schema id; leave it out, or choose avro-confluent or json-confluent"
                )
    if settings.writers and (framed is None or settings.payload == "json"):
        raise ConfigError(
            f"topic {topic!r}: value.writer.schemas has no effect with value.format={settings.format}, whose values do "
            "not say with which schema they were written; leave it out"
        )
    if settings.registry_url:
        from spark_eos.extensions.value_formats.registry import check_url

        check_url(settings.registry_url)
    _check_schemas(settings)


def kept_settings(topic: str, old: Mapping[str, str], new: dict[str, str]) -> dict[str, str]:
    """The settings of a topic after a change of ``value.schema``: records that are there can still be read.

    The old schema goes into ``value.writer.schemas``, unless values name both by the same header. Raises `ConfigError`
    where values do not say with which schema they were written, and where the new schema cannot read those of an
    earlier one. Fingerprints leave out what a number means: schemas with the same one may differ in their units.
    """
    before, after = value_settings(topic, old), value_settings(topic, new)
    if before is None or after is None or before.format != after.format or before.payload != "avro":
        return new
    from spark_eos.extensions.value_formats.avro.types import parse

    changes_bytes = parse(before.schema).fingerprint != parse(after.schema).fingerprint
    if changes_bytes and before.framing is None:
        raise ConfigError(
            f"topic {topic!r}: value.schema cannot change with value.format=avro, whose values do not say with which "
            "schema they were written. Create a topic with value.format=avro-single-object, and copy the records"
        )
    is_by_id = before.framing is CONFLUENT
    has_same_header = before.schema_id == after.schema_id if is_by_id else not changes_bytes
    if changes_bytes and has_same_header:
        raise ConfigError(
            f"topic {topic!r}: value.schema changes and value.schema.id={after.schema_id} stays: give the new schema "
            "an id of its own"
        )
    for header, schema in writers(before).items():
        if header in writers(after._replace(writers="")):
            _check_units(topic, schema, parse(after.schema))
        _check_reads(topic, schema, parse(before.schema), parse(after.schema))
    if has_same_header:
        return new
    return {**new, "value.writer.schemas": _with_writer(before, after)}


def _check_units(topic: str, old: AvroSchema, new: AvroSchema) -> None:
    """Values with the header of both are read with the new one: without a unit they could get another one later."""
    for (field, had), (_, has) in zip(_logical_types(old.type), _logical_types(new.type), strict=False):
        if had is not None and has is None:
            raise ConfigError(
                f"topic {topic!r}: field {field!r} was written as {had} in value.schema, and would lose it: nothing in "
                "a value says with which of the two it was written. Keep the logical type of a field"
            )


def _logical_types(type_: AvroType, path: str = "value") -> Iterator[tuple[str, str | None]]:
    from spark_eos.extensions.value_formats.avro import types

    match type_:
        case types.Primitive(_, logical) | types.Fixed(_, _, _, logical):
            yield path, logical
        case types.ArrayOf(inner) | types.MapOf(inner):
            yield from _logical_types(inner, path)
        case types.Union(branches):
            for branch in branches:
                yield from _logical_types(branch, path)
        case types.Record(_, _, fields):
            for field in fields:
                yield from _logical_types(field.type, field.name)


def _check_reads(topic: str, old: AvroSchema, before: AvroSchema, new: AvroSchema) -> None:
    """Refuse a schema that cannot read what an old one wrote, if the one before it can."""
    from spark_eos.extensions.value_formats.avro.columns import value_fields
    from spark_eos.extensions.value_formats.avro.resolution import decoder_of

    try:
        value_fields(new.type)
        value_fields(old.type)
        decoder_of(old, before)
    except SchemaMismatchError:
        return  # Without columns there is no decoder that could tell.
    try:
        decoder_of(old, new)
    except SchemaMismatchError as error:
        raise ConfigError(
            f"topic {topic!r}: the new value.schema cannot read the records that are there: {error}"
        ) from error


def _with_writer(before: ValueSettings, after: ValueSettings) -> str:
    schema = json.loads(before.schema)
    if before.framing is CONFLUENT:
        by_id: dict[str, Any] = json.loads(after.writers or "{}")
        by_id.setdefault(str(before.schema_id), schema)
        return json.dumps(by_id, separators=(",", ":"))
    listed: list[Any] = json.loads(after.writers or "[]")
    if schema not in listed:
        listed.append(schema)
    return json.dumps(listed, separators=(",", ":"))


def _check_schemas(settings: ValueSettings) -> None:
    if settings.payload == "avro":
        from spark_eos.extensions.value_formats.avro.types import parse

        parse(settings.schema)
        writers(settings)
    elif settings.schema:
        from spark_eos.extensions.value_formats.json_schema import check_schema

        check_schema(settings.schema)


@lru_cache(maxsize=64)
def writers(settings: ValueSettings) -> dict[bytes, Any]:
    """The schemas that a topic has, by what names them in a header. Raises `ConfigError`."""
    import struct

    from spark_eos.extensions.value_formats.avro.types import parse

    own = parse(settings.schema)
    if settings.framing is None:
        return {b"": own}
    by_id = settings.framing is CONFLUENT
    try:
        schemas: Any = json.loads(settings.writers or ("{}" if by_id else "[]"))
    except ValueError as error:
        raise _bad_writers(settings, str(error)) from error
    kind = type(schemas).__name__
    if kind != ("dict" if by_id else "list"):
        raise _bad_writers(settings, f"it is a {kind}")
    if not by_id:
        all_schemas = [own, *(parse(_text(schema)) for schema in schemas)]
        return {schema.fingerprint: schema for schema in reversed(all_schemas)}
    try:
        by_number = {
            struct.pack(">I", int(number)): parse(_text(schema)) for number, schema in schemas.items()
        }
    except (ValueError, struct.error) as error:
        raise _bad_writers(settings, str(error)) from error
    if settings.schema_id < 0:  # What only reads needs no id of its own.
        return by_number
    own_id = struct.pack(">I", settings.schema_id)
    if by_number.get(own_id, own).type != own.type:
        raise ConfigError(
            f"topic {settings.topic!r}: value.schema.id={settings.schema_id} is the id of another schema in "
            "value.writer.schemas, with which records may have been written: give value.schema an id of its own"
        )
    return {**by_number, own_id: own}


def _text(schema: Any) -> str:
    """The text of a schema that is given as JSON, or as its text in JSON."""
    if isinstance(schema, str) and schema.lstrip()[:1] in {"{", "[", '"'}:
        return schema
    return json.dumps(schema)


def _bad_writers(settings: ValueSettings, reason: str) -> ConfigError:
    form = (
        'a JSON object of schemas by id, such as {"7": {"type": "record", ...}}'
        if settings.framing is CONFLUENT
        else "a JSON array of schemas"
    )
    return ConfigError(f"topic {settings.topic!r}: value.writer.schemas: expected {form} ({reason})")
