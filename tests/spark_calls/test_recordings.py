"""Spark does what was recorded: a few life cycles again, on the Spark that is here (all: scripts/record-spark)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from spark_eos.spark.version import TRIED
from tests.spark_calls.cycles import SHORT, cycles_of
from tests.spark_calls.record import ROOT
from tests.spark_calls.recording import keep, kept


@pytest.mark.parametrize("minor", TRIED)
def test_every_life_cycle_was_recorded_with_each_spark(minor):
    found = kept(minor)
    assert set(found) == {*cycles_of(minor)}
    for name, (head, _) in found.items():
        assert any(one.startswith(f"{minor}.") for one in head["spark"]), name


def test_what_a_newer_spark_does_as_the_one_before_it_is_kept_once(tmp_path):
    keep("idle", "4.1.4", [{"deed": "one"}], tmp_path)
    keep("idle", "4.2.0", [{"deed": "another"}], tmp_path)
    keep("idle", "4.3.0", [{"deed": "another"}], tmp_path)
    assert sorted(str(path.parent.name) for path in tmp_path.glob("*/idle.jsonl")) == ["4.1", "4.2"]
    assert kept("4.3", tmp_path) == kept("4.2", tmp_path)
    assert kept("4.3", tmp_path)["idle"][0]["spark"] == ["4.2.0", "4.3.0"]
    assert kept("4.1", tmp_path)["idle"][1] == [{"deed": "one"}]
    keep("idle", "4.3.1", [{"deed": "news"}], tmp_path)
    assert [kept(one, tmp_path)["idle"][1] for one in TRIED] == [
        [{"deed": told}] for told in ("one", "another", "news")
    ]


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
