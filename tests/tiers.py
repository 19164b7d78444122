"""A pytest plugin: the tests that everybody runs, and the deep ones beside them.

``@pytest.mark.deep`` leaves a test to ``--all``; ``@pytest.mark.deep("folder", "bucket")`` those with these ids of
their parameters. A test that is named on the command line (``file.py::test``) runs in any case, but for ``--quick``.
What a test shows stands in its name, not in its tier.

In the quick tier properties are tried with the same examples each time, and with fewer (`examples`).
"""

from __future__ import annotations

import enum
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NoReturn

import hypothesis
import pytest

ABOUT = {
    False: "the quick tier, about 10 minutes on two cores",
    True: "all tests, about 30 minutes on two cores",
}
"""By ``--all``."""


_AT_ANY_SPEED: Any = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("quick", **_AT_ANY_SPEED, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("all", **_AT_ANY_SPEED, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("quick")


def examples(number: int, *, quick: int | None = None) -> hypothesis.settings:
    """Of a property: ``number`` examples with ``--all``, else ``quick`` of them, or a quarter."""
    return hypothesis.settings(max_examples=(quick or number // 4) if is_quick() else number)


def is_quick() -> bool:
    """Whether this is the quick tier, where what tries all places takes some of them."""
    return hypothesis.settings.get_current_profile_name() == "quick"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "quick and deep tests")
    group.addoption("--all", action="store_true", help="run the deep tests, too")
    group.addoption("--quick", action="store_true", help="no deep test, not even one that is named")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "deep(*ids): it runs with --all (of several parameters, those with these ids)"
    )
    hypothesis.settings.load_profile("all" if config.option.all else "quick")


def pytest_report_header(config: pytest.Config) -> str | None:
    """What will run, and about how long."""
    has_selection = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword
    about = ABOUT[config.option.all]
    return f"tests: of {about.partition(',')[0]}" if has_selection else f"tests: {about}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the deep tests out, but for those that are asked for by name. First, as ``-k`` leaves tests out as well."""
    named = tuple(argument for argument in config.args if "::" in argument)
    if not named and not config.getoption("lf", default=False):
        _check_ids(items)
    if config.option.quick:
        named = ()
    if config.option.all:
        return
    deep = {item for item in items if _is_deep(item) and not item.nodeid.startswith(named)}
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if item not in deep]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Those of numbers with names: Python 3.10 writes them in another way."""
    return val.name if isinstance(val, enum.IntEnum) else None


def _is_deep(item: pytest.Item) -> bool:
    return any(not marker.args or _id(item) in marker.args for marker in item.iter_markers("deep"))


def _id(item: pytest.Item) -> str:
    """The id of its parameters."""
    return item.callspec.id if hasattr(item, "callspec") else ""


def _check_ids(items: Sequence[pytest.Item]) -> None:
    """A marker that names parameters that are not there says nothing, and an address is another one in each process."""
    if moving := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        _refuse(items, f"{moving[0]}: an id of parameters has the address of an object; give it a name")
    ids: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for item in items:
        for marker in item.iter_markers("deep"):
            ids[(item.nodeid.partition("[")[0], *marker.args)].add(_id(item))
    for (name, *named), there in ids.items():
        if missing := sorted(set(named) - there):
            _refuse(items, f"{name} is marked as deep for {missing}, which it has not")


def _refuse(items: Sequence[pytest.Item], why: str) -> NoReturn:
    items[0].session.shouldstop = why  # A process of several tells nothing else of it to the one that prints.
    raise pytest.UsageError(why)


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
