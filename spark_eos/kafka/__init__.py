"""The classes of kafka-python under their own names, for programs that were written for it.

``from kafka import KafkaConsumer`` becomes ``from spark_eos.kafka import KafkaConsumer``, and ``bootstrap_servers`` the
log's folder or URL. `AIOKafkaProducer` and `AIOKafkaConsumer` are those of aiokafka.
"""

from __future__ import annotations

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
from spark_eos.kafka.clients import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
)
from spark_eos.kafka.structs import (
    ConsumerRebalanceListener,
    Deserializer,
    JsonSerializer,
    OffsetAndMetadata,
    Serializer,
)
from spark_eos.protocol.types import TopicPartition

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
