"""Prepared transactions of the clients: what a restart does, what is idempotent, and what nothing else may touch."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, PreparedTxnState, Producer, TopicPartition
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    IllegalStateError,
    InvalidRequestError,
    InvalidTxnStateError,
    ProducerFencedError,
    StoreUnavailableError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.history import transactions
from spark_eos.log.log import Log
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock

SETTINGS = {"transactional.id": "app", "transaction.two.phase.commit.enable": True}
T0 = TopicPartition("t", 0)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def log(clock):
    return Log.open_or_create(MemoryStore(), clock)


def started(log, keep=True, **settings):
    producer = Producer(log, {**SETTINGS, **settings})
    producer.init_transactions(keep_prepared_transaction=keep)
    return producer


def prepared(producer, value="a", offset=1):
    producer.begin_transaction()
    sent = producer.send("t", value)
    if offset is not None:
        producer.send_offsets_to_transaction({T0: offset}, "g")
    token = producer.prepare_transaction()
    assert sent.done()
    return token


def values(log, isolation="read_committed"):
    consumer = Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": isolation})
    consumer.assign([T0])
    return [record.value.decode() for record in consumer.poll()]


def committed(log):
    at = log.follow().offset_of("g", "t", 0)
    return None if at is None else at.offset


# -- One producer -----------------------------------------------------------------------------------


def test_a_token_is_text_and_back(log):
    token = prepared(started(log))
    assert str(token) == "0:1"
    assert PreparedTxnState.parse("0:1") == token == (0, 1)
    assert not PreparedTxnState.parse("").has_transaction
    assert str(PreparedTxnState.parse(None)) == ""
    for bad in ("x", "1", "1:", "-1:-1", "1:2:3", " 1:2", "1:2\n", "9999999999999999999:1", "\u0661:1"):
        with pytest.raises(ConfigError, match="producer id:epoch"):
            PreparedTxnState.parse(bad)


@pytest.mark.parametrize("end", ["token", "text", "commit"])
def test_it_is_seen_once_it_is_complete(log, end):
    producer = started(log)
    token = prepared(producer)
    assert (values(log), values(log, "read_uncommitted"), committed(log)) == ([], ["a"], None)
    if end == "commit":
        producer.commit_transaction()
    else:
        producer.complete_transaction(token if end == "token" else str(token))
    assert (values(log), committed(log)) == (["a"], 1)
    producer.complete_transaction(token)  # Again: the same.
    assert (values(log), committed(log)) == (["a"], 1)


@pytest.mark.parametrize("end", ["none", "older", "abort"])
def test_another_token_aborts(log, end):
    producer = started(log)
    older = prepared(producer, "a")
    producer.complete_transaction(older)
    prepared(producer, "b", 2)
    if end == "abort":
        producer.abort_transaction()
    else:
        producer.complete_transaction(None if end == "none" else older)
    assert (values(log), committed(log)) == (["a"], 1)
    producer.complete_transaction(older)


def test_tokens_of_one_producer_differ(log):
    producer, tokens = started(log), []
    for number in range(3):
        tokens.append(prepared(producer, str(number)))
        producer.complete_transaction(tokens[-1])
    assert len(set(tokens)) == 3
    assert tokens == sorted(tokens)
    assert values(log) == ["0", "1", "2"]


def test_only_its_end_is_possible(log):
    producer = started(log)
    prepared(producer)
    for call in (
        producer.begin_transaction,
        producer.prepare_transaction,
        lambda: producer.send("t", "x"),
        lambda: producer.send_offsets_to_transaction({T0: 5}, "g"),
        producer.init_transactions,
    ):
        with pytest.raises(IllegalStateError, match="PREPARED; only complete_transaction"):
            call()
    with pytest.raises(Exception, match=r"serial|bytes|str"):
        producer.send("t", object())
    producer.flush()
    producer.commit_transaction()
    assert values(log) == ["a"]


def test_it_has_to_be_enabled(log):
    producer = Producer(log, {"transactional.id": "app"})
    with pytest.raises(IllegalStateError, match=r"transaction\.two\.phase\.commit\.enable"):
        producer.init_transactions(keep_prepared_transaction=True)
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match=r"transaction\.two\.phase\.commit\.enable"):
        producer.prepare_transaction()
    producer.abort_transaction()


def test_a_transaction_that_was_not_prepared_is_not_completed(log):
    producer = started(log)
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="IN_TRANSACTION"):
        producer.complete_transaction("")


def test_an_empty_transaction_has_a_token(log):
    producer = started(log)
    producer.begin_transaction()
    token = producer.prepare_transaction()
    heir = started(log)
    heir.complete_transaction(token)
    heir.complete_transaction(token)
    assert log.follow().producers[0].prepared.committed is True
    assert Admin(log).describe_transaction("app").prepared == ""


def test_flushed_rows_are_in_it(log):
    producer = started(log)
    producer.begin_transaction()
    producer.send("t", "a")
    producer.flush()
    producer.send("t", "b")
    token = producer.prepare_transaction()
    producer.complete_transaction(token)
    assert values(log) == ["a", "b"]


# -- Restarts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_a_successor_completes_it(log, commits):
    first = started(log)
    token = prepared(first)
    heir = started(log)
    with pytest.raises(ProducerFencedError):
        first.complete_transaction(token)
    third = started(log)
    third.complete_transaction(token if commits else "")
    assert (values(log), committed(log)) == ((["a"], 1) if commits else ([], None))
    with pytest.raises(ProducerFencedError):
        heir.complete_transaction(token)
    prepared(third, "b", 2)
    third.commit_transaction()
    assert values(log) == [*(["a"] if commits else []), "b"]


def test_a_crash_after_the_end_changes_nothing(log):
    producer = started(log)
    token = prepared(producer)
    producer.complete_transaction(token)
    for _ in range(2):
        heir = started(log)
        heir.complete_transaction(token)
    assert values(log) == ["a"]


def test_close_leaves_it(log):
    producer = started(log)
    token = prepared(producer)
    producer.close()
    started(log).complete_transaction(token)
    assert values(log) == ["a"]


def test_a_successor_that_does_not_keep_it_aborts_it_and_says_so_later(log):
    token = prepared(started(log))
    producer = started(log, keep=False)
    with pytest.raises(InvalidTxnStateError, match=r"0:1 of transactional\.id 'app' was aborted"):
        producer.complete_transaction(token)
    prepared(producer, "b")
    producer.commit_transaction()
    assert values(log) == ["b"]


def test_a_token_of_the_future_is_refused(log):
    producer = started(log)
    prepared(producer)
    for token in ("0:9", "7:0"):
        with pytest.raises(InvalidTxnStateError, match="restored from a backup"):
            producer.complete_transaction(token)
    producer.commit_transaction()
    with pytest.raises(InvalidTxnStateError, match="restored from a backup"):
        producer.complete_transaction("0:9")
    assert values(log) == ["a"]


@pytest.mark.parametrize("offered", ["older", "none"])
def test_an_older_token_than_that_of_the_newest_commit_is_refused(log, offered):
    """The other system was put back: it has lost what the log has committed with it."""
    producer = started(log)
    tokens = []
    for value in ("a", "b"):
        tokens.append(prepared(producer, value))
        producer.complete_transaction(tokens[-1])
    heir = started(log)
    wanted = tokens[0] if offered == "older" else None
    before = log.follow().seq
    with pytest.raises(
        InvalidTxnStateError, match=rf"has committed the newer transaction {tokens[1]}.*put back"
    ):
        heir.complete_transaction(wanted)
    assert log.follow().seq == before, "nothing was changed"
    heir.complete_transaction(tokens[1])
    heir.complete_transaction(prepared(heir, "c"))
    assert values(log) == ["a", "b", "c"]


def test_an_unprepared_transaction_of_a_predecessor_is_aborted(log):
    first = started(log)
    first.begin_transaction()
    first.send("t", "lost")
    first.flush()
    heir = started(log)
    heir.complete_transaction("")
    prepared(heir, "b")
    heir.commit_transaction()
    assert values(log) == ["b"]


# -- Lost replies -----------------------------------------------------------------------------------


def doubtful(**settings):
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store, FakeClock(), Retry(deadline_s=0))
    return store, log, started(log, **settings)


FAULTS = [Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST, Fault.DUPLICATE]


def once(call, *args):
    """Whether the call was answered."""
    try:
        call(*args)
    except (CommitOutcomeUnknownError, StoreUnavailableError):
        return False
    return True


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_reply_of_a_prepare(fault):
    store, log, producer = doubtful()
    producer.begin_transaction()
    producer.send("t", "a")
    store.inject(fault, "create", "_log/*")
    if not once(producer.prepare_transaction):
        assert producer.prepare_transaction() == (0, 1)
    token = PreparedTxnState(0, 1)
    producer.complete_transaction(token)
    assert values(log) == ["a"]


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_reply_of_its_end(fault, commits):
    store, log, producer = doubtful()
    token = prepared(producer)
    said = token if commits else ""
    store.inject(fault, "create", "_log/*")
    if not once(producer.complete_transaction, said):
        if producer._transactions.state in {ClientState.COMMITTING, ClientState.ABORTING}:
            with pytest.raises(IllegalStateError, match="outcome of the last one is not known"):
                producer.complete_transaction("" if commits else token)
        producer.complete_transaction(said)
    assert values(log) == (["a"] if commits else [])


# -- What else looks at it --------------------------------------------------------------------------


def test_it_has_no_timeout(log, clock):
    producer = started(log, **{"transaction.timeout.ms": 1000})
    token = prepared(producer)
    for _ in range(3):
        clock.now += 10**6
        log.follow()
        assert not log.expire_overdue(everything=True)
        assert not log._parts.expiration_task.overdue(log.state, everything=True)
    assert Admin(log).find_hanging_transactions(max_transaction_timeout_ms=0) == []
    producer.complete_transaction(token)
    assert values(log) == ["a"]


def test_before_it_is_prepared_the_timeout_counts(log, clock):
    producer = started(log, **{"transaction.timeout.ms": 1000})
    producer.begin_transaction()
    producer.send("t", "late")
    producer.flush()
    clock.now += 2
    with pytest.raises(ProducerFencedError, match=r"transaction\.timeout\.ms"):
        producer.prepare_transaction()


def test_an_id_does_not_expire_while_it_is_prepared(log, clock):
    admin = Admin(log)
    token = prepared(started(log))
    admin.alter_log({"transactional.id.expiration.ms": 1000, "producer.id.expiration.ms": 1000})
    admin.alter_log({"offsets.retention.minutes": 1})
    clock.now += 100_000
    admin.expire(trust_clock=True)
    heir = started(log)
    heir.complete_transaction(token)
    assert (values(log), committed(log)) == (["a"], 1)
    clock.now += 100_000
    admin.expire(trust_clock=True)
    assert "app" not in log.follow().transactional_ids
    started(log).complete_transaction(token)  # A new producer id: the old token says nothing any more.


def test_what_the_admin_sees_and_ends(log):
    admin = Admin(log)
    producer = started(log)
    token = prepared(producer)
    (found,) = admin.list_transactions(["Prepared"])
    assert (found.state, found.transactional_id, found.pending_offsets["g"][T0].offset) == (
        "Prepared",
        "app",
        1,
    )
    for end in (
        lambda: admin.abort_transaction("app"),
        lambda: admin.abort_transaction_at(T0, 0),
        lambda: admin.abort_transaction_at(T0, producer_id=0, producer_epoch=1),
    ):
        with pytest.raises(InvalidRequestError, match=r"is prepared.*force-terminate"):
            end()
    after = admin.force_terminate_transaction("app")
    assert (after.state, after.epoch) == ("CompleteAbort", 2)
    with pytest.raises(ProducerFencedError):
        producer.complete_transaction(token)
    with pytest.raises(InvalidTxnStateError, match="was aborted"):
        started(log).complete_transaction(token)


def test_maintenance_and_retention_leave_its_files(log, clock):
    admin = Admin(log)
    admin.create_topic("t", 1, {"retention.ms": 1000})
    producer = started(log)
    token = prepared(producer, "a", None)
    admin.alter_topic("t", config={"cleanup.policy": "compact,delete"})
    others = Producer(log)
    for number in range(20):
        others.send("t", str(number), key="k")
        others.flush()
    clock.now += 10**7
    for _ in range(2):
        assert not [done.error for done in Maintainer(log).run() if done.error is not None]
        clock.now += 10**6
    assert log.follow().partitions[log.topic("t").topic_id, 0].last_stable_offset == 0
    started(log).complete_transaction(token)
    assert "a" in values(log)


def test_history_shows_its_end_once(log):
    producer = started(log)
    for number, commits in enumerate([True, False]):
        token = prepared(producer, str(number))
        assert [one.commit for one in transactions(log)] == [True, False][:number]
        started(log).complete_transaction(token if commits else "")
        producer = started(log)
    assert [(one.commit, one.records) for one in transactions(log)] == [(True, {"t": 1}), (False, {"t": 1})]


def test_a_prepare_is_recognised_by_its_epoch_if_all_else_is_forgotten():
    store, log, producer = doubtful()
    producer.begin_transaction()
    producer.send("t", "a")
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError):
        producer.prepare_transaction()
    producer._opened = Log.open(store)
    producer.complete_transaction(producer.prepare_transaction())
    assert values(log) == ["a"]


def test_an_error_never_makes_it_abortable(log, monkeypatch):
    producer = started(log)
    token = prepared(producer)

    def refuse(*_args, **_more):
        raise InvalidRequestError("it makes no sense")

    with monkeypatch.context() as patch:
        patch.setattr(type(log), "commit", refuse)
        with pytest.raises(InvalidRequestError):
            producer.complete_transaction(token)
    with pytest.raises(IllegalStateError):
        producer.abort_transaction()
    producer.complete_transaction(token)
    assert values(log) == ["a"]


def test_a_copy_has_it_and_completes_it():
    store, target = MemoryStore(), MemoryStore()
    log = Log.create(store)
    token = prepared(started(log))
    copy_log(store, target, print)
    is_completed_there(Log.open(target), token)
    assert log.follow().producer_of("app").prepared.committed is None


def is_completed_there(log, token):
    started(log).complete_transaction(token)
    assert (values(log), committed(log)) == (["a"], 1)
