"""A log whose clock stands still, for the tests of what is told of it."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock


@pytest.fixture
def clock():
    made = FakeClock()
    made.now = 1_800_000_000.0
    return made


@pytest.fixture
def log(clock):
    made = Log.create(MemoryStore(), clock).without_maintenance()
    Admin(made).create_topic("orders", 2)
    return made
