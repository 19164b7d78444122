"""The calls of a consumer that users of kafka-python know: iteration, background commits, one thread, metrics."""

from __future__ import annotations

import math
import sys
import threading
import time
from functools import partial

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import (
    CommitFailedError,
    ConcurrentModificationError,
    ConfigError,
    IllegalStateError,
    WakeupError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.types import OffsetAndMetadata
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from tests.log.fakes import FakeClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.create(store, FakeClock())
    Admin(log).create_topic("t", 2)
    return log


def fill(log, *values, partition=0):
    with Producer(log) as producer:
        for value in values:
            producer.send("t", value, partition=partition)


def reader(log, *partitions, **settings):
    consumer = Consumer(log, auto_offset_reset="earliest", consumer_timeout_ms=100, **settings)
    if partitions:
        consumer.assign(partitions)
    return consumer


def values(records):
    return [record.value for record in records]


# -- Iteration -----------------------------------------------------------------------------------------------


def test_iteration_gives_all_records_and_goes_on(log):
    fill(log, b"1", b"2")
    consumer = reader(log, T0)
    assert values(consumer) == [b"1", b"2"]
    fill(log, b"3")
    assert next(consumer).value == b"3"
    assert values(consumer) == []
    consumer.close()
    assert values(consumer) == []


def test_the_position_follows_the_record_that_was_handed_out(log):
    fill(log, b"0", b"1", b"2")
    fill(log, b"3", b"4", partition=1)
    consumer = reader(log, T0, T1, group_id="g", enable_auto_commit=False)
    for record in consumer:
        at = TopicPartition(record.topic, record.partition)
        assert consumer.position(at) == record.offset + 1
        consumer.commit()
        assert consumer.committed(at) == record.offset + 1
    assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(2)}


@pytest.mark.parametrize("end", ["close", "unsubscribe", "assign"])
def test_what_was_not_handed_out_is_not_committed(log, end):
    fill(log, *(b"%d" % number for number in range(5)))
    consumer = reader(log, T0, group_id="g")
    assert [next(consumer).value, next(consumer).value] == [b"0", b"1"]
    {"close": consumer.close, "unsubscribe": consumer.close, "assign": partial(consumer.assign, [T1])}[end]()
    assert Admin(log).list_group_offsets("g")[T0].offset == 2


def test_a_seek_inside_of_an_iteration(log):
    fill(log, b"0", b"1", b"2", b"3")
    consumer, seen = reader(log, T0), []
    for record in consumer:
        seen.append(record.value)
        if seen == [b"0", b"1"]:
            consumer.seek(T0, 0)
        if seen == [b"0", b"1", b"0"]:
            consumer.seek_to_end(T0)
    assert seen == [b"0", b"1", b"0"]


def test_a_pause_inside_of_an_iteration(log):
    fill(log, b"0", b"1")
    fill(log, b"x", partition=1)
    consumer = reader(log, T0, T1)
    first = next(consumer)
    at = TopicPartition(first.topic, first.partition)
    consumer.pause(at)
    assert consumer.paused() == {at}
    others = values(consumer)
    assert (at == T0 and others == [b"x"]) or (at == T1 and others == [b"0", b"1"])
    consumer.resume([at])
    assert consumer.paused() == set()
    assert sorted([first.value, *others, *values(consumer)]) == [b"0", b"1", b"x"]


def test_a_poll_inside_of_an_iteration_passes_nothing_over(log):
    fill(log, b"0", b"1", b"2")
    consumer = reader(log, T0)
    assert next(consumer).value == b"0"
    assert values(consumer.poll(max_records=1)) == [b"1"]
    assert consumer.poll_arrow()["value"].to_pylist() == [b"2"]


