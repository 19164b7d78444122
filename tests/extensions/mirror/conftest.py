"""What all tests of the mirror share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _dropped_clients_end_here():
    """Not in a child that a later test of this process forks: librdkafka waits there for threads that are not there."""
    yield
    gc.collect()
