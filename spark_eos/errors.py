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

import re

__all__ = [
    "AbortableError",
    "CheckpointMismatchError",
    "CommitFailedError",
    "CommitOutcomeUnknownError",
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
    "LogExistsError",
    "NoOffsetForPartitionError",
    "NotALogError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "OutcomeUnknownError",
    "ProducerFencedError",
    "RecordTooLargeError",
    "RetriableError",
    "SchemaMismatchError",
    "SegmentsReplacedError",
    "StagedFileExpiredError",
    "StorageError",
    "StoreFullError",
    "StorePermissionError",
    "StoreUnavailableError",
    "TopicExistsError",
    "UnknownMemberIdError",
    "UnknownTopicOrPartitionError",
    "UnstableOffsetCommitError",
    "UnsupportedStoreError",
    "UnsupportedVersionError",
]


class EosLogError(Exception):
    """Root of every error that spark_eos raises on purpose.

    Code: ``EOS_LOG``.

    Attributes
    ----------
    code
        A name that is the same in all versions, for programs and alerts: ``PRODUCER_FENCED`` for `ProducerFencedError`.
    retriable
        The same call may succeed later.
    fatal
        The client has to be closed.
    txn_requires_abort
        The open transaction has to be aborted.
    """

    code = "EOS_LOG"
    retriable = False
    fatal = False
    txn_requires_abort = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = re.sub(
            r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__.removesuffix("Error")
        ).upper()

    def __str__(self) -> str:
        return Exception.__str__(self)  # A KeyError would show the text in quotes.


# -- Retry ------------------------------------------------------------------------------------------


class RetriableError(EosLogError):
    """Nothing was decided against the caller. Make the same call again. Code: ``RETRIABLE``."""

    retriable = True


class StoreUnavailableError(RetriableError):
    """The store was busy or could not be reached. What was asked for certainly did not happen.

    Call again. Code: ``STORE_UNAVAILABLE``.
    """


class OutcomeUnknownError(RetriableError):
    """The store did not say whether it created the object. The object may exist, or appear later.

    Make the same call again: if the object exists then, compare its bytes. Code: ``OUTCOME_UNKNOWN``.
    """


class CommitOutcomeUnknownError(RetriableError):
    """A commit is neither known to be in the log nor known not to be in it.

    Make the same call again, and no other one (commit after commit, abort after abort). Staged files must stay.
    Code: ``COMMIT_OUTCOME_UNKNOWN``.

    Attributes
    ----------
    request_id
        The id of the request in doubt: a repeated call finds its own earlier entry by it.
    """

    def __init__(self, message: str, request_id: bytes = b"") -> None:
        super().__init__(message)
        self.request_id = request_id


class UnstableOffsetCommitError(RetriableError):
    """Offsets of this group are part of a transaction that is still open (KIP-447).

    Call again: the transaction ends, or times out. Code: ``UNSTABLE_OFFSET_COMMIT``.
    """


class SegmentsReplacedError(RetriableError):
    """Another process has rolled or compacted these batches. Plan again. Code: ``SEGMENTS_REPLACED``."""


# -- Abort the transaction --------------------------------------------------------------------------


class AbortableError(EosLogError):
    """The open transaction cannot be committed. Abort it; then the client may go on. Code: ``ABORTABLE``."""

    txn_requires_abort = True


class OutOfOrderSequenceError(AbortableError):
    """A batch does not follow the last sequence number. Abort the transaction. Code: ``OUT_OF_ORDER_SEQUENCE``."""


class RecordTooLargeError(AbortableError):
    """A record is larger than ``max.message.bytes`` of its topic allows.

    Abort, and send smaller ones. Code: ``RECORD_TOO_LARGE``.
    """


class StagedFileExpiredError(AbortableError):
    """A staged file is older than the staging floor, so vacuum may have deleted it.

    Write the rows again. Code: ``STAGED_FILE_EXPIRED``.
    """


class CommitFailedError(AbortableError):
    """Offsets were not committed, because the group was rebalanced (KIP-447).

    Abort an open transaction, then `poll`: it gives what is assigned now. Code: ``COMMIT_FAILED``.
    """


class UnknownMemberIdError(CommitFailedError):
    """The consumer is not a member of the group: it left, was silent too long, or never joined.

    As `CommitFailedError`. Code: ``UNKNOWN_MEMBER_ID``.
    """


class IllegalGenerationError(CommitFailedError):
    """The consumer is a member, but it commits for another generation than the one it has joined.

    As `CommitFailedError`. Code: ``ILLEGAL_GENERATION``.
    """


class FencedInstanceIdError(CommitFailedError):
    """Another consumer with the same ``group.instance.id`` has replaced this one (KIP-345).

    Close this one. Code: ``FENCED_INSTANCE_ID``.
    """


# -- Give up ----------------------------------------------------------------------------------------


class FatalError(EosLogError):
    """This client or query run cannot go on. Close it. Code: ``FATAL``."""

    fatal = True


class ProducerFencedError(FatalError):
    """A newer client or query run with the same transactional id has taken over (KIP-98, KIP-447).

    Close this one. Code: ``PRODUCER_FENCED``.
    """


