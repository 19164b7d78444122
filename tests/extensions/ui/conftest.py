"""A Chromium for all tests of a process, and its event loop for those of a module that ask for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.extensions.ui.browsing import chromium


@pytest.fixture(scope="session")
def _browser_and_loop():
    with chromium() as made:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield made, loop
        asyncio._set_running_loop(loop)


@pytest.fixture(scope="module")
def browser(_browser_and_loop):
    """To start one takes 3 s. Its event loop counts as running for these modules alone: others run their own."""
    made, loop = _browser_and_loop
    asyncio._set_running_loop(loop)
    yield made
    asyncio._set_running_loop(None)
