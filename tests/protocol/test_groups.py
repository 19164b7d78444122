"""Members, generations, who reads and who may commit: decided by the log alone."""

from __future__ import annotations

import pytest

from spark_eos.errors import (
    CheckpointMismatchError,
    FencedInstanceIdError,
    GroupNotEmptyError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidRequestError,
    UnknownMemberIdError,
)
from spark_eos.protocol.actions import (
    AlterTopic,
    CommitMicroBatch,
    CommitOffsets,
    CreateTopic,
    DeleteOffsets,
    DeleteTopic,
    EndTransaction,
    JoinGroup,
    LeaveGroup,
    Membership,
    SourceProgress,
    SyncGroup,
)

STICKY = ("cooperative-sticky",)


@pytest.fixture
def log(log):
    log.topic("four", 4)
    return log


def join(log, member, topics=("four",), assignors=STICKY, timeout_ms=50, instance=None):
    (generation,) = log.do(JoinGroup("g", member, topics, assignors, timeout_ms, instance))
    return generation


def sync(log, member, generation=None):
    log.do(SyncGroup("g", member, group(log).generation if generation is None else generation))


def group(log):
    return log.state.groups["g"]


def held(log, member):
    return [number for _, number in group(log).members[member].held]


def commit(log, member, generation, partition=0, instance=None, producer=None):
    who = Membership(member, generation, instance)
    log.do(CommitOffsets("g", (log.at(1, partition, topic="four"),), producer, who))


def test_the_first_member_reads_everything_at_once(log):
    assert join(log, "m") == 1
    assert held(log, "m") == [0, 1, 2, 3]
    assert group(log).status == "Stable"
    assert group(log).assignor == "cooperative-sticky"


@pytest.mark.conformance("group/hand-over")
def test_a_partition_passes_on_when_its_reader_has_let_go(log):
    join(log, "m")
    assert join(log, "n") == 2
    assert (held(log, "m"), held(log, "n")) == ([0, 1, 2, 3], [])
    assert group(log).status == "PreparingRebalance"
    sync(log, "m")
    assert sorted(held(log, "m") + held(log, "n")) == [0, 1, 2, 3]
    assert len(held(log, "m")) == len(held(log, "n")) == 2
    assert group(log).status == "Stable"


@pytest.mark.conformance("group/hand-over")
def test_members_that_leave_or_are_silent_pass_on_what_they_read(log):
    join(log, "m")
    join(log, "n")
    sync(log, "m")
    log.do(LeaveGroup("g", ("n",)))
    sync(log, "m")
    assert held(log, "m") == [0, 1, 2, 3]
    join(log, "n")
    with pytest.raises(InvalidRequestError, match=r"silent for 49 ms: it is only lost after .* 50"):
        log.do(LeaveGroup("g", ("m",), 49))
    assert log.do(LeaveGroup("g", ("m", "x"), 50)) == (("m",),)
    sync(log, "n")
    assert held(log, "n") == [0, 1, 2, 3]
    generation = group(log).generation
    assert log.do(LeaveGroup("g", ("m",), 50)) == ((),)
    assert group(log).generation == generation


@pytest.mark.conformance("group/membership")
def test_only_members_in_their_generation_commit(log):
    join(log, "m")
    commit(log, "m", 1)
    join(log, "n")
    commit(log, "m", 1)  # It has not let go yet.
    with pytest.raises(IllegalGenerationError, match="commits for generation 2, but it is in generation 1"):
        commit(log, "m", 2)
    sync(log, "m")
    with pytest.raises(IllegalGenerationError, match="commits for generation 1, but it is in generation 2"):
        commit(log, "m", 1)
    with pytest.raises(UnknownMemberIdError, match="'x' is no member of group 'g'"):
        commit(log, "x", 2)
    with pytest.raises(UnknownMemberIdError, match="has 2 members that subscribed: only they commit"):
        log.do(CommitOffsets("g", (log.at(1),)))
    log.do(LeaveGroup("g", ("m", "n")))
    with pytest.raises(UnknownMemberIdError, match="'m' is no member"):
        commit(log, "m", 2)
    log.do(CommitOffsets("g", (log.at(1),)))


