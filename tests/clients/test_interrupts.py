"""Ctrl-C at any line of a call: no record is doubled, lost in silence, or mixed with another one.

An interrupt comes as an exception before a line. Lines that begin a ``with`` or ``try`` are left out: Python handles no
signals at these, and an exception there is not seen by the block around it.
"""

from __future__ import annotations

import gc
import itertools
import linecache
import sys
import threading
from collections import Counter
from contextlib import suppress
from functools import cache

import pyarrow as pa
import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.clients.producer import accumulator
from spark_eos.clients.producer.accumulator import TopicBuffer
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeUnknownError,
    EosLogError,
    IllegalStateError,
    ProducerFencedError,
    StoreUnavailableError,
)
from spark_eos.kafka import KafkaConsumer
from spark_eos.log.clock import Retry
from spark_eos.log.commit.entry_builder import PendingCommit
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import Waiting
from tests.tiers import is_quick

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]
CLIENTS, LOG = "/spark_eos/clients/", "/spark_eos/log/"


class AlarmError(Exception):
    """What a handler of a signal raises to end a call that takes too long."""


class Interrupt:
    """Comes before the line number ``at`` of those that are run in the modules ``within``.

    A line counts the first time, and a second time that shows what it does behind itself; with ``--all`` always.
    """

    def __init__(self, at, within, kind):
        self.at, self.within, self.kind, self.lines, self.where = at, within, kind, 0, ""
        self._times = Counter()
        self._most = 2 if is_quick() else sys.maxsize

    def __call__(self, frame, event, _arg):
        code = frame.f_code.co_filename
        if self.within not in code:
            return None
        if event == "line" and not _begins_a_block(code, frame.f_lineno):
            self._times[code, frame.f_lineno] += 1
            self.lines += self._times[code, frame.f_lineno] <= self._most
            if self.lines == self.at:
                self.where = f"{code}:{frame.f_lineno}"
                raise self.kind
        return self


@cache
def _begins_a_block(code, number):
    return linecache.getline(code, number).lstrip().startswith(("with ", "try:"))


def run(call, at, within, kind=KeyboardInterrupt):
    """Where ``call`` was interrupted; empty if it came to its end before."""
    before, interrupt = sys.gettrace(), Interrupt(at, within, kind)
    gc.disable()  # Else an earlier producer may come to its end inside of the call.
    sys.settrace(interrupt)
    try:
        with suppress(kind):
            call()
    finally:
        sys.settrace(before)
        gc.enable()
    return interrupt.where


def read(log, isolation="read_committed"):
    settings = {"auto.offset.reset": "earliest", "isolation.level": isolation}
    with Consumer(log, settings) as consumer:
        consumer.assign(PARTITIONS)
        return consumer.poll(0)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(accumulator, "CHUNK_BYTES", 3000)


@pytest.fixture
def made():
    """Makes a log of its own, with the topic."""

    def make():
        log = Log.open_or_create(MemoryStore(), retry=Retry(deadline_s=0))
        log.ensure_topic("t", 2)
        return log

    return make


def begun(log):
    """A producer in its second transaction, with records in lists, in columns, and in a file."""
    producer = Producer(log, {"transactional.id": "tx", "buffer.memory": 6000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"first")
    producer.commit_transaction()
    producer.begin_transaction()
    futures = {value: producer.send("t", value, partition=n % 2) for n, value in enumerate(ONE_BY_ONE)}
    producer.send_arrow("t", pa.table({"value": AT_ONCE}))
    return producer, futures


ONE_BY_ONE = [b"%d" % number + b"." * 1000 for number in range(8)]
AT_ONCE = [b"a", b"b"]
CALLS = {
    "send": (1, lambda producer: producer.send("t", b"x")),
    "a send that fills a chunk": (1, lambda producer: producer.send("t", b"x" * 5000)),
    "send_arrow": (
        3,
        lambda producer: producer.send_arrow("t", pa.table({"value": [b"x"] * 3, "partition": [0, 1, 0]})),
    ),
    "flush": (0, lambda producer: producer.flush()),
    "commit": (0, lambda producer: producer.commit_transaction()),
}


@pytest.mark.deep(
    "a send that fills a chunk-/spark_eos/log/",
    "commit-/spark_eos/clients/",
    "commit-/spark_eos/log/",
    "flush-/spark_eos/log/",
)
@pytest.mark.parametrize("within", [CLIENTS, LOG])
@pytest.mark.parametrize("name", CALLS)
def test_a_transaction_is_whole_or_not_there(made, name, within):
    adds, call = CALLS[name]
    for at in itertools.count(1):
        log = made()
        producer, futures = begun(log)
        where = run(lambda producer=producer: call(producer), at, within)
        if not where:
            break
        committed = producer._transactions.state is ClientState.READY
        if not committed:
            try:
                producer.commit_transaction()
                committed = True
            except AbortableError:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"last")
        producer.commit_transaction()

        found = read(log)
        values = [one.value for one in found]
        extra = [value for value in values if value[:1] == b"x"]
        expected = [*ONE_BY_ONE, *AT_ONCE] if committed else []
        assert sorted(values) == sorted([b"first", *expected, *extra, b"last"]), where
        assert len(extra) in ((0, adds) if committed else (0,)), where
        places = {(one.partition, one.offset): one.value for one in found}
        for value, future in futures.items():
            assert future.done(), where
            if committed and (place := future.result()).offset >= 0:
                assert places[place.partition, place.offset] == value, where
    assert at > 1 or (name, within) == ("send", LOG)  # A record that waits is no matter of the log.


