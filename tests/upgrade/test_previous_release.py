"""The wheel of the release before this version runs beside it, on one log (docs/guide/upgrade.md)."""

from __future__ import annotations

import base64
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

from spark_eos import Producer
from spark_eos.maintenance.verify.verify import Finding, verify

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PREVIOUS = HERE / "previous"


REFUSALS = ("UnsupportedVersionError", "CommitOutcomeUnknownError")


class Process:
    """A process of one version, asked line by line."""

    def __init__(self, version: Path, log: Path, name: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(version)}
        command = [sys.executable, str(HERE / "program.py"), str(log), name]
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
    """The previous release, unpacked."""
    (wheel,) = PREVIOUS.glob("*.whl")
    folder = tmp_path_factory.mktemp("previous")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def start(previous: Path, log: Path) -> Iterator[Callable[[str, str], Process]]:
    """Start a process of the `old` or the `new` version, and see that it runs that one."""
    with ExitStack() as stack:

        def started(age: str, name: str) -> Process:
            version = previous if age == "old" else ROOT
            process = Process(version, log, name)
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
    start: Start, log: Path
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
    found_wrong: list[Finding] = []
    assert verify(str(log), found_wrong.append).is_sound, found_wrong


def test_the_previous_version_refuses_an_encrypted_log_and_commits_no_plain_record(
    start: Start, log: Path
) -> None:
    old = start("old", "clerk")
    old.ask("create")
    old.ask("send", "before")
    old.ask("begin", "never-committed")
    keys = log.parent / "keys.json"
    keys.write_text(json.dumps({"one": base64.b64encode(b"1" * 32).decode()}))
    settings = {"encryption.keys": f"file:{keys}", "encryption.key.id": "one"}
    with Producer(str(log), settings) as producer:
        producer.send("events", b"secret-marker").result()
    before = sorted((log / "_log").rglob("*.avro"))
    for refused in (["commit"], ["send", "plain"], ["read"], ["poll"], ["maintain"]):
        old.refused(*refused)
    late = start("old", "late")
    for refused in (["read"], ["send", "plain"]):
        late.refused(*refused)
    assert sorted((log / "_log").rglob("*.avro")) == before
    assert not any(b"secret-marker" in path.read_bytes() for path in log.rglob("*") if path.is_file())
