"""The page in a real Chromium: what a person sees and clicks, on a log that is being written to."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack, suppress
from urllib.parse import quote

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.errors import ProducerFencedError, StoreUnavailableError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import COOKIE, Access, new_token
from spark_eos.maintenance.maintain import size_text
from spark_eos.storage import MemoryStore
from spark_eos.testing import FaultyStore
from tests.extensions.ui.browsing import emptied, in_chromium, opened, served

HOSTILE = "<script>window.hacked=1</script>"

pytestmark = in_chromium


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    made = Log.create(str(tmp_path_factory.mktemp("ui") / "shop"))
    Admin(made).create_topic("orders", 3)
    Admin(made).alter_group_offsets(HOSTILE, {TopicPartition("orders", 0): 0})
    return made


@pytest.fixture(scope="module")
def url(log):
    with served([Follower(log.url, interval_s=0.2)], allow_writes=True) as server:
        yield server.url


@pytest.fixture
def busy(log):
    """The log is being written to: the page makes its rows again and again."""
    stop = threading.Event()

    def write():
        with Producer(log) as producer:
            while not stop.is_set():
                producer.send("orders", f"{HOSTILE} order".encode(), key=b"anna", headers=[("h", b"1")]).get()
                stop.wait(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    yield
    stop.set()
    writer.join()


def drawn_again(page, selector):
    """Wait until the page has made these elements once more, from now on."""
    mark(page, selector)
    wait_until_drawn(page, selector)


def mark(page, selector):
    page.evaluate("one => { document.querySelector(one).isEarlier = true; }", selector)


def wait_until_drawn(page, selector):
    """Since these elements were marked."""
    page.wait_for_function("one => document.querySelector(one)?.isEarlier !== true", arg=selector)


@pytest.fixture
def open_page(browser, url):
    with ExitStack() as pages:
        yield lambda width=1280, **options: pages.enter_context(opened(browser, url, width, **options))


@pytest.fixture
def told(log):
    """The address of a page that asks for a token, and the token."""
    with served([Follower(log.url)], Access(token := new_token(), "0.0.0.0"), host="0.0.0.0") as server:
        yield server.url, token


@pytest.mark.usefixtures("busy")
def test_what_a_person_sees_while_the_log_is_written_to(open_page):
    from playwright.sync_api import expect

    page = open_page()
    page.get_by_role("heading", name="Overview").wait_for()
    before = page.inner_text("#live")
    expect(page.locator("#live")).not_to_have_text(before)
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_role("link", name="orders").press(
        "Enter"
    )  # A click would miss a row that is made again meanwhile.
    page.get_by_role("heading", name="orders").wait_for()
    page.get_by_label("Search").fill("SCRIPT")
    page.get_by_label("Key is").fill("anna")
    page.get_by_role("button", name="Go to key").click()
    page.get_by_role("cell", name=HOSTILE).first.wait_for()
    assert page.evaluate("window.hacked") is None
    assert "SCRIPT" not in page.url


def test_sizes_read_as_in_a_terminal(open_page):
    sizes = [0, 1, 999, 1000, 1024, 3_449_000, 2_000_000_000, 50_000_000_000_000]
    script = "sizes => import('/static/js/dom.js').then((dom) => sizes.map(dom.size))"
    assert open_page().evaluate(script, sizes) == [*map(size_text, sizes)]


@pytest.mark.deep
@pytest.mark.parametrize("width", [360, 1280])
def test_every_view_fits_the_screen(open_page, width):
    page = open_page(width, color_scheme="dark")
    views = [link.get_attribute("href") for link in page.query_selector_all("#views a")]
    assert len(views) == 8
    for view in [*views, "#/topic/orders", f"#/group/{quote(HOSTILE, safe='')}"]:
        page.goto(page.url.partition("#")[0] + view)
        page.wait_for_selector("#stale + div > *", state="attached")
        assert page.locator("#stale").is_hidden(), view
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 29)"


def test_a_person_logs_in_and_out(browser, told):
    url, token = told
    with emptied(browser) as page:
        page.goto(url)
        page.get_by_label("Token").fill("not the token at all")
        page.keyboard.press("Enter")
        page.get_by_text("This is not the token").wait_for()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#live.on")
        assert page.url == url
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (COOKIE, True, "Strict")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()
        page.goto(url)
        page.get_by_label("Token").wait_for()


def test_another_site_reaches_nothing(browser, url):
    """A page of another origin: its browser runs its requests, and they fail or are refused."""
    statuses = []

    def note(answer):
        statuses.append(answer.status)

    with emptied(browser) as page:
        page.on("response", note)
        page.route("http://evil.example/", lambda route: route.fulfill(body="<p>", content_type="text/html"))
        page.goto("http://evil.example/")
        statuses.clear()
        for path, options in (
            ("session", "{}"),
            ("session", "{mode: 'no-cors'}"),
            ("api/overview", "{method: 'POST', mode: 'no-cors', body: '{}'}"),
        ):
            page.evaluate(f"fetch({url + path!r}, {options}).then((one) => one.type, () => '')")
        page.evaluate(
            f"""document.body.innerHTML = '<form method=post action="{url}login"><button>x</button></form>'"""
        )
        with page.expect_navigation():
            page.get_by_role("button").click()
        page.remove_listener("response", note)
        assert set(statuses) == {403}


@pytest.mark.deep
@pytest.mark.usefixtures("busy")
def test_the_focus_stays_while_rows_are_made_again(open_page):
    page = open_page(width=360)
    page.goto(page.url.partition("#")[0] + "#/topic/orders")
    page.get_by_text("Settings, columns, readers").click()
    page.get_by_role("link", name=HOSTILE).focus()
    drawn_again(page, "details[data-key] a")
    assert page.evaluate("document.activeElement.textContent") == HOSTILE
    caption = page.locator("main caption").last
    assert caption.bounding_box()["width"] > 250


@pytest.mark.usefixtures("busy")
def test_by_keyboard_alone(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("2")
    page.get_by_role("heading", name="Topics").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.wait_for_selector("td a")
    for name in ("Topic", "Offsets", "Held back", "Offsets/s", "orders"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == name
    drawn_again(page, "td a")  # The focus stays.
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")


@pytest.mark.usefixtures("busy")
def test_a_hanging_transaction_is_aborted_after_a_question(open_page, log):
    from playwright.sync_api import expect

    producer = Producer(log, {"transactional.id": "stuck"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=2)
    producer.flush()
    page = open_page()
    page.get_by_role("link", name="Transactions", exact=True).click()
    button = page.get_by_role("button", name="Abort the transaction of stuck")
    button.press("Enter")
    assert page.evaluate("document.activeElement.id") == "confirm-no"
    drawn_again(page, "main td button")  # Behind the dialog.
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    expect(button).to_be_focused()  # The browser tells of a dialog's end later.
    assert log.follow().open_transactions
    button.press("Enter")
    page.get_by_role("button", name="Abort it").click()
    page.get_by_text("Transaction 0 of 'stuck' is aborted, and its producer is fenced").wait_for()
    page.get_by_text("No transaction is open.").wait_for()
    assert not log.follow().open_transactions
    with suppress(ProducerFencedError):
        producer.close(0)


def test_verify_shows_what_it_finds(open_page):
    page = open_page()
    page.get_by_role("link", name="Health", exact=True).click()
    page.get_by_role("button", name="Verify now").click()
    page.get_by_text("All references are whole. The data was not read").wait_for()
    page.get_by_label("quick").uncheck()
    page.get_by_role("button", name="Verify now").click()
    page.get_by_text("The log is sound.").wait_for()


@pytest.mark.deep
def test_an_abort_whose_reply_is_lost_is_looked_for(open_page, log):
    producer = Producer(log, {"transactional.id": "unheard"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=2)
    producer.flush()
    page = open_page(expected="net::ERR_FAILED")

    def lose(route):
        route.fetch()
        route.abort()

    page.route("**/api/abort", lose)
    page.get_by_role("link", name="Transactions", exact=True).click()
    page.get_by_role("button", name="Abort the transaction of unheard").click()
    page.get_by_role("button", name="Abort it").click()
    page.get_by_text("Whether transaction 0 of unheard was aborted is not known.").wait_for()
    page.get_by_role("button", name="Look what became of it").press("Enter")
    page.get_by_text("Transaction 0 of 'unheard' is aborted").wait_for()
    page.get_by_text("No transaction is open.").wait_for()
    with suppress(ProducerFencedError):
        producer.close(0)


def test_characters_that_cannot_be_seen_are_shown_by_their_numbers(open_page, log):
    name = "safe\u202etxt.exe\u200b"
    Admin(log).alter_group_offsets(name, {TopicPartition("orders", 0): 0})
    page = open_page()
    page.get_by_role("link", name="Groups").click()
    link = page.get_by_role("link", name="safeU+202Etxt.exeU+200B")
    link.wait_for()
    assert link.locator(".hidden-character").all_inner_texts() == ["U+202E", "U+200B"]
    link.click()
    page.get_by_role("heading", name="safeU+202Etxt.exeU+200B").wait_for()


def test_names_from_right_to_left_stand_in_the_order_of_the_line(open_page, log):
    """Without a limit between them the second one would stand before the first, as in a Hebrew text."""
    names = ["אחרת", "קבוצה"]
    for name in names:
        Admin(log).alter_group_offsets(name, {TopicPartition("orders", 0): 0})
    page = open_page()
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_role("link", name="orders").click()
    page.get_by_text("Settings, columns, readers").click()
    first, second = (page.get_by_role("link", name=name).bounding_box() for name in names)
    assert first["y"] == second["y"]
    assert first["x"] < second["x"]


def test_who_has_fenced_a_zombie(open_page, log):
    for client in ("the old host", "the new host"):
        with Producer(log, {"transactional.id": "billing", "client.id": client}) as producer:
            producer.init_transactions()
    page = open_page()
    page.get_by_role("link", name="Transactions", exact=True).click()
    page.get_by_label("Transactional id has").fill("bill")
    page.get_by_text("producer taken over by the new host in entry").wait_for()
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_label("Name, writer or deed has").fill("bill")
    page.get_by_role("cell", name="producer taken over").wait_for()


@pytest.fixture
def unsteady():
    """A page of its own, its server, and the store below it, which can be made to fail."""
    store = FaultyStore(MemoryStore())
    store.requests_are_free = False  # As a bucket's.
    made = Log.create(store)
    Admin(made).create_topic("orders", 1)
    with served([Follower(store, interval_s=0.1)]) as server:
        yield server, store


ANSWERS_ARE_COUNTED = """() => {
  const json = Response.prototype.json;
  window.answers = 0;
  Response.prototype.json = async function () {
    const value = await json.call(this);
    setTimeout(() => { window.answers += 1; });  // What is done with it at once comes before.
    return value;
  };
}"""


def news(page, store):
    """Something is new in the log, and the page has got an answer that it would draw."""
    page.evaluate("() => { window.answers = 0; }")
    with Producer(Log.open(store)) as producer:
        producer.send("orders", b"x")
    page.wait_for_function("() => window.answers > 0")


@pytest.mark.parametrize("by", ["mouse", "space"])
def test_what_is_pressed_while_the_page_changes_is_done(browser, unsteady, by):
    server, store = unsteady
    with opened(browser, f"{server.url}#/storage") as page:
        button = page.get_by_role("button", name="Count all objects")
        button.focus()
        button.hover()
        page.evaluate(ANSWERS_ARE_COUNTED)
        press, release = {
            "mouse": (page.mouse.down, page.mouse.up),
            "space": (lambda: page.keyboard.down(" "), lambda: page.keyboard.up(" ")),
        }[by]
        press()
        news(page, store)
        with page.expect_request("**/api/count-objects"):
            release()
        drawn_again(page, "#main table")


def test_a_press_that_has_no_end_stops_the_page_for_a_moment_only(browser, unsteady):
    """A scrollbar's has none. In this browser all is over soon."""
    server, store = unsteady
    with opened(browser, f"{server.url}#/storage") as page:
        button = page.get_by_role("button", name="Count all objects")
        button.hover()
        page.evaluate("() => { const wait = setTimeout; setTimeout = (work, ms) => wait(work, ms / 100); }")
        mark(page, "#main table")
        page.mouse.down()
        with Producer(Log.open(store)) as producer:
            producer.send("orders", b"x")
        wait_until_drawn(page, "#main table")


