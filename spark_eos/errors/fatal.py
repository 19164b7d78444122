"""Errors after which the client or the query is closed."""

from __future__ import annotations

from spark_eos.errors.base import EosLogError, FatalError


class ProducerFencedError(FatalError):
    """A newer client or query run with the same transactional id has taken over (KIP-98, KIP-447).

    Close this one. Code: ``PRODUCER_FENCED``.
    """


class CommitOutcomeLostError(FatalError):
    """It can no longer be found out whether a commit is in the log, such as that of a producer that was fenced since.

    Close this client. Look for what it wrote before it is written again; staged files stay.

    Code: ``COMMIT_OUTCOME_LOST``.
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


class CheckpointMismatchError(EosLogError):
    """The Spark checkpoint does not continue what the log has committed for this query.

    Follow the remedy in the message; docs/guide/troubleshooting.md. Code: ``CHECKPOINT_MISMATCH``.
    """

    fatal = True
