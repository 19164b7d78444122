"""Spark's tasks stage for a transaction outside of the sink: the program of docs/extensions/distributed.md."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

import pytest

from spark_eos import read_arrow
from tests.extensions.distributed.page import programs


@pytest.mark.deep
@pytest.mark.usefixtures("spark")
def test_tasks_of_spark_stage_rows(tmp_path):
    program = programs(tmp_path)["Spark's executors"]
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(program.text, "a block of the page", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == program.output
    log = f"{tmp_path}/many-processes-5"
    ids = [int(value) for value in read_arrow(log, "ids").read_all()["value"].to_pylist()]
    assert ids == [*range(1000)]
    assert {*read_arrow(log, "words").read_all()["value"].to_pylist()} == {b"one", b"two", b"three"}
