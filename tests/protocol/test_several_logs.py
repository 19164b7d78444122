"""One transaction in several logs: only the decision ends what follows it, and it is kept until all have followed."""

from __future__ import annotations

import pytest

from spark_eos.errors import (
    DivergedLogError,
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from spark_eos.log.deciding.outcome import decision_of
from spark_eos.protocol.actions import (
    AddFollowers,
    AlterLog,
    EndTransaction,
    ExpireTransaction,
    ExpireTransactionalIds,
    FollowDecision,
    NoteFollowers,
    PrepareTransaction,
)
from spark_eos.protocol.actions.expiry import due
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import InvariantError, check_later, check_state
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.fate import Fate, fate_of
from spark_eos.protocol.state import PreparedTransaction, TransactionState
from spark_eos.protocol.types import Decider, Follower, ProducerStamp

DECIDER = Decider("other", "file:///other", 4, 2, 9, b"history", 17)
OTHERS = (Follower("f1", "file:///f1", "tx1"), Follower("f2", "file:///f2", "tx2"))


def producer(log):
    return log.state.producers[0]


def deciding(log, stamp=None):
    """An open transaction that decides for two logs: its stamp, and the decision."""
    stamp = log.next(stamp or log.init())
    (decision,) = log.do(AddFollowers(stamp, OTHERS))
    return stamp, decision


def following(log, stamp=None):
    stamp = log.next(stamp or log.init())
    _, after = log.do(log.appending(stamp, (0, 3)), PrepareTransaction(stamp, DECIDER))
    return after


def note(stamp, decision, *logs):
    return NoteFollowers(stamp._replace(epoch=decision.epoch), decision.history, logs)


# -- The deciding log -----------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_the_transaction_is_the_decision(log, commit):
    stamp, decision = deciding(log)
    assert (decision.committed, decision.waiting) == (None, ("f1", "f2"))
    assert producer(log).transaction is TransactionState.ONGOING
    log.end(stamp, commit)
    assert producer(log).decision == replace(decision, committed=commit)


def test_a_timeout_and_a_successor_decide_for_abort(log):
    stamp, _ = deciding(log)
    log.do(ExpireTransaction(stamp, 1000))
    assert producer(log).decision.committed is False
    with pytest.raises(ProducerFencedError):
        log.end(stamp)
    log.do(NoteFollowers(stamp, producer(log).decision.history, ("f1", "f2")))
    late, _ = deciding(log, log.init())
    log.init()
    assert producer(log).decision.committed is False
    with pytest.raises(ProducerFencedError):
        log.end(late)


@pytest.mark.parametrize(
    "followers",
    [(), (OTHERS[0], OTHERS[0]._replace(url="elsewhere")), (Follower("log", "file:///log", "x"),)],
)
def test_followers_are_other_logs_each_named_once(log, followers):
    with pytest.raises(InvalidRequestError, match="are other logs, each named once"):
        log.do(AddFollowers(log.next(log.init()), followers))


def test_followers_are_named_once(log):
    stamp, _ = deciding(log)
    with pytest.raises(InvalidTxnStateError, match="has its followers already"):
        log.do(AddFollowers(stamp, OTHERS[:1]))


def test_nothing_else_is_decided_before_all_have_followed(log):
    stamp, decision = deciding(log)
    log.end(stamp)
    later = log.next(stamp)
    with pytest.raises(InvalidTxnStateError, match=r"before all have followed transaction 0.*f1, f2"):
        log.do(AddFollowers(later, OTHERS))
    log.do(log.appending(later, (0, 1)), EndTransaction(later, True))  # Others than deciding ones go on.
    assert producer(log).decision.committed is True
    log.do(note(stamp, decision, "f2"))
    with pytest.raises(InvalidTxnStateError, match=r"Not noted yet: f1$"):
        log.do(AddFollowers(log.next(later), OTHERS))
    log.do(note(stamp, decision, "f1"), AddFollowers(log.next(later), OTHERS[:1]))
    assert producer(log).decision.number == 2


def test_no_follower_is_noted_before_the_decision(log):
    stamp, decision = deciding(log)
    with pytest.raises(InvalidTxnStateError, match="is not decided"):
        log.do(note(stamp, decision, "f1"))


def test_a_late_note_says_nothing_of_a_later_decision(log):
    stamp, first = deciding(log)
    log.end(stamp)
    log.do(note(stamp, first, "f1", "f2"))
    later, second = deciding(log, stamp)
    log.end(later)
    log.do(note(stamp, first, "f1"))
    log.do(NoteFollowers(later, b"another history", ("f1",)))
    assert producer(log).decision.waiting == ("f1", "f2")
    log.do(note(later, second, "f1", "unknown"))
    assert producer(log).decision.waiting == ("f2",)


def test_a_decision_is_known_after_all_have_followed(log):
    stamp, decision = deciding(log)
    log.end(stamp)
    log.do(note(stamp, decision, "f1", "f2"))
    log.init()
    assert (producer(log).decision.committed, producer(log).is_awaited) == (True, False)


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_that_others_wait_for_does_not_expire(log, commit):
    stamp, decision = deciding(log)
    log.end(stamp, commit)
    log.do(AlterLog((("producer.id.expiration.ms", "1"), ("transactional.id.expiration.ms", "1"))))
    log.now += 10**10
    with pytest.raises(InvalidRequestError, match="other logs follow"):
        log.do(ExpireTransactionalIds(("tx",)))
    assert list(due(log.state, log.now)) == []
    log.do(note(stamp, decision, "f1", "f2"))
    (expiry,) = due(log.state, log.now)
    log.now += 10**10
    log.do(AlterLog((("transactional.id.expiration.ms", "1"),)))
    log.do(expiry)
    assert not log.state.producers


def test_what_is_not_in_the_log_yet_is_decided_by_another_one(log):
    """By the one that was put back, and may have gone on with the same numbers."""
    stamp, decision = deciding(log)
    state = log.state
    decider = Decider(state.log_id, "file:///x", stamp.producer_id, *decision[:3], state.seq)
    assert decision_of(state, decider, "file:///x") == decision
    with pytest.raises(DivergedLogError, match="was put back from a backup or a copy"):
        decision_of(state, decider._replace(seq=state.seq + 1), "file:///x")


def test_what_decides_is_not_prepared(log):
    stamp, _ = deciding(log)
    for decider in (None, DECIDER):
        with pytest.raises(InvalidTxnStateError, match="cannot wait for a decision itself"):
            log.do(PrepareTransaction(stamp, decider))
    following_one = following(log, log.init("another"))
    with pytest.raises(InvalidTxnStateError):
        log.do(AddFollowers(following_one, OTHERS))


# -- A following log ------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_it_ends_as_the_decider_did(log, commit):
    stamp = following(log)
    assert producer(log).follows == DECIDER
    log.do(FollowDecision(stamp, DECIDER, commit))
    assert producer(log).prepared == PreparedTransaction(1, commit, DECIDER)
    assert (log.partition().last_stable_offset, producer(log).follows) == (4, None)
    log.do(FollowDecision(stamp, DECIDER, commit))
    with pytest.raises(InvalidTxnStateError, match=r"cannot (commit|abort) with transaction 9"):
        log.do(FollowDecision(stamp, DECIDER, not commit))


def test_nothing_else_ends_it(log):
    stamp = following(log)
    for action in (
        EndTransaction(stamp, True),
        EndTransaction(stamp, False),
        ExpireTransaction(stamp, 10**9),
    ):
        with pytest.raises(InvalidTxnStateError):
            log.do(action)
    with pytest.raises(
        InvalidTxnStateError, match=r"follows transaction 9 of producer 4 in log other \(file:"
    ):
        log.init()
    assert producer(log).stamp == stamp


def test_a_successor_that_keeps_it_changes_nothing_for_those_who_end_it(log):
    stamp = following(log)
    heir = log.init(keep_prepared=True)
    with pytest.raises(InvalidTxnStateError):
        log.end(heir)
    log.do(FollowDecision(stamp, DECIDER, True))
    assert producer(log).prepared == PreparedTransaction(1, True, DECIDER)


@pytest.mark.parametrize(
    "other",
    [{"log_id": "x"}, {"producer_id": 5}, {"epoch": 3}, {"number": 8}, {"history": b"put back"}],
)
def test_the_decision_of_another_transaction_is_none(log, other):
    stamp = following(log)
    with pytest.raises(InvalidTxnStateError, match="that follows"):
        log.do(FollowDecision(stamp, DECIDER._replace(**other), True))
    assert producer(log).follows == DECIDER


def test_a_decision_that_is_late_ends_nothing_later(log):
    stamp = following(log)
    log.do(FollowDecision(stamp, DECIDER, False))
    later = following(log, stamp)
    with pytest.raises(InvalidTxnStateError, match="a later one since"):
        log.do(FollowDecision(stamp, DECIDER, False))
    log.do(FollowDecision(later, DECIDER, True))
    with pytest.raises(InvalidPidMappingError):
        log.do(FollowDecision(ProducerStamp(7, 1, 0), DECIDER, True))


def test_what_was_prepared_for_another_system_is_not_ended_by_a_log(log):
    stamp = log.next(log.init())
    (stamp,) = log.do(PrepareTransaction(stamp))
    with pytest.raises(InvalidTxnStateError, match="that follows"):
        log.do(FollowDecision(stamp, DECIDER, True))


def test_a_log_does_not_follow_itself(log):
    with pytest.raises(InvalidRequestError, match="cannot follow a transaction of its own"):
        log.do(PrepareTransaction(log.next(log.init()), DECIDER._replace(log_id="log")))


# -- State ----------------------------------------------------------------------------------------------


def test_snapshots_keep_both(log):
    stamp, decision = deciding(log)
    following(log, log.init("another"))
    for _ in range(2):
        state = log.state
        assert decode_snapshot(encode_snapshot(state), state.seq, "x") == state
        log.end(stamp)
    log.do(note(stamp, decision, "f1", "f2"))
    assert decode_snapshot(encode_snapshot(log.state), log.state.seq, "x") == log.state


def test_the_fate_of_its_requests(log):
    stamp = log.next(log.init())
    add = AddFollowers(stamp, OTHERS)
    assert fate_of(log.state, (add,)) is Fate.NOT_APPLIED
    (decision,) = log.do(add)
    assert fate_of(log.state, (add,)) is Fate.APPLIED
    log.end(stamp)
    log.do(note(stamp, decision, "f1", "f2"))
    deciding(log, stamp)
    assert fate_of(log.state, (add,)) is Fate.UNKNOWN
    other = following(log, log.init("another"))
    follow = FollowDecision(other, DECIDER, True)
    assert fate_of(log.state, (follow,)) is Fate.NOT_APPLIED
    log.do(follow)
    assert fate_of(log.state, (follow,)) is Fate.APPLIED
    following(log, other)
    assert fate_of(log.state, (follow,)) is Fate.UNKNOWN


def test_impossible_states(log):
    stamp, decision = deciding(log)
    before = log.state

    def changed(**changes):
        new = replace(producer(log), decision=replace(decision, **changes))
        return replace(before, producers=before.producers.set(0, new))

    with pytest.raises(InvariantError, match="is its decision open"):
        check_state(changed(committed=True))
    with pytest.raises(InvariantError, match="changed"):
        check_later(before, changed(history=b"another"))
    log.end(stamp)
    before, decision = log.state, producer(log).decision
    with pytest.raises(InvariantError, match="made twice"):
        check_later(before, changed(committed=False))
    gone = replace(before, producers=before.producers.set(0, replace(producer(log), decision=None)))
    with pytest.raises(InvariantError, match="forgot a decision"):
        check_later(before, gone)
