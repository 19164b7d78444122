"""A query keeps its sources, unless they have names: then they come and go, and begin where they ended."""

from __future__ import annotations

import pytest

from spark_eos.errors import CheckpointMismatchError
from spark_eos.protocol.actions import CommitOffsets, SourceProgress
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose


def run(log, number, *sources, query="q"):
    progress = tuple(SourceProgress(start, end) for start, end in sources)
    batch = MicroBatch("tx", query, "r", number, progress, (), ())
    log.do(*propose(log.state, batch, finished=False))


@pytest.mark.parametrize("query", ["q", "another"])
def test_a_source_does_not_go(log, query):
    run(log, 0, (None, "a"), (None, "b"))
    with pytest.raises(CheckpointMismatchError, match=r"reads 1 sources, .* read 2"):
        run(log, 1, ("a", "c"), query=query)
    assert [source.end for source in log.state.queries["tx"].sources] == ["a", "b"]


# -- sources with names (version 2 of Spark's offset log) ------------------------------------------------


def ours(log, name, topic, start, end, group="g"):
    at = {"start_offsets": (log.at(start, 0, topic),), "end_offsets": (log.at(end, 0, topic),)}
    return SourceProgress(f"{topic}{start}", f"{topic}{end}", group, name=name, **at)


def foreign(name, start, end):
    return SourceProgress(start, end, name=name)


def step(log, number, *sources, run="r"):
    """Commit a batch; then again, as after a crash between the two commits, by another run."""
    batch = MicroBatch("tx", "q", run, number, sources, (), ())
    log.do(*propose(log.state, batch, finished=False))
    again = propose(log.state, batch._replace(run_id=f"{run}-{number}"), finished=False)
    assert [type(action).__name__ for action in again] == ["InitProducer"]
    with pytest.raises(CheckpointMismatchError, match="with other offsets"):
        propose(log.state, batch._replace(sources=sources[1:]), finished=False)


@pytest.fixture
def topics(log):
    return log.topic("a", 1).topic("b", 1).topic("c", 1)


def test_named_sources_come_and_go(topics):
    step(topics, 0, ours(topics, "A", "a", 0, 5), ours(topics, "B", "b", 0, 7))
    # In any order, with one more, without one, and with both.
    step(topics, 1, ours(topics, "C", "c", 3, 4), ours(topics, "B", "b", 7, 8), ours(topics, "A", "a", 5, 5))
    step(topics, 2, ours(topics, "C", "c", 4, 5), ours(topics, "A", "a", 5, 6))
    assert [source.name for source in topics.state.queries["tx"].former] == ["B"]
    step(topics, 3, ours(topics, "C", "c", 5, 6), ours(topics, "A", "a", 6, 7))
    step(topics, 4, *(ours(topics, *at) for at in (("A", "a", 7, 8), ("B", "b", 8, 9), ("C", "c", 6, 6))))
    assert topics.state.queries["tx"].former == ()
    assert topics.group() == {("a", 0): 8, ("b", 0): 9, ("c", 0): 6}


@pytest.mark.parametrize("group", ["g", "another"])
@pytest.mark.parametrize("name", ["A", "renamed"])
@pytest.mark.parametrize("away", [False, True])
def test_a_source_that_comes_back_or_is_renamed_begins_where_it_ended(topics, name, group, away):
    step(topics, 0, ours(topics, "A", "a", 0, 5), ours(topics, "B", "b", 0, 7))
    number, b = (2, (8, 9)) if away else (1, (7, 9))
    if away:
        step(topics, 1, ours(topics, "B", "b", 7, 8))
    for start in (0, 6):
        with pytest.raises(
            CheckpointMismatchError, match=r"but the query has read it as source A up to 5|ended at a5"
        ):
            step(topics, number, ours(topics, name, "a", start, 9, group), ours(topics, "B", "b", *b))
    step(topics, number, ours(topics, name, "a", 5, 9, group), ours(topics, "B", "b", *b))


