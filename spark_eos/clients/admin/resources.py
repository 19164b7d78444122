"""What calls about several topics are given: the classes of kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from spark_eos.errors import InvalidRequestError


class OffsetSpec(IntEnum):
    """Which offset of a partition `Admin.list_offsets` looks up. A time in milliseconds may stand in its place."""

    LATEST = -1
    EARLIEST = -2


class ConfigResourceType(Enum):
    """What has settings: a topic, or the log. Settings of Kafka's brokers are settings of the log."""

    TOPIC = "topic"
    LOG = "log"
    BROKER = "log"  # noqa: PIE796  (another name of it)


class ConfigResource:
    """A topic or the log, and settings of it.

    Parameters
    ----------
    resource_type
        A `ConfigResourceType`, or its name: ``topic`` or ``log``.
    name
        The name of the topic; for the log anything.
    configs
        Names of settings to describe, or settings to change.
    """

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str = "",
        configs: Iterable[str] | Mapping[str, object] | None = None,
    ) -> None:
        try:
            self.resource_type = (
                resource_type
                if isinstance(resource_type, ConfigResourceType)
                else ConfigResourceType[str(resource_type).upper()]
            )
        except KeyError:
            raise InvalidRequestError(
                f"resource type {resource_type!r}: topics and the log have settings (topic, log)"
            ) from None
        self.name = name
        self.configs = configs


class NewTopic:
    """A topic to create.

    Parameters
    ----------
    name
        Its name.
    num_partitions
        The number of partitions; -1: one.
    replication_factor
        For programs of Kafka. The store replicates, so any number means the same here.
    topic_configs
        Settings of the topic.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        topic_configs: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.topic_configs = dict(topic_configs or {})


class NewPartitions:
    """The new number of partitions of a topic.

    Parameters
    ----------
    total_count
        How many it has afterwards.
    """

    def __init__(self, total_count: int) -> None:
        self.total_count = total_count


class TopicSpec(NamedTuple):
    """A topic to create, in one form."""

    name: str
    partitions: int
    config: Mapping[str, object]
    schema: Any = None


_KEYS = {"num_partitions", "replication_factor", "configs", "schema"}


def topic_specs(topics: Iterable[Any] | Mapping[str, Mapping[str, Any]]) -> list[TopicSpec]:
    """Topics that were given as names, as `NewTopic`, or as a dict of options by name. Raises `InvalidRequestError`."""
    specs = []
    if isinstance(topics, Mapping):
        for name, options in topics.items():
            unknown = sorted(options.keys() - _KEYS)
            if unknown:
                raise InvalidRequestError(
                    f"topic {name!r}: unknown option {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}"
                )
            count = options.get("num_partitions", -1)
            specs.append(TopicSpec(name, _count(count), options.get("configs") or {}, options.get("schema")))
    else:
        for topic in [topics] if isinstance(topics, (str, NewTopic)) else topics:
            if isinstance(topic, str):
                specs.append(TopicSpec(topic, 1, {}))
            elif not hasattr(topic, "topic_configs"):
                raise InvalidRequestError(
                    f"{topic!r} is no topic to create: give its name, or spark_eos.kafka.NewTopic(name, num_partitions)"
                )
            else:
                specs.append(TopicSpec(topic.name, _count(topic.num_partitions), topic.topic_configs))
    names = [spec.name for spec in specs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidRequestError(f"topic {twice[0]!r} is named twice")
    return specs


def _count(number: int) -> int:
    return 1 if number == -1 else number


def resource_of(resource: Any) -> ConfigResource:
    """A resource that was given as the name of a topic, or as an object like `ConfigResource`."""
    if isinstance(resource, str):
        return ConfigResource(ConfigResourceType.TOPIC, resource)
    if isinstance(resource, ConfigResource):
        return resource
    kind = getattr(resource, "resource_type", None)
    if kind is None:
        raise InvalidRequestError(
            f"{resource!r} has no settings: give the name of a topic, or spark_eos.kafka.ConfigResource('topic', name)"
        )
    return ConfigResource(getattr(kind, "name", kind), resource.name, resource.configs)
