"""The settings of a publication, as the log keeps them: texts by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_eos.config.nearest import suggestion
from spark_eos.errors import ConfigError
from spark_eos.log.topics import is_compacted
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.state import Topic

FORMATS = ("delta", "iceberg")
MODES = ("shared", "copied")

DEFAULT_RETENTION_MS = 7 * 86_400_000
"""For how long the files of a version stay after the table has a newer one."""

_NAMES = ("mode", "location", "retention.ms", "catalog", "namespace")


def check_settings(name: str, format_: str, config: Mapping[str, str], topics: list[Topic]) -> None:
    """Raise `ConfigError` for settings of a new publication that do not fit."""
    where = f"publication {name!r}"
    if format_ not in FORMATS:
        raise ConfigError(f"{where}: format={format_!r}; expected one of {', '.join(FORMATS)}")
    for key in config:
        if key not in _NAMES:
            raise ConfigError(f"{where}: unknown setting {key!r}; {suggestion(key, _NAMES)}")
        if format_ == "delta" and key in {"catalog", "namespace"}:
            raise ConfigError(f"{where}: {key} is a setting of Iceberg tables; a Delta table has a location")
    if format_ == "iceberg" and not (config.get("catalog") and config.get("namespace")):
        raise ConfigError(
            f"{where}: Iceberg tables need catalog, by the name that pyiceberg's settings have for it, and namespace: "
            "on the command line --config catalog=NAME --config namespace=NAMESPACE"
        )
    if format_ == "iceberg":
        _check_identifiers(where, config["namespace"], topics)
    mode = config.get("mode", "shared")
    if mode not in MODES:
        raise ConfigError(f"{where}: mode={mode!r}; expected one of {', '.join(MODES)}")
    if mode == "copied" and not config.get("location"):
        raise ConfigError(
            f"{where}: mode=copied needs a location, the folder or URL below which the tables are"
        )
    if mode == "shared" and config.get("location"):
        raise ConfigError(
            f"{where}: a table that shares the log's files lies in the log, beside them; leave location out, or "
            "set mode=copied"
        )
    for topic in topics:
        if mode == "shared" and is_compacted(topic):
            raise ConfigError(
                f"{where}: topic {topic.name!r} is compacted, so its table has one row for each key, which the log's "
                "files have not: set mode=copied and a location"
            )


def _check_identifiers(where: str, namespace: str, topics: list[Topic]) -> None:
    tables: dict[str, str] = {}
    for topic in topics:
        table = identifier_of(namespace, topic.name)
        earlier = tables.setdefault(table, topic.name)
        if earlier != topic.name:
            raise ConfigError(
                f"{where}: topics {earlier!r} and {topic.name!r} would both be the Iceberg table {table}: publish one "
                "of them by itself, in another namespace"
            )


def identifier_of(namespace: str, topic: str) -> str:
    """The name of a topic's Iceberg table in its catalog: with the namespace of the publication in front.

    Characters that tables' names do not have are underscores there.
    """
    return f"{namespace}.{re.sub('[^A-Za-z0-9_-]', '_', topic)}"


def is_copied(publication: Publication) -> bool:
    """Whether the tables have files of their own."""
    return publication.config.get("mode", "shared") == "copied"


def is_merged(publication: Publication, topic: Topic) -> bool:
    """Whether the topic's table has one row for each key."""
    return is_copied(publication) and is_compacted(topic)


def retention_ms(publication: Publication) -> int:
    """For how long the files of a version stay after the table has a newer one."""
    return int(publication.config.get("retention.ms", DEFAULT_RETENTION_MS))
