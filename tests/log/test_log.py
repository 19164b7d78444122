"""Opening, creating, staging and reading: what a log says of things that are not as they should be."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    CorruptRecordError,
    LogExistsError,
    NotALogError,
    ObjectNotFoundError,
    StagedFileExpiredError,
    StorageError,
    StorePermissionError,
    UnknownTopicOrPartitionError,
    UnsupportedStoreError,
)
from spark_eos.log import paths
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches, RaiseStagingFloor
from spark_eos.protocol.actions.topics import require
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock

T0 = TopicPartition("t", 0)


class Overwriting(MemoryStore):
    """A store whose create is not one: it replaces what is there."""

    def create(self, name, data):
        self.overwrite(name, data)


@pytest.fixture
def log():
    return Log.create(MemoryStore())


def append(log, *values):
    topic = log.ensure_topic("t", 2)
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": pa.array(values, pa.binary())}), 0)
        files = writer.finish()
    log.commit(lambda _state: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))
    return files


def read(log, isolation=Isolation.READ_COMMITTED):
    topic = log.topic("t")
    end = log.state.partitions[topic.topic_id, 0].end
    fetches = plan(log.state, T0, 0, end, isolation)
    return [value for fetch in fetches for value in log.read(topic, fetch).column("value").to_pylist()]


def test_opening_creates_nothing(tmp_path):
    with pytest.raises(NotALogError, match="none is not a log"):
        Log.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_creating_and_opening(log_url):
    created = Log.create(log_url)
    opened = Log.open(log_url)
    assert opened.log_id == created.log_id
    assert opened.state == created.state
    with pytest.raises(LogExistsError):
        Log.create(log_url)
    assert Log.open_or_create(log_url).log_id == created.log_id


def test_no_log_among_other_files(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(NotALogError, match=r"thesis\.txt"):
        Log.open_or_create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_store_that_cannot_carry_a_log_is_refused():
    store = Overwriting()
    with pytest.raises(UnsupportedStoreError):
        Log.create(store)
    assert [info.name for info in store.list(paths.LOG)] == []


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DUPLICATE])
def test_creating_with_a_lost_reply(fault):
    store = FaultyStore(MemoryStore())
    store.inject(fault, "create", paths.entry(0))
    assert Log.create(store).log_id == Log.open(store).log_id


def test_who_creates_second_is_told():
    store = FaultyStore(MemoryStore())

    def race(operation, name):
        if (operation, name) == ("create", paths.entry(0)):
            store.before = lambda _operation, _name: None
            Log.create(store.inner)

    store.before = race
    with pytest.raises(LogExistsError, match="at the same time"):
        Log.create(store)
    store.before = race
    assert Log.open_or_create(store).state.seq == 0


def test_one_handle_for_all_in_a_process(log_url):
    created = Log.shared(log_url, create=True)
    assert Log.shared(log_url) is created
    with pytest.raises(NotALogError):
        Log.shared(f"{log_url}-none")


def test_a_folder_that_was_replaced_is_opened_anew(log_url):
    old = Log.shared(log_url, create=True)
    append(old, b"x")
    shutil.rmtree(log_url)
    assert not old.is_same()
    with pytest.raises(NotALogError):
        Log.shared(log_url)
    new = Log.shared(log_url, create=True)
    assert new.log_id != old.log_id
    assert not new.state.topics
    assert not old.is_same()


def test_rows_come_back(log):
    append(log, b"a", b"b")
    append(log, b"c")
    assert read(log) == [b"a", b"b", b"c"]


def test_missing_topics(log):
    append(log, b"a")
    with pytest.raises(UnknownTopicOrPartitionError, match="'tt'; did you mean 't'"):
        log.topic("tt")
    with pytest.raises(UnknownTopicOrPartitionError, match=r"its topics are: t$"):
        log.topic("xyz")
    with pytest.raises(UnknownTopicOrPartitionError, match=r"auto\.create\.topics\.enable"):
        log.ensure_topic("xyz", auto_create=False)
    assert "xyz" not in log.follow().topics


def test_topics_of_other_handles_are_seen(log):
    other = Log.open(log.store)
    other.ensure_topic("t", 5)
    assert log.ensure_topic("t", 1).partitions == 5


@pytest.mark.parametrize("damage", ["altered", "truncated", "missing"])
def test_damaged_data_is_never_returned(log, damage):
    (staged,) = append(log, b"a" * 100)
    name = staged.file.name
    data = bytearray(log.store.read(name).to_pybytes())
    if damage == "altered":
        data[data.index(b"aaa") + 50] ^= 1
        log.store.overwrite(name, data)
    elif damage == "truncated":
        log.store.overwrite(name, data[: staged.batches[0].position + 10])
    else:
        log.store.delete(name)
    with pytest.raises(ObjectNotFoundError if damage == "missing" else CorruptRecordError, match=name):
        read(log)


@pytest.mark.conformance("Redpanda #6018")
def test_files_that_are_not_here_are_found_before_the_commit(log):
    topic = log.ensure_topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        files = writer.finish()
    log.check_visible(files)
    name = files[0].file.name
    log.store.overwrite(name, b"half of it")
    with pytest.raises(StorageError, match="has 10 bytes"):
        log.check_visible(files)
    log.discard(files)
    with pytest.raises(StorageError, match="is not shared by the driver and all executors"):
        log.check_visible(files)


def test_a_staged_file_that_vacuum_may_have_removed_is_to_be_written_again(log):
    """That it is missing says nothing against the folder."""
    topic = log.ensure_topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        files = writer.finish()
    other = Log.open(log.store)
    other.ensure_topic("u")
    other.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))
    log.discard(files)
    with pytest.raises(StagedFileExpiredError, match="write the rows again"):
        log.check_visible(files)


def test_a_staged_file_says_where_in_the_log_it_began(log):
    (staged,) = append(log, b"x")
    topic = log.topic("t")
    assert staged.file.name.startswith(f"data/t-{topic.topic_id}/{2:020d}-")
    assert staged.file.name.endswith(".arrow")


def test_times(log):
    topic = log.ensure_topic("t")
    stamps = pa.array([1000, 3000, 2000], pa.timestamp("ms", "UTC"))
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"a", b"b", b"c"], "timestamp": stamps}), 0)
        files = writer.finish()
    log.commit(lambda _state: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))
    for wanted, found in ((0, (0, 1000)), (1001, (1, 3000)), (3000, (1, 3000)), (3001, None)):
        assert log.offset_for_time(T0, wanted, Isolation.READ_COMMITTED) == found


def test_an_error_does_not_list_thousands_of_topics(log):
    for number in range(30):
        log.ensure_topic(f"many.{number:03}")
    with pytest.raises(UnknownTopicOrPartitionError, match=r"many\.019, … \(30 in all\)$"):
        log.topic("xyz")
    with pytest.raises(UnknownTopicOrPartitionError, match=r"many\.019, … \(30 in all\)$"):
        require(log.state, "xyz")


def test_a_topic_is_asked_for_by_its_name_and_may_be_named_twice(log):
    assert [topic.name for topic in log.ensure_topics("orders")] == ["orders"]
    assert [topic.name for topic in log.ensure_topics(["new", "orders", "new"])] == ["new", "orders", "new"]
    assert {*log.follow().topics} == {"orders", "new"}


def test_a_handle_that_was_idle_stages_files_for_the_log_as_it_is_now():
    """Vacuum may have raised the floor since: what is staged before it cannot be committed."""
    store, clock = MemoryStore(), FakeClock()
    idle = Log.create(store, clock=clock)
    idle.ensure_topic("t", 2)
    other = Log.open(store, clock=clock)
    for _ in range(3):
        append(other, b"x")
    other.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))
    clock.sleep(3600)
    append(idle, b"y")
    assert read(idle).count(b"y") == 1


def test_who_may_not_delete_leaves_what_is_discarded_to_the_vacuum(log, monkeypatch):
    """The error that led to it is the one that the caller gets."""
    topic = log.ensure_topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        files = writer.finish()

    def deny(name):
        raise StorePermissionError(name)

    monkeypatch.setattr(log.store, "delete", deny)
    log.discard(files)
    log.check_visible(files)


def test_a_reader_ends_what_is_overdue_though_another_log_cannot_be_asked(log, monkeypatch):
    asked = []

    def deny(*_, **__):
        asked.append("one of two")
        raise StorePermissionError("s3:PutObject")

    monkeypatch.setattr(log._parts.following, "help", deny)
    monkeypatch.setattr(log, "expire_overdue", deny)
    assert log.end_overdue() is log.state
    assert asked == ["one of two"] * 2