def test_an_aborted_transaction_stays_so(made):
    for at in itertools.count(1):
        log = made()
        producer, futures = begun(log)
        where = run(producer.abort_transaction, at, CLIENTS)
        with suppress(EosLogError):
            producer.commit_transaction()  # It had not begun, or it comes too late.
        committed = producer._transactions.state is ClientState.READY and any(
            future.done() and future.exception() is None for future in futures.values()
        )
        with suppress(IllegalStateError):
            producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"last")
        producer.commit_transaction()
        expected = [*ONE_BY_ONE, *AT_ONCE] if committed else []
        assert sorted(one.value for one in read(log)) == sorted([b"first", *expected, b"last"]), where
        if not where:
            break
    assert at > 1


@pytest.mark.deep(
    "flush-KeyboardInterrupt-/spark_eos/log/",
    "flush-AlarmError-/spark_eos/clients/",
    "flush-AlarmError-/spark_eos/log/",
)
@pytest.mark.parametrize("within", [CLIENTS, LOG])
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, KeyboardInterrupt) for name in ("send", "send_arrow", "flush")] + [("flush", AlarmError)],
)
def test_without_a_transaction_a_record_is_there_once_and_its_future_says_where(made, name, kind, within):
    adds, call = CALLS[name]
    for at in itertools.count(1):
        log = made()
        producer = Producer(log, {"linger.ms": 100_000})
        futures = {value: producer.send("t", value, partition=n % 2) for n, value in enumerate(ONE_BY_ONE)}
        told = []
        for value in ONE_BY_ONE[::2]:
            futures[value].add_done_callback(told.append)
        producer.send_arrow("t", pa.table({"value": AT_ONCE}))
        where = run(lambda producer=producer: call(producer), at, within, kind)
        producer.send("t", b"last")
        producer.flush()
        found = read(log)
        values = [one.value for one in found if one.value[:1] != b"x"]
        assert sorted(values) == sorted([*ONE_BY_ONE, *AT_ONCE, b"last"]), where
        assert len(found) - len(values) in (0, adds), where
        places = {(one.partition, one.offset): one.value for one in found}
        for value, future in futures.items():
            assert future.done(), where
            assert places[future.result().partition, future.result().offset] == value, where
        assert told == [futures[value] for value in ONE_BY_ONE[::2]], where
        producer.close()
        if not where:
            break
    assert within == LOG or at > 1


