"""A pytest plugin: where the time of the tests goes. ``--profile`` prints tables, and writes all of it as JSON.

Processor time is that of a test's process and of all that it started, also of what goes on after the test (a JVM, a
broker). What a fixture costs is counted for the fixture, and not for the first test that asks for it. Processor times
are read from ``/proc``: on other systems than Linux only the wall time is known.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_KINDS = (
    ("Kafka broker", "kafka.Kafka"),
    ("TLC", "tlc2.TLC"),
    ("JVM of Spark", "org.apache.spark"),
    ("Python of Spark", "pyspark"),
    ("MinIO", "minio"),
    ("Azurite", "azurite"),
    ("browser", "chrom"),
    ("PostgreSQL", "postgres"),
    ("pip", "-m pip"),
    ("pytest in a test", "pytest"),
    ("eoslog", "eoslog"),
    ("other Python", "python"),
)
"""Kinds of processes, and what is in their command line. The first that fits counts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("profile", "where the time goes").addoption(
        "--profile", action="store_true", help="the time of each file, fixture and kind of process, as tables"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.profile and config.cache is not None:
        config.pluginmanager.register(Profile(config, config.cache.mkdir("profile")), "profile")


class Cost(NamedTuple):
    """Seconds."""

    wall: float
    processor: float

    def minus(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.processor - other.processor)


class Processes:
    """This process and all that come from it."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[int, int], str] = {}
        self._highest = self._lost = 0.0
        self.seconds: dict[tuple[int, int], float] = {}
        """The processor seconds of each process that was seen, by its number and start."""

    def now(self) -> Cost:
        """The wall clock, and the processor time of all of them so far."""
        total = 0.0
        for pid in self._tree():
            try:
                stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it has ended; its time is its parent's now
            fields = stat.rpartition(")")[2].split()
            times = [int(field) / _TICKS for field in fields[11:15]]
            total += sum(times)
            name = pid, int(fields[19])
            self.seconds[name] = times[0] + times[1]
            if self._kinds.get(name, "other Python") == "other Python":  # a fork becomes another program
                self._kinds[name] = _kind(pid)
        # What ends without its parent waiting for it takes its time along.
        self._lost += max(0.0, self._highest - total)
        self._highest = total
        return Cost(time.monotonic(), total + self._lost)

    def by_kind(self) -> dict[str, tuple[int, float]]:
        """How many processes of each kind were seen, and their processor seconds."""
        kinds: dict[str, tuple[int, float]] = {}
        for name, seconds in self.seconds.items():
            kind = "the tests" if name[0] == os.getpid() else self._kinds[name]
            count, so_far = kinds.get(kind, (0, 0.0))
            kinds[kind] = count + 1, so_far + seconds
        return kinds

    def _tree(self) -> Iterable[int]:
        waiting = [os.getpid()]
        while waiting:
            pid = waiting.pop()
            yield pid
            try:
                for thread in list(Path(f"/proc/{pid}/task").iterdir()):
                    children = (thread / "children").read_text(encoding="ascii")
                    waiting.extend(map(int, children.split()))
            except OSError:
                continue


def _kind(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "other"
    return next((kind for kind, part in _KINDS if part in command), "other")


class Profile:
    """Notes what each test and each fixture costs, and joins the notes of several processes."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._worker = getattr(config, "workerinput", {}).get("workerid", "")
        self._has_workers = not self._worker and config.pluginmanager.hasplugin("dsession")
        self._folder = folder
        if not self._worker:
            for part in folder.iterdir():
                part.unlink()
        self._processes = Processes()
        self._tests: dict[str, Cost] = {}
        self._fixtures: dict[str, Cost] = defaultdict(lambda: Cost(0.0, 0.0))
        self._in_fixtures = [Cost(0.0, 0.0)]
        """The fixtures that are being set up, inside one another: what the ones inside took so far."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = self._processes.now()
        self._in_fixtures = [Cost(0.0, 0.0)]
        result = yield
        self._tests[item.nodeid] = self._processes.now().minus(before).minus(self._in_fixtures[0])
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = self._processes.now()
        self._in_fixtures.append(Cost(0.0, 0.0))
        try:
            return (yield)
        finally:
            whole = self._processes.now().minus(before)
            inside = self._in_fixtures.pop()
            own, name = whole.minus(inside), f"{fixturedef.baseid}::{fixturedef.argname}"
            self._fixtures[name] = Cost(*map(sum, zip(self._fixtures[name], own, strict=True)))
            around = self._in_fixtures[-1]
            self._in_fixtures[-1] = Cost(around.wall + whole.wall, around.processor + whole.processor)

    def pytest_sessionfinish(self) -> None:
        if not self._has_workers:
            whole = {"tests": self._tests, "fixtures": self._fixtures, "processes": self._processes.by_kind()}
            part = self._folder / f"{self._worker or 'main'}.json"
            part.write_text(json.dumps(whole), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._worker:
            return
        whole: dict[str, dict[str, Any]] = {"tests": {}, "fixtures": {}, "processes": {}}
        for part in sorted(self._folder.iterdir()):
            for table, rows in json.loads(part.read_text(encoding="utf-8")).items():
                for name, (one, other) in rows.items():
                    so_far = whole[table].get(name, (0, 0))
                    whole[table][name] = one + so_far[0], other + so_far[1]
            part.unlink()
        path = self._folder / "tests.json"
        path.write_text(json.dumps(whole, indent=0), encoding="utf-8")
        terminalreporter.section(f"profile: {path}", sep="=")
        for line in tables(whole):
            terminalreporter.write_line(line)


def tables(whole: dict[str, dict[str, Any]], most: int = 40) -> Iterable[str]:
    """The lines of the tables: kinds of processes, the dearest fixtures, and all files."""
    files: dict[str, tuple[int, float, float]] = {}
    for name, (wall, processor) in whole["tests"].items():
        file = name.partition("::")[0]
        count, walls, processors = files.get(file, (0, 0.0, 0.0))
        files[file] = count + 1, walls + wall, processors + processor
    yield "| processes | started | processor s |"
    yield "|---|--:|--:|"
    seen = 0.0
    for kind, (count, seconds) in sorted(whole["processes"].items(), key=lambda row: -row[1][1]):
        seen += seconds
        yield f"| {kind} | {count} | {seconds:.0f} |"
    total = sum(processor for table in ("tests", "fixtures") for _, processor in whole[table].values())
    yield f"| what ended between two looks, of any kind | | {max(0.0, total - seen):.0f} |"
    yield ""
    yield "| fixture | wall s | processor s |"
    yield "|---|--:|--:|"
    for name, (wall, processor) in sorted(whole["fixtures"].items(), key=lambda row: -row[1][1])[:most]:
        yield f"| {name} | {wall:.1f} | {processor:.1f} |"
    yield ""
    yield "| file | tests | wall s | processor s |"
    yield "|---|--:|--:|--:|"
    for name, (count, wall, processor) in sorted(files.items(), key=lambda row: -row[1][2]):
        yield f"| {name} | {count} | {wall:.1f} | {processor:.1f} |"
    yield f"| all | {len(whole['tests'])} | | {sum(row[2] for row in files.values()):.0f} |"
