"""Changes of groups through the page: a plan first, done as shown, once, and refused like the command."""

from __future__ import annotations

import os

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    InvalidRequestError,
    NotALogError,
    StorePermissionError,
)
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.extensions.ui.read_only import ReadOnlyStore
from spark_eos.extensions.ui.writes import change, groups
from spark_eos.extensions.ui.writes.change import change_outcome
from spark_eos.maintenance.copying import copy_log
from spark_eos.protocol.actions import JoinGroup
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock

ENTRIES = "_log/*"


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    admin = Admin(made)
    admin.create_topic("orders", 2)
    with Producer(made) as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number, partition=number % 2)
    admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7})
    return made


@pytest.fixture
def store(log):
    """What the page writes through."""
    return FaultyStore(log.store)


@pytest.fixture
def follower(store):
    return Follower(store, clock=FakeClock())


def attempt(log, **fields):
    """A question of which the browser has chosen the id, when it knew the newest entry."""
    return Question({"attempt": os.urandom(16).hex(), "since": log.follow().seq, **fields})


def planned(follower, **fields):
    return groups.plan(follower, Question({"group": "billing", **fields}))["rows"]


def committed(log):
    return {at.partition: known.offset for at, known in Admin(log).list_group_offsets("billing").items()}


@pytest.mark.parametrize(
    ("fields", "new"),
    [
        ({"way": "earliest"}, {0: 0, 1: 0}),
        ({"way": "latest"}, {0: 10, 1: 10}),
        ({"way": "offset", "value": "3"}, {0: 3, 1: 3}),
        ({"way": "shift", "value": "-6"}, {0: 0, 1: 1}),
        ({"way": "time", "value": "2000-01-01"}, {0: 0, 1: 0}),
        ({"way": "latest", "places": "orders:1"}, {0: 5, 1: 10}),
        ({"way": "latest", "places": "orders"}, {0: 10, 1: 10}),
    ],
)
def test_a_reset_does_what_its_plan_shows(log, follower, fields, new):
    rows = planned(follower, **fields)
    assert committed(log) == {0: 5, 1: 7}
    assert {row["partition"]: row["from"] for row in rows} == {
        row["partition"]: {0: 5, 1: 7}[row["partition"]] for row in rows
    }
    answer = groups.reset(follower, attempt(log, group="billing", rows=rows))
    assert answer["text"].startswith(f"group billing goes on at the new offsets of {len(rows)} partition")
    assert committed(log) == new
    event = log.follow().trail[-1]
    assert (event.what, event.name, event.writer) == ("offsets of a group set", "billing", "admin")


def test_a_reset_to_the_latest_does_what_was_shown_while_records_come(log, follower):
    rows = planned(follower, way="latest")
    with Producer(log) as producer:
        producer.send("orders", b"later", partition=0)
    groups.reset(follower, attempt(log, group="billing", rows=rows))
    assert committed(log) == {0: 10, 1: 10}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"way": "time", "value": "noon"}, "'noon' is not a time such as 2026-11-21T16:30"),
        ({"way": "offset", "value": "1e3"}, "'1e3' is not a whole number"),
        ({"way": "shift", "value": "9" * 30}, "is not a whole number"),
        ({"way": "earliest", "places": "orders:x"}, "'orders:x' is not TOPIC or TOPIC:0,1"),
        ({"way": "later"}, "'way' must be one of"),
    ],
)
def test_what_is_no_plan(follower, fields, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        planned(follower, **fields)


def test_two_browsers_with_one_plan_each(log, follower):
    first, second = planned(follower, way="shift", value="1"), planned(follower, way="shift", value="2")
    groups.reset(follower, attempt(log, group="billing", rows=first))
    with pytest.raises(
        InvalidRequestError,
        match=r"the offset for orders-0 is 6 now, and was 5: this is not what the plan shows",
    ):
        groups.reset(follower, attempt(log, group="billing", rows=second))
    assert committed(log) == {0: 6, 1: 8}


@pytest.mark.parametrize("again", [False, True])
def test_a_plan_of_another_topic_is_refused(log, follower, again):
    rows = planned(follower, way="earliest")
    Admin(log).delete_topic("orders")
    if again:
        Admin(log).create_topic("orders", 2)
    with pytest.raises(InvalidRequestError, match="topic orders was deleted" if again else "orders"):
        groups.reset(follower, attempt(log, group="billing", rows=rows))
    assert committed(log) == {}


def test_a_plan_whose_offsets_were_deleted_is_refused(log, follower):
    rows = planned(follower, way="earliest")
    Admin(log).delete_records({TopicPartition("orders", 0): 3})
    with pytest.raises(InvalidRequestError, match="orders-0 has offsets 3 to 10 now"):
        groups.reset(follower, attempt(log, group="billing", rows=rows))


def test_a_repeated_press_does_it_once(log, follower):
    asked = attempt(log, group="billing", rows=planned(follower, way="shift", value="1"))
    answers = [groups.reset(follower, asked) for _ in range(2)]
    assert answers[0] == answers[1]
    assert committed(log) == {0: 6, 1: 8}
    # Also by another server of the page, when much has happened since.
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    seq = log.follow().seq
    assert groups.reset(Follower(log.store, clock=FakeClock()), asked) == answers[0]
    assert log.follow().seq == seq


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED])
def test_a_lost_reply_of_the_store_is_not_known_until_someone_looks(log, store, follower, fault):
    asked = attempt(log, group="billing", rows=planned(follower, way="shift", value="1"))
    store.inject(fault, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError, match="Look what became of it"):
        groups.reset(follower, asked)
    store.heal()
    landed = fault is Fault.FAIL_AFTER
    assert change_outcome(follower, asked)["outcome"] == ("done" if landed else "open")
    if fault is Fault.DELAYED:
        store.release()
        assert change_outcome(follower, asked)["outcome"] == "done"
    groups.reset(follower, asked)
    groups.reset(follower, asked)
    assert change_outcome(follower, asked)["outcome"] == "done"
    assert committed(log) == {0: 6, 1: 8}


