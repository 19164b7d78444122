"""The consumer: records of partitions, assigned by hand or by a group, in order, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from spark_eos.clients.consumer.assignment import ConsumerAssignment
from spark_eos.clients.consumer.committed_offsets import ConsumerOffsets
from spark_eos.clients.consumer.fetcher import NO_LIMIT
from spark_eos.clients.consumer.positions import ConsumerPositions
from spark_eos.clients.metrics import Metrics
from spark_eos.clients.one_thread import one_at_a_time
from spark_eos.clients.records import ConsumerRecord, ConsumerRecords, to_arrow, to_records
from spark_eos.clients.validation import check_time
from spark_eos.errors import CorruptRecordError, EosLogError
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.log.data.records import Records
from spark_eos.log.environment import is_held_here
from spark_eos.log.topics import codec_of, layout_of
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition

if TYPE_CHECKING:
    from spark_eos.log.values.codec import ValueCodec

_EXPIRE_EVERY_S = 1.0
"""How often a consumer looks whether something in the log has expired."""

L = TypeVar("L", bound="Sized")


class Consumer(ConsumerAssignment, ConsumerPositions, ConsumerOffsets):
    """Reads records from the partitions that `assign` names, or that its group assigns after `subscribe`.

    ``for record in consumer`` gives one record after the other, and waits for new ones; it ends if none comes within
    ``consumer.timeout.ms``. The position, which is what `commit` commits, is that after the record that it gave last.

    For one thread at a time, as Kafka's: a call while another thread is in one raises `ConcurrentModificationError`;
    `wakeup` alone may come from another thread. After ``subscribe`` a background thread sends heartbeats until `close`.
    A consumer belongs to the process that made it: in a forked process each call raises `IllegalStateError`.

    Parameters
    ----------
    url
        The log: a path, a URL (``s3://bucket/path``, ``memory://name``, …), or an open `Log`. The log must exist:
        a consumer creates nothing.
    config
        Kafka's settings, and those of an object store (``s3.region``, …). As in Kafka, ``isolation.level`` is
        ``read_uncommitted`` and ``auto.offset.reset`` is ``latest`` unless set. All are in
        docs/reference/options.md.
    **settings
        Settings by keyword, with underscores for dots: ``group_id="billing"``. One of None is not set.

    Raises
    ------
    ConfigError
        A setting is unknown, malformed, or contradicts another one.
    NotALogError
        There is no log at ``url``.

    Examples
    --------
    >>> from spark_eos import Consumer, Producer, TopicPartition
    >>> with Producer("memory://consumer") as producer:
    ...     future = producer.send("orders", b"two apples", key=b"anna")
    >>> with Consumer("memory://consumer", {"auto.offset.reset": "earliest"}) as consumer:
    ...     consumer.assign([TopicPartition("orders", 0)])
    ...     [(record.offset, record.key, record.value) for record in consumer.poll()]
    [(0, b'anna', b'two apples')]

    See Also
    --------
    Producer : writes records.

    Notes
    -----
    Groups and their rebalancing: docs/design/0004-groups-and-expiry.md.
    """

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        return self._next(self._settings["consumer.timeout.ms"], ends=True)  # type: ignore[return-value]

    def _next(self, timeout_ms: float, *, ends: bool = False) -> ConsumerRecord | None:
        """The next record; None after the timeout, or the end of the iteration.

        Nothing is done after the block: an interrupt anywhere in it gives the record back.
        """
        self._ahead.handed = None
        try:
            with self._in_use("iteration"):
                record = None if self._closed else self._ahead.next()
                if record is None and not self._closed:
                    limit = self._settings["max.poll.records"]
                    self._wait(timeout_ms, limit, self._read_ahead)
                    record = self._ahead.next()
                if record is None and ends:
                    raise StopIteration  # noqa: TRY301  (it ends the iteration)
                return record
        except BaseException:
            self._ahead.undo()
            raise

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords:
        """Return the next records.

        The assigned partitions take turns. Control batches are skipped, and with ``isolation.level=read_committed``
        aborted records, too. If this call raises an error, no record was passed over: the next call returns them.

        Parameters
        ----------
        timeout_ms
            How long to wait for the first record, in milliseconds. 0: do not wait.
        max_records
            The most records to return. None: the setting ``max.poll.records``.

        Returns
        -------
        ConsumerRecords
            A list of `ConsumerRecord` in the order of their offsets within each partition, empty after the timeout. Its
            ``items()`` gives partitions and their records, as the dict that kafka-python returns.

        Raises
        ------
        ConfigError
            ``max_records`` is less than 1.
        InvalidRequestError
            ``timeout_ms`` or ``max_records`` is no number.
        RecordDeserializationError
            A deserializer failed for the record at the position. The records before it came with the last call.
        UnknownTopicOrPartitionError
            An assigned topic was deleted, or created again.
        OffsetOutOfRangeError, NoOffsetForPartitionError
            With ``auto.offset.reset=none``: the position is out of range, or nothing is committed.
        CorruptRecordError
            Stored bytes are not the ones that were written.
        WakeupError
            Another thread has called `wakeup`.
        IllegalStateError
            The consumer is closed, has neither partitions nor a subscription, or a listener made this call.

        Examples
        --------
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> with Producer("memory://poll") as producer:
        ...     futures = [producer.send("orders", b"%d" % number) for number in range(3)]
        >>> consumer = Consumer("memory://poll", {"auto.offset.reset": "earliest"})
        >>> consumer.assign([TopicPartition("orders", 0)])
        >>> [record.value for record in consumer.poll(max_records=2)]
        [b'0', b'1']
        >>> [record.value for record in consumer.poll(timeout_ms=100)]
        [b'2']
        """
        limit = self._settings["max.poll.records"] if max_records is None else max_records
        return self._wait(timeout_ms, limit, lambda state: self._take(state, limit)) or ConsumerRecords()

    def poll_arrow(self, timeout_ms: float = 0, max_records: int | None = None) -> pa.Table:
        """Return the next records as an Arrow table. As `Consumer.poll`, without deserializers.

        Parameters
        ----------
        max_records
            The most rows to return. None: at most one stored batch of each partition.

        Returns
        -------
        pyarrow.Table
            One row for each record, of topics with the same columns; records of other topics come with the next
            call. Columns of a topic without a schema: ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``,
            ``value``, ``headers``; of a topic with a schema: ``_topic``, ``_partition``, ``_offset``, ``_timestamp``
            and its own. No rows after the timeout.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> with Producer("memory://poll-arrow") as producer:
        ...     future = producer.send_arrow("orders", pa.table({"value": [b"0", b"1", b"2"]}))
        >>> consumer = Consumer("memory://poll-arrow", {"auto.offset.reset": "earliest"})
        >>> consumer.assign([TopicPartition("orders", 0)])
        >>> consumer.poll_arrow().column("value").to_pylist()
        [b'0', b'1', b'2']
        """
        limit = NO_LIMIT if max_records is None else max_records

        def gather(state: State) -> list[pa.Table]:
            tables = [
                to_arrow(assigned.topic, assigned.at.partition, rows)
                for assigned, rows in self._fetcher.fetch(state, limit, alike=True)
            ]
            self._metrics.fetched(sum(table.num_rows for table in tables))
            return [pa.concat_tables(tables)] if tables else []

        return (self._wait(timeout_ms, limit, gather) or [self._no_rows()])[0]

    def wakeup(self) -> None:
        """Make the `poll` that another thread is in, or the next one, raise `WakeupError`: to end a loop from outside.

        The only call that may come from another thread.
        """
        self._wanted_awake.set()

    def metrics(self) -> Metrics:
        """Return figures about what was read, under Kafka's names.

        Returns
        -------
        dict of str to dict of str to float
            Figures by name, by group: ``consumer-metrics``, ``consumer-fetch-manager-metrics``, the same with the name
            of each partition, ``consumer-coordinator-metrics``. Totals are since the start of this consumer; rates,
            averages and maxima of the last minute.

        Notes
        -----
        All names: docs/reference/clients.md.
        """
        self._check_process("metrics")
        state, lags = self._log.state, {}
        for at, assigned in [*self._assigned.items()]:
            topic = state.topics.get(at.topic)
            if assigned.reached is not None and topic and topic.topic_id == assigned.topic.topic_id:
                end = end_offset(partition_of(state, at), self._isolation)
                lags[str(at)] = max(0, end - assigned.reached)
        generation = -1 if self._rebalance is None else self._rebalance.metadata.generation_id
        read = self._fetcher.bytes_read
        return self._metrics.shown(len(self._assigned), lags, generation, read)

    @one_at_a_time
    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit the positions if ``enable.auto.commit`` is on, leave the group, and read no more.

        A signal's handler that calls it in the middle of a `poll` closes the consumer behind that, which returns no
        record.

        Errors of the log are only logged: the group notices by itself that this member is gone. In a forked process
        this call does nothing: the member of the group is the parent.

        Parameters
        ----------
        autocommit
            False: do not commit the positions.
        timeout_ms
            How long to wait for commits in the background, in milliseconds. None: until they are made.

        Raises
        ------
        IllegalStateError
            A listener made this call.
        """
        if self._closed or self._is_foreign:
            return
        if timeout_ms is not None:
            check_time(timeout_ms, "timeout_ms")
        self._check_not_telling("close")
        if is_held_here(self._polling):
            self._close_later = (autocommit, timeout_ms)
        else:
            self._close(autocommit, timeout_ms)

    # -- Inside -----------------------------------------------------------------------------------------

    def _is_free(self) -> None:
        if self._close_later is not None and not self._closed:
            self.close(*self._close_later)

    def _close(self, autocommit: bool, timeout_ms: float | None) -> None:
        try:
            if not autocommit:
                self._offsets.is_automatic = False
            timeout_s = None if timeout_ms is None else timeout_ms / 1000
            if self._rebalance is not None:
                self._rebalance.leave(timeout_s)
            else:
                self._offsets.finish(timeout_s)
                self._offsets.auto_commit(now=True)
        finally:
            self._closed = True
            self._fetcher.close()
            self._deserializers.close()

    def _wait(self, timeout_ms: float, limit: int, gather: Callable[[State], L]) -> L | None:
        """What ``gather`` finds once it finds something; None after the timeout.

        An interrupt anywhere in here gives back what was taken, so nothing is done after the block.
        """
        started = False
        self._check_process("poll")  # The lock may be another thread's of the parent.
        try:
            with self._in_use("poll"), self._polling:
                self._check_poll(timeout_ms, limit)
                self._ahead.give_back()
                self._offsets.call_back()
                self._offsets.auto_commit()
                self._metrics.polled()
                clock = self._log.clock
                deadline = clock.monotonic() + timeout_ms / 1000
                self._fetcher.start_poll()
                started = True
                while True:
                    self._check_awake()
                    self._log.follow()
                    state = self._expire_overdue()
                    self._offsets.begin(state)
                    if self._rebalance is not None:
                        state = self._rebalance.follow(state)
                    elif self._all_of is not None:
                        self._assign_all(state)
                    result = gather(self._log.as_decided(state))
                    if self._close_later is not None:
                        self._fetcher.rewind()  # What the caller would handle after the close is not committed by it.
                        return None
                    if result:
                        self._idle.over()
                        return result
                    left_s = deadline - clock.monotonic()
                    if left_s <= 0:
                        return None
                    clock.sleep(min(self._idle.wait_s(), left_s))
                    self._fetcher.start_poll()
        except (EosLogError, OSError) as error:
            if isinstance(error, CorruptRecordError):
                self._metrics.met_damage()
            raise  # Nothing was taken.
        except BaseException:
            if started:
                self._fetcher.rewind()  # Ctrl-C: else the positions would be past what the caller has not got.
            raise

    def _take(self, state: State, limit: int) -> ConsumerRecords:
        batches = [*self._fetcher.fetch(state, limit)]
        try:
            records = ConsumerRecords(
                record
                for assigned, rows in batches
                for record in to_records(assigned.topic, assigned.at.partition, rows)
            )
        except EosLogError:
            self._fetcher.rewind()
            raise
        if self._deserializers or any("value.format" in assigned.topic.config for assigned, _ in batches):
            records = self._deserialized(records)
        self._metrics.fetched(len(records))
        return records

    def _read_ahead(self, state: State) -> ConsumerRecords:
        records = self._take(state, self._settings["max.poll.records"])
        self._ahead.take(records)
        return records

    def _deserialized(self, records: ConsumerRecords) -> ConsumerRecords:
        """The records up to the first that a deserializer refuses: it is the next one, and raises the error then."""
        result = ConsumerRecords()
        for row, record in enumerate(records):
            assigned = self._assigned[TopicPartition(record.topic, record.partition)]
            if assigned.topic.schemas:
                result.append(record)  # Its value is a row, not bytes.
                continue
            try:
                result.append(self._deserializers.deserialize(record, self._codec(assigned.topic)))
            except BaseException as error:
                for later in reversed(records[row:]):
                    self._assigned[TopicPartition(later.topic, later.partition)].seek(later.offset)
                if result and isinstance(error, EosLogError):
                    return result
                raise
        return result

    def _codec(self, topic: Topic) -> ValueCodec | None:
        settings = self._settings
        return codec_of(
            topic, settings["schema.registry.basic.auth.user.info"], settings["schema.registry.url"]
        )

    def _no_rows(self) -> pa.Table:
        first = next(iter(self._assigned.values()), None)
        if first is None:
            return pa.table({})
        return to_arrow(first.topic, 0, Records(layout_of(first.topic).physical.empty_table(), 0))

    def _expire_overdue(self) -> State:
        now = self._log.clock.monotonic()
        if now >= self._next_expire_overdue:
            self._next_expire_overdue = now + _EXPIRE_EVERY_S
            return self._log.end_overdue()
        return self._log.state
