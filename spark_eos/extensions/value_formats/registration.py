"""What a schema registry adds to the settings of a topic: the newest schema of its subject, or the id of a schema."""

from __future__ import annotations

from collections.abc import Mapping

from spark_eos.errors import ConfigError
from spark_eos.extensions.value_formats.registry import Registry, check_url

__all__ = ["registered", "subject_of"]


def subject_of(topic: str) -> str:
    """The subject of a topic's values in a registry (Confluent's TopicNameStrategy)."""
    return f"{topic}-value"


def registered(topic: str, stays: Mapping[str, str], given: Mapping[str, object]) -> Mapping[str, object]:
    """The settings with ``value.schema`` and ``value.schema.id``, as far as the registry is needed for them.

    Without a schema the newest one of the subject is taken. One without an id is registered.
    """
    whole = {**stays, **given}
    if not str(whole["value.format"]).endswith("-confluent"):
        return given
    url = whole.get("schema.registry.url")
    changes = {"value.schema", "value.schema.id", "value.format"} & given.keys()
    if not url or not changes or "value.schema.id" in given:
        return given
    if "value.schema" not in given and whole.get("value.schema") and whole.get("value.schema.id"):
        return given
    registry, subject = Registry(check_url(str(url))), subject_of(topic)
    kind = "AVRO" if str(whole["value.format"]).startswith("avro") else "JSON"
    schema = whole.get("value.schema")
    if schema:
        return {**given, "value.schema.id": registry.register(subject, str(schema), kind)}
    found = registry.latest(subject)
    if found is None:
        raise ConfigError(
            f"topic {topic!r}: the schema registry {url} has no subject {subject!r}: give value.schema"
        )
    if found.kind != kind or found.references:
        what = "refers to other schemas" if found.references else f"is {found.kind}"
        raise ConfigError(
            f"topic {topic!r}: the newest schema of subject {subject!r} {what}: give value.schema and value.schema.id"
        )
    return {**given, "value.schema": found.text, "value.schema.id": found.id}
