"""What the page costs does not grow with the history: requests of the store, and elements in the browser."""

from __future__ import annotations

import pytest

from benchmarks.long_log import written
from spark_eos import Log
from spark_eos.extensions.ui.areas.history import entries, entry_at
from spark_eos.extensions.ui.areas.overview import overview
from spark_eos.extensions.ui.areas.strip import strip
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from tests.extensions.ui.browsing import go, in_chromium, opened, served
from tests.log.fakes import Waiting

SHORT, LONG = 2_600, 10_400
"""Of the first 1,000 entries the history applies all from the first one on."""


@pytest.fixture(scope="module")
def stores():
    return written(SHORT), written(LONG)


def costs(store):
    """Requests of the store for each thing that a person does."""
    follower = Follower(store, clock=Waiting())
    length = follower.state.seq
    found = {"open": sum(follower.store.requests.values())}

    def cost(name, area, **fields):
        before = sum(follower.store.requests.values())
        answer = area(follower, Question(fields))
        found[name] = sum(follower.store.requests.values()) - before
        return answer

    cost("overview", overview)
    assert cost("newest", entries)["rows"][0]["seq"] == length
    cost("strip", strip)
    assert len(cost("older", entries, until=length - 50)["rows"]) == 50
    first = cost("first", entries, until=49)
    assert [row["seq"] for row in first["rows"]] == [*range(49, -1, -1)]
    assert all("problem" not in row for row in first["rows"])
    assert len(cost("middle", entries, until=length // 2)["rows"]) == 50
    assert cost("same again", entries, until=length // 2)["until"] == length // 2
    cost("time", entry_at, time=str(first["rows"][0]["time"]))
    before = sum(follower.store.requests.values())
    follower.poll()
    found["poll"] = sum(follower.store.requests.values()) - before
    return found


def test_requests_do_not_grow_with_the_history(stores):
    short, long = map(costs, stores)
    assert short["same again"] == long["same again"] == 0
    assert long.pop("time") - short.pop("time") <= 17  # It halves: 4 times as many entries are 2 halves more.
    assert long == short


@pytest.mark.deep
@in_chromium
def test_elements_do_not_grow_with_the_history(stores, browser):
    counted = []
    for store in stores:
        with served([Follower(store)]) as server, opened(browser, server.url) as page:
            found = {}
            for view in ("overview", "topics", "topic/wide", "groups", "history", "storage"):
                go(page, f"#/{view}")
                page.locator("main table, main ol.line, main dl.tiles").first.wait_for(state="attached")
                page.wait_for_timeout(300)
                found[view] = page.evaluate("document.querySelectorAll('*').length")
            for place in (40, store_length(store) - 3):
                page.goto(f"{server.url}#/history")
                page.get_by_label("Entry or time").fill(str(place))
                page.keyboard.press("Enter")
                page.get_by_role("listitem").filter(has_text=f"Entry {place:,} ").wait_for()
                found[f"entry {len(found)}"] = page.evaluate("document.querySelectorAll('*').length")
            counted.append(found)
    short, long = counted
    assert max(long.values()) < 4000
    assert {view: number for view, number in long.items() if number > short[view] + 150} == {}


def store_length(store):
    return Log.open(store).state.seq
