"""The classes of kafka-python under their own names, for programs that were written for it.

``from kafka import KafkaConsumer`` becomes ``from spark_eos.kafka import KafkaConsumer``, and ``bootstrap_servers`` the
log's folder or URL. `AIOKafkaProducer` and `AIOKafkaConsumer` are those of aiokafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_eos.clients.admin.resources import (
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from spark_eos.clients.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndTimestamp,
    RecordMetadata,
)
from spark_eos.kafka.clients import KafkaAdminClient, KafkaConsumer, KafkaProducer
from spark_eos.kafka.structs import (
    ConsumerRebalanceListener,
    Deserializer,
    JsonSerializer,
    OffsetAndMetadata,
    Serializer,
)
from spark_eos.protocol.types import TopicPartition

if TYPE_CHECKING:
    from spark_eos.kafka.aio import AIOKafkaConsumer, AIOKafkaProducer

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConfigResource",
    "ConfigResourceType",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "Deserializer",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "RecordMetadata",
    "Serializer",
    "TopicPartition",
]


def __getattr__(name: str) -> Any:
    """The classes of aiokafka are loaded when they are used: asyncio is an extension that may be missing."""
    if name not in {"AIOKafkaConsumer", "AIOKafkaProducer"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spark_eos.kafka import aio

    return getattr(aio, name)
