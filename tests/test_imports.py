"""Nothing is loaded for the first time inside of a commit: others may be waiting for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.first_commits import SCENARIOS

SCRIPT = Path(__file__).with_name("first_commits.py")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_first_commit_of_a_process_loads_nothing(name, tmp_path):
    ran = subprocess.run(
        [sys.executable, SCRIPT, name, tmp_path / "log"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == []
    assert "heard" in ran.stderr, "nobody watched"


def test_what_is_loaded_late_is_heard_of(tmp_path):
    """The watch itself: a module that the commit does need is missed."""
    code = (
        "import sys; sys.argv = ['', 'idempotent', sys.argv[1]]; import spark_eos.clients.producer.base as module;"
        f"module.ready_for_columns = lambda: None; import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "pandas" in ran.stdout.split()


def test_the_package_itself_loads_no_library():
    code = (
        "import sys, spark_eos;"
        "heavy = {'pyarrow', 'numpy', 'fastavro', 'pandas', 'obstore', 'immutables', 'typer', 'rich', 'pydantic'};"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == []
