"""The micro-batches of a Spark query, as the log knows them; what it does not know is None, and never 0."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.areas.groups import query_batches
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.log import paths
from spark_eos.protocol.actions import CommitMicroBatch, Entry, Request
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock, Waiting


@pytest.fixture
def log():
    made = Log.create(MemoryStore(), FakeClock())
    for name in ("t", "u"):
        Admin(made).create_topic(name)
    with Producer(made) as producer:
        for number in range(9):
            producer.send("t", b"%d" % number)
    return made


def own(log, start, end):
    topic_id = log.follow().topics["t"].topic_id
    places = ((PartitionOffset("t", topic_id, 0, offset),) for offset in (start, end))
    return SourceProgress(f'{{"0": {start}}}', f'{{"0": {end}}}', "g", *places)


def commit(log, batch_id, *sources, rows=0, run="run-1", query="copy"):
    topics, files = (), ()
    if rows:
        topic = log.topic("u")
        with log.stage(topic) as writer:
            writer.append(pa.table({"value": [b"x"] * rows}), 0)
            files = writer.finish()
        topics = (("u", topic.topic_id),)
    batch = MicroBatch(query, f"q-{query}", run, batch_id, sources, topics, files)
    log.commit(lambda state: propose(state, batch, finished=False), writer="spark")


def shown(log, query="copy"):
    return query_batches(Follower(log.store, clock=Waiting()), Question({"query": query}))


def test_what_the_log_knows(log):
    commit(log, 0, own(log, 0, 2), rows=2)
    log.clock.sleep(5)
    commit(log, 1, own(log, 2, 7), rows=3)
    commit(log, 0, SourceProgress(None, '{"kafka": 5}'), query="other")
    answer = shown(log)
    second, first = answer["rows"]
    assert (first["batch"], first["read"], first["rows"], first["since_ms"]) == (0, 2, 2, None)
    assert (second["batch"], second["read"], second["rows"], second["since_ms"]) == (1, 5, 3, 5000)
    assert (second["sources"], second["into"], second["refused"]) == (["t"], ["u"], None)
    assert (answer["last"], second["entry"]) == (log.state.seq, log.state.seq - 1)
    assert answer["events"] == []


def test_what_it_does_not_know_is_not_shown_as_0(log):
    commit(log, 0, SourceProgress(None, '{"kafka": 5}'), rows=4)
    commit(log, 1, SourceProgress('{"kafka": 5}', '{"kafka": 9}'))
    second, first = shown(log)["rows"]
    assert (first["read"], first["sources"], first["rows"]) == (None, ['{"kafka": 5}'], 4)
    assert (second["read"], second["sources"], second["rows"]) == (None, ['{"kafka": 9}'], 0)
    assert second["into"] == []
    commit(log, 0, SourceProgress(None, '{"kafka": 5}'), own(log, 0, 3), query="both")
    (both,) = shown(log, "both")["rows"]
    assert (both["read"], both["sources"]) == (None, ['{"kafka": 5}', "t"])


def test_what_was_refused_and_who_took_over(log):
    commit(log, 0, own(log, 0, 2))
    commit(log, 1, own(log, 2, 3), run="run-2")
    late = CommitMicroBatch("copy", "q-copy", "run-1", 2, (own(log, 3, 4),))
    seq = log.follow().seq + 1
    request = Request(b"r" * 16, log.state.timestamp_ms, (late,), "zombie")
    name = paths.entry(seq, log.state.entries_per_folder)
    follower = Follower(log.store, clock=Waiting())
    assert query_batches(follower, Question({"query": "copy"}))["rows"]
    log.store.create(name, encode_entry(Entry(seq, (request,), log.state.lineage)))
    follower.poll()
    answer = query_batches(follower, Question({"query": "copy"}))
    assert answer["rows"][0]["refused"].startswith("ProducerFencedError: query run run-1")
    (event,) = answer["events"]
    assert (event["what"], "by query run run-2" in event["text"]) == ("producer taken over", True)


def test_a_query_without_micro_batches_in_the_newest_entries(log):
    assert shown(log, "nothing")["rows"] == []
