"""The consumer: what is seen, where it stands, and what it says when that is gone."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, ConsumerRecord, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.config.consumer import consumer_config
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    IllegalStateError,
    InvalidRequestError,
    NoOffsetForPartitionError,
    NotALogError,
    OffsetOutOfRangeError,
    StorePermissionError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from tests.log.fakes import FakeClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NAMES = (f"memory://consumer-{number}" for number in itertools.count())


@pytest.fixture
def url():
    return next(NAMES)


@pytest.fixture
def admin(url):
    return Admin(url)


def fill(url, *values, topic="t", partition=0):
    with Producer(url) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def fill_log(log, *values):
    with Producer(log) as producer:
        for value in values:
            producer.send("t", value)


def consumer(url, *partitions, **settings):
    config = {name.replace("_", "."): value for name, value in settings.items()}
    reader = Consumer(url, {"auto.offset.reset": "earliest", **config})
    reader.assign(partitions or [T0])
    return reader


def read(reader, **options):
    return [record.value for record in reader.poll(**options)]


def test_positions_move_over_control_batches_and_aborted_records(url):
    producer = Producer(url, {"transactional.id": "app"})
    producer.init_transactions()
    for value, commit in ((b"a", False), (b"b", True), (b"c", False)):
        producer.begin_transaction()
        producer.send("t", value)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    reader = consumer(url, isolation_level="read_committed")
    (record,) = reader.poll()
    assert (record.value, record.offset) == (b"b", 2)
    assert reader.poll() == []
    assert reader.position(T0) == reader.end_offsets([T0])[T0] == 6


def test_a_batch_is_read_once_for_many_polls():
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store)
    with Producer(log) as producer:
        producer.send_arrow("t", pa.table({"value": [str(n) for n in range(1000)]}))
    reader = consumer(log)
    found = []
    while records := reader.poll(max_records=100):
        assert len(records) == 100
        found += records
    assert [int(record.value) for record in found] == [record.offset for record in found] == list(range(1000))
    assert store.count("read", "data/*") == 1


def test_max_poll_records(url):
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"value": ["x"] * 700}))
    reader = consumer(url)
    assert [len(reader.poll()) for _ in range(3)] == [500, 200, 0]
    assert len(consumer(url, max_poll_records=7).poll()) == 7


def test_partitions_take_turns(url, admin):
    admin.create_topic("t", 3)
    parts = [TopicPartition("t", number) for number in range(3)]
    for part in parts:
        fill(url, *(b"x" for _ in range(20)), partition=part.partition)
    reader = consumer(url, *parts)
    seen = [{record.partition for record in reader.poll(max_records=5)} for _ in range(3)]
    assert set().union(*seen) == {0, 1, 2}


def test_pause_and_resume(url, admin):
    admin.create_topic("t", 2)
    fill(url, b"0", partition=0)
    fill(url, b"1", partition=1)
    reader = consumer(url, T0, T1)
    reader.pause(T0)
    assert read(reader) == [b"1"]
    assert read(reader) == []
    reader.resume(T0)
    assert read(reader) == [b"0"]


def test_seek_and_position(url):
    fill(url, b"0", b"1", b"2")
    reader = consumer(url)
    reader.seek(T0, 2)
    assert read(reader) == [b"2"]
    reader.seek_to_beginning()
    assert reader.position(T0) == 0
    reader.seek_to_end(T0)
    assert read(reader) == []
    with pytest.raises(InvalidRequestError, match="-1"):
        reader.seek(T0, -1)
    with pytest.raises(IllegalStateError, match="t-1 is not assigned"):
        reader.seek(T1, 0)


def test_seek_in_the_middle_of_a_batch_that_is_being_read(url):
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"value": [str(n) for n in range(10)]}))
    reader = consumer(url)
    assert read(reader, max_records=3) == [b"0", b"1", b"2"]
    reader.seek(T0, 8)
    assert read(reader) == [b"8", b"9"]


def test_latest_is_the_default(url):
    fill(url, b"old")
    reader = Consumer(url)
    reader.assign([T0])
    assert reader.poll() == []
    fill(url, b"new")
    assert read(reader) == [b"new"]


def test_no_reset(url, admin):
    fill(url, b"0", b"1", b"2")
    reader = consumer(url, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError, match=r"t-0 at: there is no group\.id"):
        reader.poll()
    with pytest.raises(NoOffsetForPartitionError, match="t-0 at: group 'g' has committed none"):
        consumer(url, group_id="g", auto_offset_reset="none").poll()
    reader.seek(T0, 1)
    admin.delete_records({T0: 2})
    with pytest.raises(OffsetOutOfRangeError, match="offset 1 of t-0"):
        reader.poll()
    reader.seek(T0, 99)
    with pytest.raises(OffsetOutOfRangeError, match="offset 99"):
        reader.poll()


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [b"2"]), ("latest", [])])
def test_out_of_range_is_reset(url, admin, caplog, reset, expected):
    fill(url, b"0", b"1", b"2")
    admin.delete_records({T0: 2})
    reader = consumer(url, auto_offset_reset=reset)
    assert reader.beginning_offsets([T0]) == {T0: 2}
    reader.seek(T0, 0)
    assert read(reader) == expected
    assert (
        f"offset 0 of t-0 is out of range: it has 2 to 3. Reading goes on at {3 - len(expected)}"
        in caplog.text
    )


def test_reading_creates_nothing(url, admin, tmp_path):
    for missing in (next(NAMES), str(tmp_path / "none")):
        with pytest.raises(NotALogError):
            Consumer(missing)
    assert not (tmp_path / "none").exists()
    fill(url, b"x")
    with pytest.raises(UnknownTopicOrPartitionError, match=r"'tt'.*did you mean 't'"):
        consumer(url, TopicPartition("tt", 0))
    with pytest.raises(UnknownTopicOrPartitionError, match="partition 1"):
        consumer(url, T1)
    assert admin.list_topics() == ["t"]


def test_a_topic_that_was_created_again_is_not_read_on(url, admin):
    fill(url, b"x")
    reader = consumer(url)
    assert read(reader) == [b"x"]
    admin.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError, match="'t' was deleted since"):
        reader.poll()
    fill(url, b"y", b"z")
    with pytest.raises(UnknownTopicOrPartitionError, match="'t' was deleted and created again"):
        reader.poll()
    with pytest.raises(UnknownTopicOrPartitionError, match="'t' was deleted and created again"):
        reader.highwater(T0)
    reader.assign([T0])
    assert read(reader) == [b"y", b"z"]


def test_committed_offsets(url):
    fill(url, *(str(n) for n in range(10)))
    reader = consumer(url, group_id="g", enable_auto_commit=False)
    assert reader.committed([T0]) == {T0: None}
    reader.poll(max_records=4)
    reader.commit()
    assert reader.committed([T0]) == {T0: OffsetAndMetadata(4)}
    reader.close()
    again = consumer(url, group_id="g", enable_auto_commit=False)
    assert again.position(T0) == 4
    again.commit({T0: OffsetAndMetadata(7, "note")})
    assert again.committed([T0]) == {T0: OffsetAndMetadata(7, "note")}
    assert consumer(url, group_id="other").position(T0) == 0


def test_auto_commit_commits_what_was_returned_before(url, admin):
    fill(url, *(str(n) for n in range(10)))
    with consumer(url, group_id="g", auto_commit_interval_ms=0) as reader:
        reader.poll(max_records=4)
        assert admin.list_group_offsets("g") == {}  # these may not have been processed
        reader.poll(max_records=2)
        assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(4)}
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(6)}


def test_assigning_other_partitions_commits_what_was_returned_before(url, admin):
    admin.create_topic("t", 2)
    fill(url, b"0", b"1")
    reader = consumer(url, group_id="g")
    reader.poll()
    reader.assign([T1])
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(2)}


def test_without_a_group_nothing_is_committed(url, admin):
    fill(url, b"x")
    with consumer(url) as reader:
        reader.poll()
        for call in (reader.commit, reader.group_metadata, lambda: reader.committed([T0])):
            with pytest.raises(ConfigError, match=r"group\.id"):
                call()
    assert admin.list_groups() == []


def test_offsets_of_an_open_transaction_are_waited_for(url):
    fill(url, b"0", b"1")
    log = Log.shared(url)
    from spark_eos.clients.producer.producer_session import init_producer_id
    from spark_eos.protocol.actions import CommitOffsets, EndTransaction, PartitionOffset

    stamp = (
        init_producer_id(log, "app", 60_000, writer="", request_id=log.clock.unique())
        .results[0]
        ._replace(number=0)
    )
    place = PartitionOffset("t", log.topic("t").topic_id, 0, 1)
    log.commit(lambda _state: (CommitOffsets("g", (place,), stamp),))
    settings = {"group_id": "g", "default_api_timeout_ms": 0, "enable_auto_commit": False}
    stable = consumer(url, isolation_level="read_committed", **settings)
    with pytest.raises(UnstableOffsetCommitError, match="'g' for t-0"):
        stable.committed([T0])
    with pytest.raises(UnstableOffsetCommitError):
        stable.position(T0)
    assert stable.poll() == []
    assert consumer(url, **settings).committed([T0]) == {T0: None}
    log.commit(lambda _state: (EndTransaction(stamp, commit=True),))
    assert stable.committed([T0]) == {T0: OffsetAndMetadata(1)}
    assert read(stable) == [b"1"]


def test_times(url):
    with Producer(url) as producer:
        for number in range(5):
            producer.send("t", str(number), timestamp_ms=1000 * number)
    reader = consumer(url)
    assert reader.offsets_for_times({T0: 1500}) == {T0: (2, 2000)}
    assert reader.offsets_for_times({T0: 99_999}) == {T0: None}


def test_poll_arrow(url, admin):
    schema = pa.schema([("id", pa.int64()), ("topic", pa.string())])
    admin.create_topic("typed", schema=schema)
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"value": ["a", "b"]}))
        producer.send_arrow("typed", pa.table({"id": [7], "topic": ["own"]}))
    reader = consumer(url, T0, TopicPartition("typed", 0))
    first, second = reader.poll_arrow(), reader.poll_arrow()
    assert first.drop_columns(["timestamp"]).to_pydict() == {
        "topic": ["t", "t"],
        "partition": [0, 0],
        "offset": [0, 1],
        "key": [None, None],
        "value": [b"a", b"b"],
        "headers": [None, None],
    }
    assert second.drop_columns(["_timestamp"]).to_pydict() == {
        "_topic": ["typed"],
        "_partition": [0],
        "_offset": [0],
        "id": [7],
        "topic": ["own"],
    }
    empty = reader.poll_arrow()
    assert empty.num_rows == 0
    assert empty.schema in (first.schema, second.schema)
    reader.seek_to_beginning(T0)
    assert reader.poll_arrow(max_records=1).column("offset").to_pylist() == [0]


def test_typed_rows_are_dicts(url, admin):
    admin.create_topic("typed", schema=pa.schema([("id", pa.int64())]))
    with Producer(url) as producer:
        producer.send_arrow("typed", pa.table({"id": [1]}))
    (record,) = consumer(url, TopicPartition("typed", 0)).poll()
    assert record == ConsumerRecord("typed", 0, 0, record.timestamp_ms, None, {"id": 1})


def test_rows_of_an_older_schema_have_null_in_new_columns(url, admin):
    at = TopicPartition("typed", 0)
    admin.create_topic("typed", schema=pa.schema([("id", pa.int64())]))
    with Producer(url) as producer:
        producer.send_arrow("typed", pa.table({"id": [1]}))
        producer.flush()
        admin.alter_topic("typed", schema=pa.schema([("id", pa.int64()), ("more", pa.string())]))
        producer.send_arrow("typed", pa.table({"id": [2], "more": ["x"]}))
    assert read(consumer(url, at)) == [{"id": 1, "more": None}, {"id": 2, "more": "x"}]


def test_damage_is_told_with_the_file_and_what_was_read_is_kept():
    log = Log.open_or_create(MemoryStore())
    with Producer(log) as producer:
        producer.send("t", b"first")
        producer.flush()
        producer.send("t", b"second")
    name = log.state.partitions[log.topic("t").topic_id, 0].index.tail[1].file.name
    data = bytearray(log.store.read(name).to_pybytes())
    at = data.index(b"second")
    data[at] ^= 1
    log.store.overwrite(name, data)
    reader = consumer(log)
    assert read(reader) == [b"first"]
    with pytest.raises(CorruptRecordError, match=name):
        reader.poll()
    assert reader.position(T0) == 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"isolation.levl": "read_committed"}, "did you mean isolation.level"),
        ({"isolation.level": "serializable"}, "read_committed"),
        ({"auto.offset.reset": "never"}, "earliest"),
        ({"check.crcs": False}, "always checked"),
        ({"enable.auto.commit": True}, r"group\.id"),
        ({"max.poll.records": 0}, "at least|from 1"),
        ({"auto.offset.reset": "by_duration"}, "by_duration:<ISO-8601 duration>"),
        ({"auto.offset.reset": "by_duration:"}, "not a duration"),
        ({"auto.offset.reset": "by_duration:-PT1H"}, "negative"),
        ({"auto.offset.reset": "by_duration:1h"}, "PnDTnHnMnS"),
        (
            {"partition.assignment.strategy": "range,sticky"},
            r"known are range, roundrobin, .* \('sticky' is none\)",
        ),
        ({"partition.assignment.strategy": "range,range"}, "none twice"),
        ({"partition.assignment.strategy": []}, "at least one"),
        ({"heartbeat.interval.ms": 45_000}, r"less than session\.timeout\.ms=45000"),
        ({"session.timeout.ms": 3_000}, r"heartbeat\.interval\.ms=3000 must be less"),
        ({"max.poll.interval.ms": 0}, "from 1"),
        ({"group.instance.id": "a"}, r"group\.id"),
    ],
)
def test_settings_are_checked(url, config, message):
    with pytest.raises(ConfigError, match=message):
        Consumer(url, config)


def test_defaults_are_kafkas():
    settings = consumer_config({"group.id": "g"})
    assert settings["partition.assignment.strategy"] == ("range", "cooperative-sticky")
    assert settings["session.timeout.ms"] == 45_000
    assert settings["heartbeat.interval.ms"] == 3_000
    assert settings["max.poll.interval.ms"] == 300_000
    assert settings["enable.auto.commit"] is True
    assert settings["auto.commit.interval.ms"] == 5_000


@pytest.mark.parametrize(
    "value",
    [
        "cooperative-sticky, roundrobin",
        ["cooperative-sticky", "roundrobin"],
        ",".join(
            f"org.apache.kafka.clients.consumer.{name}Assignor"
            for name in ("CooperativeSticky", "RoundRobin")
        ),
    ],
)
def test_assignors_by_any_of_their_names(value):
    settings = consumer_config({"group.id": "g", "partition.assignment.strategy": value})
    assert settings["partition.assignment.strategy"] == ("cooperative-sticky", "roundrobin")


@pytest.mark.parametrize(
    ("ago", "expected"),
    [("PT1H", [b"1", b"2"]), ("PT2H", [b"0", b"1", b"2"]), ("P1DT12H", [b"0", b"1", b"2"]), ("PT1S", [])],
)
def test_reset_to_a_duration_ago(ago, expected):
    clock = FakeClock()
    log = Log.open_or_create(MemoryStore(), clock=clock)
    clock.now += 1_000_000
    hour_ms = 3_600_000
    with Producer(log) as producer:
        for number, age_ms in enumerate((2 * hour_ms, hour_ms, hour_ms // 2)):
            producer.send("t", str(number), timestamp_ms=clock.now_ms() - age_ms)
    reader = consumer(log, auto_offset_reset=f"by_duration:{ago}")
    assert read(reader) == expected
    reader.seek(T0, 99)  # out of range is reset in the same way
    assert read(reader) == expected


def test_under_read_committed_the_end_is_the_last_stable_offset_and_so_are_times(url):
    """TransactionsTest: seek to end stops at an open transaction, and times find nothing after it."""
    with Admin(url) as admin:
        admin.create_topic("t", config={"message.timestamp.after.max.ms": 2**63 - 1})
    fill(url, b"a", b"b")
    producer = Producer(url, {"transactional.id": "app"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"open", timestamp_ms=4_000_000_000_000)
    producer.flush()
    fill(url, b"c")
    stable = consumer(url, isolation_level="read_committed")
    dirty = consumer(url)
    assert stable.end_offsets([T0]) == {T0: 2}
    assert dirty.end_offsets([T0]) == {T0: 4}
    assert stable.highwater(T0) == 4
    stable.seek(T0, 4)
    assert stable.metrics()["consumer-fetch-manager-metrics.t-0"] == {"records-lag": 0}
    stable.seek_to_end()
    assert stable.position(T0) == 2
    assert stable.offsets_for_times({T0: 4_000_000_000_000}) == {T0: None}
    assert dirty.offsets_for_times({T0: 4_000_000_000_000}) == {T0: (2, 4_000_000_000_000)}
    producer.abort_transaction()
    assert stable.offsets_for_times({T0: 4_000_000_000_000}) == {T0: None}
    assert read(stable) == [b"c"]
    assert stable.end_offsets([T0]) == {T0: 5}


def test_a_poll_that_waits_ends_what_is_over():
    """No other process is needed to end a transaction whose producer died: any consumer that waits does."""
    clock = FakeClock()
    log = Log.open_or_create(MemoryStore(), clock=clock)
    producer = Producer(log, {"transactional.id": "app", "transaction.timeout.ms": 10_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"open")
    producer.flush()
    fill_log(log, b"x")
    reader = consumer(log, isolation_level="read_committed")
    assert read(reader, timeout_ms=5_000) == []
    assert read(reader, timeout_ms=60_000) == [b"x"]


def test_expiration_is_not_done_more_than_once_a_second(monkeypatch):
    clock = FakeClock()
    log = Log.open_or_create(MemoryStore(), clock=clock)
    Admin(log).create_topic("t")
    times = []
    monkeypatch.setattr(log, "expire_overdue", lambda: times.append(clock.now))
    consumer(log).poll(timeout_ms=10_000)
    assert 9 <= len(times) <= 10
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times))


def test_a_reader_that_may_not_expire_overdue_reads_on(monkeypatch):
    clock = FakeClock()
    log = Log.open_or_create(MemoryStore(), clock=clock)
    fill_log(log, b"x")
    tried = []

    def expire_overdue():
        tried.append(1)
        raise StorePermissionError("read-only")

    monkeypatch.setattr(log, "expire_overdue", expire_overdue)
    reader = consumer(log)
    clock.now += 2
    assert read(reader) == [b"x"]
    assert tried


def test_closed(url):
    fill(url, b"x")
    reader = consumer(url)
    reader.close()
    reader.close()
    with pytest.raises(IllegalStateError, match="closed"):
        reader.poll()
