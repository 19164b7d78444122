"""docs/quality/spark-facts.md: what the tests of this folder say of Spark; ``scripts/generate`` writes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quality" / "spark-facts.md"
_RESTS = "Rests on it: "
_HEAD = """# What Spark does

The source and the sink rest on what Spark does and mostly does not promise. Each statement below is a test on a real
Spark, with a source and a sink that do nothing but write down how they are called
([`tests/spark_facts`](../../tests/spark_facts)). `python tests/spark_facts/page.py` makes this page from the tests,
and a test compares the two. The tests pass with Spark 4.1.4, 4.2.0 and 4.3.0 (`scripts/test-matrix`), most of
them also with 4.2.1; the second column says with which of the three minor versions a statement holds.

The calls of 46 life cycles with Spark 4.1.4, and of 49 with 4.2.0 and 4.3.0, are in
[`tests/spark_calls/recordings`](../../tests/spark_calls/recordings), a folder for each Spark that did something new.
In 47 of them 4.3.0 did what 4.2.0 did. In one it planned two sources in the other order, twice. In one the task of a
stopped query ended before the next one began, as with 4.2.0 on a busy machine.

In 47 of the 49 4.2.1 did what 4.2.0 did. The other two are those in which 4.3.0 differs; whether in the
same way was not compared. `killed-while-a-source-is-added` was another three times of three, `stopped-in-the-middle` in
the one run.

**What 4.3 brings, and what is used of it.** Nothing of the interfaces of Python sources and sinks. PySpark's modules
for them differ in docstrings and in one conversion of rows that are no Arrow batches; the classes of
`org.apache.spark.sql.execution.datasources.v2.python` have the same signatures and the same code. So streams still
get neither columns nor filters, sources and sinks have no metrics of their own, and real-time mode takes neither.
What stands in for them stays: `option("columns")`, `filterPushdown`, progress by a listener, `reportLatestOffset`.
"""
_ALL, _NEWER, _OLDER = "4.1 4.2 4.3", "4.2 4.3", "4.1"


def facts(path):
    """(test, statement, versions, modules that rest on it) for each test of a file; every test has all four."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            statement, rests = (ast.get_docstring(node) or "").split("\n\n")
            if not rests.startswith(_RESTS):
                raise ValueError(f"{path.name}::{node.name} does not say which module rests on it")
            modules = re.findall(r"`([^`]+)`", rests)
            yield node.name, " ".join(statement.split()), _holds(node), modules


def _holds(test):
    """The versions of Spark that a test runs with."""
    marks = {one.func.attr for one in test.decorator_list if isinstance(one, ast.Call)}
    return _NEWER if "since" in marks else _OLDER if "skipif" in marks else _ALL


def files():
    """The files of tests, in the order of the page."""
    found = [Path(__file__).parent / f"test_{name}.py" for name in ("streams", "batches", "applications")]
    assert {*found} == {*Path(__file__).parent.glob("test_*.py")} - {Path(__file__).parent / "test_page.py"}
    return found


def page(_text=""):
    """The text of the page."""
    parts = [_HEAD]
    for path in files():
        title = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").splitlines()[0]
        rows = [
            f"| {statement.replace('|', chr(92) + '|')} | {versions} | `{name}` | "
            f"{', '.join(f'`{one}`' for one in modules)} |"
            for name, statement, versions, modules in facts(path)
        ]
        parts.append(f"## {title}\n`{path.relative_to(ROOT)}`\n")
        parts.append(
            "| Spark | with | test | what rests on it |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)
