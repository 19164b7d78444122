"""The consumer: records of partitions, assigned by hand or by a group, in order, each once."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from spark_eos.clients.consumer.assignment import ConsumerAssignment
from spark_eos.clients.consumer.committed_offsets import ConsumerOffsets
from spark_eos.clients.consumer.fetcher import NO_LIMIT
from spark_eos.clients.consumer.positions import ConsumerPositions
from spark_eos.clients.records import ConsumerRecord, to_arrow, to_records
from spark_eos.errors import ConfigError, EosLogError
from spark_eos.log.data.records import Records
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

__all__ = ["Consumer"]

_EXPIRE_EVERY_S = 1.0
"""How often a consumer looks whether something in the log has expired."""

T = TypeVar("T")


class Consumer(ConsumerAssignment, ConsumerPositions, ConsumerOffsets):
    """Reads records from the partitions that `assign` names, or that its group assigns after `subscribe`.

    For one thread at a time, as Kafka's. After ``subscribe`` a background thread sends heartbeats until `close`.
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

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
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
        list of ConsumerRecord
            In the order of their offsets within each partition. Empty after the timeout.

        Raises
        ------
        ConfigError
            ``max_records`` is less than 1.
        RecordDeserializationError
            A deserializer failed for the record at the position. The records before it came with the last call.
        UnknownTopicOrPartitionError
            An assigned topic was deleted, or created again.
        OffsetOutOfRangeError, NoOffsetForPartitionError
            With ``auto.offset.reset=none``: the position is out of range, or nothing is committed.
        CorruptRecordError
            Stored bytes are not the ones that were written.
        IllegalStateError
            The consumer is closed, or a listener made this call.

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

        def gather(state: State) -> list[ConsumerRecord]:
            taken = [*self._fetcher.fetch(state, limit)]
            try:
                records = [
                    record
                    for assigned, found in taken
                    for record in to_records(assigned.topic, assigned.at.partition, found)
                ]
            except EosLogError:
                self._fetcher.rewind()
                raise
            return self._deserialized(records) if self._deserializers else records

        return self._wait(timeout_ms, limit, gather) or []

    def poll_arrow(self, timeout_ms: int = 0, max_records: int | None = None) -> pa.Table:
        """Return the next records as an Arrow table.

        Parameters
        ----------
        timeout_ms
            How long to wait for the first record, in milliseconds. 0: do not wait.
        max_records
            The most rows to return. None: at most one stored batch of each partition.

        Returns
        -------
        pyarrow.Table
            One row for each record, of topics with the same columns; records of other topics come with the next
            call. Columns of a topic without a schema: ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``,
            ``value``, ``headers``; of a topic with a schema: ``_topic``, ``_partition``, ``_offset``, ``_timestamp``
            and its own. No rows after the timeout.

        Raises
        ------
        ConfigError
            ``max_records`` is less than 1.
        UnknownTopicOrPartitionError, OffsetOutOfRangeError, NoOffsetForPartitionError, CorruptRecordError
            As `poll`.
        IllegalStateError
            The consumer is closed, or a listener made this call.

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
                to_arrow(assigned.topic, assigned.at.partition, found)
                for assigned, found in self._fetcher.fetch(state, limit, alike=True)
            ]
            return [pa.concat_tables(tables)] if tables else []

        return (self._wait(timeout_ms, limit, gather) or [self._no_rows()])[0]

    def close(self) -> None:
        """Commit the positions if ``enable.auto.commit`` is on, leave the group, and read no more.

        Errors of the log are only logged: the group notices by itself that this member is gone. In a forked process
        this call does nothing: the member of the group is the parent.

        Raises
        ------
        IllegalStateError
            A listener made this call.
        """
        if self._closed or self._is_foreign:
            return
        self._check_not_telling("close")
        try:
            if self._rebalance is None:
                self._offsets.auto_commit(now=True)
            else:
                self._rebalance.leave()
        finally:
            self._closed = True
            self._fetcher.close()
            self._deserializers.close()

    # -- Inside -----------------------------------------------------------------------------------------

    def _wait(self, timeout_ms: int, limit: int, gather: Callable[[State], list[T]]) -> list[T]:
        self._check_open("poll")
        self._check_not_telling("poll")
        if limit < 1:
            raise ConfigError(f"max_records={limit}: at least one record has to be asked for")
        self._offsets.auto_commit()
        clock = self._log.clock
        deadline = clock.monotonic() + timeout_ms / 1000
        self._fetcher.start_poll()
        try:
            while True:
                self._log.follow()
                state = self._expire_overdue()
                if self._rebalance is not None:
                    state = self._rebalance.follow(state)
                found = gather(state)
                if found:
                    self._idle.over()
                    return found
                left = deadline - clock.monotonic()
                if left <= 0:
                    return found
                clock.sleep(min(self._idle.wait_s(), left))
                self._fetcher.start_poll()
        except (EosLogError, OSError):
            raise  # Nothing was taken.
        except BaseException:
            self._fetcher.rewind()  # Ctrl-C: else the positions would be past records that the caller has not got.
            raise

    def _deserialized(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records up to the first that a deserializer refuses: it is the next one, and raises the error then."""
        found: list[ConsumerRecord] = []
        for row, record in enumerate(records):
            assigned = self._assigned[TopicPartition(record.topic, record.partition)]
            if assigned.topic.schemas:
                found.append(record)  # Its value is a row, not bytes.
                continue
            try:
                found.append(self._deserializers.deserialize(record))
            except BaseException as error:
                for left in reversed(records[row:]):
                    self._assigned[TopicPartition(left.topic, left.partition)].seek(left.offset)
                if found and isinstance(error, EosLogError):
                    return found
                raise
        return found

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