@pytest.mark.conformance("group/held")
def test_nobody_commits_for_what_another_member_reads(log):
    join(log, "m")
    join(log, "n")
    sync(log, "m")
    ours, theirs = held(log, "m")[0], held(log, "n")[0]
    commit(log, "m", 2, ours)
    with pytest.raises(IllegalGenerationError, match="for a partition that member n holds now"):
        commit(log, "m", 2, theirs)
    # What nobody reads is nobody's: a member may commit offsets of its own choice.
    log.do(CommitOffsets("g", (log.at(1),), None, Membership("m", 2)))


@pytest.mark.conformance("group/transaction")
def test_the_same_rules_hold_inside_a_transaction(log):
    """KIP-447: a zombie's transaction dies with its membership."""
    stamp = log.next(log.init())
    join(log, "m")
    commit(log, "m", 1, producer=stamp)
    join(log, "n")
    sync(log, "m")
    with pytest.raises(IllegalGenerationError):
        commit(log, "m", 1, producer=stamp)
    with pytest.raises(UnknownMemberIdError, match="only they commit"):
        log.do(CommitOffsets("g", (log.at(1, 0, topic="four"),), stamp))
    log.do(EndTransaction(stamp, True))
    assert log.group() == {("four", 0): 1}


def test_a_query_does_not_commit_for_a_group_with_members(log):
    join(log, "m")
    log.init("query", run_id="run")
    at = (log.at(0, 0, topic="four"),)
    batch = CommitMicroBatch("query", "q", "run", 0, (SourceProgress("0", "0", "g", at, at),))
    with pytest.raises(UnknownMemberIdError, match=r"use another group.id"):
        log.do(batch)
    log.do(LeaveGroup("g", ("m",)))
    log.do(batch)
    with pytest.raises(CheckpointMismatchError):
        log.do(batch)


def test_syncing_is_for_members_and_the_newest_generation(log):
    join(log, "m")
    with pytest.raises(UnknownMemberIdError):
        sync(log, "x")
    with pytest.raises(IllegalGenerationError, match="is at generation 1: member m cannot sync to 0"):
        sync(log, "m", 0)
    before = log.state
    sync(log, "m")
    assert log.state.groups == before.groups


def test_a_member_has_joined_once(log):
    """From then on its first sign of life is waited for."""
    join(log, "a", instance="i")
    assert group(log).members["a"].joined_ms == log.now
    log.now += 1000
    join(log, "a", topics=("four", "one"), instance="i")
    assert group(log).members["a"].joined_ms == log.now - 1000
    join(log, "b", topics=("four", "one"), instance="i")
    assert group(log).members["b"].joined_ms == log.now, "its successor"


@pytest.mark.conformance("group/static")
def test_a_static_member_is_succeeded_without_a_rebalance(log):
    join(log, "m", instance="i")
    join(log, "n", instance="j")
    sync(log, "m")
    reads = held(log, "m")
    assert join(log, "m2", instance="i") == 2
    assert group(log).generation == 2
    assert held(log, "m2") == reads
    with pytest.raises(FencedInstanceIdError, match="'i' of group 'g' belongs to member m2 now, not to m"):
        commit(log, "m", 2, reads[0], instance="i")
    with pytest.raises(UnknownMemberIdError):
        commit(log, "m", 2, reads[0])
    commit(log, "m2", 2, reads[0], instance="i")


def test_a_static_member_that_wants_something_else_is_a_new_one(log):
    join(log, "m", instance="i")
    join(log, "m2", topics=("four", "t"), instance="i")
    assert group(log).generation == 2
    assert list(group(log).members) == ["m2"]
    assert len(held(log, "m2")) == 6


@pytest.mark.parametrize("instance", ["i", None])
def test_a_member_does_not_become_another_instance(log, instance):
    join(log, "m", instance="i")
    join(log, "n", instance="j")
    with pytest.raises(InvalidRequestError, match=r"member n of group 'g' has .* 'j' and cannot change"):
        join(log, "n", instance=instance)
    assert join(log, "n", instance="j") == 2


@pytest.mark.conformance("group/generation")
def test_a_new_subscription_is_a_new_generation_and_the_same_one_is_not(log):
    join(log, "m")
    assert join(log, "m") == 1
    assert group(log).generation == 1
    assert join(log, "m", topics=("t", "four")) == 1
    assert group(log).generation == 2
    assert len(held(log, "m")) == 4
    sync(log, "m")
    assert len(held(log, "m")) == 6


