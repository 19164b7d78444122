"""Every crash point of everything that Spark commits. See test_clients.py for running one of them again."""

from __future__ import annotations

import pytest

from tests.crashpoints.app import every_point, no_threads
from tests.crashpoints.queries import QUERIES


@pytest.mark.deep(
    "at least once",
    "batch",  # In a folder it is quick: test_on_posix.py.
    "batch, transactional.id",
    "complete mode",
    "foreachBatch",
    "foreachBatch, replay after the commit",
    "query",
    "query, transactional.id",
    "replay after the commit",
)
@pytest.mark.parametrize("name", QUERIES)
def test_every_crash_point(name):
    with no_threads():
        assert every_point(QUERIES[name])
