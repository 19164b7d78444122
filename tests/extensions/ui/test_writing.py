"""What a person changes through the page, in a real Chromium: a question, an answer, and no second time."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.extensions.ui.follower import Follower
from tests.extensions.ui.browsing import in_chromium, served
from tests.extensions.ui.test_accessibility import violations

pytestmark = in_chromium


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    made = Log.create(str(tmp_path_factory.mktemp("writing") / "shop"))
    Admin(made).create_topic("orders", 2)
    with Producer(made) as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number, partition=number % 2)
    return made


@pytest.fixture(scope="module")
def url(log):
    with served([Follower(log.url, interval_s=0.2)], allow_writes=True) as server:
        yield server.url


@pytest.fixture
def page(browser, url):
    """A page that fails of nothing; that a group is gone, which it has just asked for, is no failure."""
    with browser.new_context() as context:
        made, problems = context.new_page(), []
        made.on("pageerror", lambda error: problems.append(str(error)))
        made.goto(url)
        made.wait_for_selector("#live.on")
        yield made
    assert problems == []


def answer(page, button, typed=None):
    """Say yes to the question."""
    if typed is not None:
        assert page.get_by_role("button", name=button, exact=True).is_disabled()
        page.get_by_label("To confirm, type its name").fill(typed)
    page.get_by_role("button", name=button, exact=True).click()


def says(page, text):
    page.get_by_role("status").get_by_text(text).wait_for()


def offsets(log, group):
    return [known.offset for known in Admin(log).list_group_offsets(group).values()]


def test_a_group_is_reset_and_deleted(page, log, url):
    places = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}
    Admin(log).alter_group_offsets("billing", places)
    page.goto(f"{url}#/group/billing")
    page.get_by_label("New offsets").select_option("shift")
    page.get_by_label("Time (UTC), offset or count").fill("-6")
    page.keyboard.press("Enter")
    page.get_by_role("table", name="Plan: 2 partitions of 2 would change").wait_for()
    page.get_by_role("button", name="Set these offsets …").click()
    page.keyboard.press("Escape")
    assert offsets(log, "billing") == [5, 7]
    page.get_by_role("button", name="Set these offsets …").click()
    answer(page, "Set the offsets")
    says(page, "Group billing goes on at the new offsets of 2 partitions.")
    assert offsets(log, "billing") == [0, 1]
    page.get_by_role("button", name="Delete group …").click()
    assert violations(page) == []
    answer(page, "Delete the group", typed="billing")
    says(page, "Group billing was deleted.")
    assert "billing" not in Admin(log).list_groups()
    assert page.get_by_role("table").count() == 0


def test_a_reply_that_is_lost_is_looked_for_and_the_change_is_done_once(browser, log, url):
    Admin(log).alter_group_offsets("lost", {TopicPartition("orders", 0): 5})
    with browser.new_context() as context:
        page = context.new_page()

        def lose(route):
            route.fetch()
            route.abort()

        page.route("**/api/group-reset", lose)
        page.goto(f"{url}#/group/lost")
        page.get_by_label("New offsets").select_option("shift")
        page.get_by_label("Time (UTC), offset or count").fill("1")
        page.get_by_role("button", name="Show what changes").click()
        page.get_by_role("button", name="Set these offsets …").click()
        answer(page, "Set the offsets")
        says(page, "The outcome of the reset of group lost is not known.")
        page.unroute("**/api/group-reset")
        page.get_by_role("button", name="Look what became of it").click()
        says(page, "It was done: its entry is in the log.")
        assert offsets(log, "lost") == [6]
        page.route("**/api/group-reset", lose)
        page.get_by_role("button", name="Show what changes").click()
        page.get_by_role("button", name="Set these offsets …").click()
        answer(page, "Set the offsets")
        says(page, "The outcome of the reset of group lost is not known.")
        page.unroute("**/api/group-reset")
        page.get_by_role("button", name="Do the same again").click()
        says(page, "Group lost goes on at the new offsets of 1 partitions.")
        assert offsets(log, "lost") == [7]
