"""Processes of a group. Each module that asks for them says by a fixture ``start`` what a process is."""

from __future__ import annotations

import pytest


@pytest.fixture
def leader(start):
    return start(b"a").lead()


@pytest.fixture
def other(leader, start):
    assert leader.group.try_lead()
    return start(b"b").join()
