"""What a consumer for asyncio does with its partitions, and the thread that makes its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.metrics import Metrics
from spark_eos.clients.other_names import CONSUMER_CALLS, KafkasCalls
from spark_eos.errors import IllegalStateError
from spark_eos.extensions.aio.calls import Calls
from spark_eos.protocol.types import TopicPartition

T = TypeVar("T")


class AIOPartitions(KafkasCalls):
    """The calls that choose partitions and places in them. They take effect in their order.

    The futures that they return may be awaited: each is done when its call has taken effect, or has its error.
    """

    _other_names = CONSUMER_CALLS

    def __init__(self) -> None:
        self._calls: Calls | None = None
        self._made: list[Consumer] = []
        """What the newest start has made. One that ends later than the next one begins has a list of its own."""

    def subscribe(
        self, topics: Any = (), pattern: Any = None, listener: object = None
    ) -> asyncio.Future[None]:
        """Share topics with the other members of the group. As `Consumer.subscribe`.

        The listener is called by another thread than that of the event loop: its methods are functions, not coroutines.
        They may call `AIOConsumer.client`. Calls of this object would wait for ever for the one that calls them.
        """
        return self._begin(lambda: self._consumer.subscribe(topics, pattern=pattern, listener=listener))

    def unsubscribe(self) -> asyncio.Future[None]:
        """Leave the group and read nothing. As `Consumer.unsubscribe`."""
        return self._begin(self._consumer.unsubscribe)

    def assign(self, partitions: Iterable[TopicPartition]) -> asyncio.Future[None]:
        """Read these partitions and no others. As `Consumer.assign`."""
        return self._begin(lambda: self._consumer.assign(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> asyncio.Future[None]:
        """Set the position of a partition. As `Consumer.seek`.

        Parameters
        ----------
        partition
            An assigned partition.
        """
        return self._begin(lambda: self._consumer.seek(partition, offset))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Set positions to the first record. As `Consumer.seek_to_beginning`."""
        await self._make(lambda: self._consumer.seek_to_beginning(*partitions))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Set positions to the end. As `Consumer.seek_to_end`."""
        await self._make(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: TopicPartition) -> asyncio.Future[None]:
        """Leave partitions out until `resume`. As `Consumer.pause`."""
        return self._begin(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> asyncio.Future[None]:
        """Read paused partitions again. As `Consumer.resume`."""
        return self._begin(lambda: self._consumer.resume(*partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer reads now.

        Returns
        -------
        set of TopicPartition
            Assigned by hand, or by the group at the last wait for records.
        """
        return set(self._consumer._assigned.copy())  # noqa: SLF001  (the calls' thread may be in a call)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused. As `Consumer.paused`."""
        assigned = self._consumer._assigned.copy()  # noqa: SLF001
        return {at for at, assignment in assigned.items() if assignment.paused}

    def metrics(self) -> Metrics:
        """Return figures about what was read. As `Consumer.metrics`."""
        return self._consumer.metrics()

    # -- Inside -----------------------------------------------------------------------------------------

    def _begin(self, call: Callable[[], None]) -> asyncio.Future[None]:
        return self._open().begin(call)

    async def _make(self, call: Callable[[], T]) -> T:
        return await self._open().make(call)

    def _open(self) -> Calls:
        if self._calls is None:
            raise IllegalStateError("the consumer is not started, or was stopped: await start() first")
        return self._calls

    @property
    def _consumer(self) -> Consumer:
        if not self._made:
            raise IllegalStateError("the consumer is not started: await start() first")
        return self._made[0]
