"""Troubles of an operator's afternoon: what is told, what is not, and that all views say the same."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.operate.text import head_lines
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import StorePermissionError
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.monitoring import lags_across
from spark_eos.monitoring.activity import OpenTransaction
from spark_eos.monitoring.places import consumer_groups
from spark_eos.monitoring.status import status_of
from spark_eos.monitoring.troubles.transactions import of_transactions
from spark_eos.monitoring.troubles.trouble import LOG
from spark_eos.protocol.actions import JoinGroup
from spark_eos.protocol.rules.joins import MEMBER_JOINED
from spark_eos.testing import FaultyStore
from tests.monitoring.micro_batches import micro_batch
from tests.needing import needs

DAY_S = 86_400


def send(log, count=1, topic="orders"):
    with Producer(log, {"linger.ms": 60_000}) as producer:  # One batch.
        for _ in range(count):
            producer.send(topic, b"x", partition=0)


def troubles(log, clock):
    return [(one.level, one.name, one.about) for one in status_of(log.store, clock=clock).troubles]


def test_a_query_whose_topic_was_deleted(log, clock):
    send(log, 4)
    micro_batch(log, "orders", 4)
    assert troubles(log, clock) == []
    Admin(log).delete_topic("orders")
    assert troubles(log, clock) == [("note", "topic deleted", "copy")]
    Admin(log).create_topic("orders", 2)
    assert troubles(log, clock) == [("warning", "topic deleted", "copy")]
    (one,) = status_of(log.store, clock=clock).troubles
    assert "reads topic 'orders', which was deleted 0.0 s ago and created again" in one.text
    (row,) = lags_across([log])
    assert (row.name, row.topic, row.lags) == ("copy", "orders", ())
    assert row.problem.startswith("the topic was deleted and created again")
    assert one.cure == (("groups", "delete", LOG, "--group", "copy"),)
    Admin(log).delete_group("copy")
    assert troubles(log, clock) == []
    assert lags_across([log]) == []


def test_a_deleted_topic_is_told_for_a_week_at_most(log, clock):
    micro_batch(log, "orders", 0)
    Admin(log).delete_topic("orders")
    assert troubles(log, clock) == [("note", "topic deleted", "copy")]
    clock.now += 8 * DAY_S
    Admin(log).create_topic("later")  # With it goes what the trail has from before.
    assert troubles(log, clock) == []


def test_a_query_that_goes_on_in_the_new_topic_for_the_same_group(log, clock):
    """Another one for another group does not end the trouble: it may be another query."""
    micro_batch(log, "orders", 0)
    Admin(log).delete_topic("orders")
    Admin(log).create_topic("orders", 2)
    micro_batch(log, "orders", 0, query="other")
    assert troubles(log, clock) == [("warning", "topic deleted", "copy")]
    Admin(log).alter_group_offsets("copy", {TopicPartition("orders", 0): 0})
    assert troubles(log, clock) == []


def test_a_group_with_offsets_of_other_topics_is_not_deleted_by_the_way(log, clock):
    micro_batch(log, "orders", 0)
    Admin(log).create_topic("bills")
    Admin(log).alter_group_offsets("copy", {TopicPartition("bills", 0): 0})
    Admin(log).delete_topic("orders")
    (one,) = status_of(log.store, clock=clock).troubles
    assert (one.name, one.cure) == ("topic deleted", ())
    assert one.advice.endswith("then delete its group, unless another query goes on for it")


def test_a_job_that_runs_once_a_day_is_late_by_its_own_limit(log, clock):
    """An orderly end and a kill leave the same: its last commit. So what is usual is set by its name."""
    Admin(log).create_topic("bills")
    for topic in ("orders", "bills"):
        send(log, 4, topic)
    micro_batch(log, "orders", 4, query="nightly")
    Admin(log).alter_group_offsets("hourly", {TopicPartition("bills", 0): 4})
    hour_ms = 3_600_000
    Admin(log).alter_log({"health.lag.max.ms:nightly": 26 * hour_ms, "health.lag.max.ms:hourly": 2 * hour_ms})
    for topic in ("orders", "bills"):
        send(log, 3, topic)
    clock.now += 3600
    assert troubles(log, clock) == []
    Admin(log).alter_group_offsets("other", {TopicPartition("bills", 0): 4})
    assert troubles(log, clock) == [("warning", "group behind", "other")]
    Admin(log).delete_group("other")
    clock.now += 3601
    assert troubles(log, clock) == [("warning", "group behind", "hourly")]
    Admin(log).alter_group_offsets("hourly", {TopicPartition("bills", 0): 7})
    clock.now += DAY_S - 7200
    assert troubles(log, clock) == []
    clock.now += 7200
    (one,) = status_of(log.store, clock=clock).troubles
    assert (one.name, one.about) == ("query behind", "nightly")
    assert "it has ended or hangs" in one.advice
    micro_batch(log, "orders", 7, query="nightly", first=4, number=1)
    assert troubles(log, clock) == []


def behind(log, clock):
    """What is said of readers that are behind."""
    return [one for one in status_of(log.store, clock=clock).troubles if one.name.endswith(" behind")]


def test_of_many_readers_that_are_behind_the_latest_are_named(log, clock):
    for number in range(7):
        send(log)
        clock.now += 10
        Admin(log).alter_group_offsets(f"g{number}", {TopicPartition("orders", 0): number})
    clock.now += 400
    found = behind(log, clock)
    assert [one.about for one in found] == ["g0", "g1", "g2", "g3", "g4", ""]
    assert found[-1].text == "2 more readers have the same trouble"


def test_the_group_of_a_query_is_one_of_consumers_once_it_has_members(log):
    micro_batch(log, "orders", 0)
    assert consumer_groups(log.follow()) == set()
    log.commit(lambda _: (JoinGroup("copy", "m", ("orders",), ("range",), 45_000),))
    assert consumer_groups(log.follow()) == {"copy"}


def test_a_query_that_is_behind_and_commits_is_not_to_be_started_again(log, clock):
    send(log, 4)
    clock.now += 400
    micro_batch(log, "orders", 1)
    (one,) = behind(log, clock)
    assert (one.name, one.advice) == ("query behind", "it runs: give it more cores, or larger micro-batches")


def test_of_a_group_that_is_behind_the_members_without_a_sign_of_life_are_named(log, clock):
    send(log, 4)
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    for member_id in ("a", "b"):
        join = JoinGroup("billing", member_id, ("orders",), ("range",), 45_000)
        log.commit(lambda _, join=join: (join,))
    clock.now += 400
    log.store.overwrite(heartbeat_name("billing", "a"), b"1 %d" % clock.now_ms())
    (one,) = behind(log, clock)
    assert one.advice.startswith("1 of its 2 members show no sign of life: remove them")


def test_unread_records_without_an_age_are_not_caught_up(log, clock):
    """The clock of this machine is behind those of the producers."""
    send(log, 5)
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 2})
    clock.now -= 20
    activity = status_of(log.store, clock=clock).activity
    assert head_lines(activity)[2].startswith("1 reader, 3 records behind;")
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 5})
    assert head_lines(status_of(log.store, clock=clock).activity)[2].startswith("1 reader, all caught up;")


def test_what_was_deleted_unread_is_not_caught_up(log, clock):
    send(log, 5)
    at = TopicPartition("orders", 0)
    Admin(log).alter_group_offsets("g", {at: 2})
    Admin(log).delete_records({at: 5})
    head = head_lines(status_of(log.store, clock=clock).activity)[2]
    assert head.startswith("1 reader, 3 deleted offsets not read;")


def maintained(log, **options):
    return [done.error for done in Maintainer(log, only=("retention",), **options).run()]


def test_retention_that_does_not_run(log, clock):
    Admin(log).alter_topic("orders", config={"retention.ms": "3600000"})
    send(log, 3)
    clock.now += 3600 + 2 * DAY_S - 60
    assert troubles(log, clock) == []
    clock.now += 120
    with Producer(log) as producer:
        producer.send("orders", b"young", partition=1)
    assert troubles(log, clock) == [("note", "retention behind", "")]
    Admin(log).alter_topic("orders", config={"retention.ms": "-1"})
    assert troubles(log, clock) == []
    Admin(log).alter_topic("orders", config={"retention.ms": "3600000", "cleanup.policy": "compact"})
    assert troubles(log, clock) == []
    Admin(log).alter_topic("orders", config={"cleanup.policy": "delete"})
    assert troubles(log, clock) == [("note", "retention behind", "")]
    assert maintained(log) == [None]
    assert troubles(log, clock) == []


def test_of_a_quiet_log_retention_keeps_what_it_keeps(log, clock):
    """What the cure would not delete is no trouble."""
    Admin(log).alter_topic("orders", config={"retention.ms": str(7 * DAY_S * 1000)})
    send(log, 3)
    clock.now += 30 * DAY_S
    assert troubles(log, clock) == []
    assert maintained(log) == [None]
    assert {part.start for part in log.follow().partitions.values()} == {0}


def test_records_that_a_transaction_holds_back_are_not_past_their_time(log, clock):
    Admin(log).alter_topic("orders", config={"retention.ms": "1000"})
    Admin(log).alter_log({"health.transaction.max.ms": str(30 * DAY_S * 1000)})
    producer = Producer(log, {"transactional.id": "long", "transaction.timeout.ms": 900_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x", partition=0)
    producer.flush()
    clock.now += 3 * DAY_S
    assert [name for _, name, _ in troubles(log, clock)] == ["hanging transaction"]


def test_a_transaction_that_timed_out_is_not_fenced_by_another_program(log, clock):
    producer = Producer(log, {"transactional.id": "nightly", "transaction.timeout.ms": 1000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x")
    producer.flush()
    log.expire_overdue()
    clock.now += 60
    log.expire_overdue()
    (one,) = status_of(log.store, clock=clock).troubles
    assert (one.level, one.name) == ("note", "fenced")
    assert one.text.startswith(
        "transactions of transactional.id 'nightly' were open past their timeout, and aborted, once, last 0.0 s ago"
    )
    assert "raise its transaction.timeout.ms" in one.advice


def member(log, client="", **config):
    made = Consumer(log, {"group.id": "billing", "client.id": client, "enable.auto.commit": False, **config})
    made.subscribe(["orders"])
    made.poll(0)
    return made


def test_a_member_that_comes_and_goes(log, clock):
    steady = member(log, "steady")
    for times in range(1, 21):
        assert troubles(log, clock) == []
        clock.now += 2
        member(log, "flaky").close()
        assert [event.times for event in log.follow().trail if event.what == MEMBER_JOINED] == [times]
    steady.poll(0)
    (one,) = status_of(log.store, clock=clock).troubles
    assert (one.level, one.name, one.about) == ("warning", "rebalances", "billing")
    assert "group 'billing' 20 times in 38.0 s beside others, last 0.0 s ago ('flaky' 20 times)" in one.text
    clock.now += 3700
    assert "rebalances" not in [name for _, name, _ in troubles(log, clock)]
    steady.close()


def test_who_makes_nobody_wait_is_no_rebalance(log, clock):
    """A job that is the only member each time, a static member that is started again, and a deployment of many."""
    for _ in range(30):
        member(log, "cron").close()
    assert troubles(log, clock) == []
    steady, fixed = member(log, "steady"), member(log, "fixed", **{"group.instance.id": "one"})
    for _ in range(30):
        fixed.close()
        fixed = member(log, "fixed", **{"group.instance.id": "one"})
    assert troubles(log, clock) == []
    assert [event.times for event in log.follow().trail if event.what == MEMBER_JOINED] == [1]
    for consumer in (steady, fixed):
        consumer.close()


def test_a_deployment_is_no_rebalance_loop(log, clock):
    members = [member(log, f"pod-{number}") for number in range(12)]
    for number in range(24):
        members.pop(0).close()
        members.append(member(log, f"pod-{number}"))
        clock.now += 5
    assert troubles(log, clock) == []
    for consumer in members:
        consumer.close()


def test_more_partitions_help_where_there_is_one(log, clock):
    Admin(log).create_topic("single", 1)
    with Producer(log, {"linger.ms": 60_000}) as producer:
        for _ in range(60):
            producer.send("single", b"x")
    clock.now += 400
    with Consumer(log, {"group.id": "billing", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["single"])
        consumer.poll(0)
        consumer.commit({TopicPartition("single", 0): 1})
        (one,) = [one for one in status_of(log.store, clock=clock).troubles if one.name == "group behind"]
    assert "add some, or partitions" in one.advice


@pytest.mark.parametrize(
    ("spread", "advice"),
    [(False, "nearly all that they have not read is in orders-0"), (True, "are too slow: add some")],
)
def test_one_partition_that_holds_the_backlog_is_named(log, clock, spread, advice):
    """One consumer reads it: more consumers do not help."""
    with Producer(log, {"linger.ms": 60_000}) as producer:
        for number in range(60):
            producer.send("orders", b"x", partition=number % 2 if spread else 0)
    clock.now += 400
    consumer = member(log, "slow")
    consumer.commit({TopicPartition("orders", number): int(spread or number == 0) for number in range(2)})
    (one,) = [one for one in status_of(log.store, clock=clock).troubles if one.name == "group behind"]
    assert advice in one.advice
    consumer.close()


def test_a_hanging_transaction_without_name_and_place_has_a_cure_too():
    """It has begun without records: what ends it is that it is past its timeout."""
    hanging = OpenTransaction("", 7, 0, 0, 120_000, 60_000, (), ("billing",))
    (one,) = of_transactions([hanging], [], 300_000)
    assert (one.name, one.cure) == ("hanging transaction", (("expire", LOG),))


def test_consumers_of_a_group_that_has_lost_records_are_to_be_stopped_before_its_reset(log, clock):
    """A group with members refuses the printed cure."""
    send(log, 5)
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    Admin(log).delete_records({TopicPartition("orders", 0): 3})
    advice = []
    for _ in range(2):
        (one,) = [one for one in status_of(log.store, clock=clock).troubles if one.name == "records lost"]
        advice.append("stop the group's consumers before its offsets are reset" in one.advice)
        join = JoinGroup("billing", "m", ("orders",), ("range",), 45_000)
        log.commit(lambda _, join=join: (join,))
    assert advice == [False, True]


@pytest.fixture
def unseen(log, clock):
    """A log with a member whose signs of life may not be read, and a reader that has lost records."""
    send(log, 5)
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 1})
    Admin(log).delete_records({TopicPartition("orders", 0): 3})
    join = JoinGroup("members", "m", ("orders",), ("range",), 45_000)
    log.commit(lambda _: (join,))
    clock.now += 200
    store = FaultyStore(log.store)
    store.inject(StorePermissionError("_groups/m: cannot read"), "read", "_groups/*", times=None)
    return store


def test_what_may_not_be_read_hides_no_other_trouble(unseen, clock):
    found = [(one.level, one.name) for one in status_of(unseen, clock=clock).troubles]
    assert found == [("critical", "STORE_PERMISSION"), ("critical", "records lost"), ("note", "lag unknown")]


@needs("metrics")
def test_metrics_say_so_too_and_call_no_member_alive(unseen, clock):
    from spark_eos.extensions.metrics.watch import LogWatch

    points = [one for one in LogWatch(unseen, clock=clock).points(wait=True) if one.value]
    names = {one.labels[1] for one in points if one.metric.name == "eoslog.trouble"}
    assert names == {"STORE_PERMISSION", "records lost", "lag unknown"}
    assert "eoslog.up" in {one.metric.name for one in points}
    assert not any(one.metric.name.endswith("silent_members") for one in points)


@needs("ui")
def test_the_page_says_so_too(unseen, clock):
    from spark_eos.extensions.ui.areas.troubles import troubles as on_the_page
    from spark_eos.extensions.ui.follower import Follower

    found = {one.name for one in on_the_page(Follower(unseen, clock=clock))}
    assert found == {"STORE_PERMISSION", "records lost", "lag unknown"}
