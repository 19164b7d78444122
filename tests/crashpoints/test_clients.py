"""Every crash point of everything that clients write.

To run one point of a scenario again: ``CRASH_POINT=17:reply_lost pytest tests/crashpoints -k name``.
"""

from __future__ import annotations

import pytest

from tests.crashpoints.app import every_point, no_threads
from tests.crashpoints.clients import SCENARIOS


@pytest.mark.deep(
    "arrow",
    "group, cooperative",
    "group, eager",
    "group, eviction",
    "group, static",
    "one-shot, aborted",
    "prepared transactions, refused",
    "streamed, aborted",
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_crash_point(name):
    with no_threads():
        assert every_point(SCENARIOS[name])
