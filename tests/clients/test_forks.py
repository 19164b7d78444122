"""Clients in processes that were forked: each belongs to one process, and a child harms no other."""

import copy
import gc
import multiprocessing
import os
import pickle
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import IllegalStateError
from spark_eos.log.log import Log
from tests.forking import Child, forks_allowed, in_child

AT = TopicPartition("t", 0)


def values(url):
    with Consumer(url, {"isolation.level": "read_committed"}) as consumer:
        consumer.assign([AT])
        consumer.seek_to_beginning()
        found = []
        while more := consumer.poll(0):
            found += [record.value for record in more]
        return found


def used(url, **config):
    """A producer that has sent something."""
    producer = Producer(url, config)
    if config:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"first")
        producer.commit_transaction()
    else:
        producer.send("t", b"first").result()
    return producer


def assert_told(error, *parts):
    assert isinstance(error, IllegalStateError), error
    assert all(part in str(error) for part in ("forked", *parts)), error


# -- Producers ----------------------------------------------------------------------------------------


def test_children_of_a_producer_are_never_told_that_their_records_are_there(tmp_path):
    producer = used(tmp_path)

    def send(number):
        future = producer.send("t", b"%d" % number)
        producer.flush()
        return future.result(60)

    children = [Child(lambda number=number: send(number)) for number in range(4)]
    for child in children:
        assert_told(child.outcome(), "send", "make a Producer of its own")
    producer.send("t", b"last")
    producer.close()
    assert values(tmp_path) == [b"first", b"last"]


def test_children_of_a_transactional_producer_commit_nothing(tmp_path):
    producer = used(tmp_path, **{"transactional.id": "x"})

    def transaction():
        producer.begin_transaction()
        producer.send("t", b"child")
        producer.commit_transaction()

    for child in [Child(transaction) for _ in range(4)]:
        assert_told(child.outcome(), "begin_transaction", "transactional.id")
    producer.begin_transaction()
    producer.send("t", b"last")
    producer.commit_transaction()
    producer.close()
    assert values(tmp_path) == [b"first", b"last"]


@pytest.mark.parametrize("is_flushed", [False, True])
def test_an_open_transaction_stays_its_parents(tmp_path, is_flushed):
    producer = used(tmp_path, **{"transactional.id": "x"})
    producer.begin_transaction()
    producer.send("t", b"second")
    if is_flushed:
        producer.flush()

    def everything():
        told = []
        for call in (
            lambda: producer.send("t", b"child"),
            producer.flush,
            lambda: producer.send_offsets_to_transaction({AT: 1}, "g"),
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
        ):
            with pytest.raises(IllegalStateError, match="forked"):
                call()
            told.append(1)
        producer.close()
        with producer:
            pass
        return len(told)

    assert in_child(everything) == 6
    producer.commit_transaction()
    producer.close()
    assert values(tmp_path) == [b"first", b"second"]


def test_records_that_wait_are_sent_by_the_parent_alone(tmp_path):
    """A child that waits for one of them gets an error, instead of waiting for a thread that does not exist there."""
    used(tmp_path).close()
    producer = Producer(tmp_path, {"linger.ms": 3_600_000, "delivery.timeout.ms": 3_600_000})
    called = []
    waiting = producer.send("t", b"second")
    looked_at = producer.send("t", b"third")
    looked_at.add_done_callback(lambda _: called.append(os.getpid()))
    settled = producer.send("t", b"fourth")

    def child():
        for future in (waiting, looked_at):
            assert_told(future.exception(5), "record")
        with pytest.raises(IllegalStateError, match="forked"):
            producer.flush()
        producer.close()
        return len(called)

    assert in_child(child) == 0
    producer.flush()
    assert [one.result(60).offset for one in (waiting, looked_at, settled)] == [1, 2, 3]
    assert called == [os.getpid()]
    assert in_child(lambda: settled.result(60).offset) == 3  # What was known before the fork stays known.
    producer.close()
    assert values(tmp_path) == [b"first", b"second", b"third", b"fourth"]


