"""The rules of axe-core (WCAG 2.1, A and AA, and good practice) hold in every view, with all there is to show."""

from __future__ import annotations

from itertools import product
from urllib.parse import quote

import pytest

from spark_eos import Log
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import Access, new_token
from spark_eos.storage import MemoryStore
from tests.extensions.ui.afternoon import HOSTILE, Later, Trouble
from tests.extensions.ui.browsing import emptied, go, in_chromium, opened, served

pytestmark = in_chromium


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    trouble = Trouble(tmp_path_factory.mktemp("accessible"))
    trouble.publish()
    with served([Follower(trouble.url, clock=Later())], allow_writes=True) as server:
        yield server.url
    trouble.close()


def violations(page, rules=()):
    """What axe-core finds wrong now, with where; by all rules, or by these."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found = page.evaluate("options => axe.run(options).then((one) => one.violations)", options)
    return [
        (one["id"], one["impact"], node["html"][:200], node["failureSummary"][:300])
        for one in found
        for node in one["nodes"]
    ]


def overview(page):
    page.get_by_text("it has committed offsets").first.wait_for()


def topic(page):
    page.locator("summary", has_text="Settings, columns").press("Enter")
    page.get_by_label("From").select_option("offset")
    page.get_by_label("Offset or time").fill("45")  # The damaged batch follows.
    page.get_by_role("button", name="Read", exact=True).press("Enter")
    page.get_by_text("CRC32C").first.wait_for()


def typed(page):
    page.get_by_role("button", name="Read", exact=True).press("Enter")
    page.get_by_text("JFK").wait_for()


def changing(page):
    page.locator("summary", has_text="All settings").press("Enter")
    page.locator("summary", has_text="Write a record").press("Enter")
    page.get_by_role("table", name="Settings of flights").wait_for()


def planned(page):
    page.get_by_role("button", name="Show what changes").press("Enter")
    page.get_by_role("table", name="Plan").wait_for()
    page.get_by_role("button", name="Delete group …").press("Enter")
    page.get_by_role("dialog").wait_for()


def record(page):
    page.get_by_role("button", name="Read", exact=True).press("Enter")
    page.locator("summary", has_text="Columns:").press("Enter")
    page.get_by_role("button", name="Open the record").first.press("Enter")
    page.get_by_role("dialog").get_by_text("from").wait_for()


def transactions(page):
    page.get_by_text("producer fenced by").first.wait_for()
    page.locator("summary", has_text="1 partition").press("Enter")


def asked(page):
    page.get_by_role("button", name="Abort the transaction of checkout").press("Enter")
    page.get_by_role("dialog").wait_for()


def history(page):
    page.locator("summary", has_text="The bars as a table").press("Enter")
    page.locator("summary", has_text="Actions").first.press("Enter")
    page.locator("li pre").first.wait_for()


def storage(page):
    page.get_by_role("button", name="Count all objects").press("Enter")
    page.get_by_role("table", name="Objects by kind").wait_for()


def health(page):
    page.get_by_label("quick").uncheck()
    page.get_by_role("button", name="Verify now").press("Enter")
    page.get_by_role("table", name="Findings").wait_for()


def keys(page):
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()


VIEWS = [
    ("#/overview", overview),
    ("#/topics", None),
    ("#/topic/orders", None),
    ("#/topic/clicks", topic),
    ("#/topic/flights", typed),
    ("#/topic/flights", changing),
    ("#/topic/flights", record),
    ("#/groups", None),
    (f"#/group/{quote(HOSTILE, safe='')}", None),
    (f"#/group/{quote(HOSTILE, safe='')}", planned),
    ("#/query/enrich", None),
    ("#/transactions", transactions),
    ("#/transactions", asked),
    ("#/history", history),
    ("#/storage", storage),
    ("#/publications", None),
    ("#/health", health),
    ("#/overview", keys),
]


@pytest.mark.deep
def test_every_view(browser, url):
    """As each is used: with records, rows that are open, what was found, and the dialogs."""
    found = {}
    with opened(browser, url) as page:
        for view, use in VIEWS:
            page.keyboard.press("Escape")  # A dialog of the view before.
            go(page, view)
            if use:
                use(page)
            for width, colours in product((1280, 360), ("light", "dark")):
                # What is there depends on the width, and only the contrast on the colours.
                rules = () if (width, colours) in ((1280, "light"), (360, "dark")) else ["color-contrast"]
                page.set_viewport_size({"width": width, "height": 800})
                page.emulate_media(color_scheme=colours)
                if here := violations(page, rules):
                    found[view, use and use.__name__, width, colours] = here
            page.set_viewport_size({"width": 1280, "height": 800})
    assert found == {}


def test_what_breaks_a_rule_is_found(browser, url):
    with opened(browser, url) as page:
        page.locator(".tile dt").first.wait_for()
        page.evaluate(
            "document.styleSheets[0].insertRule('.tile dt { color: #999 !important }')"
        )  # Each poll makes the tiles again.
        page.evaluate("document.querySelector('#log').previousSibling.remove()")
        assert {one[0] for one in violations(page)} >= {"color-contrast", "select-name"}


@pytest.mark.deep
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_form_that_asks_for_the_token(browser, colours):
    log = Log.create(MemoryStore())
    with (
        served([Follower(log.store)], Access(new_token(), "0.0.0.0"), host="0.0.0.0") as server,
        emptied(browser) as page,
    ):
        page.emulate_media(color_scheme=colours)
        page.goto(server.url)
        page.get_by_label("Token").fill("not the token at all")
        page.keyboard.press("Enter")
        page.get_by_text("This is not the token").wait_for()
        assert violations(page) == []


@pytest.mark.deep("dark")
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_what_is_out_of_date(browser, colours):
    log = Log.create(MemoryStore())
    with served([Follower(log.store)]) as server, emptied(browser) as page:
        page.emulate_media(color_scheme=colours)
        page.goto(f"{server.url}#/topics")
        page.wait_for_selector("#live.on")
        server.stop()
        page.get_by_role("alert").get_by_text("is lost").wait_for()
        assert violations(page) == []
