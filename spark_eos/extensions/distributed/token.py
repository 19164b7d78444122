"""The token of a transaction: what a process has to know to take part in it."""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.distributed.texts import pack, unpack
from spark_eos.protocol.types import ProducerStamp

_MARK = "eostxn1"


class TransactionToken(NamedTuple):
    """Names one transaction of many processes: where the log is, and which transaction. It has no secrets.

    ``str(token)`` is a text of some 200 ASCII characters, which every call that takes a token takes as well.

    Attributes
    ----------
    url
        Where the log is, as the process sees it that began the transaction.
    log_id
        The identity of the log: another log at the same place is refused.
    transactional_id
        The id of the writer. Its next transaction fences this one.
    producer_id, epoch, number
        The transaction, as Kafka names one; an epoch has one transaction.
    began_seq
        The entry that began it.
    txn_app_id, txn_version
        The job and its version, which the commit puts into the log; None: without.

    Examples
    --------
    >>> from spark_eos import DistributedTransaction, TransactionToken
    >>> transaction = DistributedTransaction.begin("memory://token", "nightly-load")
    >>> text = str(transaction.token)
    >>> TransactionToken.parse(text) == transaction.token
    True
    """

    url: str
    log_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    number: int
    began_seq: int
    txn_app_id: str | None = None
    txn_version: int | None = None

    @property
    def stamp(self) -> ProducerStamp:
        """The transaction, as the entries of the log name it."""
        return ProducerStamp(self.producer_id, self.epoch, self.number)

    def __str__(self) -> str:
        return pack(_MARK, [*self])

    @classmethod
    def parse(cls, text: str) -> TransactionToken:
        """Read the text of a token.

        Parameters
        ----------
        text
            ``str(token)``.

        Returns
        -------
        TransactionToken
            The token.

        Raises
        ------
        InvalidRequestError
            It is not the whole text of a token.
        """
        content = unpack(_MARK, text, "transaction token")
        match content:
            case [
                str(url), str(log_id), str(name), int(producer_id), int(epoch), int(number), int(seq),
                (str() | None) as app_id, (int() | None) as version,
            ]:  # fmt: skip
                return cls(url, log_id, name, producer_id, epoch, number, seq, app_id, version)
        raise InvalidRequestError(f"a transaction token with this content is not known: {content!r:.200}")


def as_token(token: TransactionToken | str) -> TransactionToken:
    """A token, given as one or as its text."""
    return token if isinstance(token, TransactionToken) else TransactionToken.parse(str(token))
