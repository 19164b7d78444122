"""Maintainers in processes of their own, killed again and again, while others write and read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spark_eos import Admin
from spark_eos.errors import ObjectNotFoundError, StagedFileExpiredError
from spark_eos.log import paths
from spark_eos.log.log import Log
from verification.retiring import RETIRED_AT_ONCE

from .world import append, left_behind, listed, values


def maintainer(url):
    command = [sys.executable, "-m", "spark_eos", "maintain", url, "--watch", "0.01", "--min-age", "0"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.deep("6")
@pytest.mark.parametrize("most", [3, 6])
def test_killed_at_random_beside_a_writer(log_url, most):
    log = Log.create(log_url, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    Admin(log).create_topic("t", config={"file.delete.delay.ms": 0})
    running = [maintainer(log_url), maintainer(log_url)]
    kills = refused = 0
    number = 0
    try:
        while kills < most:
            one = running.pop(0)
            # A pass and a half, or so: what it is doing then nobody knows.
            for _ in range(10 + kills % 3):
                assert one.stdout.readline(), one.stderr.read()
                left_behind(log, 1000)
                try:
                    append(log, number)
                    number += 1
                except StagedFileExpiredError:
                    refused += 1
            one.kill()
            one.communicate()
            kills += 1
            if kills + len(running) < most + 1:
                running.append(maintainer(log_url))
            assert read(log) == [*range(number)]
    finally:
        for one in running:
            one.kill()
            one.communicate()
    assert number > refused
    fresh = Log.open(log_url)
    assert fresh.state.staging_floor > 0
    assert not fresh.store.size(paths.entry(1)), "retired"
    assert values(fresh) == [*range(number)]
    assert len(listed(fresh, paths.DATA)) < 2 * number, "what was left behind is deleted all the time"


def read(log):
    """By a reader that plans again when a file is gone."""
    while True:
        try:
            return values(log)
        except ObjectNotFoundError:
            pass
