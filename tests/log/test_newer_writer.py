"""A process that meets an entry of a newer version says at once "upgrade", and what is certainly not in the log."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Producer
from spark_eos.errors import CommitOutcomeUnknownError, UnsupportedVersionError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Entry, Request
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import EMPTY
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore

from .fakes import FakeClock, create
from .test_group_commit import Process

pytestmark = pytest.mark.usefixtures("timeless_folders")

A_MOMENT_S = 2.0
"""Of the fake clock, which moves only when a call waits: far less than any deadline."""


def newer_schema(seq):
    """An entry as a later version will write it: with a schema that is not known here."""
    data = bytearray(encode_entry(Entry(seq, ())))
    data[8:16] = b"tomorrow"
    return bytes(data)


def newer_format(seq):
    """The same with a later version of the frame."""
    data = bytearray(encode_entry(Entry(seq, ())))
    data[6:8] = (99).to_bytes(2, "big")
    return bytes(data)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=[True, False], ids=["exact", "inexact"])
def store(request):
    """Also one where a create may meet its own object: what this process has created, it could read."""
    store = FaultyStore(MemoryStore())
    store.has_exact_conflicts = request.param
    return store


@pytest.fixture
def log(store, clock):
    log = Log.create(store, clock, Retry(deadline_s=60))
    log.does_maintenance = False
    log.commit(create("t"))
    return log


def plant(store, seq, make=newer_schema):
    store.create(paths.entry(seq, 100_000), make(seq))


def overtake(store, seq, make=newer_schema, after=0):
    """A newer process fills slot ``seq`` just before this process's next create, or ``after`` so many."""
    left = [None] * after

    def before(operation, name):
        if operation == "create" and name.startswith("_log/"):
            if left:
                left.pop()
            else:
                store.before = lambda *_: None
                plant(store.inner, seq, make)

    store.before = before


def nothing_in_doubt(log):
    return not log._parts.in_doubt.ids


@pytest.mark.parametrize("make", [newer_schema, newer_format])
def test_a_commit_that_loses_its_slot_to_a_newer_version_is_not_in_doubt(log, store, clock, make):
    overtake(store, 2, make)
    begun = clock.now
    for _ in range(2):  # The second one meets it at the first look.
        with pytest.raises(UnsupportedVersionError, match="upgrade"):
            log.commit(create("x"))
    assert clock.now - begun < A_MOMENT_S
    assert nothing_in_doubt(log)


def test_after_a_lost_reply_the_slot_tells_too(log, store):
    store.inject(Fault.LOST, "create", "_log/*")
    overtake(store, 2)
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        log.commit(create("x"))
    assert nothing_in_doubt(log)


def test_what_was_done_before_is_found(log, store):
    """Its reply was lost, and a newer version has gone on meanwhile."""
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    overtake(store, 3, after=1)
    assert log.commit(create("x")).seq == 2
    with pytest.raises(UnsupportedVersionError):
        log.commit(create("y"))
    assert nothing_in_doubt(log)


def test_a_call_in_doubt_that_is_repeated_learns_that_it_is_not_in(log, store):
    store.inject(Fault.LOST, "create", "_log/*", times=None)
    with pytest.raises(CommitOutcomeUnknownError, match="Repeat the same call") as unknown:
        log.commit(create("x"))
    store.heal()
    plant(store.inner, 2)
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        log.commit(create("x"), request_id=unknown.value.request_id)
    assert nothing_in_doubt(log)


