"""The admin's transaction tools: what kafka-transactions.sh can do (KIP-664, KIP-939, KIP-994, KIP-1152)."""

from __future__ import annotations

import pytest

from spark_eos import Admin, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import InvalidRequestError, ProducerFencedError, UnknownTopicOrPartitionError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import CommitOffsets, EndTransaction, InitProducer, PartitionOffset
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MINUTE_MS = 60_000


@pytest.fixture
def log():
    log = Log.create(MemoryStore(), clock=FakeClock())
    Admin(log).create_topic("t", 2)
    Admin(log).create_topic("u")
    return log


@pytest.fixture
def admin(log):
    return Admin(log)


def begin(log, transactional_id="app", partitions=(0,), timeout_ms=5000, topic="t"):
    producer = Producer(
        log, {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for partition in partitions:
        producer.send(topic, b"x", partition=partition, timestamp_ms=1000 + partition)
    producer.flush()
    return producer


def ids(transactions):
    return [transaction.transactional_id for transaction in transactions]


@pytest.fixture
def three(log):
    """One transaction open for a minute, one for a second, one committed."""
    begin(log, "long", timeout_ms=900_000)
    log.clock.now += 59
    begin(log, "short", partitions=[1])
    begin(log, "done", partitions=[]).commit_transaction()
    begin(log, "done").commit_transaction()
    log.clock.now += 1


@pytest.mark.usefixtures("three")
def test_listing_by_state_producer_duration_and_pattern(admin):
    assert ids(admin.list_transactions()) == ["done", "long", "short"]
    assert ids(admin.list_transactions(states=["Ongoing"])) == ["long", "short"]
    assert ids(admin.list_transactions(states=["CompleteCommit", "Empty"])) == ["done"]
    assert ids(admin.list_transactions(states=["PrepareCommit", "Dead"])) == []
    short = admin.describe_transaction("short").producer_id
    assert ids(admin.list_transactions(producer_ids=[short, 99])) == ["short"]
    assert ids(admin.list_transactions(producer_ids=[])) == []
    assert ids(admin.list_transactions(transactional_id_pattern="[ds].*")) == ["done", "short"]
    assert ids(admin.list_transactions(transactional_id_pattern="on")) == []
    assert ids(admin.list_transactions(states=["Ongoing"], transactional_id_pattern=".*o.*t")) == ["short"]


@pytest.mark.parametrize(
    ("duration_ms", "found"),
    [(0, ["long", "short"]), (999, ["long", "short"]), (1000, ["long"]), (59_999, ["long"]), (60_000, [])],
)
@pytest.mark.usefixtures("three")
def test_a_duration_leaves_those_that_are_open_for_longer(admin, duration_ms, found):
    assert ids(admin.list_transactions(duration_ms=duration_ms)) == found


def test_filters_that_cannot_be(admin):
    with pytest.raises(InvalidRequestError, match=r"'Onging'.*CompleteAbort"):
        admin.list_transactions(states=["Onging"])
    with pytest.raises(InvalidRequestError, match="duration_ms must be at least 0"):
        admin.list_transactions(duration_ms=-1)
    with pytest.raises(InvalidRequestError, match=r"transactional_id_pattern '\('"):
        admin.list_transactions(transactional_id_pattern="(")


def test_a_description_has_number_and_duration(log, admin):
    producer = begin(log, partitions=[1, 0])
    log.clock.now += 2
    described = admin.describe_transaction("app")
    assert (described.number, described.state, described.partitions) == (0, "Ongoing", [T0, T1])
    assert described.duration_ms(log.clock.now_ms()) == 2000
    assert described.duration_ms(0) == 0
    producer.commit_transaction()
    described = admin.describe_transaction("app")
    assert (described.state, described.started_ms, described.partitions) == ("CompleteCommit", -1, [])
    assert described.duration_ms(log.clock.now_ms()) is None


def test_offsets_that_wait_are_described_by_group(log, admin):
    begin(log, partitions=[])
    topic = log.topic("u")
    stamp = ProducerStamp(0, 0, 0)
    offsets = (PartitionOffset("u", topic.topic_id, 0, 7, "note"),)
    log.commit(lambda _state: (CommitOffsets("b", offsets, stamp), CommitOffsets("a", offsets, stamp)))
    at = TopicPartition("u", 0)
    pending = admin.describe_transaction("app").pending_offsets
    assert [*pending.items()] == [(group, {at: OffsetAndMetadata(7, "note")}) for group in "ab"]
    log.clock.now += 3600
    (hanging,) = admin.find_hanging_transactions()
    assert hanging.start_offsets == {}
    assert admin.find_hanging_transactions("u") == []


def test_producers_of_a_partition(log, admin):
    begin(log, "app", partitions=[0, 1])
    begin(log, "other", partitions=[1]).abort_transaction()
    app, other = admin.describe_producers("t", 1)
    assert (app.producer_id, app.epoch, app.last_sequence, app.last_timestamp_ms) == (0, 0, 0, 1001)
    assert (app.transaction_start, other.transaction_start) == (0, None)
    (app,) = admin.describe_producers("t", 0)
    assert app.last_timestamp_ms == 1000
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        admin.describe_producers("t", 2)


def test_the_time_of_a_producer_whose_batch_is_gone(log, admin):
    begin(log, "gone").commit_transaction()
    log.clock.now += 1
    begin(log, "there").commit_transaction()
    admin.delete_records({T0: 2})
    gone, there = admin.describe_producers("t", 0)
    assert (gone.last_timestamp_ms, there.last_timestamp_ms) == (log.state.producers[0].last_ms, 1000)
    assert gone.last_timestamp_ms > 1000


def test_hanging_transactions_are_older_than_their_timeout_and_the_given_one(log, admin):
    begin(log, "patient", partitions=[1], timeout_ms=20 * MINUTE_MS - 5 * MINUTE_MS)
    begin(log, "quick", partitions=[0, 1], timeout_ms=1000)
    started_ms = log.clock.now_ms()
    log.clock.now += 15 * 60
    assert admin.find_hanging_transactions() == []
    assert ids(admin.find_hanging_transactions(max_transaction_timeout_ms=0)) == ["quick"]
    log.clock.now += 0.001
    assert ids(admin.find_hanging_transactions()) == ["patient", "quick"]
    assert ids(admin.find_hanging_transactions("t", 0)) == ["quick"]
    assert ids(admin.find_hanging_transactions("t")) == ["patient", "quick"]
    assert admin.find_hanging_transactions("u") == []
    (quick,) = admin.find_hanging_transactions("t", 0)
    assert (quick.producer_id, quick.epoch, quick.number, quick.timeout_ms) == (1, 0, 0, 1000)
    assert (quick.started_ms, quick.duration_ms) == (started_ms, 15 * MINUTE_MS + 1)
    assert quick.start_offsets == {T0: 0}
    admin.abort_transaction_at(T0, quick.start_offsets[T0])
    assert ids(admin.find_hanging_transactions()) == ["patient"]
    begin(log, "older")
    log.clock.now += 1
    begin(log, "patient")  # The smallest producer id, and the youngest transaction.
    log.clock.now += 16 * 60
    assert ids(admin.find_hanging_transactions()) == ["older", "patient"]


def test_hanging_transactions_of_what_is_not_there(admin):
    with pytest.raises(InvalidRequestError, match="partition 0 of which topic"):
        admin.find_hanging_transactions(partition=0)
    with pytest.raises(UnknownTopicOrPartitionError, match="'none'"):
        admin.find_hanging_transactions("none")
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 9"):
        admin.find_hanging_transactions("t", 9)


def test_aborting_tells_what_the_transaction_is_now(log, admin):
    producer = begin(log)
    after = admin.abort_transaction("app")
    assert (after.state, after.number, after.epoch) == ("CompleteAbort", 0, 1)
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()


@pytest.mark.parametrize("named", [{"start_offset": 1}, {"producer_id": 1, "producer_epoch": 0}])
def test_aborting_at_a_place(log, admin, named):
    begin(log, "first")
    second = begin(log, "second")
    after = admin.abort_transaction_at(T0, **named)
    assert (after.transactional_id, after.state, after.epoch) == ("second", "CompleteAbort", 1)
    assert admin.describe_transaction("first").state == "Ongoing"
    with pytest.raises(ProducerFencedError):
        second.commit_transaction()


@pytest.mark.parametrize(
    ("at", "named"),
    [
        (T0, {"start_offset": 2}),
        (T1, {"start_offset": 0}),
        (T0, {"producer_id": 1, "producer_epoch": 1}),
        (T0, {"producer_id": 2, "producer_epoch": 0}),
    ],
)
def test_a_wrong_place_changes_nothing(log, admin, at, named):
    begin(log, "first")
    begin(log, "second", partitions=[0])
    before = log.follow()
    with pytest.raises(InvalidRequestError, match=rf"no open transaction.*in {at}.*Nothing was changed"):
        admin.abort_transaction_at(at, **named)
    assert log.follow() is before


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"producer_id": 0},
        {"producer_epoch": 0},
        {"start_offset": 0, "producer_id": 0},
        {"start_offset": 0, "producer_id": 0, "producer_epoch": 0},
    ],
)
def test_a_place_that_is_named_too_little_or_twice(log, admin, named):
    begin(log)
    with pytest.raises(
        InvalidRequestError, match="by its start_offset, or by producer_id and producer_epoch"
    ):
        admin.abort_transaction_at(T0, **named)
    assert admin.describe_transaction("app").state == "Ongoing"


