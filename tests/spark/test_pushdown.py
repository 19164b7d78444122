"""Filters that batch reads take, and columns that are chosen: no row is lost, and what they exclude is not read."""

from __future__ import annotations

from datetime import date, datetime, timezone

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import datasource as f

from spark_eos import Admin, Producer
from spark_eos.errors import ConfigError, SchemaMismatchError, StorageError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.spark.options import parse_source
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.source.pushdown import EosLogPushdownReader
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.topics import source_schema
from spark_eos.spark.version import ReadAllAvailable
from spark_eos.storage import PosixStore

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000
"""The time of the first record."""

SETTING = "spark.sql.python.filterPushdown.enabled"
TYPED = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("x", pa.float64())])


def moment(ms):
    return datetime.fromtimestamp((START_MS + ms) / 1000, timezone.utc)


@pytest.fixture
def read_bytes(monkeypatch):
    """The bytes of data files that this process has read, one number for each read."""
    found, plain = [], PosixStore.read

    def counted(self, name, offset=0, length=None):
        data = plain(self, name, offset, length)
        if name.startswith("data/"):
            found.append(data.size)
        return data

    monkeypatch.setattr(PosixStore, "read", counted)
    return found


@pytest.fixture
def filled(bench):
    """Four segments of 30 records in each of three partitions, an hour apart, with keys 0 to 9, null at 0."""
    topic = bench.topic("src", 3)
    for segment in range(4):
        keys = [None if n % 10 == 0 else b"%d" % (n % 10) for n in range(90)]
        times = [START_MS + segment * HOUR_MS + n for n in range(90)]
        rows = pa.table(
            {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array([b"%d" % n for n in range(90)]),
                "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
            }
        )
        with bench.log.stage(topic) as writer:
            writer.append(rows, np.arange(90, dtype=np.int32) % 3)
            files = writer.finish()
        bench.log.commit(
            lambda _, files=files: (AppendBatches(NO_PRODUCER, (("src", topic.topic_id),), files),)
        )
    return bench


def options_of(bench, *, streaming=False, **options):
    given = {"path": bench.url, "subscribe": "src", **options}
    return parse_source(given, streaming=streaming)


def send(bench, topic, schema, values):
    row = pa.table(
        [pa.array([value], type_) for value, type_ in zip(values, schema.types, strict=True)], schema
    )
    with Producer(bench.url) as producer:
        producer.send_arrow(topic, row).result(timeout=60)


def rows_of(reader):
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def pushed(bench, *filters, load="load", **options):
    """The rows that tasks hand to Spark with these filters, which are handed back."""
    given = options_of(bench, filterPushdown="true", **options)
    reader = EosLogPushdownReader(given, source_schema(given), f"{load}-{filters}")
    assert list(reader.pushFilters([*filters])) == [*filters]
    return rows_of(reader)


def everything(bench, **options):
    given = options_of(bench, **options)
    return rows_of(EosLogBatchReader(given, source_schema(given)))


PLACE = ("partition",), ("offset",), ("timestamp",), ("key",)
PARTITION, OFFSET, TIME, KEY = PLACE
OF_ALL = 4 * 3
"""Batches that there are."""