@pytest.mark.deep(
    "True-poll-/spark_eos/clients/",
    "True-poll-/spark_eos/log/",
    "True-poll_arrow-/spark_eos/clients/",
    "True-poll_arrow-/spark_eos/log/",
)
@pytest.mark.parametrize("within", [CLIENTS, LOG])
@pytest.mark.parametrize("call", ["poll", "poll_arrow", "commit"])
@pytest.mark.parametrize("subscribes", [False, True])
def test_a_consumer_gets_each_record_once(made, subscribes, call, within):
    """What an interrupted poll had taken already, the next one gets; and no commit passes over it."""
    log = made()
    with Producer(log) as producer:
        for numbers in (range(10), range(10, 20)):
            for number in numbers:
                producer.send("t", b"%d" % number, partition=number % 2)
            producer.flush()
    for at in itertools.count(1):
        settings = {"auto.offset.reset": "earliest", "group.id": f"g{at}", "max.poll.records": 7}
        consumer = Consumer(log, settings)
        if subscribes:
            consumer.subscribe(["t"])
        else:
            consumer.assign(PARTITIONS)
        got = [one.value for one in consumer.poll(0)]
        calls = {
            "poll": lambda consumer=consumer, got=got: got.extend(one.value for one in consumer.poll(0)),
            "poll_arrow": lambda consumer=consumer, got=got: got.extend(
                consumer.poll_arrow(0, 7)["value"].to_pylist()
            ),
            "commit": consumer.commit,
        }
        where = run(calls[call], at, within)
        while found := consumer.poll(0):
            got += [one.value for one in found]
        assert sorted(got) == sorted(b"%d" % number for number in range(20)), where
        consumer.close()
        assert sum(known.offset for known in log.state.offsets[f"g{at}"].values()) == 20, where
        if not where:
            break
    assert at > 10


@pytest.mark.parametrize("within", ["/spark_eos/clients/records", "/spark_eos/kafka/"])
def test_records_by_partition_are_not_lost(made, within):
    """``poll`` of kafka-python sorts them behind the poll, whose positions are those after them."""
    log = made()
    with Producer(log) as producer:
        for number in range(10):
            producer.send("t", b"%d" % number, partition=number % 2)
    for at in itertools.count(1):
        consumer = KafkaConsumer(
            bootstrap_servers=log, group_id=f"g{at}", auto_offset_reset="earliest", max_poll_records=7
        )
        consumer.assign(PARTITIONS)
        got = []

        def poll(consumer=consumer, got=got):
            found = consumer.poll(0)
            got += [record.value for records in found.values() for record in records]
            return found

        where = run(poll, at, within)
        while poll():
            pass
        assert sorted(got) == [b"%d" % number for number in range(10)], where
        consumer.close()
        if not where:
            break
    assert at > 2


