"""The strip above the history: entries over time, by kind of writer."""

from __future__ import annotations

from collections import Counter

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.extensions.ui.areas.history import entries
from spark_eos.extensions.ui.areas.kinds import KINDS, kind_of_action
from spark_eos.extensions.ui.areas.strip import strip
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.protocol.actions import DECLARED
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock, Waiting


def made(clock):
    log = Log.create(MemoryStore(), clock)
    Admin(log).create_topic("orders", 1)
    for _ in range(3):
        clock.now += 100
        with Producer(log) as producer:
            producer.send("orders", b"x").get()
    clock.now += 100
    Admin(log).alter_group_offsets("readers", {TopicPartition("orders", 0): 1})
    return log


def test_every_entry_is_counted_once_for_each_kind_of_its_writers():
    log = made(FakeClock())
    follower = Follower(log.store, clock=Waiting())
    answer = strip(follower, Question({}))
    total = Counter()
    for step in answer["rows"]:
        total.update(step["counts"])
        assert step["time"] == answer["begin_ms"] + step["step"] * answer["step_ms"]
        assert 0 <= step["step"] < answer["steps"]
    assert (
        answer["kinds"]
        == [kind for kind in KINDS if total[kind]]
        == ["producers", "consumers", "administration"]
    )
    assert total["administration"] == 2
    assert total["consumers"] == 1
    assert sum(total.values()) == log.follow().seq + 1
    seqs = [seq for step in answer["rows"] for seq in range(step["first"], step["last"] + 1)]
    assert seqs == list(range(log.state.seq + 1))
    assert len(answer["rows"]) == 5  # One at each time at which something was written.
    assert answer["rows"][-1]["counts"] == {"consumers": 1}


def test_it_reads_nothing_that_the_history_has_read():
    log = made(FakeClock())
    follower = Follower(log.store, clock=Waiting())
    entries(follower, Question({}))
    before = follower.store.requests
    strip(follower, Question({}))
    assert follower.store.requests == before


def test_every_action_of_the_protocol_has_a_kind():
    own = [action for action in DECLARED if action.__module__.startswith("spark_eos.")]
    assert [action for action in own if kind_of_action(action) == "others"] == []
