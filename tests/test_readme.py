"""What the README says is so: its examples run, and the tests it names are there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUARANTEES = (ROOT / "docs/quality/guarantees.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path):
    examples = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    code = "\n".join(examples)
    assert "/tmp/first-log" in code
    code = code.replace("/tmp/first-", f"{tmp_path}/first-")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    squares, records = done.stdout.strip().splitlines()[-2:]
    assert squares == "1000"
    assert "value=b'one'" in records
    assert records.count("ConsumerRecord(") == 1


def test_the_tests_that_prove_the_guarantees_are_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", GUARANTEES)
    assert len(named) > 15
    for path, test in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{path} has no {test}"


def test_links_lead_somewhere():
    """All are absolute, as package indexes show the README, too."""
    (repository,) = re.findall(r'^Repository = "(.+)"$', PROJECT, re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    assert len(links) > 15
    for link in links:
        path = re.fullmatch(rf"{re.escape(repository)}/(?:blob|tree)/main/(.+)", link)
        assert path, f"{link} is not below {repository}"
        assert (ROOT / path[1]).exists(), link
