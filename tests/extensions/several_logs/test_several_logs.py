"""A transaction over several logs is seen in all of them or in none, whichever process dies and whichever reads."""

from __future__ import annotations

import shutil

import pytest

from spark_eos import Admin, Consumer, MultiLogProducer, Producer, TopicPartition, read_arrow
from spark_eos.clients.table_plan import plan_table
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeUnknownError,
    ConfigError,
    IllegalStateError,
    InvalidRequestError,
    InvalidTxnStateError,
    NotALogError,
    OutcomeUnknownError,
    ProducerFencedError,
    RecordTooLargeError,
    StorePermissionError,
    StoreUnavailableError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.protocol.actions import FollowDecision
from spark_eos.protocol.state import TransactionState
from spark_eos.storage import open_store
from spark_eos.testing.wrapped_store import WrappedStore
from tests.crashpoints.app import Clock


class Reader(WrappedStore):
    """A store that may only be read, or not at all."""

    refuses: tuple[str, ...] = ("create", "upload", "overwrite", "delete", "retire")
    error = StorePermissionError

    def _call(self, operation, name, effect):
        if operation in self.refuses:
            raise self.error(f"{operation} {name}: not with these rights")
        return effect()


class Lossy(Reader):
    """Once it refuses something, it loses the reply to the next entry, and answers nothing more."""

    refuses = ()
    error = StoreUnavailableError

    def _call(self, operation, name, effect):
        done = super()._call(operation, name, effect)
        if self.refuses and operation == "create" and name.startswith("_log/"):
            self.refuses = ("create", "read", "list")
            raise OutcomeUnknownError(f"{operation} {name}: no reply")
        return done