@pytest.mark.deep
def test_the_last_change_of_a_log_is_shown_although_readers_are_measured_now_and_then(browser, unsteady):
    from playwright.sync_api import expect

    server, store = unsteady
    log = Log.open(store)
    with Producer(log) as producer:
        for _ in range(5):
            producer.send("orders", b"x")
    place = TopicPartition("orders", 0)
    Admin(log).alter_group_offsets("copy", {place: 2})
    not_seen_yet = "Failed to load resource"  # The server may have another look before it.
    with opened(browser, f"{server.url}#/group/copy", expected=not_seen_yet) as page:
        lag = page.locator(".tile", has_text="Lag in offsets").locator("dd")
        expect(lag).to_have_text("3")
        Admin(log).alter_group_offsets("copy", {place: 4})
        expect(lag).to_have_text("1")


def test_a_clock_that_is_set_back_does_not_stop_the_page(browser, unsteady):
    """Nothing is written. In this browser the hands go back, and the time that has passed runs fast."""
    server, _ = unsteady
    with opened(browser, f"{server.url}#/topics") as page:
        page.get_by_role("cell", name="orders").wait_for()
        page.evaluate(
            "() => { const passed = performance.now.bind(performance);"
            " performance.now = () => 100 * passed(); Date.now = () => 0; }"
        )
        for _ in range(3):  # One that was asked for before may come yet, and the one that it has put off.
            with page.expect_response("**/api/topics"):
                pass


