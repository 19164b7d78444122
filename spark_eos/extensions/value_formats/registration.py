"""What a schema registry adds to the settings of a topic: the newest schema of its subject, or the id of a schema."""

from __future__ import annotations

from collections.abc import Mapping

from spark_eos.errors import ConfigError
from spark_eos.extensions.value_formats.registry import Registry, check_url


def subject_of(topic: str) -> str:
    """The subject of a topic's values in a registry (Confluent's TopicNameStrategy)."""
    return f"{topic}-value"


def registered(topic: str, stays: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, object]:
    """The settings with ``value.schema`` and ``value.schema.id``, as far as the registry is needed for them.

    Without a schema the newest one of the subject is taken. One without an id is registered.
    """
    whole = {**stays, **settings}
    if not str(whole["value.format"]).endswith("-confluent"):
        return settings
    url = whole.get("schema.registry.url")
    changes = {"value.schema", "value.schema.id", "value.format"} & settings.keys()
    if not url or not changes or "value.schema.id" in settings:
        return settings
    if "value.schema" not in settings and whole.get("value.schema") and whole.get("value.schema.id"):
        return settings
    registry, subject = Registry(check_url(str(url))), subject_of(topic)
    kind = "AVRO" if str(whole["value.format"]).startswith("avro") else "JSON"
    schema = whole.get("value.schema")
    if schema:
        return {**settings, "value.schema.id": registry.register(subject, str(schema), kind)}
    newest = registry.latest(subject)
    if newest is None:
        raise ConfigError(
            f"topic {topic!r}: the schema registry {url} has no subject {subject!r}: give value.schema"
        )
    if newest.kind != kind or newest.references:
        problem = "refers to other schemas" if newest.references else f"is {newest.kind}"
        raise ConfigError(
            f"topic {topic!r}: the newest schema of subject {subject!r} {problem}: give value.schema and "
            "value.schema.id"
        )
    return {**settings, "value.schema": newest.text, "value.schema.id": newest.id}
