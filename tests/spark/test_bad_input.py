"""What users get wrong: an error that names the thing and the remedy, and nothing half written.

Through the classes that Spark calls, all of it; through Spark, which hands the same errors on, one of a kind is quick.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eos.clients.admin import Admin
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from spark_eos.spark.batch.writer import EosLogBatchWriter
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.start import start_query
from spark_eos.spark.topics import source_schema
from tests.starting import run

ROWS = 10


@pytest.fixture
def log(bench):
    """A log with topic ``flights`` of two partitions, `ROWS` rows in all."""
    bench.topic("flights", 2)
    bench.produce("flights", range(ROWS))
    return bench.url


def snapshot(url):
    """All that a log's folder holds, by name and size: what must not change when something is refused."""
    root = Path(url)
    return sorted((str(p.relative_to(root)), p.stat().st_size) for p in root.rglob("*") if p.is_file())


def read(spark, url, **options):
    return spark.read.format("eoslog").options(**options).load(url)


def write(frame, url, **options):
    frame.write.format("eoslog").options(**options).mode("append").save(url)


def in_small_letters(options):
    """Names of options as Spark hands them on."""
    return {name.lower(): value for name, value in options.items()}


def read_alone(url, *, streaming=False, **options):
    """The rows, as tasks hand them to Spark."""
    given = parse_source({"path": url, **in_small_letters(options)}, streaming=streaming)
    reader = EosLogBatchReader(given, source_schema(given))
    return [row for task in reader.partitions() for part in reader.read(task) for row in part.to_pylist()]


def write_alone(table, url, **options):
    """As one task, and the driver after it."""
    writer = EosLogBatchWriter(
        parse_sink({"path": url, **in_small_letters(options)}, streaming=False),
        from_arrow_schema(table.schema),
        overwrite=False,
    )
    writer.commit([writer.write(iter(table.to_batches()))])


