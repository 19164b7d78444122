"""The schedules in which other systems lost, doubled or tore something, made to happen here."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    EosLogError,
    IllegalStateError,
    InvalidTxnStateError,
    NoOffsetForPartitionError,
    ProducerFencedError,
    StagedFileExpiredError,
    StoreUnavailableError,
    UnstableOffsetCommitError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import RaiseStagingFloor
from spark_eos.testing import Fault
from tests.conformance.helpers import (
    ENTRIES,
    append,
    end,
    faulty_log,
    numbered,
    run,
    transactional,
    values,
)
from tests.starting import command
from tests.tiers import examples
from verification.processes import running

conformance = pytest.mark.conformance
T0, OUT0 = TopicPartition("t", 0), TopicPartition("out", 0)
UNKNOWN = [Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED]


@pytest.fixture
def faulty():
    log, store = faulty_log()
    for topic in ("t", "out"):
        log.ensure_topic(topic)
    return log, store


@pytest.fixture
def log(faulty):
    return faulty[0]


def stamp_of(log, transactional_id="app"):
    return log.follow().producer_of(transactional_id).stamp


def lso(log, topic="t"):
    return Admin(log).describe_topic(topic).partitions[0].lso


# -- Kafka ----------------------------------------------------------------------------------------------


@conformance("KAFKA-17754", "producer/number")
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_a_delayed_end_does_not_decide_the_next_transaction(log, first, late):
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "1")
    producer.flush()
    stamp = stamp_of(log)
    (producer.commit_transaction if first else producer.abort_transaction)()
    producer.begin_transaction()
    producer.send("t", "2")
    producer.flush()
    with pytest.raises(InvalidTxnStateError, match="transaction 1 is Ongoing"):
        end(log, stamp, commit=late)
    kept = [b"1"] if first else []
    assert (values(log), lso(log)) == (kept, 2)
    producer.send("t", "3")
    producer.commit_transaction()
    assert values(log) == [*kept, b"2", b"3"]


@conformance("KAFKA-17754", "commit/same-slot")
def test_an_end_that_is_slow_in_the_store_does_not_decide_the_next_transaction(faulty):
    log, store = faulty
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "1")
    producer.flush()
    store.inject(Fault.DELAYED, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.abort_transaction()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send("t", "2")
    producer.flush()
    store.release()
    assert lso(log) == 2
    producer.commit_transaction()
    assert values(log) == [b"2"]


@conformance("KAFKA-17754 (abort after an unknown commit)", "commit/three-outcomes")
@pytest.mark.parametrize("fault", UNKNOWN)
def test_after_an_unknown_commit_there_is_no_abort(faulty, fault):
    log, store = faulty
    producer = transactional(log)
    producer.begin_transaction()
    for topic in ("t", "out"):
        producer.send(topic, "x")
    producer.flush()  # open in two partitions, where an abort beside a commit would tear it
    producer.send_offsets_to_transaction({T0: 1}, "group")
    store.inject(fault, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError) as raised:
        producer.commit_transaction()
    assert raised.value.retriable
    for other in (producer.abort_transaction, producer.begin_transaction):
        with pytest.raises(IllegalStateError, match="only commit_transaction"):
            other()
    producer.close()  # nor is close one
    happened = fault is Fault.FAIL_AFTER
    assert values(log, "t", "out") == ([b"x", b"x"] if happened else [])
    successor = transactional(log)  # which settles it: whole, or not at all
    store.release()
    run(successor, "y")
    assert values(log, "t", "out") == ([b"x", b"y", b"x"] if happened else [b"y"])
    assert bool(Admin(log).list_group_offsets("group")) is happened


@conformance("KAFKA-14402", "producer/number")
def test_a_late_append_after_the_abort_is_refused(log):
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "1")
    producer.flush()
    stamp = stamp_of(log)
    producer.abort_transaction()
    for late in (stamp, stamp._replace(number=stamp.number + 2)):
        with pytest.raises(InvalidTxnStateError):
            append(log, late, b"late", sequence=1)
    assert lso(log) == 2
    run(producer, "2")
    with pytest.raises(InvalidTxnStateError):
        append(log, stamp, b"late", sequence=1)
    transactional(log)
    with pytest.raises(ProducerFencedError):
        append(log, stamp._replace(number=stamp.number + 1), b"late")
    assert lso(log) == Admin(log).describe_topic("t").partitions[0].end
    assert values(log) == [b"2"]


@conformance("KAFKA-14402", "commit/same-slot")
def test_a_flush_that_is_slow_in_the_store_leaves_no_transaction_hanging(faulty):
    log, store = faulty
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "late")
    store.inject(Fault.DELAYED, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.flush()
    producer.abort_transaction()
    assert store.release()[0] is not None
    assert Admin(log).describe_transaction("app").state == "CompleteAbort"
    assert lso(log) == Admin(log).describe_topic("t").partitions[0].end


@conformance("KAFKA-19999", "producer/same-decision")
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("fault", UNKNOWN)
def test_the_same_decision_again_succeeds(faulty, fault, commit):
    log, store = faulty
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "x")
    producer.flush()
    call = producer.commit_transaction if commit else producer.abort_transaction
    store.inject(fault, "create", ENTRIES, times=3)
    for _ in range(3):
        with pytest.raises(CommitOutcomeUnknownError):
            call()
        if fault is Fault.FAIL_AFTER:
            break  # it is in: the next call finds it
    store.heal()
    call()
    stamp = stamp_of(log)
    for _ in range(2):
        end(log, stamp, commit=commit)
    with pytest.raises(InvalidTxnStateError, match="cannot"):
        end(log, stamp, commit=not commit)
    run(producer, "y")
    assert values(log) == ([b"x", b"y"] if commit else [b"y"])


@conformance("KAFKA-17582")
def test_after_an_abort_reading_starts_at_what_was_committed(log):
    with Producer(log) as producer:
        for value in numbered(0, 30):
            producer.send("t", value)
    config = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    producer = transactional(log)

    def copy(*, commit):
        with Consumer(log, config) as reader:
            reader.assign([T0])
            found = reader.poll(max_records=10)
            producer.begin_transaction()
            for record in found:
                producer.send("out", record.value)
            producer.flush()
            producer.send_offsets_to_transaction({T0: reader.position(T0)}, "g")
            (producer.commit_transaction if commit else producer.abort_transaction)()
            return [record.value for record in found]

    assert copy(commit=False) == copy(commit=False) == copy(commit=True) == numbered(0, 10)
    assert copy(commit=False) == copy(commit=True) == numbered(10, 20)
    assert copy(commit=True) == numbered(20, 30)
    assert values(log, "out") == numbered(0, 30)


# -- Bufstream ------------------------------------------------------------------------------------------


@conformance("Bufstream (lost writes)")
def test_what_was_acknowledged_survives_the_death_of_its_writer(tmp_path):
    url = str(tmp_path / "log")
    with running(command("conformance/writes_and_says", url), tmp_path / "out") as writer:
        writer.until(lambda: writer.text.count("\n") > 20, "20 acknowledged writes")
        writer.kill()
    told = [line.split() for line in writer.lines]
    assert len(told) > 20
    with Consumer(url, {"auto.offset.reset": "earliest"}) as reader:
        reader.assign([T0])
        found = [(record.value.decode(), str(record.offset)) for record in reader.poll(max_records=1_000_000)]
    assert found[: len(told)] == [tuple(pair) for pair in told]
    assert len(found) <= len(told) + 1


@conformance("Bufstream (zero offsets)")
def test_no_offset_is_made_up_while_the_store_is_away(faulty):
    log, store = faulty
    run(transactional(log), "a", "b")
    config = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "none"}
    with Consumer(log, config) as reader:
        reader.assign([T0])
        admin = Admin(log)
        assert reader.committed([T0]) == {T0: None}
        assert reader.offsets_for_times({T0: 9_000_000_000_000}) == {T0: None}
        for call in (lambda: reader.position(T0), reader.poll):
            with pytest.raises(NoOffsetForPartitionError):
                call()
        store.requests_are_free = False  # In a folder a system call tells that there is no news.
        store.inject(Fault.FAIL_BEFORE, "read", times=None)
        for call in (
            lambda: reader.position(T0),
            lambda: reader.committed([T0]),
            lambda: reader.beginning_offsets([T0]),
            lambda: reader.end_offsets([T0]),
            lambda: reader.offsets_for_times({T0: 0}),
            reader.poll,
            lambda: admin.describe_topic("t"),
            lambda: admin.list_group_offsets("g"),
            lambda: admin.delete_records({T0: 1}),
        ):
            with pytest.raises(StoreUnavailableError):
                call()
        store.heal()


@conformance("Bufstream (zero offsets)")
@pytest.mark.parametrize("fault", UNKNOWN)
def test_a_send_in_doubt_has_no_offset(faulty, fault):
    log, store = faulty
    producer = Producer(log, {"delivery.timeout.ms": 0, "linger.ms": 0})
    producer.send("t", "a").result(60)
    store.inject(fault, "create", ENTRIES)
    future = producer.send("t", "b")
    producer.flush()
    with pytest.raises(CommitOutcomeUnknownError):
        future.result(0)
    producer.close()
    transaction = transactional(log)
    transaction.begin_transaction()
    future = transaction.send("t", "c")
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        transaction.commit_transaction()
    transaction._opened = Log.open(store)  # the reply, and with it the place, is gone for good
    transaction.commit_transaction()
    assert future.result(0).offset == -1


class Program:
    """What a user's program does: a transaction, and after an error what its state allows; nothing cleverer."""

    def __init__(self, log, call):
        self.producer = Producer(log, {"transactional.id": "app"})
        self.call = call
        self.sent = 0
        self.committed = False

    def step(self):
        state = self.producer._transactions.state
        if state is ClientState.IN_TRANSACTION:
            self.work()
        elif state is ClientState.READY:
            self.producer.begin_transaction()
            self.sent = 0
        elif state in {ClientState.UNINITIALIZED, ClientState.INITIALIZING}:
            self.producer.init_transactions()
        elif state is ClientState.COMMITTING:
            self.commit()
        else:
            self.producer.abort_transaction()

    def work(self):
        self.producer.send("t", "x")
        self.sent += 1
        if self.call in {"flush", "abort"}:
            self.producer.flush()
        if self.call == "send_offsets":
            self.producer.send_offsets_to_transaction({T0: 0}, "g")
        if self.call == "abort":
            self.call = "commit"  # the first transaction aborts
            self.producer.abort_transaction()
        else:
            self.commit()

    def commit(self):
        self.producer.commit_transaction()
        self.committed = True


