"""What a process has seen, and nothing else, decides: for its own requests, and for others' transactions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_eos.log.commit import in_doubt as module
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.tail import Tail
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    AppendBatches,
    CommitOffsets,
    ExpireTransaction,
    InitProducer,
    PartitionOffset,
    Request,
    SetAppVersion,
)
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import fate
from spark_eos.protocol.rules.fate import Fate
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp
from spark_eos.storage.memory import MemoryStore
from tests.log.fakes import FakeClock, create


class JumpingClock(FakeClock):
    """Its wall clock can be set, as administrators and time servers do."""

    ahead_s = 0.0

    def now_ms(self):
        return int((self.now + self.ahead_s) * 1000)


def test_a_request_that_was_found_stays_found_when_it_is_sent_again():
    """A thread follows the log between two tries of a request: its entry must not be looked for in vain."""
    store = MemoryStore()
    done = Log.create(store).commit(create("a"))
    in_doubt = InDoubtRequests()
    tail = Tail(store, in_doubt=in_doubt)
    request = Request(done.request_id, 0, ())
    in_doubt.record_attempt([request], 1)
    tail.follow()
    in_doubt.record_attempt([request], 1)
    found = in_doubt.entry_outcome(done.request_id)
    assert found is not None
    assert found[0] == done.seq


def test_what_was_lost_and_sent_again_may_still_come():
    """Its first slot was retired unread, and no trace is in the state; the store has not answered for the second."""
    in_doubt = InDoubtRequests()
    request = Request(b"1" * 16, 0, (SetAppVersion("app", 1),))
    state = replace(EMPTY, seq=4)
    in_doubt.record_attempt([request], 3)
    in_doubt.record_skip()
    assert in_doubt.fate(state, request.request_id) is Fate.NOT_APPLIED
    in_doubt.record_attempt([request], 5)
    in_doubt.record_lost_reply([request])
    assert in_doubt.fate(state, request.request_id) is Fate.UNKNOWN
    assert in_doubt.fate(replace(state, seq=5), request.request_id) is Fate.NOT_APPLIED


def test_what_leaders_may_write_yet_is_unanswered_wherever_it_is_sent():
    """Leaders on other machines may put it into slots up to 10, also after it was withdrawn."""
    in_doubt = InDoubtRequests()
    request = Request(b"1" * 16, 0, (SetAppVersion("app", 1),))
    in_doubt.record_submission([request], 5)
    in_doubt.record_withdrawal([request.request_id], 10)
    in_doubt.record_withdrawal([request.request_id])
    in_doubt.record_read(replace(EMPTY, seq=6))
    for slot, is_unanswered in ((8, True), (10, True), (11, False)):
        in_doubt.record_attempt([request], slot)
        assert in_doubt.is_unanswered(request.request_id) is is_unanswered, slot


@pytest.mark.parametrize(
    ("fates", "told"),
    [
        ((Fate.UNKNOWN, Fate.NOT_APPLIED), Fate.UNKNOWN),
        ((Fate.APPLIED, Fate.UNKNOWN), Fate.UNKNOWN),
        ((Fate.NOT_APPLIED, Fate.APPLIED), Fate.APPLIED),
        ((Fate.NOT_APPLIED,), Fate.NOT_APPLIED),
    ],
)
def test_of_a_request_that_was_sent_in_two_forms_both_must_tell(fates, told, monkeypatch):
    monkeypatch.setattr(module, "fate_of", lambda _, actions: actions[0])
    in_doubt = InDoubtRequests()
    for one in fates:
        in_doubt.record_attempt([Request(b"1" * 16, 0, (one,))], 3)
    in_doubt.record_skip()
    assert in_doubt.fate(replace(EMPTY, seq=4), b"1" * 16) is told


def test_the_first_action_that_leaves_a_trace_decides_for_all(monkeypatch):
    told = SimpleNamespace(fate=lambda _, action: action, fate_decides=False)
    monkeypatch.setattr(fate, "DECLARED", {Fate: told})
    assert fate.fate_of(EMPTY, (Fate.UNKNOWN, Fate.APPLIED, Fate.NOT_APPLIED)) is Fate.APPLIED
    assert fate.fate_of(EMPTY, (Fate.UNKNOWN,)) is Fate.UNKNOWN


def test_a_producer_that_is_gone_may_have_been_there():
    """It has expired since: that it is not in the state does not say that it never was."""
    assert fate.fate_of(EMPTY, (InitProducer(7, 1, "tx", 60_000),)) is Fate.UNKNOWN


def test_what_is_repeatable_in_part_is_not_repeatable():
    both = AppendBatches(NO_PRODUCER, (), ()), SetAppVersion("app", 1)
    assert [fate.is_repeatable([one]) for one in both] == [False, True]
    assert not fate.is_repeatable(both)


def test_a_clock_that_jumps_aborts_nobody():
    clock = JumpingClock()
    log = Log.create(MemoryStore(), clock)
    topic = log.ensure_topic("t")
    stamp = ProducerStamp(0, 0, 0)
    log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),))
    log.commit(lambda _: (CommitOffsets("g", (PartitionOffset("t", topic.topic_id, 0, 1),), stamp),))
    assert log.expire_overdue() == ()
    for ahead_s in (3600.0, -3600.0):
        clock.ahead_s = ahead_s
        clock.now += 0.4
        assert log.expire_overdue() == ()
    clock.now += 0.2
    assert log.expire_overdue() == (ExpireTransaction(stamp, 1000),)