# -- Where the next call meets an error, or somebody else ----------------------------------------------------


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture
def interrupted_commit(monkeypatch):
    """A log whose store can fail, and a producer whose commit was interrupted when it was in the log already."""
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t", 2)
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"one", partition=0)
    with monkeypatch.context() as patch:
        patch.setattr(log.maintenance, "run_slice", interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.commit_transaction()
    assert [one.value for one in read(log)] == [b"one"]
    return store, log, producer


def test_what_was_interrupted_in_the_log_is_not_taken_for_refused(interrupted_commit):
    """The second try certainly did nothing; of the first one that says nothing."""
    store, log, producer = interrupted_commit
    store.requests_are_free = False
    store.inject(Fault.FAIL_BEFORE, "*", "*", times=None)
    with pytest.raises(StoreUnavailableError):
        producer.commit_transaction()
    store.heal()
    for call in (producer.abort_transaction, lambda: producer.send("t", b"two")):
        with pytest.raises(IllegalStateError, match="only commit_transaction"):
            call()
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("t", b"two", partition=0)
    producer.commit_transaction()
    assert [one.value for one in read(log)] == [b"one", b"two"]


def test_an_interrupted_commit_that_is_fenced_keeps_its_files(interrupted_commit):
    _, log, producer = interrupted_commit
    Producer(log, {"transactional.id": "tx"}).init_transactions()
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    producer.close()
    assert [one.value for one in read(log)] == [b"one"]


def alarm(*_, **__):
    raise AlarmError


@pytest.fixture(params=[interrupt, alarm])
def interrupted_flush(request, monkeypatch):
    """A log whose store can fail, and a producer whose flush was interrupted when its record was in the log already."""
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t", 2)
    producer = Producer(log, {"linger.ms": 100_000, "retries": 1})
    with monkeypatch.context() as patch:
        patch.setattr(producer._sender, "wake", lambda **_: True)  # A thread would go on with it at once.
        producer.send("t", b"zero", partition=0)
        producer.flush()
        future = producer.send("t", b"one", partition=0)
    with monkeypatch.context() as patch:
        patch.setattr(log.maintenance, "run_slice", request.param)
        with pytest.raises((KeyboardInterrupt, AlarmError)):
            producer.flush()
    assert [one.value for one in read(log)] == [b"zero", b"one"]
    assert not future.done()
    return store, log, producer, future


def test_a_flush_after_an_interrupted_one_goes_on_with_it(interrupted_flush):
    _, log, producer, future = interrupted_flush
    producer.flush()
    assert future.result().offset == 1
    assert [one.value for one in read(log)] == [b"zero", b"one"]


def test_records_of_an_interrupted_flush_are_not_taken_for_refused(interrupted_flush):
    """The second try certainly did nothing; of the first one that says nothing."""
    store, log, producer, future = interrupted_flush
    store.requests_are_free = False
    store.inject(Fault.FAIL_BEFORE, "*", "*", times=None)
    producer.flush()
    store.heal()
    assert isinstance(future.exception(), CommitOutcomeUnknownError)
    assert [one.value for one in read(log)] == [b"zero", b"one"]  # Its file is there.


def test_a_producer_that_gives_up_goes_on_with_what_it_has_sent(interrupted_flush):
    """As after ``close(timeout=0)``. To say that it was not sent would delete a file that is in the log."""
    _, log, producer, future = interrupted_flush
    producer._sender.give_up()
    producer.flush()
    assert future.result().offset == 1
    assert [one.value for one in read(log)] == [b"zero", b"one"]


def test_rows_that_were_staged_again_in_part_are_staged_once_more(monkeypatch):
    """The store fails when they are staged; they are kept, and Ctrl-C comes between the first and the last of them."""
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store, Waiting(), Retry(deadline_s=0))
    log.ensure_topic("t", 2)
    producer = Producer(log, {"linger.ms": 100_000})
    monkeypatch.setattr(producer._sender, "wake", lambda **_: True)  # A thread would go on with it at once.
    futures = [producer.send("t", b"one", partition=0)]
    futures.append(producer.send_arrow("t", pa.table({"value": [b"two"]}), partition=0))
    store.inject(Fault.FAIL_BEFORE, "upload", "data/*")
    with monkeypatch.context() as patch:
        append, rows = SegmentWriter.append, itertools.count()
        patch.setattr(SegmentWriter, "append", lambda *args: interrupt() if next(rows) else append(*args))
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
    producer.flush()
    assert [one.value for one in read(log)] == [b"one", b"two"]
    assert all(future.done() for future in futures)


@pytest.mark.parametrize("comes", [interrupt, alarm])
def test_the_thread_goes_on_with_an_interrupted_flush(made, comes, monkeypatch):
    log = made()
    producer = Producer(log, {"linger.ms": 100_000})
    future = producer.send("t", b"one")
    with monkeypatch.context() as patch:
        patch.setattr(TopicBuffer, "finish", comes)
        with pytest.raises((KeyboardInterrupt, AlarmError)):
            producer.flush()
    assert future.result(60).offset == 0
    producer.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_callback_keeps_none_from_the_others(made, error):
    """A signal comes while the callback of the first record runs."""
    log = made()
    producer = Producer(log, {"linger.ms": 100_000})
    calls = []

    def interrupted(_):
        calls.append("first")
        raise error

    producer.send("t", b"one").add_callback(interrupted)
    producer.send("t", b"two").add_callback(lambda _: calls.append("second"))
    with suppress(error):
        producer.flush()
    producer.flush()
    assert calls == ["first", "second"]
    producer.close()
    assert [one.value for one in read(log)] == [b"one", b"two"]


def test_a_callback_that_flushes(made):
    log = made()
    producer = Producer(log, {"linger.ms": 100_000})
    calls = []

    def more(_):
        calls.append("first")
        producer.send("t", b"three").add_callback(lambda _: calls.append("third"))
        producer.flush()

    producer.send("t", b"one", partition=0).add_callback(more)
    producer.send("t", b"two", partition=0).add_callback(lambda _: calls.append("second"))
    producer.flush()
    assert calls == ["first", "second", "third"]
    producer.close()
    assert sorted(one.value for one in read(log)) == [b"one", b"three", b"two"]


def test_a_callback_that_ends_the_thread_stops_no_record(made):
    log = made()
    producer = Producer(log, {"linger.ms": 0})

    def end(_):
        raise SystemExit

    producer.send("t", b"one").add_callback(end)
    assert producer.send("t", b"two").result(60).offset >= 0
    assert producer.send("t", b"three").result(60).offset >= 0
    producer.close()


