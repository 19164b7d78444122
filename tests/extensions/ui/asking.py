"""A log, and a page that is asked about it: what the tests of single areas share."""

from __future__ import annotations

import warnings
from typing import Any

from spark_eos import Log
from spark_eos.extensions.ui.app import create_app
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import Access
from tests.log.fakes import Waiting

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It would rather have httpx2.
    from starlette.testclient import TestClient

__all__ = ["Asking"]


class Asking:
    """The page of a log, which looks when it is asked."""

    def __init__(self, log: Log, clock: Waiting | None = None) -> None:
        self.follower = Follower(log.store, clock=clock or Waiting())
        app = create_app([self.follower], Access())
        self._client = TestClient(app, base_url="http://localhost")
        self._client.headers["x-csrf-token"] = self._client.get("/session").json()["csrf"]

    def __call__(self, area: str, **fields: Any) -> dict[str, Any]:
        """The answer, or what is wrong."""
        self.follower.poll()
        return self._client.post(f"/api/{area}", json=fields).json()
