"""A consumer for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.opening import check_place
from spark_eos.clients.records import ConsumerGroupMetadata, ConsumerRecord, OffsetAndTimestamp
from spark_eos.clients.validation import check_time
from spark_eos.errors import IllegalStateError
from spark_eos.extensions.aio.calls import Calls
from spark_eos.extensions.aio.partitions import AIOPartitions
from spark_eos.log.log import Log
from spark_eos.log.poll_backoff import PollBackoff
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition
from spark_eos.storage.urls import absolute


class AIOConsumer(AIOPartitions):
    """A `Consumer` for asyncio, with the calls of aiokafka's: no call blocks the event loop. It is made as `Consumer`.

    ``async for record in consumer`` gives one record after the other. A task may be cancelled in any call: no record is
    passed over, and a commit is made whole or not at all. `seek`, `pause`, `assign`, `subscribe` and their like take
    effect in the order of the calls, and return a future that may be awaited.

    Examples
    --------
    >>> import asyncio
    >>> from spark_eos import AIOConsumer, Producer
    >>> with Producer("memory://aio-consumer") as producer:
    ...     future = producer.send("orders", b"one")
    >>> async def main():
    ...     async with AIOConsumer(
    ...         "memory://aio-consumer", group_id="g", auto_offset_reset="earliest"
    ...     ) as consumer:
    ...         consumer.subscribe(["orders"])
    ...         async for record in consumer:
    ...             return record.value
    >>> asyncio.run(main())
    b'one'
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | Log = "",
        config: Mapping[str, object] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        check_place(type(self).__name__, url, config)
        self._url = url if isinstance(url, Log) else absolute(url)
        self._config = config
        self._settings = settings
        self._backoff: PollBackoff | None = None

    @property
    def client(self) -> Consumer:
        """Tell which client does the work.

        Returns
        -------
        Consumer
            It is this object's alone: call nothing of it but `Consumer.metrics`, and in a listener what that may call.
        """
        return self._consumer

    async def __aenter__(self) -> AIOConsumer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __aiter__(self) -> AIOConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if self._calls is None:
            raise StopAsyncIteration
        try:
            return await self.getone()
        except IllegalStateError:
            if self._calls is None:  # Another task has stopped it meanwhile.
                raise StopAsyncIteration from None
            raise

    async def start(self) -> None:
        """Open the log. All other calls come after it."""
        if self._calls is None:
            calls = self._calls = Calls("eoslog-aio-consumer")
            made = self._made = []
            try:
                await calls.make(lambda: made.append(self._make_consumer()))
            except BaseException:
                self._calls = None
                calls.last(lambda: _close(made))
                raise
            self._backoff = PollBackoff(made[0]._log.store)  # noqa: SLF001

    async def stop(self) -> None:
        """Commit the positions if ``enable.auto.commit`` is on, and leave the group."""
        calls, self._calls, made = self._calls, None, self._made
        if calls is not None:
            await calls.end(lambda: _close(made))

    # -- Records ----------------------------------------------------------------------------------------

    async def getone(self) -> ConsumerRecord:
        """Wait for the next record.

        Returns
        -------
        ConsumerRecord
            The record. The position is that after it.
        """
        while True:
            record = await self._open().make(self._next, lambda _: self._undo_next())
            if record is not None:
                self._waits.over()
                return record
            await self._idle()

    async def getmany(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records, by partition. As `Consumer.poll`."""
        check_time(timeout_ms, "timeout_ms")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            records = await self._open().make(
                lambda: Consumer.poll(self._consumer, 0, max_records), lambda _: self._undo_poll()
            )
            if records:
                self._waits.over()
            if records or loop.time() >= deadline:
                return records.by_partition()
            await self._idle(deadline - loop.time())

    # -- Offsets ----------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group. As `Consumer.commit`."""
        await self._make(lambda: self._consumer.commit(offsets))

    async def committed(self, partition: TopicPartition) -> int | None:
        """Look up the committed offset of a partition. As `Consumer.committed`.

        Parameters
        ----------
        partition
            The partition.

        Returns
        -------
        int or None
            The next offset to read; None: nothing is committed.
        """
        offset: int | None = await self._make(lambda: self._consumer.committed(partition))
        return offset

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition. As `Consumer.position`.

        Parameters
        ----------
        partition
            An assigned partition.
        """
        return await self._make(lambda: self._consumer.position(partition))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up the first offset of partitions. As `Consumer.beginning_offsets`."""
        return await self._make(lambda: self._consumer.beginning_offsets(partitions))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Look up the end of partitions. As `Consumer.end_offsets`."""
        return await self._make(lambda: self._consumer.end_offsets(partitions))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after a time. As `Consumer.offsets_for_times`.

        Parameters
        ----------
        timestamps
            Milliseconds since 1970 (UTC), by partition.
        """
        return await self._make(lambda: self._consumer.offsets_for_times(timestamps))

    async def topics(self) -> set[str]:
        """Return the topics of the log. As `Consumer.topics`."""
        return await self._make(self._consumer.topics)

    async def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and this consumer's membership in it. As `Consumer.group_metadata`."""
        return await self._make(self._consumer.group_metadata)

    # -- Inside -----------------------------------------------------------------------------------------

    def _make_consumer(self) -> Consumer:
        return Consumer(self._url, self._config, **self._settings)

    def _next(self) -> ConsumerRecord | None:
        """The next record, without a wait."""
        return self._consumer._next(0)  # noqa: SLF001

    def _undo_next(self) -> None:
        self._consumer._ahead.undo()  # noqa: SLF001

    def _undo_poll(self) -> None:
        self._consumer._fetcher.rewind()  # noqa: SLF001

    @property
    def _waits(self) -> PollBackoff:
        assert self._backoff is not None
        return self._backoff

    async def _idle(self, left_s: float = 1.0) -> None:
        await asyncio.sleep(min(self._waits.wait_s(), max(0.0, left_s)))


def _close(made: list[Consumer]) -> None:
    for consumer in made:
        consumer.close()
