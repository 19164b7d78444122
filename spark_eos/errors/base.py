"""The root of all errors, and the groups: what the caller does next."""

from __future__ import annotations

import re

from spark_eos.errors.hidden import safe_text


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
        if cls.__module__.startswith("spark_eos.errors."):
            cls.__module__ = "spark_eos.errors"  # Its public name, in tracebacks and pickles.
        cls.code = re.sub(
            r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__.removesuffix("Error")
        ).upper()

    def __init__(self, *args: object) -> None:
        # Here, since each of hundreds of messages may name a store, whose URL has a password in some.
        super().__init__(*(safe_text(arg) if isinstance(arg, str) else arg for arg in args))

    def __str__(self) -> str:
        return Exception.__str__(self)  # A KeyError would show the text in quotes.


class RetriableError(EosLogError):
    """Nothing was decided against the caller. Make the same call again. Code: ``RETRIABLE``."""

    retriable = True


class AbortableError(EosLogError):
    """The open transaction cannot be committed. Abort it; then the client may go on. Code: ``ABORTABLE``."""

    txn_requires_abort = True


class FatalError(EosLogError):
    """This client or query run cannot go on. Close it. Code: ``FATAL``."""

    fatal = True


class InvalidRequestError(EosLogError):
    """What the call asks for is not possible: the message has the remedy. Code: ``INVALID_REQUEST``."""


class StorageError(EosLogError):
    """The store refused a call, or does not hold what was written to it. Look at the storage. Code: ``STORAGE``."""
