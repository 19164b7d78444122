"""What the history reads and applies: each entry once, however many browsers watch and however long it is."""

from __future__ import annotations

import asyncio
import threading
import time
from unittest.mock import Mock

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.errors import DivergedLogError, InvalidRequestError
from spark_eos.extensions.ui import follower as follower_module
from spark_eos.extensions.ui import timeline
from spark_eos.extensions.ui.areas.history import entries, show_entry
from spark_eos.extensions.ui.areas.records import show_record
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.log import paths
from spark_eos.protocol.actions import CreateTopic, Entry, Request
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.storage import MemoryStore
from tests.log.fakes import Waiting
from verification.retiring import RETIRED_AT_ONCE


def write(log, count):
    with Producer(log) as producer:
        for _ in range(count):
            producer.send("orders", b"x").get()


def made(length, snapshot_interval=100_000, config=RETIRED_AT_ONCE):
    log = Log.create(MemoryStore(), snapshot_interval=snapshot_interval, config=config)
    Admin(log).create_topic("orders", 1)
    write(log, length)
    return log


@pytest.fixture
def applied(monkeypatch):
    """The entries that the history applies; each takes a while, so that browsers which ask at once meet."""
    found = []

    def counted(state, entry):
        found.append(entry.seq)
        time.sleep(0.001)
        return apply_entry(state, entry)

    apply_entry = timeline.apply_entry
    monkeypatch.setattr(timeline, "apply_entry", counted)
    monkeypatch.setattr(timeline, "state_at", lambda *_: pytest.fail("it goes back to a snapshot"))
    return found


