"""Topics, for the admin client: create, alter, delete, describe, and delete records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_eos.clients.admin.base import WRITER, AdminBase, places
from spark_eos.errors import InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.log.clock import new_id
from spark_eos.log.data.layout import evolve_check, serialise_schema
from spark_eos.log.data.planner import partition_of
from spark_eos.log.data.schema_limits import check_size
from spark_eos.log.topics import (
    TOPIC_CONFIGS,
    check_config,
    new_topic,
    own_schema,
    schema_error,
    schema_of,
)
from spark_eos.protocol.actions import Action, AdvanceLogStart, AlterTopic, DeleteTopic
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

__all__ = ["PartitionDescription", "TopicAdmin", "TopicDescription"]


@dataclass(frozen=True)
class PartitionDescription:
    """Offsets of a partition: first, behind the last, and the last stable one (exclusive)."""

    partition: int
    start: int
    end: int
    lso: int


@dataclass(frozen=True)
class TopicDescription:
    """A topic; ``config`` has what was set for it, ``schema`` is None for Kafka-shaped topics.

    ``schema_error`` says why the schema of a topic that has one cannot be read; ``schema`` is None then, too.
    """

    name: str
    topic_id: str
    partitions: list[PartitionDescription]
    config: dict[str, str]
    schema: pa.Schema | None
    schema_error: str | None = None


class TopicAdmin(AdminBase):
    """The calls about topics."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """A new topic, Kafka-shaped or with columns of its own.

        Raises `TopicExistsError`, `ConfigError`, `SchemaMismatchError`, `InvalidRequestError` for a name.
        """
        check = new_topic(name, partitions, config, schema)  # Before a log is created for it.
        log = self._log(create=True)
        action = check._replace(topic_id=new_id(log.clock))
        log.commit(lambda _state: (action,), writer=WRITER)

    def alter_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """More partitions, other settings, or nullable columns more.

        Settings that are not named stay; a value of None takes one back to its default. Raises
        `SchemaMismatchError` for any other change of the schema.
        """
        log = self._log()
        log.topic(name)
        kept = {key: value for key, value in (config or {}).items() if value is not None}
        changes = check_config(kept)
        check_config({key: TOPIC_CONFIGS.get(key, "") for key in config or {} if key not in kept})
        wanted = None if schema is None else own_schema(schema)

        def propose(state: State) -> tuple[Action, ...]:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"topic {name!r} was deleted")
            settings = None
            if config is not None:
                stays = {key: value for key, value in topic.config.items() if key not in config}
                settings = tuple(sorted({**stays, **changes}.items()))
            stored = None
            if wanted is not None:
                current = schema_of(topic)
                if current is None:
                    raise InvalidRequestError(f"topic {name!r} is Kafka-shaped: it cannot get a schema")
                evolved = evolve_check(current, wanted)
                stored = None if current.equals(evolved) else check_size(serialise_schema(evolved))
            return (AlterTopic(name, topic.topic_id, partitions, settings, stored),)

        log.commit(propose, writer=WRITER)

    def delete_topic(self, name: str) -> None:
        """Delete the topic and the offsets that groups committed for it."""
        log = self._log()
        log.follow()
        log.end_overdue()  # A topic with an open transaction is not deleted.
        action = DeleteTopic(name, log.topic(name).topic_id)
        log.commit(lambda _state: (action,), writer=WRITER)

    def list_topics(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._log().follow().topics)

    def describe_topic(self, name: str) -> TopicDescription:
        """Partitions, settings and schema. Raises `UnknownTopicOrPartitionError`."""
        log = self._log()
        state = log.follow()
        topic = log.topic(name)
        parts = [state.partitions[topic.topic_id, number] for number in range(topic.partitions)]
        error = schema_error(topic)
        return TopicDescription(
            name,
            topic.topic_id,
            [
                PartitionDescription(number, part.start, part.end, part.last_stable_offset)
                for number, part in enumerate(parts)
            ],
            dict(sorted(topic.config.items())),
            schema_of(topic) if error is None else None,
            error,
        )

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Records below these offsets are no longer readable (-1: all stable ones). The new first offsets."""
        log = self._log()
        action = AdvanceLogStart(places(log, offsets))
        log.end_overdue()  # Only stable records can go.
        state = log.commit(lambda _state: (action,), writer=WRITER).state
        return {TopicPartition(*at): partition_of(state, TopicPartition(*at)).start for at in offsets}
