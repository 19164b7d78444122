"""What a person changes through the page, in a real Chromium: a question, an answer, and no second time.

Groups, members and topics are changed by keyboard alone, but for one setting, which has many others before it.
"""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.extensions.ui.follower import Follower
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from tests.extensions.ui.browsing import (
    emptied,
    go,
    in_chromium,
    in_time_zone,
    opened,
    pressed,
    served,
    unanswered,
)
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
    """A page that fails of nothing; an answer that refuses or has gone is no failure."""
    with opened(browser, url, expected="Failed to load resource") as made:
        yield made


def answer(page, button, typed=None):
    """Say yes to the question, by keyboard."""
    yes = page.get_by_role("button", name=button, exact=True)
    if typed is not None:
        assert yes.is_disabled()
        pressed(page, page.get_by_label("To confirm, type its name"), typed)
    pressed(page, yes)


def says(page, text):
    page.get_by_role("status").get_by_text(text).wait_for()


def offsets(log, group):
    return [known.offset for known in Admin(log).list_group_offsets(group).values()]


def test_a_group_is_reset_and_deleted(page, log, url):
    places = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}
    Admin(log).alter_group_offsets("billing", places)
    page.goto(f"{url}#/group/billing")
    pressed(page, page.get_by_label("New offsets"), "shift")
    pressed(page, page.get_by_label("Time (UTC), offset or count"), "-6")
    page.keyboard.press("Enter")
    page.get_by_role("table", name="Plan: 2 partitions of 2 would change").wait_for()
    pressed(page, page.get_by_role("button", name="Set these offsets …"))
    page.keyboard.press("Escape")
    assert offsets(log, "billing") == [5, 7]
    pressed(page, page.get_by_role("button", name="Set these offsets …"))
    answer(page, "Set the offsets")
    says(page, "Group billing goes on at the new offsets of 2 partitions.")
    assert offsets(log, "billing") == [0, 1]
    pressed(page, page.get_by_role("button", name="Delete group …"))
    assert violations(page) == []
    answer(page, "Delete the group", typed="billing")
    says(page, "Group billing was deleted.")
    assert "billing" not in Admin(log).list_groups()
    assert page.get_by_role("table").count() == 0


def test_a_group_is_reset_to_a_time_as_the_page_shows_times(browser, log, url):
    from playwright.sync_api import expect

    Admin(log).alter_group_offsets("shipping", {TopicPartition("orders", 0): 5})
    not_seen_yet = "Failed to load resource"
    with (
        opened(browser, f"{url}#/group/shipping", expected=not_seen_yet) as page,
        in_time_zone(page, "Asia/Kolkata"),
    ):
        page.reload()
        page.get_by_label("Time (UTC), offset or count").wait_for()
        page.get_by_role("button", name="UTC", exact=True).press("Enter")
        value = page.get_by_label("Time (Asia/Calcutta), offset or count")
        value.fill("2026-05-29 01:56:40")
        for way, text in (("time", "2026-05-28T20:26:40.000Z"), ("offset", "7")):
            page.get_by_label("New offsets").select_option(way)
            if way == "offset":
                value.fill(text)
            with page.expect_request("**/api/group-plan") as request:
                page.get_by_role("button", name="Show what changes").press("Enter")
            assert request.value.post_data_json["value"] == text
        expect(page.get_by_role("table", name="Plan")).to_have_count(1)
    Admin(log).delete_group("shipping")


def test_a_member_is_removed(page, log, url):
    with Consumer(log, {"group.id": "readers", "client.id": "laptop"}) as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(0)
        page.goto(f"{url}#/group/readers")
        remove = page.get_by_role("button", name="Remove member laptop")
        pressed(page, remove)
        page.keyboard.press("Escape")
        assert log.follow().groups["readers"].members
        pressed(page, remove)
        answer(page, "Remove it")
        remove.wait_for(state="detached")
        assert not log.follow().groups["readers"].members


def test_a_reply_that_is_lost_is_looked_for_and_the_change_is_done_once(browser, log, url):
    Admin(log).alter_group_offsets("lost", {TopicPartition("orders", 0): 5})
    with emptied(browser) as page:

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
        says(page, "Group lost goes on at the new offsets of 1 partition.")
        assert offsets(log, "lost") == [7]


