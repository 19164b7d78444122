"""Each commit has one of three outcomes, and whatever the store does, an entry is written once."""

from __future__ import annotations

import threading

import pytest

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    ObjectExistsError,
    ObjectNotFoundError,
    StoreFullError,
    StoreUnavailableError,
    TopicExistsError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit.closing import close_after
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AlterTopic, CreateTopic, DeleteTopic
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore

from .fakes import FakeClock, create

ENTRIES = "_log/*"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store, clock):
    return Log.create(store, clock, Retry(deadline_s=10))


@pytest.fixture
def other(store):
    """Another process: the same objects, its own handle, no faults."""
    return Log.open(store.inner, FakeOther())


class FakeOther(FakeClock):
    def unique(self):
        return b"other" + super().unique()[5:]


def entries(store):
    return sorted(info.name for info in store.inner.list("_log/"))


def requests(store):
    """(entry, topic created) for every request in the log."""
    found = []
    for seq, name in enumerate(entries(store)):
        for request in decode_entry(store.inner.read(name), seq, name).requests:
            found += [(seq, action.name) for action in request.actions if isinstance(action, CreateTopic)]
    return found


# -- Committed ------------------------------------------------------------------------------------------


def test_an_entry_for_each_commit(log, store):
    done = [log.commit(create(name)) for name in "ab"]
    assert [d.seq for d in done] == [1, 2]
    assert requests(store) == [(1, "a"), (2, "b")]
    assert sorted(done[0].state.topics) == ["a"]
    assert sorted(log.state.topics) == ["a", "b"]


def test_a_proposal_that_has_nothing_to_do_writes_nothing(log, store):
    done = log.commit(lambda _state: ())
    assert (done.results, done.seq) == ((), 0)
    assert len(entries(store)) == 1


@pytest.mark.parametrize(
    "fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST, Fault.DUPLICATE, ObjectExistsError("conflict")]
)
def test_one_fault_is_not_seen_and_the_entry_is_there_once(log, store, fault):
    store.inject(fault, "create", ENTRIES)
    done = log.commit(create("a"))
    assert done.seq == 1
    assert "a" in done.state.topics
    log.commit(create("b"))
    assert requests(store) == [(1, "a"), (2, "b")]


@pytest.mark.conformance("commit/same-slot")
def test_a_slow_create_lands_while_it_is_repeated(log, store, clock):
    store.inject(Fault.DELAYED, "create", ENTRIES)
    clock.on_sleep = store.release
    assert log.commit(create("a")).seq == 1
    assert requests(store) == [(1, "a")]


@pytest.mark.conformance("commit/same-slot")
def test_a_slow_create_that_comes_too_late_is_never_in(log, store, clock, other):
    store.inject(Fault.DELAYED, "create", ENTRIES)
    clock.on_sleep = lambda: other.state.seq == 0 and other.commit(create("b"))
    assert log.commit(create("a")).seq == 2
    (error,) = store.release()
    assert error is not None
    assert requests(store) == [(1, "b"), (2, "a")]


@pytest.mark.conformance("commit/same-slot")
def test_a_free_slot_that_was_refused_is_tried_again_until_it_is_filled(log, store, clock, other):
    store.inject(ObjectExistsError("conflict"), "create", ENTRIES, times=2)
    clock.on_sleep = lambda: other.state.seq == 0 and other.commit(create("b"))
    assert log.commit(create("a")).seq == 2
    assert requests(store) == [(1, "b"), (2, "a")]


