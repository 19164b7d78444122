"""A query keeps its sources: none may come, and none may go."""

from __future__ import annotations

import pytest

from spark_eos.errors import CheckpointMismatchError
from spark_eos.protocol.actions import SourceProgress
from spark_eos.protocol.rules.microbatch import MicroBatch, propose


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
