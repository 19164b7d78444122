"""Transactions of a producer: records in several topics, and offsets of a group, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from spark_eos.clients.producer.base import ProducerBase
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.errors import ConfigError
from spark_eos.protocol.actions import PartitionOffset
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["ProducerTransactions"]


class ProducerTransactions(ProducerBase):
    """The calls about transactions. They need ``transactional.id``."""

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        begun = self._now()
        try:
            yield
        finally:
            self._metrics.took(call, self._now() - begun)

    def init_transactions(self) -> None:
        """Take over ``transactional.id``: fence older producers with that id, and abort their open transaction.

        Call it once, before all other calls. Call it again only after a `RetriableError`.

        Raises
        ------
        RetriableError
            The store did not answer. Call it again.
        IllegalStateError
            ``transactional.id`` is not set, this call was made before, or the producer is closed.

        See Also
        --------
        begin_transaction : the next call.

        Notes
        -----
        Fencing by epochs: KIP-98; docs/design/0001-protocol.md.
        """
        with self._lock, self._timed("txn-init"):
            self._need("init_transactions").init()

    def begin_transaction(self) -> None:
        """Begin a transaction. The log hears of it with `flush` or `commit_transaction`.

        Raises
        ------
        IllegalStateError
            ``transactional.id`` is not set, `init_transactions` is missing, a transaction has begun already, or the
            producer is closed.
        ProducerFencedError
            The producer was fenced before. Close it.
        """
        with self._lock, self._timed("txn-begin"):
            self._need("begin_transaction").begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit offsets of a consumer group together with the transaction, or not at all.

        Parameters
        ----------
        offsets
            The next offset to read, by partition: the offset of the last processed record plus one.
        group_metadata
            `Consumer.group_metadata` of the consumer that read the records. The id of a group is enough if the group
            has no members.

        Raises
        ------
        ConfigError
            The id of the group is empty.
        UnknownTopicOrPartitionError
            The log has no such topic.
        CommitFailedError
            The group was rebalanced, and the consumer may have lost its partitions. Call `abort_transaction`, and go
            on with the partitions that the consumer is assigned then.
        ProducerFencedError
            A newer producer has taken over ``transactional.id``. Close this one.
        IllegalStateError
            No transaction has begun, or the producer is closed.

        Examples
        --------
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> log = "memory://consume-transform-produce"
        >>> with Producer(log) as producer:
        ...     future = producer.send("orders", b"one")
        >>> consumer = Consumer(log, {"group.id": "copy", "auto.offset.reset": "earliest"})
        >>> consumer.subscribe(["orders"])
        >>> producer = Producer(log, {"transactional.id": "copy-1"})
        >>> producer.init_transactions()
        >>> for record in consumer.poll(1000):
        ...     producer.begin_transaction()
        ...     copied = producer.send("copies", record.value)
        ...     after = {TopicPartition(record.topic, record.partition): record.offset + 1}
        ...     producer.send_offsets_to_transaction(after, consumer.group_metadata())
        ...     producer.commit_transaction()
        >>> copied.result().offset
        0

        Notes
        -----
        KIP-447. The offsets and the records are in one entry of the log.
        """
        if isinstance(group_metadata, str):
            group_metadata = ConsumerGroupMetadata(group_metadata)
        group = group_metadata.group_id
        if not group:
            raise ConfigError("send_offsets_to_transaction needs the id of a consumer group")
        with self._lock, self._timed("txn-send-offsets"):
            transactions = self._need("send_offsets_to_transaction")
            transactions.check("send_offsets_to_transaction")
            log = self._log()
            wanted = []
            for at, value in offsets.items():
                topic = log.topic(at[0])
                offset = value if isinstance(value, tuple) else OffsetAndMetadata(value)
                place = PartitionOffset(
                    topic.name, topic.topic_id, at[1], offset.offset, offset.metadata or ""
                )
                wanted.append(place)
            transactions.add_offsets(group, group_metadata.membership, wanted)

    def commit_transaction(self) -> None:
        """Make the records and offsets of the transaction visible, all at once. Returns when they are durable.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Only `commit_transaction` is allowed next. It commits once, however often it is
            called.
        AbortableError
            Call `abort_transaction`. Every error with ``txn_requires_abort`` means that.
        ProducerFencedError
            A newer producer has taken over, or the transaction was open for longer than
            ``transaction.timeout.ms``. Every error with ``fatal`` means: close the producer.
        IllegalStateError
            No transaction has begun, or the producer is closed.

        Examples
        --------
        >>> from spark_eos import Producer
        >>> with Producer("memory://commit-transaction", {"transactional.id": "orders-1"}) as producer:
        ...     producer.init_transactions()
        ...     producer.begin_transaction()
        ...     first, second = producer.send("orders", b"one"), producer.send("payments", b"1 EUR")
        ...     producer.commit_transaction()
        >>> first.result().offset, second.result().offset
        (0, 0)

        Notes
        -----
        What happens when a reply is lost: docs/design/0001-protocol.md.
        """
        with self._lock:
            with self._timed("txn-commit"):
                self._need("commit_transaction").commit()
            self._log().expire_overdue()

    def abort_transaction(self) -> None:
        """End the transaction without its records and offsets: ``read_committed`` readers never see them.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Only `abort_transaction` is allowed next.
        ProducerFencedError
            A newer producer has taken over ``transactional.id``; it has ended the transaction.
        IllegalStateError
            No transaction has begun, or the producer is closed.
        """
        with self._lock, self._timed("txn-abort"):
            self._need("abort_transaction").abort()
