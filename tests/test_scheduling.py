"""Several processes of tests: what is run first, and what a test that hangs costs."""

from __future__ import annotations

import pytest

from tests.scheduling import LONGEST, TESTS, pytest_collection_modifyitems


def test_the_longest_files_are_there():
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert len({*LONGEST}) == len(LONGEST)


def test_the_longest_files_are_first():
    class Item:
        def __init__(self, name, file):
            self.name, self.path = name, TESTS / file

    files = ["a.py", LONGEST[1], "b.py", LONGEST[0]]
    items = [Item(name, file) for file in files for name in "12"]
    pytest_collection_modifyitems(items)
    found = [(item.path, item.name) for item in items]
    assert found == [(TESTS / files[at], name) for at in (3, 1, 0, 2) for name in "12"]


@pytest.mark.deep
def test_a_test_that_hangs_fails_once_and_all_others_run(pytester, request, monkeypatch):
    pytest.importorskip("xdist")
    assert request.config.getini("faulthandler_exit_on_timeout") is True
    assert float(request.config.getini("faulthandler_timeout")) > 0
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    pytester.makepyfile(
        test_hangs="""
            import signal

            def test_before(): pass
            def test_hangs(): signal.pause()
            def test_after(): pass
        """,
        test_last="""
            import signal

            def test_hangs_too(): signal.pause()
        """,
        **{f"test_{number}": "def test_one(): pass\ndef test_two(): pass" for number in range(3)},
    )
    done = pytester.runpytest_subprocess(
        *("-p", "tests.scheduling", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
        *("-o", "faulthandler_timeout=10", "-o", "faulthandler_exit_on_timeout=true"),
        timeout=300,
    )
    done.assert_outcomes(passed=8, failed=2)
    for name in ("test_hangs.py::test_hangs", "test_last.py::test_hangs_too"):
        done.stdout.fnmatch_lines([f"FAILED {name} - worker*crashed*"])
