"""A query's own history: it counts under whatever transactional id, and says whether there was state to lose."""

from __future__ import annotations

import json

import pytest

from spark_eos.errors import CheckpointMismatchError, ProducerFencedError
from spark_eos.protocol.actions import (
    CommitMicroBatch,
    CommitOffsets,
    ExpireTransactionalIds,
    JoinGroup,
    SourceProgress,
)
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.invariants import check_step
from spark_eos.protocol.types import NO_PRODUCER


def progress(log, start, end, group):
    texts = (json.dumps({"t": {"0": at}}) for at in (start, end))
    return SourceProgress(*texts, group, (log.at(start),), (log.at(end),))


def batch(log, number, name="tx", run="r1", query="q", group=None, **more):
    """Batch ``number`` reads ten offsets; the group is the transactional id, as by default."""
    source = progress(log, 10 * number, 10 * number + 10, group or name)
    files = log.appending(NO_PRODUCER, (0, 4), topic="out").files
    return MicroBatch(name, query, run, number, (source,), (("out", "out-id"),), files, **more)


def run(log, wanted, finished=False):
    actions = propose(log.state, wanted, finished=finished)
    before = log.state
    if actions:
        log.do(*actions)
    check_step(before, log.state)
    return [type(action).__name__ for action in actions]


def rows(log):
    return log.partition(topic="out").end


@pytest.fixture
def out(log):
    return log.topic("out", 1)


INITS = ["InitProducer", "InitProducer"]
WHOLE = ["AppendBatches", "CommitMicroBatch", "EndTransaction"]


@pytest.mark.parametrize(("old", "new"), [("q", "tx"), ("tx", "q"), ("tx", "ty")])
def test_a_batch_is_not_doubled_under_another_transactional_id(out, old, new):
    """The run died between the two commits; the next one goes by another id (set, dropped, changed)."""
    run(out, batch(out, 0, old))
    end = rows(out)
    assert run(out, batch(out, 0, new, "r2")) == INITS
    assert rows(out) == end
    assert run(out, batch(out, 1, new, "r2")) == WHOLE
    assert {name: query.batch_id for name, query in out.state.queries.items()} == {new: 1}
    assert run(out, batch(out, 2, old, "r3")) == [*INITS, *WHOLE]
    assert {name: query.batch_id for name, query in out.state.queries.items()} == {old: 2}


def test_an_older_batch_is_refused_under_another_transactional_id(out):
    run(out, batch(out, 0))
    run(out, batch(out, 1))
    with pytest.raises(CheckpointMismatchError, match="comes after batch 1"):
        run(out, batch(out, 0, "ty", "r2"))
    other = batch(out, 1, "ty", "r2")
    (source,) = other.sources
    with pytest.raises(CheckpointMismatchError, match="committed with other offsets"):
        run(out, other._replace(sources=(source._replace(end="x"),)))
    with pytest.raises(CheckpointMismatchError, match="reads source 0"):
        run(out, batch(out, 3, "ty", "r2"))
    assert [*out.state.queries] == ["tx"]


def test_the_run_with_the_old_id_is_fenced(out):
    run(out, batch(out, 0))
    run(out, batch(out, 1, "ty", "r2"))
    for number in (1, 2):
        with pytest.raises(ProducerFencedError, match=r"run r1 .*'tx'.* run r2 has taken over"):
            run(out, batch(out, number))
    assert run(out, batch(out, 2, "ty", "r2")) == WHOLE


def test_a_rule_and_not_the_driver_keeps_the_old_run_out(out):
    """What `propose` asked for is refused if the query has moved meanwhile."""
    run(out, batch(out, 0))
    slow = propose(out.state, batch(out, 1), finished=False)
    run(out, batch(out, 1, "ty", "r2"))
    end = rows(out)
    with pytest.raises(ProducerFencedError):
        out.do(*slow)
    assert rows(out) == end
    # Nor does a run get past the query's other id by registering under one of them alone.
    out.init("tx", run_id="r9")
    with pytest.raises(ProducerFencedError, match=r"run r9 .*'ty' .* run r2 has taken over"):
        out.do(CommitMicroBatch("tx", "q", "r9", 2, batch(out, 2).sources))


