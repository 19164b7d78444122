"""Several processes of tests: what is run first, and what a test that hangs costs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.scheduling import LONGEST, TESTS, pytest_collection_modifyitems, pytest_xdist_make_scheduler


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


def test_one_process_of_four_has_a_spark():
    remote = pytest.importorskip("xdist.remote")

    class Node:
        shutting_down = False
        gateway = SimpleNamespace(id="")

        def __init__(self):
            self.files = []

        def send_runtest_some(self, places):
            self.files += [tests[place].partition("::")[0] for place in places]

        def shutdown(self):
            self.shutting_down = True

    tests = [f"{folder}/test_{file}.py::test_it" for folder in ("log", "spark") for file in "abcdefghijkl"]
    option = SimpleNamespace(dist="loadfile", loadscopereorder=False)
    config = SimpleNamespace(option=option, getvalue=lambda _: ["4*popen"])
    scheduler = pytest_xdist_make_scheduler(config, remote.Producer("test", enabled=False))
    nodes = [Node() for _ in range(4)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    folders = [{file.partition("/")[0] for file in node.files} for node in nodes]
    assert folders == [{"spark"}, {"log"}, {"log"}, {"log"}]
    while scheduler.workqueue:
        scheduler._assign_work_unit(nodes[3])
    assert sorted(file for node in nodes for file in node.files) == [
        name.partition("::")[0] for name in tests
    ]


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