def join(log, *members):
    for member in members:
        action = JoinGroup("billing", member, ("orders",), ("range",), 60_000)
        log.commit(lambda _state, action=action: (action,))


def test_a_group_with_members_is_refused_until_they_are_removed(log, follower):
    join(log, "m-1", "m-2")
    refused = "cannot be reset while it has members"
    with pytest.raises(GroupNotEmptyError, match=refused):
        planned(follower, way="earliest")
    rows = [
        {"topic": "orders", "id": log.state.topics["orders"].topic_id, "partition": 0, "from": 5, "to": 0}
    ]
    with pytest.raises(GroupNotEmptyError, match=refused):
        groups.reset(follower, attempt(log, group="billing", rows=rows))
    with pytest.raises(GroupNotEmptyError):
        groups.delete(follower, attempt(log, group="billing", typed="billing"))
    with pytest.raises(GroupNotEmptyError):
        groups.delete_offsets(follower, attempt(log, group="billing", typed="billing", places="orders"))
    asked = attempt(log, group="billing", members=["m-1"])
    assert groups.remove_members(follower, asked)["text"] == "removed from group billing: m-1"
    assert groups.remove_members(follower, asked)["text"] == "removed from group billing: m-1"
    with pytest.raises(GroupIdNotFoundError, match="has no member 'm-1'"):
        groups.remove_members(follower, attempt(log, group="billing", members=["m-1"]))
    assert log.follow().trail[-1].what == "member removed"
    groups.remove_members(follower, attempt(log, group="billing", members=["m-2"]))
    groups.reset(follower, attempt(log, group="billing", rows=rows))
    assert committed(log) == {0: 0, 1: 7}


def test_what_is_deleted_wants_its_name_typed(log, follower):
    for call in (groups.delete, groups.delete_offsets):
        with pytest.raises(
            InvalidRequestError, match="type the name 'billing' to do this; nothing was changed"
        ):
            call(follower, attempt(log, group="billing", typed="Billing", places="orders"))
    assert committed(log) == {0: 5, 1: 7}
    groups.delete_offsets(follower, attempt(log, group="billing", typed="billing", places="orders:0"))
    assert committed(log) == {1: 7}
    asked = attempt(log, group="billing", typed="billing")
    assert groups.delete(follower, asked)["text"] == "group billing was deleted"
    assert groups.delete(follower, asked)["text"] == "group billing was deleted"
    with pytest.raises(GroupIdNotFoundError):
        groups.delete(follower, attempt(log, group="billing", typed="billing"))
    assert [event.what for event in log.follow().trail[-2:]] == ["offsets of a group deleted"] * 2 or (
        log.state.trail[-1].times == 2
    )


def test_a_user_without_the_right_to_write(log):
    reader = Follower(ReadOnlyStore(log.store), clock=FakeClock())
    with pytest.raises(StorePermissionError):
        groups.delete(reader, attempt(log, group="billing", typed="billing"))


def test_a_log_that_has_moved(tmp_path):
    log = Log.create(str(tmp_path / "old"))
    Admin(log).create_topic("orders")
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    follower = Follower(log.url, clock=FakeClock())
    copy_log(log.url, str(tmp_path / "new"), print, close=True)
    with pytest.raises(NotALogError, match="new"):
        groups.delete(follower, attempt(log, group="billing", typed="billing"))


@pytest.mark.parametrize("wrong", ["", "xy" * 16, "ab" * 15, None, 7])
def test_the_id_of_a_request_is_checked(follower, wrong):
    with pytest.raises(InvalidRequestError, match="'attempt' must be"):
        groups.delete(
            follower, Question({"group": "billing", "typed": "billing", "attempt": wrong, "since": 0})
        )


def test_an_entry_that_the_log_does_not_have(log, follower):
    asked = {"group": "billing", "typed": "billing", "attempt": "ab" * 16}
    with pytest.raises(InvalidRequestError, match="its files were put back or exchanged"):
        groups.delete(follower, Question({**asked, "since": log.state.seq + 1}))
    assert committed(log) == {0: 5, 1: 7}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("_MOST_ENTRIES", 3, "more than 3 entries were written since this page has heard of the log"),
        ("read_entry", lambda *_: (None, 0), r"entry \d+, which may have it, is retired"),
    ],
)
def test_a_change_that_may_be_where_it_is_not_looked_for_is_refused(
    log, follower, monkeypatch, name, value, problem
):
    asked = attempt(log, group="billing", typed="billing")
    for offset in range(4):
        Admin(log).alter_group_offsets("other", {TopicPartition("orders", 0): offset})
    monkeypatch.setattr(change, name, value)
    with pytest.raises(InvalidRequestError, match=problem):
        groups.delete(follower, asked)
    assert committed(log) == {0: 5, 1: 7}