@pytest.mark.conformance("commit/three-outcomes")
def test_a_free_slot_that_is_refused_for_ever_is_in_doubt(log, store):
    store.inject(ObjectExistsError("conflict"), "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError, match="cannot be read") as caught:
        log.commit(create("a"))
    store.heal()
    assert log.commit(create("a"), request_id=caught.value.request_id).seq == 1
    assert requests(store) == [(1, "a")]


def test_reads_that_fail_are_repeated(log, store, other):
    other.commit(create("b"))
    store.inject(Fault.FAIL_BEFORE, "read", ENTRIES, times=3)
    assert log.commit(create("a")).seq == 2
    assert requests(store) == [(1, "b"), (2, "a")]


def test_a_taken_slot_that_cannot_be_read_yet_is_waited_for(log, store, other):
    other.commit(create("b"))
    store.inject(ObjectNotFoundError("not shown yet"), "read", ENTRIES, times=2)
    assert log.commit(create("a")).seq == 2


def test_a_taken_slot_that_never_can_be_read_is_an_error(log, store, other):
    other.commit(create("b"))
    store.inject(ObjectNotFoundError("never shown"), "read", ENTRIES, times=None)
    with pytest.raises((StoreUnavailableError, CommitOutcomeUnknownError)):
        log.commit(create("a"))


# -- Rejected -------------------------------------------------------------------------------------------


def test_a_refused_request_leaves_no_entry(log, store):
    log.commit(create("a"))
    with pytest.raises(TopicExistsError):
        log.commit(create("a"))
    with pytest.raises(InvalidRequestError):
        log.commit(create("no/name"))
    assert len(entries(store)) == 2


def test_a_proposal_may_refuse_by_itself(log, store):
    def propose(_state):
        raise InvalidRequestError("not like this")

    with pytest.raises(InvalidRequestError, match="not like this"):
        log.commit(propose)
    assert len(entries(store)) == 1


@pytest.mark.conformance("commit/all-or-nothing")
def test_all_of_a_request_or_nothing(log):
    def propose(state):
        return (*create("a")(state), *create("no/name")(state))

    with pytest.raises(InvalidRequestError):
        log.commit(propose)
    assert not log.follow().topics


@pytest.mark.conformance("commit/newest-state")
def test_a_refusal_is_checked_on_the_newest_state(log, other):
    log.commit(create("a"))
    other.follow()
    other.commit(lambda state: (_delete(state, "a"),))
    # This handle still sees "a": it must look before it says no.
    assert "a" in log.state.topics
    assert log.commit(lambda _state: (CreateTopic("a", "another id", 1),)).seq == 3


@pytest.mark.conformance("commit/newest-state")
def test_nothing_to_do_is_checked_on_the_newest_state(log, other):
    log.commit(create("a"))
    other.follow()
    other.commit(lambda state: (_delete(state, "a"),))
    done = log.commit(lambda state: () if "a" in state.topics else (CreateTopic("a", "another id", 1),))
    assert done.seq == 3


@pytest.mark.conformance("commit/one-winner")
def test_who_loses_the_race_is_judged_by_what_the_winner_wrote(log, store, other):
    other.commit(create("a"))
    with pytest.raises(TopicExistsError):
        log.commit(create("a"))
    assert requests(store) == [(1, "a")]


def test_a_store_that_is_full_says_no(log, store):
    store.inject(StoreFullError("full"), "create", ENTRIES)
    with pytest.raises(StoreFullError):
        log.commit(create("a"))
    assert log.commit(create("a")).seq == 1


def test_a_store_that_stays_away_says_no_and_nothing_is_in(log, store):
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(StoreUnavailableError):
        log.commit(create("a"))
    store.heal()
    assert len(entries(store)) == 1


def test_who_was_idle_looks_for_news_before_it_tries(log, store, other, clock):
    for name in "abc":
        other.follow()
        other.commit(create(name))
    clock.sleep(1)
    log.commit(create("d"))
    assert store.count("create", ENTRIES) == 3, "entry 0, a slot that was taken, and the next free one"
    other.follow()
    other.commit(create("e"))
    clock.sleep(6)
    log.commit(create("f"))
    assert store.count("create", ENTRIES) == 4


# -- Durable before it is answered -----------------------------------------------------------------------


def unless_there(state):
    return () if "t" in state.topics else create("t")(state)


def test_nothing_to_do_rests_on_what_would_survive_a_power_cut(log, store, other):
    """The writer of the entry that says so may have died before it was synced."""
    other.follow()
    other.commit(create("t"))
    log.follow()
    log.commit(unless_there)
    log.commit(unless_there)
    assert store.count("ensure_durable") == store.count("ensure_durable", paths.entry(1)) == 1
    log.commit(create("u"))
    log.commit(unless_there)
    assert store.count("ensure_durable") == 1, "a create has synced it"


def test_a_create_that_was_refused_has_synced_what_it_met(log, store, other):
    other.follow()
    other.commit(create("t"))
    log.commit(unless_there)
    assert store.count("create", paths.entry(1)) == 1
    assert store.count("ensure_durable") == 0


def test_an_own_entry_that_was_only_read_is_settled(log, store):
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.heal()
    log.commit(create("a"), request_id=unknown.value.request_id)
    assert store.count("ensure_durable", paths.entry(1)) == 1


def test_what_cannot_be_made_durable_is_not_answered(log, store, other):
    other.follow()
    other.commit(create("t"))
    log.follow()
    store.inject(StoreUnavailableError("away"), "ensure_durable")
    with pytest.raises(StoreUnavailableError, match="away"):
        log.commit(unless_there)
    assert log.commit(unless_there).seq == 1


# -- Unknown --------------------------------------------------------------------------------------------


@pytest.mark.conformance("commit/three-outcomes")
def test_no_reply_until_the_deadline_is_unknown(log, store, clock):
    store.inject(Fault.LOST, "create", ENTRIES, times=None)
    began = clock.now
    with pytest.raises(CommitOutcomeUnknownError, match="Repeat the same call") as unknown:
        log.commit(create("a"))
    assert 10 <= clock.now - began < 15
    store.heal()
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 1
    assert requests(store) == [(1, "a")]


@pytest.mark.conformance("commit/three-outcomes")
def test_an_answer_of_no_after_one_without_reply_is_still_unknown(log, store):
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.inject(StoreFullError("full"), "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        log.commit(create("a"))
    store.heal()
    assert requests(store) == [(1, "a")]


@pytest.mark.conformance("commit/three-outcomes")
def test_unavailable_after_one_without_reply_is_still_unknown(log, store):
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        log.commit(create("a"))


@pytest.mark.conformance("commit/own-request")
def test_a_repeated_call_finds_its_own_entry(log, store):
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.heal()
    done = log.commit(create("a"), request_id=unknown.value.request_id)
    assert done.seq == 1
    assert requests(store) == [(1, "a")]


@pytest.mark.conformance("commit/own-request")
def test_a_repeated_call_finds_its_own_entry_behind_those_of_others(log, store, other):
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.heal()
    other.commit(create("b"))
    log.commit(create("c"))
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 1
    assert requests(store) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.conformance("commit/own-request")
def test_a_create_that_lands_after_the_deadline_is_found(log, store):
    store.inject(Fault.DELAYED, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.heal()
    assert store.release() == [None]
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 1
    assert requests(store) == [(1, "a")]


@pytest.mark.conformance("commit/same-slot")
def test_an_unknown_one_that_lost_its_slot_is_committed_anew(log, store, other):
    store.inject(Fault.DELAYED, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.heal()
    other.commit(create("b"))
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 2
    (error,) = store.release()
    assert error is not None
    assert requests(store) == [(1, "b"), (2, "a")]


@pytest.mark.conformance("commit/three-outcomes")
def test_no_to_a_repeated_call_does_not_settle_the_first_one(log, store):
    store.inject(Fault.DELAYED, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    with pytest.raises(CommitOutcomeUnknownError):
        log.commit(create("a"), request_id=unknown.value.request_id)
    store.heal()
    store.inject(StoreFullError("full"), "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        log.commit(create("a"), request_id=unknown.value.request_id)
    assert store.release() == [None]
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 1


def test_the_store_goes_away_after_a_slot_was_found_taken(log, store):
    """The reply was lost and the entry is in; then even reading fails: the answer must not be no."""
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.after = lambda _operation, _name: store.inject(Fault.FAIL_BEFORE, "read", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.after = lambda _operation, _name: None
    store.heal()
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 1


def test_an_own_entry_of_a_closed_log_that_cannot_be_made_durable_is_still_unknown(log, store, other):
    """Its entry is the last one: "nothing of this call is in the log" would be wrong."""
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("a"))
    store.heal()
    close_after(store.inner, other.follow())
    store.inject(StoreUnavailableError("away"), "ensure_durable")
    with pytest.raises(CommitOutcomeUnknownError, match="away"):
        log.commit(create("a"), request_id=unknown.value.request_id)
    assert log.commit(create("a"), request_id=unknown.value.request_id).seq == 1


# -- Threads --------------------------------------------------------------------------------------------


def together(log, store, proposals):
    """All proposals wait while the first one is at the store; what came of each."""
    inside, go_on = threading.Event(), threading.Event()

    def before(operation, _name):
        if operation == "create" and not inside.is_set():
            inside.set()
            assert go_on.wait(30)

    store.before = before
    outcomes = {}

    def work(number):
        try:
            outcomes[number] = log.commit(proposals[number])
        except BaseException as error:  # noqa: BLE001
            outcomes[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(proposals))]
    threads[0].start()
    assert inside.wait(30)
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        while len(log._committer._waiting) < number:
            threading.Event().wait(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return outcomes


def test_waiting_threads_share_an_entry(log, store):
    outcomes = together(log, store, [create(name) for name in "abcdef"])
    assert {outcome.seq for outcome in outcomes.values()} == {1, 2}
    assert len(entries(store)) == 3
    assert sorted(log.state.topics) == list("abcdef")


@pytest.mark.conformance("commit/all-or-nothing")
def test_a_refused_thread_does_not_harm_the_others(log, store):
    outcomes = together(log, store, [create(name) for name in ("a", "b", "b", "no/name", "c")])
    refused = [type(outcome) for outcome in outcomes.values() if isinstance(outcome, BaseException)]
    assert sorted(error.__name__ for error in refused) == ["InvalidRequestError", "TopicExistsError"]
    assert sorted(log.state.topics) == ["a", "b", "c"]
    assert len(entries(store)) == 3


def test_a_thread_whose_proposal_fails_in_its_own_way_does_not_harm_the_others(log, store):
    def broken(_state):
        raise ZeroDivisionError

    outcomes = together(log, store, [create("a"), broken, create("b")])
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert outcomes[2].seq == 2


def test_a_request_that_cannot_be_written_down_does_not_harm_the_others(log, store):
    def unwritable(_state):
        return (CreateTopic("bad", "bad-id", 1, (("retention.ms", "\ud800"),)),)

    outcomes = together(log, store, [create("a"), create("b"), unwritable, create("c")])
    assert isinstance(outcomes[2], InvalidRequestError)
    assert sorted(log.state.topics) == ["a", "b", "c"]


@pytest.mark.conformance("commit/newest-state")
def test_a_refusal_never_rests_on_an_entry_that_was_not_written(log, store):
    """Of two that cannot both be, the second is not told no for the sake of a first that failed."""
    store.inject(StoreFullError("full"), "create", ENTRIES, skip=1)
    outcomes = together(log, store, [create("first"), create("a"), create("a")])
    assert isinstance(outcomes[1], StoreFullError)
    assert outcomes[2].seq == 2
    assert sorted(log.state.topics) == ["a", "first"]


@pytest.mark.conformance("commit/newest-state")
def test_nothing_to_do_never_rests_on_an_entry_that_was_not_written(log, store):
    def unless_there(state):
        return () if "a" in state.topics else create("a")(state)

    store.inject(StoreFullError("full"), "create", ENTRIES, skip=1)
    outcomes = together(log, store, [create("first"), unless_there, unless_there])
    assert isinstance(outcomes[1], StoreFullError)
    assert "a" in outcomes[2].state.topics


@pytest.mark.conformance("commit/three-outcomes")
def test_nobody_who_may_be_in_is_told_no(log, store):
    """The second request stands in the entry in doubt after the first, and makes no sense without it."""

    def widen(_state):
        return (AlterTopic("a", "id-of-a", 2),)

    store.inject(Fault.DELAYED, "create", ENTRIES, skip=1)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, skip=1, times=None)
    outcomes = together(log, store, [create("first"), create("a"), widen])
    unknown = outcomes[2]
    assert isinstance(unknown, CommitOutcomeUnknownError)
    store.heal()
    with pytest.raises(CommitOutcomeUnknownError):
        log.commit(widen, request_id=unknown.request_id)
    assert store.release() == [None]
    assert log.commit(widen, request_id=unknown.request_id).seq == 2
    assert log.state.topics["a"].partitions == 2


def test_an_interrupt_at_the_store_leaves_nobody_waiting(log, store):
    store.inject(KeyboardInterrupt(), "create", ENTRIES)
    with pytest.raises(KeyboardInterrupt):
        log.commit(create("a"))
    assert log.commit(create("b")).seq == 1


def test_many_threads_and_two_handles(store, log, other):
    def work(handle, name):
        for number in range(10):
            handle.commit(create(f"{name}{number}"))

    handles = {"a": log, "b": log, "c": other, "d": other}
    threads = [threading.Thread(target=work, args=(handle, name)) for name, handle in handles.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(log.follow().topics) == sorted(f"{name}{n}" for name in "abcd" for n in range(10))
    assert len(requests(store)) == 40
    assert log.follow() == Log.open(store.inner).state


def test_names_of_entries(store, log):
    log.commit(create("a"))
    assert entries(store) == [paths.entry(0), paths.entry(1)] == [f"_log/{n:020d}.avro" for n in (0, 1)]


def _delete(state, name):
    return DeleteTopic(name, state.topics[name].topic_id)