@pytest.fixture
def meanwhile(log, monkeypatch):
    """Something that happens after an admin has looked and before it proposes."""

    def happens(event):
        commit = log.commit

        def late(*args, **kwargs):
            monkeypatch.setattr(log, "commit", commit)
            event()
            return commit(*args, **kwargs)

        monkeypatch.setattr(log, "commit", late)

    return happens


ABORTS = {
    "by id": lambda admin: admin.abort_transaction("app"),
    "at an offset": lambda admin: admin.abort_transaction_at(T0, 0),
}


@pytest.mark.parametrize("abort", ABORTS.values(), ids=ABORTS)
def test_a_later_transaction_is_not_aborted_in_place_of_the_one_that_was_seen(log, admin, meanwhile, abort):
    elsewhere = Log.open(log.store, clock=log.clock)
    producer = begin(elsewhere)

    def go_on():
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("t", b"y", partition=0)
        producer.flush()

    meanwhile(go_on)
    after = abort(admin)
    assert (after.number, after.state, after.epoch) == (1, "Ongoing", 0)
    producer.commit_transaction()
    assert admin.describe_transaction("app").state == "CompleteCommit"


@pytest.mark.parametrize("abort", ABORTS.values(), ids=ABORTS)
def test_a_transaction_that_ended_meanwhile_stays_as_it_ended(log, admin, meanwhile, abort):
    elsewhere = Log.open(log.store, clock=log.clock)
    producer = begin(elsewhere)
    meanwhile(producer.commit_transaction)
    after = abort(admin)
    assert (after.number, after.state, after.epoch) == (0, "CompleteCommit", 0)