def test_a_zombie_that_never_registered_does_not_take_the_query_back(out):
    run(out, batch(out, 0, "ty", "r2"))
    with pytest.raises(ProducerFencedError, match="run zombie"):
        run(out, batch(out, 0, run="zombie"), finished=True)
    assert run(out, batch(out, 1, "ty", "r2")) == WHOLE


def test_the_group_goes_with_the_id_that_it_goes_by(out):
    run(out, batch(out, 0))
    run(out, batch(out, 1, "ty", "r2"))
    assert (out.group("tx"), out.group("ty")) == ({}, {("t", 0): 20})
    run(out, batch(out, 2, "tx", "r3"))
    assert (out.group("tx"), out.group("ty")) == ({("t", 0): 30}, {})


def test_a_group_that_others_use_stays(out):
    run(out, batch(out, 0))
    out.do(CommitOffsets("tx", (out.at(3),)))
    run(out, batch(out, 1, "ty", "r2"))
    assert out.group("tx") == {("t", 0): 3}  # A client has moved it.
    run(out, batch(out, 0, "other", "p1", "p", "shared"))
    with pytest.raises(CheckpointMismatchError, match=r"has committed offset 10 .*Begin the source where"):
        run(out, batch(out, 2, "ty", "r2", group="shared"))


def test_a_group_that_has_members_by_now_keeps_its_offsets(out):
    run(out, batch(out, 0))
    out.do(JoinGroup("tx", "member", ("out",), ("range",), 1000))
    run(out, batch(out, 1, "ty", "r2"))
    assert (out.group("tx"), out.group("ty")) == ({("t", 0): 10}, {("t", 0): 20})


def test_the_old_id_expires_and_the_new_one_does_not(out):
    run(out, batch(out, 0))
    run(out, batch(out, 1, "ty", "r2"))
    out.now += 8 * 24 * 3600 * 1000
    out.do(ExpireTransactionalIds(("tx",)))
    with pytest.raises(Exception, match="holds the progress"):
        out.do(ExpireTransactionalIds(("ty",)))
    with pytest.raises(ProducerFencedError):
        run(out, batch(out, 1), finished=True)
    assert run(out, batch(out, 2, run="r3")) == [*INITS, *WHOLE]


def test_an_id_that_another_query_holds_is_not_taken(out):
    run(out, batch(out, 0, "tx", group="g"))
    run(out, batch(out, 0, "ty", "p1", "p", "h"))
    run(out, batch(out, 1, "ty", "p1", "p", "h"))
    with pytest.raises(CheckpointMismatchError, match=r"'ty' .batch 1 of query p. ended at"):
        run(out, batch(out, 1, "ty", "r2", group="g"))


def test_a_later_batch_of_a_query_that_the_log_does_not_know(out):
    with pytest.raises(CheckpointMismatchError, match="this log has no micro-batch of query q, but batch 3"):
        run(out, batch(out, 3))
    assert not out.state.queries


# -- state ----------------------------------------------------------------------------------------------


def goes_on(out, name, query, **more):
    """Batch 0 of a new query, where batch 0 of the old one ended."""
    more = {"stateful": True, **more}
    later = batch(out, 1, name, "n1", query, "g", **more)
    return later._replace(batch_id=0)


@pytest.mark.parametrize("name", ["tx", "another"])
def test_a_stateful_query_does_not_go_on_without_its_state(out, name):
    run(out, batch(out, 0, group="g", stateful=True))
    with pytest.raises(CheckpointMismatchError, match=r"keeps state .* allowStateLoss=true"):
        run(out, goes_on(out, name, "new"))
    assert rows(out) == 5
    run(out, goes_on(out, name, "new", state_loss=True))
    run(out, batch(out, 2, name, "n1", "new", "g", stateful=True)._replace(batch_id=1))


def test_a_query_without_state_has_none_to_lose(out):
    run(out, batch(out, 0, group="g"))
    run(out, goes_on(out, "tx", "new"))
    out.do(CommitOffsets("g", ()))
    run(out, batch(out, 2, "tx", "n2", "newer", "g")._replace(batch_id=0))


def test_a_query_that_begins_anew_loses_no_state(out):
    run(out, batch(out, 0, group="g", stateful=True))
    run(out, batch(out, 0, "other", "p1", "p", "h", stateful=True))
