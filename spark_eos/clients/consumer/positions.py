"""Where a consumer reads: its position in each partition, and offsets by place or time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_eos.clients.consumer.base import ConsumerBase
from spark_eos.clients.records import OffsetAndTimestamp
from spark_eos.errors import InvalidRequestError
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["ConsumerPositions"]


class ConsumerPositions(ConsumerBase):
    """The calls about positions. A position is the offset of the next record; it lives in this consumer alone."""

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
        number = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if number < 0:
            raise InvalidRequestError(f"offset {number} cannot be sought in {at}: offsets start at 0")
        self._one(at).seek(number)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Set positions to the first record.

        Parameters
        ----------
        *partitions
            Assigned partitions; without any, all of them.

        Raises
        ------
        IllegalStateError
            A partition is not assigned to this consumer, or the consumer is closed.
        """
        for at, offset in self.beginning_offsets(partitions or list(self._assigned)).items():
            self._one(at).seek(offset)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Set positions to the end; with ``isolation.level=read_committed``, to the last stable offset.

        Parameters
        ----------
        *partitions
            Assigned partitions; without any, all of them.

        Raises
        ------
        IllegalStateError
            A partition is not assigned to this consumer, or the consumer is closed.
        """
        for at, offset in self.end_offsets(partitions or list(self._assigned)).items():
            self._one(at).seek(offset)

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
        assigned = self._one(at)
        if assigned.position is None:
            self._offsets.start(assigned, self._offsets.settled([assigned.at]))
        assert assigned.position is not None
        return assigned.position

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
        wanted = [TopicPartition(*at) for at in partitions]
        return {at: partition_of(state, at).start for at in wanted}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up the end of partitions. They need not be assigned.

        Parameters
        ----------
        partitions
            The partitions to look at.

        Returns
        -------
        dict of TopicPartition to int
            The offset after the last record; with ``isolation.level=read_committed``, the last stable offset.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        """
        self._check_process("end_offsets")
        self._log.follow()
        state = self._log.end_overdue()
        wanted = [TopicPartition(*at) for at in partitions]
        return {at: end_offset(partition_of(state, at), self._isolation) for at in wanted}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after a time, in each partition. They need not be assigned.

        Parameters
        ----------
        times
            Milliseconds since 1970 (UTC), by partition.

        Returns
        -------
        dict of TopicPartition to OffsetAndTimestamp or None
            Offset and timestamp of the record; None where no record is that late.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.

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
        found = {}
        for at, timestamp_ms in times.items():
            answer = self._log.offset_for_time(TopicPartition(*at), timestamp_ms, self._isolation)
            found[TopicPartition(*at)] = None if answer is None else OffsetAndTimestamp(*answer)
        return found
