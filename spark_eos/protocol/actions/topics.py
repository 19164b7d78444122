"""Topics: create, alter, delete.

A topic is known by its name and its topic id. The id is random and never used again, so a topic that is created again
under an old name is another topic: rows, offsets and sequence numbers of the old one are refused (KIP-516). Without
the id, a writer that had not seen the deletion would append to a topic that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from immutables import Map

from spark_eos.errors import (
    InvalidRequestError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from spark_eos.errors.counting import counted
from spark_eos.protocol.actions import groups
from spark_eos.protocol.actions.declaration import INT32, SETTINGS, Fate, Field, changes, declare
from spark_eos.protocol.arrow_schema import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, shape_of
from spark_eos.protocol.encoding.avro import BYTES, LONG, STRING, optional_of
from spark_eos.protocol.encoding.values import PAIRS
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.gone import gone
from spark_eos.protocol.schema_versions import check_follows
from spark_eos.protocol.state import Partition, State, Topic
from spark_eos.protocol.types import MAX_PARTITIONS, TrailNote

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

MAX_TOPIC_NAME = 249
"""Characters of a topic's name, as in Kafka."""

TOPIC_ALTERED = "topic altered"
TOPIC_DELETED = "topic deleted"
"""What the trail says of it."""

_EMPTY = Partition()
_MOST_NAMED = 20
"""So many topics an error lists: a log may have thousands."""
_LEGAL_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME}}}")
_TOPIC_ID = re.compile(r"(?!\.\.?$)[^/\\\x00-\x1f]{1,64}")
_NUMERIC = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def require(state: State, name: str, topic_id: str | None = None) -> Topic:
    """The topic, which must be there and, if given, must be the incarnation ``topic_id``."""
    topic = state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(
            f"the log has no topic {name!r}{gone(state, name)}; its topics are: {names_of_topics(state)}"
        )
    if topic_id is not None and topic.topic_id != topic_id:
        raise UnknownTopicOrPartitionError(
            f"topic {name!r} was deleted and created again (it was {topic_id}, it is {topic.topic_id} now): "
            "nothing of the old one goes on in the new one"
        )
    return topic


class CreateTopic(NamedTuple):
    """A new topic. ``schema`` is an Arrow schema (IPC bytes), or None for a Kafka-shaped topic."""

    name: str
    topic_id: str
    partitions: int
    config: tuple[tuple[str, str], ...] = ()
    schema: bytes | None = None


def create(state: State, action: CreateTopic) -> tuple[State, None]:
    """A topic with partitions that start at offset 0."""
    name = action.name
    check_name(name)
    if name in state.topics:
        raise TopicExistsError(f"topic {name!r} is there already")
    if any(topic.topic_id == action.topic_id for topic in state.topics.values()):
        raise InvalidRequestError(f"topic id {action.topic_id} is taken")
    check_partitions(name, action.partitions)
    _check_schema(name, action.schema)
    schemas = () if action.schema is None else (action.schema,)
    topic = Topic(name, action.topic_id, action.partitions, Map(action.config), schemas)
    state = _with_partitions(replace(state, topics=state.topics.set(name, topic)), topic, 0)
    return groups.topic_changed(state, name), None


def _fate_of_create(state: State, action: CreateTopic) -> Fate:
    topic = state.topics.get(action.name)
    return Fate.APPLIED if topic and topic.topic_id == action.topic_id else Fate.UNKNOWN


def _check_new(action: CreateTopic) -> None:
    if not _TOPIC_ID.fullmatch(action.topic_id):
        raise InvalidRequestError(
            f"illegal topic id {action.topic_id[:80]!r}: 1 to 64 characters without '/', and neither '.' nor '..'"
        )
    _check_config(action)


def _check_config(action: CreateTopic | AlterTopic) -> None:
    """Maintenance calculates with these: one that is no number would stop it for every topic of the log."""
    for name, value in action.config or ():
        if name.endswith((".ms", ".bytes")) and not _NUMERIC.fullmatch(value):
            raise InvalidRequestError(f"topic setting {name!r} must be a whole number, not {value[:80]!r}")


