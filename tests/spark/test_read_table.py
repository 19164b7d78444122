"""`read_table` on real Spark: the rows of the source, whatever is sealed, at one moment."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from spark_eos import Admin, Log, Producer, read_table
from spark_eos.errors import ConfigError, UnknownTopicOrPartitionError
from spark_eos.protocol.state import State
from spark_eos.spark import table
from spark_eos.spark.sink.commit import truncation
from tests.sealing import seal

NESTED = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        ("a b,`c.d", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("by", pa.map_(pa.string(), pa.int64())),
        ("in", pa.struct([("x", pa.float64()), ("raw", pa.binary())])),
    ]
)
OLD = datetime(1500, 3, 1, 7, tzinfo=timezone.utc)


def nested(n):
    """A row: dates before 1582 among them, which Spark could take for those of another calendar."""
    return {
        "n": n,
        "a b,`c.d": None if n % 3 else f"t{n}",
        "price": None,
        "day": date(1000 + n, 2, 28),
        "at": OLD.replace(day=1 + n % 20),
        "local": OLD.replace(tzinfo=None),
        "tags": [None, "a"][: n % 3],
        "by": [("k", n)],
        "in": {"x": n / 2, "raw": b"\0"},
    }


@pytest.fixture
def typed(tmp_path):
    """A log in a folder with an awkward name, and a topic of 60 rows: two sealed files, and rows that are not."""
    url = str(tmp_path / "env=prod [a] {b}%20" / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 1, schema=NESTED)
        for first in range(0, 60, 10):
            rows = pa.Table.from_pylist([nested(n) for n in range(first, first + 10)], schema=NESTED)
            producer.send_arrow("t", rows).result(timeout=60)
    seal(Log.shared(url), "t", 15, 50, group=10)
    return url


@pytest.fixture
def sealed(tmp_path):
    """Makes a log with a topic of these rows, of which the first ones are sealed."""

    def make(schema, rows, end, **settings):
        url = str(tmp_path / "log")
        with Admin(url) as admin, Producer(url) as producer:
            admin.create_topic("t", 1, schema=schema)
            for part in (rows[:end], rows[end:]):
                if part:
                    table = pa.Table.from_pylist(part, schema=schema)
                    producer.send_arrow("t", table).result(timeout=60)
        seal(Log.shared(url), "t", end, **settings)
        return url

    return make


@pytest.fixture
def session(spark):
    """Sets what the session says, until the end of the test."""
    names = set()

    def say(**settings):
        for name, value in settings.items():
            names.add("spark.sql." + name.replace("_", "."))
            spark.conf.set("spark.sql." + name.replace("_", "."), value)

    yield say
    for name in names:
        spark.conf.unset(name)


def source(spark, url, topic="t", **options):
    return spark.read.format("eoslog").options(path=url, subscribe=topic, **options).load()


def same(found, wanted):
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in wanted.schema
    ]
    assert all(field.nullable for field in found.schema)
    assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))


def scans(frame):
    """How Spark would read it: from Parquet files, by the Python source, or both."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return "parquet" in plan, "eoslog" in plan


@pytest.mark.deep
def test_typed_rows_in_hostile_settings(spark, typed):
    """The session says that missing files are passed over and dates are of the old calendar. This read says not."""
    said = {
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    }
    for name, value in said.items():
        spark.conf.set(name, value)
    try:
        found = read_table(spark, typed, "t", options={"includeMetadata": "true"})
        assert scans(found) == (True, True)
        same(found, source(spark, typed, includeMetadata="true"))
        gone = read_table(spark, typed, "t")
        for path in Path(typed).glob("tables/*/_segments/0/*.parquet"):
            path.unlink()
        with pytest.raises(Exception, match=r"(?s)_segments.*parquet.*(does not exist|not.exist)"):
            gone.collect()
    finally:
        for name in said:
            spark.conf.unset(name)


