"""Nothing is loaded for the first time inside of a commit: others may be waiting for it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import first_commits

SCRIPT = Path(__file__).with_name("first_commits.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("first")
    (made / "micro_batch").mkdir()
    first_commits.written(str(made / "member"))
    first_commits.staged(made / "micro_batch")
    subprocess.run([sys.executable, SCRIPT, "all", made], check=True)
    return made


@pytest.mark.parametrize("name", first_commits.SCENARIOS)
def test_the_first_commit_of_a_process_loads_nothing(name, folder):
    told = (folder / f"{name}.err").read_text()
    assert re.fullmatch(r"heard for [0-9.]+ ms", told), told
    assert (folder / f"{name}.out").read_text().split() == []


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