def test_iteration_over_partitions_that_a_group_takes_away(log):
    fill(log, b"0", b"1", b"2")
    fill(log, b"3", b"4", b"5", partition=1)
    first = reader(log, group_id="g", max_poll_records=1)
    first.subscribe(["t"])
    seen = [next(first).value]
    second = reader(log, group_id="g", max_poll_records=1)
    second.subscribe(["t"])
    for _ in range(20):
        seen += [record.value for one in (first, second) for record in [next(one, None)] if record]
    assert sorted(seen) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_an_interrupted_iteration_passes_nothing_over(log):
    """Ctrl-C at each line that an iteration runs, one after the other."""
    fill(log, b"0", b"1", b"2")
    for at in range(1, 1000):
        consumer, left = reader(log, T0), at
        got = [next(consumer).value]

        def interrupt(frame, event, _argument):
            nonlocal left
            if (
                "/spark_eos/clients/consumer/" not in frame.f_code.co_filename
                or "get_ident" in frame.f_code.co_name
            ):
                return None
            if event == "line":
                left -= 1
                if not left:
                    raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            record = next(consumer)
            got.append(record.value)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert [*got, *values(consumer)] == [b"0", b"1", b"2"], at
        if left > 0:
            return
    raise AssertionError("it never came to an end")


# -- Polls by partition --------------------------------------------------------------------------------------


def test_records_by_partition(log):
    fill(log, b"0", b"1")
    fill(log, b"2", partition=1)
    records = reader(log, T0, T1).poll()
    assert {at: values(found) for at, found in records.items()} == {T0: [b"0", b"1"], T1: [b"2"]}
    assert set(records.keys()) == {T0, T1}
    assert sorted(map(len, records.values())) == [1, 2]
    assert (values(records.records(T1)), records.records(TopicPartition("u", 0))) == ([b"2"], [])
    assert [record.timestamp == record.timestamp_ms for record in records] == [True] * 3
    assert {record.timestamp_type for record in records} == {0}


def test_what_a_consumer_knows(log):
    fill(log, b"0", b"1")
    consumer = reader(log, T0)
    assert consumer.topics() == {"t"}
    assert (consumer.partitions_for_topic("t"), consumer.partitions_for_topic("u")) == ({0, 1}, set())
    consumer.poll(max_records=1)
    assert consumer.highwater(T0) == 2
    with pytest.raises(IllegalStateError):
        consumer.highwater(T1)


# -- Commits in the background -------------------------------------------------------------------------------


def test_commit_async(log):
    fill(log, b"0", b"1")
    consumer, told = reader(log, T0, group_id="g", enable_auto_commit=False), []
    assert consumer.committed(T0) is None
    consumer.poll()
    done = consumer.commit_async(callback=lambda *given: told.append(given))
    done.get(timeout=30)
    assert told == []
    consumer.poll()
    assert told == [({T0: OffsetAndMetadata(2)}, None)]
    assert (consumer.committed(T0), consumer.committed(T0, metadata=True)) == (2, OffsetAndMetadata(2))
    consumer.commit_async({T0: OffsetAndMetadata(1, "m")}).get(timeout=30)
    assert consumer.committed(T0, metadata=True) == OffsetAndMetadata(1, "m")
    with pytest.raises(ConfigError):
        reader(log, T0).commit_async()


def test_commits_in_the_background_block_nothing_and_keep_their_order(log, store):
    fill(log, b"0", b"1", b"2")
    consumer, told = reader(log, T0, group_id="g", enable_auto_commit=False), []
    gate = threading.Event()
    store.before = lambda operation, _: operation != "create" or gate.wait(30)
    for offset in (1, 2):
        consumer.commit_async({T0: offset}, lambda offsets, error: told.append((offsets[T0].offset, error)))
    assert values(consumer.poll()) == [b"0", b"1", b"2"]
    timer = threading.Timer(0.1, gate.set)
    timer.start()
    consumer.commit({T0: 3})
    timer.join()
    assert told == [(1, None), (2, None)]
    assert consumer.committed(T0) == 3


def test_a_background_commit_that_fails(log):
    fill(log, b"0")
    consumer, told = reader(log, T0, group_id="g", enable_auto_commit=False), []
    member = reader(log, group_id="g")
    member.subscribe(["t"])
    member.poll()
    done = consumer.commit_async({T0: 1}, lambda _offsets, error: told.append(type(error)))
    with pytest.raises(CommitFailedError):
        done.get(timeout=30)
    consumer.close()
    assert len(told) == 1
    assert issubclass(told[0], CommitFailedError)