def values(spark, url, topic, **options):
    frame = read(spark, url, subscribe=topic, **options)
    return sorted(int(row.value) for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


def stream(spark, url, target, checkpoint, source=None, sink=None):
    """Copy ``flights`` to topic ``copied`` by an AvailableNow query; what it raises is what users see."""
    rows = spark.readStream.format("eoslog").options(
        **{"subscribe": "flights", "startingOffsets": "earliest", **(source or {})}
    )
    writer = rows.load(url).select("key", "value").writeStream.format("eoslog")
    writer = writer.options(**{"topic": "copied", **(sink or {})}).trigger(availableNow=True)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    query = start_query(lambda: writer.start(target))
    try:
        query.awaitTermination()
    finally:
        query.stop()


def refused(call, *parts, error=PySparkException):
    """``call`` raises Spark's error, whose text has all ``parts``."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    for part in parts:
        assert part in text, text[-4000:]
    return text


# -- Reading ---------------------------------------------------------------------------------------------

READS = {
    "nothing to read": ({}, ["give exactly one of subscribe, subscribePattern and assign"]),
    "two selections": (
        {"subscribe": "flights", "subscribePattern": "f.*"},
        ["options subscribe and subscribePattern are given", "give exactly one"],
    ),
    "unknown topic": ({"subscribe": "flight"}, ["has no topic 'flight'", "did you mean 'flights'?"]),
    "bad pattern": ({"subscribePattern": "("}, ["option subscribePattern='('", "a regular expression"]),
    "assign is no JSON": ({"assign": "flights"}, ["option assign='flights'", '{"flights": [0, 1]}']),
    "assign beyond the partitions": (
        {"assign": '{"flights": [2]}'},
        ["assign names partition 2 of topic 'flights'", "0 to 1"],
    ),
    "offsets are no JSON": (
        {"subscribe": "flights", "startingOffsets": "{0"},
        ["option startingOffsets='{0' is not JSON", '{"flights": {"0": 23'],
    ),
    "offsets of another topic": (
        {"subscribe": "flights", "startingOffsets": '{"trains": {"0": 1}}'},
        ["startingOffsets names partition 0 of topic 'trains'", "leave it out, or select it"],
    ),
    "offsets of a partition that is not there": (
        {"subscribe": "flights", "startingOffsets": '{"flights": {"7": 1}}'},
        ["an offset is given for", "7", "which does not exist; this source reads"],
    ),
    "an offset beyond the end": (
        {"subscribe": "flights", "startingOffsets": '{"flights": {"0": 99}}'},
        ["offset 99 of", "is out of range: it has 0 to 5", "failOnDataLoss=false"],
    ),
    "an unknown option": (
        {"subscribe": "flights", "startingOffset": "earliest"},
        ["unknown option 'startingoffset'", "did you mean startingOffsets?"],
    ),
    "Kafka's servers": (
        {"subscribe": "flights", "kafka.bootstrap.servers": "localhost:9092"},
        ["kafka.bootstrap.servers", "there is no broker: the path is the log"],
    ),
    "a sink's option": (
        {"subscribe": "flights", "topic": "flights"},
        ["option topic belongs to", "a source names its topics with subscribe"],
    ),
    "latest as a start of a batch": (
        {"subscribe": "flights", "startingOffsets": "latest"},
        ["option startingOffsets='latest'", "earliest"],
    ),
}


@pytest.mark.parametrize("case", READS)
def test_reads_that_are_refused(log, case):
    options, parts = READS[case]
    before = snapshot(log)
    refused(lambda: read_alone(log, **options), *parts, error=EosLogError)
    assert snapshot(log) == before


@pytest.mark.deep(*READS.keys() - {"unknown topic"})
@pytest.mark.parametrize("case", READS)
def test_reads_that_are_refused_through_spark(spark, log, case):
    options, parts = READS[case]
    before = snapshot(log)
    refused(lambda: read(spark, log, **options).collect(), *parts)
    assert snapshot(log) == before


def test_without_failing_on_data_loss_the_nearest_offset_is_taken(log):
    start = json.dumps({"flights": {"0": 99, "1": -2}})
    rows = read_alone(log, subscribe="flights", startingOffsets=start, failOnDataLoss="false")
    assert [int(row["value"]) for row in rows] == [1, 3, 5, 7, 9]


NO_LOG = "is not a log", "Reading never creates a log; check the path"


@pytest.mark.parametrize("streaming", [False, True])
def test_reading_creates_no_log(tmp_path, streaming):
    url = str(tmp_path / "nothing")
    refused(lambda: read_alone(url, streaming=streaming, subscribe="flights"), *NO_LOG, error=EosLogError)
    assert not Path(url).exists()


@pytest.mark.deep
@pytest.mark.parametrize("streaming", [False, True])
def test_reading_creates_no_log_through_spark(spark, tmp_path, streaming):
    url = str(tmp_path / "nothing")
    reader = spark.readStream if streaming else spark.read
    refused(
        lambda: reader.format("eoslog").option("subscribe", "flights").load(url).isStreaming,
        *NO_LOG,
    )
    assert not Path(url).exists()


def test_a_folder_of_other_files_is_no_log(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "holiday.jpg").write_bytes(b"x")
    refused(lambda: read_alone(str(folder), subscribe="flights"), f"{folder} is not a log", error=EosLogError)
    refused(
        lambda: write_alone(pa.table({"value": ["0"]}), str(folder), topic="flights"),
        "is not a log and not empty", "holiday.jpg", "Choose an empty or new folder", error=EosLogError,
    )  # fmt: skip
    assert [path.name for path in folder.iterdir()] == ["holiday.jpg"]


@pytest.mark.deep
def test_topics_of_different_columns_are_not_one_source(spark, log):
    write(spark.range(3).withColumnRenamed("id", "number"), log, topic="numbers")
    before = snapshot(log)
    refused(
        lambda: read(spark, log, subscribe="flights,numbers"),
        "topics 'flights' and 'numbers' have different columns", "read each with its own",
    )  # fmt: skip
    assert snapshot(log) == before


# -- What is stored is not what was written ---------------------------------------------------------------


def entry_files(url):
    return sorted(Path(url, "_log").glob("*.avro"))


def data_files(url):
    return sorted(Path(url, "data").rglob("*.arrow"))


def altered(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.chmod(0o644)
    path.write_bytes(bytes(data))


def position_of_data(url):
    state = Log.open(url).state
    partition = state.partitions[state.topics["flights"].topic_id, 0]
    return next(
        row.batch.position
        for row in (partition.index.tail[i] for i in range(len(partition.index.tail)))
        if row.batch
    )


@pytest.mark.deep
def test_a_newer_log_is_refused_for_reading_and_writing(spark, log):
    last = entry_files(log)[-1]
    data = bytearray(last.read_bytes())
    data[6:8] = (99).to_bytes(2, "big")
    last.chmod(0o644)
    last.write_bytes(bytes(data))
    before = snapshot(log)
    parts = (last.name, "has format version 99", "upgrade it")
    refused(lambda: read(spark, log, subscribe="flights").collect(), *parts)
    refused(lambda: write(spark.range(1).selectExpr("'x' AS value"), log, topic="flights"), *parts)
    assert snapshot(log) == before


@pytest.mark.deep
def test_an_altered_entry_is_named(spark, log):
    last = entry_files(log)[-1]
    altered(last, -1)
    before = snapshot(log)
    parts = (last.name, "is damaged", "CRC32C")
    refused(lambda: read(spark, log, subscribe="flights").collect(), *parts)
    refused(lambda: write(spark.range(1).selectExpr("'x' AS value"), log, topic="flights"), *parts)
    assert snapshot(log) == before


@pytest.mark.deep
def test_an_altered_data_file_is_named(spark, log):
    (file,) = data_files(log)
    altered(file, position_of_data(log) + 100)
    refused(
        lambda: read(spark, log, subscribe="flights").collect(),
        file.name, "flights", "CRC32C is", "restore the file from a backup",
    )  # fmt: skip


@pytest.mark.deep
def test_a_data_file_that_was_cut_off_is_named(spark, log):
    (file,) = data_files(log)
    file.chmod(0o644)
    os.truncate(file, position_of_data(log) + 10)
    refused(lambda: read(spark, log, subscribe="flights").collect(), file.name, "bytes are there", "restore")


@pytest.mark.deep
def test_a_data_file_that_is_gone_is_named(spark, log):
    (file,) = data_files(log)
    file.unlink()
    told = [file.name, "It is missing: it holds flights-0, offset", "Put it back from a backup"]
    refused(lambda: read(spark, log, subscribe="flights").collect(), *told)


# -- Writing ---------------------------------------------------------------------------------------------

VALUE = "CAST(id AS STRING) AS value"
NUMBERS = pa.array(range(5))
TEXTS = {"value": NUMBERS.cast(pa.string())}
WRITES = {
    "no topic": (TEXTS, {}, ["no topic: name it with option('topic', ...)"]),
    "no value": (
        {"key": NUMBERS.cast(pa.string())},
        {"topic": "flights"},
        ["Required attribute 'value' not found", "the frame has key"],
    ),
    "a column too many": (
        {**TEXTS, "number": NUMBERS},
        {"topic": "flights"},
        ["a Kafka-shaped topic has no column 'number'", "drop it"],
    ),
    "a column of the wrong type": (
        {"value": NUMBERS},
        {"topic": "flights"},
        ["column 'value' is int64", "cast it to string or binary"],
    ),
    "a partition that is not there": (
        {**TEXTS, "partition": pa.array(range(1, 6), pa.int32())},
        {"topic": "flights"},
        ["topic 'flights': there is no partition 5", "0 to 1", "leave that column out"],
    ),
    "a negative partition": (
        {**TEXTS, "partition": pa.array([-1] * 5, pa.int32())},
        {"topic": "flights"},
        ["topic 'flights': there is no partition -1", "0 to 1"],
    ),
    "a null in the topic column": (
        {**TEXTS, "topic": ["flights", "flights", "flights", None, "flights"]},
        {},
        ["a row has no topic", "Fill it, or name one topic"],
    ),
    "an illegal name": (TEXTS, {"topic": "fly/away"}, ["fly/away"]),
    "an unknown option": (
        TEXTS,
        {"topic": "flights", "transactionalid": "me"},
        ["unknown option 'transactionalid'", "did you mean transactional.id?"],
    ),
    "Kafka's servers": (
        TEXTS,
        {"topic": "flights", "kafka.bootstrap.servers": "localhost:9092"},
        ["there is no broker: the path is the log"],
    ),
    "a topic that may not be created": (
        TEXTS,
        {"topic": "trains", "auto.create.topics.enable": "false"},
        ["has no topic 'trains'", "auto.create.topics.enable", "Admin.create_topic"],
    ),
    "a source's option": (TEXTS, {"subscribe": "flights"}, ["option subscribe belongs to spark.read"]),
    "a bad number": (
        TEXTS,
        {"topic": "flights", "num.partitions": "many"},
        ["option num.partitions='many'", "a whole number"],
    ),
}


def frame_of(spark, columns):
    """In one task."""
    return spark.createDataFrame(pa.table(columns)).coalesce(1)


@pytest.mark.parametrize("case", WRITES)
def test_writes_that_are_refused(log, case):
    columns, options, parts = WRITES[case]
    before = snapshot(log)
    refused(lambda: write_alone(pa.table(columns), log, **options), *parts, error=EosLogError)
    assert snapshot(log) == before


@pytest.mark.deep(*WRITES.keys() - {"no value"})
@pytest.mark.parametrize("case", WRITES)
def test_writes_that_are_refused_through_spark(spark, log, case):
    columns, options, parts = WRITES[case]
    before = snapshot(log)
    refused(lambda: write(frame_of(spark, columns), log, **options), *parts)
    assert snapshot(log) == before


OF_NO_LOG = pytest.mark.parametrize(
    "case", ["no topic", "no value", "an illegal name", "a source's option", "a bad number"]
)


@OF_NO_LOG
def test_a_refused_write_creates_no_log(tmp_path, case):
    columns, options, parts = WRITES[case]
    url = tmp_path / "new"
    refused(lambda: write_alone(pa.table(columns), str(url), **options), *parts, error=EosLogError)
    assert not url.exists()


@pytest.mark.deep
@OF_NO_LOG
def test_a_refused_write_creates_no_log_through_spark(spark, tmp_path, case):
    columns, options, parts = WRITES[case]
    url = tmp_path / "new"
    refused(lambda: write(frame_of(spark, columns), str(url), **options), *parts)
    assert not url.exists()


@pytest.mark.deep
def test_the_default_save_mode_and_partition_by_are_sparks_own_errors(spark, log):
    frame = spark.range(5).selectExpr(VALUE)
    before = snapshot(log)
    refused(
        lambda: frame.write.format("eoslog").option("topic", "flights").save(log), "eoslog", "ErrorIfExists"
    )
    refused(
        lambda: (
            frame.write.format("eoslog")
            .option("topic", "flights")
            .partitionBy("value")
            .mode("append")
            .save(log)
        ),
        "partition",
    )
    assert snapshot(log) == before


def test_one_bad_row_among_good_ones_writes_nothing(spark, log):
    frame = spark.range(0, 1000, 1, 2).selectExpr(VALUE, "CAST(IF(id = 777, 5, 0) AS INT) AS partition")
    before = snapshot(log)
    refused(lambda: write(frame, log, topic="flights"), "partition 5")
    assert len(entry_files(log)) == sum(name.startswith("_log/") for name, _ in before)
    assert values(spark, log, "flights") == list(range(ROWS))


# -- Topics with a schema ----------------------------------------------------------------------------------

STRICT = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("delay", pa.int32())])


OF_STRICT = {
    "a column is missing": (
        {"delay": NUMBERS.cast(pa.int32())},
        ["column 'id' (int64) is missing", "add it"],
    ),
    "a null": (
        {"id": pa.array([0, 1, 2, None, 4])},
        ["column 'id'", "is not nullable", "row 3"],
    ),
    "another type": (
        {"id": NUMBERS, "delay": NUMBERS.cast(pa.string())},
        ["column 'delay' is string, topic", "has int32; cast it"],
    ),
    "another name": ({"id": NUMBERS, "delays": NUMBERS}, ["has no column 'delays'", "drop it, or add it"]),
    "another case": ({"ID": NUMBERS}, ["rename"]),
}


@pytest.mark.parametrize("case", OF_STRICT)
def test_frames_that_do_not_fit_the_schema(log_url, case):
    columns, parts = OF_STRICT[case]
    Admin(log_url).create_topic("typed", schema=STRICT)
    before = snapshot(log_url)
    refused(lambda: write_alone(pa.table(columns), log_url, topic="typed"), *parts, error=EosLogError)
    assert snapshot(log_url) == before


@pytest.mark.deep(*OF_STRICT.keys() - {"a column is missing"})
@pytest.mark.parametrize("case", OF_STRICT)
def test_frames_that_do_not_fit_the_schema_through_spark(spark, log_url, case):
    columns, parts = OF_STRICT[case]
    Admin(log_url).create_topic("typed", schema=STRICT)
    before = snapshot(log_url)
    refused(lambda: write(frame_of(spark, columns), log_url, topic="typed"), *parts)
    assert snapshot(log_url) == before


# -- Streams -----------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_update_mode_is_refused_by_spark(spark, log, tmp_path):
    rows = spark.readStream.format("eoslog").option("subscribe", "flights").load(log)
    counted = rows.groupBy(F.col("key")).agg(F.max("value").alias("value"))
    writer = counted.writeStream.format("eoslog").option("topic", "counts").outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    before = snapshot(log)

    def run():
        query = start_query(lambda: writer.start(log))
        try:
            query.awaitTermination()
        finally:
            query.stop()

    refused(run, "eoslog does not support Update mode")  # So docs/guide/troubleshooting.md says.
    assert snapshot(log) == before


@pytest.mark.deep
def test_no_checkpoint_location(spark, log):
    before = snapshot(log)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(Path(log).parent / "elsewhere"))
    try:
        refused(
            lambda: stream(spark, log, log, None),
            "option('checkpointLocation', ...)", "spark.sql.streaming.checkpointLocation", "at_least_once",
        )  # fmt: skip
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert snapshot(log) == before


@pytest.mark.deep
def test_a_stream_of_an_unknown_topic(spark, log, tmp_path):
    before = snapshot(log)
    refused(
        lambda: stream(spark, log, log, tmp_path / "c", {"subscribe": "flight"}), "did you mean 'flights'?"
    )
    assert snapshot(log) == before
    assert not (tmp_path / "c").exists()


@pytest.mark.deep
def test_a_checkpoint_of_another_log(spark, log, tmp_path):
    checkpoint, other = tmp_path / "c", str(tmp_path / "other")
    stream(spark, log, log, checkpoint)
    write(spark.range(3).selectExpr(VALUE), other, topic="flights")
    before = snapshot(other)
    refused(
        lambda: stream(spark, other, other, checkpoint),
        "the checkpoint belongs to log", "Use the right path, or a new checkpoint",
    )  # fmt: skip
    assert snapshot(other) == before


@pytest.mark.deep
def test_a_topic_that_was_created_again(spark, log, tmp_path):
    checkpoint = tmp_path / "c"
    stream(spark, log, log, checkpoint)
    Admin(log).delete_topic("flights")
    write(spark.range(3).selectExpr(VALUE), log, topic="flights")
    refused(
        lambda: stream(spark, log, log, checkpoint),
        "topic 'flights' was deleted and created again", "Start from a new checkpoint",
    )  # fmt: skip
    assert values(spark, log, "copied") == list(range(ROWS))


@pytest.mark.deep
def test_a_new_checkpoint_under_the_same_id_is_refused(spark, log, tmp_path):
    sink = {"transactional.id": "copier"}
    stream(spark, log, log, tmp_path / "one", sink=sink)
    refused(lambda: stream(spark, log, log, tmp_path / "two", sink=sink), "CheckpointMismatchError", "copier")
    assert values(spark, log, "copied") == list(range(ROWS))


@pytest.mark.deep
def test_a_new_checkpoint_for_a_source_of_another_format_is_refused(spark, log, tmp_path):
    """A table's or folder's position has no meaning to the log, but it knows what was committed with the id."""
    spark.range(3).selectExpr(VALUE).write.json(str(tmp_path / "json"))

    def copy(checkpoint):
        rows = spark.readStream.schema("value STRING").json(str(tmp_path / "json"))
        writer = (
            rows.writeStream.format("eoslog").option("topic", "copied").option("transactional.id", "copier")
        )
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        start_query(lambda: writer.start(log)).awaitTermination()

    copy("one")
    refused(lambda: copy("two"), "CheckpointMismatchError", "copier")
    assert values(spark, log, "copied") == [0, 1, 2]


@pytest.mark.deep
def test_records_that_retention_removed(spark, log, tmp_path):
    from spark_eos.protocol.types import TopicPartition

    checkpoint = tmp_path / "c"
    stream(spark, log, log, checkpoint)
    write(spark.range(10, 20).selectExpr(VALUE, "0 AS partition"), log, topic="flights")
    Admin(log).delete_records({TopicPartition("flights", 0): 10})
    refused(lambda: stream(spark, log, log, checkpoint), "are gone", "failOnDataLoss=false")
    assert values(spark, log, "copied") == list(range(ROWS))
    stream(spark, log, log, checkpoint, {"failOnDataLoss": "false"})
    assert values(spark, log, "copied") == [*range(ROWS), *range(15, 20)]


@pytest.mark.deep
def test_partition_by_of_a_stream_is_ignored_by_spark(spark, log, tmp_path):
    """Spark drops it before a sink could see it: the rows are all there, and that is all that can be said."""
    rows = (
        spark.readStream.format("eoslog").option("subscribe", "flights").option("startingOffsets", "earliest")
    )
    writer = rows.load(log).select("key", "value").writeStream.format("eoslog").partitionBy("key")
    writer = writer.option("topic", "copied").option("checkpointLocation", str(tmp_path / "c"))
    start_query(lambda: writer.trigger(availableNow=True).start(log)).awaitTermination()
    assert values(spark, log, "copied") == list(range(ROWS))


# -- Disks -------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """A file system of one megabyte, and how to mount it read-only."""
    place = tmp_path / "disk"
    place.mkdir()
    command = shutil.which("mount")
    if command is None or sys.platform != "linux":
        pytest.skip("needs Linux and its mount")
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    mount = [*sudo, command, "-t", "tmpfs", "-o", f"size=1m,mode=777,uid={os.geteuid()}", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.strip()}")

    def remount(how):
        subprocess.run([*sudo, command, "-o", f"remount,{how}", str(place)], check=True)

    yield place, remount
    subprocess.run([*sudo, "umount", "-l", str(place)], check=True)


_DIGITS = "concat_ws('', transform(sequence(0, 9), i -> sha2(CAST(10 * id + i AS STRING), 512))) AS value"
"""Which no codec makes much smaller."""


@pytest.mark.deep
def test_a_full_disk(spark, disk):
    place, _ = disk
    url = str(place / "log")
    write(spark.range(5).selectExpr(VALUE), url, topic="flights")
    large = spark.range(0, 4000, 1, 1).selectExpr(_DIGITS)
    before = snapshot(url)
    refused(lambda: write(large, url, topic="flights"), "StoreFullError", "Free space", url)
    assert snapshot(url) == before
    assert values(spark, url, "flights") == list(range(5))
    write(spark.range(5, 7).selectExpr(VALUE), url, topic="flights")
    assert values(spark, url, "flights") == list(range(7))


@pytest.mark.deep
def test_a_read_only_disk(spark, disk):
    place, remount = disk
    url = str(place / "log")
    write(spark.range(5).selectExpr(VALUE), url, topic="flights")
    remount("ro")
    try:
        before = snapshot(url)
        refused(
            lambda: write(spark.range(5).selectExpr(VALUE), url, topic="flights"),
            "StorePermissionError", "Mount the file system writable",
        )  # fmt: skip
        refused(
            lambda: write(spark.range(5).selectExpr(VALUE), str(place / "new"), topic="flights"),
            "StorePermissionError", "Mount the file system writable",
        )  # fmt: skip
        assert snapshot(url) == before
        assert values(spark, url, "flights") == list(range(5))
    finally:
        remount("rw")


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not")
def test_a_missing_permission(log):
    """As another user than root, which is denied nothing; Spark's process is root's, so without Spark."""
    Path(log).chmod(0o700)
    before = snapshot(log)
    done = run("spark/uses_a_log_without_rights", log)
    said = done.stdout.splitlines()
    assert len(said) == 2, (done.stdout, done.stderr[-2000:])
    for line in said:
        assert line.startswith("StorePermissionError")
        assert "Give this process's user the right" in line
    assert snapshot(log) == before
