"""Values and interfaces of kafka-python."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from spark_eos.clients.records import Header
from spark_eos.protocol.types import TopicPartition

__all__ = [
    "ConsumerRebalanceListener",
    "Deserializer",
    "JsonSerializer",
    "OffsetAndMetadata",
    "Serializer",
    "TopicPartition",
]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit.

    Attributes
    ----------
    offset
        The next offset to read.
    metadata
        The committer's own text; None is an empty one.
    leader_epoch
        For programs of Kafka. A log has no leaders.
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int | None = -1


class ConsumerRebalanceListener:
    """What is called when the partitions of a member of a group change."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Commit here, if offsets are committed by hand.

        Parameters
        ----------
        revoked
            The partitions that the consumer gives up.
        """

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Seek here, if offsets are kept elsewhere.

        Parameters
        ----------
        assigned
            The partitions that the consumer reads from now on.
        """


class Serializer(ABC):
    """Makes bytes of a key or a value."""

    @abstractmethod
    def serialize(self, topic: str, headers: list[Header], data: Any) -> bytes | None:
        """Return the bytes.

        Parameters
        ----------
        topic
            The name of the topic.
        headers
            The headers of the record.
        data
            What ``send`` was given.

        Returns
        -------
        bytes or None
            As they are stored.
        """

    def close(self) -> None:  # noqa: B027  (nothing need be done)
        """Release what it holds."""


class Deserializer(ABC):
    """Makes a key or a value from bytes."""

    @abstractmethod
    def deserialize(self, topic: str, headers: list[Header], data: bytes | None) -> Any:
        """Return the value.

        Parameters
        ----------
        topic
            The name of the topic.
        headers
            The headers of the record.
        data
            The stored bytes.

        Returns
        -------
        Any
            What a record has.
        """

    def close(self) -> None:  # noqa: B027  (nothing need be done)
        """Release what it holds."""


class JsonSerializer(Serializer, Deserializer):
    """JSON as UTF-8, both ways; None stays None."""

    def serialize(self, topic: str, headers: list[Header], data: Any) -> bytes | None:
        return None if data is None else json.dumps(data).encode()

    def deserialize(self, topic: str, headers: list[Header], data: bytes | None) -> Any:
        return None if data is None else json.loads(data)