declare(
    CreateTopic,
    number=1,
    fields=(
        Field("name", STRING),
        Field("topic_id", STRING),
        Field("partitions", LONG, bounds=INT32),
        Field("config", PAIRS, bounds=SETTINGS),
        Field("schema", optional_of(BYTES)),
    ),
    rule=create,
    fate=_fate_of_create,
    check=_check_new,
    tell=lambda _before, _after, action, _writer: [
        TrailNote("topic created", action.name, f"partitions: {action.partitions}")
    ],
)


class AlterTopic(NamedTuple):
    """More partitions, other settings, or a further schema version; None: no change."""

    name: str
    topic_id: str
    partitions: int | None = None
    config: tuple[tuple[str, str], ...] | None = None
    schema: bytes | None = None


def alter(state: State, action: AlterTopic) -> tuple[State, None]:
    """Partitions only grow; settings are replaced as a whole; a schema becomes the next version (`check_follows`)."""
    topic = require(state, action.name, action.topic_id)
    had = topic.partitions
    if action.partitions is not None:
        if action.partitions < had:
            raise InvalidRequestError(
                f"topic {action.name!r} has {counted(had, 'partition')} and cannot be cut to {action.partitions}"
            )
        check_partitions(action.name, action.partitions)
        topic = replace(topic, partitions=action.partitions)
    if action.config is not None:
        topic = replace(topic, config=Map(action.config))
    if action.schema is not None:
        if not topic.schemas:
            raise InvalidRequestError(
                f"topic {action.name!r} is Kafka-shaped: it has no schema that could change"
            )
        _check_schema(action.name, action.schema)
        _check_follows(topic, action.schema)
        topic = replace(topic, schemas=(*topic.schemas, action.schema))
    state = _with_partitions(replace(state, topics=state.topics.set(action.name, topic)), topic, had)
    return (groups.topic_changed(state, action.name) if topic.partitions > had else state), None


def _tell_altered(before: State, _after: State, action: AlterTopic, _writer: str) -> Iterator[TrailNote]:
    topic = before.topics.get(action.name)
    parts = []
    if topic is not None and action.partitions not in {None, topic.partitions}:
        parts.append(f"partitions: {action.partitions} (was {topic.partitions})")
    if topic is not None and action.config is not None:
        parts.append(changes(topic.config, dict(action.config)))
    if action.schema is not None:
        parts.append("another version of its columns")
    if text := "; ".join(part for part in parts if part):
        yield TrailNote(TOPIC_ALTERED, action.name, text)


declare(
    AlterTopic,
    number=2,
    fields=(
        Field("name", STRING),
        Field("topic_id", STRING),
        Field("partitions", optional_of(LONG), bounds=INT32),
        Field("config", optional_of(PAIRS), bounds=SETTINGS),
        Field("schema", optional_of(BYTES)),
    ),
    rule=alter,
    check=_check_config,
    tell=_tell_altered,
)


class DeleteTopic(NamedTuple):
    """The topic, its offsets and the versions of jobs are gone; a new one of the same name is another topic."""

    name: str
    topic_id: str


