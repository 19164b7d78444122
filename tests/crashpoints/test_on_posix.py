"""A few of the scenarios in folders: the other tests are in memory, which takes no time to sync."""

from __future__ import annotations

import itertools

import pytest

from spark_eos.storage.posix.store import PosixStore
from tests.crashpoints.app import every_point, no_threads
from tests.crashpoints.clients import SCENARIOS
from tests.crashpoints.queries import QUERIES


@pytest.mark.parametrize("name", ["create a log", "init, first", "batch"])
def test_every_crash_point(name, tmp_path):
    count = itertools.count()
    scenario = {**SCENARIOS, **QUERIES}[name]
    with no_threads():
        assert every_point(scenario, factory=lambda: PosixStore(str(tmp_path / str(next(count)))))
