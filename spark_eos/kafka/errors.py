"""Errors by the names of ``kafka.errors``: the same classes as in `spark_eos.errors`."""

from __future__ import annotations

from spark_eos.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RetriableError,
    SerializationError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from spark_eos.errors import ConfigError as KafkaConfigurationError
from spark_eos.errors import EosLogError as KafkaError
from spark_eos.errors import RecordTooLargeError as MessageSizeTooLargeError
from spark_eos.errors import StoreUnavailableError as NoBrokersAvailable
from spark_eos.errors import TopicExistsError as TopicAlreadyExistsError

__all__ = [
    "CommitFailedError",
    "FencedInstanceIdError",
    "IllegalGenerationError",
    "IllegalStateError",
    "KafkaConfigurationError",
    "KafkaError",
    "KafkaTimeoutError",
    "MessageSizeTooLargeError",
    "NoBrokersAvailable",
    "NoOffsetForPartitionError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "ProducerFencedError",
    "RetriableError",
    "SerializationError",
    "TopicAlreadyExistsError",
    "UnknownMemberIdError",
    "UnknownTopicOrPartitionError",
    "UnsupportedVersionError",
]
