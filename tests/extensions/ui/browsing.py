"""A real Chromium and the page in it: what the browser tests share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_eos.extensions.ui.security import Access
from spark_eos.extensions.ui.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page

    from spark_eos.extensions.ui.follower import Follower

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
EMPTY = "http://127.0.0.1/"
"""An address of the site that all pages are of: there the browser goes on with the process that it has for them."""
PATIENCE_MS = 60_000
"""So long the tests wait for what is to be seen: a browser beside other tests is slow."""
PICTURES = os.environ.get("EOSLOG_UI_PICTURES")
"""A folder for the pictures of docs/extensions/ui/index.md."""

in_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="Chromium is not here: apt-get install --no-install-recommends chromium"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=ARGUMENTS)
        made.new_page()
        yield made
        made.close()


@contextmanager
def served(followers: Sequence[Follower], access: Access | None = None, **options: Any) -> Iterator[Server]:
    """The page of some logs, served until the end, which waits for the server's own."""
    server = Server(followers, access or Access(), **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:  # A test that fails is not to wait for ever.
        server.stop()
        thread.join(60)
    assert not thread.is_alive()


@contextmanager
def emptied(browser: Browser) -> Iterator[Page]:
    """The page that the browser keeps, with nothing of an earlier test: a new one takes four times as long."""
    page = browser.contexts[0].pages[0]
    page.set_viewport_size({"width": 1280, "height": 800})
    yield page
    page.unroute_all(behavior="ignoreErrors")
    page.evaluate("try { localStorage.clear(); sessionStorage.clear() } catch {}")  # No site, no storage.
    nothing = '<link rel="icon" href="data:,">'  # Else the browser asks for an icon.
    page.route(EMPTY, lambda route: route.fulfill(body=nothing, content_type="text/html"))
    page.goto(EMPTY)
    page.unroute(EMPTY)
    page.context.clear_cookies()  # Left before: a page that is logged out leads to the form, and crosses the way here.
    page.context.clear_permissions()
    page.emulate_media(color_scheme="null")


@contextmanager
def in_time_zone(page: Page, name: str) -> Iterator[None]:
    """The browser's own, for this page."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": name})
    yield
    session.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
    session.detach()


@contextmanager
def opened(
    browser: Browser, url: str, width: int = 1280, expected: str | None = None, **options: Any
) -> Iterator[Page]:
    """A page that has begun to follow the log. What it logs as an error, or fails of, fails the test.

    But for errors with the ``expected`` words. With ``options`` of a context it is a page of its own.
    """
    problems: list[str] = []

    def fail(error: Error) -> None:
        problems.append(str(error))

    def fail_of(said: ConsoleMessage) -> None:
        if said.type == "error" and not (expected and expected in said.text):
            problems.append(said.text)

    with browser.new_context(**options) if options else emptied(browser) as place:
        page = place.new_page() if options else place
        page.set_viewport_size({"width": width, "height": 800})
        page.on("console", fail_of)
        page.on("pageerror", fail)
        page.goto(url)
        page.wait_for_selector("#live.on")
        yield page
        page.remove_listener("console", fail_of)
        page.remove_listener("pageerror", fail)
    assert not problems, problems  # Said: no test module, so pytest does not rewrite it.


def go(page: Page, view: str) -> None:
    """Another view of the page, by its address, when it is there."""
    page.goto(page.url.partition("#")[0] + view)
    page.wait_for_selector("#stale + div > *", state="attached")


def reached(page: Page, locator: Locator) -> Locator:
    """It has the focus, by the key Tab alone, as often as it takes."""
    locator.wait_for()
    element = locator.element_handle()  # To look for it by its role takes twice as long as a Tab.
    for _ in range(300):
        is_there, has_focus = element.evaluate("(one) => [one.isConnected, one === document.activeElement]")
        if has_focus:
            return locator
        if is_there:
            page.keyboard.press("Tab")
        else:  # The page has made it again.
            element = locator.element_handle()
    raise AssertionError(f"no number of Tabs leads to {locator}")


def pressed(page: Page, locator: Locator, keys: str = "") -> None:
    """What is chosen by keyboard alone: keys are typed, if there are any, else Enter is pressed."""
    reached(page, locator)
    if keys:
        page.keyboard.type(keys)
    else:
        page.keyboard.press("Enter")


def picture(page: Page, name: str) -> None:
    """A small picture of what the window shows, for the documentation, if they are made."""
    if not PICTURES:
        return
    from PIL import Image

    whole = Image.open(BytesIO(page.screenshot()))
    whole.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        f"{PICTURES}/{name}.png", optimize=True
    )


@contextmanager
def unanswered(page, pattern):
    """Requests like ``pattern`` get their answers at its end. One has come by then."""
    held = []
    page.route(pattern, lambda route: held.append(route))  # noqa: PLW0108  (no builtin can be one)
    yield
    for _ in range(3000):  # A minute. The browser may have drawn before it tells of its request.
        if held:
            break
        page.wait_for_timeout(20)
    for route in held:
        route.continue_()
    page.unroute(pattern)