def test_what_may_have_been_retired_stays_in_doubt(log, store, clock):
    """It was away, and only a newer version's snapshot tells what became of the slot."""
    store.inject(Fault.LOST, "create", "_log/*", times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(create("x"))
    store.heal()
    clock.now += 100_000
    plant(store.inner, 2)
    with pytest.raises(CommitOutcomeUnknownError, match=r"[Uu]pgrade"):
        log.commit(create("x"), request_id=unknown.value.request_id)


def test_which_requests_the_next_entry_may_hold():
    """It is another process's, and cannot be read."""
    requests = InDoubtRequests()
    at = {seq: replace(EMPTY, seq=seq) for seq in range(4)}
    sent, submitted, withdrawn, lost = (Request(name.encode(), 0, ()) for name in ("s", "u", "w", "l"))
    requests.record_attempt([lost], 1)
    requests.record_skip()
    requests.record_attempt([sent], 2)
    requests.record_submission([submitted, withdrawn], 1)
    requests.record_withdrawal([withdrawn.request_id])

    def may_come_after(seq):
        of = {"sent": sent, "submitted": submitted, "withdrawn": withdrawn, "lost": lost}
        return {name for name, one in of.items() if requests.may_come_after(at[seq], one.request_id)}

    assert may_come_after(1) == {"submitted", "withdrawn", "lost"}
    requests.record_read(at[1])  # The withdrawn one may be in entry 2, and in none after it.
    assert may_come_after(1) == {"submitted", "withdrawn", "lost"}
    assert may_come_after(2) == {"submitted", "lost"}
    assert not requests.may_come_after(at[1], b"of another process")


def test_what_is_free_again_is_no_newer_version(log, store):
    plant(store.inner, 2)
    with pytest.raises(UnsupportedVersionError):
        log.follow()
    assert log._tail.ends_at_newer
    store.inner.delete(paths.entry(2, 100_000))
    log.follow()
    assert not log._tail.ends_at_newer


# -- Clients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_seen_before", [False, True], ids=["in its slot", "before"])
def test_every_client_says_so_at_once(log, store, clock, is_seen_before):
    transactional = Producer(log, {"transactional.id": "clerk"})
    transactional.init_transactions()
    transactional.begin_transaction()
    transactional.send("t", b"a")
    transactional.flush()
    transactional.send("t", b"b")
    plain = Producer(log)
    plain.send("t", b"c").result()
    member = Consumer(log, {"group.id": "g", "auto.offset.reset": "earliest"})
    member.subscribe(["t"])
    assert member.poll(timeout_ms=0)
    seq = log.follow().seq + 1
    store.inject(Fault.LOST, "create", "_log/*")
    if is_seen_before:
        plant(store.inner, seq)
    else:
        overtake(store, seq)
    begun = clock.now
    calls = [
        transactional.commit_transaction,
        transactional.abort_transaction,
        lambda: plain.send("t", b"d").result(),
        member.commit,
        lambda: Admin(log).create_topic("another"),
        lambda: Admin(log).delete_topic("t"),
    ]
    for call in calls:
        with pytest.raises(UnsupportedVersionError, match="upgrade"):
            call()
    assert clock.now - begun < A_MOMENT_S
    assert nothing_in_doubt(log)
    assert log.in_doubt == 0


# -- In a group -----------------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path):
    return lambda name: Process(tmp_path / "log", name)


def leads_on(leader, data):
    """The leader is a newer process: it writes the next entry, and announces it."""
    seq = leader.log.state.seq + 1
    plant(leader.store.inner, seq)
    leader.group._channel.publish(seq, data(seq))


@pytest.mark.parametrize("data", [lambda _: b"", newer_schema], ids=["by name", "with its bytes"])
def test_a_follower_of_a_newer_leader_waits_for_nothing_more(leader, other, data):
    """What it had submitted may be in the entry that it cannot read; what comes after is not."""
    other.waits = [lambda: leads_on(leader, data)]
    with pytest.raises(CommitOutcomeUnknownError, match=r"Upgrade .* then repeat") as unknown:
        other.log.commit(create("y"))
    assert isinstance(unknown.value.__cause__, UnsupportedVersionError)
    with pytest.raises(CommitOutcomeUnknownError, match="Upgrade"):  # Until then nothing tells more.
        other.log.commit(create("y"), request_id=unknown.value.request_id)
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        other.log.commit(create("z"))
    assert other.log._parts.in_doubt.ids == {unknown.value.request_id}


def test_a_damaged_announcement_of_a_newer_version_is_no_reason_to_stop(leader, other):
    def announces_too_much():
        leader.log.commit(create("x"))
        leader.group._channel.publish(leader.log.state.seq, newer_schema(leader.log.state.seq))
        leader.lead()

    other.waits = [announces_too_much]
    assert other.log.commit(create("y")).seq == 1


def test_what_was_withdrawn_may_be_in_its_slot_alone(leader, other):
    """The leader left it out; then this process lost the next slot to a newer one that had read it before."""

    def leaves_it_out():
        submissions, leader.group._channel.submissions = leader.group._channel.submissions, lambda: iter(())
        leader.log.commit(create("x"))
        leader.group._channel.submissions = submissions
        leader.group.release_lead()

    other.waits = [leaves_it_out]
    overtake(other.store, 2)
    with pytest.raises(CommitOutcomeUnknownError, match="Upgrade"):
        other.log.commit(create("y"))


def test_a_producer_does_not_repeat_what_only_a_newer_version_can_tell(leader, other):
    leader.log.commit(create("t"))
    leader.lead()
    producer = Producer(other.log)
    other.log.follow()
    other.join()
    begun = other.clock.now
    other.waits = [lambda: leads_on(leader, newer_schema)]
    with pytest.raises(CommitOutcomeUnknownError, match="Upgrade"):
        producer.send("t", b"a").result()
    assert other.clock.now - begun < A_MOMENT_S
