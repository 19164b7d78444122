"""Topics, for the admin client: create, alter, delete, describe, and delete records."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from spark_eos.clients.admin.base import WRITER, AdminBase, places
from spark_eos.clients.admin.descriptions import PartitionDescription, TopicDescription
from spark_eos.clients.validation import as_names
from spark_eos.config.reader import check_stored
from spark_eos.config.topic import TOPIC
from spark_eos.errors import ConfigError, UnknownTopicOrPartitionError
from spark_eos.log.clock import new_id
from spark_eos.log.data.planner import partition_of
from spark_eos.log.schemas.alteration import alteration
from spark_eos.log.schemas.edits import Edits
from spark_eos.log.schemas.type_names import parse_type
from spark_eos.log.topics import (
    new_topic,
    own_schema,
    schema_error,
    schema_of,
    topic_of,
    with_registered,
)
from spark_eos.protocol.actions import Action, AdvanceLogStart, DeleteTopic
from spark_eos.protocol.state import State
from spark_eos.protocol.types import OffsetAndMetadata, PartitionOffset, TopicPartition


class TopicAdmin(AdminBase):
    """The calls about topics."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """Create a topic. The log is created with it, if there is none.

        Parameters
        ----------
        name
            1 to 249 of the characters a-z, A-Z, 0-9, ``.``, ``_`` and ``-``.
        partitions
            The number of partitions, at least 1.
        config
            Kafka's settings of a topic (docs/reference/topic-settings.md).
        schema
            The columns of a topic with a schema. None: a Kafka-shaped topic (key, value, headers).

        Raises
        ------
        TopicExistsError
            The log has a topic of that name.
        ConfigError
            A setting is unknown or malformed.
        SchemaMismatchError
            A column has a name or a type that cannot be stored, or not in files of the setting ``segment.format``.
        InvalidRequestError
            The name or the number of partitions is not possible.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://create-topic")
        >>> admin.create_topic("orders", partitions=3, config={"retention.ms": 86_400_000})
        >>> admin.create_topic("prices", schema=pa.schema({"item": pa.string(), "cents": pa.int64()}))
        >>> admin.list_topics()
        ['orders', 'prices']
        """
        config = with_registered(name, {}, config or {})
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
        *,
        add_columns: Mapping[str, pa.DataType | str] | None = None,
        rename_columns: Mapping[str, str] | None = None,
        drop_columns: Collection[str] = (),
        widen_columns: Mapping[str, pa.DataType | str] | None = None,
    ) -> None:
        """Add partitions, change settings, or change the columns of a topic with a schema: all in one entry, or none.

        All names of columns are those of now. A field of a struct has a path such as ``address.zip``; in a list it
        is ``points.element.x``, in a map ``prices.value.cents``. A name with a dot in it is put in backticks. Types
        are Arrow's, or text such as ``"bigint"`` or ``"array<string>"``. See docs/guide/schema-evolution.md.

        Parameters
        ----------
        name
            The topic.
        partitions
            The new number of partitions, not less than now. None: as it is.
        config
            Settings to change; others stay. A value of None takes a setting back to its default.
        schema
            All columns: those of now, which may have wider types, and new ones that allow null. None: as they are.
        add_columns
            Columns to add, with their types. They allow null; records from before have null there.
        rename_columns
            Columns to rename, with their new names (without a path). Settings that name them follow.
        drop_columns
            Columns to drop. Their values are not read any more. The names can be used again for other columns.
        widen_columns
            Columns to give a wider type, such as ``int`` to ``bigint``.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        ConfigError
            A setting is unknown or malformed, or a text is no type.
        SchemaMismatchError
            A column is not there, is there already, or may not be changed so.
        InvalidRequestError
            There would be fewer partitions, or a Kafka-shaped topic would get a schema.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from spark_eos import Admin
        >>> admin = Admin("memory://alter-topic")
        >>> admin.create_topic("prices", schema=pa.schema({"item": pa.string(), "cents": pa.int32()}))
        >>> admin.alter_topic("prices", add_columns={"shop": "string"}, widen_columns={"cents": pa.int64()})
        >>> admin.alter_topic("prices", rename_columns={"item": "article"})
        >>> {field.name: str(field.type) for field in admin.describe_topic("prices").schema}
        {'article': 'string', 'cents': 'int64', 'shop': 'string'}
        """
        log = self._log()
        before = topic_of(log.follow(), name, log.url)
        edits = Edits(
            _types(add_columns),
            dict(rename_columns or {}),
            tuple(as_names(drop_columns, "column")),
            _types(widen_columns),
        )
        if schema is not None and edits:
            raise ConfigError(
                "schema names all columns of the topic, so it cannot be given with add_columns, rename_columns, "
                "drop_columns or widen_columns: keep one of them"
            )
        check_stored(TOPIC, config or {})  # Before a schema registry is asked.
        new = {key: value for key, value in (config or {}).items() if value is not None}
        stays = {key: value for key, value in before.config.items() if key not in (config or {})}
        registered = check_stored(TOPIC, with_registered(name, stays, new))
        changes: dict[str, str | None] = {**dict.fromkeys(config or {}), **registered}
        new_schema = None if schema is None else own_schema(schema)

        def propose(state: State) -> tuple[Action, ...]:
            topic = state.topics.get(name)
            if topic is None or topic.topic_id != before.topic_id:
                again = "" if topic is None else " and created again"
                raise UnknownTopicOrPartitionError(f"topic {name!r} was deleted{again}")
            return (alteration(topic, partitions, None if config is None else changes, new_schema, edits),)

        log.commit(propose, writer=WRITER, alone=True)  # All settings are in it, those of others too.

    def delete_topic(self, name: str) -> None:
        """Delete a topic, its records, and the offsets that groups committed for it.

        Parameters
        ----------
        name
            The topic.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        """
        log = self._log()
        state = log.follow()
        action = DeleteTopic(name, topic_of(state, name, log.url).topic_id)
        log.commit(lambda _state: (action,), writer=WRITER)

    def list_topics(self) -> list[str]:
        """List the topics.

        Returns
        -------
        list of str
            The names, sorted.
        """
        return sorted(self._log().follow().topics)

    def describe_topic(self, name: str) -> TopicDescription:
        """Describe a topic: partitions with their offsets, settings and schema.

        Parameters
        ----------
        name
            The topic.

        Returns
        -------
        TopicDescription
            The topic as it is now.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic.
        """
        log = self._log()
        state = log.follow()
        topic = topic_of(state, name, log.url)
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

    def delete_records(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset, in each partition. Vacuum deletes their files later.

        Parameters
        ----------
        offsets
            The first offset to keep, by partition; -1: delete all stable records.

        Returns
        -------
        dict of TopicPartition to int
            The new first offset of each partition.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        OffsetOutOfRangeError
            An offset lies after the last stable one.
        """
        log = self._log()
        first_kept = places(log, offsets)
        log.end_overdue()  # Only stable records can go.
        state = log.commit(
            lambda state: (AdvanceLogStart(tuple(_stable(state, place) for place in first_kept)),),
            writer=WRITER,
        ).state
        return {TopicPartition(*at): partition_of(state, TopicPartition(*at)).start for at in offsets}


def _stable(state: State, place: PartitionOffset) -> PartitionOffset:
    """The place; for Kafka's -1 the last stable offset."""
    partition = state.partitions.get((place.topic_id, place.partition))
    return (
        place
        if partition is None or place.offset != -1
        else place._replace(offset=partition.last_stable_offset)
    )


def _types(columns: Mapping[str, pa.DataType | str] | None) -> dict[str, pa.DataType]:
    return {
        name: parse_type(type_) if isinstance(type_, str) else type_
        for name, type_ in (columns or {}).items()
    }