class World:
    """Two logs in folders, and the clock of all their processes."""

    def __init__(self, folder):
        self.urls = {name: folder / name for name in ("orders", "payments")}
        self.names = dict.fromkeys(self.urls, 0)
        self.process = 0
        for name, url in self.urls.items():
            log = Log.create(url)
            Admin(log).create_topic(name)

    def log(self, name, wrap=None, **kwargs):
        """A handle of another process, hours later."""
        self.process += 1
        store = open_store(self.urls[name])
        store = store if wrap is None else wrap(store)
        return Log.open(store, Clock(self.process), Retry(deadline_s=0), **kwargs)

    def late(self, name, *args):
        """A handle of a process that has seen what is open for longer than its timeout."""
        log = self.log(name, *args)
        self.seen(name, log)
        log.clock.now += 100
        return log

    def producer(self, *names, **settings):
        self.process += 1
        clock = Clock(self.process)
        logs = [Log.open(self.urls[name], clock, Retry(deadline_s=0)) for name in names or self.urls]
        given = {
            "transactional.id": "shop",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        group = MultiLogProducer(*(Producer(log, given) for log in logs))
        group.init_transactions()
        return group

    def seen(self, name, log=None):
        table = read_arrow(log or self.log(name), name).read_all()
        return [value.decode() for value in table.column("value").to_pylist()]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def members(group):
    return group._producers


def send(group, value):
    orders, payments = members(group)
    return orders.send("orders", value), payments.send("payments", value)


def fails(group):
    with group.transaction():
        send(group, "a")
        members(group)[1].flush()
        raise ZeroDivisionError


class Killed(BaseException):
    pass


def killed_at(group, step):
    """The coordinator dies before ``step``: prepare, decide, or follow."""
    decider, *followers = group._members

    def die(*_args, **_kw):
        raise Killed

    if step == "prepare":
        followers[0].prepare = die
    elif step == "decide":
        decider.commit = die
    else:
        followers[0].follow = die
    with pytest.raises(Killed):
        group.commit_transaction()


# -- The whole ------------------------------------------------------------------------------------------


def test_a_transaction_is_seen_in_both(world):
    with world.producer() as group:
        with group.transaction():
            first, second = send(group, "a")
        assert (first.result().offset, second.result().offset) == (0, 0)
        with group.transaction():
            send(group, "b")
    assert world.seen("orders") == world.seen("payments") == ["a", "b"]
    decision = world.log("orders").state.producers[0].decision
    assert (decision.number, decision.committed, decision.waiting) == (1, True, ())
    assert Admin(world.log("orders")).describe_transaction("shop").awaited_logs == []


def test_nothing_is_seen_of_one_that_is_aborted(world):
    with world.producer() as group:
        with pytest.raises(ZeroDivisionError):
            fails(group)
        group.begin_transaction()
        send(group, "b")
        group.abort_transaction()
        with group.transaction():
            send(group, "c")
    assert world.seen("orders") == world.seen("payments") == ["c"]


def test_offsets_of_groups_are_part_of_it(world):
    with world.producer() as group:
        with group.transaction():
            send(group, "a")
        with group.transaction():
            orders, payments = members(group)
            orders.send("orders", "b")
            payments.send_offsets_to_transaction({TopicPartition("payments", 0): 1}, "g")
    assert {at: one.offset for at, one in world.log("payments").state.offsets["g"].items()} == {
        ("payments", 0): 1
    }


@pytest.mark.parametrize("alone", [0, 1])
def test_a_log_to_which_nothing_is_sent_takes_no_part(world, alone):
    with world.producer() as group:
        name = [*world.urls][alone]
        before = {one: world.log(one).state.seq for one in world.urls}
        with group.transaction():
            members(group)[alone].send(name, "x")
        with group.transaction():
            pass
        after = {one: world.log(one).state.seq for one in world.urls}
    assert {one: after[one] - before[one] for one in after} == {**dict.fromkeys(world.urls, 0), name: 1}
    assert world.seen(name) == ["x"]


def test_members_leave_the_ends_to_the_group(world):
    with world.producer() as group:
        orders, _ = members(group)
        for call in (orders.begin_transaction, orders.init_transactions):
            with pytest.raises(IllegalStateError, match="belongs to a MultiLogProducer"):
                call()
        group.begin_transaction()
        with pytest.raises(IllegalStateError, match="belongs to a MultiLogProducer"):
            orders.commit_transaction()
        with pytest.raises(IllegalStateError, match="MultiLogProducer is IN_TRANSACTION"):
            group.begin_transaction()


def test_members_are_of_different_logs(world, tmp_path):
    with pytest.raises(ConfigError, match="two or more producers"):
        MultiLogProducer(Producer(world.log("orders"), {"transactional.id": "a"}))
    with pytest.raises(IllegalStateError, match=r"needs the setting transactional\.id"):
        MultiLogProducer(Producer(world.log("orders")), Producer(world.log("payments")))
    shutil.copytree(world.urls["orders"], tmp_path / "copy")
    twice = [Producer(url, {"transactional.id": "a"}) for url in (world.urls["orders"], tmp_path / "copy")]
    with pytest.raises(ConfigError, match="are the same log"), MultiLogProducer(*twice) as group:
        group.init_transactions()
    assert not world.log("orders").state.producers


# -- The coordinator dies -------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["consumer", "read_arrow", "admin", "resolve"])
@pytest.mark.parametrize("step", ["decide", "follow"])
def test_any_reader_ends_what_it_left(world, step, reader):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, step)
    expected = ["a"] if step == "follow" else []
    log = world.log("payments") if step == "follow" else world.late("payments")
    assert log.state.open_transactions
    if reader == "consumer":
        settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "group.id": "g"}
        consumer = Consumer(log, settings)
        consumer.assign([TopicPartition("payments", 0)])
        assert [one.value.decode() for one in consumer.poll(0)] == expected
        consumer.close()
    elif reader == "admin":
        Admin(log).resolve_transactions()
    elif reader == "resolve":
        assert log.resolve_followers() == {}
    assert world.seen("payments", log) == world.seen("orders") == expected
    assert not world.log("payments").state.open_transactions
    decision = world.log("orders").state.producers[0].decision
    assert (decision.committed, decision.waiting) == (step == "follow", ())


def test_one_that_dies_before_all_are_prepared_has_decided_nothing(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "prepare")
    assert world.seen("payments") == []
    orders = world.late("orders")
    assert orders.state.producers[0].transaction is TransactionState.ONGOING
    assert world.seen("orders", orders) == []
    assert orders.state.producers[0].decision.committed is False


@pytest.mark.parametrize("step", ["prepare", "decide", "follow"])
def test_the_next_coordinator_ends_what_the_one_before_left(world, step):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, step)
    with world.producer() as heir, heir.transaction():
        send(heir, "b")
    expected = ["a", "b"] if step == "follow" else ["b"]
    assert world.seen("orders") == world.seen("payments") == expected


