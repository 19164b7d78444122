"""Errors after which the transaction is aborted."""

from __future__ import annotations

from spark_eos.errors.base import AbortableError


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