def test_a_committed_batch_is_the_same_one_without_a_source_that_has_left_the_query(topics):
    """Nothing of it was read, so its end is not known; its beginning is."""
    step(topics, 0, ours(topics, "A", "a", 0, 5), ours(topics, "B", "b", 0, 7))

    def again(start):
        sources = ours(topics, "A", "a", start, start), ours(topics, "B", "b", 0, 7)
        batch = MicroBatch("tx", "q", "r2", 0, sources, (), (), away=frozenset({"A"}))
        return [type(action).__name__ for action in propose(topics.state, batch, finished=False)]

    assert again(0) == ["InitProducer"]
    with pytest.raises(CheckpointMismatchError, match="with other offsets"):
        again(1)


def test_a_source_that_is_new_begins_where_its_group_stands(topics):
    topics.do(CommitOffsets("g", (topics.at(4, 0, "b"),)))
    step(topics, 0, ours(topics, "A", "a", 0, 5))
    with pytest.raises(
        CheckpointMismatchError, match=r"group 'g' has committed offset 4 .*Begin the source where"
    ):
        step(topics, 1, ours(topics, "A", "a", 5, 5), ours(topics, "B", "b", 0, 5))
    step(topics, 1, ours(topics, "A", "a", 5, 5), ours(topics, "B", "b", 4, 5))


def test_sources_of_others_come_and_go(topics):
    step(topics, 0, foreign("K", None, "k1"), foreign("F", None, '{"logOffset":3}'))
    step(topics, 1, foreign("K", "k1", "k2"))
    with pytest.raises(
        CheckpointMismatchError, match="if it is the same one under another name, it starts over"
    ):
        step(topics, 2, foreign("L", None, "k1"))
    # Spark's source of files goes on by the list that it keeps in the checkpoint.
    step(topics, 2, foreign("K", "k2", "k3"), foreign("F", None, '{"logOffset":4}'))
    step(topics, 3, foreign("F", '{"logOffset":4}', '{"logOffset":4}'))
    step(topics, 4, foreign("F", '{"logOffset":4}', '{"logOffset":4}'), foreign("L", None, "l1"))
    with pytest.raises(
        CheckpointMismatchError, match="reads source K again, which the query has read up to k3"
    ):
        step(
            topics,
            5,
            *(foreign(*at) for at in (("F", *['{"logOffset":4}'] * 2), ("L", "l1", "l2"), ("K", None, "k9"))),
        )


def test_names_of_digits_are_places(topics):
    step(topics, 0, ours(topics, "0", "a", 0, 5), ours(topics, "1", "b", 0, 7))
    with pytest.raises(CheckpointMismatchError, match=r"reads 1 sources, .* read 2"):
        step(topics, 1, ours(topics, "0", "a", 5, 6))
    step(topics, 1, *(ours(topics, *at) for at in (("1", "b", 7, 7), ("2", "c", 0, 1), ("0", "a", 5, 6))))


@pytest.mark.parametrize("names", [(None, None), ("0", "1"), ("A", "B")])
def test_sources_that_changed_places_are_refused(topics, names):
    """A source goes on with the topics it had, and takes up those of the other one from their beginning."""
    one, two = names
    step(topics, 0, ours(topics, one, "a", 0, 5), ours(topics, two, "b", 0, 7))

    def swapped(name, topic, start, other):
        source = ours(topics, name, topic, start, start)
        return source._replace(end_offsets=(*source.end_offsets, topics.at(9, 0, other)))

    with pytest.raises(CheckpointMismatchError, match=r"reads topic 'b' as source .* have changed places"):
        step(topics, 1, swapped(one, "a", 5, "b"), swapped(two, "b", 7, "a"))
    step(topics, 1, ours(topics, one, "a", 5, 6), ours(topics, two, "b", 7, 7))


def test_a_new_checkpoint_may_name_its_only_source(topics):
    step(topics, 0, ours(topics, None, "a", 0, 5))
    batch = MicroBatch("tx", "new", "n", 0, (ours(topics, "A", "a", 5, 6),), (), ())
    topics.do(*propose(topics.state, batch, finished=False))
