"""Where a consumer reads: its position in each partition, and offsets by place or time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from spark_eos.clients.consumer.base import ConsumerBase, listed_partitions
from spark_eos.clients.one_thread import one_at_a_time
from spark_eos.clients.records import OffsetAndTimestamp
from spark_eos.clients.validation import as_offsets, as_partitions, by_partition, check_time
from spark_eos.errors import InvalidRequestError
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition


class ConsumerPositions(ConsumerBase):
    """The calls about positions. A position is the offset of the next record; it lives in this consumer alone."""

    @one_at_a_time
    def seek(self, at: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Set the position of a partition. The next `poll` reads from there.

        Parameters
        ----------
        at
            An assigned partition.
        offset
            The offset of the next record to read, at least 0. An offset beyond the end is found out by ``poll``.

        Raises
        ------
        IllegalStateError
            The partition is not assigned to this consumer, or the consumer is closed.
        InvalidRequestError
            The offset is negative.
        """
        number = as_offsets({at: offset})[at].offset
        if number < 0:
            raise InvalidRequestError(f"offset {number} cannot be sought in {at}: offsets start at 0")
        self._assigned_at(at).seek(number)

    @one_at_a_time
    def seek_to_beginning(self, *partitions: TopicPartition | Collection[TopicPartition]) -> None:
        """Set positions to the first record.

        Parameters
        ----------
        *partitions
            Assigned partitions, or one list of them; without any, all of them.

        Raises
        ------
        IllegalStateError
            A partition is not assigned to this consumer, or the consumer is closed.
        """
        for at, offset in self.beginning_offsets(
            listed_partitions(partitions) or list(self._assigned)
        ).items():
            self._assigned_at(at).seek(offset)

    @one_at_a_time
    def seek_to_end(self, *partitions: TopicPartition | Collection[TopicPartition]) -> None:
        """Set positions to the end; with ``isolation.level=read_committed``, to the last stable offset.

        As `Consumer.seek_to_beginning`.
        """
        for at, offset in self.end_offsets(listed_partitions(partitions) or list(self._assigned)).items():
            self._assigned_at(at).seek(offset)

    @one_at_a_time
    def position(self, at: TopicPartition) -> int:
        """Return the offset of the next record of a partition.

        Parameters
        ----------
        at
            An assigned partition.

        Returns
        -------
        int
            Before the first `poll`: the committed offset, else what ``auto.offset.reset`` says.

        Raises
        ------
        NoOffsetForPartitionError
            Nothing is committed, and ``auto.offset.reset`` is ``none``.
        IllegalStateError
            The partition is not assigned to this consumer, or the consumer is closed.
        """
        assigned = self._assigned_at(at)
        if assigned.position is None:
            self._offsets.start(assigned, self._offsets.settled([assigned.at]))
        assert assigned.reached is not None
        return assigned.reached

    @one_at_a_time
    def highwater(self, at: TopicPartition) -> int:
        """Return the end of an assigned partition, as this consumer knows it from its last call.

        Parameters
        ----------
        at
            An assigned partition.

        Returns
        -------
        int
            The offset after the last record, of open transactions too. `end_offsets` looks it up now.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic was deleted, or created again.
        IllegalStateError
            The partition is not assigned to this consumer, or the consumer is closed.
        """
        assigned = self._assigned_at(at)
        assigned.check_topic(self._log.state)
        return partition_of(self._log.state, assigned.at).end

    @one_at_a_time
    def topics(self) -> set[str]:
        """Return the topics of the log.

        Returns
        -------
        set of str
            Their names.
        """
        self._check_open("topics")
        return set(self._log.follow().topics)

    @one_at_a_time
    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions of a topic.

        Parameters
        ----------
        topic
            The name of the topic.

        Returns
        -------
        set of int
            Their numbers; empty if the log has no such topic.
        """
        self._check_open("partitions_for_topic")
        current = self._log.follow().topics.get(topic)
        return set() if current is None else set(range(current.partitions))

    @one_at_a_time
    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up the first offset of partitions. They need not be assigned.

        Parameters
        ----------
        partitions
            The partitions to look at.

        Returns
        -------
        dict of TopicPartition to int
            The offset of the first record that is still readable.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        """
        self._check_process("beginning_offsets")
        state = self._log.follow()
        targets = as_partitions(partitions)
        return {at: partition_of(state, at).start for at in targets}

    @one_at_a_time
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up the end of partitions. They need not be assigned. As `Consumer.beginning_offsets`.

        Returns
        -------
        dict of TopicPartition to int
            The offset after the last record; with ``isolation.level=read_committed``, the last stable offset.
        """
        self._check_process("end_offsets")
        self._log.follow()
        state = self._log.end_overdue()
        targets = as_partitions(partitions)
        return {at: end_offset(partition_of(state, at), self._isolation) for at in targets}

    @one_at_a_time
    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after a time, in each partition. They need not be assigned.

        Parameters
        ----------
        times
            Milliseconds since 1970 (UTC), at least 0, by partition.

        Returns
        -------
        dict of TopicPartition to OffsetAndTimestamp or None
            Offset and timestamp of the record; None where no record is that late.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        InvalidRequestError
            A time is no number or negative, or they are not given by partition.

        Examples
        --------
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> with Producer("memory://times") as producer:
        ...     futures = [producer.send("t", b"x", timestamp_ms=ms) for ms in (1000, 2000)]
        >>> at = TopicPartition("t", 0)
        >>> Consumer("memory://times").offsets_for_times({at: 1500})[at]
        OffsetAndTimestamp(offset=1, timestamp_ms=2000)
        """
        self._check_process("offsets_for_times")
        self._log.follow()
        self._log.end_overdue()
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for at, timestamp_ms in by_partition(times, "time").items():
            check_time(timestamp_ms, f"the time of {at}", "milliseconds since 1970")
            if timestamp_ms < 0:
                # In Kafka's requests -1 is the end and -2 the begin.
                raise InvalidRequestError(
                    f"the time of {at} is {timestamp_ms}: it is milliseconds since 1970, at least 0. beginning_offsets "
                    "and end_offsets look up the begin and the end"
                )
            answer = self._log.offset_for_time(at, timestamp_ms, self._isolation)
            offsets[at] = None if answer is None else OffsetAndTimestamp(*answer)
        return offsets
