"""The sink's commit without Spark: whose checkpoint it reads, and in which order rows arrive."""

from __future__ import annotations

import time

import pytest

from spark_eos import Producer
from spark_eos.errors import CheckpointMismatchError, OffsetOutOfRangeError, ProducerFencedError
from spark_eos.log.clock import SYSTEM


def test_rows_are_in_the_order_of_their_tasks(bench, driver):
    driver().run(0, "c", "a", "b")
    assert bench.rows("out") == [(0, 0, "c"), (0, 1, "a"), (0, 2, "b")]


def test_the_checkpoint_must_be_that_of_the_query(bench, driver, hand_made, ours_at):
    other = hand_made("other")
    other.offsets(0, ours_at(10))
    query = driver()
    messages = query.stage("a")
    for message in messages:
        message.query_id = other.query_id
    with pytest.raises(CheckpointMismatchError, match="must be this query's own"):
        query.commit(messages, 0)
    assert bench.values("out") == []
    assert bench.files("out") == set()


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_complete_mode_replaces_what_the_topic_has(bench, driver, guarantee):
    query = driver(overwrite=True, processing_guarantee=guarantee)
    query.run(0, "a", "b")
    query.run(1, "c")
    assert bench.values("out") == ["c"]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_complete_mode_does_not_replace_what_lies_behind_an_open_transaction(
    bench, driver, guarantee, monkeypatch
):
    """Log starts do not pass it: the result before would stay, and be read again when the transaction is over."""
    query = driver(overwrite=True, processing_guarantee=guarantee)
    query.run(0, "a", "b")
    other = Producer(bench.url, {"transactional.id": "other", "transaction.timeout.ms": 60_000})
    other.init_transactions()
    other.begin_transaction()
    other.send("out", b"open")
    other.flush()
    messages, files = query.stage("c"), bench.files("out")
    with pytest.raises(OffsetOutOfRangeError, match="transaction 'other' is open since offset"):
        query.commit(messages, 1)
    assert len(bench.files("out")) == len(files) - 1
    # It has timed out, and nothing else has noticed that.
    monkeypatch.setattr(type(SYSTEM), "monotonic", lambda _clock: time.monotonic() + 61)
    query.run(1, "c")
    assert bench.values("out") == ["c"]
    with pytest.raises(ProducerFencedError):
        other.close()


def test_a_replay_in_complete_mode_replaces_nothing_and_so_waits_for_no_transaction(bench, driver):
    """Its result is in the log: the reply was lost, and a transaction was begun before Spark repeats the batch."""
    driver(overwrite=True).run(0, "a", "b")
    with Producer(bench.url, {"transactional.id": "other"}) as other:
        other.init_transactions()
        other.begin_transaction()
        other.send("out", b"open")
        other.flush()
        driver(overwrite=True).run(0, "a", "b")
        other.abort_transaction()
    assert bench.values("out") == ["a", "b"]
