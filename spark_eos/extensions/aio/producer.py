"""A producer for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from spark_eos.clients.metrics import Metrics
from spark_eos.clients.opening import check_place
from spark_eos.clients.other_names import PRODUCER_CALLS, KafkasCalls
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.producer.transaction_states import PreparedTxnState
from spark_eos.clients.records import ConsumerGroupMetadata, Header, RecordMetadata
from spark_eos.errors import IllegalStateError
from spark_eos.extensions.aio.calls import Calls
from spark_eos.log.log import Log
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition


class AIOProducer(KafkasCalls):
    """A `Producer` for asyncio, with the calls of aiokafka's: no call blocks the event loop. It is made as `Producer`.

    A task may be cancelled in any call: the call is then made whole or not at all. A commit that was cancelled while it
    was being made may have committed; the next call waits for its end.

    Examples
    --------
    >>> import asyncio
    >>> from spark_eos import AIOProducer
    >>> async def main():
    ...     async with AIOProducer("memory://aio-producer") as producer:
    ...         return await producer.send_and_wait("orders", b"one")
    >>> asyncio.run(main()).offset
    0
    """

    _other_names = PRODUCER_CALLS

    def __init__(
        self,
        url: str | os.PathLike[str] | Log = "",
        config: Mapping[str, object] | None = None,
        **settings: Any,
    ) -> None:
        check_place(type(self).__name__, url, config)
        self._producer = Producer(url, config, **settings)
        self._is_transactional = self._producer._transactions is not None  # noqa: SLF001
        self._calls: Calls | None = None
        self._has_id = False
        self._stopped = False

    @property
    def client(self) -> Producer:
        """Tell which client does the work.

        Returns
        -------
        Producer
            It is this object's alone: call nothing of it but `Producer.metrics`.
        """
        return self._producer

    async def __aenter__(self) -> AIOProducer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, keep_prepared_transaction: bool = False) -> None:
        """Begin: with ``transactional.id`` take the id over. Nothing is opened before.

        Parameters
        ----------
        keep_prepared_transaction
            As of `Producer.init_transactions`. A block of ``async with`` starts without it.

        Raises
        ------
        IllegalStateError
            The producer was stopped.
        """
        if self._stopped:
            raise IllegalStateError("the producer was stopped: make a new one")
        if self._calls is None:
            self._calls = Calls("eoslog-aio-producer")
        if self._is_transactional:
            await self._calls.make(lambda: self._take_over(keep_prepared_transaction))

    async def stop(self) -> None:
        """Send the records that wait, abort the open transaction, and end."""
        calls, self._calls, self._stopped = self._calls, None, True
        if calls is not None:
            await calls.end(self._producer.close)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Add a record, as `Producer.send`. Waits only while ``buffer.memory`` is full.

        Returns
        -------
        asyncio.Future of RecordMetadata
            Done when the record is durable, or when it failed. In a transaction it is done by its commit. The loop's
            exception handler hears of one that failed and was never looked at.
        """
        call = partial(
            self._producer.send,
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        return _of_loop(await self._open().make(call), is_told=self._is_transactional)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> RecordMetadata:
        """Add a record, as `Producer.send`, and wait until it is durable.

        Not in a transaction, whose records wait for its commit.

        Returns
        -------
        RecordMetadata
            Where it is.

        Raises
        ------
        IllegalStateError
            The producer has transactions.
        """
        if self._is_transactional:
            raise IllegalStateError(
                "send_and_wait would wait for the commit: use send, then commit_transaction"
            )
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Send the records that wait. As `Producer.flush`."""
        await self._open().make(self._producer.flush)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. As `Producer.partitions_for`."""
        return await self._open().make(lambda: self._producer.partitions_for(topic))

    async def begin_transaction(self) -> None:
        """Begin a transaction. As `Producer.begin_transaction`."""
        await self._open().make(self._producer.begin_transaction, lambda _: self._abort_if_open())

    async def commit_transaction(self) -> None:
        """Commit the transaction. As `Producer.commit_transaction`."""
        await self._open().make(self._producer.commit_transaction)

    async def prepare_transaction(self) -> PreparedTxnState:
        """Prepare the transaction. As `Producer.prepare_transaction`."""
        return await self._open().make(self._producer.prepare_transaction)

    async def complete_transaction(self, prepared: PreparedTxnState | str | None) -> None:
        """Commit or abort the prepared transaction. As `Producer.complete_transaction`."""
        await self._open().make(lambda: self._producer.complete_transaction(prepared))

    async def abort_transaction(self) -> None:
        """Abort the transaction. As `Producer.abort_transaction`."""
        await self._open().make(self._producer.abort_transaction)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_id: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit offsets of a group with the transaction. As `Producer.send_offsets_to_transaction`.

        Parameters
        ----------
        group_id
            The result of `AIOConsumer.group_metadata`, or the id of a group without members.
        """
        await self._open().make(lambda: self._producer.send_offsets_to_transaction(offsets, group_id))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Make a transaction of a block: committed at its end, aborted if an error or a cancellation leaves it.

        Yields
        ------
        None
            Within the transaction.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            await asyncio.shield(self._open().begin(self._abort_if_open))
            raise

    def metrics(self) -> Metrics:
        """Return figures about what was sent. As `Producer.metrics`."""
        return self._producer.metrics()

    # -- Inside -----------------------------------------------------------------------------------------

    def _take_over(self, keep_prepared: bool) -> None:
        """Once. A start that was cancelled may have done it."""
        if not self._has_id:
            self._producer.init_transactions(keep_prepared)
            self._has_id = True

    def _abort_if_open(self) -> None:
        transactions = self._producer._transactions  # noqa: SLF001
        if transactions is not None and transactions.is_open:
            self._producer.abort_transaction()

    def _open(self) -> Calls:
        if self._calls is None:
            raise IllegalStateError("the producer is not started, or was stopped: await start() first")
        return self._calls


def _of_loop(future: Future[RecordMetadata], *, is_told: bool) -> asyncio.Future[RecordMetadata]:
    """The same for the event loop. Cancelling it leaves the record. ``is_told``: another call raises its error."""
    loop = asyncio.get_running_loop()
    loop_future: asyncio.Future[RecordMetadata] = loop.create_future()

    def settle() -> None:
        if loop_future.done():
            return
        error = future.exception()
        if error is None:
            loop_future.set_result(future.result())
        else:
            loop_future.set_exception(error)
            if is_told:
                loop_future.exception()  # Else the loop reports a future that was never looked at.

    def settled(_: Future[RecordMetadata]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    future.add_done_callback(settled)
    return loop_future