def test_after_a_background_commit_that_failed_the_consumer_still_commits_at_its_end(log):
    fill(log, b"0")
    member = reader(log, group_id="g", enable_auto_commit=False)
    member.subscribe(["t"])
    member.poll()
    consumer = reader(log, T0, group_id="g", enable_auto_commit=True)
    consumer.poll()
    with pytest.raises(CommitFailedError):
        consumer.commit_async().get(timeout=30)
    consumer.poll()
    member.close()
    consumer.close()
    assert Admin(log).list_group_offsets("g")[T0].offset == 1


def test_a_background_commit_that_was_cancelled(log, store):
    """Its callback was told that the offsets are committed."""
    consumer, told = reader(log, T0, group_id="g", enable_auto_commit=False), []
    gate = threading.Event()
    store.before = lambda operation, _: operation != "create" or gate.wait(30)
    consumer.commit_async({T0: 1}, lambda offsets, _: told.append(offsets[T0].offset))
    assert consumer.commit_async({T0: 2}, lambda offsets, _: told.append(offsets[T0].offset)).cancel()
    gate.set()
    consumer.close()
    assert told == [1]
    assert Admin(log).list_group_offsets("g")[T0].offset == 1


def test_close_waits_for_background_commits(log):
    consumer, told = reader(log, T0, group_id="g", enable_auto_commit=False), []
    consumer.commit_async({T0: 0}, lambda *given: told.append(given))
    consumer.close()
    assert len(told) == 1
    assert Admin(log).list_group_offsets("g")[T0].offset == 0


def test_what_takes_its_time_is_waited_for_without_end(log, store):
    store.before = lambda operation, _: operation != "create" or not time.sleep(0.1)
    with Producer(log) as producer:
        future = producer.send("t", b"x", partition=0)
        producer.flush(math.inf)
        assert future.done()
    consumer = reader(log, T0, group_id="g", enable_auto_commit=False)
    consumer.commit_async({T0: 1})
    consumer.close(timeout_ms=math.inf)
    assert Admin(log).list_group_offsets("g")[T0].offset == 1


def test_close_waits_no_longer_than_asked(log, store):
    consumer = reader(log, T0, group_id="g", enable_auto_commit=False)
    gate = threading.Event()
    store.before = lambda operation, _: operation != "create" or gate.wait(30)
    done = consumer.commit_async({T0: 0})
    consumer.close(timeout_ms=20)
    assert not done.done()
    gate.set()
    done.get(timeout=30)


def test_close_without_a_commit(log):
    fill(log, b"0")
    for autocommit in (False, True):
        consumer = reader(log, T0, group_id="g")
        consumer.poll()
        consumer.close(autocommit=autocommit)
        assert (T0 in Admin(log).list_group_offsets("g")) == autocommit


def test_a_topic_that_is_gone_keeps_no_other_position_from_being_committed(log):
    fill(log, b"0")
    Admin(log).create_topic("gone")
    with Producer(log) as producer:
        producer.send("gone", b"0")
    consumer = reader(log, T0, TopicPartition("gone", 0), group_id="g")
    assert len(consumer.poll()) == 2
    Admin(log).delete_topic("gone")
    consumer.close()
    assert Admin(log).list_group_offsets("g")[T0].offset == 1


# -- One thread ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        *(
            "poll",
            "poll_arrow",
            "assignment",
            "subscription",
            "unsubscribe",
            "paused",
            "topics",
            "close",
            "commit",
        ),
        *("__next__", "group_metadata", "commit_async"),
    ],
)
def test_two_threads_at_the_same_time(log, call):
    consumer = reader(log, T0, group_id="g")
    polls, woken = threading.Event(), []
    log.clock.sleep = lambda _seconds: polls.set()

    def poll():
        with pytest.raises(WakeupError):
            consumer.poll(60_000)
        woken.append(True)

    other = threading.Thread(target=poll, daemon=True)
    other.start()
    assert polls.wait(30)
    end = threading.Timer(30, consumer.wakeup)  # A call that is not refused waits for the other one.
    end.start()
    try:
        with pytest.raises(ConcurrentModificationError, match=r"another thread is using this Consumer"):
            getattr(consumer, call)(*((0,) if call.startswith("poll") else ()))
    finally:
        end.cancel()
        consumer.wakeup()
        other.join(60)
    assert woken
    fill(log, b"0")
    assert values(consumer.poll()) == [b"0"]


