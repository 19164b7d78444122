"""Receipts: what a writer has staged for a transaction. Only what a commit is given becomes visible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.distributed.texts import pack, unpack
from spark_eos.extensions.distributed.token import TransactionToken
from spark_eos.protocol.actions.appends import check_file_name, staged_at
from spark_eos.protocol.types import BatchRef, FileRef, Membership, PartitionOffset, ProducerStamp, StagedFile

_MARK = "eosrcp1"


class GroupOffsets(NamedTuple):
    """Offsets of a consumer group that are committed with the transaction."""

    group: str
    member: Membership | None
    offsets: tuple[PartitionOffset, ...]


class StagedReceipt(NamedTuple):
    """What one `StagedWriter` has staged: hand it to `DistributedTransaction.commit`.

    It can be pickled. ``str(receipt)`` is an ASCII text, which `DistributedTransaction.commit` takes as well.

    Attributes
    ----------
    log_id, stamp
        The transaction.
    task
        The task whose rows these are.
    attempt
        The writer, among all that did the task.
    topics
        Names and ids of the topics.
    files
        The staged files. They begin to be garbage when the transaction ends without them.
    offsets
        Offsets of groups.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from spark_eos import DistributedTransaction, StagedWriter
    >>> transaction = DistributedTransaction.begin("memory://receipt", "nightly-load")
    >>> with StagedWriter(transaction.token, "part-0") as writer:
    ...     writer.write("orders", pa.table({"value": [b"one", b"two"]}))
    >>> receipt = writer.receipt
    >>> receipt.task, receipt.records
    ('part-0', {'orders': 2})
    """

    log_id: str
    stamp: ProducerStamp
    task: str
    attempt: str
    topics: tuple[tuple[str, str], ...] = ()
    files: tuple[StagedFile, ...] = ()
    offsets: tuple[GroupOffsets, ...] = ()

    @property
    def records(self) -> dict[str, int]:
        """How many records it has, by topic."""
        counts = {topic: 0 for topic, _ in self.topics}
        for staged in self.files:
            counts[staged.topic] += sum(batch.count for batch in staged.batches)
        return counts

    def __str__(self) -> str:
        return pack(_MARK, [*self])  # Named tuples are JSON's arrays.

    @classmethod
    def parse(cls, text: str) -> StagedReceipt:
        """Read the text of a receipt.

        Parameters
        ----------
        text
            ``str(receipt)``.

        Returns
        -------
        StagedReceipt
            The receipt.

        Raises
        ------
        InvalidRequestError
            It is not the whole text of a receipt.
        """
        content = unpack(_MARK, text, "receipt")
        try:
            log_id, stamp, task, attempt, topics, files, offsets = content
            receipt = cls(
                str(log_id),
                ProducerStamp(*map(int, stamp)),
                str(task),
                str(attempt),
                tuple((str(name), str(topic_id)) for name, topic_id in topics),
                tuple(map(_file, files)),
                tuple(map(_offsets, offsets)),
            )
            for staged in receipt.files:
                check_file_name(staged.file.name)
                staged_at(staged.file.name)
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidRequestError(f"a receipt with this content is not known: {error}") from error
        return receipt


def _file(stored: Any) -> StagedFile:
    topic, (name, size, version, omitted, *newer_fields), batches = stored
    file = FileRef(str(name), int(size), int(version), tuple(map(str, omitted)), *newer_fields)
    return StagedFile(str(topic), file, tuple(BatchRef(*map(int, batch)) for batch in batches))


def _offsets(stored: Any) -> GroupOffsets:
    group, member, offsets = stored
    return GroupOffsets(
        str(group),
        None if member is None else Membership(*member),
        tuple(PartitionOffset(*offset) for offset in offsets),
    )


class Drawn:
    """The receipts of an iterator, such as that of ``pool.map``, which gives them once: a call may be made again."""

    def __init__(self) -> None:
        self._iterator: object = None
        self._receipts: list[StagedReceipt | str] | None = None

    def all_of(self, receipts: Iterable[StagedReceipt | str]) -> Iterable[StagedReceipt | str]:
        """Those of ``receipts``, also if it is the iterator of the last call."""
        if not isinstance(receipts, Iterator):
            return receipts
        if receipts is not self._iterator:
            self._iterator, self._receipts = receipts, None
            self._receipts = list(receipts)
        if self._receipts is None:
            raise InvalidRequestError(
                "the iterator of receipts has ended with an error before, and has no receipt any more: give them again"
            )
        return self._receipts


def check_receipts(
    token: TransactionToken, raw_receipts: Iterable[StagedReceipt | str]
) -> list[StagedReceipt]:
    """The receipts, each of this very transaction. Raises `InvalidRequestError`, naming the task of another one."""
    receipts = [
        receipt if isinstance(receipt, StagedReceipt) else StagedReceipt.parse(str(receipt))
        for receipt in raw_receipts
    ]
    for receipt in receipts:
        if (receipt.log_id, receipt.stamp) != (token.log_id, token.stamp):
            raise InvalidRequestError(
                f"the receipt of task {receipt.task!r} is of another transaction (producer "
                f"{receipt.stamp.producer_id}, epoch {receipt.stamp.epoch}, log {receipt.log_id}), and this is "
                f"producer {token.producer_id}, epoch {token.epoch}, log {token.log_id}. Nothing was committed. Run "
                "the task again with this token"
            )
    return receipts


def first_of_each_task(receipts: Iterable[StagedReceipt]) -> tuple[StagedReceipt, ...]:
    """The first receipt of each task, in the order given: later ones are of attempts that did the work again."""
    by_task: dict[str, StagedReceipt] = {}
    for receipt in receipts:
        by_task.setdefault(receipt.task, receipt)
    return tuple(by_task.values())