@pytest.mark.parametrize(
    ("filters", "keeps", "batches"),
    [
        ([f.EqualTo(PARTITION, 1)], lambda row: row["partition"] == 1, 4),
        ([f.EqualTo(("topic",), "src")], lambda _: True, 12),
        ([f.EqualTo(("topic",), "other")], lambda _: False, 0),
        ([f.In(PARTITION, (0, 2)), f.GreaterThan(OFFSET, 89)], lambda r: r["partition"] != 1 and r["offset"] > 89, 2),
        ([f.LessThan(OFFSET, 31), f.GreaterThan(OFFSET, 28)], lambda row: row["offset"] in {29, 30}, 6),
        ([f.LessThanOrEqual(OFFSET, 29)], lambda row: row["offset"] <= 29, 3),
        ([f.Not(f.EqualTo(PARTITION, 0))], lambda row: row["partition"] != 0, 8),
        ([f.Not(f.In(PARTITION, (0, 1)))], lambda row: row["partition"] == 2, 4),
        ([f.GreaterThanOrEqual(TIME, moment(HOUR_MS * 3))], lambda row: row["offset"] >= 90, 3),
        ([f.LessThan(TIME, moment(HOUR_MS))], lambda row: row["offset"] < 30, 3),
        ([f.EqualTo(TIME, moment(HOUR_MS + 4))], lambda r: (r["partition"], r["offset"]) == (1, 31), 3),
        ([f.EqualTo(KEY, b"3")], lambda row: row["key"] == b"3", 12),
        ([f.EqualTo(KEY, bytearray(b"3"))], lambda row: row["key"] == b"3", 12),
        ([f.In(KEY, (b"3", b"4"))], lambda row: row["key"] in {b"3", b"4"}, 12),
        ([f.Not(f.EqualTo(KEY, b"3"))], lambda row: row["key"] not in {b"3", None}, 12),
        ([f.EqualNullSafe(KEY, b"3")], lambda row: row["key"] == b"3", 12),
        ([f.Not(f.EqualNullSafe(KEY, b"3"))], lambda row: row["key"] != b"3", 12),
        ([f.Not(f.EqualNullSafe(PARTITION, 1))], lambda row: row["partition"] != 1, 8),
        ([f.IsNull(KEY)], lambda row: row["key"] is None, 12),
        ([f.IsNotNull(KEY)], lambda row: row["key"] is not None, 12),
        ([f.IsNull(OFFSET)], lambda _: False, 0),
    ],
)  # fmt: skip
def test_what_filters_exclude_is_not_read(filled, read_bytes, filters, keeps, batches):
    whole = everything(filled)
    assert len(whole) == 360
    assert len(read_bytes) == OF_ALL
    total = sum(read_bytes)
    read_bytes.clear()
    assert pushed(filled, *filters) == [row for row in whole if keeps(row)]
    assert len(read_bytes) == batches
    assert sum(read_bytes) <= total * batches / OF_ALL * 1.05


@pytest.mark.parametrize(
    "filter_",
    [
        f.EqualNullSafe(KEY, None),
        f.Not(f.EqualNullSafe(KEY, None)),
        f.In(PARTITION, (1, None)),
        f.Not(f.In(PARTITION, (1, None))),
        f.GreaterThan(KEY, b"3"),
        f.EqualTo(("value",), b"3"),
        f.EqualTo(("key", "inner"), b"3"),
        f.EqualTo(TIME, datetime(2023, 11, 14, 22, 13, 20)),  # noqa: DTZ001
        f.EqualTo(PARTITION, True),
        f.EqualTo(PARTITION, 2**40),
        f.EqualTo(OFFSET, "3"),
        f.EqualTo(KEY, "3"),
        f.StringStartsWith(("topic",), "x"),
    ],
)
def test_what_is_not_certain_is_left_to_spark(filled, filter_):
    assert pushed(filled, filter_) == everything(filled)


def test_a_filter_that_is_understood_in_part(filled):
    found = pushed(filled, f.EqualTo(PARTITION, 1), f.EqualTo(("value",), b"nothing"))
    assert found == [row for row in everything(filled) if row["partition"] == 1]