def test_a_topic_is_created_altered_and_deleted(page, log, url):
    page.goto(f"{url}#/topics")
    pressed(page, page.locator("summary", has_text="Create a topic"))
    pressed(page, page.get_by_label("Topic", exact=True), "prices")
    pressed(page, page.get_by_label("Columns, one a line"), "item string\ncents bigint")
    pressed(page, page.get_by_role("button", name="Create …"))
    answer(page, "Create it")
    says(page, "Topic prices was created.")
    assert Admin(log).describe_topic("prices").schema.names == ["item", "cents"]
    assert violations(page) == []
    page.goto(f"{url}#/topic/prices")
    pressed(page, page.locator("summary", has_text="All settings"))
    page.get_by_label("New value of retention.ms").fill("5000")
    page.keyboard.press("Enter")
    answer(page, "Change it")
    says(page, "retention.ms of topic prices is 5000 now.".capitalize())
    page.locator(
        "summary", has_text="All settings"
    ).click()  # Else each setting is a Tab on the way to the rest.
    pressed(page, page.get_by_label("Partitions, in all"), "3")
    pressed(page, page.get_by_role("button", name="Add partitions …"))
    answer(page, "Add them")
    says(page, "Topic prices has 3 partitions.")
    assert violations(page) == []
    pressed(page, page.get_by_role("button", name="Delete topic …"))
    answer(page, "Delete the topic", typed="prices")
    says(page, "Topic prices was deleted.")
    assert Admin(log).list_topics() == ["orders"]


def test_a_record_is_written_once(page, log, url):
    before = Admin(log).describe_topic("orders").partitions[1].end
    page.goto(f"{url}#/topic/orders")
    page.locator("summary", has_text="Write a record").click()
    page.get_by_label("Key; empty: null").fill("anna")
    page.get_by_label("Value", exact=True).fill("by hand")
    page.get_by_label("Partition; empty: by key").fill("1")
    page.get_by_role("button", name="Write …").click()
    page.get_by_role("button", name="Write it").dblclick()
    says(page, f"Written to orders-1 at offset {before}.")
    assert violations(page) == []
    assert Admin(log).describe_topic("orders").partitions[1].end == before + 1


def test_nothing_is_changed_before_it_is_there(page, url):
    """A change names its topic by the id, which comes with the first answer."""
    with unanswered(page, "**/api/topic"):
        page.goto(f"{url}#/topic/orders")
        page.get_by_role("heading", name="orders").wait_for()
        assert not page.get_by_text("Write a record").is_visible()
    page.get_by_text("Write a record").wait_for()


def test_a_page_that_only_reads_shows_settings_and_micro_batches_and_no_button(browser, log):
    topic_id = log.follow().topics["orders"].topic_id
    places = [(PartitionOffset("orders", topic_id, 0, offset),) for offset in (0, 3)]
    source = SourceProgress('{"0": 0}', '{"0": 3}', "copy", *places)
    batch = MicroBatch("copy", "q-1", "run-1", 0, (source,), (), ())
    log.commit(lambda state: propose(state, batch, finished=False))
    with served([Follower(log.url)]) as server, opened(browser, f"{server.url}#/query/copy") as page:
        page.get_by_role("table", name="Micro-batches in entries").wait_for()
        page.get_by_text("are in Spark: query.lastProgress").wait_for()
        assert violations(page) == []
        go(page, "#/topic/orders")
        page.locator("summary", has_text="All settings").click()
        page.get_by_role("row", name="retention.ms").first.wait_for()
        assert page.get_by_role("button", name="…").count() == 0


def test_the_end_of_one_question_is_no_answer_to_the_next(page):
    """The browser tells of a dialog's end a little later, when the next one may be open."""
    answered = page.evaluate("""async () => {
        const {confirmed} = await import("/static/js/writing.js");
        const words = {title: "Sure?", text: "It is done.", yes: "Do it"};
        confirmed(words);
        document.getElementById("confirm").close();
        const second = confirmed(words);
        await new Promise((resolve) => setTimeout(resolve, 200));
        document.getElementById("confirm-yes").click();
        return second;
    }""")
    assert answered is True
