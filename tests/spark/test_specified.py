"""What a test with `specified` says where TLC is missing."""

from __future__ import annotations

from tests.scheduling import TESTS

SOURCE = """
import pytest

@pytest.fixture(scope="session")
def tlc(): pytest.skip("TLC needs Java on the PATH")

@pytest.mark.usefixtures("specified")
def test_good(): pass

@pytest.mark.usefixtures("specified")
def test_bad(): raise AssertionError
"""


def test_what_is_not_checked_is_said(pytester, monkeypatch):
    """The rest of the test counts: it has passed or failed by itself."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    pytester.makepyfile(test_it=SOURCE)
    done = pytester.runpytest_subprocess("-p", "tests.spark.conftest", "-rs")
    done.assert_outcomes(passed=1, failed=1, skipped=2)
    done.stdout.fnmatch_lines(["SKIPPED*: not held against specs/Runs.tla: TLC needs Java on the PATH"])
