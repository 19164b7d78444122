"""A short slice of real chaos; `scripts/chaos` does the same for as long as one likes."""

from __future__ import annotations

import re
import sys

import pytest

from verification.processes import running


@pytest.mark.deep
def test_a_slice(tmp_path):
    """A Spark query on a cluster and a pair of clients. Counts of kills end it, not the clock."""
    command = [
        sys.executable, "-m", "verification.chaos", "--only", "copier", "group",
        "--kills", "6", "--freezes", "1", "--pause", "1",
    ]  # fmt: skip
    with running(command, tmp_path / "chaos.out", TMPDIR=str(tmp_path)) as chaos:
        said = chaos.succeed(timeout=3600)
    print(said)  # noqa: T201  (the seed)
    assert re.match(r"seed \d+\n", said)
    line = next(line for line in said.splitlines() if line.startswith("total "))
    kills, freezes, _, _, rows, expected, lost, doubled, strange = (
        int(cell.replace(",", "")) for cell in line.split()[1:]
    )
    assert kills >= 6
    assert freezes >= 1
    assert rows == expected > 0
    assert (lost, doubled, strange) == (0, 0, 0)
