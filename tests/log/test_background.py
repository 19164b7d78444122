"""The snapshot of a log with many partitions is stored in a thread: commits go on meanwhile."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import StoreUnavailableError
from spark_eos.log import paths
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.log.snapshots import snapshots
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.protocol.actions import AlterLog, AppendBatches, InitProducer
from spark_eos.protocol.encoding import index_pages
from spark_eos.protocol.rules import sealing
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from verification.retiring import RETIRED_AT_ONCE

PATIENCE_S = 30


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store, monkeypatch):
    """A log that counts as large, whose next entry is a boundary, and whose maintenance has time saved up."""
    monkeypatch.setattr(snapshots, "LARGE", 2)
    log = Log.create(store, snapshot_interval=3, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    log.ensure_topic("t", 2)
    commit(log)
    log.does_maintenance = True
    log.maintenance._saved_s = 1.0
    return log


def commit(log):
    return log.commit(lambda _: (AlterLog(()),)).state


def threads():
    return [one for one in threading.enumerate() if one.name == "eoslog-snapshot"]


def done():
    for one in threads():
        one.join(PATIENCE_S)
        assert not one.is_alive()


class Held:
    """A store whose snapshots take as long as wanted."""

    def __init__(self, store, monkeypatch):
        self.begun, self.go_on, self.by = threading.Event(), threading.Event(), None
        create = store.create

        def held(name, data):
            if name.startswith(paths.SNAPSHOTS):
                self.by = threading.current_thread()
                self.begun.set()
                assert self.go_on.wait(PATIENCE_S)
            create(name, data)

        monkeypatch.setattr(store, "create", held)


def test_no_commit_waits_for_a_large_snapshot(log, store, monkeypatch):
    held = Held(store, monkeypatch)
    assert commit(log).seq == 3
    assert held.begun.wait(PATIENCE_S)
    assert held.by is not threading.current_thread()
    for _ in range(5):  # Over the next boundary.
        commit(log)
    assert len(threads()) == 1, "one at a time"
    held.go_on.set()
    done()
    assert newest_snapshot(store).seq == 3
    log.maintenance._saved_s = 1.0
    commit(log)
    done()
    assert newest_snapshot(store).seq == 9
    assert Log.open(store).state.seq == 9


def test_an_error_in_the_background_is_logged(log, store, caplog):
    store.inject(StoreUnavailableError("away"), "create", f"{paths.SNAPSHOTS}*")
    commit(log)
    done()
    assert "maintenance of the log failed, and will be tried again: away" in caplog.text
    log.maintenance._rest_until = 0.0
    log.maintenance._saved_s = 1.0
    commit(log)
    done()
    assert newest_snapshot(store).seq == 3


def test_a_small_snapshot_needs_no_thread(log, store, monkeypatch):
    monkeypatch.setattr(snapshots, "LARGE", 3)
    commit(log)
    assert not threads()
    assert newest_snapshot(store).seq == 3


def test_no_commit_encodes_many_producers(log, store, monkeypatch):
    monkeypatch.setattr(snapshots, "LARGE", 3)
    monkeypatch.setattr(snapshots, "LARGE_PARTS", 2)
    held = Held(store, monkeypatch)
    held.go_on.set()
    first = log.state.next_producer_id
    log.commit(lambda _: [InitProducer(first + number, 0, None, 60_000) for number in range(33)])
    done()
    assert held.by is not threading.current_thread()
    held.by = None
    log.commit(lambda _: (InitProducer(first + 33, 0, None, 60_000),))
    for _ in range(2):
        commit(log)
    log.maintenance._saved_s = 1.0
    commit(log)
    assert held.by is threading.current_thread(), "it has changed one part of two"


def append(log, number):
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"%d" % number]}), 0)
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), files),))


def values(log):
    state = log.state
    end = state.partitions[state.topics["t"].topic_id, 0].end
    fetches = plan(state, TopicPartition("t", 0), 0, end, Isolation.READ_COMMITTED, log.load)
    topic = log.topic("t")
    return [value for fetch in fetches for value in log.read(topic, fetch).column("value").to_pylist()]


class Encoding:
    """Which threads encode sealed rows."""

    def __init__(self, monkeypatch):
        self.by = []
        body = index_pages._body

        def noted(content):
            self.by.append(threading.current_thread().name)
            return body(content)

        monkeypatch.setattr(index_pages, "_body", noted)


def rows(log, count):
    """Append so many rows, an entry each, in one partition."""
    for _ in range(count):
        append(log, 1)


@pytest.fixture
def short(monkeypatch):
    """Pages of four rows, and of eight of them a commit takes long."""
    monkeypatch.setattr(sealing, "PAGE_ROWS", 4)
    monkeypatch.setattr(snapshots, "LARGE_ROWS", 8)


@pytest.mark.usefixtures("short")
def test_no_commit_encodes_many_rows_that_it_seals(store, monkeypatch):
    log = Log.create(store, snapshot_interval=20, config=RETIRED_AT_ONCE)
    log.ensure_topic("t", 1)
    log.maintenance._saved_s = 1.0
    encoding = Encoding(monkeypatch)
    rows(log, 30)
    done()
    assert len(encoding.by) >= 4
    assert set(encoding.by) == {"eoslog-snapshot"}
    assert newest_snapshot(store).seq == 20
    sealed = log.state.partitions[log.topic("t").topic_id, 0].index.pages
    assert len(sealed) == 4
    assert not any(page.is_held for page in sealed)
    assert len(values(Log.open(store))) == 30


@pytest.mark.usefixtures("short")
def test_no_follower_encodes_many_rows_while_it_reads(store, monkeypatch):
    log = Log.create(store, snapshot_interval=20, config=RETIRED_AT_ONCE)
    log.ensure_topic("t", 1)
    log.maintenance._saved_s = 1.0
    reader = Log.open(store)
    encoding = Encoding(monkeypatch)
    for _ in range(42):
        rows(log, 1)
        done()  # The snapshot of the writer.
        reader.follow()
    done()
    assert set(encoding.by) == {"eoslog-snapshot"}
    assert len(encoding.by) >= 12, "of the writer, and of the reader"
    sealed = reader.state.partitions[log.topic("t").topic_id, 0].index.pages
    assert [page.is_held for page in sealed[:4]] == [False] * 4
    assert len(values(reader)) == 42


@pytest.mark.usefixtures("short")
def test_few_sealed_rows_need_no_thread(store, monkeypatch):
    monkeypatch.setattr(snapshots, "LARGE_ROWS", 1000)
    log = Log.create(store, snapshot_interval=20, config=RETIRED_AT_ONCE)
    log.ensure_topic("t", 1)
    log.maintenance._saved_s = 1.0
    encoding = Encoding(monkeypatch)
    rows(log, 22)
    assert set(encoding.by) == {threading.current_thread().name}
    assert newest_snapshot(store).seq == 20


def test_a_process_that_ends_stores_the_snapshot_that_it_has_begun(nursery, tmp_path):
    nursery.run("log/ends_with_a_snapshot", tmp_path / "log", timeout=PATIENCE_S)
    assert newest_snapshot(Log.open(tmp_path / "log").store).seq == 3
