"""A pytest plugin: the tests that everybody runs, and the deep ones beside them.

``@pytest.mark.deep``, on a test, a module or one parameter, leaves a test to ``--all``. A test that is named on the
command line (``file.py::test``) runs in any case. What a test shows stands in its name, not in its tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

ABOUT = {
    False: "the quick tier, about 10 minutes on two cores",
    True: "all tests, about 40 minutes on two cores",
}
"""By ``--all``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tiers", "quick and deep tests").addoption(
        "--all", action="store_true", help="run the deep tests, too"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "deep: what takes long and shows no rule by itself; it runs with --all"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """What will run, and about how long."""
    has_selection = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword
    about = ABOUT[config.option.all]
    return f"tests: of {about.partition(',')[0]}" if has_selection else f"tests: {about}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the deep tests out, but for those that are asked for by name."""
    if config.option.all:
        return
    named = tuple(argument for argument in config.args if "::" in argument)
    deep = [item for item in items if _is_deep(item) and not item.nodeid.startswith(named)]
    if deep:
        config.hook.pytest_deselected(items=deep)
        left_out = set(deep)
        items[:] = [item for item in items if item not in left_out]


def _is_deep(item: pytest.Item) -> bool:
    return item.get_closest_marker("deep") is not None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The command that repeats what has failed, and nothing else."""
    if hasattr(config, "workerinput"):
        return
    failed: Sequence[str] = list(
        dict.fromkeys(
            report.nodeid for kind in ("failed", "error") for report in terminalreporter.getreports(kind)
        )
    )
    if failed:
        terminalreporter.section("to repeat it alone", sep="-")
        for name in failed:
            terminalreporter.write_line(f"scripts/test -n 0 '{name}'")
