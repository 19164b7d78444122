"""Spark's Python workers are forked; here from a process that has used the log before, as a warm daemon may."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.log.log import Log
from tests.forking import in_child

ROWS = pa.record_batch([pa.array([b"k"], pa.binary())] * 2, names=["key", "value"])


def test_tasks_in_children_of_a_process_that_has_used_the_log(bench, driver):
    query = driver()
    query.run(0, "a")
    writer = query.writer

    def task():
        Log.shared(bench.url)  # As some option's check may.
        message = writer.write(iter([ROWS]))
        message.query_id, message.run_id = query._checkpoint.query_id, query.run_id
        return message

    messages = [in_child(task) for _ in range(3)]
    query.commit(messages, 1)
    assert bench.values("out") == ["a", "k", "k", "k"]
    files = [staged.file.name for message in messages for staged in message.files]
    assert len({*files}) == 3


@pytest.mark.parametrize("times", [1, 2])
def test_a_micro_batch_that_a_child_commits(bench, driver, times):
    """The process that commits is another one each time, and may be forked from one that has committed."""
    query = driver()
    query.run(0, "a")
    messages = query.stage("b")
    for _ in range(times):
        assert in_child(lambda: query.commit(messages, 1)) is None
    query.commit(messages, 1)
    assert bench.values("out") == ["a", "b"]