@conformance("Bufstream (stuck clients)")
@pytest.mark.parametrize("call", ["init", "flush", "send_offsets", "commit", "abort"])
@pytest.mark.parametrize(
    ("where", "fault"),
    [
        *(("create", fault) for fault in (Fault.FAIL_BEFORE, *UNKNOWN)),
        *(("upload", fault) for fault in (Fault.FAIL_BEFORE, *UNKNOWN)),
        *(("read", Fault.FAIL_BEFORE), ("size", Fault.FAIL_BEFORE)),
    ],
)
@pytest.mark.parametrize("times", [1, 2, 5])
def test_after_every_failed_call_there_is_one_that_leads_on(faulty, call, where, fault, times):
    log, store = faulty
    program = Program(log, call)
    for _ in range(0 if call == "init" else 2):  # so that the transaction is the next thing to come
        program.step()
    store.inject(fault, where, times=times)
    for _ in range(40):
        try:
            program.step()
        except EosLogError as error:
            if not (error.retriable or error.txn_requires_abort):
                raise
        if program.committed:
            break
    assert program.committed
    store.heal()
    store.release()
    run(program.producer, "last")
    assert values(log) == [b"x"] * program.sent + [b"last"]


# -- Redpanda -------------------------------------------------------------------------------------------


@conformance("Redpanda #3036", "offset/lso")
def test_the_last_stable_offset_is_exclusive_on_both_sides():
    for kinds in itertools.product(["plain", "commit", "abort", "open"], repeat=3):
        log, _ = faulty_log()
        log.ensure_topic("t")
        visible, offset, stable = [], 0, None
        for n, kind in enumerate(kinds):
            if kind == "plain":
                with Producer(log) as producer:
                    producer.send("t", str(n))
            else:
                producer = transactional(log, f"{kind} {n}")
                producer.begin_transaction()
                producer.send("t", str(n))
                producer.flush()
                if kind != "open":
                    (producer.commit_transaction if kind == "commit" else producer.abort_transaction)()
            if kind == "open" and stable is None:
                stable = offset
            if kind in {"plain", "commit"} and stable is None:
                visible.append((offset, str(n).encode()))
            offset += 1 + (kind in {"commit", "abort"})
        stable = offset if stable is None else stable
        with Consumer(log, {"isolation.level": "read_committed"}) as reader:
            reader.assign([T0])
            assert reader.end_offsets([T0]) == {T0: stable}
            for start in range(stable + 1):
                reader.seek(T0, start)
                found = [(record.offset, record.value) for record in reader.poll()]
                assert found == [pair for pair in visible if pair[0] >= start], (kinds, start)
                assert reader.position(T0) == stable


