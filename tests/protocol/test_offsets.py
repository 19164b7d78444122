"""Committed offsets, alone and with a transaction."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.protocol.actions import CommitOffsets, DeleteOffsets, EndTransaction, Request
from spark_eos.protocol.actions.offsets import is_pending
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.rules.apply import Rejected, apply


def test_offsets_of_a_group(log):
    log.do(CommitOffsets("g", (log.at(3), log.at(4, 1))))
    log.do(CommitOffsets("g", (log.at(2, metadata="m"),)))
    assert log.group() == {("t", 0): 2, ("t", 1): 4}
    known = log.state.offsets["g"]["t", 0]
    assert (known.public.metadata, known.timestamp_ms) == ("m", 1000)


def test_what_cannot_be_committed(log):
    with pytest.raises(InvalidRequestError, match=r"group\.id"):
        log.do(CommitOffsets("", (log.at(3),)))
    with pytest.raises(InvalidRequestError, match="offset -1"):
        log.do(CommitOffsets("g", (log.at(-1),)))
    for partition in (-1, 2):
        with pytest.raises(UnknownTopicOrPartitionError, match=f"no partition {partition}"):
            log.do(CommitOffsets("g", (log.at(0, partition),)))
    with pytest.raises(InvalidRequestError, match="4096 bytes"):
        log.do(CommitOffsets("g", (log.at(0, metadata="ä" * 2049),)))
    log.do(CommitOffsets("g", (log.at(0, metadata="ä" * 2048),)))


def test_rules_raise_nothing_but_their_own_errors(log):
    action = CommitOffsets("g", (log.at(0, metadata="\ud800" * 2000),))
    assert isinstance(apply(log.state, Request(bytes(16), 0, (action,)))[1], Rejected)


@pytest.mark.conformance("offset/with-transaction", "offset/pending")
@pytest.mark.parametrize("commit", [True, False])
def test_pending_offsets_wait_for_the_end(log, commit):
    stamp = log.next(log.init())
    log.do(CommitOffsets("g", (log.at(1), log.at(1, 1))))
    log.do(CommitOffsets("g", (log.at(3),), stamp))
    log.do(CommitOffsets("h", (log.at(5),), stamp))
    assert log.group() == {("t", 0): 1, ("t", 1): 1}
    assert is_pending(log.state, "g", "t", 0)
    assert not is_pending(log.state, "g", "t", 1)
    log.end(stamp, commit)
    assert log.group() == {("t", 0): 3 if commit else 1, ("t", 1): 1}
    assert log.group("h") == ({("t", 0): 5} if commit else {})
    assert not is_pending(log.state, "g", "t", 0)


@pytest.mark.parametrize("together", [False, True], ids=["apart", "in one entry"])
@pytest.mark.parametrize("commit", [True, False])
def test_a_later_commit_stands(log, commit, together):
    stamp = log.next(log.init())
    actions = (
        CommitOffsets("g", (log.at(3), log.at(4, 1)), stamp),
        CommitOffsets("g", (log.at(7),)),
        CommitOffsets("g", (log.at(5, 1),), stamp),
    )
    for some in [actions] if together else [(action,) for action in actions]:
        log.do(*some)
    log.end(stamp, commit)
    assert log.group() == {("t", 0): 7} | ({("t", 1): 5} if commit else {})


def test_an_earlier_commit_does_not_stand(log):
    stamp = log.next(log.init())
    log.do(CommitOffsets("g", (log.at(3),), stamp))
    log.do(CommitOffsets("g", (log.at(7),)), CommitOffsets("g", (log.at(5),), stamp))
    log.end(stamp)
    assert log.group() == {("t", 0): 5}


def test_a_later_commit_stands_also_behind_a_snapshot(log):
    stamp = log.next(log.init())
    log.do(CommitOffsets("g", (log.at(1),)))
    log.do(CommitOffsets("g", (log.at(3),), stamp))
    log.do(CommitOffsets("g", (log.at(7),)))
    log.state = decode_snapshot(encode_snapshot(log.state), log.state.seq, "snapshot")
    log.end(stamp)
    assert log.group() == {("t", 0): 7}


@pytest.mark.parametrize("again", [False, True])
def test_of_two_transactions_the_later_offset_stands(log, again):
    """Whichever of them ends first."""
    first, second = (log.next(log.init(name)) for name in ("a", "b"))
    log.do(CommitOffsets("g", (log.at(3),), first))
    log.do(CommitOffsets("g", (log.at(7),), second))
    if again:
        log.do(CommitOffsets("g", (log.at(4),), first))
    log.end(second)
    assert log.group() == {("t", 0): 7}
    log.end(first)
    assert log.group() == {("t", 0): 4 if again else 7}


def test_the_earlier_offset_stands_where_the_later_transaction_aborts(log):
    first, second = (log.next(log.init(name)) for name in ("a", "b"))
    log.do(CommitOffsets("g", (log.at(3),), first))
    log.do(CommitOffsets("g", (log.at(7),), second))
    log.end(second, commit=False)
    log.end(first)
    assert log.group() == {("t", 0): 3}


@pytest.mark.parametrize("partitions", [(), (("t", 0),)], ids=["all", "one"])
def test_what_is_deleted_does_not_come_back(log, partitions):
    first, second = (log.next(log.init(name)) for name in ("a", "b"))
    log.do(CommitOffsets("g", (log.at(1),)))
    log.do(CommitOffsets("g", (log.at(3), log.at(4, 1)), first), CommitOffsets("h", (log.at(5),), first))
    log.do(CommitOffsets("g", (log.at(6),), second))
    log.do(DeleteOffsets("g", partitions))
    assert is_pending(log.state, "g", "t", 1) is bool(partitions)
    log.end(first)
    log.do(CommitOffsets("g", (log.at(8),), second))
    assert log.group() == ({("t", 1): 4} if partitions else {})
    log.end(second)
    assert log.group() == {("t", 0): 8} | ({("t", 1): 4} if partitions else {})
    assert log.group("h") == {("t", 0): 5}


def test_the_later_commit_stands_after_a_snapshot(log):
    first, second = (log.next(log.init(name)) for name in ("a", "b"))
    log.do(CommitOffsets("g", (log.at(3),), first))
    log.do(CommitOffsets("g", (log.at(7),)))
    log.do(CommitOffsets("g", (log.at(4, 1),), first))
    log.do(CommitOffsets("g", (log.at(6, 1),), second))
    log.state = decode_snapshot(encode_snapshot(log.state), log.state.seq, "snapshot")
    log.end(second)
    log.end(first)
    assert log.group() == {("t", 0): 7, ("t", 1): 6}
    log.do(CommitOffsets("g", (log.at(1, 0),)))
    assert log.group() == {("t", 0): 1, ("t", 1): 6}


@pytest.mark.conformance("offset/with-transaction")
def test_one_shot(log):
    stamp = log.next(log.init())
    log.do(log.appending(stamp, (0, 3)), CommitOffsets("g", (log.at(3),), stamp), EndTransaction(stamp, True))
    assert (log.group(), log.partition().last_stable_offset) == ({("t", 0): 3}, 4)
