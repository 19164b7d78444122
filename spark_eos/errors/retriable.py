"""Errors after which the same call is made again."""

from __future__ import annotations

from spark_eos.errors.base import RetriableError


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
    is_final
        This process can never find it out: a repeated call says the same. A producer raises `CommitOutcomeLostError`.
    """

    def __init__(self, message: str, request_id: bytes = b"", *, is_final: bool = False) -> None:
        super().__init__(message)
        self.request_id = request_id
        self.is_final = is_final


class UnstableOffsetCommitError(RetriableError):
    """Offsets of this group are part of a transaction that is still open (KIP-447).

    Call again: the transaction ends, or times out. Code: ``UNSTABLE_OFFSET_COMMIT``.
    """


class KafkaTimeoutError(RetriableError):
    """What was waited for was not done in the time given. It goes on in the background, or waits there.

    Call again to wait longer. Code: ``KAFKA_TIMEOUT``.
    """


class WakeupError(RetriableError):
    """Another thread has called `Consumer.wakeup`. No record was passed over. Code: ``WAKEUP``."""


class SegmentsReplacedError(RetriableError):
    """Another process has rolled or compacted these batches. Plan again. Code: ``SEGMENTS_REPLACED``."""


class SchemaRegistryError(RetriableError):
    """The schema registry of a topic could not be reached, or did not answer.

    Call again, or give the schemas by the topic's setting ``value.writer.schemas``. Code: ``SCHEMA_REGISTRY``.
    """


class TableChangedError(RetriableError):
    """Another process has committed to a published table first. Publish again. Code: ``TABLE_CHANGED``."""
