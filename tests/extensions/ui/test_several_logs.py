"""A page of several logs: which one is shown is in the address, so that it stays the same one."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.app import names_of
from spark_eos.extensions.ui.follower import Follower
from tests.extensions.ui.browsing import in_chromium, opened, served


@pytest.mark.parametrize(
    ("urls", "names"),
    [
        (["/data/log"], ["log"]),
        (["/data/log/", "s3://bucket/orders"], ["log", "orders"]),
        (["/a/x/log", "/b/x/log", "/c/other"], ["a/x/log", "b/x/log", "other"]),
        (["s3://one/log", "s3://two/log"], ["one/log", "two/log"]),
        (["log", "/data/log"], ["log", "data/log"]),
        (["memory://", "memory://b"], ["memory://", "b"]),
    ],
)
def test_logs_are_told_apart_by_as_much_of_their_address_as_that_takes(urls, names):
    assert names_of(urls) == names


@in_chromium
def test_a_reload_shows_the_log_that_was_chosen(browser, tmp_path):
    """Both have a topic of the same name."""
    followers = []
    for place, count in (("a", 1), ("b", 7)):
        log = Log.create(str(tmp_path / place / "log"))
        Admin(log).create_topic("orders", 1)
        with Producer(log) as producer:
            for _ in range(count):
                producer.send("orders", b"x")
        followers.append(Follower(log.url, interval_s=0.2))
    with served(followers) as server, opened(browser, f"{server.url}#/topics") as page:
        row = page.get_by_role("row").filter(has_text="orders")
        assert "log=a%2Flog" in page.url
        row.get_by_text("1", exact=True).first.wait_for()
        page.select_option("#log", label="b/log")
        row.get_by_text("7", exact=True).first.wait_for()
        assert page.title() == "Topics – b/log – eoslog"
        page.reload()
        row.get_by_text("7", exact=True).first.wait_for()
        assert page.input_value("#log") == "1"
        page.go_back()
        page.wait_for_function("document.title === 'Topics – a/log – eoslog'")
        page.goto(f"{server.url}?log=gone#/topics")
        page.get_by_role("alert").filter(has_text="was started without log gone").wait_for()
        assert page.get_by_role("row").count() == 0
        page.select_option("#log", label="b/log")
        row.get_by_text("7", exact=True).first.wait_for()
