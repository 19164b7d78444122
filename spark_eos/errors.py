"""The errors of spark_eos: one tree, grouped by what the reader of the message does next.

    EosLogError
    ├── RetriableError        the same call may succeed later; nothing was decided
    │   ├── StoreUnavailableError, OutcomeUnknownError, CommitOutcomeUnknownError, ...
    ├── AbortableError        abort the transaction, then go on with the same client
    │   ├── OutOfOrderSequenceError, RecordTooLargeError, StagedFileExpiredError
    │   ├── CommitFailedError     the group has moved on: poll again, then work on what is assigned now
    │   │   ├── UnknownMemberIdError, IllegalGenerationError, FencedInstanceIdError
    ├── FatalError            close this client or query; another one took over, or the id is gone
    │   ├── ProducerFencedError, InvalidTxnStateError, InvalidPidMappingError, DivergedLogError, ...
    ├── InvalidRequestError   the caller asked for something that cannot be; mend the call
    │   ├── ConfigError, IllegalStateError, UnknownTopicOrPartitionError, ...
    ├── CheckpointMismatchError   the checkpoint does not continue this log; see the remedy in the text
    └── StorageError          the store said no, or holds something that is not what was written
        ├── CorruptRecordError, StorePermissionError, StoreFullError, ...

Names are Kafka's, with ``Error`` behind them, where Kafka has the case. Each class says what a client
does with it in three flags, as Kafka's ``retriable()``, ``fatal()`` and ``txnRequiresAbort()`` do
(KIP-1050): ``retriable``, ``fatal``, ``txn_requires_abort``. Where a Python user would catch `KeyError` or
`ValueError`, the class is one of these, too.
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

    ``code`` is the same in all versions, for programs and alerts: ``PRODUCER_FENCED`` for `ProducerFencedError`.
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
    """The same call may succeed later. Nothing was decided against the caller."""

    retriable = True


class StoreUnavailableError(RetriableError):
    """The store could not be reached or was busy; what was asked for did certainly not happen."""


class OutcomeUnknownError(RetriableError):
    """The store did not say whether the object was created: it may be there, or appear later."""


class CommitOutcomeUnknownError(RetriableError):
    """A commit is neither known to be in the log nor known to be out of it.

    Only the same call may be repeated (commit after commit, abort after abort). Staged files must stay.
    ``request_id`` names the request in doubt, so that a repeated call recognises its own earlier entry.
    """

    def __init__(self, message: str, request_id: bytes = b"") -> None:
        super().__init__(message)
        self.request_id = request_id


class UnstableOffsetCommitError(RetriableError):
    """Offsets of this group are part of a transaction that is still open (KIP-447)."""


class SegmentsReplacedError(RetriableError):
    """What was to be rolled or compacted is not there any more: another process was faster. Plan again."""


# -- Abort the transaction --------------------------------------------------------------------------


class AbortableError(EosLogError):
    """The open transaction has to be aborted; afterwards the client may go on."""

    txn_requires_abort = True


class OutOfOrderSequenceError(AbortableError):
    """A batch does not follow the last sequence number known for its producer and partition."""


class RecordTooLargeError(AbortableError):
    """One record is larger than ``max.message.bytes`` of its topic."""


class StagedFileExpiredError(AbortableError):
    """A staged file was written before the staging floor was raised: write it again and commit."""


class CommitFailedError(AbortableError):
    """Offsets were not committed: the group was rebalanced, and others may read these partitions now (KIP-447).

    A consumer goes on with `poll`, which gives it what it is assigned now; a transaction is aborted first.
    """


class UnknownMemberIdError(CommitFailedError):
    """The committer is no member of the group (any more): it left, was silent too long, or never joined."""


class IllegalGenerationError(CommitFailedError):
    """The committer is a member, but commits in the name of another generation than the one it synced to."""


class FencedInstanceIdError(CommitFailedError):
    """Another consumer with the same ``group.instance.id`` has taken this one's place (KIP-345): close it."""


# -- Give up ----------------------------------------------------------------------------------------


class FatalError(EosLogError):
    """This client or query run cannot go on."""

    fatal = True


class ProducerFencedError(FatalError):
    """A newer client or query run with the same transactional id has taken over (KIP-98, KIP-447)."""


class InvalidTxnStateError(FatalError):
    """The transaction is not in a state in which this can be done."""


class InvalidPidMappingError(FatalError):
    """The producer id does not belong to this transactional id (any more)."""


class DivergedLogError(FatalError):
    """The log's files are not the ones that this process has read: a copy was put back, or entries were exchanged.

    What this process knows, and what it wrote since that copy was made, is of another history. Open the log again.
    """


class InvalidTransactionTimeoutError(FatalError):
    """``transaction.timeout.ms`` is not between 1 and ``transaction.max.timeout.ms``."""


# -- Mend the call ----------------------------------------------------------------------------------


class InvalidRequestError(EosLogError):
    """What was asked for cannot be; the message names the thing and the remedy."""


class ConfigError(InvalidRequestError, ValueError):
    """An option is unknown, malformed or contradicts another one."""


class IllegalStateError(InvalidRequestError):
    """The call does not fit the state of the client, for instance a commit without a begin."""


class UnknownTopicOrPartitionError(InvalidRequestError, KeyError):
    """The log has no such topic, or the topic no such partition."""


class TopicExistsError(InvalidRequestError):
    """The topic is there already."""


class InvalidRecordError(InvalidRequestError, ValueError):
    """A row cannot be stored in its topic: a value is missing, or a partition number is not there."""


class InvalidTimestampError(InvalidRecordError):
    """A record's timestamp is further from now than its topic allows (``message.timestamp.after.max.ms``)."""


class SchemaMismatchError(InvalidRequestError, ValueError):
    """Columns do not fit the topic: one is missing, unknown, or of another type."""


class InconsistentGroupProtocolError(InvalidRequestError):
    """The members of a group have no ``partition.assignment.strategy`` in common."""


class GroupIdNotFoundError(InvalidRequestError, KeyError):
    """The log knows no such group, or no such member of it."""


class GroupNotEmptyError(InvalidRequestError):
    """The group has members: stop them first."""


class OffsetOutOfRangeError(InvalidRequestError):
    """The offset lies before the start or after the end of its partition."""


class NoOffsetForPartitionError(InvalidRequestError):
    """There is no committed offset, and ``auto.offset.reset`` is ``none``."""


class NotALogError(InvalidRequestError):
    """The URL does not hold a log."""


class LogExistsError(InvalidRequestError):
    """The URL holds a log already."""


class UnsupportedVersionError(InvalidRequestError):
    """The log was written by a newer version in a format that this one does not know."""


class CheckpointMismatchError(EosLogError):
    """The Spark checkpoint does not continue what the log has committed for this query."""

    fatal = True


# -- Look at the storage ----------------------------------------------------------------------------


class StorageError(EosLogError):
    """The store refused, or does not hold what was written to it."""


class CorruptRecordError(StorageError):
    """Stored bytes are not the ones that were written (CRC32C, length or framing)."""


class ObjectExistsError(StorageError):
    """``create`` found an object of that name."""


class ObjectNotFoundError(StorageError):
    """There is no object of that name."""


class StorePermissionError(StorageError):
    """The store denies access, or is mounted read-only."""


class StoreFullError(StorageError):
    """No space or quota is left on the store; nothing was written."""


class UnsupportedStoreError(StorageError):
    """The URL's store cannot carry a log, for instance because it allows a name to be created twice."""
