"""One transaction of many writers: only what the commit is given becomes visible, all at once, once."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from spark_eos import (
    Admin,
    Consumer,
    DistributedTransaction,
    Producer,
    StagedReceipt,
    StagedWriter,
    TopicPartition,
    TransactionToken,
)
from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    ConfigError,
    IllegalStateError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTxnStateError,
    NotALogError,
    ProducerFencedError,
    RecordTooLargeError,
    SchemaMismatchError,
    StagedFileExpiredError,
    StoreUnavailableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.data.records import read
from spark_eos.log.log import Log
from spark_eos.log.time_travel import earliest
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol.actions import RaiseStagingFloor
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.types import Membership
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore, check_log
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.create(store, retry=Retry(deadline_s=0))
    Admin(log).create_topic("t", 2, {"file.delete.delay.ms": 0})
    return log


def another(log):
    """The log, as another process sees it."""
    return Log.open(log.store, retry=Retry(deadline_s=0))


def begin(log, **options):
    return DistributedTransaction.begin(log, "job", **options)


def staged(log, transaction, task, *values, topic="t", partition=0, **settings):
    """What a writer of another process hands back."""
    with StagedWriter(str(transaction.token), task, url=another(log), **settings) as writer:
        for value in values:
            writer.send(topic, value, partition=partition)
    return writer.receipt


def values(log, topic="t", partition=0):
    state, at = log.follow(), TopicPartition(topic, partition)
    known = state.partitions[state.topics[topic].topic_id, partition]
    end = end_offset(known, Isolation.READ_COMMITTED)
    fetches = plan(state, at, known.start, end, Isolation.READ_COMMITTED, log.load)
    return [
        value.decode()
        for one in fetches
        for value in read(log.store, state.topics[topic], one).table["value"].to_pylist()
    ]


def data_files(log):
    return {info.name for info in log.store.list(paths.DATA)}


# -- All at once -----------------------------------------------------------------------------------------


def test_rows_of_all_tasks_become_visible_in_one_entry_in_the_order_of_the_receipts(log):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, f"{n}a", f"{n}b") for n in range(4)]
    other = staged(log, transaction, "u", "other", topic="u")
    before = log.follow().seq
    assert values(log) == []
    order = [receipts[2], receipts[0], other, receipts[3], receipts[1]]
    assert transaction.commit(order) == tuple(order)
    assert log.follow().seq == before + 1
    assert values(log) == ["2a", "2b", "0a", "0b", "3a", "3b", "1a", "1b"]
    assert values(log, "u") == ["other"]
    assert transaction.outcome() == "committed"
    check_log(log.store)


def test_only_what_the_commit_is_given_is_visible(log):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, f"{n}") for n in range(3)]
    transaction.commit([receipts[0], receipts[2]])
    assert values(log) == ["0", "2"]


def test_a_commit_of_nothing_ends_the_transaction(log):
    transaction = begin(log)
    assert transaction.commit([]) == ()
    assert transaction.outcome() == "committed"


def test_leaving_without_a_commit_aborts(log):
    with begin(log) as transaction:
        staged(log, transaction, 0, "a")
    assert transaction.outcome() == "aborted"
    assert values(log) == []


def left_with_an_error(transaction, store):
    with transaction:
        store.inject(Fault.FAIL_BEFORE, "create", "_log/*", times=None)
        raise KeyError("mine")


def test_an_error_in_the_block_aborts_and_stays_the_error(log, store):
    transaction = begin(log)
    with pytest.raises(KeyError, match="mine"):
        left_with_an_error(transaction, store)
    store.heal()
    assert (
        transaction.outcome() == "open"
    )  # It could not be aborted. No receipt of it is committed by itself.


def test_an_abort_deletes_what_it_is_given(log):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, "a") for n in range(2)]
    transaction.abort([receipts[0]])
    assert data_files(log) == {receipts[1].files[0].file.name}
    transaction.abort()
    with pytest.raises(InvalidTxnStateError, match="is aborted"):
        transaction.commit(receipts[1:])
    assert values(log) == []


def test_a_committed_transaction_cannot_be_aborted(log):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    transaction.commit([receipt])
    with pytest.raises(InvalidTxnStateError, match="is committed"):
        transaction.abort([receipt])
    assert values(log) == ["a"]
    check_log(log.store)


def test_the_log_is_created(tmp_path):
    transaction = DistributedTransaction.begin(tmp_path / "new", "job")
    with StagedWriter(transaction.token, 0) as writer:
        writer.send("t", "a")
    transaction.commit([writer.receipt])
    assert values(Log.open(tmp_path / "new")) == ["a"]
    with pytest.raises(NotALogError):
        DistributedTransaction.begin(tmp_path / "none", "job", auto_create_topics_enable=False)


# -- Tasks that run twice ----------------------------------------------------------------------------------


def test_of_a_task_the_first_receipt_counts(log):
    transaction = begin(log)
    first, second = (staged(log, transaction, "7", f"attempt {n}") for n in range(2))
    other = staged(log, transaction, 8, "eight")
    assert transaction.commit([second, second, other, first]) == (second, other)
    assert values(log) == ["attempt 1", "eight"]


def test_a_number_and_its_text_are_one_task(log):
    transaction = begin(log)
    receipts = [staged(log, transaction, task, "a") for task in (7, "7")]
    assert len(transaction.commit(receipts)) == 1
    assert values(log) == ["a"]


# -- A token that is over -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda transaction, _log: transaction.commit([]), InvalidTxnStateError),
        (lambda transaction, _log: transaction.abort(), InvalidTxnStateError),
        (lambda _transaction, log: begin(log), ProducerFencedError),
        (lambda _transaction, log: Admin(log).fence_producers(["job"]), ProducerFencedError),
    ],
    ids=["committed", "aborted", "replaced", "fenced"],
)
def test_a_writer_that_comes_late_writes_nothing(log, end, error):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    late = StagedWriter(transaction.token, 1, url=another(log))
    late.send("t", "late")
    end(transaction, log)
    with pytest.raises(error):
        StagedWriter(transaction.token, 2, url=another(log))
    with pytest.raises(error):
        late.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    assert data_files(log) == {receipt.files[0].file.name}
    with pytest.raises((InvalidTxnStateError, ProducerFencedError)):
        transaction.commit([receipt])
    assert values(log) == []


def test_a_writer_that_is_overtaken_removes_its_files(log):
    transaction = begin(log)
    late = StagedWriter(transaction.token, 1, url=another(log), buffer_memory=1)
    late.write("t", pa.table({"value": [b"x"] * 10}), 0)
    late.write("t", pa.table({"value": [b"y"] * 10, "key": [b"k"] * 10}), 0)  # It needs a second file.
    assert data_files(log)
    transaction.commit([])
    with pytest.raises(InvalidTxnStateError, match="Stop this task"):
        late.finish()
    assert data_files(log) == set()


def test_a_late_receipt_changes_nothing_and_vacuum_removes_its_files(log):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, f"{n}") for n in range(2)]
    transaction.commit(receipts[:1])
    late = receipts[1]
    for again in (transaction, DistributedTransaction.resume(str(transaction.token), url=another(log))):
        with pytest.raises(InvalidTxnStateError, match="committed before, with other receipts"):
            again.commit([late])
        with pytest.raises(InvalidTxnStateError, match="committed before, with other receipts"):
            again.commit(receipts)
    Vacuum(log, min_age_s=0).run()
    assert data_files(log) == {receipts[0].files[0].file.name}
    newer = begin(log)
    with pytest.raises(InvalidRequestError, match="task '1' is of another transaction"):
        newer.commit([late])
    assert values(log) == ["0"]
    check_log(log.store)


def test_a_fenced_transaction_is_known_not_to_be_committed(log):
    old = begin(log)
    receipt = staged(log, old, 0, "old")
    new = begin(log)
    with pytest.raises(ProducerFencedError, match="Nothing of it was or will be committed"):
        old.commit([receipt])
    new.commit([staged(log, new, 0, "new")])
    # By the state alone it could have been the old one: the entries tell.
    with pytest.raises(ProducerFencedError):
        old.commit([receipt])
    assert old.outcome() == "fenced"
    assert new.outcome() == "committed"
    assert values(log) == ["new"]


def test_an_abort_of_a_fenced_transaction_is_success(log):
    old = begin(log)
    new = begin(log)
    old.abort()
    assert new.outcome() == "open"


def test_another_log_at_the_same_place_is_refused(tmp_path):
    transaction = DistributedTransaction.begin(tmp_path / "a", "job")
    DistributedTransaction.begin(tmp_path / "b", "job")
    for make in (StagedWriter, lambda token, _, url: DistributedTransaction.resume(token, url=url)):
        with pytest.raises(NotALogError, match="the transaction token is of log"):
            make(transaction.token, 0, url=tmp_path / "b")


# -- Lost replies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST])
def test_a_commit_in_doubt_is_repeated(log, store, fault):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, f"{n}") for n in range(2)]
    store.inject(fault, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError):
        transaction.commit(receipts)
    with pytest.raises(IllegalStateError, match="Call commit again"):
        transaction.abort()
    with pytest.raises(IllegalStateError, match="other receipts"):
        transaction.commit(receipts[:1])
    assert transaction.commit(receipts) == tuple(receipts)
    assert transaction.commit(receipts) == tuple(receipts)
    assert values(log) == ["0", "1"]


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED])
def test_another_process_finishes_a_commit_in_doubt(log, store, fault):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, f"{n}") for n in range(2)]
    store.inject(fault, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError):
        transaction.commit(receipts)
    again = DistributedTransaction.resume(str(transaction.token), url=another(log))
    again.commit([str(receipt) for receipt in receipts])
    store.release()
    assert values(log) == ["0", "1"]
    assert transaction.commit(receipts) == tuple(receipts)
    check_log(log.store)


def retire_all(log):
    """All entries that its newest state makes unnecessary."""
    log.maintenance.snapshot()
    while log.maintenance.retire(log.state, 100):
        pass


def begun_in_a_short_log(store):
    """A log whose entries are retired at once, a transaction that has begun in it, and the receipt of a file."""
    log = Log.create(store, snapshot_interval=4, config=RETIRED_AT_ONCE)
    log.ensure_topic("t")
    log.does_maintenance = False
    transaction = begin(log)
    return log, transaction, staged(log, transaction, 0, "a")


def test_a_commit_in_doubt_before_a_newer_transaction_is_found_in_the_entries(log, store):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError):
        transaction.commit([receipt])
    begin(another(log))
    again = DistributedTransaction.resume(transaction.token, url=another(log))
    assert again.outcome() == "committed"
    assert again.commit([receipt]) == (receipt,)
    assert transaction.commit([receipt]) == (receipt,)
    with pytest.raises(ProducerFencedError, match="is over"):
        transaction.abort()


def test_a_commit_before_a_newer_transaction_whose_entry_is_retired_is_not_said_to_be_missing(store):
    log, transaction, receipt = begun_in_a_short_log(store)
    transaction.commit([receipt])
    for number in range(12):
        newer = begin(log)
        newer.commit([staged(log, newer, number, "b")])
    retire_all(log)
    again = DistributedTransaction.resume(transaction.token, url=another(log))
    assert again.outcome() == "unknown"
    with pytest.raises(CommitOutcomeLostError, match="can no longer be found out"):
        again.commit([receipt])


def test_a_commit_whose_entry_is_retired_is_repeated(store):
    log, transaction, receipt = begun_in_a_short_log(store)
    transaction.commit([receipt])
    for _ in range(12):
        Admin(log).create_topic(f"{log.state.seq}")
    retire_all(log)
    assert earliest(log).seq > transaction.token.began_seq + 1
    again = DistributedTransaction.resume(transaction.token, url=another(log))
    assert again.commit([receipt]) == (receipt,)


def test_a_commit_before_a_newer_transaction_is_found_though_its_begin_is_retired(store):
    log, transaction, receipt = begun_in_a_short_log(store)
    for _ in range(12):
        Admin(log).create_topic(f"{log.state.seq}")
    retire_all(log)
    assert earliest(log).seq > transaction.token.began_seq
    transaction.commit([receipt])
    begin(log)
    again = DistributedTransaction.resume(transaction.token, url=another(log))
    assert again.commit([receipt]) == (receipt,)


def test_an_abort_in_doubt_is_repeated(log, store):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError):
        transaction.abort([receipt])
    assert data_files(log)
    with pytest.raises(IllegalStateError, match="Call abort again"):
        transaction.commit([receipt])
    transaction.abort([receipt])
    assert not data_files(log)


def test_a_block_that_ends_in_doubt_does_not_abort(log, store):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    store.inject(Fault.LOST, "create", "_log/*")
    with transaction, pytest.raises(CommitOutcomeUnknownError):
        transaction.commit([receipt])
    assert transaction.outcome() == "open"
    transaction.commit([receipt])
    assert values(log) == ["a"]


def test_a_commit_that_certainly_was_not_made_may_be_given_up(log, store):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    store.inject(Fault.FAIL_BEFORE, "create", "_log/*")
    with pytest.raises(StoreUnavailableError):
        transaction.commit([receipt])
    transaction.abort([receipt])
    assert transaction.outcome() == "aborted"


# -- Versions of jobs ----------------------------------------------------------------------------------------


def test_a_version_is_committed_once(log):
    version = {"txn_app_id": "nightly", "txn_version": 20261124}
    first = begin(log, **version)
    assert not first.is_repetition
    receipt = staged(log, first, 0, "a")
    assert first.commit([receipt]) == (receipt,)
    again = begin(log, **version)
    assert again.is_repetition
    assert again.commit([staged(log, again, 0, "a")]) == ()
    assert values(log) == ["a"]
    next_day = begin(log, txn_app_id="nightly", txn_version=20261125)
    next_day.commit([staged(log, next_day, 0, "b")])
    assert values(log) == ["a", "b"]
    # What is known of the first one does not change.
    resumed = DistributedTransaction.resume(first.token, url=another(log))
    assert resumed.is_repetition
    assert resumed.outcome() == "committed"


def test_a_version_that_another_job_has_committed_meanwhile_writes_nothing(log):
    version = {"txn_app_id": "nightly", "txn_version": 1}
    one = DistributedTransaction.begin(log, "one", **version)
    receipt = staged(log, one, 0, "one")
    two = DistributedTransaction.begin(another(log), "two", **version)
    two.commit([staged(log, two, 0, "two")])
    assert one.commit([receipt]) == ()
    assert values(log) == ["two"]


@pytest.mark.parametrize(
    "given", [{"txn_app_id": "a"}, {"txn_version": 1}, {"txn_app_id": "", "txn_version": 1}]
)
def test_half_a_version_is_refused(log, given):
    with pytest.raises(ConfigError, match="give both of them, or none"):
        begin(log, **given)


# -- Offsets ---------------------------------------------------------------------------------------------


def test_offsets_are_committed_with_the_rows(log):
    Producer(log).send("t", "in").get()
    transaction = begin(log)
    with StagedWriter(transaction.token, 0, url=another(log)) as writer:
        writer.send("out", "copied")
        writer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    consumer = Consumer(log, group_id="g")
    assert consumer.committed([TopicPartition("t", 0)]) == {TopicPartition("t", 0): None}
    transaction.commit([str(writer.receipt)])
    assert consumer.committed([TopicPartition("t", 0)])[TopicPartition("t", 0)].offset == 1
    assert values(log, "out") == ["copied"]


def test_two_tasks_that_commit_one_partition_are_refused(log):
    transaction = begin(log)
    receipts = []
    for task, offset in enumerate((3, 4)):
        with StagedWriter(transaction.token, task, url=another(log)) as writer:
            writer.send_offsets_to_transaction(
                {TopicPartition("t", 0): offset, TopicPartition("t", 1): 7}, "g"
            )
        receipts.append(writer.receipt)
    with pytest.raises(InvalidRequestError, match="group 'g' for t-0: 3 and 4"):
        transaction.commit(receipts)
    transaction.commit(receipts[1:])
    committed = Consumer(log, group_id="g").committed([TopicPartition("t", n) for n in range(2)])
    assert [one.offset for one in committed.values()] == [4, 7]


def test_two_tasks_that_commit_as_different_members_are_refused(log):
    transaction = begin(log)
    receipts = []
    for task in range(2):
        with StagedWriter(transaction.token, task, url=another(log)) as writer:
            writer.send_offsets_to_transaction({TopicPartition("t", task): 1}, "g")
        (offsets,) = writer.receipt.offsets
        of_member = offsets._replace(member=Membership(f"member {task}", 1))
        receipts.append(writer.receipt._replace(offsets=(of_member,)))
    with pytest.raises(InvalidRequestError, match="group 'g' as different members"):
        transaction.commit(receipts)


def test_offsets_of_an_attempt_that_does_not_count_do_not_count(log):
    transaction = begin(log)
    receipts = []
    for offset in (3, 4):
        with StagedWriter(transaction.token, "one task", url=another(log)) as writer:
            writer.send_offsets_to_transaction({TopicPartition("t", 0): offset}, "g")
        receipts.append(writer.receipt)
    transaction.commit(receipts)
    committed = Consumer(log, group_id="g").committed([TopicPartition("t", 0)])
    assert [one.offset for one in committed.values()] == [3]


# -- Vacuum ----------------------------------------------------------------------------------------------


def test_what_is_being_staged_outlives_vacuum_for_its_min_age(log):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    Producer(log).send("t", "meanwhile", partition=1).get()
    Vacuum(log, min_age_s=3600).run(wait=False)
    transaction.commit([receipt])
    assert values(log) == ["a"]


def test_files_that_were_staged_at_the_floor_are_committed(log):
    transaction = begin(log)
    receipt = staged(log, transaction, 0, "a")
    floor = staged_at(receipt.files[0].file.name)
    assert log.commit(lambda _: (RaiseStagingFloor(floor),)).state.staging_floor == floor > 0
    transaction.commit([receipt])
    assert values(log) == ["a"]


def test_files_that_vacuum_may_have_removed_are_staged_again(log):
    transaction = begin(log)
    receipts = [staged(log, transaction, n, f"{n}") for n in range(3)]
    Producer(log).send("t", "meanwhile", partition=1).get()
    Vacuum(log, min_age_s=0).run()
    with pytest.raises(StagedFileExpiredError, match=r"tasks 0, 1, 2 \(3 in all\).*--min-age"):
        transaction.commit(receipts)
    assert transaction.outcome() == "open"
    transaction.commit([staged(log, transaction, n, f"{n} again") for n in range(3)])
    assert values(log) == ["0 again", "1 again", "2 again"]


# -- Writers ---------------------------------------------------------------------------------------------


def test_rows_of_all_kinds(log):
    Admin(log).create_topic("typed", 1, schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    transaction = begin(log)
    with StagedWriter(transaction.token, 0, url=another(log), compression_type="zstd") as writer:
        writer.send("t", "a", key="k", headers=[("h", b"1")], partition=1, timestamp_ms=5)
        writer.write("t", [{"value": "b"}, {"value": "c", "key": None, "timestamp_ms": 7}], partition=1)
        writer.write("t", pa.table({"value": ["d"]}), 1)
        writer.write("t", pa.record_batch({"value": ["e"]}), 1)
        writer.write("typed", ({"id": n, "name": None} for n in range(3)))
        writer.write("typed", pa.table({"id": [3], "name": ["x"]}))
        writer.write("typed", [])
    assert writer.receipt.records == {"t": 5, "typed": 4}
    transaction.commit([writer.receipt])
    assert values(log, "t", 1) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda writer: writer.write("t", [{"value": "a", "colour": 1}]), SchemaMismatchError),
        (lambda writer: writer.write("typed", [{"id": 1, "colour": 1}]), SchemaMismatchError),
        (lambda writer: writer.write("typed", [{"id": "one"}]), SchemaMismatchError),
        (lambda writer: writer.write("t", pa.table({"colour": [1]})), SchemaMismatchError),
        (lambda writer: writer.write("u", pa.table({"colour": [1]})), UnknownTopicOrPartitionError),
        (lambda writer: writer.send("t", 5), InvalidRecordError),
        (lambda writer: writer.send("t", "a", partition=2), UnknownTopicOrPartitionError),
        (lambda writer: writer.send_offsets_to_transaction({}, ""), ConfigError),
    ],
    ids=["field", "column", "type", "columns", "new topic", "value", "partition", "group"],
)
def test_what_is_refused_leaves_the_rest(log, call, error):
    Admin(log).create_topic("typed", 1, schema=pa.schema([("id", pa.int64())]))
    transaction = begin(log)
    with StagedWriter(transaction.token, 0, url=another(log)) as writer:
        writer.send("t", "before", partition=0)
        with pytest.raises(error):
            call(writer)
        writer.send("t", "after", partition=0)
    transaction.commit([writer.receipt])
    assert values(log) == ["before", "after"]


def test_a_record_that_is_too_large_spoils_the_task(log):
    transaction = begin(log)
    writer = StagedWriter(transaction.token, 0, url=another(log), max_request_size=10)
    with pytest.raises(RecordTooLargeError):
        writer.send("t", "x" * 11)
    for call in (lambda: writer.send("t", "small"), writer.finish):
        with pytest.raises(AbortableError, match="Run the task again"):
            call()
    assert not data_files(log)
    with pytest.raises(IllegalStateError, match="has no receipt"):
        _ = writer.receipt


def failing_task(log, transaction):
    with StagedWriter(transaction.token, 0, url=another(log), buffer_memory=1) as writer:
        writer.write("t", pa.table({"value": [b"x"] * 10}), 0)
        writer.write("t", pa.table({"value": [b"y"] * 10, "key": [b"k"] * 10}), 0)
        assert data_files(log)
        raise KeyError("mine")


def test_an_error_in_the_block_deletes_what_was_staged(log):
    transaction = begin(log)
    with pytest.raises(KeyError, match="mine"):
        failing_task(log, transaction)
    assert not data_files(log)


def test_a_store_that_fails_leaves_no_receipt(log, store):
    transaction = begin(log)
    writer = StagedWriter(transaction.token, 0, url=another(log))
    writer.send("t", "a")
    store.inject(Fault.FAIL_BEFORE, "upload", "data/*", times=None)
    store.inject(Fault.FAIL_BEFORE, "create", "data/*", times=None)
    with pytest.raises(StoreUnavailableError):
        writer.finish()
    store.heal()
    with pytest.raises(IllegalStateError, match="has ended"):
        writer.finish()
    assert not data_files(log)


def test_a_writer_that_has_ended(log):
    transaction = begin(log)
    with StagedWriter(transaction.token, 0, url=another(log)) as writer:
        writer.send("t", "a")
        with pytest.raises(IllegalStateError, match="has no receipt"):
            _ = writer.receipt
        assert writer.finish() == writer.finish()
        with pytest.raises(IllegalStateError):
            writer.send("t", "b")
    with pytest.raises(IllegalStateError):
        writer.write("t", pa.table({"value": ["b"]}))
    assert writer.receipt.records == {"t": 1}


def test_a_writer_has_no_id_of_its_own(log):
    with pytest.raises(ConfigError, match="its token has it"):
        StagedWriter(begin(log).token, 0, {"transactional.id": "x"}, url=log)
    with pytest.raises(ConfigError):
        StagedWriter(begin(log).token, 0, {"colour": 1}, url=log)
    with pytest.raises(ConfigError, match=r"transactional\.id is empty"):
        DistributedTransaction.begin(log, "")


# -- Tokens and receipts -------------------------------------------------------------------------------------


def test_a_write_that_still_runs_at_the_end_leaves_no_receipt(log, store):
    """Half of its rows would be committed."""
    transaction, half, ended = begin(log), threading.Event(), threading.Event()

    def rows():
        yield {"value": b"first"}
        half.set()
        assert ended.wait(60)
        yield {"value": b"second"}

    def write(pool):
        with StagedWriter(str(transaction.token), 0, url=another(log)) as writer:
            writings.append(pool.submit(writer.write, "t", rows()))
            assert half.wait(60)
        return writer.receipt

    writings = []
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(IllegalStateError, match="1 write of task '0' still runs in another thread"):
            write(pool)
        ended.set()
        with pytest.raises(IllegalStateError, match="closed"):
            writings[0].result(60)
    assert not [name for name in store.inner.list("data/") if name.endswith(".arrow")]
    transaction.commit([staged(log, transaction, 0, b"first", b"second")])
    with Consumer(log, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [one.value for one in consumer.poll(0)] == [b"first", b"second"]


def test_tokens_and_receipts_travel_as_text_and_as_pickles(log):
    transaction = begin(log, txn_app_id="é", txn_version=2**62)
    with StagedWriter(transaction.token, "tâsk\n", url=another(log)) as writer:
        writer.write("t", pa.table({"value": ["a", "b"], "partition": [0, 1]}))
        writer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    for one in (transaction.token, writer.receipt):
        text = str(one)
        assert text.isascii()
        assert " " not in text
        assert type(one).parse(f" {text}\n") == pickle.loads(pickle.dumps(one)) == one
        for spoiled in (
            *(text[:-cut] for cut in range(1, 12)),  # Of a few of them only the checksum is cut off.
            text[1:],
            text + "AAAA",
            "",
            f"{text[:30]}{chr(ord(text[30]) ^ 1)}{text[31:]}",
        ):
            with pytest.raises(InvalidRequestError, match="is not a"):
                type(one).parse(spoiled)
    with pytest.raises(InvalidRequestError, match="is not a transaction token"):
        TransactionToken.parse(str(writer.receipt))
    with pytest.raises(InvalidRequestError, match="is not a receipt"):
        StagedReceipt.parse(str(transaction.token))


def test_a_token_is_small_and_has_no_secret():
    from spark_eos.extensions.distributed.texts import unpack

    transaction = DistributedTransaction.begin("memory://secrets", "job")
    assert len(str(transaction.token)) < 250
    assert unpack("eostxn1", str(transaction.token), "token") == [*transaction.token]


@pytest.mark.parametrize(
    "content",
    [[], {}, [1] * 7, ["l", [0, 0, 0], "t", "a", [], [["t", ["../x", 1, 0, []], []]], []]],
    ids=["empty", "object", "numbers", "outside"],
)
def test_a_receipt_of_another_content_is_refused(content):
    from spark_eos.extensions.distributed.texts import pack

    with pytest.raises(InvalidRequestError):
        StagedReceipt.parse(pack("eosrcp1", content))
    with pytest.raises(InvalidRequestError):
        TransactionToken.parse(pack("eostxn1", content))
