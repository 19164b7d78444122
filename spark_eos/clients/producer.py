"""The producer: records into topics, each once; with ``transactional.id``, many of them as one."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

import pyarrow as pa

from spark_eos.clients.accumulator import Accumulator, TopicBuffer
from spark_eos.clients.config import PRODUCER, producer_config
from spark_eos.clients.records import ConsumerGroupMetadata, Header, RecordMetadata
from spark_eos.clients.sender import Sender
from spark_eos.clients.transactions import ClientState, Transactions, no_transactions
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    IllegalStateError,
    InvalidRecordError,
    InvalidRequestError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.compression import chosen
from spark_eos.log.log import Log
from spark_eos.log.partitioners import DefaultPartitioner, Partitioner, Sticky, load_partitioner
from spark_eos.log.topics import key_columns
from spark_eos.protocol.actions import PartitionOffset
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["Producer"]

_KAFKA_COLUMNS = {"key", "value", "headers", "timestamp", "partition"}


class Producer:
    """Writes records. Safe to share between threads; transactions belong to the producer, not to a thread.

    ``config`` has Kafka's keys (docs/clients.md). Without ``transactional.id`` records are sent in the
    background, in order and without duplicates; with it, between `begin_transaction` and
    `commit_transaction`, and nothing is seen before the commit. Raises `ConfigError`.

    ``buffer.memory`` bounds the records of one topic that are held in memory; in a transaction the rest
    waits in staged files. ``url`` may also be an open `Log`.
    """

    def __init__(self, url: str | os.PathLike[str] | Log, config: Mapping[str, object] | None = None) -> None:
        self._settings = producer_config(config)
        self._url = url
        self._opened: Log | None = url if isinstance(url, Log) else None
        self._opening = threading.Lock()
        self._lock = threading.RLock()
        self._closed = False
        self._waiting = Accumulator()
        self._partitioners: dict[tuple[str, int], Partitioner] = {}
        spec = self._settings["partitioner.class"]
        self._custom = None if spec is None else load_partitioner(spec)
        self._transactions = (
            Transactions(self._log, self._settings) if self._settings["transactional.id"] else None
        )
        self._sender = Sender(self._log, self._drain, self._settings)

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- Records ----------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Future[RecordMetadata]:
        """Add a record; where it went is known when the future is done.

        Text is stored as UTF-8. Without ``partition`` Kafka's hash of the key decides, without a key the
        records of a batch stay together. In a transaction the future is done by `commit_transaction` (or
        `flush`), so do not wait for it before. Raises `UnknownTopicOrPartitionError`,
        `InvalidRecordError` or `IllegalStateError`; other errors come with the future.
        """
        data, name = _bytes(value, "value"), _bytes(key, "key")
        _check_headers(headers)
        future: Future[RecordMetadata] = _SendFuture(self) if self._transactions else Future()
        with self._lock:
            self._check_open("send")
            buffer = self._buffer(topic, partition)
            if buffer.topic.schemas:
                raise InvalidRecordError(f"topic {topic!r} has a schema: send its rows with send_arrow")
            size = len(data or b"") + len(name or b"")
            limit = min(self._settings["max.request.size"], buffer.max_message_bytes or size)
            try:
                if size > limit:
                    raise RecordTooLargeError(
                        f"a record for topic {topic!r} has {size} bytes; at most {limit} are possible "
                        "(max.request.size of the producer, max.message.bytes of the topic)"
                    )
                now = self._log().clock.now_ms() if timestamp_ms is None else timestamp_ms
                buffer.add(name, data, headers, partition, now, future)
            except EosLogError as error:
                self._refuse(error, future)
                return future
            waiting = self._waiting.bytes if self._transactions is None else 0
        self._wake(waiting)
        return future

    def send_arrow(
        self, topic: str, rows: pa.Table | pa.RecordBatch, partition: int | None = None
    ) -> Future[list[RecordMetadata]]:
        """Add all rows of a table; the future tells, for each partition, the first offset and the count.

        Columns are ``key``, ``value``, ``headers``, ``timestamp`` and ``partition``, of which only
        ``value`` has to be there, or those of the topic's schema. A missing topic is only created for
        Kafka's columns. Raises as `send`, and `SchemaMismatchError`.
        """
        future: Future[list[RecordMetadata]] = _SendFuture(self) if self._transactions else Future()
        with self._lock:
            self._check_open("send")
            buffer = self._buffer(topic, partition, columns=set(rows.schema.names))
            if not rows.num_rows:
                future.set_result([])
                return future
            try:
                buffer.add_arrow(rows, partition, future)
            except InvalidRequestError:
                raise  # All rows were refused and the buffer is as it was.
            except EosLogError as error:
                self._refuse(error, future)
                return future
            waiting = self._waiting.bytes if self._transactions is None else 0
        self._wake(waiting)
        return future

    def flush(self) -> None:
        """Send what waits, and wait until it is there. Errors of records are in their futures.

        In a transaction this opens it for all to see: read_uncommitted reads the records, the last stable
        offset waits for the end. Errors are raised there; after `CommitOutcomeUnknownError` the
        transaction can only be aborted.
        """
        if self._transactions is None:
            self._sender.flush()
            return
        with self._lock:
            if self._transactions.state is ClientState.IN_TRANSACTION:
                self._transactions.flush()

    # -- Transactions -----------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Take ``transactional.id`` over: older producers of that id are fenced, their transaction aborted.

        Once, before all else; again only after a `RetriableError`.
        """
        with self._lock:
            self._need("init_transactions").init()

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        with self._lock:
            self._need("begin_transaction").begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit positions of a consumer group (the next offsets to read) together with the transaction.

        ``group_metadata`` is `Consumer.group_metadata()` of the consumer that read the records: a member that
        lost its partitions meanwhile is refused (KIP-447). The bare name of a group will do for one without
        members. Raises `ProducerFencedError`, `UnknownTopicOrPartitionError`, and `CommitFailedError`: abort,
        and go on with what the consumer is assigned now.
        """
        if isinstance(group_metadata, str):
            group_metadata = ConsumerGroupMetadata(group_metadata)
        group = group_metadata.group_id
        if not group:
            raise ConfigError("send_offsets_to_transaction needs the id of a consumer group")
        with self._lock:
            transactions = self._need("send_offsets_to_transaction")
            transactions.check("send_offsets_to_transaction")
            log = self._log()
            wanted = []
            for at, value in offsets.items():
                topic = log.topic(at[0])
                offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
                place = PartitionOffset(topic.name, topic.topic_id, at[1], *offset)
                wanted.append(place)
            transactions.add_offsets(group, group_metadata.membership, wanted)

    def commit_transaction(self) -> None:
        """Make records and offsets visible, all at once.

        Raises `CommitOutcomeUnknownError` if the store did not answer: then only `commit_transaction` may
        be called, and commits once. Errors with ``txn_requires_abort``: call `abort_transaction`.
        Errors with ``fatal``: close the producer.
        """
        with self._lock:
            self._need("commit_transaction").commit()
            self._log().sweep()

    def abort_transaction(self) -> None:
        """Nothing of the transaction will be seen by readers of committed data."""
        with self._lock:
            self._need("abort_transaction").abort()

    def close(self) -> None:
        """Send what waits; abort the open transaction. An outcome that is unknown stays so."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._transactions is not None:
                if self._transactions.is_open:
                    self._transactions.abort()
                return
        self._sender.close()

    # -- Inside -----------------------------------------------------------------------------------------

    def _log(self) -> Log:
        with self._opening:
            if self._opened is None:
                assert not isinstance(self._url, Log)
                block_ms = self._settings["max.block.ms"]
                create = self._settings["auto.create.topics.enable"]
                if block_ms == PRODUCER["max.block.ms"].default:
                    self._opened = Log.shared(self._url, create=create)
                else:
                    open_ = Log.open_or_create if create else Log.open
                    self._opened = open_(self._url, retry=Retry(deadline_s=block_ms / 1000))
            if not self._settings["log.upkeep.enable"]:
                self._opened.upkeep.enabled = False  # For this process, whoever else in it uses the log.
            return self._opened

    def _need(self, call: str) -> Transactions:
        if self._transactions is None:
            no_transactions(call)
        if self._closed:
            raise IllegalStateError(f"{call}: the producer is closed")
        return self._transactions

    def _check_open(self, call: str) -> None:
        if self._closed:
            raise IllegalStateError(f"{call}: the producer is closed")
        if self._transactions is not None:
            self._transactions.check(call)

    def _buffer(self, name: str, partition: int | None, columns: set[str] | None = None) -> TopicBuffer:
        """Where records of the topic gather; the topic is created if it is missing."""
        gathered = self._waiting if self._transactions is None else self._transactions.pending
        buffer = gathered.buffers.get(name)
        if buffer is None:
            buffer = TopicBuffer(
                self._log(),
                self._topic(name, columns),
                self._partitioner(name),
                compression=chosen(self._settings["compression.type"], self._settings),
                buffer_bytes=self._settings["buffer.memory"],
                keep=self._transactions is None,
            )
            gathered.buffers[name] = buffer
        if partition is not None and not 0 <= partition < buffer.topic.partitions:
            newer = self._log().follow().topics.get(name)
            same = newer is not None and newer.topic_id == buffer.topic.topic_id
            if newer is None or not same or not 0 <= partition < newer.partitions:
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} has no partition {partition}: its partitions are 0 to "
                    f"{buffer.topic.partitions - 1}"
                )
            buffer.grow(newer)
        return buffer

    def _topic(self, name: str, columns: set[str] | None) -> Topic:
        create = self._settings["auto.create.topics.enable"]
        foreign = (columns or set()) - _KAFKA_COLUMNS
        if create and foreign and name not in self._log().follow().topics:
            raise UnknownTopicOrPartitionError(
                f"the log {self._log().url} has no topic {name!r}, and rows with the column {min(foreign)!r} "
                "need one with a schema: create it with Admin.create_topic(name, schema=...)"
            )
        return self._log().ensure_topic(name, self._settings["num.partitions"], auto_create=create)

    def _partitioner(self, name: str) -> Partitioner:
        if self._custom is not None:
            return self._custom
        topic = self._log().topic(name)
        known = self._partitioners.get((topic.topic_id, len(topic.schemas)))
        if known is None:
            known = DefaultPartitioner(
                Sticky(int(self._log().clock.jitter() * (1 << 16)), self._settings["batch.size"]),
                key_columns(topic),
                None,
            )
            self._partitioners[topic.topic_id, len(topic.schemas)] = known
        return known

    def _drain(self) -> Accumulator:
        with self._lock:
            waiting, self._waiting = self._waiting, Accumulator()
            return waiting

    def _wake(self, waiting: int) -> None:
        if self._transactions is not None:
            return
        self._sender.wake(urgent=waiting >= self._settings["batch.size"])
        if waiting >= self._settings["buffer.memory"]:
            self._sender.flush()  # Kafka's send blocks here as well: memory is full.

    def _refuse(
        self, error: EosLogError, future: Future[RecordMetadata] | Future[list[RecordMetadata]]
    ) -> None:
        if self._transactions is not None:
            self._transactions.fail(error)
        if not future.done():
            future.set_exception(error)

    def _is_deadlock(self) -> bool:
        transactions = self._transactions
        return transactions is not None and transactions.state is ClientState.IN_TRANSACTION


class _SendFuture(Future[Any]):
    """A future that refuses to be waited for while nothing but the waiting thread itself could end it."""

    def __init__(self, producer: Producer) -> None:
        super().__init__()
        self._producer = producer

    def result(self, timeout: float | None = None) -> Any:
        if timeout is None and not self.done() and self._producer._is_deadlock():  # noqa: SLF001
            raise IllegalStateError(
                "the offset is known after commit_transaction or flush: until then the record has none"
            )
        return super().result(timeout)


def _bytes(value: object, what: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise InvalidRecordError(f"a record's {what} must be bytes, text or None, not {type(value).__name__}")


def _check_headers(headers: Sequence[Header] | None) -> None:
    for header in headers or ():
        if not (
            isinstance(header, tuple)
            and len(header) == 2
            and isinstance(header[0], str)
            and (header[1] is None or isinstance(header[1], bytes))
        ):
            raise InvalidRecordError(f"a header must be a pair of text and bytes (or None), not {header!r}")
