"""The log's topics of a mirror: made, grown and configured as Kafka's are. Pure: actions from a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spark_eos.config.topic import TOPIC
from spark_eos.errors import ConfigError, InvalidRequestError
from spark_eos.extensions.mirror.kafka_source import SourceTopic, recreated
from spark_eos.extensions.mirror.positions import Position, map_topic, positions
from spark_eos.log.topics import new_topic
from spark_eos.protocol.actions import Action, AlterTopic, DeleteTopic
from spark_eos.protocol.state import State, Topic

COPIED = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.message.bytes",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
)
"""Settings of Kafka's topics that the log's have as well, with the same meaning."""

_MAP_CONFIG = {"retention.ms": "-1", "max.message.bytes": str(2**31 - 1)}


class Target(NamedTuple):
    """A topic of Kafka, the name of the log's topic, and the settings to copy (None: none)."""

    source: SourceTopic
    name: str
    config: Mapping[str, str] | None


def copied(config: Mapping[str, str]) -> dict[str, str]:
    """What of a Kafka topic's settings the log's topic gets: those that differ from the log's own defaults."""
    return {
        name: config[name] for name in COPIED if config.get(name) not in {None, "", TOPIC[name].shown_default}
    }


def check_distinct(targets: Mapping[str, str]) -> None:
    """Raise `ConfigError` if two topics of Kafka would become one of the log. ``targets`` are the log's, by Kafka's."""
    sources: dict[str, str] = {}
    for name, target in targets.items():
        if target in sources:
            raise ConfigError(
                f"--rename: topics {sources[target]!r} and {name!r} of Kafka would both become {target!r} of the log"
            )
        sources[target] = name


def prepare(
    state: State, mirror: str, targets: Sequence[Target], ids: Mapping[str, str], *, may_append: bool
) -> tuple[Action, ...]:
    """What makes the log ready for these topics. ``ids`` are the topic ids of new ones, by name."""
    actions: list[Action] = []
    begun_ids = {position.target_id for position in positions(state, mirror)}
    for target in targets:
        mapped = map_topic(mirror, target.name)
        topic, map_ = state.topics.get(target.name), state.topics.get(mapped)
        is_begun = topic is not None and topic.topic_id in begun_ids
        if map_ is not None and not is_begun and (topic is None or _rows(state, map_)):
            actions.append(DeleteTopic(mapped, map_.topic_id))  # That of a topic that was deleted.
            map_ = None
        if topic is None:
            actions.append(
                new_topic(target.name, target.source.partitions, target.config, None, ids[target.name])
            )
        else:
            if not (may_append or (is_begun and map_ is not None)):
                _check_is_empty(state, mirror, topic)
            actions += _changes(topic, target)
        if map_ is None:
            partitions = max(target.source.partitions, 0 if topic is None else topic.partitions)
            actions.append(new_topic(mapped, partitions, _MAP_CONFIG, None, ids[mapped]))
        elif target.source.partitions > map_.partitions:
            actions.append(AlterTopic(mapped, map_.topic_id, target.source.partitions))
    return tuple(actions)


def _check_is_empty(state: State, mirror: str, topic: Topic) -> None:
    if topic.schemas:
        raise InvalidRequestError(
            f"topic {topic.name!r} has columns of its own, and records of Kafka have key, value and headers: mirror "
            "into another topic (--rename)"
        )
    rows = _rows(state, topic)
    if rows:
        raise InvalidRequestError(
            f"topic {topic.name!r} has {rows} records that mirror {mirror!r} has not written, perhaps those of the "
            "same Kafka topic by another mirror. Add to them with --append, or mirror into another topic (--rename)"
        )


def _rows(state: State, topic: Topic) -> int:
    """How many offsets of the topic are taken."""
    return sum(state.partitions[topic.topic_id, number].end for number in range(topic.partitions))


def _changes(topic: Topic, target: Target) -> list[Action]:
    partitions = target.source.partitions if target.source.partitions > topic.partitions else None
    config: tuple[tuple[str, str], ...] | None = None
    if target.config is not None:
        own_config = {name: value for name, value in topic.config.items() if name not in COPIED}
        new_config = {**own_config, **target.config}
        if new_config != dict(topic.config):
            config = tuple(sorted(new_config.items()))
    if partitions is None and config is None:
        return []
    return [AlterTopic(topic.name, topic.topic_id, partitions, config)]


def check_continues(
    earlier: Sequence[Position], topic: SourceTopic, target_id: str, cluster: str, address: str
) -> None:
    """Raise if the log's topic holds records of another cluster's topic, or of an earlier one of the same name."""
    for position in earlier:
        if position.target_id != target_id:
            continue
        if position.cluster != cluster:
            raise InvalidRequestError(
                f"topic {position.target!r} is mirrored from the Kafka cluster {position.cluster}, and {address} is "
                f"cluster {cluster}: its offsets mean other records. Set --bootstrap-server to the first one, or "
                "mirror this one under another --name into another topic (--rename)"
            )
        if position.topic == topic.name and position.source_id != topic.topic_id:
            raise recreated(topic.name, position.source_id, topic.topic_id, address)