@pytest.mark.parametrize("step", ["decide", "follow"])
def test_one_that_sleeps_and_wakes_is_fenced_or_finds_it_done(world, step):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, step)
    world.seen("payments", world.late("payments"))  # In the deciding log, its time is over.
    for member in group._members:
        vars(member).pop("commit", None)
        vars(member).pop("follow", None)
    if step == "decide":
        with pytest.raises(ProducerFencedError):
            group.commit_transaction()
        with pytest.raises(IllegalStateError, match="FATAL_ERROR"):
            group.begin_transaction()
    else:
        group.commit_transaction()
        with group.transaction():
            send(group, "b")
    expected = [] if step == "decide" else ["a", "b"]
    assert world.seen("orders") == world.seen("payments") == expected


def test_a_slow_prepare_comes_too_late(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "prepare")
    vars(group._members[1]).pop("prepare")
    world.producer().close()  # Its successor has seen that nothing was prepared, and fenced it there.
    with pytest.raises(ProducerFencedError):
        group.commit_transaction()
    assert world.seen("orders") == world.seen("payments") == []
    assert not world.log("payments").state.open_transactions


def test_a_slow_prepare_comes_too_late_in_a_log_that_the_successor_does_not_write_to(world, tmp_path):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "prepare")
    vars(group._members[1]).pop("prepare")
    world.urls["other"] = tmp_path / "other"
    Admin(Log.create(tmp_path / "other")).create_topic("other")
    with world.producer("orders", "other") as heir, heir.transaction():
        for producer, name in zip(members(heir), ("orders", "other"), strict=True):
            producer.send(name, "b")
    with pytest.raises(ProducerFencedError):
        group.commit_transaction()
    assert [world.seen(name) for name in world.urls] == [["b"], [], ["b"]]
    assert not world.log("payments").state.open_transactions


@pytest.mark.parametrize("is_early", [False, True])
def test_a_plain_producer_with_the_id_of_a_follower_does_not_abort_it(world, is_early):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    early = world.log("payments")  # It has read the log before the transaction is prepared.
    killed_at(group, "follow")
    plain = Producer(early if is_early else world.log("payments"), {"transactional.id": "shop"})
    plain.init_transactions()
    plain.begin_transaction()
    plain.send("payments", "b")
    plain.commit_transaction()
    assert world.seen("payments") == ["a", "b"]


def test_a_decision_in_doubt_is_only_repeated(world):
    orders, payments = world.log("orders", Lossy), world.log("payments")
    group = MultiLogProducer(*(Producer(log, {"transactional.id": "shop"}) for log in (orders, payments)))
    group.init_transactions()
    group.begin_transaction()
    send(group, "a")
    decide = group._decider.commit

    def lossy():
        orders.store.refuses = ("none",)
        decide()

    group._decider.commit = lossy
    with pytest.raises(CommitOutcomeUnknownError):
        group.commit_transaction()
    group._decider.commit = decide
    with pytest.raises(IllegalStateError, match="MultiLogProducer is DECIDING; only commit_transaction"):
        group.abort_transaction()
    orders.store.refuses = ()
    group.commit_transaction()
    assert world.seen("orders") == world.seen("payments") == ["a"]


def test_a_close_aborts_what_all_have_prepared(world):
    """At once: no other process has to ask the deciding log."""
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "decide")
    group.close()
    for url in world.urls.values():
        assert not Log.open(url).state.open_transactions


def sends_too_much(group):
    with group.transaction():
        send(group, "b")
        members(group)[1].send("payments", "long")


def test_a_transaction_with_a_record_that_one_log_refuses_is_in_none(world):
    Admin(world.log("payments")).alter_topic("payments", config={"max.message.bytes": 1})
    group = world.producer()
    orders, payments = members(group)
    group.begin_transaction()
    orders.send("orders", "a")
    with pytest.raises(RecordTooLargeError):
        payments.send("payments", "long").result()
    for _ in range(2):
        with pytest.raises(AbortableError):
            group.commit_transaction()
    group.abort_transaction()
    with pytest.raises(AbortableError):
        sends_too_much(group)
    with group.transaction():
        send(group, "c")
    assert world.seen("orders") == world.seen("payments") == ["c"]


def test_a_follower_of_a_fenced_decider_is_ended_at_once(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "decide")
    vars(group._decider).pop("commit")
    with Producer(world.log("orders"), {"transactional.id": "shop"}) as other:
        other.init_transactions()
    with pytest.raises(ProducerFencedError):
        group.commit_transaction()
    for url in world.urls.values():
        assert not Log.open(url).state.open_transactions


