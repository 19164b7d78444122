"""A pytest plugin: which test carries which row of the conformance table, and whether every row is carried.

``@pytest.mark.conformance("row id", ...)`` names rows. After a run of all tests every row must have a test
that passed and none that failed, or a reason why it cannot apply; otherwise the run has failed. With
``--conformance=PATH`` the outcome of every row is written to PATH as JSON (with ``--collect-only``: the
tests alone). Works with pytest-xdist, whose workers send the rows along with each report.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rows import BY_ID, Row

_PROPERTY = "conformance"
_NARROWED = ("keyword", "markexpr", "lf", "stepwise", "deselect", "ignore", "ignore_glob")
"""Options that leave tests out, so that a missing row says nothing."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "the conformance table")
    group.addoption("--conformance", metavar="PATH", help="write the outcome of every row to PATH, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Conformance(config, BY_ID), "conformance-rows")


class Conformance:
    """Gathers outcomes by row, and judges them at the end."""

    def __init__(self, config: pytest.Config, rows: Mapping[str, Row]) -> None:
        self._config = config
        self._rows = rows
        self._outcomes: dict[str, dict[str, str]] = {row: {} for row in rows}
        self._is_worker = hasattr(config, "workerinput")
        config.addinivalue_line(
            "markers", "conformance(*rows): the rows of tests/conformance/rows.py that it shows"
        )

    # -- Which test carries which row -------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        items = [item for item in report.result if isinstance(item, pytest.Item)] if report.passed else []
        if problems := [problem for item in items for problem in self._enter(item)]:
            report.outcome, report.longrepr, report.result = "failed", "\n".join(problems), []
        return report

    def _enter(self, item: pytest.Item) -> Iterator[str]:
        """Note which rows the test carries; yield what is wrong with its markers."""
        carried: list[str] = []
        for marker in item.iter_markers("conformance"):
            if not marker.args or marker.kwargs:
                yield f"{item.nodeid}: the conformance marker takes row ids, and at least one"
            for name in marker.args:
                row = self._rows.get(name)
                if row is None:
                    yield f"{item.nodeid}: there is no conformance row {name!r}"
                elif row.cannot_apply is not None:
                    yield f"{item.nodeid} carries {name!r}, which cannot apply: {row.cannot_apply}"
                else:
                    carried.append(name)
        if carried:
            item.user_properties.append((_PROPERTY, carried))
        for name in carried:
            self._outcomes[name].setdefault(item.nodeid, "not run")

    # -- Outcomes -----------------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = [row for name, value in report.user_properties if name == _PROPERTY for row in value]
        if report.failed or hasattr(report, "wasxfail"):
            outcome = "failed"  # what is expected to fail shows nothing
        elif report.skipped:
            outcome = "skipped"
        elif report.when == "call":
            outcome = "passed"
        else:
            return
        for row in rows:
            self._outcomes[row][report.nodeid] = outcome

    # -- The end ------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        if self._is_worker:
            return
        if path := self._config.getoption("conformance"):
            self._write(Path(path))
        if exitstatus == pytest.ExitCode.OK and self._is_full() and self._failures():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._is_worker or not self._is_full():
            return
        failures = self._failures()
        if failures:
            terminalreporter.section("conformance", sep="=", red=True, bold=True)
            for line in failures:
                terminalreporter.write_line(line, red=True)
            terminalreporter.write_line(f"{len(failures)} of {len(self._rows)} rows are not shown", red=True)

    def _failures(self) -> list[str]:
        found = []
        for name, row in self._rows.items():
            if row.cannot_apply is not None:
                continue
            outcomes = self._outcomes[name]
            failed = sorted(test for test, outcome in outcomes.items() if outcome == "failed")
            if failed:
                found.append(f"{name}: failed: {', '.join(failed)}")
            elif "passed" not in outcomes.values():
                what = ", ".join(f"{test} ({outcome})" for test, outcome in sorted(outcomes.items()))
                found.append(f"{name}: no test passed: {what or 'no test carries it'}")
        return found

    def _is_full(self) -> bool:
        """Whether all tests were asked for, the deep ones too."""
        option = self._config.option
        if (
            not getattr(option, "all", True)
            or option.collectonly
            or any(getattr(option, name, None) for name in _NARROWED)
        ):
            return False
        source = self._config.args_source
        if source in {source.TESTPATHS, source.INVOCATION_DIR}:
            return True
        root = self._config.rootpath
        paths = {(root / path).resolve() for path in self._config.getini("testpaths")}
        asked = {(self._config.invocation_params.dir / path).resolve() for path in self._config.args}
        return asked in ({root.resolve()}, paths)

    def _write(self, path: Path) -> None:
        rows = {
            name: {"cannot_apply": row.cannot_apply, "tests": dict(sorted(self._outcomes[name].items()))}
            for name, row in self._rows.items()
        }
        whole = {"full": self._is_full(), "rows": rows}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
