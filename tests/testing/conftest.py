"""What the tests of the simulators share."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _quiet():
    """Simulated trouble is not logged: there is much of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
