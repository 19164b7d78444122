"""The wheel of the newest release runs beside this version, on one log (docs/guide/upgrade.md).

Before there is a release, the wheel is that of this tree. This version writes a newer format then all the same: if it
has none of its own, its processes declare an action that the wheel does not know.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

pytestmark = pytest.mark.deep

REFUSALS = ("UnsupportedVersionError", "CommitOutcomeUnknownError")


class Process:
    """A process of one version, asked line by line."""

    def __init__(self, version: Path, log: Path, name: str, *options: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(version)}
        command = [sys.executable, str(HERE / "program.py"), str(log), name, *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=log.parent
        )

    def tell(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def ask(self, *words: str) -> Any:
        """The answer; an error fails the test."""
        self.tell(*words)
        heard = self.hear()
        assert "answer" in heard, heard
        return heard["answer"]

    def refused(self, *words: str) -> None:
        """Ask what this version has to refuse, with an error that says what to do."""
        self.tell(*words)
        _is_refusal(self.hear())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _is_refusal(heard: dict[str, Any]) -> None:
    """A call that had not tried to commit yet is refused by name; one that met the newer entry cannot tell more."""
    assert heard.get("error") in REFUSALS, heard
    assert "upgrade" in heard["text"]


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest release, unpacked."""
    folder = tmp_path_factory.mktemp("previous")
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([ROOT / "scripts/previous-release", folder], check=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def options(previous: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """What makes processes of this version write a newer format than the release does."""
    log = tmp_path_factory.mktemp("formats") / "log"
    formats = set()
    for version in (previous, ROOT):
        process = Process(version, log, "name")
        formats.add(process.ask("format"))
        process.close()
    return ("--newer",) if len(formats) == 1 else ()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def start(previous: Path, log: Path, options: tuple[str, ...]) -> Iterator[Callable[[str, str], Process]]:
    """Start a process of the `old` or the `new` version, and see that it runs that one."""
    with ExitStack() as stack:

        def started(age: str, name: str) -> Process:
            version = previous if age == "old" else ROOT
            process = Process(version, log, name, *(options if age == "new" else ()))
            stack.callback(process.close)
            assert Path(process.ask("where")).is_relative_to(version)
            return process

        yield started


Start = Callable[[str, str], Process]


def test_readers_are_upgraded_before_writers(start: Start) -> None:
    old = start("old", "clerk")
    old.ask("create")
    old.ask("send", "a")
    new = start("new", "reader")
    assert new.ask("read") == ["a"]
    old.ask("begin", "b", "c")
    assert new.ask("read") == ["a"]
    old.ask("commit")
    assert new.ask("read") == ["a", "b", "c"]
    old.ask("begin", "gone")
    old.ask("abort")
    old.ask("send", "d")
    assert new.ask("read") == ["a", "b", "c", "d"]
    assert old.ask("poll") == ["a", "b", "c", "d"]
    assert old.ask("maintain") == "maintained"
    assert old.ask("read") == new.ask("read") == ["a", "b", "c", "d"]


def test_the_first_commit_of_this_version_stops_the_previous_one_and_a_restart_goes_on(
    start: Start,
) -> None:
    old = start("old", "clerk")
    old.ask("create")
    old.ask("send", "a")
    assert old.ask("poll") == ["a"]
    old.ask("leave")
    old.ask("send", "b")
    old.ask("begin", "never committed")

    new = start("new", "another")
    new.ask("send", "c")
    for refused in (["commit"], ["send", "d"], ["read"], ["poll"], ["maintain"]):
        old.refused(*refused)
    late = start("old", "late")
    late.refused("read")
    old.close()

    # The same transactional id fences the old process, whose transaction is aborted. The group goes on where it was.
    new = start("new", "clerk")
    new.ask("begin", "e")
    new.ask("commit")
    assert new.ask("poll") == ["b", "c", "e"]
    assert new.ask("maintain") == "maintained"
    assert new.ask("read") == ["a", "b", "c", "e"]
    assert new.ask("verify") == []
