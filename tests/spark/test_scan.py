"""How planned fetches are cut into Spark's tasks, and what a task leaves to Spark's garbage collections."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from spark_eos.log.data.arrow import array_from_numpy, constant_array
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.spark.source import scan
from spark_eos.spark.source.scan import ScanTask, split
from tests.starting import run

MB = 1 << 20


def fetches(*sizes: int) -> list[Fetch]:
    """One of 1,000 records for each size in MB."""
    found = []
    for number, size in enumerate(sizes):
        batch = BatchRef(0, 1000, 0, size * MB, 0, 0, 0)
        found.append(Fetch("t", 0, 1000 * number, 1000, 0, FileRef("f", size * MB, 0, (), False), batch))
    return found


def cut(found: list[Fetch], **limits: int) -> list[ScanTask]:
    tasks = split(TaskStorage("log", 1), {"t": Topic("t", "id", 1, {}, ())}, found, **limits)
    offsets = [(one.offset, one.next_offset) for task in tasks for one in task.fetches]
    ends = [0, *(end for _, end in offsets)]
    assert [first for first, _ in offsets] == ends[:-1]
    assert ends[-1] == 1000 * len(found)
    return tasks


def megabytes(tasks: list[ScanTask]) -> list[float]:
    return [sum(one.size * one.count / one.batch.count for one in task.fetches) / MB for task in tasks]


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1], [1]),
        ([4] * 4, [16]),  # not worth two tasks
        ([4] * 10, [20, 20]),  # a task for each processor
        ([4] * 15, [32, 28]),
        ([4] * 60, [120, 120]),
        ([8] * 80, [216, 208, 216]),  # not more than 256 MB, all alike
        ([64] * 12, [256] * 3),
        ([1, 1, 200, 1], [2, 201]),  # what cannot be cut by size is not cut
    ],
)
def test_tasks_have_about_as_many_bytes_each(sizes: list[int], expected: list[int]) -> None:
    assert megabytes(cut(fetches(*sizes))) == expected


def test_more_processors_make_more_tasks_of_16_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert megabytes(cut(fetches(*[4] * 16))) == [16] * 4


def test_records_bound_a_task_too() -> None:
    for at_least in (None, 2):
        tasks = cut(fetches(4, 4), records=700, at_least=at_least)
        assert [sum(one.count for one in task.fetches) for task in tasks] == [700, 700, 600]
    assert len(cut(fetches(4, 4), at_least=5)) >= 5
    assert all(sum(one.count for one in task.fetches) <= 400 for task in cut(fetches(*[32] * 8), at_least=20))


def test_a_task_says_how_much_it_is() -> None:
    (task,) = cut(fetches(1, 1))
    assert repr(task) == "ScanTask(2000 records of t)"
    assert scan.TASK_BYTES[0] < scan.TASK_BYTES[1]


def test_workers_freeze_what_they_have_imported_and_nobody_else_does() -> None:
    assert run("spark/freezes_imports").stdout.split() == ["False", "True", "True", "True"]


def test_reading_imports_no_pandas() -> None:
    code = (
        "import sys, pyarrow as pa; import numpy as np;"
        "from spark_eos.log.data.arrow import array_from_numpy, constant_array;"
        "array_from_numpy(np.arange(3), pa.int64()); constant_array('t', pa.string(), 3);"
        "constant_array(0, pa.int32(), 3);"
        "print('pandas' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "False"


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("t", pa.string()),
        ("Straße", pa.string()),
        (-7, pa.int32()),
        (2**40, pa.int64()),
        (1_700_000_000_123, pa.timestamp("ms", "UTC")),
    ],
)
def test_repeated_is_what_arrow_repeats(value: int | str, type_: pa.DataType, count: int) -> None:
    made = constant_array(value, type_, count)
    made.validate(full=True)
    assert made.equals(pa.repeat(pa.scalar(value, type_), count))


def test_numbers_are_the_numbers() -> None:
    made = array_from_numpy(np.arange(5, 9, dtype=np.int64), pa.int64())
    made.validate(full=True)
    assert made.to_pylist() == [5, 6, 7, 8]
