"""Spark micro-batches: one run at a time, each batch once, and each where the last one ended."""

from __future__ import annotations

import json

import pytest

from spark_eos.errors import (
    CheckpointMismatchError,
    InvalidRequestError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.actions import (
    AdvanceLogStart,
    CommitMicroBatch,
    CommitOffsets,
    DeleteTopic,
    EndTransaction,
    InitProducer,
    SourceProgress,
)
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import NO_PRODUCER


def source(log, start, end, group="g", topic="t"):
    """Offsets by partition; a start of None is an unknown one."""
    started = tuple(log.at(at, number, topic) for number, at in (start or {}).items())
    ended = tuple(log.at(at, number, topic) for number, at in end.items())
    return SourceProgress(start and json.dumps(start), json.dumps(end), group, started, ended)


def batch(log, number, *sources, run="r1", query="q", rows=4, transactional_id="tx"):
    files = log.appending(NO_PRODUCER, (0, rows), topic="out").files if rows else ()
    return MicroBatch(transactional_id, query, run, number, sources, (("out", "out-id"),), files)


def run(log, wanted, finished=False, before=()):
    actions = propose(log.state, wanted, finished=finished, before=before)
    if actions:
        log.do(*actions)
    return [type(action).__name__ for action in actions]


WHOLE = ["AppendBatches", "CommitMicroBatch", "EndTransaction"]


@pytest.fixture
def out(log):
    return log.topic("out", 1)


def first(log, **kwargs):
    return batch(log, 0, source(log, {0: 0, 1: 0}, {0: 10, 1: 20}), **kwargs)


def second(log, number=1, **kwargs):
    return batch(log, number, source(log, {0: 10, 1: 20}, {0: 15, 1: 20}), **kwargs)


def test_batches_of_a_run(out):
    assert run(out, first(out)) == ["InitProducer", *WHOLE]
    assert run(out, second(out)) == WHOLE
    assert out.group() == {("t", 0): 15, ("t", 1): 20}
    assert out.partition(topic="out").end == out.partition(topic="out").last_stable_offset == 10
    assert not out.state.open_transactions


def test_a_batch_without_rows(out):
    assert run(out, first(out, rows=0)) == ["InitProducer", "CommitMicroBatch", "EndTransaction"]
    assert (out.partition(topic="out").end, out.group()) == (0, {("t", 0): 10, ("t", 1): 20})


def test_what_belongs_before_the_batch(out):
    run(out, first(out))
    truncate = AdvanceLogStart((out.at(-1, topic="out"),))
    assert run(out, second(out), before=(truncate,)) == ["AdvanceLogStart", *WHOLE]
    assert (out.partition(topic="out").start, out.partition(topic="out").end) == (5, 10)


@pytest.mark.conformance("query/replay")
def test_a_replay_by_the_same_run_has_nothing_to_do(out):
    run(out, first(out))
    for finished in (False, True):
        assert run(out, first(out), finished) == []


@pytest.mark.conformance("query/replay")
def test_a_replay_by_the_next_run_registers_it_and_writes_nothing(out):
    run(out, first(out))
    end = out.partition(topic="out").end
    assert run(out, first(out, run="r2")) == ["InitProducer"]
    assert out.partition(topic="out").end == end
    with pytest.raises(ProducerFencedError, match=r"run r1 .* run r2 has taken over"):
        run(out, second(out))
    assert run(out, second(out, run="r2")) == WHOLE


def test_a_zombie_that_never_registered_does_not_fence_its_successor(out):
    run(out, first(out, run="r2"))
    for number in (0, -1):
        with pytest.raises(ProducerFencedError, match="run zombie"):
            run(out, first(out, run="zombie")._replace(batch_id=number), finished=True)
    assert run(out, second(out, run="r2")) == WHOLE


@pytest.mark.conformance("query/zombie")
def test_a_run_that_was_replaced_does_not_come_back(out):
    run(out, first(out))
    run(out, second(out, run="r2"))
    for finished in (False, True):
        with pytest.raises(ProducerFencedError, match="run r1"):
            run(out, second(out), finished)
    action = CommitMicroBatch("tx", "q", "r1", 2, second(out).sources)
    with pytest.raises(ProducerFencedError, match="run r1"):
        out.do(action)


@pytest.mark.conformance("query/zombie")
def test_a_run_that_never_registered_commits_nothing(out):
    with pytest.raises(ProducerFencedError, match="never registered"):
        out.do(CommitMicroBatch("tx", "q", "r1", 0, ()))


def test_another_client_fences_the_run(out):
    run(out, first(out))
    out.init("tx")
    with pytest.raises(ProducerFencedError, match="another client has taken over"):
        run(out, second(out))
    assert run(out, second(out, run="r2")) == ["InitProducer", *WHOLE]


def test_a_run_fences_a_client_and_aborts_its_transaction(out):
    stamp = out.next(out.init("tx"))
    out.append(stamp, (0, 3))
    assert run(out, first(out)) == ["InitProducer", *WHOLE]
    assert dict(out.partition().aborted) == {(0, 0): True}
    with pytest.raises(ProducerFencedError):
        out.end(stamp)


def test_a_refused_batch_does_not_register_its_run(out):
    run(out, first(out))
    wrong = batch(out, 1, source(out, {0: 9, 1: 20}, {0: 15, 1: 20}), run="r2")
    with pytest.raises(CheckpointMismatchError, match=r"reads source 0 from .*9.* ended at .*10"):
        run(out, wrong)
    assert out.state.producers[0].run_id == "r1"
    assert run(out, second(out)) == WHOLE


@pytest.mark.conformance("query/older-checkpoint")
def test_the_same_batch_with_other_offsets_is_an_older_checkpoint(out):
    run(out, first(out))
    other = batch(out, 0, source(out, {0: 0, 1: 0}, {0: 11, 1: 20}))
    for again in (other, other._replace(run_id="r2")):
        with pytest.raises(CheckpointMismatchError, match=r"committed with other offsets .source 0"):
            propose(out.state, again, finished=False)
        with pytest.raises(CheckpointMismatchError, match=r"committed with other offsets .source 0"):
            run(out, again)
    action = CommitMicroBatch("tx", "q", "r1", 0, first(out).sources)
    with pytest.raises(CheckpointMismatchError, match="older than the log"):
        out.do(action)


@pytest.mark.conformance("query/older-checkpoint")
def test_an_older_batch_is_an_older_checkpoint(out):
    run(out, first(out))
    run(out, second(out))
    for name in ("r1", "r2"):
        with pytest.raises(CheckpointMismatchError, match="comes after batch 1"):
            run(out, first(out, run=name))
    # Also where the offsets would go on.
    stale = batch(out, 0, source(out, {0: 15, 1: 20}, {0: 16, 1: 20}))
    with pytest.raises(CheckpointMismatchError, match="comes after batch 1"):
        run(out, stale)
    with pytest.raises(CheckpointMismatchError, match="comes after batch 1"):
        out.do(CommitMicroBatch("tx", "q", "r1", 0, stale.sources))


@pytest.mark.conformance("query/continuity")
def test_a_new_checkpoint_continues(out):
    run(out, first(out))
    with pytest.raises(CheckpointMismatchError, match="start from a new checkpoint"):
        run(out, first(out, query="new", run="r2"))
    assert run(out, second(out, number=0, query="new", run="r2")) == ["InitProducer", *WHOLE]


def test_a_group_goes_on_where_it_stands_under_any_transactional_id(out):
    run(out, first(out))
    for start in ({0: 0, 1: 0}, {0: 10}, {0: 10, 1: 19}):
        wrong = batch(out, 0, source(out, start, {0: 15, 1: 20}), transactional_id="other", query="p")
        says = "group 'g' has committed offset .* to start over, use another transactional.id and group.id"
        with pytest.raises(CheckpointMismatchError, match=says):
            run(out, wrong)
    run(out, second(out, number=0, transactional_id="other", query="p"))
    with pytest.raises(CheckpointMismatchError, match="has committed offset 15 for t-0"):
        run(out, second(out))


@pytest.mark.conformance("query/continuity")
def test_a_group_that_a_client_moved(out):
    run(out, first(out))
    out.do(CommitOffsets("g", (out.at(3),)))
    with pytest.raises(CheckpointMismatchError, match="offset 3 for t-0"):
        run(out, second(out))


@pytest.mark.parametrize("later", [False, True])
def test_of_a_micro_batch_and_a_transaction_the_later_offset_stands(out, later):
    stamp = out.next(out.init("copier"))
    out.do(CommitOffsets("g", (out.at(3),), stamp))
    run(out, first(out))
    if later:
        out.do(CommitOffsets("g", (out.at(7),), stamp))
    out.end(stamp)
    assert out.group() == {("t", 0): 7 if later else 10, ("t", 1): 20}


def test_partitions_may_join(out):
    run(out, batch(out, 0, source(out, {0: 0}, {0: 10})))
    run(out, batch(out, 1, source(out, {0: 10, 1: 0}, {0: 10, 1: 5})))
    assert out.group() == {("t", 0): 10, ("t", 1): 5}


def test_partitions_do_not_leave(out):
    run(out, first(out))
    with pytest.raises(CheckpointMismatchError, match="reads source 0"):
        run(out, batch(out, 1, source(out, {0: 10}, {0: 15})))


def test_a_topic_that_was_created_again_does_not_continue(out):
    run(out, first(out))
    out.do(DeleteTopic("t", "t-id"))
    out.topic("t", topic_id="new")
    start, end = ((out.at(at, 0, topic_id="new"),) for at in (10, 12))
    with pytest.raises(CheckpointMismatchError, match="reads source 0"):
        run(out, batch(out, 1, SourceProgress("10", "12", "g", start, end)))
    with pytest.raises(UnknownTopicOrPartitionError, match="created again"):
        run(out, batch(out, 0, source(out, {0: 0}, {0: 1}), transactional_id="other", query="p"))


def test_the_group_knows_the_incarnation(out):
    out.do(CommitOffsets("g", (out.at(5),)))
    start = (out.at(5, topic_id="old"),)
    with pytest.raises(CheckpointMismatchError, match="committed offset 5"):
        run(out, batch(out, 0, SourceProgress("5", "6", "g", start, (out.at(6),))))


def test_a_self_join_stands_at_the_one_further_behind(out):
    run(out, batch(out, 0, source(out, {0: 0}, {0: 10}), source(out, {0: 0}, {0: 4})))
    assert out.group() == {("t", 0): 4}
    with pytest.raises(CheckpointMismatchError, match="source 1"):
        run(out, batch(out, 1, source(out, {0: 10}, {0: 12}), source(out, {0: 10}, {0: 12})))
    run(out, batch(out, 1, source(out, {0: 10}, {0: 12}), source(out, {0: 4}, {0: 12})))
    assert out.group() == {("t", 0): 12}


@pytest.mark.conformance("query/continuity")
def test_sources_of_others_continue_by_their_text(out):
    def step(number, start, end, **kwargs):
        return run(out, batch(out, number, SourceProgress(start, end), **kwargs))

    step(0, None, "a")
    with pytest.raises(CheckpointMismatchError, match=r"from b, .* ended at a"):
        step(1, "b", "c")
    with pytest.raises(CheckpointMismatchError, match="an unknown place"):
        step(0, None, "c", query="new")
    step(1, "a", "c")
    assert step(1, "a", "c", run="r2") == ["InitProducer"]
    assert out.group() == {}


def test_the_number_of_sources_does_not_change(out):
    run(out, first(out))
    with pytest.raises(CheckpointMismatchError, match=r"reads 2 sources, .* read 1"):
        run(out, batch(out, 1, *second(out).sources, SourceProgress(None, "x")))


@pytest.mark.parametrize("group", [None, ""])
def test_offsets_need_a_group(out, group):
    with pytest.raises(InvalidRequestError, match="need the group"):
        run(out, batch(out, 0, source(out, {0: 0}, {0: 1}, group=group)))


def test_ends_are_offsets_of_partitions(out):
    with pytest.raises(InvalidRequestError, match="cannot go on at offset -1"):
        run(out, batch(out, 0, source(out, {0: 0}, {0: -1})))
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        run(out, batch(out, 0, source(out, {2: 0}, {2: 1})))


def test_two_drivers_that_saw_the_same_state(out):
    """The slower one's actions name an epoch that is taken by then."""
    slow = propose(out.state, first(out, run="slow"), finished=False)
    assert [type(action) for action in (slow[0], slow[-1])] == [InitProducer, EndTransaction]
    run(out, first(out, run="fast"))
    with pytest.raises(ProducerFencedError):
        out.do(*slow)
    assert out.state.producers[0].runs == ("fast",)


def test_a_source_topic_that_was_deleted_is_no_reason_to_stop(out):
    run(out, first(out))
    kept = out.appending(NO_PRODUCER, (0, 4), topic="out").files
    wanted = second(out)
    out.do(DeleteTopic("t", "t-id"))
    run(out, wanted._replace(files=kept))
    assert out.group() == {}
    assert out.partition(topic="out").end == 10
