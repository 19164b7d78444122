"""How many requests an object store gets: counted, exactly."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, MicroBatchTransaction, Producer, TopicPartition
from spark_eos.errors import CheckpointMismatchError
from spark_eos.log import log as log_module
from spark_eos.log.clock import SYSTEM
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AlterLog
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink import sink
from spark_eos.spark.sink.sink import EosLogStreamWriter
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.transactions import running_query
from spark_eos.spark.version import ReadAllAvailable
from spark_eos.storage import NO_SETTINGS, other_files, urls
from spark_eos.storage.memory import MemoryStore
from tests.crashpoints.queries import Frame
from verification.remote_store import RemoteStore, Request

from .conftest import ROWS, Bench, Driver

ALL = ReadAllAvailable()
AT = TopicPartition("src", 0)


class Remote:
    """An object store, and the processes that use it: each with a handle of its own, which counts."""

    def __init__(self, monkeypatch):
        self.inner = MemoryStore(f"requests-{uuid.uuid4()}")
        self.url = self.inner.url
        self._patch = monkeypatch
        self._processes = {}

    @contextmanager
    def process(self, name):
        """Within it, the code runs in the process of that name; yields its store."""
        store, log = self._processes.get(name) or (RemoteStore(self.inner), None)
        with self._patch.context() as patch:
            patch.setitem(urls._SHARED, (self.url, NO_SETTINGS), store)
            if log is None:
                patch.delitem(log_module._SHARED, self.url, raising=False)
            else:
                patch.setitem(log_module._SHARED, self.url, log)
            yield store
            self._processes[name] = store, log_module._SHARED.get(self.url)

    def clear(self):
        for store, _ in self._processes.values():
            store.clear()

    def counts(self):
        """Requests of each process since `clear`, without the processes that made none."""
        return {name: store.counts for name, (store, _) in self._processes.items() if store.counts}


@pytest.fixture(autouse=True)
def _timeless(monkeypatch):
    """Whether a process looks before it writes depends on how long ago it did: only waits take time here."""
    now = [1000.0]
    monkeypatch.setattr(SYSTEM.__class__, "monotonic", lambda _: now[0])
    monkeypatch.setattr(SYSTEM.__class__, "sleep", lambda _, seconds: now.__setitem__(0, now[0] + seconds))


@pytest.fixture
def remote(monkeypatch):
    remote = Remote(monkeypatch)
    Admin(Log.create(remote.inner)).create_topic("src")
    return remote


@pytest.fixture
def query(remote, hand_made):
    """Runs micro-batches of so many tasks as Spark does: planned, worked on and committed in different processes."""
    made = hand_made("checkpoint")
    driver = Driver(Bench(remote.url), made)

    def run(batch_id, tasks):
        made.offsets(batch_id, None)
        with remote.process("planner"):
            writer = driver.writer
        with remote.process("executor"):
            messages = []
            for number in range(tasks):
                message = writer.write(iter([rows(f"{batch_id}:{number}")]))
                message.query_id, message.run_id = made.query_id, driver.run_id
                messages.append(message)
        with remote.process("driver"):
            driver.commit(messages, batch_id)

    return run


def rows(*values):
    return pa.record_batch([pa.array([value.encode() for value in values])] * 2, names=["key", "value"])


def values(log, topic):
    with Consumer(log, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return sorted(record.value.decode() for record in consumer.poll())


# -- Spark's sink ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_a_micro_batch_is_a_file_for_each_task_and_an_entry(remote, query, tasks):
    query(0, tasks)
    for batch_id in range(1, 5):
        remote.clear()
        query(batch_id, tasks)
        assert remote.counts() == {"executor": {"PUT": tasks}, "driver": {"PUT": 1}}
    assert len(values(Log.open(remote.inner), "out")) == 5 * tasks


def test_once_a_minute_what_was_written_is_read_where_batches_are_planned(remote, query, monkeypatch):
    for batch_id in range(5):
        query(batch_id, 1)
    remote.clear()
    monkeypatch.setattr(sink, "METADATA_AGE_S", -1.0)
    query(5, 1)
    # The five entries of the batches before, and a look after them; the driver has written them itself.
    assert remote.counts() == {
        "planner": {"GET": 5 + 1},
        "executor": {"PUT": 1},
        "driver": {"GET": 1, "PUT": 1},
    }


def test_a_micro_batch_transaction_notes_its_beginning_by_one_put(remote, hand_made, monkeypatch):
    """Its checkpoint is in a bucket, too. One frame of one task."""
    files, run_id = RemoteStore(MemoryStore("checkpoint")), str(uuid.uuid4())
    monkeypatch.setattr(other_files, "shared_store", lambda *_: files)
    monkeypatch.setattr(running_query, "_notes", lambda _: None)
    made = hand_made("checkpoint")
    files.create("metadata", (made.path / "metadata").read_bytes())
    for batch_id in range(4):
        made.offsets(batch_id, None)
        files.create(f"offsets/{batch_id}", (made.path / "offsets" / str(batch_id)).read_bytes())
        remote.clear()
        files.clear()
        properties = {
            "sql.streaming.queryId": made.query_id,
            "spark.jobGroup.id": run_id,
            "streaming.sql.batchId": str(batch_id),
        }
        frame = Frame(SimpleNamespace(patiently=lambda call: call()), [f"{batch_id}"], [0], properties)
        options = {"checkpointLocation": "s3a://bucket/checkpoint"}
        with (
            remote.process("driver"),
            MicroBatchTransaction(frame, batch_id, remote.url, options) as transaction,
        ):
            transaction.write(frame, "out")
        files.create(f"commits/{batch_id}", b"v1")
        if batch_id > 1:  # The first ones make the topic, and learn that the checkpoint keeps no state.
            assert remote.counts() == {"driver": {"PUT": 2, "GET": 3}}
            assert files.counts == {"PUT": 2, "GET": 4, "HEAD": 1}, "one of the PUTs is Spark's"
    assert values(Log.open(remote.inner), "out") == [*"0123"]


def test_what_another_process_committed_is_not_deleted_by_one_that_is_behind(remote, query, hand_made):
    query(0, 1)
    with remote.process("late driver"):
        assert Log.shared(remote.url).state.topics
    with remote.process("planner"):
        writer = Driver(Bench(remote.url), hand_made("other")).writer
    with remote.process("executor"):
        message = writer.write(iter([rows("kept")]))
    at_least_once = {"path": remote.url, "topic": "out", "processing.guarantee": "at_least_once"}
    with remote.process("driver"):
        EosLogStreamWriter(parse_sink(at_least_once, streaming=True), ROWS, overwrite=False).commit(
            [message], 0
        )
    with remote.process("late driver"), pytest.raises(CheckpointMismatchError):
        writer.commit([message], 0)
    assert values(Log.open(remote.inner), "out") == ["0:0", "kept"]


def test_a_log_that_was_replaced_is_noticed_within_a_minute(remote, monkeypatch):
    with remote.process("driver"):
        old = Log.shared(remote.url)
        for info in remote.inner.list(""):
            remote.inner.delete(info.name)
        new = Log.create(remote.inner)
        assert Log.shared(remote.url) is old
        now = old.clock.monotonic()
        monkeypatch.setattr(old.clock.__class__, "monotonic", lambda _: now + 61)
        assert Log.shared(remote.url).log_id == new.log_id


# -- Spark's source -------------------------------------------------------------------------------------


@pytest.fixture
def source(remote):
    with Producer(Log.open(remote.inner)) as producer:
        for number in range(3):
            producer.send("src", f"{number}")
            producer.flush()
    given = {"path": remote.url, "subscribe": "src", "startingOffsets": "earliest"}
    with remote.process("source"):
        source = EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())
        start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
        start = {**start, **start["@eoslog"]["initial"]}
    remote.clear()
    return source, start


def test_a_poll_without_news_is_one_request_and_a_report_none(remote, source):
    source, start = source
    for _ in range(5):
        remote.clear()
        with remote.process("source"):
            end = source.latestOffset(start, ALL)
            assert end["src"] == {"0": 3}
            source.reportLatestOffset()
            assert len(source.partitions(start, end)) == 1
        assert remote.counts() == {"source": {"GET": 1}}


def test_after_looks_in_vain_the_next_look_is_later(remote, source, monkeypatch):
    source, start = source
    waits = []
    with remote.process("source"):
        end = source.latestOffset(start, ALL)
        monkeypatch.setattr(
            Log.shared(remote.url).clock.__class__, "sleep", lambda _, seconds: waits.append(seconds)
        )
        for _ in range(6):
            assert source.latestOffset(end, ALL) == end
        assert [round(wait, 1) for wait in waits[1:]] == [0.1, 0.2, 0.2, 0.2]
        with Producer(Log.open(remote.inner)) as producer:
            producer.send("src", "more")
        waits.clear()
        remote.clear()
        newer = source.latestOffset(end, ALL)
        assert newer["src"] == {"0": 4}
        assert source.latestOffset(end, ALL) == newer
        assert len(waits) == 1, "and whoever found something does not wait"
    # Two entries, the producer's id and its row, a look after them, and the one in vain.
    assert remote.counts() == {"source": {"GET": 4}}


def test_a_plan_looks_for_what_it_does_not_know(remote, source):
    """After a restart that is the first thing Spark asks for."""
    source, start = source
    with Producer(Log.open(remote.inner)) as producer:
        producer.send("src", "more")
    end = {**start, "src": {"0": 4}}
    with remote.process("source"):
        tasks = source.partitions(start, end)
        assert len(tasks) >= 1
        with remote.process("executor"):
            found = [
                row["value"] for task in tasks for batch in source.read(task) for row in batch.to_pylist()
            ]
    assert found == [b"0", b"1", b"2", b"more"]
    assert remote.counts()["source"] == {
        "GET": 3
    }  # the entries of the producer's id and of its row, and no other


# -- Clients --------------------------------------------------------------------------------------------


def client(remote):
    store = RemoteStore(remote.inner)
    log = Log.open(store)
    store.clear()
    return store, log


def test_a_cold_open_lists_and_reads_what_no_snapshot_covers(remote):
    store = RemoteStore(remote.inner)
    Log.open(store)
    # Two entries and none after them; a list of snapshots, and as there are none one of entries: there may be a gap.
    assert store.counts == {"LIST": 2, "GET": 2 + 1}


def test_a_transaction_is_a_file_and_an_entry(remote):
    store, log = client(remote)
    producer = Producer(log, {"transactional.id": "tx"})
    producer.init_transactions()
    assert store.counts == {"PUT": 1}
    for _ in range(5):
        store.clear()
        producer.begin_transaction()
        producer.send("src", "value")
        producer.commit_transaction()
        assert store.counts == {"PUT": 2}


def test_a_consumer_s_poll_without_news_is_one_request(remote):
    store, log = client(remote)
    consumer = Consumer(log, {"auto.offset.reset": "earliest"})
    consumer.assign([AT])
    assert consumer.poll() == []
    for _ in range(5):
        store.clear()
        assert consumer.poll() == []
        assert store.counts == {"GET": 1}


@pytest.mark.parametrize(("topics", "files"), [(["src"], 3), (["src", "more"], 6)])
def test_a_consumer_s_poll_with_news_reads_each_entry_and_each_batch_once(remote, topics, files):
    """Batches of several partitions in one file are one request, batches in several files are one each."""
    theirs = Log.open(remote.inner)
    for topic in topics:
        change = Admin(theirs).alter_topic if topic in theirs.state.topics else Admin(theirs).create_topic
        change(topic, 2)
    store, log = client(remote)
    consumer = Consumer(log, {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number) for topic in topics for number in range(2)])
    consumer.poll()
    for _ in range(2):
        with Producer(theirs, {"transactional.id": "t"}) as producer:
            producer.init_transactions()
            for _ in range(3):
                producer.begin_transaction()
                for topic in topics:
                    for number in range(2):
                        producer.send(topic, "value", partition=number)
                producer.commit_transaction()
        store.clear()
        assert len(consumer.poll()) == 2 * files
        # The producer's id and three transactions, a look after them, the files.
        assert store.counts == {"GET": 4 + 1 + files}


def test_a_consumer_that_waits_looks_less_and_less_often(remote, monkeypatch):
    store, log = client(remote)
    consumer = Consumer(log, {"auto.offset.reset": "earliest"})
    consumer.assign([AT])
    consumer.poll()
    now, waits = [0.0], []

    class Clock(log.clock.__class__):
        def monotonic(self):
            return now[0]

        def sleep(self, seconds):
            waits.append(seconds)
            now[0] += seconds

    monkeypatch.setattr(log, "clock", Clock())
    store.clear()
    assert consumer.poll(10_000) == []
    assert waits[:5] == [0.05, 0.1, 0.2, 0.4, 0.5]
    assert store.counts == {"GET": len(waits) + 1}
    assert len(waits) < 25


# -- Contention -----------------------------------------------------------------------------------------


def entry(seq):
    return f"_log/{seq:020}.avro"


@pytest.mark.parametrize("behind", [1, 4])
def test_who_is_beaten_reads_what_is_new_and_tries_again(remote, behind):
    ours, theirs = client(remote), client(remote)
    action = AlterLog((("offsets.retention.minutes", "5"),))
    for _ in range(behind):
        ours[1].commit(lambda _: (action,))
    theirs[1].commit(lambda _: (action,))
    assert theirs[0].requests == [
        Request("PUT", entry(2)),
        *(Request("GET", entry(seq)) for seq in range(2, 2 + behind + 1)),
        Request("PUT", entry(2 + behind)),
    ]


@pytest.mark.parametrize("alone", [True, False])
def test_who_was_alone_does_not_look_before_it_writes_after_a_while(remote, monkeypatch, alone):
    ours, theirs = client(remote), client(remote)
    action = AlterLog((("offsets.retention.minutes", "5"),))
    for _ in range(2):
        ours[1].commit(lambda _: (action,))
    if not alone:
        theirs[1].follow()
        theirs[1].commit(lambda _: (action,))
        ours[1].commit(lambda _: (action,))
    ours[0].clear()
    now = ours[1].clock.monotonic()
    monkeypatch.setattr(ours[1].clock.__class__, "monotonic", lambda _: now + 20)
    ours[1].commit(lambda _: (action,))
    assert ours[0].counts == ({"PUT": 1} if alone else {"GET": 1, "PUT": 1})