def test_a_child_that_ends_in_an_orderly_way_leaves_the_parents_staged_files_alone(tmp_path):
    """Rows beyond ``buffer.memory`` wait in a file that is being written: a child that drops it must not delete it."""
    producer = used(tmp_path, **{"transactional.id": "x", "buffer.memory": 1000})
    producer.begin_transaction()
    for _ in range(20):
        producer.send("t", bytes(500))
    assert list((tmp_path / "_tmp").iterdir())

    def drop():
        nonlocal producer
        producer.close()
        del producer
        gc.collect()

    assert in_child(drop) is None
    with forks_allowed():
        process = multiprocessing.get_context("fork").Process(target=sys.exit)
        process.start()
    process.join(60)
    assert process.exitcode == 0
    producer.commit_transaction()
    producer.close()
    assert len(values(tmp_path)) == 21


def test_the_end_of_a_child_aborts_nothing(nursery, tmp_path):
    ran = nursery.run("clients/forks_in_a_transaction", tmp_path)
    assert (ran.stdout, ran.stderr) == ("0\n", "")
    assert len(values(tmp_path)) == 20


def test_a_client_that_was_never_used_is_its_makers_too(tmp_path):
    producer = Producer(tmp_path)
    assert_told(in_child(lambda: producer.send("t", b"child")), "send")
    producer.send("t", b"first").result()
    consumer = Consumer(tmp_path)
    assert_told(in_child(lambda: consumer.assign([AT])), "assign")
    producer.close()


def test_children_make_clients_of_their_own(tmp_path):
    """As the workers of gunicorn, with what was loaded before the fork; and their children likewise."""
    producer, admin, log = used(tmp_path), Admin(tmp_path), Log.shared(tmp_path)

    def send(number, deeper):
        with pytest.raises(IllegalStateError, match="forked"):
            producer.send("t", b"")
        with Producer(log) as own:
            own.send("t", b"%d" % number).result(60)
        assert admin.describe_topic("t").name == "t"
        found = []
        if deeper:
            assert_told(in_child(lambda: own.send("t", b"")), "send")
            found = in_child(lambda: send(number + 10, False))
        return [number, *found]

    children = [Child(lambda number=number: send(number, True)) for number in range(3)]
    assert sorted(one for child in children for one in child.outcome()) == [0, 1, 2, 10, 11, 12]
    producer.send("t", b"last").result()
    producer.close()
    assert sorted(values(tmp_path)) == sorted([b"first", b"last", b"0", b"1", b"2", b"10", b"11", b"12"])


def _send_by(url, number):
    with Producer(url) as producer:
        return producer.send("t", b"%d" % number).result(60).offset


@pytest.mark.deep
def test_pools_of_forked_processes(tmp_path):
    producer = used(tmp_path)
    url = str(tmp_path)
    with forks_allowed():
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            offsets = list(pool.map(_send_by, [url] * 4, range(4)))
        with context.Pool(2) as pool:
            offsets += pool.starmap(_send_by, [(url, number) for number in range(4, 8)])
    assert sorted(offsets) == list(range(1, 9))
    producer.close()


