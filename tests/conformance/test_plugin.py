"""The plugin and the page: a row without a passing test is a failure, and so is a page that is not up to date."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.conformance.rows import BY_ID, TABLES, Row, Section, Table

ROOT = Path(__file__).resolve().parent.parent.parent

CONFTEST = """
import pytest
from tests.conformance.plugin import Conformance, pytest_addoption
from tests.conformance.rows import Row

ROWS = {name: Row(name, name, reason) for name, reason in [("a", None), ("b", None), ("c", "no such thing")]}

def pytest_configure(config):
    config.pluginmanager.register(Conformance(config, ROWS))
"""
A = "import pytest\n@pytest.mark.conformance('a')\ndef test_a(): pass\n"
B = "@pytest.mark.conformance('b')\ndef test_b(): pass\n"


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest over a test file of this source; the rows are a, b, and c, which cannot apply."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)

    def run(source, *arguments, xdist=False):
        pytester.makepyfile(source)
        if xdist:
            pytest.importorskip("xdist")
            return pytester.runpytest_subprocess("-n1", *arguments)
        return pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:hypothesispytest", *arguments)

    return run


both = pytest.mark.parametrize("xdist", [False, True])


@pytest.mark.deep("True")
@both
def test_every_row_is_shown(run, xdist):
    result = run(A + B, xdist=xdist)
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*conformance*rows are not shown*")


def test_a_test_may_carry_several_rows(run):
    assert run(A.replace("'a'", "'a', 'b'")).ret == 0


@pytest.mark.deep("True")
@both
def test_a_row_without_a_test_fails_the_run(run, xdist):
    result = run(A, xdist=xdist)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["b: no test passed: no test carries it", "1 of 3 rows are not shown"])


def test_a_row_whose_only_test_is_skipped_fails_the_run(run):
    result = run(A + "@pytest.mark.skip\n" + B)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["b: no test passed: *::test_b (skipped)"])


@pytest.mark.deep("pytest.xfail()-True")
@pytest.mark.parametrize(
    ("body", "xdist"), [("assert False", False), ("pytest.xfail()", False), ("pytest.xfail()", True)]
)
def test_one_failing_test_of_a_row_is_enough(run, body, xdist):
    result = run(A + B + f"@pytest.mark.conformance('b')\ndef test_c(): {body}\n", xdist=xdist)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["b: failed: *::test_c"])


@pytest.mark.parametrize("phase", ["before", "after"])
def test_an_error_around_a_test_counts(run, phase):
    lines = ["assert False", "yield"] if phase == "before" else ["yield", "assert False"]
    fixture = f"@pytest.fixture\ndef broken():\n    {lines[0]}\n    {lines[1]}\n"
    result = run("import pytest\n" + fixture + A + B.replace("test_b()", "test_b(broken)"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["b: failed: *::test_b"])


@pytest.mark.parametrize(
    ("marker", "message", "xdist"),
    [
        ("conformance('nowhere')", "*there is no conformance row 'nowhere'*", False),
        pytest.param(
            "conformance('nowhere')",
            "*there is no conformance row 'nowhere'*",
            True,
            marks=pytest.mark.deep,
        ),
        ("conformance('c')", "*carries 'c', which cannot apply: no such thing*", False),
        ("conformance()", "*takes row ids, and at least one*", False),
        ("conformance", "*takes row ids, and at least one*", False),
    ],
)
def test_a_marker_that_names_no_row_is_an_error(run, marker, message, xdist):
    result = run(A + B + f"@pytest.mark.{marker}\ndef test_c(): pass\n", "-k", "test_a", xdist=xdist)
    assert result.ret in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED}
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


@pytest.mark.parametrize(
    "narrowed", [["-k", "test_a"], ["-m", "conformance"], ["test_it.py"], ["--deselect", "x"]]
)
def test_a_run_of_some_tests_needs_no_row(run, narrowed, pytester):
    pytester.makepyfile(test_it=A)
    assert run("", *narrowed).ret == 0


def test_naming_the_folder_of_all_tests_is_a_run_of_all(run, pytester):
    assert run(A, ".").ret == pytest.ExitCode.TESTS_FAILED
    assert run(A, str(pytester.path)).ret == pytest.ExitCode.TESTS_FAILED


@both
def test_outcomes_are_written(run, tmp_path, xdist):
    path = tmp_path / "outcomes.json"
    run(A + B.replace("pass", "assert False"), f"--conformance={path}", xdist=xdist)
    written = json.loads(path.read_text())
    name = "test_outcomes_are_written.py"
    assert written == {
        "full": True,
        "rows": {
            "a": {"cannot_apply": None, "tests": {f"{name}::test_a": "passed"}},
            "b": {"cannot_apply": None, "tests": {f"{name}::test_b": "failed"}},
            "c": {"cannot_apply": "no such thing", "tests": {}},
        },
    }


# -- The rows and the page ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("conformance_script", ROOT / "scripts" / "conformance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SMALL = (Table("T", "Intro.", (Section("S", (Row("S.one", "It."), Row("two", "Not.", "no reason"))),)),)


def test_a_page(script):
    page = script.render(
        SMALL, {"S.one": ["tests/a.py::test_x[1]", "tests/a.py::test_x[2]", "tests/b.py::test_y"]}
    )
    assert "2 rows, 1 of which cannot apply." in page
    assert "| one | It. | [test_x](../../tests/a.py)<br>[test_y](../../tests/b.py) |" in page
    assert "| two | Not. | cannot apply: no reason |" in page
    assert "**none**" in script.render(SMALL, {})


def test_a_stale_page_is_refused(script, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    carried = {"S.one": ["tests/a.py::test_x"], "two": []}
    for name, value in {
        "ROOT": tmp_path,
        "PAGE": page,
        "TABLES": SMALL,
        "collect": lambda _root: carried,
    }.items():
        monkeypatch.setattr(script, name, value)
    with pytest.raises(SystemExit, match=r"page\.md is not up to date: run scripts/conformance"):
        script.main(["--check"])
    assert not page.exists()
    script.main([])
    script.main(["--check"])
    assert "0 without a test" in capsys.readouterr().out
    carried["S.one"] = ["tests/a.py::test_other"]
    with pytest.raises(SystemExit, match="not up to date"):
        script.main(["--check"])
    carried["S.one"] = []
    script.main([])
    assert "1 without a test\n  S.one" in capsys.readouterr().out


def test_rows_are_written_for_a_table():
    assert len(BY_ID) > 90
    assert TABLES[0].title == "Kafka's own tests"
    for row in BY_ID.values():
        assert row.shows.endswith("."), row.id
        assert "|" not in row.id + row.shows
