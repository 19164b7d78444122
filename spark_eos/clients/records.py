"""What clients hand out: records, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from spark_eos.protocol.actions import Membership

__all__ = ["ConsumerGroupMetadata", "ConsumerRecord", "Header", "OffsetAndTimestamp", "RecordMetadata"]

Header = tuple[str, "bytes | None"]


class RecordMetadata(NamedTuple):
    """Where records went: ``count`` of them, at ``offset`` and the following ones.

    ``offset`` is -1 if the records are in the log but their place was not learned (a reply was lost).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which nobody needs here


class ConsumerRecord(NamedTuple):
    """A record as it was read. In a topic with a schema ``value`` is the row as a dict, ``key`` is None.

    A ``value`` of None in a Kafka-shaped topic is a tombstone.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: Any
    headers: Sequence[Header] = ()


class OffsetAndTimestamp(NamedTuple):
    """The first record that is not older than a time was asked for, and its own time (ms)."""

    offset: int
    timestamp_ms: int


class ConsumerGroupMetadata(NamedTuple):
    """In whose name offsets are committed: a group, and the member that read up to them (KIP-447).

    ``generation_id`` is the one in which the member reads; -1 and no member id: nobody subscribed.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
