"""The writer of a task: its rows become visible when the coordinator commits its receipt, and not before."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_eos.clients.keywords import given_settings
from spark_eos.clients.opening import newest
from spark_eos.clients.records import ConsumerGroupMetadata, Header
from spark_eos.config.producer import PRODUCER
from spark_eos.errors import ConfigError, IllegalStateError, InvalidRecordError, SchemaMismatchError
from spark_eos.extensions.distributed.outcome import require_open
from spark_eos.extensions.distributed.receipt import StagedReceipt
from spark_eos.extensions.distributed.staging import StagingProducer
from spark_eos.extensions.distributed.token import TransactionToken, as_token
from spark_eos.log.log import Log
from spark_eos.log.topics import schema_of
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition
from spark_eos.storage import split_settings
from spark_eos.storage.forks import Lock, OfOneProcess

if TYPE_CHECKING:
    from typing_extensions import Self

_RECORDS = 10_000
"""Mappings that become an Arrow table at once."""

_FIELDS = frozenset({"value", "key", "headers", "partition", "timestamp_ms"})


class StagedWriter(OfOneProcess):
    """Stages the rows of one task of a transaction that another process has begun.

    Leaving the with statement makes the rows durable, and `receipt` is what the coordinator commits. No reader sees
    them before that. After an error inside, everything that was staged is deleted. A process that dies leaves files
    without a reference, which `eoslog vacuum` deletes.

    Parameters
    ----------
    token
        The token of the transaction, or its text.
    task
        What identifies the work, whichever process does it: the number of the part, the name of the file. Every attempt
        of the same task has the same one, and of these one receipt counts.
    config
        Settings of a `Producer` (``value.serializer``, ``compression.type``, …) and of an object store.
    url
        The log, as this machine sees it: a path, a URL, or an open `Log`. None: as the token says.
    **settings
        Settings by keyword, with underscores for dots.

    Raises
    ------
    ProducerFencedError
        A newer transaction of the same transactional id has begun. Nothing was written.
    InvalidTxnStateError
        The transaction was committed or aborted. Nothing was written.
    NotALogError
        There is no log, or another one. Nothing was written.
    InvalidRequestError
        The token is not one.
    ConfigError
        A setting is unknown, malformed, or not for a writer, or ``task`` is no name, such as None.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from spark_eos import DistributedTransaction, StagedWriter, read_arrow
    >>> log = "memory://staged-writer"
    >>> def load(token, part):  # in any process
    ...     with StagedWriter(token, part) as writer:
    ...         writer.write("orders", pa.table({"value": [f"row of part {part}"]}))
    ...         writer.send("parts", f"part {part} is done")
    ...     return writer.receipt
    >>> with DistributedTransaction.begin(log, "nightly-load") as transaction:
    ...     receipts = [load(str(transaction.token), part) for part in range(3)]
    ...     committed = transaction.commit(receipts)
    >>> read_arrow(log, "orders").read_all()["value"].to_pylist()
    [b'row of part 0', b'row of part 1', b'row of part 2']

    See Also
    --------
    DistributedTransaction : begins and commits.

    Notes
    -----
    docs/extensions/distributed.md.
    """

    _instead = "make a StagedWriter in that process, with the same token"

    def __init__(
        self,
        token: TransactionToken | str,
        task: str | int,
        config: Mapping[str, object] | None = None,
        *,
        url: str | os.PathLike[str] | Log | None = None,
        **settings: object,
    ) -> None:
        super().__init__()
        self._token = as_token(token)
        self._task = _task_name(task)
        options = given_settings(PRODUCER, config, settings)
        if "transactional.id" in options:
            raise ConfigError(
                "transactional.id is the transaction's, and its token has it: leave it out of a StagedWriter"
            )
        log = newest(self._token.url if url is None else url, options)
        require_open(log.state, self._token)
        self._producer = StagingProducer(log, split_settings(options)[0], self._token, self._task)
        self._receipt: StagedReceipt | None = None
        self._lock = Lock()
        self._running = 0
        """Calls of `write` that have not ended: of the rows of one some may be staged, and some not."""
        self._ends = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_foreign:
            return
        try:
            if kind is None:
                self.finish()
        finally:
            self._producer.close()

    @property
    def receipt(self) -> StagedReceipt:
        """What was staged: for `DistributedTransaction.commit`. It is there when the with statement has ended."""
        if self._receipt is None:
            raise IllegalStateError(
                f"the writer of task {self._task!r} has no receipt: it is there when the with statement has ended "
                "without an error"
            )
        return self._receipt

    def write(
        self,
        topic: str,
        rows: pa.Table | pa.RecordBatch | Iterable[Mapping[str, Any]],
        partition: int | None = None,
    ) -> None:
        """Stage rows.

        Parameters
        ----------
        topic
            The name of the topic. It is created if it is missing, ``auto.create.topics.enable`` is on, and the rows
            have Kafka's columns; that is not part of the transaction.
        rows
            An Arrow table or batch, as `Producer.send_arrow` takes it. Or records as mappings: with the columns of the
            topic's schema; of a topic without one, with the arguments of `send`: ``value``, ``key``, ``headers``,
            ``partition`` and ``timestamp_ms``.
        partition
            The partition of all rows. None: as `Producer.send`, for each row.

        Raises
        ------
        SchemaMismatchError
            The columns do not fit the topic.
        UnknownTopicOrPartitionError, InvalidRecordError, InvalidTimestampError
            As `Producer.send_arrow`. The writer goes on without these rows, unless other mappings
            of the same call came before.
        AbortableError
            Rows are missing after an earlier error of the store, or of a call that had given some of its mappings: run
            the task again.
        IllegalStateError
            The writer has ended.
        """
        self._check_process("write")
        with self._lock:
            if self._ends:
                raise IllegalStateError(f"write: the writer of task {self._task!r} has ended. Make a new one")
            self._running += 1
        try:
            self._write(topic, rows, partition)
        finally:
            with self._lock:
                self._running -= 1

    def _write(
        self,
        topic: str,
        rows: pa.Table | pa.RecordBatch | Iterable[Mapping[str, Any]],
        partition: int | None,
    ) -> None:
        if isinstance(rows, pa.Table | pa.RecordBatch):
            self._send_arrow(topic, rows, partition)
            return
        count = 0
        try:
            for taken in self._write_records(topic, iter(rows), partition):
                count += taken
        except BaseException as error:
            if count:
                self._producer.lacks_rows(topic, count, error)
            raise

    def _write_records(
        self, topic: str, records: Iterator[Mapping[str, Any]], partition: int | None
    ) -> Iterator[int]:
        """How many records were taken, as they are."""
        schema = schema_of(self._producer.topic(topic))
        if schema is None:
            for record in records:
                self._check_names(topic, record, _FIELDS)
                self.send(topic, **{"partition": partition, **record})
                yield 1
            return
        names = frozenset(schema.names)
        while block := [*islice(records, _RECORDS)]:
            for record in block:
                self._check_names(topic, record, names)
            try:
                table = pa.Table.from_pylist([dict(record) for record in block], schema=schema)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise SchemaMismatchError(
                    f"records do not fit the columns of topic {topic!r}: {error}"
                ) from error
            self._send_arrow(topic, table, partition)
            yield len(block)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Stage one record, given as `Producer.send` takes it.

        Raises
        ------
        UnknownTopicOrPartitionError, InvalidRecordError, InvalidTimestampError, SerializationError
            As `Producer.send`. The writer goes on without this record.
        RecordTooLargeError
            The record is larger than ``max.request.size`` or the topic's ``max.message.bytes``: run the task again
            without it.
        AbortableError
            Rows are missing after an earlier error of the store: run the task again.
        IllegalStateError
            The writer has ended.
        """
        self._check_process("send")
        self._producer.send(topic, value, key, headers, partition, timestamp_ms)
        self._producer.raise_failure()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """As `Producer.send_offsets_to_transaction`. The offsets go with the receipt of this task.

        Raises
        ------
        ProducerFencedError, InvalidTxnStateError
            The transaction is over.
        """
        self._check_process("send_offsets_to_transaction")
        self._producer.send_offsets_to_transaction(offsets, group_metadata)

    def finish(self) -> StagedReceipt:
        """Make all rows durable. The end of the with statement does it.

        Returns
        -------
        StagedReceipt
            What was staged.

        Raises
        ------
        ProducerFencedError, InvalidTxnStateError
            The transaction is over. What was staged was deleted.
        AbortableError, StorageError, RetriableError
            Rows could not be staged. What was staged was deleted: run the task again.
        IllegalStateError
            A `write` still runs in another thread. What was staged was deleted, and that call raises as well.
        """
        self._check_process("finish")
        if self._receipt is not None:
            return self._receipt
        with self._lock:
            self._ends, running = True, self._running
        if running:
            self._producer.discard()
            raise IllegalStateError(
                f"{running} write of task {self._task!r} still runs in another thread: what was staged was deleted. "
                "Wait for all threads that write, then run the task again with a new writer"
            )
        self._receipt = self._producer.stage()
        return self._receipt

    def _send_arrow(self, topic: str, rows: pa.Table | pa.RecordBatch, partition: int | None) -> None:
        self._producer.send_arrow(topic, rows, partition)
        self._producer.raise_failure()

    @staticmethod
    def _check_names(topic: str, record: Mapping[str, Any], names: frozenset[str]) -> None:
        if not isinstance(record, Mapping):
            raise InvalidRecordError(
                f"a record for topic {topic!r} is {record!r:.80}: write takes a pyarrow.Table or RecordBatch, or a "
                "list of dicts. A DataFrame becomes a table by pyarrow.Table.from_pandas(frame) or frame.to_arrow()"
            )
        if not names.issuperset(record):
            name = min(set(record) - names)
            raise SchemaMismatchError(
                f"a record for topic {topic!r} has {name!r}, which is none of: {', '.join(sorted(names))}"
            )


def _task_name(task: object) -> str:
    """The name by which the attempts of one task are known. Raises `ConfigError` for what is none, such as None."""
    if isinstance(task, str | os.PathLike) or (hasattr(task, "__index__") and not isinstance(task, bool)):
        name = str.__str__(task) if isinstance(task, str) else str(task)
        if name:
            return name
    raise ConfigError(
        f"StagedWriter was given {task!r} as its task: give text or a whole number, which is the same for all attempts "
        "of a task and of no other task. Of receipts with the same task only one is committed"
    )