@pytest.mark.deep
def test_a_fork_while_other_threads_commit_and_poll(tmp_path):
    """Whatever locks they hold, in the child they are free, and nothing of theirs is sent twice."""
    log = Log.open_or_create(tmp_path)
    over, going, moved = threading.Event(), threading.Event(), threading.Event()
    sent = [0, 0]

    def produce(number):
        with Producer(log) as producer:
            while not over.is_set():
                producer.send("t", b"parent")
                producer.flush()
                sent[number] += 1
                moved.set()
                going.wait()

    def poll():
        with Consumer(log, {"group.id": "g"}) as consumer:
            consumer.subscribe(["t"])
            while not over.is_set():
                consumer.poll(5)

    used(tmp_path).close()
    threads = [threading.Thread(target=produce, args=(number,)) for number in range(2)]
    threads.append(threading.Thread(target=poll))
    for thread in threads:
        thread.start()

    def child():
        Log.shared(tmp_path)
        with Producer(log) as own:
            own.send("t", b"child").result(60)

    try:
        for _ in range(25):
            going.set()
            moved.clear()
            assert moved.wait(60)
            one = Child(child)
            going.clear()  # What they write, the child reads: the slower it is, the more there would be.
            assert one.outcome() is None
    finally:
        over.set()
        going.set()
        for thread in threads:
            thread.join()
    found = values(tmp_path)
    assert found.count(b"child") == 25
    assert found.count(b"parent") == sum(sent)


def test_a_fork_by_a_thread(tmp_path):
    producer = used(tmp_path)
    outcomes = []

    def fork():
        outcomes.append(in_child(lambda: producer.send("t", b"child")))
        outcomes.append(in_child(lambda: _send_by(tmp_path, 5)))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert_told(outcomes[0], "send")
    assert outcomes[1] == 1
    producer.close()


# -- Consumers ----------------------------------------------------------------------------------------


def member(url, **config):
    consumer = Consumer(url, {"group.id": "g", "auto.offset.reset": "earliest", **config})
    consumer.subscribe(["t"])
    assert consumer.poll(1000)
    return consumer


def test_a_member_of_a_group_is_its_parent(tmp_path):
    used(tmp_path).close()
    consumer = member(tmp_path)
    before = consumer.group_metadata()

    def everything():
        for call in (
            consumer.poll,
            consumer.poll_arrow,
            consumer.commit,
            consumer.unsubscribe,
            consumer.group_metadata,
            lambda: consumer.subscribe(["u"]),
            lambda: consumer.assign([AT]),
            lambda: consumer.seek(AT, 0),
            lambda: consumer.position(AT),
            lambda: consumer.committed([AT]),
            lambda: consumer.end_offsets([AT]),
        ):
            with pytest.raises(IllegalStateError, match=r"forked.*make a Consumer of its own"):
                call()
        with consumer:
            pass
        consumer.close()

    assert in_child(everything) is None
    with Admin(tmp_path) as admin:
        assert [one.member_id for one in admin.describe_group("g").members] == [before.member_id]
        assert not admin.list_group_offsets("g")
    assert consumer.poll(0) == []
    assert consumer.group_metadata() == before
    consumer.close()


def test_a_lost_consumer_of_a_child_stops_nothing(tmp_path):
    used(tmp_path).close()
    consumer = member(tmp_path)

    def drop():
        nonlocal consumer
        del consumer
        gc.collect()

    assert in_child(drop) is None
    consumer.commit()
    consumer.close()


def test_an_assigned_consumer_commits_nothing_from_a_child(tmp_path):
    used(tmp_path).close()
    consumer = Consumer(
        tmp_path, {"group.id": "g", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 0}
    )
    consumer.assign([AT])
    assert len(consumer.poll(0)) == 1
    assert_told(in_child(consumer.poll), "poll")
    assert in_child(consumer.close) is None
    assert consumer.committed([AT]) == {AT: None}
    consumer.close()


# -- Copies and pickles -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_clients_are_neither_copied_nor_pickled(tmp_path, how):
    producer = used(tmp_path)
    transactional = Producer(tmp_path, {"transactional.id": "x"})
    consumer = Consumer(tmp_path)
    future = producer.send("t", b"x")
    for one in (producer, transactional, transactional._transactions, consumer, future):
        with pytest.raises(IllegalStateError, match="cannot be copied"):
            how(one)
    producer.close()


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_an_admin_goes_anywhere(tmp_path, how):
    used(tmp_path).close()
    for admin in (Admin(tmp_path), Admin(str(tmp_path)), Admin(Log.open(tmp_path))):
        assert how(admin).describe_topic("t").partitions