def delete(state: State, action: DeleteTopic) -> tuple[State, None]:
    """The topic goes, with its partitions and all offsets that groups committed, or are about to commit, for it.

    A transaction that is open in it goes on without it, as in Kafka: its end writes to what is left. Kafka's
    coordinator skips the markers of partitions without a leader, "likely deleted already", and completes the
    transaction with the others (TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue). So a transaction that
    wrote only to a deleted topic ends as well. Batches that are sent to that topic afterwards are rejected.
    """
    topic = require(state, action.name, action.topic_id)
    for publication in state.publications_of(topic.topic_id):
        raise InvalidRequestError(
            f"topic {action.name!r} cannot be deleted: publication {publication.name!r} has a table of it; drop the "
            "publication first"
        )
    partitions, offsets = state.partitions, state.offsets
    for number in range(topic.partitions):
        partitions = partitions.delete((topic.topic_id, number))
    for group, committed in state.offsets.items():
        offsets = offsets.set(group, without(committed, [key for key in committed if key[0] == action.name]))
    producers = state.producers
    for producer_id, producer in state.producers.items():
        written = [key for key in producer.sequences if key[0] == topic.topic_id]
        read = [key for key in producer.pending if key[1] == action.name]
        touched = [key for key in producer.touched if key[0] == topic.topic_id]
        if written or read or touched:
            left = replace(
                producer,
                sequences=without(producer.sequences, written),
                pending=without(producer.pending, read),
                touched=without(producer.touched, touched),
            )
            producers = producers.set(producer_id, left)
    topics = state.topics.delete(action.name)
    versions = without(state.app_versions, [key for key in state.app_versions if key[1] == topic.topic_id])
    state = replace(
        state,
        topics=topics,
        partitions=partitions,
        offsets=offsets,
        producers=producers,
        app_versions=versions,
    )
    gone = [(topic.topic_id, number) for number in range(topic.partitions)]
    return groups.topic_changed(state, action.name, gone), None


declare(
    DeleteTopic,
    number=3,
    fields=(Field("name", STRING), Field("topic_id", STRING)),
    rule=delete,
    tell=lambda _before, _after, action, _writer: [TrailNote(TOPIC_DELETED, action.name)],
)


def _with_partitions(state: State, topic: Topic, since: int) -> State:
    new = dict.fromkeys(((topic.topic_id, number) for number in range(since, topic.partitions)), _EMPTY)
    return replace(state, partitions=state.partitions.update(new))


def without(values: Map[_Key, _Value], gone: list[_Key]) -> Map[_Key, _Value]:
    """The map without these keys."""
    for key in gone:
        values = values.delete(key)
    return values


def check_name(name: str) -> None:
    """Raise `InvalidRequestError` for a name that no topic can have."""
    if not isinstance(name, str) or not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidRequestError(
            f"illegal topic name {name!r}: 1 to {MAX_TOPIC_NAME} of the characters a-z, A-Z, 0-9, '.', '_' and '-', "
            "and neither '.' nor '..'"
        )


def check_partitions(name: str, partitions: int) -> None:
    """Raise `InvalidRequestError` for a number of partitions that no topic can have."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidRequestError(
            f"topic {name!r} cannot have {partitions} partitions: from 1 to {MAX_PARTITIONS} are possible"
        )


def _check_schema(name: str, schema: bytes | None) -> None:
    """A schema that is stored can be read, and rows of it can be written, by all clients and by Spark."""
    if schema is None:
        return
    if len(schema) > MAX_SCHEMA_BYTES:
        raise InvalidRequestError(
            f"topic {name!r}: its schema has {len(schema)} bytes; {MAX_SCHEMA_BYTES} are possible"
        )
    try:
        shape = shape_of(schema)
    except ValueError as error:
        raise InvalidRequestError(
            f"topic {name!r}: its schema is no Arrow schema of a topic: {error}"
        ) from error
    for column, depth in zip(shape.columns, shape.depths, strict=True):
        if depth > MAX_SCHEMA_DEPTH:
            raise InvalidRequestError(
                f"topic {name!r}: column {column!r} is nested {depth} levels deep; {MAX_SCHEMA_DEPTH} are possible"
            )
    if not shape.columns or "" in shape.columns or len({*shape.columns}) < len(shape.columns):
        raise InvalidRequestError(
            f"topic {name!r}: its schema has no column, or one without a name, or two of the same name"
        )


def _check_follows(topic: Topic, schema: bytes) -> None:
    """Rows of every version can be read under this one, and no other version came in between."""
    try:
        check_follows(topic.schemas, schema)
    except ValueError as error:
        raise InvalidRequestError(
            f"topic {topic.name!r}: its schema cannot become this one: {error}"
        ) from error


def names_of_topics(state: State) -> str:
    """The topics of a log in an error, up to `_MOST_NAMED` of them."""
    names = sorted(state.topics)
    more = f", … ({len(names)} in all)" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or "none") + more
