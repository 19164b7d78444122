"""What a person has chosen in a view is there again after a reload, on the way back, and after a login."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import Access, new_token
from spark_eos.storage import MemoryStore
from tests.extensions.ui.browsing import emptied, go, in_chromium, opened, served

pytestmark = in_chromium


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    for name in ("orders", "bills", "old-orders"):
        Admin(made).create_topic(name, 3)
    return made


@pytest.fixture
def page(browser, log):
    with served([Follower(log.store, interval_s=0.2)]) as server, opened(browser, server.url) as made:
        yield made


def write(log, count):
    with Producer(log) as producer:
        for number in range(count):
            producer.send("orders", b"value %d" % number, partition=number % 3)


def test_a_filter_and_an_order_are_kept_for_a_reload_and_the_way_back(page):
    from playwright.sync_api import expect

    go(page, "#/topics")
    names = page.locator("td[data-label=Topic]")
    expect(names).to_have_count(3)
    page.get_by_label("Name has").press_sequentially("orders")
    expect(names).to_have_count(2)
    page.get_by_role("button", name="Topic", exact=True).press("Enter")
    expect(names).to_have_text(["orders", "old-orders"])
    page.reload()
    expect(names).to_have_text(["orders", "old-orders"])
    assert page.get_by_label("Name has").input_value() == "orders"
    page.get_by_role("link", name="old-orders").press("Enter")
    page.get_by_role("heading", name="old-orders").wait_for()
    page.go_back()
    expect(names).to_have_text(["orders", "old-orders"])
    assert page.get_by_label("Name has").input_value() == "orders"
    assert "orders" not in page.url  # What is searched for is in no address.


def test_the_order_that_the_browser_makes_is_kept_where_a_filter_is(page):
    from playwright.sync_api import expect

    go(page, "#/storage")
    column, head = page.locator("td[data-label=Meaning]"), page.locator("th[aria-sort]")
    expect(column).to_have_count(4)
    unsorted = column.all_inner_texts()
    page.get_by_role("button", name="Meaning").press("Enter")
    expect(head).to_have_text("Meaning")
    expect(column).to_have_text(sorted(unsorted))
    assert unsorted != sorted(unsorted)
    page.reload()
    expect(column).to_have_text(sorted(unsorted))
    expect(head).to_have_text("Meaning")
    go(page, "#/topics")
    page.go_back()
    expect(column).to_have_text(sorted(unsorted))


def test_records_that_were_read_are_read_again_at_the_same_place(page, log):
    from playwright.sync_api import expect

    write(log, 60)
    go(page, "#/topic/orders")
    expect(page.locator(".tile dd").nth(1)).to_have_text("60")
    page.get_by_label("Search").fill("value")
    page.get_by_role("button", name="Read", exact=True).press("Enter")
    values = page.locator("td[data-label=Value] code")
    expect(values).to_have_count(25)
    first = values.first.inner_text()
    page.get_by_role("button", name="Older ones").press("Enter")
    expect(values.first).not_to_have_text(first)
    expect(page.get_by_role("button", name="Go on live")).to_have_count(0)  # New ones do not come next.
    shown = values.all_inner_texts()
    page.reload()
    expect(values).to_have_text(shown)
    go(page, "#/history")
    page.go_back()
    expect(values).to_have_text(shown)
    assert page.get_by_label("Search").input_value() == "value"


def test_an_address_of_no_view_says_so(page):
    for address in ("#/topic/%", "#/topic", "#/topik/orders", "#/constructor/x"):
        go(page, address)
        page.get_by_role("heading", name="There is no such view").wait_for()
    go(page, "#/topics")
    page.get_by_role("link", name="old-orders").wait_for()


def test_a_login_leads_to_the_address_that_was_asked_for(browser, tmp_path):
    logs = [Log.create(str(tmp_path / place / "log")) for place in ("a", "b")]
    Admin(logs[1]).create_topic("orders", 1)
    token = new_token()
    followers = [Follower(one.url) for one in logs]
    with served(followers, Access(token)) as server, emptied(browser) as page:
        page.goto(f"{server.url}?log=b%2Flog#/topic/orders")
        page.get_by_label("Token").press_sequentially(token)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="orders").wait_for()
        assert page.title() == "orders – b/log – eoslog"


def test_a_page_whose_server_has_other_logs_by_now_changes_none_of_them(browser, tmp_path):
    """It is started again at the same address, with the logs in another order."""
    urls = [Log.create(str(tmp_path / name)).url for name in ("a", "b")]
    with emptied(browser) as page:
        with served([Follower(url) for url in urls], allow_writes=True) as server:
            page.goto(f"{server.url}#/topics")
            page.wait_for_selector("#live.on")
        with served([Follower(url) for url in urls[::-1]], port=server.port, allow_writes=True):
            page.get_by_text("was started again with other logs").wait_for()
            page.locator("summary", has_text="Create a topic").press("Enter")
            page.get_by_label("Topic", exact=True).fill("orders")
            page.get_by_role("button", name="Create …").press("Enter")
            page.get_by_role("button", name="Create it").press("Enter")
            page.locator("p.error, p span.error").filter(has_text="nothing was asked or changed").wait_for()
    assert [[*Log.open(url).state.topics] for url in urls] == [[], []]
