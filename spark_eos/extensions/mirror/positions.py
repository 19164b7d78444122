"""How far a mirror has come in each Kafka partition, as the log's state has it. Pure.

A mirrored partition is a query of the log with one source (`spark_eos.protocol.actions.queries`): its runs fence one
another, its batches are numbered, and each starts where the last one ended, which the rules of the log enforce for
every writer. The position is the text of the source, so it is in the entry of the rows, and it never expires.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from spark_eos.errors import ConfigError, CorruptRecordError, OffsetOutOfRangeError
from spark_eos.protocol.actions.topics import MAX_TOPIC_NAME
from spark_eos.protocol.state import State

_PREFIX = "mirror/"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")


class MirroredPartition(NamedTuple):
    """A partition of a mirror: of one incarnation of Kafka's topic, into one incarnation of the log's.

    ``source_id`` is Kafka's topic id (KIP-516), ``target_id`` the log's.
    """

    mirror: str
    source_id: str
    target_id: str
    partition: int

    @property
    def transactional_id(self) -> str:
        """Under which its batches are committed."""
        return f"{_PREFIX}{self.mirror}/{self.source_id}/{self.target_id}/{self.partition}"


class Position(NamedTuple):
    """Where a mirrored partition stands: all records of Kafka before ``offset`` are in the log.

    ``leader_epoch`` is Kafka's, of the last record (-1: not known). ``kafka_end`` and ``log_end`` are the offsets after
    the last mirrored record, on both sides; -1: there is none yet.
    """

    cluster: str
    topic: str
    source_id: str
    target: str
    target_id: str
    partition: int
    offset: int
    leader_epoch: int = -1
    kafka_end: int = -1
    log_end: int = -1

    @property
    def text(self) -> str:
        """As the log stores it: canonical JSON."""
        return json.dumps(self._asdict(), separators=(",", ":"), sort_keys=True)


class MirroredBatch(NamedTuple):
    """The last batch of a mirrored partition: its number, and the ``text`` of the position as it is stored."""

    position: Position
    batch_id: int
    text: str


def position_of(text: str | None, transactional_id: str) -> Position:
    """The position in such a text. Raises `CorruptRecordError`."""
    try:
        position = Position(**json.loads(text or ""))
    except (ValueError, TypeError) as error:
        raise CorruptRecordError(
            f"transactional.id {transactional_id!r} is one of a mirror, but its last batch does not say where the "
            f"mirror stands ({error}): another program has used the id. Mirror the topic under another --name"
        ) from error
    return position


def last_batch(state: State, partition: MirroredPartition) -> MirroredBatch | None:
    """The last batch of the partition; None if nothing was committed for it."""
    name = partition.transactional_id
    query = state.queries.get(name)
    if query is None:
        return None
    text = _end(state, name)
    return MirroredBatch(position_of(text, name), query.batch_id, text or "")


def positions(state: State, mirror: str) -> list[Position]:
    """All positions of a mirror, sorted by topic and partition."""
    all_positions = [position_of(_end(state, name), name) for name in _names(state, mirror)]
    return sorted(
        all_positions,
        key=lambda position: (position.topic, position.partition, position.source_id, position.target_id),
    )


def mirrors(state: State) -> list[str]:
    """The names of the mirrors that have written into the log."""
    return sorted(
        {name[len(_PREFIX) :].partition("/")[0] for name in state.queries if name.startswith(_PREFIX)}
    )


def _names(state: State, mirror: str) -> Iterator[str]:
    start = f"{_PREFIX}{mirror}/"
    return (name for name in state.queries if name.startswith(start))


def _end(state: State, name: str) -> str | None:
    sources = state.queries[name].sources
    return sources[0].end if sources else None


def map_topic(mirror: str, target: str) -> str:
    """The topic with the offset map of a mirrored topic: its partitions are numbered as those of the mirrored topic."""
    return own_topic("__mirror", mirror, target)


def own_topic(start: str, mirror: str, topic: str | None = None) -> str:
    """The name of a topic of the mirror itself, which no other one has.

    It ends with a digest where the plain name is too long, or may be another mirror's: names have dots, too. To
    Kafka, whose metrics have no dots, '.' and '_' in names are the same.
    """
    plain = ".".join([start, mirror] if topic is None else [start, mirror, topic])
    if len(plain) <= MAX_TOPIC_NAME and not {*"._"} & {*mirror}:
        return plain
    digest = hashlib.sha256(f"{mirror}/{topic or ''}".encode()).hexdigest()[:32]
    return f"{plain[: MAX_TOPIC_NAME - 1 - len(digest)]}-{digest}"


def check_name(mirror: str) -> None:
    """Raise `ConfigError` for a name that no mirror can have."""
    if not _NAME.fullmatch(mirror):
        raise ConfigError(
            f"--name {mirror!r}: the name of a mirror has 1 to 100 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
        )


def lost_offsets(at: tuple[str, int], offset: int, low: int | None) -> OffsetOutOfRangeError:
    """Of a partition: the mirror is at ``offset``, and Kafka begins at ``low``, if that is known."""
    begins = "begins after that" if low is None else f"begins at offset {low}"
    return OffsetOutOfRangeError(
        f"the mirror is at offset {offset} of Kafka's {at[0]}-{at[1]}, which {begins}: retention has deleted "
        "records that were not mirrored. Nothing was skipped. To go on without them, start the mirror with "
        "--accept-loss; raise retention.ms of the topic in Kafka before"
    )
