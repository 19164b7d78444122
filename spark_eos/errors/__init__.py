"""The errors of spark_eos: one tree, grouped by what the reader of the message does next.

    EosLogError
    ├── RetriableError        call again; nothing was decided
    │   ├── StoreUnavailableError, OutcomeUnknownError, CommitOutcomeUnknownError, ...
    ├── AbortableError        abort the transaction, then go on with the same client
    │   ├── OutOfOrderSequenceError, RecordTooLargeError, StagedFileExpiredError
    │   ├── CommitFailedError     the group was rebalanced: poll, then work on the partitions assigned now
    │   │   ├── UnknownMemberIdError, IllegalGenerationError, FencedInstanceIdError
    ├── FatalError            close this client or query; another one took over, or the id is gone
    │   ├── ProducerFencedError, InvalidTxnStateError, InvalidPidMappingError, DivergedLogError, ...
    ├── InvalidRequestError   what was asked for is not possible; change the call
    │   ├── ConfigError, IllegalStateError, UnknownTopicOrPartitionError, ...
    ├── CheckpointMismatchError   the checkpoint does not continue this log; the message has the remedy
    └── StorageError          the store refused, or holds something else than what was written
        ├── CorruptRecordError, StorePermissionError, StoreFullError, ...

Where Kafka has an error for the case, the name is Kafka's, with ``Error`` appended. Three flags of each class say what
a client does with it, as Kafka's ``retriable()``, ``fatal()`` and ``txnRequiresAbort()`` (KIP-1050): ``retriable``,
``fatal``, ``txn_requires_abort``. Some classes are also a `KeyError` or `ValueError`, where a Python user expects one.

>>> from spark_eos import Admin, errors
>>> try:
...     Admin("memory://errors").list_topics()
... except errors.NotALogError as error:
...     print(error.code, error.retriable)
NOT_A_LOG False
"""

from __future__ import annotations

from spark_eos.errors.abortable import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    StagedFileExpiredError,
    UnknownMemberIdError,
)
from spark_eos.errors.base import (
    AbortableError,
    EosLogError,
    FatalError,
    InvalidRequestError,
    RetriableError,
    StorageError,
)
from spark_eos.errors.fatal import (
    CheckpointMismatchError,
    CommitOutcomeLostError,
    DivergedLogError,
    InvalidPidMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from spark_eos.errors.request import (
    ConcurrentModificationError,
    ConfigError,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    InvalidRecordError,
    InvalidTimestampError,
    LogExistsError,
    NoOffsetForPartitionError,
    NotALogError,
    OffsetOutOfRangeError,
    RecordDeserializationError,
    SchemaMismatchError,
    SerializationError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from spark_eos.errors.retriable import (
    CommitOutcomeUnknownError,
    KafkaTimeoutError,
    OutcomeUnknownError,
    SchemaRegistryError,
    SegmentsReplacedError,
    StoreUnavailableError,
    TableChangedError,
    UnstableOffsetCommitError,
    WakeupError,
)
from spark_eos.errors.storage import (
    CorruptRecordError,
    ObjectExistsError,
    ObjectNotFoundError,
    RecordsFailedError,
    StoreFullError,
    StorePermissionError,
    TableDamagedError,
    UnsupportedStoreError,
)

__all__ = [
    "AbortableError",
    "CheckpointMismatchError",
    "CommitFailedError",
    "CommitOutcomeLostError",
    "CommitOutcomeUnknownError",
    "ConcurrentModificationError",
    "ConfigError",
    "CorruptRecordError",
    "DivergedLogError",
    "EosLogError",
    "FatalError",
    "FencedInstanceIdError",
    "GroupIdNotFoundError",
    "GroupNotEmptyError",
    "IllegalGenerationError",
    "IllegalStateError",
    "InconsistentGroupProtocolError",
    "InvalidPidMappingError",
    "InvalidRecordError",
    "InvalidRequestError",
    "InvalidTimestampError",
    "InvalidTransactionTimeoutError",
    "InvalidTxnStateError",
    "KafkaTimeoutError",
    "LogExistsError",
    "NoOffsetForPartitionError",
    "NotALogError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "OutcomeUnknownError",
    "ProducerFencedError",
    "RecordDeserializationError",
    "RecordTooLargeError",
    "RecordsFailedError",
    "RetriableError",
    "SchemaMismatchError",
    "SchemaRegistryError",
    "SegmentsReplacedError",
    "SerializationError",
    "StagedFileExpiredError",
    "StorageError",
    "StoreFullError",
    "StorePermissionError",
    "StoreUnavailableError",
    "TableChangedError",
    "TableDamagedError",
    "TopicExistsError",
    "UnknownMemberIdError",
    "UnknownTopicOrPartitionError",
    "UnstableOffsetCommitError",
    "UnsupportedStoreError",
    "UnsupportedVersionError",
    "WakeupError",
]
