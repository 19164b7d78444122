"""How long a transaction has been open is known by the store's own clock, however short those stay who look."""

from __future__ import annotations

import logging

import pytest

from spark_eos.errors import ObjectNotFoundError, StoreUnavailableError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    CommitOffsets,
    CreateTopic,
    EndTransaction,
    ExpireTransaction,
    InitProducer,
    PartitionOffset,
)
from spark_eos.protocol.state import TransactionState
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage.memory import MemoryStore
from tests.log.fakes import FakeClock
from verification.remote_store import RemoteStore
from verification.retiring import RETIRED_AT_ONCE

STAMP = ProducerStamp(0, 0, 0)
TIMEOUT_S = 60


class Aging(MemoryStore):
    """A store with a clock that the test moves."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.asked = []
        self.made = {}

    def create(self, name, data):
        super().create(name, data)
        self.made[name] = self.now

    def age_s(self, name):
        self.asked.append(name)
        return self.now - self.made[name] if self.size(name) else None


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store():
    return Aging()


@pytest.fixture
def log(store, clock):
    """A log with a transaction open, which began in entry 3 and may take a minute; snapshots after two entries each."""
    log = Log.create(store, clock, snapshot_interval=2, config=RETIRED_AT_ONCE)
    topic = log.ensure_topic("t")
    log.commit(lambda _: (InitProducer(0, 0, "tx", TIMEOUT_S * 1000),))
    log.maintenance.snapshot()
    offset = PartitionOffset("t", topic.topic_id, 0, 1)
    log.commit(lambda _: (CommitOffsets("g", (offset,), STAMP),))
    return log


def visit(store, **how):
    """What a process ends that has just started."""
    return Log.open(store, FakeClock()).expire_overdue(**how)


def fill(log, count=7):
    """Entries that make snapshots, of others."""
    for number in range(count):
        log.commit(
            lambda _, number=number: (CreateTopic(f"of-{log.state.seq}-{number}", f"{log.state.seq}", 1),)
        )
        log.maintenance.snapshot()


@pytest.mark.usefixtures("log")
def test_who_has_just_come_ends_what_is_past_its_time_by_the_stores_clock(store):
    store.now += TIMEOUT_S - 0.001
    for _ in range(12):
        assert visit(store) == ()
        assert visit(store, everything=True) == ()
    store.now += 0.001
    assert visit(store) == (ExpireTransaction(STAMP, TIMEOUT_S * 1000),)
    assert Log.open(store).state.producers[0].transaction is TransactionState.COMPLETE_ABORT
    assert visit(store) == ()


def test_the_store_is_asked_once_and_then_the_own_clock_goes_on(log, store, clock):
    store.now += 40
    assert log.expire_overdue() == ()
    store.now += 10_000  # That clock was set, or the entry put back: who watches knows better.
    clock.now += 19
    assert log.expire_overdue() == ()
    clock.now += 1
    assert log.expire_overdue() == (ExpireTransaction(STAMP, TIMEOUT_S * 1000),)
    assert store.asked == [paths.entry(3)]


def test_every_transaction_has_an_age_of_its_own(log, store):
    store.now += TIMEOUT_S - 1
    log.expire_overdue()
    log.commit(lambda _: (EndTransaction(STAMP, commit=True),))
    log.commit(lambda _: (CommitOffsets("g", (), STAMP._replace(number=1)),))
    store.now += TIMEOUT_S - 1
    assert visit(store) == ()
    assert log.state.producers[0].started_seq == 5
    store.now += 1
    assert visit(store) == (ExpireTransaction(STAMP._replace(number=1), TIMEOUT_S * 1000),)


def test_the_entry_in_which_an_open_transaction_began_is_not_retired(log, store):
    """Snapshots go on, and who opens the log from one knows which entry to ask for."""
    fill(log)
    log.maintenance.snapshot()
    assert log.maintenance.retire(log.state, 100) == 2
    assert [store.size(paths.entry(seq)) > 0 for seq in range(5)] == [True, False, False, True, True]
    newcomer = Log.open(store)
    assert newcomer.state.producers[0].started_seq == 3
    store.now += TIMEOUT_S
    assert len(visit(store)) == 1
    fill(log)
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 100)
    assert store.size(paths.entry(3)) == 0


def test_who_retires_knows_nothing_of_what_began_since(log, store):
    """A snapshot of others, after the state that is given: nothing after that state is retired."""
    log.commit(lambda _: (EndTransaction(STAMP, commit=True),))
    log.maintenance.snapshot()
    old = log.state
    log.commit(lambda _: (CommitOffsets("g", (), STAMP._replace(number=1)),))
    began = log.state.seq
    fill(log)
    log.maintenance.snapshot()
    log.maintenance.retire(old, 100)
    assert store.size(paths.entry(old.seq)) == 0
    assert store.size(paths.entry(began)) > 0


def test_a_retired_or_deleted_entry_tells_nothing(log, store, clock):
    """Earlier versions retire it: an empty file may be that of another entry, so who watches decides."""
    fill(log)
    log.maintenance.snapshot()
    store.now += 10 * TIMEOUT_S
    store.retire(paths.entry(3))
    assert visit(store) == ()
    store.delete(paths.entry(3))
    assert visit(store, everything=True) == ()
    clock.now += TIMEOUT_S
    assert log.expire_overdue() == ()
    clock.now += TIMEOUT_S
    assert len(log.expire_overdue()) == 1


def test_what_the_answer_takes_does_not_count_twice(log, store, clock):
    """It may have been under way for long: the age is that of when the store looked."""
    store.now += 40
    age_s = store.age_s

    def slow(name):
        found = age_s(name)
        clock.now += 30  # And the store's clock as well, after it has looked.
        return found

    store.age_s = slow
    assert log.expire_overdue() == ()
    clock.now += 19
    assert log.expire_overdue() == ()
    clock.now += 1
    assert len(log.expire_overdue()) == 1


def test_a_store_without_a_clock_is_watched_as_ever(log, store, clock):
    store.age_s = lambda _name: None
    assert log.expire_overdue() == ()
    clock.now += TIMEOUT_S
    assert len(log.expire_overdue()) == 1


def test_an_answer_that_does_not_come_is_asked_for_again(log, store, clock, caplog):
    store.now += TIMEOUT_S
    age_s = store.age_s

    def away(_name):
        raise StoreUnavailableError("away")

    store.age_s = away
    with caplog.at_level(logging.WARNING):
        assert log.expire_overdue() == ()
    assert "will be tried again: away" in caplog.text
    with pytest.raises(StoreUnavailableError):
        log.expire_overdue(everything=True)
    store.age_s = age_s
    clock.now += 10
    assert len(log.expire_overdue()) == 1


# -- Where the question costs requests --------------------------------------------------------------------


@pytest.fixture
def far(store):
    return RemoteStore(store)


def asks(far, clock, **how):
    """Whether who has just come asks the store, with this wall clock."""
    log = Log.open(far, clock)
    far.inner.asked.clear()
    log.expire_overdue(**how)
    return bool(far.inner.asked)


@pytest.mark.parametrize(
    ("passed_s", "asked"),
    [(0, False), (59, False), (60, True), (86_400, True), (-59, False), (-61, True), (-900, True)],
)
@pytest.mark.usefixtures("log")
def test_far_away_the_wall_clock_decides_when_to_ask_and_nothing_else(far, clock, passed_s, asked):
    clock.now += passed_s
    assert asks(far, clock) is asked
    assert asks(far, clock, everything=True)
    assert Log.open(far).state.producers[0].transaction is TransactionState.ONGOING


@pytest.mark.usefixtures("log")
def test_who_waits_far_away_asks_when_it_may_be_time(far, store, clock):
    store.now, clock.now = 59.0, clock.now + 59
    late = Log.open(far, clock)
    far.clear()
    assert late.expire_overdue() == ()
    assert far.requests == []
    store.now, clock.now = 60.0, clock.now + 1
    assert late.expire_overdue() == (ExpireTransaction(STAMP, TIMEOUT_S * 1000),)


def test_without_an_open_transaction_nothing_is_asked(log, far, clock):
    log.commit(lambda _: (EndTransaction(STAMP, commit=True),))
    other = Log.open(far, clock)
    clock.now += 100
    far.clear()
    assert other.end_overdue() is other.state
    assert other.overdue() == []
    assert far.requests == []


def test_a_name_that_is_not_there(store):
    with pytest.raises(ObjectNotFoundError):
        MemoryStore().age_s("nothing")
    store.create("empty", b"")
    assert store.age_s("empty") is None
