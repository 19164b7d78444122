"""The committed offsets of a consumer's group, and the consumer's membership in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_eos.clients.consumer.base import ConsumerBase
from spark_eos.clients.consumer.offset_manager import OnCommit
from spark_eos.clients.one_thread import one_at_a_time
from spark_eos.clients.producer.futures import RecordFuture
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.clients.validation import as_partition, as_partitions
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition


class ConsumerOffsets(ConsumerBase):
    """The calls about committed offsets. They live in the log, for each group."""

    @one_at_a_time
    def committed(self, partitions: TopicPartition | Iterable[TopicPartition], metadata: bool = False) -> Any:
        """Look up the committed offsets of the group.

        With ``isolation.level=read_committed`` this call waits for open transactions that carry offsets of the group
        for these partitions (KIP-447).

        Parameters
        ----------
        partitions
            The partitions to look at, or a single one. They need not be assigned.
        metadata
            For a single partition: return an `OffsetAndMetadata` in place of the offset.

        Returns
        -------
        dict of TopicPartition to OffsetAndMetadata or None, or int
            The next offset to read; None where nothing is committed. For a single partition its offset alone, as from
            kafka-python.

        Raises
        ------
        ConfigError
            ``group.id`` is not set.
        UnstableOffsetCommitError
            Such a transaction was still open after ``default.api.timeout.ms``.
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        IllegalStateError
            The consumer is closed.
        """
        self._need_group("committed")
        if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
            at = as_partition(partitions)
            offset = self._offsets.committed([at])[at]
            return offset if metadata or offset is None else offset.offset
        return self._offsets.committed(as_partitions(partitions))

    @one_at_a_time
    def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group. Returns when they are durable.

        After `subscribe` the commit is made as a member of the group.

        Parameters
        ----------
        offsets
            The next offset to read, by partition: the offset of the last processed record plus one. None: the
            positions of all assigned partitions.

        Raises
        ------
        ConfigError
            ``group.id`` is not set.
        CommitFailedError
            The group was rebalanced, or has members and this consumer is not one of them. Call `poll`, and go on
            with the partitions that are assigned then.
        CommitOutcomeUnknownError
            The store did not answer. Call `commit` again.
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        InvalidRequestError
            An offset is negative, or its metadata is longer than 4096 bytes.
        IllegalStateError
            The consumer is closed.

        Examples
        --------
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> with Producer("memory://commit") as producer:
        ...     future = producer.send("orders", b"first")
        >>> settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        >>> with Consumer("memory://commit", settings) as consumer:
        ...     consumer.subscribe(["orders"])
        ...     values = [record.value for record in consumer.poll(1000)]
        ...     consumer.commit()
        ...     consumer.committed([TopicPartition("orders", 0)])
        {TopicPartition(topic='orders', partition=0): OffsetAndMetadata(offset=1, metadata='')}
        """
        self._need_group("commit")
        self._offsets.commit(offsets)

    @one_at_a_time
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> RecordFuture[None]:
        """Commit offsets for the group in the background. Returns at once.

        Commits are made in the order of their calls; `commit`, `unsubscribe`, `close` and a `poll` that follows a
        rebalance wait for them. A commit that fails is not tried again, as in Kafka: a later one has newer offsets.

        Parameters
        ----------
        offsets
            As for `commit`. None: the positions of all assigned partitions now.
        callback
            Called with the offsets and an error, None if they are committed, by the next `poll`, `commit` or `close`
            after that.

        Returns
        -------
        RecordFuture of None
            Done when the offsets are durable, or the commit has failed; ``get()`` raises the error.

        Raises
        ------
        ConfigError
            ``group.id`` is not set.
        UnknownTopicOrPartitionError
            The log has no such topic.
        IllegalStateError
            The consumer is closed.

        Examples
        --------
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> with Producer("memory://commit-async") as producer:
        ...     future = producer.send("orders", b"first")
        >>> with Consumer(
        ...     "memory://commit-async", group_id="billing", auto_offset_reset="earliest"
        ... ) as consumer:
        ...     consumer.subscribe(["orders"])
        ...     records = consumer.poll(1000)
        ...     done = consumer.commit_async()
        ...     done.get(timeout=10)
        ...     consumer.committed(TopicPartition("orders", 0))
        1
        """
        self._need_group("commit_async")
        return self._offsets.commit_async(offsets, callback)

    @one_at_a_time
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and this consumer's membership in it.

        Returns
        -------
        ConsumerGroupMetadata
            For `Producer.send_offsets_to_transaction`. Ask again for each transaction: a rebalance changes it.

        Raises
        ------
        ConfigError
            ``group.id`` is not set.
        IllegalStateError
            The consumer is closed.

        Notes
        -----
        KIP-447: a transaction whose offsets come from an older generation of the group is refused.
        """
        group = self._need_group("group_metadata")
        metadata = ConsumerGroupMetadata(group) if self._rebalance is None else self._rebalance.metadata
        ids = {at.topic: assigned.topic.topic_id for at, assigned in self._assigned.items()}
        return metadata._replace(topic_ids=tuple(sorted(ids.items())))