@pytest.mark.parametrize("doubtful", [0, 1], ids=["the decider", "a follower"])
def test_after_an_abort_the_next_transaction_names_its_followers_itself(world, doubtful):
    """The reply to the request that named those of the one before was lost, or that of a follower that prepared it."""
    logs = [world.log(name, Lossy) for name in world.urls]
    group = MultiLogProducer(*(Producer(log, {"transactional.id": "shop"}) for log in logs))
    group.init_transactions()
    group.begin_transaction()
    send(group, "a")
    store = logs[doubtful].store
    store.refuses = ("none",)
    with pytest.raises(CommitOutcomeUnknownError):
        group.commit_transaction()
    store.refuses = ()
    group.abort_transaction()
    with group.transaction():
        send(group, "b")
    assert world.seen("orders") == world.seen("payments") == ["b"]


def test_a_prepared_member_is_ended_by_the_group_alone(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "decide")
    _, payments = members(group)
    with pytest.raises(IllegalStateError, match="belongs to a MultiLogProducer"):
        payments.abort_transaction()
    del group._decider.commit
    group.commit_transaction()
    assert world.seen("orders") == world.seen("payments") == ["a"]


@pytest.fixture(params=[0, 1], ids=["the decider", "a follower"])
def only(world, request):
    """A transaction in which one log alone has a record; the group, the name of this log, and its store."""
    logs = [world.log(name, Lossy) for name in world.urls]
    group = MultiLogProducer(*(Producer(log, {"transactional.id": "shop"}) for log in logs))
    group.init_transactions()
    group.begin_transaction()
    name = [*world.urls][request.param]
    members(group)[request.param].send(name, "a")
    return group, name, logs[request.param].store


def test_a_commit_in_doubt_of_the_only_log_is_only_repeated(world, only):
    """To abort it, and to do its work again, would do it twice."""
    group, name, store = only
    store.refuses = ("none",)
    for _ in range(2):
        with pytest.raises(CommitOutcomeUnknownError):
            group.commit_transaction()
        with pytest.raises(IllegalStateError, match="only commit_transaction is allowed"):
            group.abort_transaction()
    store.refuses = ()
    group.commit_transaction()
    with group.transaction():
        send(group, "b")
    assert world.seen(name) == ["a", "b"]


def test_a_commit_of_the_only_log_that_was_not_done_may_be_repeated(world, only):
    group, name, store = only
    store.refuses = ("create",)
    with pytest.raises(StoreUnavailableError):
        group.commit_transaction()
    store.refuses = ()
    group.commit_transaction()
    assert world.seen(name) == ["a"]


def test_behind_a_commit_of_the_only_log_all_transactions_have_ended(only):
    group, _, _ = only
    group.commit_transaction()
    for producer, name in zip(members(group), ("orders", "payments"), strict=True):
        with pytest.raises(IllegalStateError, match="begin_transaction is allowed"):
            producer.send(name, "between two transactions")


def test_deciders_may_cross(world):
    one = world.producer("orders", "payments", transactional_id="one")
    two = world.producer("payments", "orders", transactional_id="two")
    for group in (one, two):
        group.begin_transaction()
        for producer, name in zip(
            members(group), world.names if group is one else reversed(world.names), strict=True
        ):
            producer.send(name, producer._settings["transactional.id"])
    killed_at(one, "follow")
    killed_at(two, "follow")
    assert sorted(world.seen("orders")) == sorted(world.seen("payments")) == ["one", "two"]


# -- Rights, and logs that cannot be read -----------------------------------------------------------------


def test_a_reader_without_the_right_to_write_sees_it_as_decided(world, caplog):
    group = world.producer()
    with group.transaction():
        send(group, "before")
    group.begin_transaction()
    send(group, "a")
    members(group)[1].send_offsets_to_transaction({TopicPartition("payments", 0): 1}, "g")
    killed_at(group, "follow")
    log = world.log("payments", Reader)
    settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "group.id": "other"}
    consumer = Consumer(log, {**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition("payments", 0)])
    assert [one.value for one in consumer.poll(0)] == [b"before", b"a"]
    assert world.seen("payments", log) == ["before", "a"]
    assert sum(fetch.count for fetch in plan_table(log, "payments").rest) == 2
    assert "cannot be written here" in caplog.text
    assert log.state.open_transactions
    assert log.as_decided(log.state).offsets["g"]["payments", 0].offset == 1
    assert world.seen("payments") == ["before", "a"]  # A reader with all rights.
    with world.producer() as heir, heir.transaction():
        send(heir, "b")
    log.follow()
    assert [one.value for one in consumer.poll(0)] == [b"b"]
    assert log.as_decided(log.state) is log.state or not log.state.open_transactions