def test_what_waits_in_one_topic_waits_in_both(spark, tmp_path):
    """A is open in orders-0. B has committed a row behind it, and one in payments-0, of which all is sealed."""
    url = str(tmp_path / "log")
    with Admin(url) as admin:
        admin.create_topic("orders", 1)
        admin.create_topic("payments", 1, config={"segment.format": "parquet"})
    a, b = Producer(url, {"transactional.id": "a"}), Producer(url, {"transactional.id": "b"})
    with Producer(url) as alone:
        alone.send("payments", b"before").result(timeout=60)
    for producer, topics in ((a, ["orders"]), (b, ["orders", "payments"])):
        producer.init_transactions()
        producer.begin_transaction()
        for topic in topics:
            producer.send(topic, topic.encode(), partition=0)
        producer.flush()
    b.commit_transaction()
    seal(Log.shared(url), "payments", 2, group=10)
    seq = Log.shared(url).follow().seq

    def seen(**given):
        found = [read_table(spark, url, topic, **given) for topic in ("orders", "payments")]
        return [sorted(bytes(row.value) for row in rows.collect()) for rows in found]

    assert seen() == [[], [b"before", b"payments"]]
    assert seen(whole_transactions=True) == [[], [b"before"]]
    both = source(spark, url, "orders,payments", wholeTransactions="true")
    assert [bytes(row.value) for row in both.collect()] == [b"before"]
    a.commit_transaction()
    assert seen(whole_transactions=True) == [[b"orders", b"orders"], [b"before", b"payments"]]
    assert seen(whole_transactions=True, as_of=seq) == [[], [b"before"]]


def test_columns_and_filters_reach_the_files(spark, typed):
    found = read_table(spark, typed, "t", columns=["_offset", "n", "_topic"])
    same(found, source(spark, typed, columns="_offset,n,_topic"))
    plan = found.select("n").filter("_offset < 12 and n > 3")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<_offset:bigint,n:int>" in plan
    assert "PushedFilters: [IsNotNull(_offset), IsNotNull(n), LessThan(_offset,12), GreaterThan(n,3)]" in plan


def test_one_moment(spark, typed):
    """What comes later is in no part of a frame that was made before, nor in one as of that entry."""
    entry = Log.shared(typed).follow().seq
    before = read_table(spark, typed, "t", columns=["n"])
    with Producer(typed) as producer:
        producer.send_arrow("t", pa.Table.from_pylist([nested(60)], schema=NESTED)).result(timeout=60)
    seal(Log.shared(typed), "t", 61)
    assert sorted(row.n for row in before.collect()) == [*range(60)]
    assert sorted(row.n for row in read_table(spark, typed, "t", as_of=entry).collect()) == [*range(60)]
    now = read_table(spark, typed, "t", columns=["n"])
    assert scans(now) == (True, False)
    assert sorted(row.n for row in now.collect()) == [*range(61)]


@pytest.mark.deep("0")
@pytest.mark.parametrize("end", [0, 15, 60])
def test_a_topic_that_is_created_again(spark, tmp_path, end):
    """Its records are none of those that were there at the call, though they have the same offsets."""
    url = str(tmp_path / "log")
    schema = pa.schema([("n", pa.int64())])

    def write(first):
        with Admin(url) as admin, Producer(url) as producer:
            admin.create_topic("t", 1, schema=schema)
            rows = pa.table({"n": range(first, first + 60)}, schema=schema)
            for at in range(0, 60, 15):
                producer.send_arrow("t", rows.slice(at, 15)).result(timeout=60)

    write(0)
    if end:
        seal(Log.shared(url), "t", end)
    before = read_table(spark, url, "t")
    with Admin(url) as admin:
        admin.delete_topic("t")
    write(1000)
    if end == 60:
        assert sorted(row.n for row in before.collect()) == [*range(60)]
    else:
        with pytest.raises(
            Exception, match="topic 't' was deleted and created again since this read was planned"
        ):
            before.collect()
    assert sorted(row.n for row in read_table(spark, url, "t").collect()) == [*range(1000, 1060)]