@pytest.mark.deep
def test_what_is_not_up_to_date_says_so(browser, unsteady):
    from playwright.sync_api import expect

    server, store = unsteady
    with emptied(browser) as page:
        page.set_viewport_size({"width": 360, "height": 800})
        page.goto(f"{server.url}#/topics")
        page.get_by_role("cell", name="orders").wait_for()
        expect(page.locator("#stale")).to_be_hidden()
        for operation in ("read", "size", "list"):
            store.inject(StoreUnavailableError("the bucket is away"), operation, times=None)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("The log cannot be read at the moment: the bucket is away")
        expect(page.locator("#age")).to_contain_text("Not up to date: this is the log as it was at")
        expect(page.locator("main")).to_have_class("stale")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.get_by_role("link", name="Overview", exact=True).click()
        link = page.get_by_text("The log cannot be read now, for the reason above").get_by_role("link")
        link.wait_for()
        assert page.get_by_text("Nothing was found.").count() == 0
        link.click()
        page.get_by_role("heading", name="Store").wait_for()
        page.get_by_text("it tries again by itself").wait_for()
        expect(page.get_by_text("the bucket is away")).to_have_count(1)
        store.heal()
        page.get_by_text("The log can be read.").wait_for()
        expect(page.locator("#stale")).to_be_hidden()
        page.get_by_role("link", name="Topics", exact=True).click()
        page.get_by_role("cell", name="orders").wait_for()
        server.stop()
        expect(alert).to_contain_text("The connection to the server of this page is lost")
        expect(page.locator("main")).to_have_class("stale")


