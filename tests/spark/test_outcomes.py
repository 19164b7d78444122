"""Committed, refused or unknown: what a sink does when the store answers badly, or not at all."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from spark_eos.errors import (
    CheckpointMismatchError,
    CommitOutcomeUnknownError,
    ProducerFencedError,
    StoreUnavailableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import DeleteTopic
from spark_eos.protocol.index import Kind
from spark_eos.spark.batch.writer import EosLogBatchWriter
from spark_eos.spark.options import parse_sink
from spark_eos.testing import Fault, FaultyStore

from .conftest import ROWS

ENTRY = "_log/*"

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def store(bench, request):
    """What the committing process has in place of the log's store."""
    request.getfixturevalue("checkpoint")  # Made first, through a store without faults.
    bench.topic("out")
    store = FaultyStore(Log.open(bench.url).store)
    bench.spoil(store)
    return store


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.DUPLICATE])
def test_a_commit_whose_reply_is_lost_is_found(bench, driver, store, fault):
    store.inject(fault, name=ENTRY)
    running = driver()
    running.run(0, "a", "b")
    running.run(1, "c")
    assert store.count("create", ENTRY) > 1
    assert bench.values("out") == ["a", "b", "c"]
    assert bench.files("out") == bench.referenced("out")


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.FAIL_BEFORE])
def test_a_commit_that_was_not_done_is_done_again(bench, driver, store, fault):
    store.inject(fault, name=ENTRY, times=2)
    driver().run(0, "a", "b")
    assert store.count("create", ENTRY) == 3
    assert bench.values("out") == ["a", "b"]


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_is_resolved_by_the_replay(bench, checkpoint, driver, store, landed):
    first = driver()
    messages = first.stage("a", "b")
    store.inject(Fault.FAIL_AFTER if landed else Fault.LOST, name=ENTRY)
    store.inject(StoreUnavailableError("away"), name=ENTRY, times=None)
    staged = bench.files("out")
    with pytest.raises(CommitOutcomeUnknownError):
        first.commit(messages, 0)
    first.abort(messages, 0)
    assert bench.files("out") == staged
    store.heal()

    driver().run(0, "a", "b")
    assert bench.values("out") == ["a", "b"]
    assert bench.group(checkpoint.query_id) == {("src", 0): 10}
    driver().run(1, "c")
    assert bench.values("out") == ["a", "b", "c"]