def test_threads_one_after_the_other(log):
    fill(log, b"0")
    consumer, seen = reader(log, T0), []
    other = threading.Thread(target=lambda: seen.extend(consumer.poll()))
    other.start()
    other.join()
    assert values(seen) == [b"0"]
    consumer.close()


def test_a_listener_may_call_its_consumer(log):
    fill(log, b"0", b"1")
    consumer = reader(log, group_id="g", enable_auto_commit=False)
    consumer.subscribe(["t"], on_assign=lambda one, _: one.seek(T0, 1), on_revoke=lambda one, _: one.commit())
    assert values(consumer.poll()) == [b"1"]
    consumer.close()
    assert Admin(log).list_group_offsets("g")[T0].offset == 2


def test_a_wakeup_ends_a_wait_once_and_loses_nothing(log):
    fill(log, b"0")
    consumer = reader(log, T0)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        next(consumer)
    assert values(consumer) == [b"0"]


# -- Metrics -------------------------------------------------------------------------------------------------


def test_metrics(log):
    fill(log, *(b"%d" % number for number in range(6)))
    consumer = reader(log, group_id="g", enable_auto_commit=False)
    before = consumer.metrics()
    assert before["consumer-metrics"]["last-poll-seconds-ago"] == -1
    consumer.subscribe(["t"])
    consumer.poll(max_records=4)
    consumer.commit()
    log.clock.now += 7
    found = consumer.metrics()
    read = found["consumer-fetch-manager-metrics"]
    assert (read["records-consumed-total"], read["fetch-total"], read["records-lag-max"]) == (4, 1, 2)
    assert read["bytes-consumed-total"] > 0
    assert read["records-consumed-rate"] == pytest.approx(4 / 30)
    assert found["consumer-fetch-manager-metrics.t-0"] == {"records-lag": 2}
    group = found["consumer-coordinator-metrics"]
    assert (group["assigned-partitions"], group["commit-total"], group["rebalance-total"]) == (2, 1, 1)
    assert group["generation-id"] == consumer.group_metadata().generation_id
    assert found["consumer-metrics"]["last-poll-seconds-ago"] == 7
    consumer.poll()
    assert consumer.metrics()["consumer-metrics"]["time-between-poll-max"] == 7000
    assert consumer.metrics()["consumer-fetch-manager-metrics"]["records-lag-max"] == 0
    fill(log, b"6", b"7")
    fill(log, b"8", partition=1)
    assert consumer.metrics()["consumer-fetch-manager-metrics"]["records-lag-max"] == 2
    Admin(log).delete_topic("t")
    Admin(log).create_topic("t", 1)
    assert "consumer-fetch-manager-metrics.t-0" not in consumer.metrics(), "that is another topic"


def test_a_consumer_that_reads_nothing_does_not_wait_for_it(log):
    """As Kafka's: the program has forgotten to subscribe, or its call has failed."""
    consumer = Consumer(log, {"group.id": "g"})
    calls = [lambda: consumer.poll(60_000), lambda: consumer.poll_arrow(60_000), lambda: next(consumer)]
    consumer.subscribe(["t"])
    consumer.unsubscribe()
    for call in calls:
        with pytest.raises(IllegalStateError, match=r"reads nothing.*call subscribe or assign"):
            call()
    consumer.assign([T0])
    consumer.poll(0)
    consumer.assign([])
    for call in calls:
        with pytest.raises(IllegalStateError, match="reads nothing"):
            call()
    consumer.close()
