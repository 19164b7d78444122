"""The handler of a signal calls a client in the middle of another call of its thread, which goes on after it.

It would wait for ever for a lock of that call, or end the transaction that the call is about to commit.
"""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import IllegalStateError
from spark_eos.log.clock import Retry
from spark_eos.log.environment import PROCESS
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore

IN_THE_MIDDLE = "in the middle of another call"


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.open_or_create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t")
    return log


def interrupted(store, operation, call, handler):
    """Make a call, and ``handler`` in the middle of it, as Python does: its result, and the error of the handler."""
    errors = []

    def before(requested, _name):
        if requested != operation or errors:
            return
        errors.append(None)
        try:
            handler()
        except Exception as error:  # noqa: BLE001  (a handler that passes over its errors)
            errors[0] = error

    store.before = before
    pool = ThreadPoolExecutor(1)
    try:
        result = pool.submit(call).result(60)
        assert errors, "there was no such request"
        return result, errors[0]
    finally:
        store.before = lambda *_: None
        pool.shutdown(wait=False)


def values(log, isolation="read_committed"):
    with Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": isolation}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll(0)]


@pytest.mark.parametrize("name", ["flush", "close"])
def test_a_flush_is_not_made_once_more_inside_of_it(log, store, name):
    for operation in ("create", "upload"):
        producer = Producer(log, {"linger.ms": 100_000})
        future = producer.send("t", operation)
        _, error = interrupted(store, operation, producer.flush, getattr(producer, name))
        assert isinstance(error, RuntimeError)
        assert IN_THE_MIDDLE in str(error)
        producer.send("t", f"after {operation}")
        producer.close()
        assert future.done()
    assert values(log) == [b"create", b"after create", b"upload", b"after upload"]


CALLS = {
    "send": ("t", "lost"),
    "send_offsets_to_transaction": ({TopicPartition("t", 0): 1}, "g"),
    "close": (),
    "abort_transaction": (),
    "commit_transaction": (),
    "flush": (),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("call", "operation"), [("flush", "upload"), ("flush", "create"), ("commit_transaction", "upload")]
)
def test_a_transaction_is_left_alone_while_it_is_written(log, store, call, operation, name):
    """Its files were deleted, and then named by an entry. What was sent in the middle was in none."""
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", "one")
    handler = getattr(producer, name)
    _, error = interrupted(store, operation, getattr(producer, call), lambda: handler(*CALLS[name]))
    assert isinstance(error, RuntimeError)
    assert IN_THE_MIDDLE in str(error)
    if call == "flush":
        producer.commit_transaction()
    producer.close()
    assert values(log) == values(log, "read_uncommitted") == [b"one"]


@pytest.mark.parametrize("operation", ["upload", "create"])
def test_a_future_of_the_call_in_the_middle_is_not_waited_for(log, store, operation):
    """The handler would wait for a call that goes on after it."""
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send("t", "one")
    _, error = interrupted(store, operation, producer.flush, future.result)
    assert isinstance(error, IllegalStateError)
    producer.commit_transaction()
    producer.close()
    assert future.result(0).offset == 0


def test_a_callback_may_send_while_its_flush_ends(log):
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    futures = []
    producer.send("t", "one", on_delivery=lambda *_: futures.append(producer.send("t", "two")))
    producer.flush()
    producer.commit_transaction()
    producer.close()
    assert [future.result(0).offset for future in futures] == [1]
    assert values(log) == [b"one", b"two"]


def test_a_producer_is_not_left_in_the_middle_of_a_request(log):
    """As an interrupt leaves it that comes before anything can put the state back."""
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", "one")
    producer._transactions.state = ClientState.REQUESTING
    producer.send("t", "two")
    producer.commit_transaction()
    producer.close()
    assert values(log) == [b"one", b"two"]


def test_a_close_leaves_the_commit_that_it_interrupts(log, store):
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", "one")
    _, error = interrupted(store, "create", producer.commit_transaction, producer.close)
    assert error is None
    assert values(log) == [b"one"]


def test_another_client_of_the_log_does_not_wait_for_the_call(log, store):
    producer = Producer(log, {"linger.ms": 100_000})
    future = producer.send("t", "one")
    with Consumer(log, {"group.id": "g"}) as consumer:
        _, error = interrupted(store, "create", lambda: consumer.commit({("t", 0): 0}), producer.flush)
    assert isinstance(error, RuntimeError)
    assert IN_THE_MIDDLE in str(error)
    assert future.result(60).offset == 0
    producer.close()


def test_a_look_at_the_log_is_not_interrupted_by_a_commit(log):
    """It has read an entry, and would take it for the one after that of the commit."""
    errors = []
    other = Log.open(log.store, retry=Retry(deadline_s=0))
    log.ensure_topic("u")

    def interrupting(*arguments):
        with pytest.raises(RuntimeError, match=IN_THE_MIDDLE):
            other.ensure_topic("v")
        errors.append(arguments)
        return PROCESS.decode(*arguments)

    other._tail._environment = replace(PROCESS, decode=interrupting)
    assert "u" in other.follow().topics
    assert errors
    other.ensure_topic("v")


def test_a_callback_may_flush_and_close(log):
    """It is called when its record is decided."""
    producer = Producer(log, {"linger.ms": 100_000})
    calls = []
    producer.send("t", "one", on_delivery=lambda *_: calls.append(producer.flush()))
    producer.close()
    assert calls == [None]
    # Its producer's thread waits for the turn of the flush that has called.
    producer = Producer(log, {"linger.ms": 100_000})
    producer.send("t", "in between", on_delivery=lambda *_: calls.append(producer.close()))
    producer.flush()
    assert calls == [None, None]
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", "two", on_delivery=lambda *_: calls.append(producer.close()))
    producer.commit_transaction()
    assert calls == [None] * 3
    assert values(log) == [b"one", b"in between", b"two"]


def members(log):
    group = log.follow().groups.get("g")
    return [] if group is None else [*group.members]


@pytest.fixture
def consumer(log):
    with Producer(log) as producer:
        producer.send("t", "one")
    consumer = Consumer(log, {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    yield consumer
    consumer.close()


def test_a_consumer_that_is_closed_while_it_waits_joins_no_more(log, consumer):
    """It was a member again, without a thread that says that it is alive, and held its partitions."""
    assert [record.value for record in consumer.poll(0)] == [b"one"]
    sleep = log.clock.sleep

    class Clock:
        def __getattr__(self, name):
            return getattr(log_clock, name)

        def sleep(self, seconds):
            consumer.close()
            sleep(0.0)

    log_clock = log.clock
    consumer._log.clock = Clock()
    assert consumer.poll(60_000) == []
    consumer._log.clock = log_clock
    assert members(log) == []
    assert consumer._closed
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(0)


@pytest.mark.parametrize("operation", ["read", "create"])
def test_a_consumer_is_closed_behind_the_call_that_was_interrupted(log, store, consumer, operation):
    """The interrupted call returns no record, so that the close commits none that the program has not seen."""
    records, error = interrupted(store, operation, lambda: consumer.poll(0), consumer.close)
    assert error is None
    assert records == []
    assert members(log) == []
    committed = log.state.offset_of("g", "t", 0)
    assert committed is None or committed.offset == 0


def test_an_iteration_ends_when_its_consumer_is_closed(consumer):
    seen = []
    before, main = signal.getsignal(signal.SIGALRM), threading.main_thread()
    assert threading.current_thread() is main
    signal.signal(signal.SIGALRM, lambda *_: consumer.close())
    try:
        for record in consumer:
            seen.append(record.value)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [b"one"]
