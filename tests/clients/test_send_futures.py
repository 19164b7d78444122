"""Futures of records: made when they are looked at, and told in the order of the records."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import gc
import itertools
import pickle
import sys
import threading

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.clients.producer.futures import Outcome, RecordFuture, SendFuture
from spark_eos.errors import AbortableError, IllegalStateError, KafkaTimeoutError, RecordTooLargeError

NAMES = (f"memory://send-futures-{number}" for number in itertools.count())
T0 = TopicPartition("t", 0)
PATIENT = {"linger.ms": 100_000, "batch.size": 1_000_000}
"""Nothing goes out before it is flushed."""


@pytest.fixture
def url():
    return next(NAMES)


@pytest.fixture
def outcome():
    return Outcome(lambda: False)


@pytest.fixture
def producer(url):
    with Producer(url, PATIENT) as producer:
        yield producer


def transactional(url):
    producer = Producer(url, {"transactional.id": "app"})
    producer.init_transactions()
    producer.begin_transaction()
    return producer


# -- The future alone -------------------------------------------------------------------------------------


def test_a_time_that_ran_out_before_is_no_wait_that_was_too_short():
    future = RecordFuture()
    with pytest.raises(KafkaTimeoutError, match=r"not sent after 0 s: call get again"):
        future.get(0)
    future.set_exception(TimeoutError("it came too late"))
    with pytest.raises(TimeoutError, match="it came too late"):
        future.get(0)


@pytest.mark.parametrize("how", [copy.copy, pickle.dumps])
def test_a_future_is_neither_copied_nor_pickled(outcome, how):
    with pytest.raises(IllegalStateError, match=r"take its result\(\) along"):
        how(SendFuture(outcome, 0))


def test_a_future_has_no_state_before_somebody_looks(outcome):
    future = SendFuture(outcome, 0)
    assert not vars(future)
    assert not future.done()
    assert vars(future)


def test_futures_looked_at_before_the_end_and_after_it_tell_the_same(outcome):
    early, late = SendFuture(outcome, 1), SendFuture(outcome, 1)
    assert not early.running()
    outcome.settle(lambda row: row * 10)
    assert (early.result(0), late.result(0)) == (10, 10)
    assert early.done()
    assert late.done()


def test_an_error_is_told_to_both(outcome):
    early, late, error = SendFuture(outcome, 0), SendFuture(outcome, 1), AbortableError("no")
    early.add_done_callback(lambda _: None)
    outcome.fail(error)
    assert early.exception(0) is late.exception(0) is error


def test_the_first_end_counts(outcome):
    early, late = SendFuture(outcome, 0), SendFuture(outcome, 1)
    early.add_done_callback(lambda _: None)
    outcome.fail(AbortableError("first"))
    outcome.fail(AbortableError("second"))
    outcome.settle(lambda row: row)
    for future in (early, late):
        with pytest.raises(AbortableError, match="first"):
            future.result(0)


def test_callbacks_come_in_the_order_of_the_rows(outcome):
    told = []
    for row in (3, 1, 2, 0):
        SendFuture(outcome, row).add_done_callback(lambda future: told.append(future.result()))
    outcome.settle(lambda row: row)
    assert told == [0, 1, 2, 3]


def test_a_callback_may_look_at_other_futures(outcome):
    other, told = SendFuture(outcome, 1), []
    SendFuture(outcome, 0).add_done_callback(lambda _: told.append(other.result(0)))
    outcome.settle(lambda row: row)
    assert told == [1]


def test_a_callback_that_comes_late_is_called_at_once(outcome):
    outcome.settle(lambda row: row)
    told = []
    SendFuture(outcome, 7).add_done_callback(told.append)
    assert [future.result() for future in told] == [7]


def test_a_future_that_is_cancelled_stays_so(outcome):
    cancelled, other = SendFuture(outcome, 0), SendFuture(outcome, 1)
    assert cancelled.cancel()
    assert not other.done()
    outcome.settle(lambda row: row)
    assert cancelled.cancelled()
    assert other.result(0) == 1


def test_it_is_a_future_of_the_standard_library(outcome):
    futures = [SendFuture(outcome, row) for row in range(4)]
    waiting = threading.Timer(0.05, lambda: outcome.settle(lambda row: row))
    waiting.start()
    done, _ = concurrent.futures.wait(futures, 60)
    assert sorted(future.result() for future in done) == [0, 1, 2, 3]
    assert len(list(concurrent.futures.as_completed(futures))) == 4
    waiting.join()

    async def wait(future):
        return await asyncio.wrap_future(future)

    assert asyncio.run(wait(SendFuture(outcome, 5))) == 5
    assert "finished" in repr(SendFuture(outcome, 0))


def test_what_no_future_has_is_an_attribute_error(outcome):
    future = SendFuture(outcome, 0)
    with pytest.raises(AttributeError, match="offset"):
        _ = future.offset
    assert not vars(future)  # a look at something else is none at its state


def test_threads_that_look_at_the_same_time_see_one_future():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            outcome = Outcome(lambda: False)
            future, told = SendFuture(outcome, 3), []
            start = threading.Barrier(4)

            def look(future=future, start=start, told=told):
                start.wait()
                future.add_done_callback(told.append)

            def end(outcome=outcome, start=start):
                start.wait()
                outcome.settle(lambda row: row)

            threads = [threading.Thread(target=target) for target in (look, look, look, end)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert future.result(0) == 3
            assert told == [future] * 3
    finally:
        sys.setswitchinterval(interval)


# -- Those of a producer ----------------------------------------------------------------------------------


def test_every_record_of_a_batch_has_its_own_place(url, producer):
    Admin(url).create_topic("t", 3)
    looked = [producer.send("t", b"v", partition=n % 3, timestamp_ms=n) for n in range(30)]
    keyed = [producer.send("t", b"v", key=b"k%d" % n) for n in range(30)]
    assert not any(future.done() for future in looked)
    producer.flush()
    assert [future.result(0) for future in looked] == [("t", n % 3, n // 3, n, 1) for n in range(30)]
    taken = {}
    for future in keyed:
        taken.setdefault(future.result(0).partition, []).append(future.result(0).offset)
    assert {p: list(range(10, 10 + len(found))) for p, found in taken.items()} == taken


def test_callbacks_of_a_batch_come_in_the_order_of_sends(producer):
    told = []
    for number in range(20):
        producer.send("t", str(number)).add_done_callback(
            lambda f, n=number: told.append((n, f.result().offset))
        )
    producer.flush()
    assert told == [(number, number) for number in range(20)]


def test_a_batch_is_not_kept_for_its_futures(producer):
    gc.collect()
    before = pa.total_allocated_bytes()
    future = producer.send("t", b"x" * 1_000_000)
    producer.flush()
    gc.collect()
    assert pa.total_allocated_bytes() - before < 100_000
    assert future.result(0).offset == 0


def test_a_record_that_is_refused_has_its_own_future(producer):
    before, refused = producer.send("t", b"a"), producer.send("t", b"x" * 2_000_000)
    after = producer.send("t", b"b")
    with pytest.raises(RecordTooLargeError, match="2000000 bytes; at most 1048576"):
        refused.result(0)
    producer.flush()
    assert [before.result(0).offset, after.result(0).offset] == [0, 1]


def test_futures_of_a_transaction_end_with_it(url):
    producer = transactional(url)
    unseen, seen = producer.send("t", b"a"), producer.send_arrow("t", pa.table({"value": [b"b", b"c"]}))
    with pytest.raises(IllegalStateError, match="commit_transaction or flush"):
        seen.result()
    producer.commit_transaction()
    assert unseen.result(0).offset == 0
    ((_, _, offset, _, count),) = seen.result(0)
    assert (offset, count) == (1, 2)
    producer.begin_transaction()
    unseen, seen = producer.send("t", b"a"), producer.send("t", b"b")
    assert not seen.done()
    producer.abort_transaction()
    for future in (seen, unseen):
        with pytest.raises(AbortableError, match="aborted"):
            future.result(0)
    producer.close()


def test_a_large_transaction_tells_each_record_its_offset(url):
    producer = transactional(url)
    futures = [producer.send("t", b"x" * 100_000, timestamp_ms=n) for n in range(40)]  # some chunks
    producer.commit_transaction()
    assert [(f.result().offset, f.result().timestamp_ms) for f in futures] == [(n, n) for n in range(40)]
    producer.close()


def test_headers_and_partitions_that_only_some_records_have(url, producer):
    Admin(url).create_topic("t", 2)
    producer.send("t", b"0", partition=1)
    headers = [("h", b"1"), ("n", None)]
    producer.send("t", b"1", partition=1, headers=headers)
    headers.clear()  # the producer has a copy
    keyed = producer.send("t", b"2", key=b"key")
    producer.send("t", b"3", partition=1)
    producer.flush()
    with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 1)])
        found = {record.value: record.headers for record in consumer.poll()}
    found.pop(b"2", None)
    assert found == {b"0": (), b"1": (("h", b"1"), ("n", None)), b"3": ()}
    assert keyed.result(0).offset in (0, 2)


# -- The sender is woken ----------------------------------------------------------------------------------


def test_the_first_record_after_each_batch_wakes_the_sender(url):
    with Producer(url, {"linger.ms": 1, "batch.size": 1_000_000}) as producer:
        for number in range(5):
            assert producer.send("t", b"v").result(60).offset == number


def test_a_full_batch_does_not_linger(url):
    with Producer(
        url, {"linger.ms": 10_000_000, "delivery.timeout.ms": 20_000_000, "batch.size": 10_000}
    ) as producer:
        for start in (0, 100):
            futures = [producer.send("t", b"x" * 100) for _ in range(100)]
            assert futures[0].result(60).offset == start
            producer.flush()


def test_a_batch_may_be_a_single_record(url):
    with Producer(
        url, {"linger.ms": 10_000_000, "delivery.timeout.ms": 20_000_000, "batch.size": 0}
    ) as producer:
        for number in range(3):
            assert producer.send("t", b"v").result(60).offset == number


def test_a_send_into_full_memory_waits_until_it_is_sent(url):
    with Producer(url, {**PATIENT, "buffer.memory": 1_000}) as producer:
        futures = [producer.send("t", b"x" * 100) for _ in range(6)]
        assert not any(future.done() for future in futures[:5])
        producer.send("t", b"x" * 100)
        assert all(future.done() for future in futures)