@pytest.mark.deep
def test_a_topic_that_is_compacted_by_now(spark, tmp_path):
    """Records of the plan may be gone, and no read of these offsets would say so."""
    url = str(tmp_path / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 1)
        for number in range(4):
            producer.send("t", b"%d" % number, key=b"k").result(timeout=60)
        before = read_table(spark, url, "t")
        admin.alter_topic("t", config={"cleanup.policy": "compact"})
    with pytest.raises(Exception, match="topic 't' is compacted by now"):
        before.collect()
    assert read_table(spark, url, "t").count() == 4


def test_zeros_and_nan(spark, sealed):
    """-0.0 equals 0.0, and NaN is the greatest number, also where only one of them is in a row group."""
    schema = pa.schema([("n", pa.int32()), ("x", pa.float64()), ("in", pa.struct([("y", pa.float32())]))])
    values = [-0.0] * 3 + [0.0] * 3 + [float("nan")] * 3 + [1.0, None, float("-inf")]
    rows = [{"n": n, "x": value, "in": {"y": value}} for n, value in enumerate(values)]
    url = sealed(schema, rows, 12, group=3)
    found, wanted = read_table(spark, url, "t"), source(spark, url)
    assert scans(found) == (True, False)
    for condition in ("x = 0", "x >= 0", "x in (0.0D, 1.0D)", "x = 'NaN'", "x > 1", "in.y = 0"):
        same(found.filter(condition), wanted.filter(condition))


@pytest.mark.deep
def test_aggregates_from_the_files_bounds(spark, sealed, session):
    """Of files with other columns than those that are read, in a session that takes aggregates from bounds."""
    session(sources_useV1SourceList="", parquet_aggregatePushdown="true")
    schema = pa.schema(
        [("in", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("n", pa.int64()), ("m", pa.int64())]
    )
    url = sealed(schema, [{"in": {"x": -n, "y": -n}, "n": n, "m": 1000 + n} for n in range(20)], 20)
    for columns in (["n", "_offset"], ["m", "n"], ["in", "n", "m", "_offset", "_timestamp"]):
        found = read_table(spark, url, "t", columns=columns)
        assert scans(found) == (True, False)
        for name in {"n", "m", "_offset"} & {*columns}:
            row = found.selectExpr(f"min({name})", f"max({name})", f"count({name})", "count(*)").collect()[0]
            assert [*row] == ([1000, 1019, 20, 20] if name == "m" else [0, 19, 20, 20])


@pytest.mark.deep
def test_ids_of_fields(spark, tmp_path, session):
    """A session may look for columns by their ids: ours have none in the files."""
    session(parquet_fieldId_read_enabled="true", parquet_fieldId_read_ignoreMissing="true")
    url = str(tmp_path / "log")
    inner = StructType([StructField("x", IntegerType(), True, {"parquet.field.id": 2})])
    outer = StructField("a", IntegerType(), True, {"parquet.field.id": 1, "comment": "one"})
    rows = spark.createDataFrame([(1, (2,))], StructType([outer, StructField("in", inner)]))
    for _ in range(2):
        rows.write.format("eoslog").option("topic", "t").mode("append").save(url)
    seal(Log.shared(url), "t", 1)
    found = read_table(spark, url, "t")
    assert scans(found) == (True, True)
    same(found.select("a", "in.x"), source(spark, url).select("a", "in.x"))
    assert found.schema["a"].metadata == {"parquet.field.id": 1, "comment": "one"}


def test_names_inside_that_differ_in_case_alone(spark, sealed, monkeypatch):
    """No topic gets such names any more; one of an earlier version may have them."""
    monkeypatch.setattr("spark_eos.log.data.schema_limits._check_names", lambda *_: None)
    schema = pa.schema([("n", pa.int32()), ("in", pa.struct([("x", pa.int32()), ("X", pa.int32())]))])
    url = sealed(schema, [{"n": n, "in": {"x": n, "X": -n}} for n in range(4)], 2)
    found = read_table(spark, url, "t")
    assert scans(found) == (False, True)
    same(found, source(spark, url))


def test_kafka_shaped_rows(spark, bench):
    bench.topic("src", 2)
    bench.produce("src", range(20))
    bench.produce("src", range(20, 40))
    seal(bench.log, "src", 10, 20)
    seal(bench.log, "src", 20, partition=1)
    bench.produce("src", range(40, 44))
    same(read_table(spark, bench.url, "src"), source(spark, bench.url, "src"))
    headers = {"includeHeaders": "true"}
    same(read_table(spark, bench.url, "src", options=headers), source(spark, bench.url, "src", **headers))
    bench.log.commit(lambda state: truncation(state, "src"))
    empty = read_table(spark, bench.url, "src")
    assert empty.collect() == []
    assert empty.columns == source(spark, bench.url, "src").columns


def test_types_of_spark_alone_are_read_by_eoslog(spark, tmp_path):
    url = str(tmp_path / "log")
    rows = spark.sql("SELECT CAST('ab' AS CHAR(4)) AS c, INTERVAL '3' DAY AS i, 1 AS n")
    rows.write.format("eoslog").option("topic", "t").mode("append").save(url)
    seal(Log.shared(url), "t", 1)
    found = read_table(spark, url, "t")
    assert scans(found) == (False, True)
    same(found, source(spark, url))
    narrow = read_table(spark, url, "t", columns=["n"])
    assert scans(narrow) == (True, False)
    assert narrow.collect()[0].n == 1


def test_a_damaged_page_is_an_error(spark, typed):
    """Spark checks the pages' own checksums, although a session's settings may say that it does not."""
    (path, *_) = sorted(Path(typed).glob("tables/*/_segments/0/*.parquet"))
    data = bytearray(path.read_bytes())
    frame = read_table(spark, typed, "t", columns=["n"])
    at = data.index(b"PAR1", 4) - 1 if data.count(b"PAR1") > 2 else 60
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"(?s)(checksum|CRC|_segments)"):
        frame.collect()


