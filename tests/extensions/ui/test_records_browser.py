"""Records in a real Chromium: the newest of all partitions, and new ones on top of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.follower import Follower
from spark_eos.storage import MemoryStore
from tests.extensions.ui.browsing import go, in_chromium, in_time_zone, opened, served

pytestmark = in_chromium


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("orders", 3)
    return made


@pytest.fixture
def page(browser, log):
    """The page, which looks at the log when it is told to: by ``page.follower.poll()``."""
    follower = Follower(log.store, interval_s=3600)
    with served([follower]) as server, opened(browser, f"{server.url}#/topic/orders") as made:
        made.follower = follower
        yield made


def write(log, *values, topic="orders"):
    with Producer(log) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 3)


def read(page):
    page.get_by_role("button", name="Read", exact=True).press("Enter")


def test_new_records_appear_on_top_until_it_is_paused(page, log):
    from playwright.sync_api import expect

    values = page.locator("td[data-label=Value] code")
    write(log, *[b"value %d" % number for number in range(30)])
    page.follower.poll()
    read(page)
    expect(values).to_have_count(25)
    write(log, b"a new one")
    page.follower.poll()
    expect(values.first).to_have_text("a new one")
    expect(values).to_have_count(26)
    page.get_by_role("button", name="Pause").press("Enter")
    write(log, b"another one")
    with page.expect_response("**/api/topic"):
        page.follower.poll()
    expect(values.first).to_have_text("a new one")
    page.get_by_role("button", name="Go on live").press("Enter")
    expect(values.first).to_have_text("another one")
    page.get_by_role("button", name="Older ones").press("Enter")
    expect(values).to_have_count(5)
    page.get_by_role("button", name="Newest").press("Enter")
    expect(values.first).to_have_text("another one")


def test_what_was_asked_last_is_shown_although_an_earlier_answer_comes_later(page, log):
    from playwright.sync_api import expect

    held = []
    page.route("**/api/records", lambda route: route.continue_() if held else held.append(route))
    write(log, b"value 0", b"value 1")
    page.follower.poll()
    page.get_by_label("Search").fill("value 0")
    read(page)
    page.get_by_role("status").get_by_text("Reading …").wait_for()
    page.get_by_label("Search").fill("value 1")
    read(page)
    values = page.locator("td[data-label=Value] code")
    expect(values).to_have_text(["value 1"])
    expect(page.get_by_text("Reading …")).to_have_count(0)
    with page.expect_response("**/api/records") as answer:
        held[0].continue_()
    answer.value.finished()
    page.evaluate("new Promise((go) => setTimeout(go, 50))")
    expect(values).to_have_text(["value 1"])


def test_what_has_the_focus_is_not_below_the_column_that_stays(page, log):
    schema = pa.schema([(f"column_{number}", pa.string()) for number in range(12)])
    Admin(log).create_topic("typed", 1, schema=schema)
    with Producer(log) as producer:
        producer.send_arrow("typed", pa.table([["some text"]] * 12, schema=schema))
    page.follower.poll()
    go(page, "#/topic/typed")
    read(page)
    page.get_by_role("table", name="record").wait_for()
    for one in page.locator(".records button.sort").all():
        one.focus()
        assert one.evaluate("""(one) => {
            const {right, top} = one.getBoundingClientRect();
            return one === document.elementFromPoint(right - 2, top + 4);
        }"""), one.inner_text()
    table = page.locator(".records .wide")
    place = table.evaluate("(one) => one.scrollLeft")
    assert place > 0
    with Producer(log) as producer:
        producer.send_arrow("typed", pa.table([["new"]] * 12, schema=schema))
    page.follower.poll()
    page.get_by_role("cell", name="new").first.wait_for()
    assert table.evaluate("(one) => one.scrollLeft") == pytest.approx(place, abs=60)  # It is drawn anew.


def test_records_of_a_deleted_topic_are_not_those_of_the_one_that_has_its_name_now(page, log):
    from playwright.sync_api import expect

    write(log, b"of the old one")
    page.follower.poll()
    read(page)
    values = page.locator("td[data-label=Value] code")
    expect(values).to_have_text(["of the old one"])
    Admin(log).delete_topic("orders")
    Admin(log).create_topic("orders", 3)
    write(log, b"of the new one")
    page.follower.poll()
    page.get_by_text("This topic was deleted and created again.").wait_for()
    expect(values).to_have_count(0)
    read(page)
    expect(values).to_have_text(["of the new one"])


def test_all_partitions_from_the_oldest_on(page, log):
    from playwright.sync_api import expect

    write(log, *[b"" if number == 9 else b"value %d" % number for number in range(30)])
    page.follower.poll()
    page.get_by_label("From").select_option("offset")
    page.get_by_label("Offset or time").fill("1")
    read(page)
    values = page.locator("td[data-label=Value] code")
    expect(values).to_have_count(24)
    expect(page.locator("td[data-label=Value] .soft")).to_have_text("empty")
    page.get_by_role("button", name="Next ones").press("Enter")
    expect(values).to_have_count(2)
    expect(page.get_by_role("button", name="Next ones")).to_have_count(0)


def test_columns_are_chosen_copied_and_saved(page, log, tmp_path):
    from playwright.sync_api import expect

    hostile = "<img src=x onerror=hacked=1>\u202e"
    Admin(log).create_topic("typed", 1, schema=pa.schema([("name", pa.string()), ("long", pa.string())]))
    with Producer(log) as producer:
        producer.send_arrow("typed", pa.table({"name": [hostile], "long": ["=" + "x" * 300]}))
    page.follower.poll()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    go(page, "#/topic/typed")
    read(page)
    cell = page.locator("td[data-label=name] code")
    expect(cell).to_have_text("<img src=x onerror=hacked=1>U+202E")
    assert page.evaluate("window.hacked") is None
    expect(page.get_by_text("x" * 300)).to_be_hidden()
    page.locator("td[data-label=long] summary").press("Enter")
    expect(page.get_by_text("x" * 300)).to_be_visible()
    page.locator("summary", has_text="Columns: 5 of 5").press("Enter")
    page.get_by_label("name", exact=True).uncheck()
    expect(cell).to_have_count(0)
    with page.expect_download() as loading:
        page.get_by_role("button", name="Save as CSV").press("Enter")
    loading.value.save_as(tmp_path / "file")
    text = (tmp_path / "file").read_text()
    assert text.splitlines()[0] == "partition,offset,time,long"
    assert ",'=xxx" in text
    with page.expect_download() as loading:
        page.get_by_role("button", name="Save as Parquet").press("Enter")
    loading.value.save_as(tmp_path / "typed.parquet")
    assert pq.read_table(tmp_path / "typed.parquet")["long"].to_pylist() == ["=" + "x" * 300]
    page.get_by_role("button", name="Open the record at offset 0 of partition 0").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Copy name").press("Enter")
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == hostile
    page.keyboard.press("Escape")
    page.reload()
    read(page)
    expect(page.locator("td[data-label=long]")).to_have_count(1)
    expect(cell).to_have_count(0)


def test_tables_are_sorted_by_their_heads(page, log):
    from playwright.sync_api import expect

    write(log, b"b", b"10", b"a", b"2")
    page.follower.poll()
    read(page)
    values = page.locator("td[data-label=Value] code")
    page.get_by_role("button", name="Value", exact=True).press("Enter")
    expect(page.get_by_role("columnheader", name="Value")).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("button", name="Value", exact=True)).to_be_focused()
    expect(values).to_have_text(["10", "2", "a", "b"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Value")).to_have_attribute("aria-sort", "descending")
    expect(values).to_have_text(["b", "a", "2", "10"])
    ends = page.locator("td[data-label=End]")
    page.get_by_role("button", name="End", exact=True).press("Enter")
    expect(ends).to_have_text(["2", "1", "1"])
    page.keyboard.press("Enter")
    expect(ends).to_have_text(["1", "1", "2"])
    expect(page.get_by_role("columnheader", name="End", exact=True)).to_have_attribute(
        "aria-sort", "ascending"
    )


def test_small_tables_are_sorted_where_they_are(page, log):
    """And stay so when their rows are made again."""
    from playwright.sync_api import expect

    Admin(log).create_topic(
        "typed", 1, schema=pa.schema([("b", pa.int64()), ("a", pa.string()), ("c", pa.int8())])
    )
    page.follower.poll()
    go(page, "#/topic/typed")
    page.get_by_text("Settings, columns, readers").press("Enter")
    table = page.get_by_role("table", name="Columns")
    names = table.locator("td[data-label=Name]")
    expect(names).to_have_text(["b", "a", "c"])
    table.get_by_role("button", name="Name").press("Enter")
    expect(names).to_have_text(["a", "b", "c"])
    expect(table.get_by_role("button", name="Name")).to_be_focused()
    page.keyboard.press("Enter")
    expect(names).to_have_text(["c", "b", "a"])
    write(log, b"x")
    with page.expect_response("**/api/topic"):
        page.follower.poll()
    expect(names).to_have_text(["c", "b", "a"])
    expect(table.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")


def test_a_page_of_a_list_is_sorted_on_the_server(page, log):
    from playwright.sync_api import expect

    write(log, b"a long one" * 9, topic="b")
    write(log, b"short", topic="a")
    page.follower.poll()
    go(page, "#/storage")
    table = page.get_by_role("table", name="Stored records by topic")
    for name, order in (("Topic", ["a", "b", "orders"]), ("Bytes", ["b", "a", "orders"])):
        table.get_by_role("button", name=name, exact=True).press("Enter")
        expect(table.locator("td[data-label=Topic]")).to_have_text(order)


def test_times_are_utc_or_local(browser, log):
    from playwright.sync_api import expect

    with Producer(log) as producer:
        producer.send("orders", b"x", partition=0, timestamp_ms=1_780_000_000_000)
    with (
        served([Follower(log.store)]) as server,
        opened(browser, f"{server.url}#/topic/orders") as page,
        in_time_zone(page, "Asia/Kolkata"),
    ):
        page.reload()
        read(page)
        page.get_by_text("2026-05-28 20:26:40.000").wait_for()
        page.get_by_role("button", name="UTC", exact=True).press("Enter")
        page.get_by_text("2026-05-29 01:56:40.000").wait_for()
        expect(page.get_by_role("columnheader", name="Time (Asia/Calcutta)")).to_have_count(1)
        page.reload()
        page.get_by_role("button", name="Local time").wait_for()
        page.get_by_role("spinbutton", name="Partition").fill("0")
        page.get_by_label("From").select_option("time")
        page.get_by_label("Offset or time").fill("2026-05-29 01:56:40")  # As it is shown.
        read(page)
        page.get_by_text("1 record, the oldest first").wait_for()
        page.get_by_label("Offset or time").fill("2026-05-29 01:56:41")
        read(page)
        page.get_by_text("0 records, the oldest first").wait_for()


def test_what_stands_where_in_a_sorted_table(page):
    """Numbers by their size, the largest first; partitions are counted; what has no value is last, either way."""
    orders = page.evaluate("""async () => {
        const {table} = await import("/static/js/dom.js");
        const values = [9, null, 10, "", 2];
        const shown = (kind, key) => {
            const made = table(`Of ${kind}${key}`, [["Head", (row) => String(row[key]), kind, key]],
                values.map((value) => ({[key]: value})));
            return [1, 2].map(() => {
                made.querySelector("button").click();
                return [...made.querySelectorAll("td")].map((cell) => cell.textContent);
            });
        };
        return [shown("n", "size"), shown("n", "partition")];
    }""")
    falling, rising = ["10", "9", "2", "null", ""], ["2", "9", "10", "null", ""]
    assert orders == [[falling, rising], [rising, falling]]


def test_another_order_begins_with_its_first_page(page):
    assert page.evaluate("""async () => {
        const {byServer} = await import("/static/js/dom.js"), asked = {sort: "", first: 50};
        byServer(asked, () => {}).choose("name");
        return asked;
    }""") == {"sort": "name", "reverse": False, "first": 0}