@pytest.mark.conformance("group/generation")
def test_topics_that_come_grow_and_go_are_shared_out(log):
    join(log, "m", topics=("four", "new"))
    assert len(held(log, "m")) == 4
    log.do(CreateTopic("new", "new-id", 1))
    log.do(CreateTopic("other", "other-id", 1))
    assert group(log).generation == 2
    sync(log, "m")
    assert len(held(log, "m")) == 5
    log.do(AlterTopic("new", "new-id", 3))
    log.do(AlterTopic("new", "new-id", config=()))
    assert group(log).generation == 3
    log.do(DeleteTopic("four", "four-id"))
    assert group(log).generation == 4
    assert group(log).members["m"].held == (("new-id", 0),)
    sync(log, "m")
    assert group(log).members["m"].held == tuple(("new-id", number) for number in range(3))


def test_a_deleted_topic_is_taken_also_from_who_has_just_unsubscribed_from_it(log):
    join(log, "m")
    join(log, "m", topics=("t",))
    log.do(DeleteTopic("four", "four-id"))
    assert group(log).members["m"].held == ()


@pytest.mark.conformance("group/assignor")
def test_members_elect_an_assignor_that_all_know(log):
    join(log, "m", assignors=("range", "cooperative-sticky"))
    assert group(log).assignor == "range"
    join(log, "n", assignors=("cooperative-sticky", "range"))
    assert group(log).assignor == "cooperative-sticky"  # Of as many votes the first one by name.
    join(log, "o", assignors=("cooperative-sticky", "range"))
    assert group(log).assignor == "cooperative-sticky"
    with pytest.raises(InconsistentGroupProtocolError, match=r"no partition.assignment.strategy in common"):
        join(log, "p", assignors=("roundrobin",))
    assert set(group(log).members) == {"m", "n", "o"}


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (JoinGroup("", "m", (), ("range",), 1), InvalidRequestError, "group.id"),
        (JoinGroup("g", "", (), ("range",), 1), InvalidRequestError, "member id"),
        (JoinGroup("g", "m", (), ("range",), 0), InvalidRequestError, "session.timeout.ms"),
        (JoinGroup("g", "m", (), ("range",), 1, ""), InvalidRequestError, "group.instance.id"),
        (JoinGroup("g", "m", (), (), 1), InconsistentGroupProtocolError, "is empty"),
        (JoinGroup("g", "m", (), ("best",), 1), InconsistentGroupProtocolError, "best: known are range"),
    ],
)
def test_what_cannot_join(log, action, error, message):
    with pytest.raises(error, match=message):
        log.do(action)
    assert "g" not in log.state.groups


def test_offsets_are_deleted_only_where_nobody_reads(log):
    log.do(CommitOffsets("g", (log.at(1), log.at(2, 1), log.at(3, 0, topic="four"))))
    join(log, "m")
    log.do(DeleteOffsets("g", (("t", 0), ("t", 7))))
    assert log.group() == {("t", 1): 2, ("four", 0): 3}
    with pytest.raises(GroupNotEmptyError, match="members that subscribe to topic 'four'"):
        log.do(DeleteOffsets("g", (("four", 0),)))
    with pytest.raises(GroupNotEmptyError, match="has 1 member"):
        log.do(DeleteOffsets("g"))
    log.do(LeaveGroup("g", ("m",)))
    log.do(DeleteOffsets("g"))
    assert "g" not in log.state.groups
    assert "g" not in log.state.offsets


def test_many_members_share_many_partitions(log):
    log.topic("wide", 1000)
    for number in range(30):
        join(log, f"m{number:04}", topics=("wide",))
    for number in range(30):
        sync(log, f"m{number:04}")
    assert sum(len(member.held) for member in group(log).members.values()) == 1000
    assert {len(member.held) for member in group(log).members.values()} == {33, 34}


def test_a_group_may_go_by_the_request_that_empties_it(log):
    log.do(JoinGroup("g", "m", ("t",), ("range",), 10_000))
    log.do(LeaveGroup("g", ("m",)), DeleteOffsets("g"))
    assert "g" not in log.state.groups