def asked_by(follower, watchers, **fields):
    """What so many browsers get that ask at once, which is the same for all."""
    answers = []
    ready = threading.Barrier(watchers)

    def ask():
        ready.wait()
        answers.append(entries(follower, Question(fields)))

    threads = [threading.Thread(target=ask) for _ in range(watchers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == watchers
    assert all(one == answers[0] for one in answers)
    return answers[0]


@pytest.mark.deep("1-300", "12-300")
@pytest.mark.parametrize("length", [10, 300])
@pytest.mark.parametrize("watchers", [1, 12])
def test_a_poll_costs_one_read_of_each_new_entry(length, watchers, request):
    log = made(length)
    follower = Follower(log.store, clock=Waiting())
    asked_by(follower, watchers)
    applied = request.getfixturevalue("applied")
    for new in (1, 3, 0):
        write(log, new)
        first = follower.state.seq + 1
        follower.poll()
        requests = sum(follower.store.requests.values())
        answer = asked_by(follower, watchers)
        fresh = list(range(first, follower.state.seq + 1))
        assert applied == fresh
        assert sum(follower.store.requests.values()) - requests == len(fresh)
        shown = answer["rows"][: len(fresh)]
        assert [(row["seq"], row["judged"]) for row in shown] == [(seq, True) for seq in reversed(fresh)]
        applied.clear()


def test_what_was_refused_is_known_from_the_state_before():
    log = made(5)
    follower = Follower(log.store, clock=Waiting())
    asked_by(follower, 1)
    seq = log.follow().seq + 1
    again = Request(b"r" * 16, log.state.timestamp_ms, (CreateTopic("orders", "another id", 1),), "late")
    name = paths.entry(seq, log.state.entries_per_folder)
    log.store.create(name, encode_entry(Entry(seq, (again,), log.state.lineage)))
    follower.poll()
    newest = asked_by(follower, 1)["rows"][0]
    assert (newest["seq"], newest["judged"]) == (seq, True)
    assert newest["requests"][0]["refused"].startswith("TopicExistsError: topic 'orders'")


def test_a_browser_that_comes_back_begins_at_a_snapshot(monkeypatch):
    log = made(0, snapshot_interval=200, config={})
    follower = Follower(log.store, clock=Waiting())
    asked_by(follower, 1)
    write(log, 450)
    log.maintenance.snapshot()
    follower.poll()
    applied = []
    apply_entry = timeline.apply_entry

    def counted(state, entry):
        applied.append(entry.seq)
        return apply_entry(state, entry)

    monkeypatch.setattr(timeline, "apply_entry", counted)
    before = follower.store.requests["read"]
    rows = asked_by(follower, 3)["rows"]
    assert len(applied) == len(rows) == 50
    assert all(row["judged"] for row in rows)
    assert follower.store.requests["read"] - before <= 50 + 200 + 1


def test_retired_and_damaged_entries_end_the_chain(monkeypatch):
    log = made(20)
    follower = Follower(log.store, clock=Waiting())
    asked_by(follower, 1)
    write(log, 5)
    follower.poll()
    damaged = follower.state.seq - 3
    read = follower.store.read

    def spoiled(name, *place):
        data = read(name, *place)
        return data.slice(0, 5) if name == paths.entry(damaged, log.state.entries_per_folder) else data

    monkeypatch.setattr(follower.store, "read", spoiled)
    rows = asked_by(follower, 2)["rows"]
    assert [row["seq"] for row in rows][:5] == list(range(damaged + 3, damaged - 2, -1))
    assert "problem" in rows[3]
    assert [row["judged"] for row in rows[:3]] == [False] * 3
    assert rows[4]["judged"]
    write(log, 1)
    follower.poll()
    assert asked_by(follower, 2)["rows"][0]["judged"]


def test_entries_that_were_retired_since_are_no_damage():
    log = made(30)
    follower = Follower(log.store, clock=Waiting())
    asked_by(follower, 1, count=5)
    for seq in range(1, 10):
        log.store.retire(paths.entry(seq, log.state.entries_per_folder))
    rows = asked_by(follower, 1, until=12, count=10)["rows"]
    assert [(row["seq"], "problem" in row) for row in rows] == [(12, False), (11, False), (10, False)]
    with pytest.raises(InvalidRequestError, match="entry 9 is retired"):
        show_entry(follower, Question({"entry": 9}))


def test_a_topic_that_was_deleted_keeps_its_name(monkeypatch):
    log = made(60)
    follower = Follower(log.store, clock=Waiting())
    asked_by(follower, 1)
    Admin(log).delete_topic("orders")
    follower.poll()
    asked_by(follower, 1)
    monkeypatch.setattr(timeline, "_NEAR", 0)  # The state before an older page is not to be had.
    rows = asked_by(follower, 1, until=8, count=3)["rows"]
    assert [row["judged"] for row in rows[:3]] == [False] * 3
    assert rows[0]["requests"][0]["topics"] == ["orders"]


def test_so_many_entries_are_kept_as_they_were_shown(monkeypatch):
    monkeypatch.setattr(timeline, "_KEPT", 12)
    follower = Follower(made(30).store, clock=Waiting())
    newest = asked_by(follower, 1, count=10)["rows"]
    oldest = asked_by(follower, 1, until=9, count=10)["rows"]
    assert [(row["seq"], row["judged"]) for row in oldest] == [(seq, True) for seq in range(9, -1, -1)]
    assert len(follower.memory["time line"]._rows) == 12
    assert asked_by(follower, 1, count=10)["rows"] == newest


def test_another_log_in_the_same_place_begins_anew():
    log = made(5)
    follower = Follower(log.store, clock=Waiting())
    before = asked_by(follower, 1)["rows"]
    follower.log = Log.open(follower.store)
    line = follower.memory["time line"]
    assert asked_by(follower, 1)["rows"] == before
    assert follower.memory["time line"] is not line


def test_nothing_of_a_log_that_was_exchanged_is_remembered(monkeypatch):
    follower = Follower(made(5).store, clock=Waiting())
    version = follower.version
    assert follower.poll()
    assert follower.version == version, "nothing is new, and browsers are not told"
    assert follower.remember("files", lambda: 5, for_s=60) == 5
    monkeypatch.setattr(follower.log, "follow", Mock(side_effect=DivergedLogError("it is another one")))
    assert not follower.poll()
    assert (follower.version, follower.error) == (version + 1, "it is another one")
    assert follower.remember("files", lambda: 7, for_s=60) == 7
    assert follower.poll(), "it goes on with the log that is there"


def test_a_failure_that_was_not_expected_is_shown_without_its_text(monkeypatch):
    follower = Follower(made(0).store, clock=Waiting())
    monkeypatch.setattr(follower.log, "follow", Mock(side_effect=KeyError("text of a record")))
    assert not follower.poll()
    assert follower.error == "the log cannot be read at the moment: KeyError"


def test_a_browser_whose_loop_has_ended_stops_no_poll():
    follower = Follower(made(0).store, clock=Waiting())

    async def leave():
        follower.watch(asyncio.Event())

    asyncio.run(leave())
    assert (follower.watchers, follower.poll(), follower.watchers) == (1, True, 0)


def test_batches_are_kept_for_the_next_browser_and_of_many_the_last_ones(monkeypatch):
    log = made(6)
    follower = Follower(log.store, clock=Waiting())

    def reads(offset):
        before = follower.store.requests["read"]
        show_record(follower, Question({"topic": "orders", "partition": 0, "offset": offset}))
        return follower.store.requests["read"] - before

    assert [reads(offset) for offset in (0, 0, 1, 0, 1)] == [1, 0, 1, 0, 0]
    batch = follower._cached_bytes // 2
    monkeypatch.setattr(follower_module, "_CACHED_BYTES", 4 * batch)
    assert [reads(offset) for offset in (2, 3, 0, 4)] == [1, 1, 0, 1]
    assert [reads(offset) for offset in (0, 2, 3, 4, 1)] == [0, 0, 0, 0, 1]
    monkeypatch.setattr(follower_module, "_CACHED_BYTES", 4 * batch - 1)  # One takes too much of it.
    assert [reads(offset) for offset in (5, 5)] == [1, 1]
