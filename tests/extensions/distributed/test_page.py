"""The programs of docs/extensions/distributed.md print what the page says. Spark's is in test_on_spark.py."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.extensions.distributed.page import PAGE, programs

ALONE = ("concurrent.futures", "multiprocessing", "Dask")


def run(tmp_path, name):
    program = programs(tmp_path)[name]
    script = tmp_path / "program.py"
    script.write_text(program.text, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PAGE.parents[2]), *sys.path])},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, program.output), done.stderr[-4000:]


@pytest.mark.deep("Dask", "concurrent.futures")
@pytest.mark.parametrize("name", ALONE)
def test_a_program_of_the_page(tmp_path, name):
    run(tmp_path, name)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray has 250 MB: it is run by hand")
def test_the_program_for_ray(tmp_path):
    run(tmp_path, "Ray")


def test_the_page_has_no_other_programs(tmp_path):
    assert [*programs(tmp_path)] == [*ALONE, "Ray", "Spark's executors"]
