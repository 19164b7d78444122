"""What programs import from ``kafka.admin``."""

from __future__ import annotations

from spark_eos.clients.admin.resources import (
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from spark_eos.kafka.clients import KafkaAdminClient

__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "KafkaAdminClient",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
]