@conformance("Redpanda #5026", "sequence/aborted")
@pytest.mark.parametrize("times", [1, 3])
def test_the_same_rows_after_an_abort_are_no_duplicate(log, times):
    producer = transactional(log)
    for _ in range(times):
        producer.begin_transaction()
        producer.send("t", "x")
        producer.flush()
        producer.abort_transaction()
    run(producer, "x")
    transactional_again = transactional(log)  # its sequences begin at 0 once more
    run(transactional_again, "x")
    assert values(log) == [b"x", b"x"]


@conformance("Redpanda #6018", "offset/floor")
def test_rows_that_may_be_gone_are_not_committed(faulty):
    log, store = faulty
    producer = transactional(log, buffer_memory=1000)
    producer.begin_transaction()
    producer.send("t", "x" * 2000)  # staged at once
    assert store.count("upload", "data/*") == 0  # its file ends with the transaction
    log.ensure_topic("u")
    log.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))
    with pytest.raises(StagedFileExpiredError):
        producer.commit_transaction()
    assert values(log) == []
    producer.abort_transaction()
    run(producer, "y")
    assert values(log) == [b"y"]


@conformance("Redpanda #6018")
@pytest.mark.parametrize("flushed", [False, True])
def test_rows_that_are_gone_are_not_committed(faulty, flushed):
    log, store = faulty
    producer = transactional(log)
    producer.begin_transaction()
    if flushed:
        producer.send("out", "x")
        producer.flush()
    producer.send("t", "x")

    def lose(operation, name):
        if operation == "upload":
            store.inner.delete(name)

    store.after = lose
    with pytest.raises(EosLogError) as raised:
        producer.commit_transaction()
    assert raised.value.txn_requires_abort
    store.after = lambda _operation, _name: None
    producer.abort_transaction()
    run(producer, "y")
    assert values(log, "t", "out") == [b"y"]


