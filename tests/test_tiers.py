"""Which tests are run without `--all`, what is said of the others, and what a profile has."""

from __future__ import annotations

import json

import hypothesis
import pytest

from tests.scheduling import TESTS

SOURCE = """
import pytest
from hypothesis import given, strategies as st
from tests.tiers import examples

tried = []

def test_quick(): pass

@pytest.mark.deep
def test_deep(): pass

@pytest.mark.deep("b", "c")
@pytest.mark.parametrize("letter", "abc")
def test_some(letter): pass

@examples(40)
@given(st.integers())
def test_property(number): tried.append(number)

def test_tried():
    print("tried", len(tried))
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    pytester.makepyfile(test_it=SOURCE)
    options = ("-p", "tests.tiers", "-p", "tests.profiling", "-v", "-s")
    kept = hypothesis.settings.get_current_profile_name()

    def run(*more):
        """In this process, which is quicker, but where there are to be several, or their time is measured."""
        if {"-n", "--profile"} & {*more}:
            return pytester.runpytest_subprocess(*options, *more)
        try:
            return pytester.runpytest_inprocess(
                "-p", "no:xdist", "-p", "no:hypothesispytest", *options, *more
            )
        finally:
            hypothesis.settings.load_profile(kept)

    return run


@pytest.mark.parametrize(
    ("arguments", "passed", "deselected"),
    [
        ((), 4, 3),
        (("--all",), 7, 0),
        (("-n", "1"), 4, 3),
        (("test_it.py::test_deep",), 1, 0),
        (("--quick", "test_it.py::test_deep"), 0, 1),
        (("--deselect", "test_it.py::test_some[b]"), 4, 3),
    ],
)
def test_what_is_deep_runs_with_all_or_by_its_name(run, arguments, passed, deselected):
    done = run(*arguments)
    # What a process of several left out, it does not tell the one that prints.
    done.assert_outcomes(passed=passed, deselected=None if "-n" in arguments else deselected)


@pytest.mark.parametrize(("arguments", "number"), [((), 10), (("--all",), 40)])
def test_a_property_is_tried_more_often_with_all(run, arguments, number):
    run(*arguments).stdout.fnmatch_lines([f"*tried {number}*"])


@pytest.mark.deep
def test_a_parameter_that_is_not_there_is_an_error(pytester, run):
    pytester.makepyfile(test_it=SOURCE.replace('"b", "c"', '"b", "d"'))
    done = run()
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*test_some is marked as deep for ?'d'?, which it has not"])
    run("-n", "2").stdout.fnmatch_lines(["*test_some is marked as deep for ?'d'?, which it has not*"])


def test_what_failed_last_is_repeated_without_its_other_parameters(pytester, run):
    pytester.makepyfile(test_it=SOURCE.replace("(letter): pass", "(letter): assert letter != 'a'"))
    run().assert_outcomes(passed=3, failed=1, deselected=3)
    run("--lf").assert_outcomes(failed=1)


def test_an_id_with_an_address_is_an_error(pytester, run):
    pytester.makepyfile(test_it=SOURCE.replace('"letter", "abc"', '"letter", [object(), "b", "c"], ids=str'))
    done = run()
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*test_some*has the address of an object; give it a name"])


def test_ids_are_the_same_in_each_python(pytester, run):
    """3.10 writes such a number in another way."""
    source = SOURCE.replace('"letter", "abc"', '"letter", [*signal.Signals][:2]').replace(
        '"b", "c"', '"SIGHUP"'
    )
    pytester.makepyfile(test_it=f"import signal\n{source}")
    run("--all").stdout.fnmatch_lines(["*test_some?SIGHUP? PASSED", "*test_some?SIGINT? PASSED"])


def test_what_failed_is_told_with_the_command_that_repeats_it(pytester, run):
    pytester.makepyfile(test_it="def test_wrong(): raise ValueError\ndef test_right(): pass")
    run().stdout.fnmatch_lines(["*to repeat it alone*", "scripts/test -n 0 'test_it.py::test_wrong'"])


@pytest.mark.deep("2")
@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_profile_has_each_test_fixture_and_kind_of_process(pytester, run, processes):
    pytester.makepyfile(
        test_it="""
            import pytest, subprocess, sys

            BUSY = "import time\\nwhile time.process_time() < 0.5: pass"

            @pytest.fixture(scope="module")
            def dear(): subprocess.run([sys.executable, "-c", BUSY], check=True)

            def test_one(dear): pass
            def test_other(dear): pass
        """
    )
    done = run("--profile", "-n", processes, "--dist", "loadfile")
    done.assert_outcomes(passed=2)
    profile = json.loads((pytester.path / ".pytest_cache/d/profile/tests.json").read_text(encoding="utf-8"))
    assert list(profile["tests"]) == ["test_it.py::test_one", "test_it.py::test_other"]
    assert profile["fixtures"]["test_it.py::dear"][1] > 0.3
    assert max(processor for _, processor in profile["tests"].values()) < 0.3
    assert "the tests" in profile["processes"]
    done.stdout.fnmatch_lines(["| test_it.py | 2 | *"])
