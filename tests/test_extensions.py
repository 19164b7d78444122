"""Extensions: what they announce is there, what nobody asks for is not loaded, and each can be deleted."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from spark_eos import extending
from spark_eos.errors import ConfigError
from spark_eos.extending import Extension
from tests import starting
from verification.processes import environment

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "spark_eos/extensions"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))
KERNEL = ("config", "storage", "protocol", "log", "clients", "spark", "maintenance", "cli", "monitoring")


@pytest.mark.parametrize("name", NAMES)
def test_a_declaration_loads_nothing(name):
    """It is read by each process that asks for anything, such as a public name."""
    tree = ast.parse((FOLDER / name / "__init__.py").read_text("utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "spark_eos.extending"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]


@pytest.mark.parametrize("seam", [field.name for field in fields(Extension)])
def test_all_that_is_announced_is_there(seam):
    assert [key for key, added in extending.all_added(seam) if added is None] == []
    assert extending.keys_added(seam) != ()


def test_no_two_extensions_add_the_same():
    for field in fields(Extension):
        keys = [key for _, one in extending._extensions() for key in getattr(one, field.name)]
        assert len(keys) == len({*keys}), field.name


def test_each_extension_has_tests_of_its_own():
    assert [name for name in NAMES if not [*(ROOT / "tests/extensions" / name).glob("test_*.py")]] == []


def test_an_extra_has_the_name_of_the_extension_that_needs_it():
    """And no other package is asked for but those of the kernel."""
    asked = {}
    for path in FOLDER.glob("*/**/*.py"):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source if "Loading(" in source else "")):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Loading":
                asked.setdefault(path.relative_to(FOLDER).parts[0], set()).add(node.args[1].value)
    assert asked == {name: {name.replace("_", "-")} for name in asked}
    section = re.search(
        r"^# Of extensions:.*?^\[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    extras = re.findall(r"^([a-z-]+) = \[", section[0], re.MULTILINE)
    assert extras == [name.replace("_", "-") for name in sorted(asked)]


def test_a_row_that_is_written_and_read_loads_no_extension(tmp_path):
    assert starting.run("extensions/loads_no_extension", tmp_path).stdout.split() == []


def test_what_is_missing_is_named():
    with pytest.raises(ConfigError, match=r"topic 't' needs an extension .*value_formats 'xml'"):
        extending.needed("value_formats", "xml", "topic 't'")


# -- Deleted ----------------------------------------------------------------------------------------------


def copied(folder, *without):
    """The package and its tests, without these extensions."""
    ignored = shutil.ignore_patterns("__pycache__")
    for part in ("spark_eos", "tests", "verification", "benchmarks", "conf", "jobs", "docs", "scripts"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for name in ("pyproject.toml", "pyspark_eoslog.py", "README.md"):
        shutil.copy(ROOT / name, folder)
    for name in without:
        part = "spark_eos/kafka" if name == "kafka" else f"spark_eos/extensions/{name}"
        shutil.rmtree(folder / part)
        shutil.rmtree(folder / f"tests/extensions/{name}", ignore_errors=True)
    return folder


def run(folder, *arguments):
    ran = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    return ran.stdout


def smoke(folder, *names):
    (folder / "used").mkdir()
    _, program, *arguments = starting.command("extensions/smoke", folder / "used", *names)
    run(folder, Path(program).relative_to(ROOT), *arguments)


def test_without_all_of_them_the_kernel_works(tmp_path):
    bare = copied(tmp_path / "bare", *NAMES, "kafka")
    smoke(bare, "missing")


@pytest.mark.deep
@pytest.mark.parametrize("name", [*NAMES, "kafka"])
def test_without_one_all_others_work(name, tmp_path):
    less = copied(tmp_path / "less", name)
    smoke(less, *(other for other in (*NAMES, "kafka") if other != name))
    run(less, "-m", "pytest", "--co", "-q", "-n", "0", *(f"tests/{part}" for part in (*KERNEL, "extensions")))


@pytest.mark.deep
def test_without_all_of_them_the_tests_of_the_kernel_pass(tmp_path):
    bare = copied(tmp_path / "bare", *NAMES, "kafka")
    run(bare, "-m", "pytest", "-q", "-n", "2", *(f"tests/{part}" for part in KERNEL))
