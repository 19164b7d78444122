"""The producer: records into topics, each once; with ``transactional.id``, many of them as one."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from spark_eos.clients.at_exit import say
from spark_eos.clients.background import within
from spark_eos.clients.producer.futures import OnDelivery, Outcome, RecordFuture, SendFuture
from spark_eos.clients.producer.information import ProducerInformation
from spark_eos.clients.producer.record_buffer import WIDTH
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.clients.records import Header, RecordMetadata
from spark_eos.clients.validation import (
    as_number,
    as_timestamp,
    check_function,
    check_headers,
    check_rows,
)
from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    KafkaTimeoutError,
    RecordsFailedError,
    SchemaMismatchError,
)
from spark_eos.log.data.arrow import size_of

ROW_OVERHEAD_BYTES = 64
"""What a record takes in memory beyond its key, value and headers."""

_IN_TRANSACTION = ClientState.IN_TRANSACTION
_new = object.__new__


class Producer(ProducerInformation):
    """Writes records to topics, each exactly once.

    Without ``transactional.id``, a background thread sends the records, in order and without duplicates. With it,
    records are sent between `begin_transaction` and `commit_transaction`, and readers see nothing before the commit.
    ``buffer.memory`` bounds the records of one topic in memory; in a transaction the rest waits in staged files.

    Close it, or use it in a with statement. At the end of a process that does not, the records that wait are sent for a
    bounded time, and no open transaction is committed (docs/reference/clients.md, the end of the process).

    Safe to share between threads. A transaction belongs to the producer, not to a thread. A producer belongs to the
    process that made it: in a forked process each call raises `IllegalStateError`.

    Parameters
    ----------
    url
        The log: a path, a URL (``s3://bucket/path``, ``memory://name``, …), or an open `Log`. The log is created
        with the first record if it is missing and ``auto.create.topics.enable`` is on.
    config
        Kafka's settings, and those of an object store (``s3.region``, …). All are in docs/reference/options.md.
    **settings
        Settings by keyword, with underscores for dots: ``linger_ms=20``. One of None is not set.

    Raises
    ------
    ConfigError
        A setting is unknown, malformed, or contradicts another one.

    Examples
    --------
    >>> from spark_eos import Producer
    >>> with Producer("memory://producer") as producer:
    ...     future = producer.send("orders", b"two apples", key=b"anna")
    >>> future.result()
    RecordMetadata(topic='orders', partition=0, offset=0, timestamp_ms=..., count=1)

    See Also
    --------
    Consumer : reads records.

    Notes
    -----
    Idempotence and transactions: KIP-98; docs/design/0001-protocol.md.
    """

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except RecordsFailedError as failed:
            if kind is None:
                raise
            say(str(failed))  # The error that leaves the block goes on.

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture[RecordMetadata]:
        """Add a record. Returns before it is sent; blocks only while ``buffer.memory`` is full.

        Parameters
        ----------
        topic
            The name of the topic, created if it is missing and ``auto.create.topics.enable`` is on.
        value
            The value, for ``value.serializer``, or of a topic with ``value.format`` what that format takes, such as a
            dict; without a serializer bytes or text, which is stored as UTF-8. None is a
            tombstone.
        key
            The key, for ``key.serializer``; without one bytes or text.
        headers
            Pairs of a name and bytes or None.
        partition
            The number of the partition, from 0. None: Kafka's hash of the key decides; without a key, the records of
            a batch stay together.
        timestamp_ms
            Milliseconds since 1970 (UTC). None: the time of this call.
        on_delivery
            Called with an error and a `RecordMetadata`, one of them None, when the record is durable or has failed.

        Returns
        -------
        RecordFuture of RecordMetadata
            A `concurrent.futures.Future` that also has kafka-python's ``get``, ``add_callback`` and ``add_errback``.
            Done when the record is durable, or when it failed; then ``result()`` raises the error. In a transaction
            it is done by `commit_transaction` or `flush`: do not wait for it before.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        InvalidRequestError
            ``partition`` is no number, or ``on_delivery`` no function.
        InvalidRecordError
            The value, key, a header or the timestamp has the wrong type, the topic has a schema, or it is compacted
            and the record has no key.
        SerializationError
            A serializer failed. Nothing was sent.
        InvalidTimestampError
            The topic does not allow this timestamp.
        IllegalStateError
            No transaction has begun, or the producer is closed.

        Examples
        --------
        >>> from spark_eos import Producer
        >>> with Producer("memory://send") as producer:
        ...     future = producer.send("orders", "two apples", key="anna", headers=[("trace", b"7")])
        >>> future.result().offset
        0
        """
        # This runs for each record, and a call takes as long as what is done in it: there are few.
        lock, place, serializes = self._sending
        if on_delivery is not None:
            check_function(on_delivery, "on_delivery")
        headers_bytes = 0 if headers is None else check_headers(headers)
        if (
            not (value is None or isinstance(value, bytes))
            or not (key is None or isinstance(key, bytes))
            or serializes
        ):
            key, value, headers, headers_bytes = self._as_stored(topic, key, value, headers, headers_bytes)
        bare = (0 if value is None else len(value)) + (0 if key is None else len(key)) + headers_bytes
        with lock:
            gathered = place.pending if place.state is _IN_TRANSACTION else self._gathered("send")
            buffer = gathered.buffers.get(topic) if type(topic) is str else None  # A list is no name.
            if buffer is None or (
                partition is not None
                and not (type(partition) is int and 0 <= partition < buffer.topic.partitions)
            ):
                partition = None if partition is None else as_number(partition)
                buffer = self._buffer(gathered, topic, partition)
            if timestamp_ms is not None and not (
                type(timestamp_ms) is int and 0 <= timestamp_ms <= buffer.times.certain_ms
            ):
                timestamp_ms = as_timestamp(timestamp_ms)
                buffer.times.check(timestamp_ms)
            if bare > buffer.record_bytes or (key is None and buffer.needs_key):
                return self._refuse(buffer.refusal(bare), on_delivery)
            future = _new(SendFuture)
            added_ns = buffer.now_ns()
            listed = buffer.listed
            if headers or partition is not None or timestamp_ms is not None:
                headers = headers and tuple(headers)
                listed.has_more = True
            meter, entries = listed.meter, listed.entries
            size = meter.bytes + bare + ROW_OVERHEAD_BYTES
            is_full = size >= meter.limit
            if is_full and self._transactions is None:
                self._count(meter, size)
            meter.bytes = size
            entries += (key, value, added_ns, headers, partition, timestamp_ms)
            future.outcome, future.row = listed.outcome, len(entries) // WIDTH - 1
            if is_full and self._transactions is not None:
                try:
                    buffer.hand_on()
                except EosLogError as error:
                    return self._refuse(error, on_delivery)
        if on_delivery is not None:
            future.outcome.deliver(future.row, on_delivery)
        if is_full and self._transactions is None and size >= self._memory_bytes:
            self._make_room()
        return future

    def send_arrow(
        self, topic: str, rows: pa.Table | pa.RecordBatch, partition: int | None = None
    ) -> RecordFuture[list[RecordMetadata]]:
        """Add all rows of an Arrow table.

        Parameters
        ----------
        topic
            The name of the topic. A missing topic is created only if the columns are Kafka's.
        rows
            Columns ``key``, ``value``, ``headers``, ``timestamp`` and ``partition``, of which only ``value`` is
            required; or the columns of the topic's schema.
        partition
            The partition of all rows, from 0. None: as `send`, for each row.

        Returns
        -------
        RecordFuture of list of RecordMetadata
            One for each partition that got rows: the offset of the first row, and the count. Done as in `send`.

        Raises
        ------
        SchemaMismatchError
            The columns do not fit the topic.
        UnknownTopicOrPartitionError, InvalidRecordError, InvalidTimestampError, IllegalStateError
            As `send`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from spark_eos import Producer
        >>> with Producer("memory://send-arrow") as producer:
        ...     future = producer.send_arrow("orders", pa.table({"value": [b"one", b"two"]}))
        >>> [(sent.offset, sent.count) for sent in future.result()]
        [(0, 2)]
        """
        check_rows(rows)
        partition = None if partition is None else as_number(partition)
        with self._lock:
            gathered = self._gathered("send")
            buffer = self._buffer(gathered, topic, partition, columns=set(rows.schema.names))
            if not rows.num_rows:
                nothing: RecordFuture[list[RecordMetadata]] = RecordFuture()
                nothing.set_result([])
                return nothing
            if self._transactions is None:
                self._count(gathered.meter, gathered.meter.bytes + size_of(rows))
            try:
                try:
                    future = buffer.add_arrow(rows, partition)
                except SchemaMismatchError:
                    if not self._learn_columns(buffer):
                        raise
                    future = buffer.add_arrow(rows, partition)
            except InvalidRequestError:
                raise  # All rows were refused and the buffer is as it was.
            except EosLogError as error:
                return self._refuse(error)
        if self._transactions is None and gathered.meter.bytes >= self._memory_bytes:
            self._make_room()
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Send the records that wait, and return when they are durable or have failed.

        Errors of records are in their futures. If the program has not kept one, and gave it no callback, `flush`
        raises `RecordsFailedError`. After an interrupt (Ctrl-C) call it again: it goes on with what it was sending.

        In a transaction, this call appends its records and offsets to the log: from then on the transaction is open
        there, ``read_uncommitted`` readers see its records, and the last stable offset waits for its end.

        Parameters
        ----------
        timeout
            How long to wait, in seconds. None: as long as it takes, which ``delivery.timeout.ms`` bounds.

        Raises
        ------
        RecordsFailedError
            Records that were sent before are not in the log, or it is not known whether they are, and no future can
            tell. It is raised once.
        KafkaTimeoutError
            Not all were durable after ``timeout``. They are still being sent: call `flush` again, or wait for their
            futures.
        CommitOutcomeUnknownError
            In a transaction: the store did not answer. Only `abort_transaction` is allowed next.
        ProducerFencedError
            In a transaction: a newer producer has taken over ``transactional.id``. Close this one.
        IllegalStateError
            This process was forked from the one that made the producer.
        """
        self._check_process("flush")
        if timeout is None or self._opened is None:
            self._flush()
        else:
            within(self._opened.environment, timeout, self._flush, "flush")
        self._raise_failures()

    def close(self, timeout: float | None = None) -> None:
        """Send the records that wait, abort the open transaction, and end the background thread.

        A commit whose outcome is unknown stays so. In a forked process this call does nothing: the records and the
        transaction are the parent's.

        Parameters
        ----------
        timeout
            How long to wait, in seconds; 0: do not wait. After it the records that still wait fail with
            `KafkaTimeoutError`, and those that are just being sent go on in the background. None: until all is done.

        Raises
        ------
        RecordsFailedError
            As `flush`.
        """
        if self._is_foreign:
            return
        try:
            if timeout is None or self._opened is None:
                self._close()
            else:
                within(self._opened.environment, timeout, self._close, "close")
        except KafkaTimeoutError:
            self._sender.give_up()
        self._raise_failures()

    # -- Inside -----------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Kafka's send blocks here as well: memory is full."""
        self._sender.flush()
        if self._ends and (failed := self._sender.take_failures(last=True)) is not None:
            say(f"the process ends, and {failed}")  # No future will be asked.

    def _raise_failures(self) -> None:
        failed = self._sender.take_failures()
        if failed is not None:
            raise failed

    def _flush(self) -> None:
        with self._timed("flush"):
            if self._transactions is None:
                self._sender.flush()
                return
            with self._lock:
                if self._transactions.takes_records:
                    self._transactions.flush()

    def _close(self) -> None:
        with self._lock:
            if self._closing:
                return  # Called by what a close under way has called: a future's callback, a signal's handler.
            if self._transactions is None:
                self._sender.check_free()
            elif self._transactions.is_open:
                self._transactions.check("abort_transaction")
        try:
            self._closing = True
            self._refuse_calls()
            if self._transactions is None:
                self._sender.close()
                return
            with self._lock:
                if self._transactions.is_open:
                    self._transactions.abort()
        finally:
            self._closing = False
            self._serializers.close()

    def _refuse(self, error: EosLogError, on_delivery: OnDelivery | None = None) -> RecordFuture[Any]:
        """The future of records that were not taken; a transaction fails with them."""
        if self._transactions is not None:
            self._transactions.fail(error)
        outcome = Outcome(self._is_stuck)
        outcome.fail(error)
        if self._transactions is None:
            self._sender.failures.add(error, [(outcome, 1, 1)])
        if on_delivery is not None:
            outcome.deliver(0, on_delivery)
        return SendFuture(outcome, 0)
