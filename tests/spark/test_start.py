"""Queries that Spark gives up on before they begin."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos.spark import listener, progress, start
from spark_eos.spark.start import start_query

COPY = Path(__file__).parent / "drivers" / "copy_topic.py"
SLOW_ONCE = """\
#!/bin/sh
# A Python that takes too long for Spark when it is first asked to plan a stream.
case "$*" in
*streaming_source_runner*) [ -e "{mark}" ] || {{ touch "{mark}"; sleep 12; }} ;;
esac
exec "{python}" "$@"
"""


@pytest.mark.deep
def test_a_query_whose_python_was_slow_to_start_is_started_again(bench, tmp_path):
    bench.topic("src", 2)
    bench.produce("src", range(50))
    python, mark = tmp_path / "python", tmp_path / "slow"
    python.write_text(SLOW_ONCE.format(mark=mark, python=sys.executable))
    python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, COPY, bench.url, "src", "out", tmp_path / "checkpoint", "100"],
        env={
            **os.environ,
            "PYTHONPATH": str(COPY.parents[3]),
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert mark.exists()
    assert "Spark gave up on a Python process" in done.stderr
    assert bench.values("out") == [*range(50)]


class Query:
    """A query that ends with an error at once, or never."""

    def __init__(self, error):
        self._error = error
        self.isActive = error is None
        self.status = {"message": "Waiting for next trigger"}
        self.was_awaited = False

    def exception(self):
        return self._error

    def awaitTermination(self):
        self.was_awaited = True
        raise self._error


@pytest.mark.parametrize("others", [[], ["a ProducerFencedError"]])
def test_what_is_not_of_the_start_is_left_to_the_caller_and_tries_are_bounded(others):
    gave_up = StreamingQueryException("Python worker failed to connect back. SQLSTATE: XXKST")
    made = [*(Query(StreamingQueryException(text)) for text in others), *(Query(gave_up) for _ in range(9))]
    started = []

    def start():
        # Spark holds the name of a query until it has ended, which is after its error is known.
        assert all(query.was_awaited for query in started)
        started.append(made[len(started)])
        return started[-1]

    query = start_query(start, tries=3)
    assert query is made[0 if others else 2]
    assert not query.was_awaited


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_function_of_foreach_batch_whose_python_was_slow_to_start_is_tried_again(failures, caplog):
    """Spark Connect starts its process before the query: the call that starts it fails, and there is no query."""
    tried = []

    def start():
        tried.append(Query(None))
        if len(tried) <= failures:
            raise StreamingQueryException("Python worker failed to connect back.")
        return tried[-1]

    if failures == 3:
        with pytest.raises(StreamingQueryException, match="connect back"):
            start_query(start, tries=3)
    else:
        assert start_query(start, tries=3) is tried[failures]
    assert len(tried) == min(failures + 1, 3)
    assert caplog.text.count("Spark gave up on a Python process") == min(failures, 2)


def test_another_error_of_the_call_that_starts_is_the_callers():
    tried = []

    def start():
        tried.append(1)
        raise StreamingQueryException("a query of that name is active")

    with pytest.raises(StreamingQueryException, match="of that name"):
        start_query(start, tries=3)
    assert tried == [1]


@pytest.mark.deep("spark_eos.spark.progress")
@pytest.mark.parametrize("module", [start, progress, listener])
def test_the_example_of_the_docstring_runs(module, spark, tmp_path):
    done = doctest.testmod(module, extraglobs={"spark": spark, "folder": str(tmp_path)})
    assert done.attempted > 0
    assert done.failed == 0
