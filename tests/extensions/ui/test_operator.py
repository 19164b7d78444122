"""An operator's afternoon: from the first view to the cause and the cure, by keyboard alone."""

from __future__ import annotations

import pytest

from spark_eos.extensions.ui.follower import Follower
from tests.extensions.ui.afternoon import HOSTILE, Later, Trouble
from tests.extensions.ui.browsing import in_chromium, opened, served

pytestmark = in_chromium

FOCUSED = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    return {
        // A new view takes the focus, perhaps after the next key was pressed: its text is not its name.
        name: one.id === "main" ? "" : one.ariaLabel
            || [...(one.labels || [])].map((label) => label.textContent).join(" ") || one.textContent,
        visible: one.id === "main" || (style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2),
        seen: one.getBoundingClientRect().width > 0,
    };
}"""


class Hands:
    """A person with a keyboard and no mouse."""

    def __init__(self, page) -> None:
        self.page, self.press, self.write = page, page.keyboard.press, page.keyboard.type

    def at(self) -> str:
        """The name of what has the focus, which is to be seen."""
        found = self.page.evaluate(FOCUSED)
        assert found["visible"], found
        assert found["seen"], found
        return found["name"]

    def has(self, name: str) -> None:
        """Wait until it has the focus: the browser tells of a dialog's end a little later."""
        from playwright.sync_api import expect

        expect(self.page.get_by_role("button", name=name)).to_be_focused()
        assert self.at() == name

    def to(self, name: str, *, whole: bool = False) -> None:
        """Go there, from one stop of the Tab key to the next."""
        passed = []
        for _ in range(120):
            self.press("Tab")
            passed.append(self.at() if self.page.evaluate("document.activeElement !== document.body") else "")
            if name == passed[-1] or (name in passed[-1] and not whole):
                return
        raise AssertionError(f"Tab does not reach {name!r}, but {passed}")

    def use(self, name: str, *, whole: bool = False) -> None:
        """Go there and press Enter."""
        self.to(name, whole=whole)
        self.press("Enter")

    def sees(self, text: str) -> None:
        """Wait until it is on the page."""
        self.page.get_by_role("main").get_by_text(text).first.wait_for()

    def is_in(self, view: str) -> None:
        """Wait for a view, which takes the focus."""
        self.page.get_by_role("heading", level=1, name=view).wait_for()


@pytest.fixture
def trouble(tmp_path):
    made = Trouble(tmp_path)
    yield made
    made.close()


@pytest.fixture
def hands(browser, trouble):
    with (
        served([Follower(trouble.url, clock=Later(), interval_s=0.2)], allow_writes=True) as server,
        opened(browser, server.url) as page,
    ):
        page.get_by_role("heading", name="Overview").wait_for()
        yield Hands(page)


@pytest.mark.deep
def test_an_afternoon(hands, trouble):
    first = "Overview"

    # A transaction hangs, and holds readers back.
    hands.sees("and holds back 8 offsets of orders-2")
    hands.use("Show transactions")
    hands.is_in("Transactions")
    hands.sees("past its timeout")
    hands.use("Abort the transaction of checkout")
    hands.page.get_by_role("dialog").wait_for()
    assert hands.at() == "Keep it open"
    hands.press("Escape")
    hands.has("Abort the transaction of checkout")
    assert trouble.log.follow().open_transactions
    hands.press("Enter")
    hands.to("Abort it")
    hands.press("Enter")
    hands.sees("is aborted, and its producer is fenced")
    hands.sees("No transaction is open.")
    assert not trouble.log.follow().open_transactions

    # A query lags.
    hands.use(first)
    hands.sees(
        "Query 'enrich' is 10 records and 30 min behind in orders-0; it has committed offsets 30 min ago."
    )
    hands.use("Show query enrich")
    hands.is_in("enrich")
    hands.sees("start it again on its checkpoint")
    hands.sees(f"eoslog lag {trouble.url} --group enrich")

    # A program fails with PRODUCER_FENCED.
    hands.use(first)
    hands.sees("'billing' was fenced 2 times in ")
    hands.use("Show transactions billing")
    hands.is_in("Transactions")
    hands.sees("producer fenced by host-c in entry")
    hands.sees("producer fenced by host-b in entry")
    hands.sees("two programs use one transactional id and fence each other: give each its own, or stop one")

    # Maintenance does not run.
    hands.use(first)
    hands.sees("small batches that could be joined")
    hands.use("Show storage")
    hands.is_in("Storage")
    hands.sees(f"eoslog maintain {trouble.url}")
    hands.use("Count all objects")
    hands.page.get_by_role("table", name="Objects by kind").wait_for()

    # A file is damaged, and another one is garbage.
    hands.use(first)
    hands.sees("Not looked at: whether a file is damaged or missing.")
    hands.use("Show health")
    hands.is_in("Health")
    hands.use("Verify now")
    hands.sees("The data was not read: a damaged file is found without")
    hands.to("quick")
    hands.press("Space")
    hands.use("Verify now")
    hands.sees("Wrong: 1, unread: 0.")
    hands.sees(trouble.damaged.name)
    hands.sees("put the file back from a copy; readers of these offsets fail until then")
    hands.sees(f"eoslog vacuum {trouble.url}")
    hands.use(first)
    hands.sees("Verify has found 1 damaged or missing objects.")


@pytest.mark.deep
def test_every_view_by_keyboard(hands, trouble):
    from playwright.sync_api import expect

    for view in (
        "Overview",
        "Topics",
        "Groups and queries",
        "Transactions",
        "History",
        "Storage",
        "Publications",
        "Health",
    ):
        hands.use(view)
        hands.is_in(view)
    hands.use("Topics")
    hands.is_in("Topics")
    hands.to("Name has")
    hands.write("click")
    hands.page.get_by_role("table", name="1 topic").wait_for()
    hands.use("clicks")
    hands.is_in("clicks")
    hands.to("From")
    hands.press("ArrowDown")  # The oldest.
    hands.use("Read", whole=True)
    hands.sees("25 records, the oldest first")
    hands.use("Next ones")
    hands.page.get_by_role("cell", name="click 49").wait_for()
    hands.to("Search")
    hands.write("click 77")
    hands.use("Read", whole=True)
    hands.page.get_by_role("cell", name="click 77").wait_for()
    hands.use("History")
    hands.is_in("History")
    shown = hands.page.get_by_role("list", name="Entries, newest first").get_by_role("listitem").first
    newest = trouble.log.state.seq
    expect(shown).to_contain_text(f"Entry {newest}")
    hands.use("Older")
    expect(shown).to_contain_text(f"Entry {newest - 50}")
    hands.to("Entry or time")
    hands.write("7")
    hands.press("Enter")
    expect(shown).to_contain_text("Entry 7")
    hands.use("Groups and queries")
    hands.is_in("Groups and queries")  # Entries of the view before name the group, too.
    hands.use(HOSTILE)
    hands.is_in(HOSTILE)
    hands.sees("and has no members; start its consumers again; if they end again")
    hands.to("Keys")
    hands.press("Enter")
    hands.page.get_by_role("dialog").wait_for()
    hands.press("Escape")
    hands.has("Keys")