@conformance("Redpanda #6018")
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.LOST, Fault.DELAYED])
def test_rows_that_did_not_become_durable_are_not_committed(faulty, fault):
    log, store = faulty
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "x")
    store.inject(fault, "upload", "data/*")
    with pytest.raises(EosLogError) as raised:
        producer.commit_transaction()
    assert raised.value.txn_requires_abort
    assert store.count("create", ENTRIES) == 4  # the log, two topics, the producer: no entry lists the file
    producer.abort_transaction()
    store.release()
    run(producer, "y")
    assert values(log) == [b"y"]


@conformance("Redpanda #9571", "offset/with-transaction")
def test_offsets_are_never_behind_or_ahead_of_the_output(faulty):
    log, store = faulty
    with Producer(log) as seed:
        for value in numbered(0, 120):
            seed.send("t", value)
    seen = []

    def look(operation, name):
        """At every entry, with the eyes of a process that has just started."""
        if operation == "create" and name.startswith("_log/"):
            other = Log.open(store.inner)
            offset = Admin(other).list_group_offsets("g").get(T0)
            seen.append((len(values(other, "out")), offset.offset if offset else 0))

    store.after = look
    rng = random.Random(9571)
    producer = transactional(log)
    at = 0
    while at < 120:
        count = min(rng.randint(1, 15), 120 - at)
        producer.begin_transaction()
        for value in numbered(at, at + count):
            producer.send("out", value)
            if not rng.randrange(8):
                producer.flush()
        producer.send_offsets_to_transaction({T0: at + count}, "g")
        if rng.randrange(3):
            producer.commit_transaction()
            at += count
        else:
            producer.abort_transaction()
    assert all(output == offset for output, offset in seen)
    assert len(set(seen)) > 10
    assert values(log, "out") == numbered(0, 120)


