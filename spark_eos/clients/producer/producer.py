"""The producer: records into topics, each once; with ``transactional.id``, many of them as one."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

import pyarrow as pa

from spark_eos.clients.config import PRODUCER, check_open_log, producer_config, store_settings
from spark_eos.clients.producer.accumulator import Accumulator, TopicBuffer
from spark_eos.clients.producer.sender import Sender
from spark_eos.clients.producer.transaction_manager import ClientState, TransactionManager, no_transactions
from spark_eos.clients.records import ConsumerGroupMetadata, Header, RecordMetadata
from spark_eos.clients.validation import as_bytes, as_timestamp, check_headers
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
from spark_eos.log.data.partitioners import DefaultPartitioner, Partitioner, Sticky, load_partitioner
from spark_eos.log.log import Log
from spark_eos.log.topics import key_columns
from spark_eos.log.warmup import ready_for_columns, ready_to_commit
from spark_eos.protocol.actions import PartitionOffset
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition
from spark_eos.storage.forks import OfOneProcess, tell_in_child
from spark_eos.storage.urls import absolute

__all__ = ["Producer"]

ROW_OVERHEAD_BYTES = 64
"""What a record takes in memory beyond its key and value."""

_IN_TRANSACTION = ClientState.IN_TRANSACTION

_KAFKA_COLUMNS = {"key", "value", "headers", "timestamp", "partition"}


class Producer(OfOneProcess):
    """Writes records. Safe to share between threads; transactions belong to the producer, not to a thread.

    ``config`` has Kafka's keys (docs/reference/clients.md). Without ``transactional.id`` records are sent in the
    background, in order and without duplicates; with it, between `begin_transaction` and
    `commit_transaction`, and nothing is seen before the commit. Raises `ConfigError`.

    ``buffer.memory`` bounds the records of one topic that are held in memory; in a transaction the rest
    waits in staged files. ``url`` may also be an open `Log`. Settings of an object store (docs/guide/stores)
    are keys, too.

    It belongs to the process that made it: a forked one gets `IllegalStateError`, and makes its own.
    """

    _instead = (
        "make a Producer of its own there (with a transactional.id of its own), or start the process by spawn"
    )

    def __init__(self, url: str | os.PathLike[str] | Log, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        ready_to_commit()
        ready_for_columns()
        self._settings = producer_config(config)
        self._store_settings = store_settings(config)
        if isinstance(url, Log):
            check_open_log(config)
        self._url = url if isinstance(url, Log) else absolute(url)
        self._opened: Log | None = url if isinstance(url, Log) else None
        self._opening = threading.Lock()
        self._lock = threading.RLock()
        self._closed = self._closing = False
        self._waiting = Accumulator()
        self._batch_bytes: int = self._settings["batch.size"]
        self._memory_bytes: int = self._settings["buffer.memory"]
        self._partitioners: dict[tuple[str, int], Partitioner] = {}
        spec = self._settings["partitioner.class"]
        self._custom = None if spec is None else load_partitioner(spec)
        self._transactions = (
            TransactionManager(self._log, self._settings) if self._settings["transactional.id"] else None
        )
        self._sender = Sender(self._log, self._drain, self._settings)
        tell_in_child(self)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`: what waits, and the transaction, are the parent's."""
        self._opening = threading.Lock()
        self._lock = threading.RLock()
        self._closed = True

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
        `flush`), so do not wait for it before. ``timestamp_ms`` is whole milliseconds since 1970, None the
        time of the call. Raises `UnknownTopicOrPartitionError`, `InvalidRecordError` (`InvalidTimestampError`) or
        `IllegalStateError`; other errors come with the future.
        """
        if value is not None and not isinstance(value, bytes):
            value = as_bytes(value, "value")
        if key is not None and not isinstance(key, bytes):
            key = as_bytes(key, "key")
        if headers:
            check_headers(headers)
        bare = (0 if value is None else len(value)) + (0 if key is None else len(key))
        transactions = self._transactions
        with self._lock:
            # This runs for each record, and a call takes as long as what is done in it: there are few.
            if transactions is None or transactions.state is not _IN_TRANSACTION or self._closed:
                gathered = self._gathered("send")
            else:
                gathered = transactions.pending
            buffer = gathered.buffers.get(topic)
            if buffer is None or partition is not None:
                buffer = self._buffer(gathered, topic, partition)
            if timestamp_ms is not None:
                timestamp_ms = as_timestamp(timestamp_ms)
                buffer.times.check(timestamp_ms)
            if bare > buffer.record_bytes:
                return self._refuse_record(buffer, bare)
            size = bare + ROW_OVERHEAD_BYTES
            if transactions is None:
                self._count(gathered, size)
            listed = buffer.listed
            future = listed.add(key, value, headers, partition, timestamp_ms, size)
            if listed.bytes >= buffer.chunk_bytes:
                try:
                    buffer.hand_on()
                except EosLogError as error:
                    return self._refuse(error)
        if transactions is None and gathered.bytes >= self._memory_bytes:
            self._sender.flush()  # Kafka's send blocks here as well: memory is full.
        return future

    def send_arrow(
        self, topic: str, rows: pa.Table | pa.RecordBatch, partition: int | None = None
    ) -> Future[list[RecordMetadata]]:
        """Add all rows of a table; the future tells, for each partition, the first offset and the count.

        Columns are ``key``, ``value``, ``headers``, ``timestamp`` and ``partition``, of which only
        ``value`` has to be there, or those of the topic's schema. A missing topic is only created for
        Kafka's columns. Raises as `send`, and `SchemaMismatchError`.
        """
        with self._lock:
            gathered = self._gathered("send")
            buffer = self._buffer(gathered, topic, partition, columns=set(rows.schema.names))
            if not rows.num_rows:
                nothing: Future[list[RecordMetadata]] = Future()
                nothing.set_result([])
                return nothing
            if self._transactions is None:
                self._count(gathered, rows.nbytes)
            try:
                future = buffer.add_arrow(rows, partition)
            except InvalidRequestError:
                raise  # All rows were refused and the buffer is as it was.
            except EosLogError as error:
                return self._refuse(error)
        if gathered.bytes >= self._memory_bytes:
            self._sender.flush()  # Kafka's send blocks here as well: memory is full.
        return future

    def flush(self) -> None:
        """Send what waits, and wait until it is there. Errors of records are in their futures.

        In a transaction this opens it for all to see: read_uncommitted reads the records, the last stable
        offset waits for the end. Errors are raised there; after `CommitOutcomeUnknownError` the
        transaction can only be aborted.
        """
        self._check_process("flush")
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
            self._log().expire_overdue()

    def abort_transaction(self) -> None:
        """Nothing of the transaction will be seen by readers of committed data."""
        with self._lock:
            self._need("abort_transaction").abort()

    def close(self) -> None:
        """Send what waits; abort the open transaction. An outcome that is unknown stays so.

        Does nothing in a forked process: all of it is the parent's.
        """
        if self._is_foreign:
            return
        with self._lock:
            if self._closing:
                return  # Called by what a close under way has called: a future's callback, a signal's handler.
        try:
            self._closing = self._closed = True
            if self._transactions is None:
                self._sender.close()
                return
            with self._lock:
                if self._transactions.is_open:
                    self._transactions.abort()
        finally:
            self._closing = False

    # -- Inside -----------------------------------------------------------------------------------------

    def _log(self) -> Log:
        with self._opening:
            if self._opened is None:
                assert not isinstance(self._url, Log)
                block_ms = self._settings["max.block.ms"]
                create = self._settings["auto.create.topics.enable"]
                if block_ms == PRODUCER["max.block.ms"].default:
                    self._opened = Log.shared(self._url, self._store_settings, create=create)
                else:
                    open_ = Log.open_or_create if create else Log.open
                    self._opened = open_(
                        self._url, retry=Retry(deadline_s=block_ms / 1000), settings=self._store_settings
                    )
            if self._opened.does_maintenance and not self._settings["auto.maintenance.enable"]:
                self._opened = self._opened.without_maintenance()
            return self._opened

    def _need(self, call: str) -> TransactionManager:
        if self._transactions is None:
            no_transactions(call)
        if self._closed:
            self._check_process(call)
            raise IllegalStateError(f"{call}: the producer is closed")
        return self._transactions

    def _gathered(self, call: str) -> Accumulator:
        """What records are added to, if the call is allowed now."""
        if self._closed:
            self._check_process(call)
            raise IllegalStateError(f"{call}: the producer is closed")
        if self._transactions is None:
            return self._waiting
        self._transactions.check(call)
        return self._transactions.pending

    def _buffer(
        self, gathered: Accumulator, name: str, partition: int | None, columns: set[str] | None = None
    ) -> TopicBuffer:
        """Where records of the topic gather; the topic is created if it is missing."""
        buffer = gathered.buffers.get(name)
        if buffer is None:
            buffer = TopicBuffer(
                self._log(),
                self._topic(name, columns),
                self._partitioner(name),
                compression=chosen(self._settings["compression.type"], self._settings),
                buffer_bytes=self._settings["buffer.memory"],
                request_bytes=self._settings["max.request.size"],
                keep=self._transactions is None,
                is_stuck=self._is_stuck,
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
            try:
                buffer.grow(newer)
            except EosLogError as error:
                if self._transactions is not None:
                    raise self._transactions.cannot_stage(error) from error
                raise
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

    def _drain(self) -> None:
        with self._lock:
            self._sender.taken, self._waiting = self._waiting, Accumulator()

    def _count(self, gathered: Accumulator, size: int) -> None:
        """Some bytes are about to be added: the sender hears of the first ones, and once there is a batch.

        It hears of them first, so that no interrupt leaves records of which it knows nothing; and cannot take
        what gathers before they are there, for it needs the lock.
        """
        before = gathered.bytes
        now = before + size
        if not before or before < self._batch_bytes <= now:
            self._sender.wake(urgent=now >= self._batch_bytes)
        gathered.bytes = now

    def _refuse_record(self, buffer: TopicBuffer, size: int) -> Future[Any]:
        """The future of a record of so many bytes that cannot come, or not one by one."""
        topic = buffer.topic
        if topic.schemas:
            raise InvalidRecordError(f"topic {topic.name!r} has a schema: send its rows with send_arrow")
        return self._refuse(
            RecordTooLargeError(
                f"a record for topic {topic.name!r} has {size} bytes; at most {buffer.record_bytes} are possible "
                "(max.request.size of the producer, max.message.bytes of the topic)"
            )
        )

    def _refuse(self, error: EosLogError) -> Future[Any]:
        """The future of records that were not taken; a transaction fails with them."""
        if self._transactions is not None:
            self._transactions.fail(error)
        future: Future[Any] = Future()
        future.set_exception(error)
        return future

    def _is_stuck(self) -> bool:
        """Whether a future can only be done by the caller's own commit or flush, or not at all."""
        if self._is_foreign:
            return True
        transactions = self._transactions
        return transactions is not None and transactions.state is ClientState.IN_TRANSACTION