def test_a_transaction_whose_producer_was_fenced_meanwhile_is_not_fenced_twice(log, admin, meanwhile):
    begin(Log.open(log.store, clock=log.clock))
    meanwhile(lambda: Admin(Log.open(log.store, clock=log.clock)).abort_transaction("app"))
    assert admin.abort_transaction("app").epoch == 1


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction", None])
def test_terminating_by_force(log, admin, end):
    producer = begin(log)
    if end is not None:
        getattr(producer, end)()
    after = admin.force_terminate_transaction("app")
    assert after.epoch == 1
    assert after.state == ("CompleteCommit" if end == "commit_transaction" else "CompleteAbort")
    assert admin.describe_topic("t").partitions[0].lso == 2
    if end is not None:
        producer.begin_transaction()
        producer.send("t", b"y")
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    assert admin.force_terminate_transaction("app").epoch == 2


def test_terminating_what_nobody_knows(admin):
    with pytest.raises(InvalidRequestError, match="'nobody'"):
        admin.force_terminate_transaction("nobody")


def test_fencing_is_one_entry_for_all_ids(log, admin):
    begin(log, "app")
    before = log.follow().seq
    admin.fence_producers(iter(["new", "app", "newer", "app"]))
    state = log.follow()
    assert state.seq == before + 1
    assert {name: state.producer_of(name).epoch for name in ("app", "new", "newer")} == {
        "app": 1,
        "new": 0,
        "newer": 0,
    }
    admin.fence_producers([])
    assert log.follow() is state


@pytest.mark.deep
def test_ten_thousand_producers(log, admin):
    count = 10_000
    names = [f"id-{number:05}" for number in range(count)]
    log.commit(
        lambda state: [
            InitProducer(state.next_producer_id + number, 0, name, 60_000)
            for number, name in enumerate(names)
        ]
    )
    u = PartitionOffset("u", log.topic("u").topic_id, 0, 1)
    log.commit(
        lambda _state: [
            CommitOffsets("g", (u,), ProducerStamp(number, 0, 0)) for number in range(0, count, 2)
        ]
    )
    log.commit(lambda _state: [EndTransaction(ProducerStamp(0, 0, 0), commit=True)])
    log.clock.now += 3600
    begin(log, names[-1], partitions=[1])
    assert ids(admin.list_transactions()) == names
    assert len(admin.list_transactions(states=["Ongoing"])) == count // 2
    assert len(admin.list_transactions(producer_ids=range(0, count, 5), duration_ms=1)) == count // 10 - 1
    assert [producer.producer_id for producer in admin.describe_producers("t", 1)] == [count - 1]
    assert len(admin.find_hanging_transactions()) == count // 2 - 1
    admin.fence_producers(names)
    state = log.follow()
    assert not state.open_transactions
    assert {producer.epoch for producer in state.producers.values()} == {1, 2}
