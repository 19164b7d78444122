"""Aborts whose reply is lost: the page says that the outcome is not known, looks, and may be asked again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.errors import CommitOutcomeUnknownError, InvalidRequestError, ProducerFencedError
from spark_eos.extensions.ui.areas.aborts import abort, abort_outcome
from spark_eos.extensions.ui.areas.transactions import open_transactions
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.protocol.actions import CommitOffsets, EndTransaction, PartitionOffset
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock
from tests.log.test_group_commit import Process

ENTRIES = "_log/*"


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("orders", 2)
    return made


@pytest.fixture
def store(log):
    """What the page writes through."""
    return FaultyStore(log.store)


@pytest.fixture
def follower(store):
    return Follower(store, clock=FakeClock())


@pytest.fixture
def producer(log):
    made = Producer(log, {"transactional.id": "stuck"})
    made.init_transactions()
    begin(made)
    yield made
    with pytest.raises(ProducerFencedError):
        made.commit_transaction()
    made.close()


def begin(producer):
    producer.begin_transaction()
    producer.send("orders", b"open", partition=1)
    producer.flush()


def shown(follower):
    """What the page sends back of the transaction that it shows."""
    follower.poll()
    (one,) = open_transactions(follower, Question({}))["rows"]
    return Question({name: one[name] for name in ("id", "producer", "epoch", "number")})


@pytest.mark.usefixtures("producer")
@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED])
def test_a_lost_reply_of_the_store_is_not_known_until_someone_looks(log, store, follower, fault):
    asked = shown(follower)
    store.inject(fault, "create", ENTRIES)
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES, times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        abort(follower, asked)
    assert str(unknown.value).startswith(
        "it is not known whether the abort of transaction 0 of 'stuck' was written: the store did not answer ("
    )
    assert "Look what became of it" in str(unknown.value)
    store.heal()
    landed = fault is Fault.FAIL_AFTER
    found = abort_outcome(follower, asked)
    assert found["outcome"] == ("aborted" if landed else "open")
    if not landed:
        assert "no abort was written so far" in found["text"]
    if fault is Fault.DELAYED:
        store.release()
        assert abort_outcome(follower, asked)["outcome"] == "aborted"
        landed = True
    again = abort(follower, asked)
    assert (again["outcome"], again["already"]) == ("aborted", landed)
    assert again["text"].startswith(
        "transaction 0 of 'stuck' is aborted, and its producer is fenced: the epoch is 1 now"
    )
    seq = log.follow().seq
    assert abort(follower, asked)["already"]
    assert log.follow().seq == seq
    assert log.state.producer_of("stuck").epoch == 1


def test_an_aborted_transaction_is_known_when_its_producer_has_gone_on(log, follower, producer):
    asked = shown(follower)
    producer.abort_transaction()
    begin(producer)
    again = abort(follower, asked)
    assert (again["already"], again["text"].partition(". ")[0]) == (
        True,
        "transaction 0 of 'stuck' is aborted",
    )
    assert log.follow().open_transactions
    abort(follower, shown(follower))


def test_what_was_committed_or_never_there_is_refused(log, follower, producer):
    asked = shown(follower)
    producer.commit_transaction()
    with pytest.raises(
        InvalidRequestError, match=r"not open any more: it was committed; nothing was changed"
    ):
        abort(follower, asked)
    assert abort_outcome(follower, asked)["outcome"] == "committed"
    begin(producer)
    with pytest.raises(InvalidRequestError, match="a later one of its producer began"):
        abort(follower, asked)
    assert abort_outcome(follower, asked)["outcome"] == "unknown"
    other = Question({"id": "other", "producer": 99, "epoch": 0, "number": 0})
    assert abort_outcome(follower, other)["outcome"] == "unknown"
    assert log.follow().open_transactions
    abort(follower, shown(follower))


def test_the_transaction_after_the_one_that_was_shown_is_not_aborted(tmp_path):
    """Another process may add the request to an entry of its own, behind what it writes in it."""
    leader, other = (Process(tmp_path / "log", name) for name in (b"a", b"b"))
    Admin(leader.log).create_topic("orders", 2)
    first = Producer(leader.log, {"transactional.id": "busy"})
    first.init_transactions()
    begin(first)
    asked = shown(Follower(leader.store.inner, clock=FakeClock()))
    other.join().log.follow()
    leader.lead()
    stamp = ProducerStamp(*(asked.number(name) for name in ("producer", "epoch", "number")))
    place = PartitionOffset("orders", leader.log.topic("orders").topic_id, 0, 0)
    next_one = (
        EndTransaction(stamp, commit=True),
        CommitOffsets("g", (place,), stamp._replace(number=stamp.number + 1)),
    )
    other.waits = [leader.does(lambda _: next_one)]
    follower = SimpleNamespace(writer=lambda _: other.log, asked=lambda: None)
    assert abort(follower, asked)["outcome"] == "aborted"
    assert other.waits, "it came first, in an entry of its own"
    with pytest.raises(ProducerFencedError):
        first.commit_transaction()
    first.close()