SHOWN = "Entries, newest first"


def test_an_entry_that_the_page_has_not_seen_yet_is_shown_when_it_has(browser):
    from playwright.sync_api import expect

    log = Log.create(MemoryStore())
    follower = Follower(log.store, interval_s=3600)  # It looks when it is told to.
    with served([follower]) as server, opened(browser, f"{server.url}#/history") as page:
        shown = page.get_by_role("list", name=SHOWN).get_by_role("listitem").first
        page.get_by_role("img", name="over time, by kind of writer").wait_for()
        Admin(log).create_topic("orders", 1)
        page.get_by_label("Entry or time").fill("1")
        with page.expect_response("**/api/strip"):
            page.keyboard.press("Enter")
        expect(shown).to_contain_text("Entry 0 ")
        follower.poll()
        expect(shown).to_contain_text("Entry 1 ")


@pytest.mark.deep
def test_the_strip_of_the_history_is_a_table_too(open_page, log):
    from playwright.sync_api import expect

    page = open_page()
    page.get_by_role("link", name="History", exact=True).click()
    with Producer(log) as producer:
        producer.send("orders", b"x")
    last = log.follow().seq
    page.get_by_label("Entry or time").fill(str(last))
    page.keyboard.press("Enter")
    shown = page.get_by_role("list", name=SHOWN).get_by_role("listitem").first
    expect(shown).to_contain_text(f"Entry {last:,} ")
    drawing = page.get_by_role(
        "img", name=re.compile(f"Entries [0-9,]+ to {last:,} over time, by kind of writer")
    )
    drawing.wait_for()
    assert drawing.locator("rect").count() >= 1
    page.locator("summary", has_text="The bars as a table").press("Enter")
    button = page.get_by_role("table", name="by kind of writer").locator("td button").first
    oldest = button.inner_text().rpartition(" ")[2]
    button.press("Enter")
    expect(shown).to_contain_text(f"Entry {oldest} ")
