"""Changes through the page's server: refused unless it was started for them, and by sessions alone."""

from __future__ import annotations

import os

import pytest

from spark_eos import Admin, Log, TopicPartition
from spark_eos.extensions.ui import app
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.read_only import ReadOnlyStore
from spark_eos.storage import MemoryStore
from tests.extensions.ui.test_page import ask, client


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("orders")
    Admin(made).alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    return made


def page(log, store=None, **options):
    found = client(Follower(store or log.store), **options)
    found.headers["x-csrf-token"] = found.get("/session").json()["csrf"]
    return found


def test_a_page_that_only_reads_refuses_every_change(log):
    seq = log.state.seq
    for area in app._WRITES:
        answer = ask(page(log), area, group="billing", typed="billing", attempt="ab" * 16, since=seq)
        assert answer.status_code == 403, area
        assert "this page only reads: start it with --allow-writes" in answer.json()["error"]
    assert log.follow().seq == seq


def test_a_change_needs_the_token_of_the_session(log):
    asked = {"group": "billing", "typed": "billing", "attempt": os.urandom(16).hex(), "since": log.state.seq}
    writable = page(log, allow_writes=True)
    writable.headers["x-csrf-token"] = "another"
    assert ask(writable, "group-delete", **asked).status_code == 403
    assert Admin(log).list_groups() == ["billing"]
    writable = page(log, allow_writes=True)
    assert ask(writable, "group-delete", **asked).json() == {"text": "group billing was deleted"}
    assert ask(writable, "group-delete", **asked).json() == {"text": "group billing was deleted"}
    assert Admin(log).list_groups() == []


def test_a_user_who_may_not_write_to_the_store_gets_its_sentence(log):
    found = page(log, ReadOnlyStore(log.store), allow_writes=True)
    asked = {"group": "billing", "typed": "billing", "attempt": "ab" * 16, "since": log.state.seq}
    answer = ask(found, "group-delete", **asked)
    assert (answer.status_code, answer.json()["code"]) == (403, "STORE_PERMISSION")
    assert "does not create objects" in answer.json()["error"]
