"""Calls about several topics at once, for the admin client: each call is one entry of the log, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from spark_eos.clients.admin.base import WRITER
from spark_eos.clients.admin.descriptions import TopicDescription
from spark_eos.clients.admin.resources import (
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    resource_of,
    topic_specs,
)
from spark_eos.clients.admin.settings import SettingsAdmin
from spark_eos.clients.admin.topics import TopicAdmin
from spark_eos.clients.records import OffsetAndTimestamp
from spark_eos.clients.validation import as_names, by_partition
from spark_eos.config.isolation import Isolation
from spark_eos.config.log import LOG
from spark_eos.config.option import Table
from spark_eos.config.reader import check_names
from spark_eos.config.reference import in_force
from spark_eos.config.topic import TOPIC
from spark_eos.errors import ConfigError, InvalidRequestError, NotALogError, TopicExistsError
from spark_eos.errors.counting import counted
from spark_eos.log.clock import new_id
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.log.topics import new_topic, topic_of
from spark_eos.protocol.actions import AlterTopic, DeleteTopic
from spark_eos.protocol.types import TopicPartition

Configs = dict[str, dict[str, dict[str, dict[str, Any]]]]


class SeveralAdmin(TopicAdmin, SettingsAdmin):
    """The calls in the plural, as in kafka-python."""

    def create_topics(
        self,
        new_topics: Iterable[str | NewTopic] | Mapping[str, Mapping[str, Any]],
        validate_only: bool = False,
    ) -> None:
        """Create topics, all of them or none. The log is created with them, if there is none.

        Parameters
        ----------
        new_topics
            Names; or `NewTopic` objects of `spark_eos.kafka`; or a dict of options by name: ``num_partitions``,
            ``configs``, ``schema``.
        validate_only
            True: check everything, and create nothing.

        Raises
        ------
        TopicExistsError
            The log has a topic of one of these names.
        ConfigError, SchemaMismatchError
            As `create_topic`.
        InvalidRequestError
            A name, a number of partitions or an option is not possible, or a name is given twice.

        Examples
        --------
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://create-topics")
        >>> admin.create_topics(
        ...     {"orders": {"num_partitions": 3}, "payments": {"configs": {"retention.ms": 3_600_000}}}
        ... )
        >>> [(topic.name, len(topic.partitions)) for topic in admin.describe_topics()]
        [('orders', 3), ('payments', 1)]
        """
        specs = topic_specs(new_topics)
        checked = [new_topic(*spec) for spec in specs]  # Before a log is created for them.
        if validate_only:
            self._check_new([spec.name for spec in specs])
            return
        if not checked:
            return
        log = self._log(create=True)
        actions = tuple(action._replace(topic_id=new_id(log.clock)) for action in checked)
        log.commit(lambda _state: actions, writer=WRITER)

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete topics, all of them or none.

        Parameters
        ----------
        topics
            Their names.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no topic of one of these names.
        """
        log = self._log()
        state = log.follow()
        names = as_names(topics, "topic")
        actions = tuple(
            DeleteTopic(name, topic_of(state, name, log.url).topic_id) for name in dict.fromkeys(names)
        )
        if actions:
            log.commit(lambda _state: actions, writer=WRITER)

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicDescription]:
        """Describe topics: partitions with their offsets, settings and schema.

        Parameters
        ----------
        topics
            Their names. None: all topics.

        Returns
        -------
        list of TopicDescription
            In the order of the names.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no topic of one of these names.
        """
        names = self.list_topics() if topics is None else as_names(topics, "topic")
        return [self.describe_topic(name) for name in names]

    def create_partitions(
        self, topic_partitions: Mapping[str, int | NewPartitions], validate_only: bool = False
    ) -> None:
        """Add partitions to topics, to all of them or to none.

        Parameters
        ----------
        topic_partitions
            The new number of partitions, by topic: more than now.
        validate_only
            True: check everything, and change nothing.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        InvalidRequestError
            A topic would not get more partitions.

        Examples
        --------
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://create-partitions")
        >>> admin.create_topics(["orders"])
        >>> admin.create_partitions({"orders": 3})
        >>> len(admin.describe_topic("orders").partitions)
        3
        """
        log = self._log()
        state = log.follow()
        actions = []
        for name, value in topic_partitions.items():
            count = getattr(value, "total_count", value)
            if not isinstance(count, Integral):
                raise InvalidRequestError(f"topic {name!r}: {count!r} is no number of partitions")
            topic = topic_of(state, name, log.url)
            if count <= topic.partitions:
                raise InvalidRequestError(
                    f"topic {name!r} has {counted(topic.partitions, 'partition')}: {count} are not more. "
                    "Nothing was changed"
                )
            actions.append(AlterTopic(name, topic.topic_id, int(count), None, None))
        if actions and not validate_only:
            log.commit(lambda _state: tuple(actions), writer=WRITER)

    def describe_configs(self, config_resources: Iterable[Any], config_filter: str = "modified") -> Configs:
        """Describe the settings of topics, or of the log.

        Parameters
        ----------
        config_resources
            Names of topics, or `ConfigResource` objects of `spark_eos.kafka`, whose ``configs`` may name the settings
            to show.
        config_filter
            ``modified``: settings that were set; ``all``: all of them, with their defaults.

        Returns
        -------
        dict
            By ``topic`` or ``log``, by the resource's name, by the setting's name: a dict of ``value``, ``default`` and
            ``is_default``.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        ConfigError
            A setting that is asked for is unknown, or ``config_filter`` is.

        Examples
        --------
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://describe-configs")
        >>> admin.create_topic("orders", config={"retention.ms": 1000})
        >>> admin.describe_configs(["orders"])["topic"]["orders"]["retention.ms"]["value"]
        '1000'
        """
        if config_filter not in {"modified", "all"}:
            raise ConfigError(f"config_filter={config_filter!r}: expected modified or all")
        log = self._log()
        state = log.follow()
        configs: Configs = {}
        for item in config_resources:
            resource = resource_of(item)
            of_topic = resource.resource_type is ConfigResourceType.TOPIC
            stored: Mapping[str, str] = (
                topic_of(state, resource.name, log.url).config if of_topic else dict(state.config)
            )
            table: Table = TOPIC if of_topic else LOG
            names = None if resource.configs is None else list(resource.configs)
            check_names(table, names or ())
            configs.setdefault(resource.resource_type.value, {})[resource.name] = {
                row.name: {"value": row.value, "default": row.default, "is_default": row.name not in stored}
                for row in in_force(table, stored)
                if (row.name in names if names is not None else config_filter == "all" or row.name in stored)
            }
        return configs

    def alter_configs(self, config_resources: Iterable[Any]) -> None:
        """Change settings of topics, or of the log. Those that are not named stay, as with Kafka's incremental call.

        Parameters
        ----------
        config_resources
            `ConfigResource` objects of `spark_eos.kafka`; a setting of None goes back to its default. Each resource is
            changed by itself, in their order.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        ConfigError
            A setting is unknown or malformed.
        InvalidRequestError
            A resource has no settings to change.
        """
        changes: list[tuple[ConfigResource, dict[str, object]]] = []
        for item in config_resources:
            resource = resource_of(item)
            if not isinstance(resource.configs, Mapping):
                raise InvalidRequestError(
                    f"{resource.resource_type.value} {resource.name!r}: configs has to be a dict of settings"
                )
            changes.append((resource, dict(resource.configs)))
        for resource, settings in changes:
            if resource.resource_type is ConfigResourceType.TOPIC:
                self.alter_topic(resource.name, config=settings)
            else:
                self.alter_log(settings)

    def list_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, OffsetSpec | int],
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look up offsets of partitions, by place or time.

        Parameters
        ----------
        topic_partition_specs
            By partition `OffsetSpec.EARLIEST`, `OffsetSpec.LATEST`, or a time in milliseconds since 1970 (UTC).
        isolation_level
            ``read_committed``: the latest offset is the last stable one.

        Returns
        -------
        dict of TopicPartition to OffsetAndTimestamp
            The timestamp is that of the record that was looked up by time, else -1. Both are -1 where no record is that
            late.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        ConfigError
            ``isolation_level`` is neither of the two.
        InvalidRequestError
            What is given for a partition is neither a time nor one of `OffsetSpec`.

        Examples
        --------
        >>> from spark_eos import Admin, Producer, TopicPartition
        >>> from spark_eos.kafka import OffsetSpec
        >>> with Producer("memory://list-offsets") as producer:
        ...     future = producer.send("orders", b"one")
        >>> at = TopicPartition("orders", 0)
        >>> Admin("memory://list-offsets").list_offsets({at: OffsetSpec.LATEST})[at].offset
        1
        """
        try:
            isolation = Isolation(isolation_level)
        except ValueError:
            raise ConfigError(
                f"isolation_level={isolation_level!r}: expected read_uncommitted or read_committed"
            ) from None
        log = self._log()
        log.follow()
        state = log.end_overdue()
        offsets = {}
        for at, spec in by_partition(topic_partition_specs, "offset").items():
            partition = partition_of(state, at)
            if spec == OffsetSpec.EARLIEST:
                offsets[at] = OffsetAndTimestamp(partition.start, -1)
            elif spec == OffsetSpec.LATEST:
                offsets[at] = OffsetAndTimestamp(end_offset(partition, isolation), -1)
            elif isinstance(spec, Real) and spec >= 0:
                offsets[at] = OffsetAndTimestamp(*(log.offset_for_time(at, spec, isolation) or (-1, -1)))
            else:
                raise InvalidRequestError(
                    f"{at}: {spec!r} is no time in milliseconds, and neither OffsetSpec.EARLIEST nor OffsetSpec.LATEST"
                )
        return offsets

    def _check_new(self, names: Iterable[str]) -> None:
        """Raise `TopicExistsError` for a topic that is there; where there is no log there are none."""
        try:
            existing = set(self.list_topics())
        except NotALogError:
            return
        for name in names:
            if name in existing:
                raise TopicExistsError(f"topic {name!r} exists already")