def test_a_poll_that_waits_keeps_its_place(made, monkeypatch):
    """It begins at the end, is interrupted, and what has come meanwhile is the next poll's."""
    log = made()
    consumer = Consumer(log)  # auto.offset.reset is latest
    consumer.assign(PARTITIONS)
    with monkeypatch.context() as patch:
        patch.setattr(type(log.clock), "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(60_000)
    with Producer(log) as producer:
        producer.send("t", b"x")
    assert [one.value for one in consumer.poll(0)] == [b"x"]


def test_a_seek_while_a_poll_waits_stays(made, monkeypatch):
    log = made()
    with Producer(log) as producer:
        for number in range(3):
            producer.send("t", b"%d" % number, partition=0)
    consumer = Consumer(log)
    consumer.assign(PARTITIONS)
    waits = []

    def sleep(*_):
        if waits:
            raise KeyboardInterrupt
        waits.append(1)
        consumer.seek(PARTITIONS[0], 1)
        monkeypatch.setattr(type(consumer._fetcher), "fetch", lambda *_, **__: [])

    with monkeypatch.context():
        monkeypatch.setattr(type(log.clock), "sleep", sleep)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(60_000)
    monkeypatch.undo()
    assert [one.value for one in consumer.poll(0)] == [b"1", b"2"]


def test_what_was_interrupted_while_it_waited_its_turn_never_goes_in(made):
    """Another thread is at it; the next commit must not include a request without a waiting caller."""
    log = made()
    consumer = Consumer(log, {"group.id": "g"})
    consumer.assign(PARTITIONS)
    committer = log._committer

    class Busy:
        def __enter__(self):
            raise KeyboardInterrupt

        def __exit__(self, *_):
            pass

    turn, committer._turn = committer._turn, Busy()
    with pytest.raises(KeyboardInterrupt):
        consumer.commit({PARTITIONS[0]: 0})
    committer._turn = turn
    with Producer(log) as producer:
        producer.send("t", b"x")
    assert not log.follow().offsets.get("g")


def test_a_sender_that_could_not_be_started_is_started_later(made, monkeypatch):
    log = made()
    producer = Producer(log)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.send("t", b"x")
    future = producer.send("t", b"y")
    assert future.result(60).offset == 0
    producer.close()


def test_an_interrupted_close_can_be_repeated(made, monkeypatch):
    log = made()
    producer, _ = begun(log)
    producer.flush()
    with monkeypatch.context() as patch:
        patch.setattr(log, "commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    assert log.state.open_transactions
    producer.close()
    assert not log.follow().open_transactions


@pytest.mark.parametrize("comes", [interrupt, alarm])
def test_an_interrupt_is_of_one_thread_alone(made, comes, monkeypatch):
    """A thread that writes for another one is interrupted: that one may try again, and is not interrupted itself."""
    log = made()
    committer = log._committer
    monkeypatch.setattr(committer, "_attempt_slot", comes)
    mine, other = (PendingCommit(lambda _: (), bytes([number]) * 16, "") for number in range(2))
    with pytest.raises((KeyboardInterrupt, AlarmError)):
        committer._drain([mine, other])
    assert isinstance(other.error, StoreUnavailableError)


def test_a_ticket_whose_taker_was_interrupted_is_not_lost(made):
    log = made()
    committer, taken = log._committer, []

    class Robbed(list):
        """Another thread takes the ticket as soon as it waits, and then ends."""

        def append(self, ticket):
            if taken:
                super().append(ticket)
            taken.append(ticket)

    committer._waiting = Robbed()
    log.ensure_topic("u")
    assert "u" in log.state.topics
    assert taken


@pytest.mark.parametrize("config", [{}, {"transactional.id": "tx"}])
def test_a_close_may_be_called_by_what_a_close_calls(config):
    """A signal's handler that closes, or a future's callback, while a close waits for the store."""
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t", 2)
    producer = Producer(log, config)
    if config:
        producer.init_transactions()
        producer.begin_transaction()
    producer.send("t", b"x")
    if config:
        producer.flush()
    calls = []

    def again(operation, _name):
        if operation == "create":
            calls.append(operation)
            producer.close()

    store.before = again
    producer.close()
    assert calls
