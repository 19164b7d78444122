"""Records that failed, and a stop that is cancelled, where a program of asyncio looks for them."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future

import pytest

from spark_eos import AIOProducer
from spark_eos.errors import AbortableError, StoreFullError
from spark_eos.extensions.aio.producer import _of_loop
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from tests.clients.test_failed_records import PATIENT, full  # noqa: F401  (a fixture)


def test_a_stop_that_is_cancelled_closes():
    log = Log.create(MemoryStore())
    log.ensure_topic("t")
    busy = threading.Event()

    async def main():
        producer = AIOProducer(log, PATIENT)
        await producer.start()
        await producer.send("t", b"one")
        waits = asyncio.ensure_future(producer._calls.make(lambda: busy.wait(60)))
        stopping = asyncio.ensure_future(producer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        busy.set()
        await waits
        await producer.stop()
        return producer._producer

    producer = asyncio.run(main())
    producer._sender._thread.join(60)  # It ends with the producer.
    assert producer._closed
    assert log.follow().partitions[log.state.topics["t"].topic_id, 0].end == 1


def test_asyncio_says_it_of_a_future_that_nobody_awaits(full):
    said = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
        producer = AIOProducer(full, PATIENT)
        await producer.start()
        await producer.send("t", b"one")
        await producer.stop()
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(main())
    assert [type(error) for error in said] == [StoreFullError]


def test_asyncio_says_nothing_of_a_future_whose_error_the_commit_raises(full):
    said = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
        producer = AIOProducer(full, PATIENT, transactional_id="t")
        await producer.start()
        await producer.begin_transaction()
        await producer.send("t", b"one")
        with pytest.raises(AbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.stop()
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(main())
    assert said == []


def test_a_record_that_is_not_awaited_any_longer_is_sent_all_the_same():
    said = []
    log = Log.create(MemoryStore())
    log.ensure_topic("t")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        producer = AIOProducer(log, {"linger.ms": 60_000})
        await producer.start()
        (await producer.send("t", b"one")).cancel()
        await producer.stop()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert said == []
    assert log.follow().partitions[log.state.topics["t"].topic_id, 0].end == 1


def test_a_record_that_is_done_when_the_loop_has_ended_is_no_error(caplog):
    record = Future()

    async def main():
        _of_loop(record, is_told=False)

    asyncio.run(main())
    record.set_result(None)
    assert caplog.text == ""