@pytest.mark.parametrize("commits", [True, False])
def test_what_was_decided_elsewhere_is_not_split(world, commits):
    """A is open in payments-0. What was decided has a record behind it, and one in payments-1; it cannot be written."""
    Admin(world.log("payments")).alter_topic("payments", partitions=2)
    alone = Producer(world.log("payments"), transactional_id="a")
    alone.init_transactions()
    alone.begin_transaction()
    alone.send("payments", "a", partition=0)
    alone.flush()
    group = world.producer()
    group.begin_transaction()
    members(group)[0].send("orders", "b")
    for partition in (0, 1):
        members(group)[1].send("payments", "b", partition=partition)
    members(group)[1].flush()
    killed_at(group, "follow" if commits else "decide")
    if not commits:
        world.seen("orders", world.late("orders"))
        alone.send("payments", "a", partition=0)
    log = world.log("payments", Reader)

    def seen(**given):
        table = read_arrow(log, "payments", columns=["partition", "value"], **given).read_all()
        return [tuple(row.values()) for row in table.to_pylist()]

    assert seen() == ([(1, b"b")] if commits else [])
    assert log.as_decided(log.state) is not log.state
    assert seen(whole_transactions=True) == []
    alone.commit_transaction()
    assert seen(whole_transactions=True) == seen()
    assert len(seen()) == (3 if commits else 2)


def test_a_reader_without_the_right_to_write_does_not_see_what_was_aborted(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "decide")
    world.seen("orders", world.late("orders"))
    assert world.log("orders").state.producers[0].decision.committed is False
    log = world.log("payments", Reader)
    assert world.seen("payments", log) == []
    assert log.as_decided(log.state).partitions[log.topic("payments").topic_id, 0].last_stable_offset == 1


def test_readers_wait_while_the_deciding_log_cannot_be_read_and_are_told(world, caplog):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    away = world.urls["orders"].rename(world.urls["orders"].with_name("away"))
    log = world.log("payments")
    assert world.seen("payments", log) == []
    assert "readers wait for transaction 0 of transactional.id 'shop'" in caplog.text
    assert "cannot be asked" in caplog.text
    (why,) = log.resolve_followers().values()
    assert "decides, and cannot be asked" in why
    assert str(world.urls["orders"]) in why
    assert Admin(log).resolve_transactions() == {"shop": why}
    plain = Producer(world.log("payments"), {"transactional.id": "shop"})
    with pytest.raises(StoreUnavailableError, match="has not ended"):
        plain.init_transactions()
    # Where it is now, as a caller says it.
    log.register_decider(Log.open(away))
    assert log.resolve_followers() == {}
    assert world.seen("payments") == ["a"]


