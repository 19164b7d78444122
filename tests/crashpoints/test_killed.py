"""Processes killed before their system calls, in a folder: what is left is sound, and the next one finishes the job."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from verification.processes import ROOT, running

PROGRAM = Path(__file__).parent / "killed.py"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("job", "step", "needed"),
    [
        ("maintain", 4, {"fsync": 20, "link": 20, "rename": 10, "unlink": 25, "write": 10}),
        ("distributed", 16, {"fsync": 20, "link": 10, "write": 10}),
        ("write", 8, {"fsync": 40, "link": 40, "rename": 10, "unlink": 20, "write": 20}),
    ],
)
def test_a_process_dies_at_its_system_calls(tmp_path, job, step, needed):
    """Every ``step``-th of them, from one by chance on."""
    first = random.randrange(step)
    folder = tmp_path / "logs"
    folder.mkdir()
    command = [sys.executable, str(PROGRAM), str(folder), job, str(first), str(step)]
    with running(command, tmp_path / "said", PYTHONPATH=str(ROOT)) as program:
        said = program.succeed(timeout=3600)
    # The clock of the job is not that of its folder, which is said as well.
    *killed, last = [line for line in said.splitlines() if line[0].isdigit()]
    calls = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", last)}
    assert {name: count for name, count in needed.items() if calls.get(name, 0) < count} == {}
    assert len(killed) >= sum(calls.values()) // step - 1
    assert all(re.match(r"\d+ (fsync|link|mkdir|open|rename|unlink|write) ", line) for line in killed)