def test_what_does_not_fit(spark, typed):
    with pytest.raises(ConfigError, match="read_table: option startingOffsets does not fit"):
        read_table(spark, typed, "t", options={"startingOffsets": "earliest"})
    with pytest.raises(ConfigError, match="read_table: columns='n'; expected a list"):
        read_table(spark, typed, "t", columns="n")
    for name in ("a b,`c.d", " n"):
        with pytest.raises(ConfigError, match=f"read_table: columns has '{name}': names with a comma"):
            read_table(spark, typed, "t", columns=[name])
    with pytest.raises(ConfigError, match="names 'm', which topic 't' does not have"):
        read_table(spark, typed, "t", columns=["m"])
    with pytest.raises(UnknownTopicOrPartitionError, match="has no topic 'u'"):
        read_table(spark, typed, "u")


def test_a_store_for_which_spark_has_no_jar(spark, typed, monkeypatch, caplog):
    monkeypatch.setattr(table, "_location", lambda _: "s3a://bucket")
    monkeypatch.setattr(table, "is_object_store", lambda _: True)
    found = read_table(spark, typed, "t", columns=["n"])
    assert "hadoop-aws" in caplog.text
    assert sorted(row.n for row in found.collect()) == [*range(60)]


def test_what_hadoop_is_told_of_a_store():
    """An endpoint of one's own: as HTTP where it is that, and with the bucket in the path."""
    read = SimpleNamespace(log=SimpleNamespace(state=State()))
    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c"}
    at_amazon = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b", "fs.s3a.session.token": "c"}
    assert table._of_hadoop(read, {**keys, "topic": "t"}) == at_amazon
    for endpoint, is_encrypted in (("http://host:9000", "false"), ("https://host:9000", "true")):
        assert table._of_hadoop(read, {**keys, "s3.endpoint": endpoint, "s3.region": "r"}) == {
            **at_amazon,
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.endpoint.region": "r",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": is_encrypted,
        }
    assert [
        table._location(url) for url in ("s3://b/l", "gs://b/l", "abfss://c@a/l", "/data/l", "memory://l")
    ] == [
        "s3a://b/l",
        "gs://b/l",
        "abfss://c@a/l",
        "file:///data/l",
        None,
    ]
