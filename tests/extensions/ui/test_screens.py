"""Every view has room for what is long and hostile, on screens of all widths; and the pictures of the guide."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.extensions.ui.browsing import go, in_chromium, opened, picture, served
from tests.extensions.ui.crowded import GROUP, LONG_TOPIC, QUERY, Crowded

DOCS = Path(__file__).parents[3] / "docs/extensions/ui"

WIDTHS = (390, 768, 1440, 1920)

FAULTS = (Path(__file__).parent / "programs/faults.js").read_text("utf-8")


@pytest.fixture(scope="module")
def url():
    with served([Crowded().follower], allow_writes=True) as server:
        yield server.url


def read(page):
    page.get_by_role("button", name="Read", exact=True).press("Enter")
    page.get_by_role("table", name="record").wait_for()


def opened_values(page):
    """The records with all that is folded."""
    page.get_by_label("Where").fill("_partition = 5")
    read(page)
    for one in page.locator("td summary").all():
        one.press("Enter")
    page.locator("summary", has_text="Columns:").press("Enter")


def drawn(page):
    page.get_by_role("img").first.wait_for()


def questioned(page):
    page.get_by_role("button", name="Abort the transaction").press("Enter")
    page.get_by_role("dialog").wait_for()


def told(page):
    page.locator("summary", has_text="The bars as a table").press("Enter")
    page.locator("summary", has_text="Actions").first.press("Enter")
    page.locator("li pre").first.wait_for()


def counted(page):
    page.get_by_role("button", name="Count all objects").press("Enter")
    page.get_by_role("table", name="Objects by kind").wait_for()


def verified(page):
    page.locator("summary", has_text="All settings").press("Enter")
    page.get_by_role("table", name="Settings of the log").wait_for()


VIEWS = {
    "overview": ("#/overview", drawn),
    "records": ("#/topic/parcels", read),
    "long": ("#/topic/parcels", opened_values),
    "text": (f"#/topic/{LONG_TOPIC}", read),
    "group": (f"#/group/{quote(GROUP, safe='')}", drawn),
    "query": (f"#/query/{QUERY}", drawn),
    "abort": ("#/transactions", questioned),
    "topics": ("#/topics", drawn),
    "groups": ("#/groups", drawn),
    "history": ("#/history", told),
    "storage": ("#/storage", counted),
    "health": ("#/health", verified),
}
GUIDE = {
    ("overview", 1440, "light"): "overview",
    ("records", 1440, "light"): "records",
    ("query", 390, "dark"): "phone",
    ("group", 768, "dark"): "group",
    ("query", 1440, "light"): "query",
    ("abort", 768, "light"): "abort",
}
"""The pictures of the guide, by view, width and colours. ``EOSLOG_UI_PICTURES=docs/extensions/ui`` writes them."""


@in_chromium
@pytest.mark.deep
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_all_has_room(browser, url, view, colours, tmp_path):
    """As pictures show it, which a person can look at in the folder of the test. And each table can be sorted."""
    found = {}
    with opened(browser, url, color_scheme=colours) as page:
        address, use = VIEWS[view]
        go(page, address)
        use(page)
        assert page.locator("table:not(:has(button.sort))").count() == 0
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if faults := page.evaluate(FAULTS):
                found[width] = faults
            page.screenshot(path=tmp_path / f"{view}-{width}-{colours}.png", full_page=True)
            if name := GUIDE.get((view, width, colours)):
                picture(page, name)
        assert page.evaluate("window.hacked") is None
    assert found == {}


@in_chromium
@pytest.mark.deep
@pytest.mark.parametrize("rule", [".tile { min-width: 30rem }", "h1 { margin-bottom: -2rem }"])
def test_what_has_no_room_is_found(browser, url, rule):
    with opened(browser, url, 390) as page:
        go(page, f"#/topic/{LONG_TOPIC}")
        read(page)
        page.evaluate(
            "rule => document.styleSheets[0].insertRule(rule, document.styleSheets[0].cssRules.length)", rule
        )
        assert page.evaluate(FAULTS) != []


def test_the_guide_shows_its_pictures():
    made = {path.stem: path.stat().st_size for path in DOCS.glob("*.png")}
    text = (DOCS / "index.md").read_text("utf-8")
    assert {*made} == {*GUIDE.values()} == {*re.findall(r"!\[.+]\((\w+)\.png\)", text)}
    assert max(made.values()) < 150_000
