"""Types the blocks of a page, as they stand, in a folder that takes the place of /tmp."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.pages.blocks import ROOT, Block, statements

OF_A_CLONE = ("conf", "jobs", "notebooks", "scripts", "tests/golden")
"""What pages use of a clone. The package is not among it: it is the one that is installed."""


class Typist:
    """One prompt of Python, and one shell whose variables and folder are kept from block to block.

    ``programs``: the folder of the programs of an environment, which is activated.
    """

    def __init__(self, folder: Path, programs: Path, *, in_a_clone: bool) -> None:
        self._folder = folder
        self._here = folder / "here"
        self._here.mkdir()
        if in_a_clone:
            for name in OF_A_CLONE:
                (self._here / name).parent.mkdir(exist_ok=True)
                (self._here / name).symlink_to(ROOT / name)
        kept = ("JAVA_HOME", "LANG", "SPARK_SUBMIT_OPTS")
        self._environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(programs), "/usr/local/bin", "/usr/bin", "/bin"]),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONUNBUFFERED": "1",
        }
        self._python = str(programs / "python")
        self._prompt: subprocess.Popen[str] | None = None
        self._started: list[subprocess.Popen[bytes]] = []
        self._files = 0

    def __enter__(self) -> Typist:
        return self

    def __exit__(self, *_: object) -> None:
        """End what goes on: the prompt, terminals of their own, and what jobs have left behind."""
        if self._prompt is not None:
            assert self._prompt.stdin is not None
            self._prompt.stdin.close()
            self._outcomes.close()
            with suppress(subprocess.TimeoutExpired):
                self._prompt.wait(60)
            _kill(self._prompt)
        for one in self._started:
            _kill(one)

    def type(self, block: Block) -> str:
        """What the block prints, with the folder shown as /tmp."""
        text = block.text.replace("/tmp/", f"{self._folder}/")
        if block.file:
            (self._here / block.file).write_text(text, "utf-8")
            return ""
        if block.fate == "program":
            (self._here / "program.py").write_text(text, "utf-8")
            printed = self._shell(block, "python program.py")
        elif block.language == "python":
            printed = self._type_into_python(block, statements(text))
        else:
            # The environment has what the page names.
            text = re.sub(r"^pip install .*$", ":", text, flags=re.MULTILINE)
            printed = (
                self._leave_running(block, text) if "terminal" in block.fate else self._shell(block, text)
            )
        return printed.replace(f"{self._folder}/", "/tmp/")

    def _type_into_python(self, block: Block, typed: list[str]) -> str:
        if self._prompt is None:
            self._start_python()
        assert self._prompt is not None
        assert self._prompt.stdin is not None
        before = self._printed.stat().st_size
        self._prompt.stdin.write(json.dumps(typed) + "\n")
        self._prompt.stdin.flush()
        line = self._outcomes.readline()
        errors = self._errors.read_text("utf-8", "replace")[-4000:]
        assert line, f"{block}: Python has ended\n{errors}"
        assert json.loads(line) is None, f"{block}: {json.loads(line)}\n{errors}"
        return self._printed.read_bytes()[before:].decode()

    def _start_python(self) -> None:
        reads, writes = os.pipe()
        self._printed, self._errors = self._output("python"), self._output("python-errors")
        prompt = self._folder / "prompt.py"
        prompt.write_bytes(Path(__file__).with_name("prompt.py").read_bytes())
        with self._printed.open("w") as stdout, self._errors.open("w") as stderr:
            self._prompt = subprocess.Popen(
                [self._python, str(prompt), str(writes)],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                cwd=self._here,
                env=self._environment,
                pass_fds=[writes],
                text=True,
                start_new_session=True,
            )
        os.close(writes)
        self._outcomes = os.fdopen(reads)

    def _bash(self, text: str, stdout: Path, stderr: Path) -> subprocess.Popen[bytes]:
        kept = self._folder / "shell"
        if not kept.exists():
            kept.touch()
        # As in a terminal: background jobs have process groups of their own. An error ends the block.
        lines = (
            f"source {kept} 2>/dev/null",
            f'trap \'{{ declare -p; printf "cd %q\\n" "$PWD"; }} >{kept}\' EXIT',
            "set -em",
            text,
        )
        with (
            stdout.open("w") as out,
            stderr.open("w") as err,
        ):  # No pipe, which a killed job's processes keep open.
            process = subprocess.Popen(
                ["bash", "-c", "\n".join(lines)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._here,
                env=self._environment,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def _shell(self, block: Block, text: str) -> str:
        stdout, stderr = self._output("printed"), self._output("errors")
        process = self._bash(text, stdout, stderr)
        try:
            code: int | str = process.wait(600)
        except subprocess.TimeoutExpired:
            _kill(process)
            code = "no end after 600 s"
        printed = stdout.read_text("utf-8", "replace")
        told = f"{printed[-2000:]}\n{stderr.read_text('utf-8', 'replace')[-4000:]}"
        assert code == 0, f"{block}: {code}\n{text}\n{told}"
        return printed

    def _leave_running(self, block: Block, text: str) -> str:
        """Until it has printed a line, which a server does when it listens."""
        stdout, stderr = self._output("terminal"), self._output("terminal-errors")
        process = self._bash(text, stdout, stderr)
        end = time.monotonic() + 120
        while "\n" not in stdout.read_text("utf-8", "replace"):
            assert process.poll() is None, f"{block}: {stderr.read_text('utf-8', 'replace')}"
            assert time.monotonic() < end, f"{block}: it has printed nothing"
            time.sleep(0.05)
        return stdout.read_text("utf-8")

    def _output(self, name: str) -> Path:
        self._files += 1
        return self._folder / f"{self._files}.{name}"


def _kill(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
