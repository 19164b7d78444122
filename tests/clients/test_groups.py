"""Consumer groups: who holds what, who may commit, and what the listener hears."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from itertools import chain

import pytest

from spark_eos import Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.clients.consumer.heartbeat import HeartbeatThread, heartbeat_name
from spark_eos.clients.producer.producer_session import init_producer_id
from spark_eos.errors import (
    CommitFailedError,
    CommitOutcomeUnknownError,
    ConfigError,
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    InvalidRequestError,
    UnknownMemberIdError,
)
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    CommitOffsets,
    EndTransaction,
    JoinGroup,
    LeaveGroup,
    PartitionOffset,
    SyncGroup,
)
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.state import Group
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.clients.group_world import Heard, World, beats, held, member_id, places, settle, values

STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
STICKY = {"partition_assignment_strategy": "cooperative-sticky"}
T = [TopicPartition("t", number) for number in range(8)]
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 6))]


@pytest.fixture(autouse=True)
def no_threads(monkeypatch):
    monkeypatch.setattr(HeartbeatThread, "start", lambda _thread: None)


@pytest.fixture
def world():
    return World(("t", 4))


# -- Subscribing ---------------------------------------------------------------------------------------


def test_subscribe_and_assign_exclude_each_other(world):
    consumer = world.member("t")
    with pytest.raises(IllegalStateError, match="this consumer subscribes, which assigns"):
        consumer.assign([T[0]])
    consumer.unsubscribe()
    assert consumer.subscription() == set()
    consumer.assign([T[0]])
    with pytest.raises(IllegalStateError, match="call unsubscribe before subscribe"):
        consumer.subscribe(["t"])
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    consumer.subscribe(["t"])
    assert consumer.subscription() == {"t"}


def test_members_are_called_after_their_clients(world):
    for settings, name in (({"client_id": "billing"}, "billing-"), ({}, "consumer-")):
        member = world.member(**settings)
        member.poll()
        assert member_id(member).startswith(name)


def test_subscribe_needs_a_group(world):
    with pytest.raises(ConfigError, match=r"subscribe needs.*group\.id"):
        Consumer(world.log).subscribe(["t"])


def test_nothing_is_joined_before_the_first_poll(world):
    consumer = world.member()
    assert "g" not in world.log.follow().groups
    assert consumer.group_metadata()[1:4] == (-1, "", None)
    consumer.poll()
    assert consumer.group_metadata()[:4] == ("g", world.group.generation, *world.group.members, None)
    assert held(consumer) == "t0 t1 t2 t3"


def test_subscribing_to_nothing_is_unsubscribing(world):
    consumer = world.member()
    consumer.poll()
    consumer.subscribe([])
    assert consumer.assignment() == consumer.subscription() == set()
    assert world.group.status == "Empty"


def test_a_topic_may_be_subscribed_to_before_it_is_there(world):
    consumer = world.member("later")
    assert consumer.poll() == []
    world.fill("later", values=[1, 2])
    assert values(consumer.poll()) == [1, 2]


@pytest.mark.parametrize("how", [{"pattern": "a."}, {"pattern": re.compile("a.")}, {"topics": ["^a."]}])
def test_patterns_follow_the_topics(world, how):
    """A pattern stands for whole names."""
    topics = how.pop("topics", ())
    for name in ("a1", "ba1", "a1-dead"):
        world.admin.create_topic(name)
    consumer = world.member(*topics, **how)
    consumer.poll()
    assert held(consumer) == "a10"
    world.admin.create_topic("a2")
    consumer.poll()
    assert held(consumer) == "a10 a20"
    assert consumer.subscription() == {"a1", "a2"}
    world.admin.delete_topic("a1")
    consumer.poll()
    assert held(consumer) == "a20"
    assert world.group.members[member_id(consumer)].topics == ("a2",)


@pytest.mark.parametrize("bad", ["^(", 5, "", "a b", "t, u", "t.*"])
def test_what_is_no_topic_and_no_pattern(world, bad):
    with pytest.raises(InvalidRequestError, match=r"regular expression|illegal topic name"):
        world.member(bad)


def test_one_topic_need_not_be_a_list(world):
    consumer = Consumer(world.log, {"group.id": "g"})
    consumer.subscribe("t")
    assert consumer.subscription() == {"t"}


def test_a_listener_without_methods_is_refused(world):
    with pytest.raises(InvalidRequestError, match="on_partitions_assigned"):
        world.member(listener=object())
    with pytest.raises(InvalidRequestError, match="not both"):
        world.member().subscribe(["t"], listener=Heard(), on_assign=print)


def test_coroutine_functions_are_refused(world):
    """A thread calls them, and no event loop runs what they return: they would do nothing, in silence."""

    class Awaited:
        async def on_partitions_revoked(self, partitions):
            pass

    async def call(*_):
        pass

    one = world.member()
    with pytest.raises(
        InvalidRequestError, match=r"^on_partitions_revoked of the listener=.*coroutine function"
    ):
        one.subscribe(["t"], listener=Awaited())
    with pytest.raises(InvalidRequestError, match=r"^on_assign=.*coroutine function"):
        one.subscribe(["t"], on_assign=call)
    with pytest.raises(InvalidRequestError, match=r"^callback=.*coroutine function"):
        one.commit_async({}, call)


def test_subscribing_anew_changes_what_is_held(world):
    world.admin.create_topic("u", 2)
    heard = Heard()
    first, other = world.member(listener=heard, **STICKY), world.member("t", "u", **STICKY)
    settle(first, other)
    identity = member_id(first)
    heard.take()
    first.subscribe(["u"], listener=heard)
    settle(first, other)
    assert member_id(first) == identity
    assert {topic for topic, _ in first.assignment()} == {"u"}
    assert {topic for topic, _ in other.assignment()} >= {"t"}
    assert [name for name, _ in heard.take()][:2] == ["revoked", "assigned"]


# -- Joining, leaving, generations -----------------------------------------------------------------------


@every_strategy
def test_two_members_share_and_the_one_left_takes_all(world, strategy):
    settings = {"partition_assignment_strategy": strategy}
    one, two = world.member(**settings), world.member(**settings)
    one.poll()
    assert held(one) == "t0 t1 t2 t3"
    two.poll()
    assert held(two) == ""  # all of it is still the other's
    settle(one, two)
    assert len(one.assignment()) == len(two.assignment()) == 2
    assert not one.assignment() & two.assignment()
    assert world.group.status == "Stable"
    one.close()
    two.poll()
    assert held(two) == "t0 t1 t2 t3"


@every_strategy
def test_three_members(world, strategy):
    world.admin.create_topic("u", 5)
    members = [world.member("t", "u", partition_assignment_strategy=strategy) for _ in range(3)]
    settle(*members)
    shares = [member.assignment() for member in members]
    assert sorted(map(len, shares)) == ([2, 3, 4] if strategy == "range" else [3, 3, 3])
    assert len(set().union(*shares)) == 9


def test_the_listener_of_an_eager_group(world):
    heard, other = Heard(), Heard()
    one = world.member(listener=heard, partition_assignment_strategy="range")
    one.poll()
    assert heard.take() == [("assigned", "t0 t1 t2 t3")]
    two = world.member(listener=other, partition_assignment_strategy="range")
    two.poll()
    assert other.take() == [("assigned", "")]
    one.poll()
    mine = held(one)
    assert heard.take() == [("revoked", "t0 t1 t2 t3"), ("assigned", mine)]
    two.poll()
    assert other.take() == [("assigned", held(two))]
    one.close()
    assert heard.take() == [("revoked", mine)]


def test_the_listener_of_a_cooperative_group(world):
    heard, other = Heard(), Heard()
    one = world.member(listener=heard, **STICKY)
    one.poll()
    two = world.member(listener=other, **STICKY)
    two.poll()
    heard.take()
    one.poll()
    assert heard.take() == [("revoked", "t2 t3"), ("assigned", "")]
    two.poll()
    assert other.take() == [("assigned", ""), ("assigned", "t2 t3")]
    one.poll()
    assert heard.take() == []
    one.close()
    two.poll()
    assert other.take() == [("assigned", "t0 t1")]


def test_functions_instead_of_a_listener(world):
    calls = []

    def note(name):
        return lambda consumer, partitions: calls.append((name, consumer, places(partitions)))

    one = Consumer(world.log, {"group.id": "g"})
    one.subscribe(["t"], on_assign=note("assign"), on_revoke=note("revoke"), on_lost=note("lost"))
    one.poll()
    one.subscribe(["u"], on_assign=note("assign"), on_revoke=note("revoke"))
    one.poll()
    one.subscribe(["t"], on_assign=note("assign"), on_revoke=note("revoke"))
    one.poll()
    evict(world, one)
    one.poll()
    assert [(name, where) for name, _, where in calls] == [
        ("assign", "t0 t1 t2 t3"),
        ("revoke", "t0 t1 t2 t3"),
        ("assign", ""),
        ("assign", "t0 t1 t2 t3"),
        ("revoke", "t0 t1 t2 t3"),  # lost, and there is no function for that
        ("assign", "t0 t1 t2 t3"),
    ]
    assert {consumer for _, consumer, _ in calls} == {one}


def test_offsets_can_be_committed_while_partitions_are_revoked(world):
    world.fill(partition=0, values=range(10))
    one = Consumer(world.log, {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    one.subscribe(["t"], on_revoke=lambda consumer, _: consumer.commit())
    assert len(one.poll(max_records=4)) == 4
    two = world.member(enable_auto_commit=False)
    found = settle(two, one)
    assert sorted(values(found[0] + found[1])) == [4, 5, 6, 7, 8, 9]


def test_reading_begins_where_the_listener_has_committed(world):
    """It began where the group had been before."""
    world.fill(partition=0, values=range(5))

    class Skips:
        def on_partitions_assigned(self, partitions):
            consumer.commit({at: 3 for at in partitions if at == T[0]})

    consumer = world.member(listener=Skips())
    assert values(consumer.poll()) == [3, 4]


def test_no_group_calls_inside_the_listener(world):
    caught = []

    def call(consumer, _partitions):
        for name, arguments in {"poll": (), "subscribe": (["u"],), "unsubscribe": (), "close": ()}.items():
            with pytest.raises(
                IllegalStateError, match=f"{name} is not possible inside on_partitions_assigned"
            ):
                getattr(consumer, name)(*arguments)
            caught.append(name)

    consumer = Consumer(world.log, {"group.id": "g"})
    consumer.subscribe(["t"], on_assign=call)
    consumer.poll()
    assert caught == ["poll", "subscribe", "unsubscribe", "close"]
    consumer.close()


def test_a_listener_that_raises_does_not_stop_the_group(world):
    def fail(_consumer, _partitions):
        raise ValueError("the application's own trouble")

    one = Consumer(world.log, {"group.id": "g", "auto.offset.reset": "earliest"})
    one.subscribe(["t"], on_revoke=fail)
    one.poll()
    two = world.member()
    two.poll()
    with pytest.raises(ValueError, match="own trouble"):
        one.poll()
    settle(one, two)
    assert len(one.assignment()) == len(two.assignment()) == 2
    with pytest.raises(ValueError, match="own trouble"):
        one.close()
    two.poll()
    assert held(two) == "t0 t1 t2 t3"


def test_a_group_can_change_from_eager_to_cooperative(world):
    """The rolling upgrade of KIP-429: first both, then the new one alone."""
    old = [world.member(partition_assignment_strategy="range") for _ in range(2)]
    settle(*old)
    assert world.group.assignor == "range"
    both = world.member(partition_assignment_strategy="cooperative-sticky,range")
    old[0].close()
    settle(old[1], both)
    assert world.group.assignor == "range"
    old[1].close()
    settle(both)
    assert world.group.assignor == "cooperative-sticky"


def test_members_without_a_common_assignor(world):
    world.member(partition_assignment_strategy="range").poll()
    with pytest.raises(InconsistentGroupProtocolError, match="in common"):
        world.member(**STICKY).poll()


def test_new_partitions_are_shared_out(world):
    one, two = world.member(**STICKY), world.member(**STICKY)
    settle(one, two)
    before = one.assignment(), two.assignment()
    world.admin.alter_topic("t", partitions=8)
    settle(one, two)
    assert len(one.assignment()) == len(two.assignment()) == 4
    assert before[0] <= one.assignment()
    assert before[1] <= two.assignment()


def test_a_topic_that_is_deleted_is_lost_and_one_of_its_name_is_another(world):
    heard = Heard()
    world.fill(values=range(8))
    one = world.member(listener=heard)
    assert len(one.poll()) == 8
    heard.take()
    world.admin.delete_topic("t")
    assert one.poll() == []
    assert heard.take() == [("lost", "t0 t1 t2 t3"), ("assigned", "")]
    world.admin.create_topic("t", 1)
    world.fill(values=[7])
    assert values(one.poll()) == [7]


def test_what_was_committed_for_a_topic_that_is_gone_says_nothing_of_the_next(world):
    one = world.member()
    for _ in range(2):
        world.fill(partition=0, values=range(8))
        assert len(one.poll()) == 8
        one.commit()
        world.admin.delete_topic("t")
        one.poll()
        world.admin.create_topic("t", 4)
    world.fill(partition=0, values=range(8))
    assert len(one.poll()) == 8
    one.close()  # which commits by itself, although the position is the same as before
    assert world.log.follow().offset_of("g", "t", 0).offset == 8


# -- Positions -------------------------------------------------------------------------------------------


@every_strategy
def test_every_record_once_when_members_join(world, strategy):
    world.fill(values=range(200))
    one = world.member(partition_assignment_strategy=strategy)
    records = one.poll(max_records=60)
    two = world.member(partition_assignment_strategy=strategy)
    found = settle(two, one)
    assert Counter(values(records + found[0] + found[1])) == Counter(range(200))


def test_what_was_not_committed_is_read_again_by_an_eager_member(world):
    world.fill(partition=0, values=range(10))
    settings = {"partition_assignment_strategy": "range", "enable_auto_commit": False}
    one = world.member(**settings)
    assert len(one.poll(max_records=4)) == 4
    two = world.member(**settings)
    two.poll()
    assert T[0] in one.assignment()
    assert values(one.poll(max_records=2)) == [0, 1]


def test_a_cooperative_member_keeps_positions_and_what_it_has_in_memory():
    store = FaultyStore(MemoryStore())
    world = World(("t", 2), store=store)
    world.fill(partition=0, values=range(100))
    world.fill(partition=1, values=range(100, 200))
    settings = {**STICKY, "enable_auto_commit": False}
    one = world.member(**settings)
    before = [record for _ in range(2) for record in one.poll(max_records=10)]
    assert {record.partition for record in before} == {0, 1}
    reads = store.count("read", "data/*")
    two = world.member(**settings)
    two.poll()
    after = values(one.poll(max_records=5))
    assert held(one) == "t0"
    assert after == list(range(10, 15))
    assert store.count("read", "data/*") == reads


def test_no_record_of_a_partition_that_has_passed_on(world):
    world.fill(values=range(100))
    one = world.member(**STICKY)
    one.poll(max_records=1)
    two = world.member(**STICKY)
    two.poll()
    records = one.poll(max_records=100)
    assert {TopicPartition(record.topic, record.partition) for record in records} <= one.assignment()
    assert places(one.assignment()) == "t0 t1"


def test_a_new_holder_waits_for_pending_offsets(world):
    world.fill(partition=0, values=range(10))
    settings = {"isolation_level": "read_committed", "enable_auto_commit": False}
    one = world.member(**settings)
    assert len(one.poll(max_records=4)) == 4
    request = world.log.clock.unique()
    made = init_producer_id(world.log, "copy", 60_000, writer="", request_id=request).results[0]
    stamp = made._replace(number=made.number + 1)
    place = PartitionOffset("t", world.log.topic("t").topic_id, 0, 4)
    world.log.commit(lambda _state: (CommitOffsets("g", (place,), stamp, one.group_metadata().membership),))
    one.close()
    two = world.member(**settings)
    assert two.poll() == []
    world.log.commit(lambda _state: (EndTransaction(stamp, commit=True),))
    assert values(two.poll()) == list(range(4, 10))


# -- Commits ---------------------------------------------------------------------------------------------


def test_auto_commit_names_the_member(world):
    world.fill(partition=0, values=range(6))
    one = world.member(auto_commit_interval_ms=0)
    assert len(one.poll(max_records=4)) == 4
    one.poll()
    assert one.committed([T[0]]) == {T[0]: OffsetAndMetadata(4)}


def test_only_members_commit_while_there_are_any(world):
    world.fill(partition=0, values=range(6))
    one = world.member()
    one.poll()
    outsider = Consumer(world.log, {"group.id": "g"})
    outsider.assign([T[0]])
    with pytest.raises(UnknownMemberIdError, match="has 1 member that subscribed"):
        outsider.commit({T[0]: 1})
    one.close()
    outsider.commit({T[0]: 1})
    assert outsider.committed([T[0]]) == {T[0]: OffsetAndMetadata(1)}


def test_nobody_commits_before_the_first_poll(world):
    one = world.member()
    with pytest.raises(UnknownMemberIdError):
        one.commit({T[0]: 1})


def test_a_member_commits_in_its_old_generation_until_it_lets_go(world):
    world.fill(partition=0, values=range(6))
    one = world.member(enable_auto_commit=False)
    one.poll(max_records=3)
    old = one.group_metadata()
    world.member().poll()
    assert world.group.generation > old.generation_id
    one.commit()  # nobody else can have read these
    assert one.committed([T[0]]) == {T[0]: OffsetAndMetadata(3)}
    one.poll()
    assert one.group_metadata().generation_id == world.group.generation
    producer = Producer(world.log, {"transactional.id": "copy"})
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(IllegalGenerationError):
        producer.send_offsets_to_transaction({T[0]: 5}, old)


def start_late(consumer, monkeypatch):
    """Its commits in the background begin when they are waited for, or when it has synced or left."""
    offsets, member, begin = consumer._offsets, consumer._rebalance._member, threading.Event()
    commit, finish = offsets._commit, offsets.finish

    def late(*given, **options):
        begin.wait(60)
        commit(*given, **options)

    def waited_for(*given):
        begin.set()
        finish(*given)

    def then_begin(call):
        def called(*given):
            try:
                return call(*given)
            finally:
                begin.set()

        return called

    monkeypatch.setattr(offsets, "_commit", late)
    monkeypatch.setattr(offsets, "finish", waited_for)
    monkeypatch.setattr(member, "sync", then_begin(member.sync))
    monkeypatch.setattr(member, "leave", then_begin(member.leave))


@pytest.mark.parametrize("by_listener", [False, True])
@pytest.mark.parametrize("call", ["poll", "unsubscribe", "close"])
@every_strategy
def test_commits_on_their_way_are_made_before_the_member_moves_on(
    world, monkeypatch, strategy, call, by_listener
):
    """As in Kafka, where they come to the coordinator first: else a successor reads the records again."""
    world.fill(values=range(40))
    settings = {"partition_assignment_strategy": strategy, "enable_auto_commit": False}
    one, commits = world.member(**settings), []
    if by_listener:
        one.subscribe(["t"], on_revoke=lambda consumer, _: commits.append(consumer.commit_async()))
    assert len(one.poll()) == 40
    start_late(one, monkeypatch)
    if not by_listener:
        commits.append(one.commit_async())
    two = world.member(**settings)
    if call == "poll":
        two.poll()
    getattr(one, call)()
    for commit in commits:
        commit.get(timeout=60)
    assert commits
    assert settle(two) == [[]]


@pytest.mark.parametrize("call", ["unsubscribe", "close"])
def test_a_member_leaves_though_the_callback_of_a_commit_raises(world, call):
    def fail(*_):
        raise ValueError("the application's own trouble")

    one = world.member(enable_auto_commit=False)
    one.poll()
    one.commit_async({T[0]: 0}, fail)
    with pytest.raises(ValueError, match="own trouble"):
        getattr(one, call)()
    assert not world.group.members


def test_a_zombie_is_fenced_and_joins_again(world, caplog):
    world.fill(partition=0, values=range(10))
    heard = Heard()
    zombie = world.member(listener=heard, auto_commit_interval_ms=0)
    assert len(zombie.poll(max_records=4)) == 4
    other = world.member()
    world.pass_time(60, other)  # not a member yet: nobody watches
    other.poll()
    world.pass_time(60, other)
    assert values(other.poll()) == list(range(10))
    with pytest.raises(UnknownMemberIdError):
        zombie.commit()
    old = member_id(zombie)
    heard.take()
    zombie.poll()
    assert "were not committed" in caplog.text
    assert heard.take() == [("lost", "t0 t1 t2 t3"), ("assigned", "")]
    assert member_id(zombie) != old
    settle(zombie, other)
    assert len(zombie.assignment()) == len(other.assignment()) == 2
    assert other.committed([T[0]])[T[0]].offset == 10


def test_a_commit_that_was_refused_is_only_logged_by_auto_commit(world, caplog):
    world.fill(partition=0, values=range(10))
    one = world.member(auto_commit_interval_ms=0)
    one.poll(max_records=4)
    evict(world, one)
    assert values(one.poll()) == list(range(10))
    assert "were not committed" in caplog.text


def evict(world, consumer):
    gone = LeaveGroup("g", (member_id(consumer),))
    world.log.commit(lambda _state: (gone,))


def test_an_evicted_member_that_closes_commits_nothing(world):
    world.fill(partition=0, values=range(10))
    heard = Heard()
    one = world.member(listener=heard)
    one.poll(max_records=4)
    evict(world, one)
    heard.take()
    seq = world.log.follow().seq
    one.close()
    assert heard.take() == [("lost", "t0 t1 t2 t3")]
    assert world.log.follow().seq == seq
    assert Consumer(world.log, {"group.id": "g"}).committed([T[0]]) == {T[0]: None}


# -- Static members --------------------------------------------------------------------------------------


def test_a_static_member_restarts_without_a_rebalance(world):
    world.fill(values=range(100))
    one, two = world.member(group_instance_id="a"), world.member(group_instance_id="b")
    settle(one, two, max_records=5)
    mine, generation = one.assignment(), world.group.generation
    one.close()
    assert len(world.group.members) == 2
    heard = Heard()
    again = world.member(group_instance_id="a", listener=heard)
    rest = again.poll()
    assert world.group.generation == generation
    assert again.assignment() == mine
    assert heard.take() == [("assigned", places(mine))]
    assert {TopicPartition(record.topic, record.partition) for record in rest} <= mine
    assert again.group_metadata()[:4] == ("g", generation, member_id(again), "a")


def test_the_predecessor_of_a_static_member_is_fenced(world):
    world.fill(values=range(100))
    heard = Heard()
    old = world.member(group_instance_id="a", listener=heard)
    old.poll(max_records=5)
    beats(old).step()
    former = heartbeat_name("g", member_id(old))
    world.log.store.read(former)
    new = world.member(group_instance_id="a")
    new.poll()
    assert former not in {info.name for info in world.log.store.list("_groups/")}
    with pytest.raises(FencedInstanceIdError):
        old.commit()
    heard.take()
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError, match="another consumer"):
            old.poll()
    assert heard.take() == [("lost", "t0 t1 t2 t3")]
    old.close()
    assert list(world.group.members) == [member_id(new)]


def test_a_static_member_that_does_not_come_back_is_evicted(world):
    one, two = world.member(group_instance_id="a"), world.member(group_instance_id="b")
    settle(one, two)
    world.pass_time(9, one, two)
    one.close()
    world.pass_time(60, two)
    two.poll()
    assert held(two) == "t0 t1 t2 t3"


def test_a_static_member_with_another_subscription_makes_a_new_generation(world):
    world.admin.create_topic("u", 1)
    one = world.member(group_instance_id="a")
    one.poll()
    generation = world.group.generation
    again = world.member("u", group_instance_id="a")
    again.poll()
    assert world.group.generation == generation + 1
    assert held(again) == "u0"


# -- Storage trouble -------------------------------------------------------------------------------------


def all_actions(world):
    for seq in range(world.log.follow().seq + 1):
        entry = decode_entry(world.log.store.read(paths.entry(seq)), seq, "")
        for request in entry.requests:
            yield from request.actions


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.FAIL_AFTER])
@pytest.mark.parametrize("what", ["join", "sync", "leave"])
def test_an_entry_in_doubt_is_settled_by_the_next_call(what, fault):
    """The store leaves a request of a member unanswered, for longer than it is asked again."""
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    world.fill(values=range(40))
    one, other = world.member(**STICKY), world.member(**STICKY)
    records = []
    if what != "join":
        records = one.poll(max_records=7)
        other.poll()
    before = world.log.follow().groups.get("g", Group())
    one.commit() if what != "join" else None
    store.inject(fault, "create", times=None)
    if what == "leave":
        one.close()
    else:
        with pytest.raises(CommitOutcomeUnknownError):
            one.poll()
    store.heal()
    if what == "leave":
        world.pass_time(60, other)
        found = settle(other)
    else:
        found = settle(one, other)
    assert Counter(values(records + list(chain(*found)))) == Counter(range(40))
    assert len(world.group.members) == (1 if what == "leave" else 2)
    assert world.group.generation <= before.generation + 2
    assert world.group.status == "Stable"
    asked = Counter(action for action in all_actions(world) if isinstance(action, JoinGroup | SyncGroup))
    assert set(asked.values()) == {1}  # the same request, not another one like it


@pytest.mark.parametrize("what", ["another joins", "it is evicted"])
def test_the_group_moves_on_while_a_member_syncs(what):
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    world.fill(values=range(40))
    one, other = world.member(**STICKY), world.member(**STICKY)
    found = one.poll(max_records=7)
    one.commit()
    other.poll()
    elsewhere = Log.open(store.inner, clock=world.clock)

    def meanwhile(operation, name):
        if operation == "create" and name.startswith("_log/"):
            store.before = lambda *_: None
            late = JoinGroup("g", "late", ("t",), ("cooperative-sticky",), 45_000)
            gone = LeaveGroup("g", (member_id(one),))
            elsewhere.commit(lambda _state: (late if what == "another joins" else gone,))

    store.before = meanwhile
    found += one.poll()
    assert one.group_metadata().generation_id == world.group.generation
    if what == "another joins":
        world.log.commit(lambda _state: (LeaveGroup("g", ("late",)),))
    found += chain(*settle(other, one))
    assert Counter(values(found)) == Counter(range(40))


def test_reading_goes_on_when_the_store_does_not_take_commits(caplog):
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    world.fill(values=range(40))
    one = world.member(auto_commit_interval_ms=0)
    found = one.poll(max_records=7)
    store.inject(Fault.FAIL_BEFORE, "create", times=None)
    found += one.poll()
    assert Counter(values(found)) == Counter(range(40))
    assert "were not committed" in caplog.text


# -- Schedules -------------------------------------------------------------------------------------------


@every_strategy
@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_goes_to_exactly_one_member_however_they_come_and_go(strategy, seed):
    """No member crashes, and each commits when it loses partitions: nothing twice, nothing lost."""
    chance = random.Random(seed)
    world = World(("t1", 3))
    settings = {"partition_assignment_strategy": strategy, "pattern": "t.*"}
    members, delivered, written = [], Counter(), 0

    def poll(member):
        delivered.update(values(member.poll(max_records=chance.randint(1, 20))))

    for _ in range(250):
        step = chance.random()
        if step < 0.08 and len(members) < 5:
            members.append(world.member(**settings))
        elif step < 0.13 and members:
            members.pop(chance.randrange(len(members))).close()
        elif step < 0.15:
            topics = sorted(world.log.state.topics)
            if chance.random() < 0.5 and len(topics) < 4:
                world.admin.create_topic(f"t{len(topics) + 1}", chance.randint(1, 3))
            else:
                topic = world.log.state.topics[chance.choice(topics)]
                world.admin.alter_topic(topic.name, partitions=topic.partitions + 1)
        elif step < 0.35:
            count = chance.randint(1, 30)
            topic = chance.choice(sorted(world.log.follow().topics))
            world.fill(topic, values=range(written, written + count))
            written += count
        elif members:
            poll(chance.choice(members))
    members = members or [world.member(**settings)]
    for member in members * 200:
        poll(member)
    assert delivered == Counter(range(written))
    assert world.group.status == "Stable"


class Worker:
    """Counts a record as processed when it has committed it, and forgets it when its partition goes before."""

    def __init__(self, world, chance, **settings):
        self.chance = chance
        self.processed = []
        self.fenced = 0
        self.read = []
        self.consumer = world.member(listener=self, enable_auto_commit=False, **settings)

    def on_partitions_revoked(self, partitions):
        if self.chance.random() < 0.5:
            self.commit()
        self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions):
        self.read = [record for record in self.read if (record.topic, record.partition) not in partitions]

    def poll(self):
        found = self.consumer.poll(max_records=self.chance.randint(1, 20))
        self.read += found  # In a line of its own: poll calls the methods above.

    def commit(self):
        try:
            self.consumer.commit()
        except CommitFailedError:
            self.fenced += 1
        else:
            self.processed += values(self.read)
            self.read = []


@every_strategy
@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_committed_exactly_once_also_when_members_fall_silent(strategy, seed):
    """A commit of a member that was given up, or in the name of an old generation, must not pass."""
    chance = random.Random(seed)
    world = World(("t", 5))
    workers, silent = [], []

    def more():
        workers.append(Worker(world, chance, partition_assignment_strategy=strategy))
        return workers[-1]

    alive = [more()]
    written = 0
    for _ in range(400):
        step = chance.random()
        if step < 0.05 and len(workers) < 8:
            alive.append(more())
        elif step < 0.10 and len(alive) > 1:
            silent.append(alive.pop(chance.randrange(len(alive))))
        elif step < 0.13 and silent:
            alive.append(silent.pop(chance.randrange(len(silent))))
        elif step < 0.17:
            world.pass_time(chance.choice([6, 60]), *(one.consumer for one in alive if beats(one.consumer)))
        elif step < 0.22 and silent:
            chance.choice(silent).commit()
        elif step < 0.3:
            world.fill(values=range(written, written + 20))
            written += 20
        elif step < 0.6:
            chance.choice(alive).commit()
        else:
            chance.choice(alive).poll()
    for _ in range(4):
        world.pass_time(60, *(one.consumer for one in alive))
        for one in alive * 40:
            one.poll()
            one.commit()
    assert Counter(value for one in workers for value in one.processed) == Counter(range(written))
    assert sum(one.fenced for one in workers)