def test_a_commit_that_arrives_late_finds_its_slot_filled(bench, driver, store):
    first = driver()
    messages = first.stage("a")
    store.inject(Fault.DELAYED, name=ENTRY, times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        first.commit(messages, 0)
    first.abort(messages, 0)
    store.heal()
    bench.forget()
    driver().run(0, "a")
    assert {type(error).__name__ for error in store.release()} == {"ObjectExistsError"}
    bench.forget()
    assert bench.values("out") == ["a"]


def test_a_commit_that_arrives_late_in_a_free_slot_counts(bench, driver, store):
    first = driver()
    messages = first.stage("a")
    store.inject(Fault.DELAYED, name=ENTRY, times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        first.commit(messages, 0)
    first.abort(messages, 0)
    store.heal()
    store.release()
    bench.forget()
    driver().run(0, "a")
    assert bench.values("out") == ["a"]


def test_the_same_commit_repeated_by_its_own_run_keeps_its_files(bench, driver, store):
    running = driver()
    messages = running.stage("a")
    store.inject(Fault.FAIL_AFTER, name=ENTRY)
    store.inject(StoreUnavailableError("away"), name=ENTRY, times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        running.commit(messages, 0)
    store.heal()
    running.commit(messages, 0)
    running.abort(messages, 0)
    assert bench.values("out") == ["a"]


def test_a_store_that_is_away_is_an_error_and_the_staged_files_go(bench, driver, store):
    running = driver()
    messages = running.stage("a", "b")
    store.inject(Fault.FAIL_BEFORE, name=ENTRY, times=None)
    with pytest.raises(StoreUnavailableError):
        running.commit(messages, 0)
    running.abort(messages, 0)
    store.heal()
    assert bench.files("out") == set()
    driver().run(0, "a", "b")
    assert bench.values("out") == ["a", "b"]


def test_a_refusal_deletes_exactly_the_staged_files(bench, driver, hand_made, ours_at):
    driver(transactional_id="tx").run(0, "a")
    kept = bench.files("out")
    stranger = hand_made("stranger")
    stranger.offsets(0, ours_at(40, start=20))
    refused, other = driver(stranger, transactional_id="tx"), driver()
    messages, others = refused.stage("x", "y"), other.stage("z")
    with pytest.raises(CheckpointMismatchError):
        refused.commit(messages, 0)
    staged = {file.file.name for message in messages for file in message.files}
    assert len(staged) == 2
    refused.abort(messages, 0)
    waiting = {file.file.name for message in others for file in message.files}
    assert bench.files("out") == kept | waiting
    assert bench.values("out") == ["a"]


def test_abort_before_a_commit_deletes_nothing(bench, driver):
    """Another process may be committing these very files."""
    running = driver()
    messages = running.stage("a")
    running.abort(messages, 0)
    running.abort([None, None], 0)
    running.abort([*messages, None], 0)
    running.commit(messages, 0)
    assert bench.values("out") == ["a"]


def test_abort_after_a_commit_deletes_nothing(bench, driver):
    running = driver()
    messages = running.run(0, "a")
    running.abort(messages, 0)
    assert bench.values("out") == ["a"]


def test_a_commit_repeated_by_a_zombie_keeps_the_files_that_are_in_the_log(bench, driver):
    old = driver()
    messages = old.run(0, "a")
    driver().run(1, "b")
    with pytest.raises(ProducerFencedError):
        old.commit(messages, 0)
    old.abort(messages, 0)
    assert bench.values("out") == ["a", "b"]


def test_a_commit_that_is_interrupted_keeps_its_files(bench, driver, store):
    running = driver()
    messages = running.stage("a")
    raised = []

    def interrupt(operation, name):
        if operation == "create" and not raised:
            raised.append(name)
            raise KeyboardInterrupt

    store.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        running.commit(messages, 0)
    running.abort(messages, 0)
    bench.forget()
    assert bench.values("out") == ["a"]


def test_a_replay_doubles_only_where_that_was_asked_for(bench, driver, hand_made, ours_at):
    other = hand_made("other")
    other.offsets(0, ours_at(10))
    for _ in range(2):
        driver().run(0, "once")
        driver(other, processing_guarantee="at_least_once").run(0, "again")
    assert bench.values("out") == ["again", "again", "once"]


def test_a_batch_that_was_committed_is_not_doubled_by_another_guarantee(bench, driver):
    """The query died between the two commits, and was started again with processing.guarantee=at_least_once."""
    driver().run(0, "once")
    driver(processing_guarantee="at_least_once").run(0, "once")
    driver(processing_guarantee="at_least_once").run(1, "next")
    assert bench.values("out") == ["next", "once"]
    # The log does not know of batch 1, so nothing proves that batch 2 goes on where the last one ended.
    with pytest.raises(CheckpointMismatchError, match="reads source 0 from"):
        driver().run(2, "x")
    assert bench.values("out") == ["next", "once"]


@pytest.mark.conformance("Redpanda #6018")
def test_a_file_that_is_not_whole_is_not_committed(bench, driver, store):
    running = driver()
    messages = running.stage("a")
    (file,) = messages[0].files
    path = bench.url + "/" + file.file.name
    with open(path, "rb") as whole:  # noqa: PTH123
        data = whole.read()
    store.inner.delete(file.file.name)
    store.inner.create(file.file.name, data[:-1])
    with pytest.raises(Exception, match="Nothing was committed"):
        running.commit(messages, 0)
    assert bench.count("out") == 0


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.DUPLICATE])
def test_a_lost_reply_alone_doubles_nothing_even_at_least_once(bench, driver, store, fault):
    store.inject(fault, name=ENTRY)
    driver(processing_guarantee="at_least_once").run(0, "a")
    assert bench.values("out") == ["a"]


def test_the_second_attempt_of_a_task_that_also_finished_is_not_seen(bench, driver):
    """Speculation: two attempts stage the same rows, and the driver is told of one of them."""
    running = driver()
    told, other = running.stage("a", "b"), running.stage("a", "b")
    running.commit(told, 0)
    assert bench.values("out") == ["a", "b"]
    staged = {file.file.name for message in (*told, *other) for file in message.files}
    assert len(staged) == 2 * len(bench.referenced("out")) == 4
    assert bench.referenced("out") == {file.file.name for message in told for file in message.files}


def test_a_batch_write_that_is_refused_leaves_no_files(bench):
    writer = EosLogBatchWriter(
        parse_sink({"path": bench.url, "topic": "out"}, streaming=False), ROWS, overwrite=False
    )
    batch = pa.record_batch([pa.array([b"a"])] * 2, names=["key", "value"])
    messages = [writer.write(iter([batch]))]
    assert len(bench.files("out")) == 1
    topic = bench.topic("out")
    bench.log.commit(lambda _: (DeleteTopic("out", topic.topic_id),))
    with pytest.raises(UnknownTopicOrPartitionError):
        writer.commit(messages)
    writer.abort(messages)
    assert bench.files("out") == set()


def test_a_batch_write_under_a_transactional_id_is_a_transaction_and_fences_the_one_before(bench, driver):
    running = driver(transactional_id="shared")
    running.run(0, "a")
    writer = EosLogBatchWriter(
        parse_sink({"path": bench.url, "topic": "out", "transactional.id": "shared"}, streaming=False),
        ROWS,
        overwrite=False,
    )
    batch = pa.record_batch([pa.array([b"b"])] * 2, names=["key", "value"])
    writer.commit([writer.write(iter([batch]))])
    assert bench.values("out") == ["a", "b"]
    assert [row.kind for row in bench.partitions("out")[0].index.tail] == [
        Kind.DATA,
        Kind.COMMIT,
        Kind.DATA,
        Kind.COMMIT,
    ]
    with pytest.raises(ProducerFencedError):
        running.run(1, "c")
    assert bench.values("out") == ["a", "b"]


def test_of_two_jobs_with_one_version_the_outrun_one_writes_nothing(bench):
    options = {"path": bench.url, "topic": "out", "txnAppId": "job", "txnVersion": "1"}
    batch = pa.record_batch([pa.array([b"a"])] * 2, names=["key", "value"])
    jobs = []
    for _ in range(2):
        writer = EosLogBatchWriter(parse_sink(options, streaming=False), ROWS, overwrite=False)
        jobs.append((writer, [writer.write(iter([batch]))]))
    assert len(bench.files("out")) == 2
    for writer, messages in jobs:
        writer.commit(messages)
    assert bench.values("out") == ["a"]
    assert bench.files("out") == bench.referenced("out")
    writer, messages = jobs[0]
    writer.commit(messages)  # As after a lost reply: these files are in the log.
    assert bench.files("out") == bench.referenced("out") != set()
    late = EosLogBatchWriter(parse_sink(options, streaming=False), ROWS, overwrite=False)
    assert late.write(iter([batch])).files == ()


def test_a_version_is_one_of_its_topic_and_a_repeated_older_one_is_a_warning(bench, caplog):
    caplog.set_level(logging.INFO, "spark_eos")
    batch = pa.record_batch([pa.array([b"a"])] * 2, names=["key", "value"])
    for topic, version in (("out", 2), ("other", 2), ("out", 2), ("out", 1)):
        options = {"path": bench.url, "topic": topic, "txnAppId": "job", "txnVersion": str(version)}
        writer = EosLogBatchWriter(parse_sink(options, streaming=False), ROWS, overwrite=False)
        writer.commit([writer.write(iter([batch]))])
    assert bench.values("out") == bench.values("other") == ["a"]
    told = [(record.levelname, record.args[-1]) for record in caplog.records if "repetition" in record.msg]
    assert told == [("INFO", 2), ("WARNING", 1)]
