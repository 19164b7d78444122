"""Looking never writes: the page and ``eoslog top``; and what they cost the store."""

# ruff: noqa: F811  (the fixtures are imported)

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from contextlib import ExitStack
from itertools import count

import httpx
import pytest

from spark_eos.extensions.ui.app import _READS, create_app
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import Access
from spark_eos.extensions.ui.server import Server
from spark_eos.extensions.ui.top.view import Top
from spark_eos.log.log import Log
from spark_eos.monitoring import Watch
from tests.cli.looked_at import READS, SCHEME, bucket, path, scheme, tries  # noqa: F401

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It would rather have httpx2.
    from starlette.testclient import TestClient


def test_top_on_a_screen(path, tries):
    async def look():
        watch = Watch(Log.open(f"{SCHEME}://{path}"))
        app = Top(watch, watch.look(), 10_000.0)
        async with app.run_test(size=(120, 40)) as pilot:
            for key in ("1", "2", "3", "p", "s"):
                await pilot.press(key)
            await app.look()

    asyncio.run(look())
    assert tries == []


FIELDS = {
    "topic": {"topic": "orders"},
    "records": {"topic": "orders"},
    "record": {"topic": "orders", "partition": 0, "offset": 1},
    "key-partition": {"topic": "orders", "key": "k"},
    "group": {"group": "audit"},
    "query": {"query": "copy"},
    "abort": {"id": "billing", "producer": 1, "epoch": 0, "number": 0},
    "abort-outcome": {"id": "billing", "producer": 1, "epoch": 0, "number": 0},
    "entry": {"entry": 1},
    "entry-at": {"time": "2999-01-01"},
    "count-objects": {"do": "start"},
    "check-health": {"do": "start"},
    "export": {"topic": "orders", "format": "csv", "columns": ["offset"], "records": [[0, 1]]},
    "query-batches": {"query": "copy"},
    "group-plan": {"group": "audit", "way": "earliest"},
}


@pytest.mark.parametrize("area", _READS)
def test_the_page(area, path, tries):
    follower = Follower(f"{SCHEME}://{path}")
    with TestClient(create_app([follower], Access()), base_url="http://localhost") as page:
        page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
        answer = page.post(f"/api/{area}", json=FIELDS.get(area, {}))
        expected = {"abort": {403}, "entry-at": {200, 400}}
        assert answer.status_code in expected.get(area, {200}), answer.text
        while area in {"count-objects", "check-health"} and page.post(
            f"/api/{'health' if area == 'check-health' else 'storage'}", json={}
        ).json().get("running", False):
            time.sleep(0.01)
    assert tries == []
    assert not {*follower.store.requests} - READS


# -- What it costs the store ------------------------------------------------------------------------


def viewers(url, number, events):
    """So many browsers at once, each until it has seen so many events; each asks for its view after every one."""

    def view():
        with httpx.Client(timeout=60) as http:
            token = {"x-csrf-token": http.get(f"{url}session").json()["csrf"]}
            with http.stream("GET", f"{url}events") as stream:
                seen = count(1)
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        for area in ("overview", "topics", "groups", "transactions"):
                            http.post(f"{url}api/{area}", json={}, headers=token).raise_for_status()
                        if next(seen) == events:
                            return

    threads = [threading.Thread(target=view) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_store_that_does_not_answer_is_asked_less_and_less_often(monkeypatch):
    follower, waited, answers = Follower(bucket(), interval_s=1.0), [], [False] * 6 + [True, False]
    follower.asked()
    polls = iter(answers)
    monkeypatch.setattr(follower, "poll", lambda: next(polls))

    def wait(seconds):
        waited.append(seconds)
        if len(waited) > len(answers):
            follower._stop.set()

    monkeypatch.setattr(follower._stop, "wait", wait)
    follower._run()
    assert waited == [1, 2, 4, 8, 16, 16, 16, 1, 2]


@pytest.mark.deep("50")
@pytest.mark.parametrize("number", [1, 50])
def test_the_page_asks_the_store_once_for_each_poll(number):
    store, interval_s = bucket(), 0.2
    follower = Follower(store, interval_s=interval_s)
    server = Server([follower], Access())
    begun = time.monotonic()
    polls, before = follower.polls, len(store.journal)
    with ExitStack() as stack:
        thread = threading.Thread(target=server.run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.stop)
        viewers(server.url, number, 4)
    polls, took = follower.polls - polls, time.monotonic() - begun
    asked = store.journal[before:]
    assert 3 <= polls <= took / interval_s + 1
    # Besides, the overview looks once a minute, for all browsers, whether the log is maintained.
    looks = [one for one in asked if one.name.startswith("_log/snapshots/")]
    assert len(looks) <= 3
    assert len(asked) - len(looks) <= polls
    assert {one.operation for one in asked} - {one.operation for one in looks} == {"read"}
