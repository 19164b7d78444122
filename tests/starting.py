"""Programs of tests: files in a folder `programs` beside the tests that start them, with arguments, by path.

They are checked like all code. Each can import from `tests`, and says what it shows.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from verification.processes import environment

TESTS = Path(__file__).parent


def command(name: str, *arguments: object, flags: tuple[str, ...] = ()) -> list[str]:
    """The command line of a program: "storage/races" is tests/storage/programs/races.py; flags are Python's."""
    area, _, program = name.rpartition("/")
    return [sys.executable, *flags, str(TESTS / area / "programs" / f"{program}.py"), *map(str, arguments)]


def start(name: str, *arguments: object, flags: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[str]:
    """The program, which runs on; ``more`` are arguments of `Popen`."""
    more = {"env": environment(), **more}
    return subprocess.Popen(command(name, *arguments, flags=flags), text=True, **more)


def run(
    name: str,
    *arguments: object,
    flags: tuple[str, ...] = (),
    status: int = 0,
    timeout: float = 600,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """The program at its end, with this exit status, and what it has said."""
    done = subprocess.run(
        command(name, *arguments, flags=flags),
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == status, f"exit {done.returncode}: {done.stderr[-3000:]}"
    return done


class Nursery:
    """A process that has loaded the package and forks itself for each program (programs/nursery.py).

    To load it takes twenty times as long as most of them do. A program begins as any other and has its own end of the
    interpreter, but for two things: the package was loaded before its first line, and its parent is that process.
    """

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = start("nursery", start_new_session=True, **pipes)

    def run(
        self, name: str, *arguments: object, status: int = 0, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """As `run` above."""
        argv = command(name, *arguments)[1:]
        with tempfile.TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("stdout", "stderr")]
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps([argv, [str(path) for path in outputs]]) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], timeout)[0]:
                os.killpg(self._process.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout)
            told = int(self._process.stdout.readline())
            stdout, stderr = [path.read_text("utf-8") for path in outputs]
        assert told == status, f"exit {told}: {stderr[-3000:]}"
        return subprocess.CompletedProcess(argv, told, stdout, stderr)

    def close(self) -> None:
        self._process.communicate()
