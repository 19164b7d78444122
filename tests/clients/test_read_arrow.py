"""A topic as a stream of Arrow record batches."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_eos import Admin, Log, Producer, TopicPartition, read_arrow
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRequestError,
    NotALogError,
    ObjectNotFoundError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.data.records import times_damaged
from spark_eos.log.time_travel import iso, parse_time
from spark_eos.protocol.actions import TO_THE_END, AdvanceLogStart, AppendBatches, PartitionOffset
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import MemoryStore

START = datetime(2026, 11, 21, 16, tzinfo=timezone.utc)
TYPED = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("tags", pa.list_(pa.string()))]
)
OFFSET, PARTITION = pc.field("offset"), pc.field("partition")


class Counting(MemoryStore):
    """Notes the reads of data files, in bytes."""

    def __init__(self):
        super().__init__()
        self.reads = []

    def read(self, name, offset=0, length=None):
        found = super().read(name, offset, length)
        if name.startswith("data/"):
            self.reads.append(found.size)
        return found


@pytest.fixture
def log():
    return Log.create(Counting())


def append(log, topic, rows, partitions):
    known = log.topic(topic)
    with log.stage(known) as writer:
        writer.append(pa.table(rows), np.array(partitions, np.int32))
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, ((topic, known.topic_id),), files),))


@pytest.fixture
def filled(log):
    """Five segments of 20 records in each of two partitions; an hour and a minute for each record between them."""
    log.ensure_topic("t", 2)
    for segment in range(5):
        times = [START + timedelta(hours=segment, minutes=n) for n in range(40)]
        rows = {
            "key": [b"%d" % (n % 4) for n in range(40)],
            "value": [b"%d" % (segment * 40 + n) for n in range(40)],
            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
        }
        append(log, "t", rows, [n % 2 for n in range(40)])
    log.store.reads.clear()
    return log


def offsets(reader):
    """(partition, offset) of the rows."""
    found = reader.read_all().to_pydict()
    prefix = "_" if "_offset" in found else ""
    return [*zip(found[f"{prefix}partition"], found[f"{prefix}offset"], strict=True)]


ALL = [(partition, offset) for partition in range(2) for offset in range(100)]


def test_a_whole_topic(filled):
    reader = read_arrow(filled, "t")
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    assert filled.store.reads == [], "nothing is read before it is asked for"
    table = reader.read_all()
    table.validate(full=True)
    assert table.schema == reader.schema
    rows = table.to_pylist()
    assert [(row["partition"], row["offset"]) for row in rows] == ALL
    assert rows[21] == {
        "key": b"2",
        "value": b"42",
        "topic": "t",
        "partition": 0,
        "offset": 21,
        "timestamp": START + timedelta(hours=1, minutes=2),
        "headers": None,
    }
    assert reader.read_all().num_rows == 0, "it can be read once"


def test_no_rows_are_a_batch_without_rows(filled):
    """Polars makes no frame of a reader without a batch."""
    Admin(filled).create_topic("empty", 2)
    for topic, filter_ in (("empty", None), ("t", pc.field("key") == b"no such key")):
        (batch,) = read_arrow(filled, topic, filter=filter_)
        assert batch.num_rows == 0
        assert "value" in batch.schema.names


def test_batch_by_batch(filled):
    """Each is read when it is asked for, and is no longer held after that."""
    reader = read_arrow(filled, "t")
    for number in range(10):
        assert len(filled.store.reads) == number
        assert reader.read_next_batch().num_rows == 20
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_memory_is_bounded(log):
    """A topic of 100 MB with a few of them in memory."""
    log.ensure_topic("t", 1)
    one = pa.array([b"x" * 1000] * 2000)
    for _ in range(5):
        append(log, "t", {"value": pa.concat_arrays([one] * 10)}, [0] * 20_000)
    before = pa.total_allocated_bytes()
    total = most = 0
    for batch in read_arrow(log, "t"):
        total += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    assert total == 100_000
    assert most < 60 << 20


def test_a_topic_with_a_schema(log):
    with Admin(log) as admin:
        admin.create_topic("typed", schema=TYPED)
    rows = {"id": [1, 2], "name": ["a", None], "tags": [["x"], None]}
    append(log, "typed", pa.table(rows, schema=TYPED), [0, 0])
    assert read_arrow(log, "typed").read_all().to_pydict() == rows
    places = read_arrow(log, "typed", columns=["_offset", "name", "_timestamp", "_topic", "_partition"])
    assert places.schema.names == ["_offset", "name", "_timestamp", "_topic", "_partition"]
    found = places.read_all().to_pydict()
    assert (found["_offset"], found["_topic"], found["_partition"]) == ([0, 1], ["typed"] * 2, [0, 0])
    late = read_arrow(
        log, "typed", filter=(pc.field("_offset") > 0) | (pc.field("name") == "b"), columns=["id"]
    )
    assert late.read_all().to_pydict() == {"id": [2]}
    with Admin(log) as admin:
        admin.alter_topic("typed", schema=TYPED.append(pa.field("more", pa.float64())))
    append(log, "typed", {"id": [3], "more": [1.5]}, [0])
    found = read_arrow(
        log, "typed", columns=["id", "more"], filter=pc.field("more").is_null() | (pc.field("id") == 3)
    )
    assert found.read_all().to_pydict() == {"id": [1, 2, 3], "more": [None, None, 1.5]}


def test_only_the_chosen_columns(filled):
    table = read_arrow(filled, "t", columns=["offset", "partition"]).read_all()
    assert table.schema.names == ["offset", "partition"]
    assert table.num_rows == 200
    assert filled.store.reads == [], "they are in no file"
    assert read_arrow(filled, "t", columns=("value",)).read_all().column("value")[199] == pa.scalar(b"199")


@pytest.mark.parametrize(
    ("expression", "keeps", "batches", "of_places"),
    [
        (OFFSET >= 80, lambda _, offset: offset >= 80, 2, 0),
        ((PARTITION == 1) & (OFFSET < 20), lambda partition, offset: partition == 1 and offset < 20, 1, 0),
        (PARTITION.isin([7, 8]), lambda *_: False, 0, 0),
        (pc.field("topic") != "t", lambda *_: False, 0, 0),
        (pc.field("timestamp") < START + timedelta(hours=2), lambda _, offset: offset < 40, 4, 4),
        (
            (pc.field("timestamp") >= START + timedelta(hours=4)) | ((PARTITION == 0) & (OFFSET == 3)),
            lambda partition, offset: offset >= 80 or (partition, offset) == (0, 3),
            3,
            3,
        ),
        (pc.field("key") == b"3", lambda partition, offset: partition == 1 and offset % 2, 10, 10),
        (
            (pc.field("key") == b"3") & (OFFSET < 20),
            lambda part, offset: part and offset % 2 and offset < 20,
            2,
            2,
        ),
        (pc.field("headers").is_valid(), lambda *_: False, 10, 0),
        (pc.binary_length(pc.field("value")) == 1, lambda _, offset: offset < 5, 10, 10),
        (pc.scalar(True), lambda *_: True, 10, 0),
    ],
)
def test_filters(filled, expression, keeps, batches, of_places):
    """Of any kind; what topic, partition, offset or timestamp exclude is not read."""
    wanted = [one for one in ALL if keeps(*one)]
    assert offsets(read_arrow(filled, "t", filter=expression)) == wanted
    assert len(filled.store.reads) == batches
    filled.store.reads.clear()
    assert offsets(read_arrow(filled, "t", filter=expression, columns=["partition", "offset"])) == wanted
    assert len(filled.store.reads) == of_places


@pytest.mark.parametrize(
    ("bounds", "keeps"),
    [
        ({"start": {0: 90}}, lambda partition, offset: partition or offset >= 90),
        ({"end": {0: 0, 1: 3}}, lambda partition, offset: partition and offset < 3),
        ({"start": {0: 100, 1: 50}, "end": {1: 50}}, lambda *_: False),
        ({"start": {0: 10, 1: 10}, "end": {0: 12, 1: 5}}, lambda partition, offset: not partition and 9 < offset < 12),
        ({"start": START + timedelta(hours=4)}, lambda _, offset: offset >= 80),
        ({"start": START + timedelta(hours=9)}, lambda *_: False),
        ({"end": START + timedelta(minutes=2)}, lambda _, offset: offset < 1),
        ({"start": START.replace(tzinfo=None), "end": START + timedelta(hours=1)}, lambda _, offset: offset < 20),
    ],
)  # fmt: skip
def test_ranges(filled, bounds, keeps):
    assert offsets(read_arrow(filled, "t", **bounds)) == [one for one in ALL if keeps(*one)]
    both = read_arrow(filled, "t", filter=OFFSET != 1, **bounds)
    assert offsets(both) == [one for one in ALL if keeps(*one) and one[1] != 1]


def test_a_time_without_a_zone_is_utc_wherever_the_program_runs(filled, monkeypatch):
    start = START + timedelta(hours=4)
    wanted = offsets(read_arrow(filled, "t", start=start))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        naive = start.replace(tzinfo=None)
        assert offsets(read_arrow(filled, "t", start=naive)) == wanted
        assert parse_time(naive.isoformat()) == start
    finally:
        monkeypatch.undo()
        time.tzset()


def test_both_isolation_levels(log):
    log.ensure_topic("t", 1)
    with Producer(log, {"transactional.id": "x", "transaction.timeout.ms": 900_000}) as producer:
        producer.init_transactions()
        for value, commit in ((b"committed", True), (b"aborted", False)):
            producer.begin_transaction()
            producer.send("t", value)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"open")
        producer.flush()

        def values(**options):
            return read_arrow(log, "t", columns=["value"], **options).read_all().to_pydict()["value"]

        assert values() == [b"committed"]
        assert values(isolation_level="read_uncommitted") == [b"committed", b"aborted", b"open"]
        producer.abort_transaction()


# -- As it was -------------------------------------------------------------------------------------------------


def test_no_record_is_older_than_the_start_by_less_than_a_millisecond():
    log = Log.create(MemoryStore())
    with Producer(log) as producer:
        for number in range(3):
            producer.send("t", b"%d" % number, timestamp_ms=1000 + number)

    def values(**bounds):
        return read_arrow(log, "t", **bounds).read_all()["value"].to_pylist()

    within = datetime.fromtimestamp(1, timezone.utc) + timedelta(microseconds=1500)
    assert values(start=within) == [b"2"]
    assert values(end=within) == [b"0", b"1"]
    assert values(start=within - timedelta(microseconds=500)) == [b"1", b"2"]


def test_as_of_an_entry_and_a_time(filled):
    filled.clock.sleep(0.01)
    seq, moment = filled.state.seq, filled.state.timestamp_ms
    filled.clock.sleep(0.01)
    append(filled, "t", {"value": [b"later"]}, [0])
    assert len(offsets(read_arrow(filled, "t"))) == 201
    then = datetime.fromtimestamp(moment / 1000, timezone.utc) + timedelta(milliseconds=1)
    for as_of in (seq, then, iso(moment + 1), then.replace(tzinfo=None)):
        assert offsets(read_arrow(filled, "t", as_of=as_of)) == ALL
    before = datetime.fromtimestamp(filled.state.timestamp_ms / 1000, timezone.utc) - timedelta(
        microseconds=1
    )
    assert offsets(read_arrow(filled, "t", as_of=before)) == ALL
    late = read_arrow(filled, "t", as_of=seq, filter=OFFSET >= 95, start={0: 98})
    assert offsets(late) == [(0, 98), (0, 99), *((1, n) for n in range(95, 100))]


def test_before_an_overwrite(filled):
    seq, topic = filled.state.seq, filled.topic("t")
    filled.commit(lambda _: (AdvanceLogStart((PartitionOffset("t", topic.topic_id, 0, TO_THE_END),)),))
    assert offsets(read_arrow(filled, "t")) == ALL[100:]
    assert offsets(read_arrow(filled, "t", as_of=seq)) == ALL
    assert offsets(read_arrow(filled, "t", as_of=seq, filter=OFFSET < 2)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for name in [info.name for info in filled.store.list("data/")]:
        filled.store.delete(name)
    with pytest.raises(OffsetOutOfRangeError, match="a vacuum has removed their files"):
        read_arrow(filled, "t", as_of=seq)


@pytest.mark.parametrize(
    ("as_of", "error", "told"),
    [
        (10_000, InvalidRequestError, "has no entry 10000"),
        (-1, InvalidRequestError, "has no entry -1"),
        (0, UnknownTopicOrPartitionError, "had no topic 't' after entry 0"),
        ("2000-01-01", InvalidRequestError, "the earliest is entry"),
        ("2999-01-01", InvalidRequestError, "is yet to come"),
        ("yesterday", ConfigError, "as_of='yesterday'"),
        (True, ConfigError, "as_of=True"),
        (1.5, ConfigError, "as_of=1.5"),
    ],
)
def test_times_that_are_not_there(filled, as_of, error, told):
    with pytest.raises(error, match=told):
        read_arrow(filled, "t", as_of=as_of)


# -- What is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"columns": ["valeu"]}, "no column 'valeu'; did you mean 'value'"),
        ({"columns": ["_offset"]}, "did you mean 'offset'"),
        ({"columns": ["key", "key"]}, "chosen twice"),
        ({"columns": "key"}, "expected a list of names"),
        ({"columns": []}, "expected a list of names"),
        ({"filter": "offset > 3"}, "expected an expression of pyarrow.compute"),
        ({"filter": pc.field("nope") == 1}, "does not fit topic 't', which has key"),
        ({"filter": OFFSET == "x"}, "does not fit topic 't'"),
        ({"filter": OFFSET + 1}, "gives int64, not true or false"),
        ({"start": 5}, "expected offsets by partition"),
        ({"start": {"0": 5}}, "expected whole numbers"),
        ({"end": {0: "5"}}, "expected whole numbers"),
        ({"isolation_level": "committed"}, "expected read_committed or read_uncommitted"),
        ({"config": {"group.id": "g"}}, "group.id is no setting of an object store"),
        ({"config": {"s3.region": "x"}}, "was given an open Log"),
    ],
)
def test_arguments_that_do_not_fit(filled, given, told):
    with pytest.raises(ConfigError, match=told):
        read_arrow(filled, "t", **given)


def test_what_is_not_there(filled, tmp_path):
    with pytest.raises(UnknownTopicOrPartitionError, match="has no topic 'tt'; did you mean 't'"):
        read_arrow(filled, "tt")
    with pytest.raises(
        UnknownTopicOrPartitionError, match="start names partition 2 of topic 't', which has 0 to 1"
    ):
        read_arrow(filled, "t", start={2: 0})
    for bounds in ({"start": {0: 101}}, {"end": {1: 101}}, {"start": {0: -1}}):
        with pytest.raises(OffsetOutOfRangeError, match="it has 0 to 100"):
            read_arrow(filled, "t", filter=OFFSET < 3, **bounds)
    with pytest.raises(NotALogError):
        read_arrow(tmp_path / "none", "t")
    assert not (tmp_path / "none").exists(), "reading creates nothing"


def test_a_file_that_the_log_lacks(filled):
    """To read again would not help: it is damage, and counted as such."""
    before = times_damaged(filled.url)
    for name in [info.name for info in filled.store.list("data/")]:
        filled.store.delete(name)
    with pytest.raises(
        CorruptRecordError, match=r"It is missing: it holds t-\d, offsets .* Put it back from a backup"
    ):
        read_arrow(filled, "t").read_all()
    assert times_damaged(filled.url) == before + 1


def test_files_that_go_while_it_is_read(filled):
    reader = read_arrow(filled, "t")
    Admin(filled).delete_records({TopicPartition("t", number): 100 for number in range(2)})
    for name in [info.name for info in filled.store.list("data/")]:
        filled.store.delete(name)
    with pytest.raises(ObjectNotFoundError, match=r"Call read_arrow again, or raise that setting"):
        reader.read_all()


def test_a_path_and_an_open_log(tmp_path):
    with Producer(str(tmp_path / "log")) as producer:
        producer.send("t", b"x").result(timeout=60)
    for log in (str(tmp_path / "log"), tmp_path / "log", Log.open(tmp_path / "log")):
        assert read_arrow(log, "t").read_all().num_rows == 1


def test_it_needs_no_spark(tmp_path):
    """As after an installation of the package alone."""
    with Producer(str(tmp_path / "log")) as producer:
        producer.send("t", b"x").result(timeout=60)
    code = (
        "import sys; sys.modules.update(pyspark=None, py4j=None, duckdb=None, polars=None)\n"
        "import pyarrow.compute as pc; from spark_eos import read_arrow\n"
        "print(read_arrow(sys.argv[1], 't', filter=pc.field('offset') >= 0).read_all().num_rows)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"], capture_output=True, text=True, check=False
    )
    assert (ran.stdout.strip(), ran.stderr) == ("1", "")
