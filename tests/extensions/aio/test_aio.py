"""Clients for asyncio: they never block the loop, and a task that is cancelled leaves nothing half done."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from spark_eos import Admin, AIOConsumer, AIOProducer, Consumer, Producer, TopicPartition
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    IllegalStateError,
    InvalidRecordError,
    InvalidRequestError,
    NotALogError,
    RecordTooLargeError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.log.poll_backoff import IDLE_S
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore

T0 = TopicPartition("t", 0)


class Slow:
    """A log whose store answers when it is let."""

    def __init__(self):
        self.store = FaultyStore(MemoryStore())
        self.log = Log.create(self.store)
        Admin(self.log).create_topic("t")
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        self.store.before = self.wait

    def wait(self, operation, _name):
        if operation == "create":
            self.asked.set()
            assert self.gate.wait(30)

    def hold(self):
        self.gate.clear()
        self.asked.clear()

    async def held(self):
        assert await asyncio.to_thread(self.asked.wait, 30)

    def values(self, **settings):
        with Consumer(self.log, auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([T0])
            return [record.value for record in consumer.poll()]


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.gate.set()


def fill(log, *values):
    with Producer(log) as producer:
        for value in values:
            producer.send("t", value)


def reader(log, **settings):
    return AIOConsumer(log, auto_offset_reset="earliest", **settings)


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- As programs for aiokafka have it ------------------------------------------------------------------------


def test_a_transactional_copy(slow):
    fill(slow.log, b"1", b"2")

    async def main():
        async with (
            reader(slow.log, group_id="g", enable_auto_commit=False) as consumer,
            AIOProducer(slow.log, transactional_id="copy") as producer,
        ):
            consumer.subscribe(["t"])
            for fails in (True, False):
                records = await consumer.getmany(timeout_ms=5000)
                try:
                    async with producer.transaction():
                        for record in records[T0]:
                            await producer.send("out", record.value)
                        await producer.send_offsets_to_transaction({T0: 2}, await consumer.group_metadata())
                        if fails:
                            raise KeyError  # noqa: TRY301  (it is what leaves the block)
                except KeyError:
                    await consumer.seek_to_beginning()
            assert await consumer.committed(T0) == 2
            assert producer.metrics()["producer-metrics"]["record-send-total"] == 2
            with pytest.raises(IllegalStateError, match="would wait for the commit"):
                await producer.send_and_wait("out", b"x")

    asyncio.run(main())
    with Consumer(slow.log, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition("out", 0)])
        assert [record.value for record in consumer.poll()] == [b"1", b"2"]


def test_what_calls_are_given_reaches_the_client(slow):
    headers = (("h", b"1"),)

    async def main():
        async with AIOProducer(slow.log) as producer, reader(slow.log, group_id="g") as consumer:
            sent = await producer.send_and_wait("t", b"v", b"k", 0, 5, headers)
            await producer.send_and_wait("t", b"w")
            await consumer.assign([T0])
            (record,) = (await consumer.getmany(5000, max_records=1))[T0]
            assert (record.key, record.timestamp, record.headers) == (b"k", sent.timestamp, headers)
            await consumer.commit({T0: 0})
            assert await consumer.committed(T0) == 0
            ends = await consumer.beginning_offsets([T0]), await consumer.end_offsets([T0])
            assert ends == ({T0: 0}, {T0: 2})
            assert (await consumer.offsets_for_times({T0: 5}))[T0].offset == 0
            await consumer.seek_to_end(T0)
            assert await consumer.position(T0) == 2

    asyncio.run(main())


def test_a_listener_is_called_by_another_thread(slow):
    fill(slow.log, b"1", b"2")

    class Commits:
        def __init__(self, consumer):
            self.consumer = consumer

        def on_partitions_revoked(self, partitions):
            self.consumer.client.commit(dict.fromkeys(partitions, 2))

    class Awaited:
        async def on_partitions_revoked(self, partitions):
            pass

    async def main():
        async with reader(slow.log, group_id="g", enable_auto_commit=False) as consumer:
            with pytest.raises(InvalidRequestError, match="is a coroutine function"):
                await consumer.subscribe(["t"], listener=Awaited())
            consumer.subscribe(["t"], listener=Commits(consumer))
            assert await consumer.getmany(timeout_ms=5000)

    asyncio.run(main())
    assert Admin(slow.log).list_group_offsets("g")[T0].offset == 2


def test_errors_come_where_they_are_awaited(slow):
    async def main():
        producer = AIOProducer(slow.log, max_request_size=10)
        with pytest.raises(IllegalStateError, match="await start"):
            await producer.send("t", b"x")
        async with producer:
            with pytest.raises(InvalidRecordError):
                await producer.send("t", 7)
            with pytest.raises(RecordTooLargeError):
                await producer.send_and_wait("t", b"x" * 11)
        with pytest.raises(IllegalStateError, match="stopped"):
            await producer.start()
        consumer = reader(slow.log)
        with pytest.raises(IllegalStateError, match="await start"):
            consumer.seek(T0, 0)
        async with consumer:
            with pytest.raises(IllegalStateError, match="not assigned"):
                await consumer.seek(T0, 0)

    asyncio.run(main())


# -- The loop is never blocked -------------------------------------------------------------------------------


def test_the_loop_goes_on_while_the_store_does_not_answer(slow):
    fill(slow.log, b"0")

    async def main():
        async with AIOProducer(slow.log) as producer, reader(slow.log, group_id="g") as consumer:
            await consumer.assign([T0])
            assert (await consumer.getone()).value == b"0"
            slow.hold()
            sent = asyncio.create_task(producer.send_and_wait("t", b"1"))
            commit = asyncio.create_task(consumer.commit())
            one = asyncio.create_task(consumer.getone())
            await slow.held()
            await asyncio.sleep(0.1)
            assert [task.done() for task in (sent, commit, one)] == [False] * 3
            slow.gate.set()  # Nothing but the loop itself lets the store answer.
            await asyncio.gather(sent, commit, one)

    asyncio.run(main())


# -- Cancelled tasks -----------------------------------------------------------------------------------------


def test_a_cancelled_send_is_made_whole_or_not_at_all(slow):
    async def main():
        async with AIOProducer(slow.log, linger_ms=0) as producer:
            await producer.send_and_wait("t", b"0")
            slow.hold()
            under_way = asyncio.create_task(producer.send_and_wait("t", b"1"))
            await slow.held()
            flush = asyncio.create_task(producer.flush())
            await asyncio.sleep(0.01)
            queued = asyncio.create_task(producer.send("t", b"never"))
            await asyncio.sleep(0.01)
            await cancelled(queued)
            await cancelled(under_way)
            await cancelled(flush)
            slow.gate.set()
            assert (await producer.send_and_wait("t", b"2")).offset == 2

    asyncio.run(main())
    assert slow.values() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("when", ["queued", "made"])
def test_a_cancelled_commit_of_a_transaction(slow, when):
    async def main():
        async with AIOProducer(slow.log, transactional_id="a") as producer:

            async def work():
                async with producer.transaction():
                    await producer.send("t", b"1")
                    if when == "queued":
                        await asyncio.sleep(60)

            task = asyncio.create_task(work())
            if when == "made":
                slow.hold()
                await slow.held()
                task.cancel()
                slow.gate.set()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                await asyncio.sleep(0.1)
                await cancelled(task)
            async with producer.transaction():
                await producer.send("t", b"2")

    asyncio.run(main())
    kept = [b"1"] if when == "made" else []
    assert slow.values(isolation_level="read_committed") == [*kept, b"2"]


def test_a_transaction_whose_begin_was_cancelled_is_not_left_open(slow, monkeypatch):
    begun, goes_on = threading.Event(), threading.Event()

    async def main():
        async with AIOProducer(slow.log, transactional_id="a") as producer:
            begin = producer.client.begin_transaction

            def slowly():
                begun.set()
                assert goes_on.wait(30)
                begin()

            with monkeypatch.context() as patched:
                patched.setattr(producer.client, "begin_transaction", slowly)
                task = asyncio.ensure_future(producer.begin_transaction())
                assert await asyncio.to_thread(begun.wait, 30)
                await cancelled(task)
            goes_on.set()
            async with producer.transaction():
                await producer.send("t", b"1")

    asyncio.run(main())
    assert slow.values() == [b"1"]


@pytest.mark.parametrize("call", ["getone", "getmany"])
def test_cancelled_reads_pass_no_record_over(slow, call):
    values = [b"%d" % number for number in range(40)]
    fill(slow.log, *values)

    async def main():
        seen = []
        async with reader(slow.log, group_id="g", max_poll_records=7, enable_auto_commit=False) as consumer:
            await consumer.assign([T0])
            turn = 0
            while len(seen) < len(values):
                turn += 1
                task = asyncio.create_task(consumer.getone() if call == "getone" else consumer.getmany())
                if turn % 3:
                    await asyncio.sleep(0.0002 * (turn % 11))
                    task.cancel()
                try:
                    found = await task
                except asyncio.CancelledError:
                    continue
                seen += [found] if call == "getone" else found.get(T0, [])
                await consumer.commit()
                assert await consumer.committed(T0) == len(seen)
        return [record.value for record in seen]

    assert asyncio.run(main()) == values


async def until(reached):
    for _ in range(3000):
        if reached():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(reached)


def finish_calls(consumer):
    """The calls that were begun are made, and the event loop has not heard of it."""
    consumer._calls._pool.submit(lambda: None).result(30)


def test_cancelled_reads_of_several_tasks_pass_no_record_over(slow):
    """The second one was undone in place of the first one."""
    fill(slow.log, b"0", b"1", b"2")

    async def main():
        async with reader(slow.log) as consumer:
            await consumer.assign([T0])
            tasks = [asyncio.create_task(consumer.getone()) for _ in range(2)]
            await asyncio.sleep(0)
            finish_calls(consumer)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return await consumer.position(T0), (await consumer.getone()).value

    assert asyncio.run(main()) == (0, b"0")


def test_a_stop_commits_no_record_that_a_cancelled_task_has_not_got(slow):
    fill(slow.log, b"0")

    async def main():
        consumer = reader(slow.log, group_id="g")
        await consumer.start()
        await consumer.assign([T0])
        task = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0)
        finish_calls(consumer)
        task.cancel()
        await consumer.stop()

    asyncio.run(main())
    with Consumer(slow.log, group_id="g") as consumer:
        assert not consumer.committed(T0)


def test_a_seek_behind_a_cancelled_read_counts(slow):
    """The read was undone after it, and the seek with it."""
    fill(slow.log, b"0", b"1", b"2")

    async def main():
        async with reader(slow.log) as consumer:
            await consumer.assign([T0])
            await consumer.getmany(max_records=1)
            task = asyncio.create_task(consumer.getmany())
            await asyncio.sleep(0)
            finish_calls(consumer)
            task.cancel()
            consumer.seek(T0, 0)
            return (await consumer.getone()).value

    assert asyncio.run(main()) == b"0"


def test_another_assignment_commits_no_record_that_a_cancelled_task_has_not_got(slow):
    fill(slow.log, b"0")

    async def main():
        async with reader(slow.log, group_id="g") as consumer:
            await consumer.assign([T0])
            task = asyncio.create_task(consumer.getmany())
            await asyncio.sleep(0)
            finish_calls(consumer)
            task.cancel()
            await consumer.assign([])
            assert not await consumer.committed(T0)

    asyncio.run(main())


def test_a_call_that_is_taken_back_holds_up_no_other(slow):
    async def main():
        async with reader(slow.log) as consumer:
            await consumer.assign([T0])
            gate = threading.Event()
            held = consumer._calls.begin(lambda: gate.wait(30))
            at_once, waiting = consumer.seek(T0, 7), consumer.seek(T0, 8)
            at_once.cancel()
            await asyncio.sleep(0)
            waiting.cancel()
            asking = asyncio.ensure_future(consumer.position(T0))
            await asyncio.sleep(0)
            assert not asking.done()
            gate.set()
            await held
            return await asking

    assert asyncio.run(asyncio.wait_for(main(), 30)) == 0


@pytest.mark.parametrize("reads", [False, True], ids=["idle", "reading"])
def test_a_stop_of_a_consumer_that_is_cancelled_leaves_the_group(slow, reads):
    """It stayed a member, with signs of life, until the process ended."""

    async def main():
        consumer = reader(slow.log, group_id="g")
        await consumer.start()
        await consumer.subscribe(["t"])
        await consumer.getmany()
        gate = threading.Event()
        consumer._calls._pool.submit(gate.wait, 30)
        if reads:
            asyncio.create_task(consumer.getmany()).add_done_callback(lambda read: read.exception())
            await asyncio.sleep(0)
        stop = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0.01)
        await cancelled(stop)
        gate.set()
        await until(lambda: consumer.client._closed)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert not Admin(slow.log).describe_group("g").members


def test_a_call_that_waits_for_another_one_ends_with_the_client(slow):
    async def main():
        consumer = reader(slow.log)
        await consumer.start()
        await consumer.assign([T0])
        first = asyncio.create_task(consumer.topics())
        await asyncio.sleep(0)
        stop = asyncio.create_task(consumer.stop())
        waiting = asyncio.ensure_future(consumer._make(lambda: None))
        await stop
        assert await first == {"t"}
        with pytest.raises(IllegalStateError, match="stopped"):
            await waiting

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_iteration_ends_where_another_task_stops_the_consumer(slow):
    """In a quiet time, too."""
    fill(slow.log, b"0")

    async def main():
        consumer = reader(slow.log)
        await consumer.start()
        await consumer.assign([T0])
        seen = []

        async def read():
            async for record in consumer:
                seen.append(record.value)  # noqa: PERF401

        reading = asyncio.create_task(read())
        await until(lambda: seen)
        await asyncio.sleep(0.05)
        await consumer.stop()
        await reading
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 30)) == [b"0"]


def test_a_cancelled_commit_is_made_whole_or_not_at_all(slow):
    fill(slow.log, b"0", b"1")

    async def main():
        async with reader(slow.log, group_id="g", enable_auto_commit=False) as consumer:
            await consumer.assign([T0])
            slow.hold()
            made = asyncio.create_task(consumer.commit({T0: 1}))
            await slow.held()
            queued = asyncio.create_task(consumer.commit({T0: 2}))
            await asyncio.sleep(0.01)
            await cancelled(queued)
            await cancelled(made)
            slow.gate.set()
            assert await consumer.committed(T0) == 1

    asyncio.run(main())


def test_a_quiet_time_is_over_with_the_next_record(slow):
    slow.store.requests_are_free = False
    log = Log.open(slow.store)

    async def main():
        async with reader(log) as consumer:
            await consumer.assign([T0])
            for read in (consumer.getone, lambda: consumer.getmany(timeout_ms=5000)):
                for _ in range(9):
                    longest_s = consumer._backoff.wait_s()
                assert longest_s > IDLE_S
                fill(slow.log, b"0")
                await read()
                assert consumer._backoff.wait_s() == IDLE_S

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["1", None, float("nan")], ids=repr)
def test_a_wait_that_is_no_number(slow, wrong):
    """With NaN it never ended."""

    async def main():
        async with reader(slow.log) as consumer:
            await consumer.assign([T0])
            with pytest.raises(InvalidRequestError, match=r"timeout_ms is .*: it has to be a number"):
                await asyncio.wait_for(consumer.getmany(wrong), 5)

    asyncio.run(main())


def test_a_start_that_failed_is_made_again(slow):
    log = Log.open(slow.store, retry=Retry(deadline_s=0))

    async def main():
        producer = AIOProducer(log, transactional_id="t")
        slow.store.inject(Fault.LOST, "create", "_log/*")
        with pytest.raises(CommitOutcomeUnknownError):
            await producer.start()
        async with producer, producer.transaction():
            await producer.send("t", b"0")

    asyncio.run(main())
    assert slow.values() == [b"0"]


def test_a_block_that_is_cancelled_twice_is_aborted(slow):
    """The second time while its abort waits for the call before."""

    async def main():
        async with AIOProducer(slow.log, transactional_id="t") as producer:

            async def block():
                async with producer.transaction():
                    await producer.send("t", b"0")
                    await producer.flush()

            slow.hold()
            task = asyncio.create_task(block())
            await slow.held()
            task.cancel()
            await asyncio.sleep(0.05)  # It has asked for the abort.
            await cancelled(task)
            slow.gate.set()
            await producer.begin_transaction()

    asyncio.run(main())


def test_a_record_that_is_durable_after_the_end_of_the_loop(slow, caplog):
    async def main():
        producer = AIOProducer(slow.log)
        await producer.start()
        slow.hold()
        await producer.send("t", b"0")
        return producer

    producer = asyncio.run(main())
    slow.gate.set()
    producer.client.close()
    assert slow.values() == [b"0"]
    assert caplog.messages == []


def test_a_start_that_was_cancelled_is_made_again(slow):
    """It had taken the id over, which is done once."""

    async def main():
        producer = AIOProducer(slow.log, transactional_id="t")
        slow.hold()
        starting = asyncio.create_task(producer.start())
        await slow.held()
        await cancelled(starting)
        slow.gate.set()
        async with producer, producer.transaction():
            await producer.send("t", b"0")

    asyncio.run(main())
    assert slow.values() == [b"0"]


def test_the_paused_partitions_are_those_that_are_left_out(slow):
    fill(slow.log, b"0")  # While there is one partition.
    Admin(slow.log).create_partitions({"t": 2})

    async def main():
        async with reader(slow.log) as consumer:
            consumer.assign([T0, TopicPartition("t", 1)])
            await consumer.pause(T0)
            assert consumer.paused() == {T0}
            assert await consumer.getmany() == {}
            await consumer.resume(T0)
            assert consumer.paused() == set()

    asyncio.run(main())


def test_a_start_of_a_consumer_that_was_cancelled_leaves_none_open(slow, monkeypatch):
    """Nothing else has the consumer that comes of it."""
    begun, gate, closed = (threading.Event() for _ in range(3))

    class Held(AIOConsumer):
        def _make_consumer(self):
            begun.set()
            assert gate.wait(30)
            return super()._make_consumer()

    close = Consumer.close
    monkeypatch.setattr(Consumer, "close", lambda *args, **named: (close(*args, **named), closed.set()))

    async def main():
        starting = asyncio.create_task(Held(slow.log).start())
        assert await asyncio.to_thread(begun.wait, 30)
        await cancelled(starting)
        gate.set()
        assert await asyncio.to_thread(closed.wait, 30)

    asyncio.run(main())


def test_a_start_that_ends_late_does_not_touch_the_consumer_of_the_next_one(slow):
    begun, gate, closed = (threading.Event() for _ in range(3))

    class Held(AIOConsumer):
        def _make_consumer(self):
            made = super()._make_consumer()
            if not begun.is_set():
                begun.set()
                assert gate.wait(30)
                close, made.close = made.close, lambda: (close(), closed.set())
            return made

    async def main():
        consumer = Held(slow.log)
        starting = asyncio.create_task(consumer.start())
        assert await asyncio.to_thread(begun.wait, 30)
        await cancelled(starting)
        async with consumer:
            client = consumer.client
            gate.set()
            assert await asyncio.to_thread(closed.wait, 30)
            assert consumer.client is client
            return await consumer.topics()

    assert asyncio.run(main()) == {"t"}


def test_a_stop_that_ends_late_does_not_close_the_consumer_of_the_next_start(slow):
    gate, closed = threading.Event(), threading.Event()

    async def main():
        consumer = AIOConsumer(slow.log)
        await consumer.start()
        old = consumer.client
        close, old.close = old.close, lambda: (gate.wait(30), close(), closed.set())
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        await cancelled(stopping)
        async with consumer:
            gate.set()
            assert await asyncio.to_thread(closed.wait, 30)
            assert consumer.client is not old
            return await consumer.topics()

    assert asyncio.run(main()) == {"t"}


def test_a_relative_path_is_that_of_the_constructor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Producer("log") as producer:
        producer.send("t", b"1")
    consumer = AIOConsumer("log")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    async def topics():
        async with consumer:
            return await consumer.topics()

    assert asyncio.run(topics()) == {"t"}


def test_a_subscription_that_has_failed_is_not_waited_for(slow):
    """The program has not awaited it, as with aiokafka, where it raises at once."""

    async def main():
        async with AIOConsumer(slow.log) as consumer:
            consumer.subscribe(["t"]).add_done_callback(lambda failed: failed.exception())
            with pytest.raises(IllegalStateError, match="reads nothing"):
                await consumer.getone()
            with pytest.raises(IllegalStateError, match="reads nothing"):
                await consumer.getmany(60_000)

    asyncio.run(main())


def test_a_consumer_that_could_not_start_can_start_again(tmp_path):
    async def main():
        consumer = AIOConsumer(str(tmp_path / "log"))
        with pytest.raises(NotALogError):
            await consumer.start()
        Admin(str(tmp_path / "log")).create_topic("t")
        async with consumer:
            return await consumer.topics()

    assert asyncio.run(main()) == {"t"}


def test_no_records_are_waited_for_no_longer_than_asked(slow):
    async def main():
        async with AIOConsumer(slow.log) as consumer:
            consumer._backoff = SimpleNamespace(wait_s=lambda: 3600.0)
            await consumer.assign([T0])
            return await asyncio.wait_for(consumer.getmany(timeout_ms=20), 60)

    assert asyncio.run(main()) == {}
