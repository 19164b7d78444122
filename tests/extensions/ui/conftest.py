"""A Chromium for the tests of a module: its event loop is in the way of other modules' tests."""

from __future__ import annotations

import pytest

from tests.extensions.ui.browsing import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made