@conformance("Redpanda #9571", "offset/pending")
@pytest.mark.parametrize("commit", [True, False])
def test_a_stable_offset_is_waited_for(faulty, commit):
    log, _ = faulty
    producer = transactional(log)
    run(producer, "a", "b")
    Admin(log).alter_group_offsets("g", {T0: 1})
    producer.begin_transaction()
    producer.send_offsets_to_transaction({T0: 2}, "g")
    producer.send("out", "a")
    producer.flush()
    config = {"group.id": "g", "enable.auto.commit": False, "isolation.level": "read_committed"}
    with Consumer(log, {**config, "default.api.timeout.ms": 0}) as reader:
        reader.assign([T0])
        with pytest.raises(UnstableOffsetCommitError):
            reader.committed([T0])
        assert reader.poll() == []
        (producer.commit_transaction if commit else producer.abort_transaction)()
        assert reader.committed([T0])[T0].offset == (2 if commit else 1)
        assert [record.value for record in reader.poll()] == ([] if commit else [b"b"])


OPERATIONS = st.tuples(
    st.integers(0, 2), st.sampled_from(["flush", "flush", "flush", "commit", "abort", "die", "look"])
)


@conformance("Redpanda #10671", "Redpanda #7544", "offset/lso")
@examples(60)
@given(st.lists(OPERATIONS, max_size=30))
def test_the_last_stable_offset_never_goes_back_and_hides_what_is_not_decided(operations):
    log, _ = faulty_log()
    log.ensure_topic("t")
    producers = {n: transactional(log, f"p{n}") for n in range(3)}
    config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    readers = [Consumer(log, config), Consumer(Log.open(log.store), config)]
    stable, found = [0, 0], [[], []]
    pending = {n: [] for n in range(3)}
    committed = set()
    for reader in readers:
        reader.assign([T0])

    def look(which):
        now = readers[which].end_offsets([T0])[T0]
        assert now >= stable[which], "it went back"
        stable[which] = now
        records = readers[which].poll()
        assert {record.value for record in records} <= committed
        assert all(record.offset < now for record in records)
        found[which] += records

    for number, (n, operation) in enumerate(operations):
        producer = producers[n]
        if operation == "look":
            look(1)  # the other process looks when it likes
        elif operation == "die":
            producers[n] = transactional(log, f"p{n}")
            pending[n] = []
        else:
            if producer._transactions.state is ClientState.READY:
                producer.begin_transaction()
            if operation == "flush":
                producer.send("t", str(number))
                producer.flush()
                pending[n].append(str(number).encode())
            elif operation == "commit":
                producer.commit_transaction()
                committed.update(pending[n])
                pending[n] = []
            else:
                producer.abort_transaction()
                pending[n] = []
        look(0)
    for n in range(3):
        producers[n] = transactional(log, f"p{n}")
    for which in (0, 1):
        look(which)
        assert [record.value for record in found[which]] == values(log)
    assert set(values(log)) == committed