def test_maintenance_ends_what_is_decided(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    log, said = world.log("payments"), []
    away = world.urls["orders"].rename(world.urls["orders"].with_name("away"))

    def maintain():
        return [done.text for done in Maintainer(log, min_age_s=0, tell=said.append).run()]

    assert not any("as another log decided" in text for text in maintain())
    assert any(text.startswith("a transaction waits: ") for text in said)
    away.rename(world.urls["orders"])
    assert "ended 1 transaction as another log decided" in maintain()
    assert not log.state.open_transactions


def test_another_log_in_its_place_decides_nothing(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    shutil.rmtree(world.urls["orders"])
    Log.create(world.urls["orders"])
    (why,) = world.log("payments").resolve_followers().values()
    assert "holds log" in why
    assert world.log("payments").state.open_transactions


def test_a_follower_that_was_moved_follows_where_the_next_coordinator_has_it(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    world.urls["payments"] = world.urls["payments"].rename(world.urls["payments"].with_name("elsewhere"))
    with world.producer() as heir, heir.transaction():
        send(heir, "b")
    assert world.seen("orders") == world.seen("payments") == ["a", "b"]


def test_another_log_in_the_place_of_a_follower_follows_nothing(world, tmp_path):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    shutil.rmtree(world.urls["payments"])
    Log.create(world.urls["payments"])
    world.urls["bills"] = tmp_path / "bills"
    Log.create(world.urls["bills"])
    with pytest.raises(NotALogError, match=r"which was there, follows a transaction"):
        world.producer("orders", "bills")
    assert world.log("orders").state.producers[0].decision.waiting


def test_a_deciding_log_that_was_put_back_decides_nothing(world, tmp_path):
    group = world.producer()
    shutil.copytree(world.urls["orders"], tmp_path / "backup")
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    shutil.rmtree(world.urls["orders"])
    shutil.copytree(tmp_path / "backup", world.urls["orders"])
    log = world.log("payments")
    (why,) = log.resolve_followers().values()
    assert "was put back from a backup" in why
    # Nor when it has gone on, with the same id and numbers.
    other = Producer(world.log("orders"), {"transactional.id": "x"})
    other.init_transactions()
    (why,) = world.log("payments").resolve_followers().values()
    assert "was put back from a backup" in why
    assert log.follow().open_transactions
    after = Admin(log).force_terminate_transaction("shop")
    assert after.state == "CompleteAbort"


def test_a_deciding_log_that_was_put_back_may_give_out_the_same_numbers(world, tmp_path):
    shutil.copytree(world.urls["orders"], tmp_path / "backup")
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    shutil.rmtree(world.urls["orders"])
    shutil.copytree(tmp_path / "backup", world.urls["orders"])
    world.urls["other"] = tmp_path / "other"
    Admin(Log.create(tmp_path / "other")).create_topic("other")
    again = world.producer("orders", "other")
    again.begin_transaction()
    for producer, name in zip(members(again), ("orders", "other"), strict=True):
        producer.send(name, "x")
    killed_at(again, "decide")
    world.seen("orders", world.late("orders"))
    state = world.log("orders").state
    log = world.log("payments")
    follows = log.state.producers[0].follows
    decision = state.producers[0].decision
    assert (decision.epoch, decision.number, decision.committed) == (follows.epoch, follows.number, False)
    assert state.seq >= follows.seq
    (why,) = log.resolve_followers().values()
    assert "was put back from a backup" in why
    assert log.follow().open_transactions


def test_what_is_sent_after_the_commit_was_called_is_no_part_of_it(world, tmp_path):
    world.urls["other"] = tmp_path / "other"
    Admin(Log.create(tmp_path / "other")).create_topic("other")
    group = world.producer("orders", "payments", "other")
    group.begin_transaction()
    orders, payments, other = members(group)
    orders.send("orders", "a")
    payments.send("payments", "a")
    killed_at(group, "prepare")
    vars(group._members[1]).pop("prepare")
    late = other.send("other", "late")
    with pytest.raises(AbortableError, match="has sent after commit_transaction was called"):
        group.commit_transaction()
    group.abort_transaction()
    assert late.exception() is not None
    with group.transaction():
        for producer, name in zip(members(group), world.urls, strict=True):
            producer.send(name, "b")
    assert [world.seen(name) for name in world.urls] == [["b"]] * 3


def test_a_follower_that_was_put_back_decides_nothing_either(world, tmp_path):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    shutil.copytree(world.urls["payments"], tmp_path / "backup")
    with world.producer() as heir, heir.transaction():
        send(heir, "b")
    shutil.rmtree(world.urls["payments"])
    shutil.copytree(tmp_path / "backup", world.urls["payments"])
    (why,) = world.log("payments").resolve_followers().values()
    assert "it or the log that follows it was put back" in why


def test_an_end_of_another_kind_is_refused_by_the_log(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "follow")
    log = world.log("payments")
    producer = log.state.producers[0]
    world.seen("payments")
    end = FollowDecision(producer.stamp, producer.follows, commit=False)
    with pytest.raises(InvalidTxnStateError):
        log.commit(lambda _: (end,))


def test_an_administrator_sees_where_it_is_decided(world):
    group = world.producer()
    group.begin_transaction()
    send(group, "a")
    killed_at(group, "decide")
    log = world.log("payments")
    described = Admin(log).describe_transaction("shop")
    assert (described.state, described.decided_by) == ("Prepared", str(log.state.producers[0].follows))
    (deciding,) = Admin(world.log("orders")).list_transactions()
    assert (deciding.awaited_logs, deciding.decided_by) == ([log.url], "")
    with pytest.raises(InvalidRequestError, match="another log decides"):
        Admin(log).abort_transaction("shop")
    with pytest.raises(InvalidTxnStateError):
        Admin(log).fence_producers(["shop"])
    assert Admin(log).force_terminate_transaction("shop").state == "CompleteAbort"
