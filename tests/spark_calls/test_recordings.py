"""Spark does what was recorded: a few life cycles again, on the Spark that is here (all: scripts/record-spark)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.spark_calls.cycles import CYCLES, SHORT
from tests.spark_calls.record import ROOT
from tests.spark_calls.recording import kept


def test_every_life_cycle_has_a_recording():
    assert set(kept()) == set(CYCLES)


@pytest.mark.deep
def test_spark_does_what_was_recorded():
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark_calls.record", *SHORT],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    assert ended.stdout.count("as recorded with Spark") == len(SHORT)
