"""What has to be true before producers move, and before the mirror ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_eos.errors import ConfigError, InvalidRequestError, KafkaTimeoutError
from spark_eos.errors.counting import counted
from spark_eos.extensions.mirror.groups import maps_of, translations
from spark_eos.extensions.mirror.moving.kafka_state import End, KafkaState
from spark_eos.extensions.mirror.offset_map import current
from spark_eos.extensions.mirror.positions import Position
from spark_eos.log.log import Log

_AGAIN_S = 0.2

SEALED_BYTES = 1
"""With this ``max.message.bytes`` a topic of Kafka takes no record."""


class PartitionBehind(NamedTuple):
    """A partition that is not mirrored up to its end. ``mirrored`` is None if nothing of it is known."""

    topic: str
    partition: int
    end: End
    mirrored: int | None

    @property
    def text(self) -> str:
        """As a line of a message."""
        where = f"{self.topic}-{self.partition}"
        if self.mirrored is None:
            return f"{where} is not mirrored: it is not in --topic, or the mirror has not found it yet"
        if self.mirrored >= self.end.stable:
            return (
                f"{where}: a transaction of Kafka is open from offset {self.end.stable} on, and what comes after it "
                "waits for its end"
            )
        return f"{where} is mirrored up to offset {self.mirrored}, and ends at {self.end.high} in Kafka"


def mirrored(log: Log, mirror: str, topics: Sequence[str] = ()) -> list[Position]:
    """The positions of the mirror, of all topics or of these. Raises `ConfigError` if there are none."""
    positions = [
        position for position in current(log.follow(), mirror) if not topics or position.topic in topics
    ]
    missing_topics = sorted({*topics} - {position.topic for position in positions})
    if missing_topics or not positions:
        subject = f"topic {missing_topics[0]!r} of Kafka" if missing_topics else "any topic"
        raise ConfigError(f"mirror {mirror!r} has not mirrored {subject}: start eoslog mirror in first")
    return positions


def partitions_behind(
    log: Log, kafka: KafkaState, mirror: str, topics: Sequence[str] = ()
) -> list[PartitionBehind]:
    """The partitions that are not mirrored up to where Kafka ends now."""
    positions = mirrored(log, mirror, topics)
    return _partitions_behind(log, mirror, topics, kafka.ends(kafka.partitions_of(positions)))


def _partitions_behind(
    log: Log, mirror: str, topics: Sequence[str], ends: dict[tuple[str, int], End]
) -> list[PartitionBehind]:
    at = {(position.topic, position.partition): position.offset for position in mirrored(log, mirror, topics)}
    return [
        PartitionBehind(*where, end, at.get(where))
        for where, end in sorted(ends.items())
        if end.high > at.get(where, 0)
    ]


def wait(log: Log, kafka: KafkaState, mirror: str, topics: Sequence[str], timeout_s: float) -> int:
    """Wait until all that Kafka has now is in the log; the number of partitions. Raises `KafkaTimeoutError`."""
    partitions = kafka.partitions_of(mirrored(log, mirror, topics))
    ends = kafka.ends(partitions)
    deadline = log.clock.monotonic() + timeout_s
    while lags := _partitions_behind(log, mirror, topics, ends):
        if log.clock.monotonic() >= deadline:
            fresh = kafka.ends([(lag.topic, lag.partition) for lag in lags])
            lines = "\n".join(
                f"  - {lag._replace(end=lag.end._replace(stable=fresh[lag.topic, lag.partition].stable)).text}"
                for lag in lags
            )
            raise KafkaTimeoutError(
                f"after {timeout_s:g} seconds the log has not all that Kafka has:\n{lines}\nStart no producer on the "
                "log yet. Look whether eoslog mirror in runs, end open transactions, and call this again"
            )
        log.clock.sleep(_AGAIN_S)
    return len(partitions)


def groups_left(log: Log, kafka: KafkaState, mirror: str, ignored: str) -> list[str]:
    """What is wrong with groups of Kafka: they read there still, or stand in the log before where they stood."""
    state = log.follow()
    maps = maps_of(log, state, mirror)
    problems = []
    for group, committed in kafka.group_offsets(f"(?!(?:{ignored})$).*" if ignored else ".*").items():
        moved = translations(state, maps, group, committed)
        if not moved:
            continue
        members = kafka.members(group)
        if members:
            problems.append(f"group {group} has {counted(members, 'member')} in Kafka: it reads there")
        elif names := [translation.name for translation in moved if not translation.has_moved]:
            problems.append(f"group {group} has not moved ({', '.join(names)}): eoslog mirror group")
    return problems


def records_left(log: Log, kafka: KafkaState, mirror: str) -> list[str]:
    """What is not in the log yet."""
    return [lag.text for lag in partitions_behind(log, kafka, mirror)]


def unsealed(log: Log, kafka: KafkaState, mirror: str) -> list[str]:
    """The topics of Kafka that take records."""
    names = sorted({position.topic for position in mirrored(log, mirror)})
    configs = kafka.configs(names)
    return [name for name in names if int(configs[name].get("max.message.bytes") or 0) > SEALED_BYTES]


def refuse(problems: Sequence[str], headline: str) -> None:
    """Raise `InvalidRequestError` if something is left."""
    if problems:
        lines = "\n".join(f"  - {line}" for line in problems)
        raise InvalidRequestError(f"{headline}:\n{lines}")