def test_key_columns_of_a_topic_with_a_schema(bench):
    with Admin(bench.url) as admin:
        admin.create_topic("src", 2, {"key.columns": "id, day,x"}, schema=TYPED)
    for n in range(6):
        send(bench, "src", TYPED, [n % 3, "a", date(2026, 1, 1 + n % 2), float("nan")])
    columns = {"columns": "id,name,day,x,_partition,_offset,_timestamp,_topic"}
    for filters, keeps in (
        ([f.EqualTo(("id",), 1)], lambda row: row["id"] == 1),
        ([f.EqualTo(("day",), date(2026, 1, 2))], lambda row: row["day"].day == 2),
        ([f.LessThan(("_partition",), 1)], lambda row: row["_partition"] == 0),
        ([f.GreaterThan(("_offset",), 1)], lambda row: row["_offset"] > 1),
        ([f.EqualTo(("_topic",), "no")], lambda _: False),
        ([f.EqualTo(("x",), float("nan"))], lambda _: True),  # Spark's NaN is equal to NaN, Arrow's is not.
        ([f.EqualTo(("name",), "b")], lambda _: True),
    ):  # fmt: skip
        whole = everything(bench, **columns)
        assert len(whole) == 6
        assert repr(pushed(bench, *filters, **columns)) == repr([row for row in whole if keeps(row)])


def test_a_filter_of_the_past(filled):
    seq = filled.state.seq - 1
    found = pushed(filled, f.EqualTo(PARTITION, 1), f.GreaterThan(OFFSET, 40), versionAsOf=str(seq))
    assert [row["offset"] for row in found] == [*range(41, 90)]
    assert found == [row for row in everything(filled) if row["partition"] == 1 and 40 < row["offset"] < 90]


def test_an_end_before_the_filter(filled):
    assert pushed(
        filled, f.GreaterThan(OFFSET, 40), endingOffsets='{"src": {"0": 10, "1": 41, "2": 42}}'
    ) == [row for row in everything(filled) if (row["partition"], row["offset"]) == (2, 41)]


def test_a_second_filter_of_one_load_is_refused(filled):
    given = options_of(filled, filterPushdown="true")

    def reader(load="one"):
        return EosLogPushdownReader(given, source_schema(given), f"{load}-{filled.url}")

    one, two = f.EqualTo(PARTITION, 1), f.EqualTo(PARTITION, 2)
    reader().pushFilters([one, f.IsNotNull(PARTITION)])
    reader().pushFilters([f.IsNotNull(PARTITION), one])
    with pytest.raises(
        ConfigError, match=r"option filterPushdown: this DataFrame was read with the filter .*value=1"
    ):
        reader().pushFilters([two])
    reader("another").pushFilters([two])
    reader("unknown").pushFilters(
        [f.EqualTo(("value",), b"3")]
    )  # All rows of it are read: the other must not be.
    with pytest.raises(ConfigError, match="make another DataFrame"):
        reader("unknown").pushFilters([one])


def test_without_room_for_a_note_nothing_is_left_out(filled, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"SPARK_LOCAL_DIRS.*leave the option out"):
        pushed(filled, f.EqualTo(PARTITION, 1), load="no room")


# -- Columns ---------------------------------------------------------------------------------------------------


def test_columns_are_the_schema_and_all_that_is_read(filled, read_bytes):
    given = options_of(filled, columns="offset, key ,headers")
    assert source_schema(given).names == ["offset", "key", "headers"]
    rows = everything(filled, columns="offset, key ,headers")
    assert [*rows[11]] == ["offset", "key", "headers"]
    assert [row["key"] for row in rows] == [row["key"] for row in everything(filled)]
    read_bytes.clear()
    places = everything(filled, columns="topic,partition,offset,timestampType")
    assert read_bytes == [], "they are in no file"
    assert [(row["partition"], row["offset"]) for row in places] == [
        (partition, offset) for partition in range(3) for offset in range(120)
    ]


def test_columns_of_a_stream(filled, read_bytes):
    given = options_of(filled, streaming=True, columns="value", startingOffsets="earliest")
    source = EosLogStreamReader(given, source_schema(given))
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    first = {**start, **start["@eoslog"]["initial"]}
    found = [
        row
        for task in source.partitions(first, start)
        for batch in source.read(task)
        for row in batch.to_pylist()
    ]
    assert len(found) == 360
    assert found[0] == {"value": b"0"}
    assert len(read_bytes) == OF_ALL