class InvalidTxnStateError(FatalError):
    """The transaction is not in a state in which this call is possible.

    Close this client, and make a new one. Code: ``INVALID_TXN_STATE``.
    """


class InvalidPidMappingError(FatalError):
    """The producer id does not belong to this transactional id, or has expired.

    Close this client, and make a new one. Code: ``INVALID_PID_MAPPING``.
    """


class DivergedLogError(FatalError):
    """The files of the log are not those that this process has read: they were exchanged or restored.

    Open the log again; what this process wrote since may be gone. Code: ``DIVERGED_LOG``.
    """


class InvalidTransactionTimeoutError(FatalError):
    """``transaction.timeout.ms`` is not between 1 and ``transaction.max.timeout.ms``.

    Change it. Code: ``INVALID_TRANSACTION_TIMEOUT``.
    """


# -- Mend the call ----------------------------------------------------------------------------------


class InvalidRequestError(EosLogError):
    """What the call asks for is not possible: the message has the remedy. Code: ``INVALID_REQUEST``."""


class ConfigError(InvalidRequestError, ValueError):
    """A setting or option is unknown, malformed, or contradicts another one. Change it. Code: ``CONFIG``."""


class IllegalStateError(InvalidRequestError):
    """The call does not fit the state of the client, for instance a commit without a begin.

    Change the order. Code: ``ILLEGAL_STATE``.
    """


class UnknownTopicOrPartitionError(InvalidRequestError, KeyError):
    """The log has no such topic, or the topic no such partition.

    Create it, or check the name. Code: ``UNKNOWN_TOPIC_OR_PARTITION``.
    """


class TopicExistsError(InvalidRequestError):
    """The topic exists already. Use it, or choose another name. Code: ``TOPIC_EXISTS``."""


class InvalidRecordError(InvalidRequestError, ValueError):
    """A row cannot be stored in its topic, for instance because a value is missing.

    Change the row. Code: ``INVALID_RECORD``.
    """


class InvalidTimestampError(InvalidRecordError):
    """A timestamp is further from now than its topic allows (``message.timestamp.after.max.ms``).

    Change the row. Code: ``INVALID_TIMESTAMP``.
    """


class SchemaMismatchError(InvalidRequestError, ValueError):
    """Columns do not fit the topic: one is missing, unknown, or of another type.

    Change the rows, or add columns to the topic by `Admin.alter_topic`. Code: ``SCHEMA_MISMATCH``.
    """


class InconsistentGroupProtocolError(InvalidRequestError):
    """The members of a group have no ``partition.assignment.strategy`` in common.

    Set one that all have. Code: ``INCONSISTENT_GROUP_PROTOCOL``.
    """


class GroupIdNotFoundError(InvalidRequestError, KeyError):
    """The log knows no such group, or the group no such member. Check the name. Code: ``GROUP_ID_NOT_FOUND``."""


class GroupNotEmptyError(InvalidRequestError):
    """The group has members. Stop them first. Code: ``GROUP_NOT_EMPTY``."""


class OffsetOutOfRangeError(InvalidRequestError):
    """The offset lies before the start or after the end of its partition.

    Seek to another one. Code: ``OFFSET_OUT_OF_RANGE``.
    """


class NoOffsetForPartitionError(InvalidRequestError):
    """Nothing is committed, and ``auto.offset.reset`` is ``none``.

    Seek, or set it. Code: ``NO_OFFSET_FOR_PARTITION``.
    """


class NotALogError(InvalidRequestError):
    """There is no log at this URL. Check the URL; `Log.create` makes a log. Code: ``NOT_A_LOG``."""


class LogExistsError(InvalidRequestError):
    """There is a log at this URL already. Open it, or choose another URL. Code: ``LOG_EXISTS``."""


class UnsupportedVersionError(InvalidRequestError):
    """The log has a format of a newer version. Install that one. Code: ``UNSUPPORTED_VERSION``."""


class CheckpointMismatchError(EosLogError):
    """The Spark checkpoint does not continue what the log has committed for this query.

    Follow the remedy in the message; docs/guide/troubleshooting.md. Code: ``CHECKPOINT_MISMATCH``.
    """

    fatal = True


# -- Look at the storage ----------------------------------------------------------------------------


class StorageError(EosLogError):
    """The store refused a call, or does not hold what was written to it. Look at the storage. Code: ``STORAGE``."""


class CorruptRecordError(StorageError):
    """Stored bytes are not those that were written. Run ``eoslog verify``. Code: ``CORRUPT_RECORD``."""


class ObjectExistsError(StorageError):
    """``create`` found an object of that name. For stores: read it to see which one. Code: ``OBJECT_EXISTS``."""


class ObjectNotFoundError(StorageError):
    """There is no object of that name. For stores: check the name. Code: ``OBJECT_NOT_FOUND``."""


class StorePermissionError(StorageError):
    """The store denies access, or is mounted read-only.

    Check the credentials or the mount. Code: ``STORE_PERMISSION``.
    """


class StoreFullError(StorageError):
    """The store has no space or quota left. Nothing was written. Free some space. Code: ``STORE_FULL``."""


class UnsupportedStoreError(StorageError):
    """The store cannot carry a log, for instance because it creates a name twice.

    Use another one. Code: ``UNSUPPORTED_STORE``.
    """
