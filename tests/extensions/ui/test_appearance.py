"""How the page looks: numbers, what loads, what cannot be read, charts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.errors import StoreUnavailableError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.storage import MemoryStore
from spark_eos.testing import FaultyStore
from tests.extensions.ui.browsing import go, in_chromium, opened, served, unanswered

pytestmark = in_chromium


@pytest.fixture(scope="module")
def store():
    made = FaultyStore(MemoryStore())
    made.requests_are_free = False  # As a bucket's: each poll asks.
    return made


@pytest.fixture(scope="module")
def url(store):
    log = Log.create(store)
    rows = pa.table({"id": range(1_234_567)})
    Admin(log).create_topic("long", 1, schema=rows.schema)
    with Producer(log) as producer:
        producer.send_arrow("long", rows)
    with served([Follower(store, interval_s=0.2)]) as server:
        yield server.url


def test_numbers(browser, url):
    with opened(browser, url, 800) as page:
        found = page.evaluate(
            """import("/static/js/dom.js").then(({number, counted}) =>
                [38.388, 0.12345, 12345, 1234.56, null].map(number).concat(counted(1, "topic"), counted(2, "topic")))"""
        )
        assert found == ["38.4", "0.123", "12,345", "1,235", "–", "1 topic", "2 topics"]
        go(page, "#/topic/long")
        cell = page.locator("td[data-label=End]")
        cell.get_by_text("1,234,567").wait_for()
        lines = cell.evaluate("""one => { const range = document.createRange(); range.selectNodeContents(one);
            return new Set([...range.getClientRects()].map((box) => box.top)).size; }""")
        assert lines == 1
        assert page.locator(".tile").evaluate_all(
            "all => all.every((one) => one.scrollWidth <= one.clientWidth)"
        )


def test_what_has_not_come_yet_loads(browser, url):
    from playwright.sync_api import expect

    with opened(browser, url) as page:
        with unanswered(page, "**/api/groups"):
            page.get_by_role("link", name="Groups").click()
            expect(page.get_by_text("Loading …")).to_be_visible()
        page.get_by_role("table", name="Groups and queries").wait_for()
        expect(page.get_by_text("Loading …")).to_be_hidden()


def test_what_cannot_be_read_is_said_once(browser, url, store):
    from playwright.sync_api import expect

    with opened(browser, url, 390) as page:
        go(page, "#/topics")
        before = page.locator("header").bounding_box()["height"]
        for operation in ("read", "size", "list"):
            store.inject(StoreUnavailableError("the bucket is away"), operation, times=None)
        expect(page.locator("#live")).to_have_text("cannot be read")
        expect(page.get_by_text("the bucket is away")).to_have_count(1)
        assert page.locator("header").bounding_box()["height"] == before < 60
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        store.heal()
        page.wait_for_selector("#live.on")


def test_a_chart_has_axes(browser, url):
    from playwright.sync_api import expect

    with opened(browser, url) as page:
        axes = page.locator(".axes")
        expect(axes).to_have_count(2)
        assert axes.last.inner_text().startswith("0 at ")