def test_columns_of_topics_that_have_only_these_in_common(bench):
    other = pa.schema([("other", pa.int8()), ("id", pa.int64()), ("x", pa.int32())])
    with Admin(bench.url) as admin:
        admin.create_topic("a", schema=TYPED)
        admin.create_topic("b", schema=other)
    send(bench, "a", TYPED, [1, "n", None, None])
    send(bench, "b", other, [7, 2, 1])
    rows = everything(bench, subscribe="a,b", columns="_topic,id")
    assert rows == [{"_topic": "a", "id": 1}, {"_topic": "b", "id": 2}]
    with pytest.raises(SchemaMismatchError, match="have different columns"):
        everything(bench, subscribe="a,b")
    with pytest.raises(SchemaMismatchError, match=r"different types for option columns=id,x"):
        everything(bench, subscribe="a,b", columns="id,x")
    with pytest.raises(
        ConfigError, match=r"columns names 'naem', which topic 'a' does not have; did you mean name"
    ):
        everything(bench, subscribe="a", columns="id,naem")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"columns": "key,,value"}, "expected names, separated by commas"),
        ({"columns": "key,key"}, "'key' is there twice"),
        ({"columns": "key", "includeHeaders": "true"}, "includeHeaders has no effect"),
        ({"columns": "key", "includeMetadata": "true"}, "includeMetadata has no effect"),
        ({"columns": "Key"}, "did you mean key"),
        ({"columns": "_offset"}, "did you mean offset"),
    ],
)
def test_columns_that_are_refused(filled, options, told):
    with pytest.raises(ConfigError, match=told):
        everything(filled, **options)


def test_columns_stay_when_the_topic_gets_more(bench):
    """The others are no part of the query: nothing of what it reads was dropped."""
    with Admin(bench.url) as admin:
        admin.create_topic("src", schema=TYPED)
        given = options_of(bench, columns="id")
        reader = EosLogBatchReader(given, source_schema(given))
        admin.alter_topic("src", schema=TYPED.append(pa.field("more", pa.int8())))
    assert rows_of(reader) == []


# -- On Spark --------------------------------------------------------------------------------------------------


@pytest.fixture
def pushdown(spark):
    """Spark's setting is on, and its session far from UTC."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set(SETTING, "true")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.unset(SETTING)
    spark.conf.set("spark.sql.session.timeZone", zone)


def load(spark, bench, **options):
    return spark.read.format("eoslog").options(subscribe="src", **options).load(bench.url)


def remove_all_but(bench, kept):
    """Files of batches that a read must not touch."""
    needed = {fetch.file.name for fetch in bench.fetches("src") if kept(fetch)}
    for name in bench.files("src") - needed:
        Log.open(bench.url).store.delete(name)
    assert needed
    assert bench.files("src") == needed


def test_spark_reads_only_what_a_filter_needs(pushdown, filled):
    """The files of all other segments are gone."""
    remove_all_but(filled, lambda fetch: fetch.offset == 60)
    hours = "timestamp >= '2023-11-14 19:13:20' and timestamp < timestamp'2023-11-14 20:13:20'"
    with pytest.raises(PySparkException, match="It is missing: it holds src-"):
        load(pushdown, filled).where(hours).count()
    where = f"{hours} and offset between 60 and 89 and key = X'33' and partition in (0, 1)"
    rows = load(pushdown, filled, filterPushdown="true").where(where).collect()
    assert len(rows) == 6
    assert {row.offset // 30 for row in rows} == {2}
    assert load(pushdown, filled, columns="offset,partition").where("offset > 100").count() == 57


def test_spark_says_which_setting_is_off(spark, filled):
    with pytest.raises(PySparkException, match=SETTING):
        load(spark, filled, filterPushdown="true").count()


def test_two_filters_of_one_dataframe_on_spark(pushdown, filled):
    frame = load(pushdown, filled, filterPushdown="true")
    one = frame.where("partition = 1")
    assert (one.count(), one.select("key").count()) == (120, 120)
    with pytest.raises(
        PySparkException, match="option filterPushdown: this DataFrame was read with the filter"
    ):
        one.union(frame.where("partition = 2")).count()
