"""Programs of tests: files in a folder `programs` beside the tests that start them, with arguments, by path.

They are checked like all code. Each can import from `tests`, and says what it shows.
"""

from __future__ import annotations

import subprocess
import sys
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
