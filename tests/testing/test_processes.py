"""What is known of a process while it runs."""

from __future__ import annotations

import sys

from spark_eos.testing.processes import running

HALF = 'import time; print("did 1\\ndid", end="", flush=True); time.sleep(600)'


def test_a_line_that_is_half_written_is_none_yet(tmp_path):
    with running([sys.executable, "-c", HALF], tmp_path / "out") as process:
        process.until(lambda: process.text.endswith("did"), "half of the second line")
        assert process.lines == ["did 1"]
    assert process.lines == ["did 1"]
