"""Where a transactional producer stands, and the token of a prepared transaction (KIP-939)."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from spark_eos.errors import ConfigError
from spark_eos.protocol.types import MAX_NUMBER

_TOKEN = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")


class ClientState(Enum):
    """Where a transactional producer stands (Kafka's names)."""

    UNINITIALIZED = "call init_transactions first"
    INITIALIZING = "repeat init_transactions: its outcome is not known"
    READY = "begin_transaction is allowed"
    IN_TRANSACTION = (
        "send, flush, send_offsets_to_transaction, prepare_, commit_ and abort_transaction are allowed"
    )
    REQUESTING = "no call is allowed: this is the handler of a signal, in the middle of a request"
    PREPARING = "only prepare_transaction is allowed: the outcome of the last one is not known"
    PREPARED = "only complete_transaction, commit_transaction and abort_transaction are allowed"
    COMMITTING = "only commit_transaction is allowed: the outcome of the last one is not known"
    ABORTING = "only abort_transaction is allowed: the outcome of the last one is not known"
    ABORTABLE_ERROR = "only abort_transaction is allowed"
    FATAL_ERROR = "only close is allowed"


_S = ClientState
ALLOWED = {
    "init_transactions": (_S.UNINITIALIZED, _S.INITIALIZING),
    "begin_transaction": (_S.READY,),
    "send": (_S.IN_TRANSACTION,),
    "flush": (_S.IN_TRANSACTION,),
    "send_offsets_to_transaction": (_S.IN_TRANSACTION,),
    "prepare_transaction": (_S.IN_TRANSACTION, _S.PREPARING),
    "commit_transaction": (_S.IN_TRANSACTION, _S.PREPARED, _S.COMMITTING),
    "abort_transaction": (_S.IN_TRANSACTION, _S.PREPARED, _S.ABORTING, _S.ABORTABLE_ERROR),
    "complete_transaction": (_S.READY, _S.PREPARED, _S.COMMITTING, _S.ABORTING),
}
"""In which states each call is."""


class PreparedTxnState(NamedTuple):
    """A transaction that was prepared. As text it is "producer id:epoch", and "" if there is none.

    It is what an application stores with its own commit. Tokens of one ``transactional.id`` are in the order in which
    they were made, and no token comes twice.

    Attributes
    ----------
    producer_id
        The id of the producer; -1: there is no transaction.
    epoch
        The epoch at which the transaction was prepared.

    Examples
    --------
    >>> from spark_eos import PreparedTxnState
    >>> str(PreparedTxnState(5, 3))
    '5:3'
    >>> PreparedTxnState.parse("5:3").epoch
    3
    >>> PreparedTxnState.parse("").has_transaction
    False
    """

    producer_id: int = -1
    epoch: int = -1

    @classmethod
    def parse(cls, text: str | None) -> PreparedTxnState:
        """Read the text of a token.

        Parameters
        ----------
        text
            What ``str`` made of a token. None and "" are no transaction.

        Returns
        -------
        PreparedTxnState
            The token.

        Raises
        ------
        ConfigError
            That is no token.
        """
        if not text:
            return cls()
        match = _TOKEN.fullmatch(text) if isinstance(text, str) else None
        token = cls() if match is None else cls(int(match[1]), int(match[2]))
        if match is None or max(token) > MAX_NUMBER:
            raise ConfigError(
                f"{text!r} is not the token of a prepared transaction: it has the form 'producer id:epoch', as "
                "str(prepare_transaction()) makes it"
            )
        return token

    @property
    def has_transaction(self) -> bool:
        """Whether there is a transaction."""
        return self.producer_id >= 0

    def __str__(self) -> str:
        return "" if self == (-1, -1) else f"{self.producer_id}:{self.epoch}"
