"""A log with its entries on one server and its data files on another: streams, tables, and what users are told."""

from __future__ import annotations

import uuid

import pytest
from pyspark.errors import PySparkException

from spark_eos import Admin, Log, Producer
from spark_eos.spark.start import start_query
from spark_eos.spark.table import read_table
from spark_eos.storage import Settings, open_store
from verification.cloud_servers import MINIO, installed, minio

ROWS = 60


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    if installed(MINIO) is None:
        pytest.skip("MinIO is not here: scripts/servers installs it")
    with minio(tmp_path_factory.mktemp("other"), "other") as server:
        yield server


@pytest.fixture
def place(minio_server, other):
    """The URL of a log that is not there yet, the options of both servers, and where the data is to be."""
    name = uuid.uuid4().hex
    own = {f"data.{key}": value for key, value in other.settings.items()}
    return f"{minio_server.url}/{name}/log", {**minio_server.settings, **own}, f"{other.url}/{name}"


def values(frame):
    return sorted(int(row.value) for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


@pytest.mark.deep
def test_batches_streams_and_tables(spark, place, minio_server, other, tmp_path):
    url, options, data = place
    frame = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value").repartition(2)
    # The sink makes the log, and the option counts there alone.
    frame.write.format("eoslog").options(**options, topic="in").option("data.url", data).mode("append").save(
        url
    )
    assert Admin(url, options).describe_log().data_url == data
    source = spark.readStream.format("eoslog").options(**options, subscribe="in", startingOffsets="earliest")
    for _ in range(2):  # The second run finds everything done.
        writer = source.load(url).select("key", "value").writeStream.format("eoslog")
        writer = writer.options(**options, topic="out", checkpointLocation=str(tmp_path / "cp"))
        start_query(lambda: writer.trigger(availableNow=True).start(url)).awaitTermination()  # noqa: B023
    for topic in ("in", "out"):
        assert values(spark.read.format("eoslog").options(**options, subscribe=topic).load(url)) == [
            *range(ROWS)
        ]
        assert values(read_table(spark, url, topic, options=options)) == [*range(ROWS)]
    chain = {info.name for info in open_store(url, minio_server.settings).list("")}
    files = {info.name for info in open_store(data, other.settings).list("")}
    assert not [name for name in chain if name.startswith(("data/", "tables/"))]
    assert len([name for name in files if name.startswith("data/")]) >= 2


def test_the_place_of_the_data_is_named_if_it_does_not_answer(spark, place):
    url, options, data = place
    Admin(url, {**options, "data.url": data}).create_topic("in")
    with Producer(url, options) as producer:
        producer.send("in", b"1").result()
    wrong = {**options, "data.s3.secret-access-key": "not-the-secret"}
    with pytest.raises(PySparkException, match=data):
        spark.read.format("eoslog").options(**wrong, subscribe="in").load(url).collect()
    before = Log.open(url, settings=Settings(options)).state.seq
    frame = spark.sql("SELECT '2' AS value")
    with pytest.raises(PySparkException, match=data) as caught:
        frame.write.format("eoslog").options(**wrong, topic="in").mode("append").save(url)
    assert "not-the-secret" not in str(caught.value)
    assert Log.open(url, settings=Settings(options)).state.seq == before


class StopError(Exception):
    """Ends a move at a step; the next one goes on there."""


@pytest.mark.deep
def test_a_query_goes_on_while_its_data_is_moved(spark, place, minio_server, tmp_path):
    """To the other server: before, with files at both places, when all are copied, and after."""
    url, options, data = place
    admin = Admin(url, minio_server.settings)
    for topic in ("in", "out"):
        admin.create_topic(topic, 2, config={"file.delete.delay.ms": 0})

    def stop_at(step):
        def progress(what, *_):
            if what.startswith(step):
                raise StopError

        return progress

    def move(progress=None):
        Admin(url, options).move_data(data, min_age_s=0, progress=progress)

    def runs(number):
        frame = spark.range(number * ROWS, number * ROWS + ROWS).selectExpr("CAST(id AS STRING) AS value")
        frame.write.format("eoslog").options(**options, topic="in").mode("append").save(url)
        source = spark.readStream.format("eoslog").options(
            **options, subscribe="in", startingOffsets="earliest"
        )
        query = source.load(url).select("key", "value").writeStream.format("eoslog")
        query = query.options(**options, topic="out", checkpointLocation=str(tmp_path / "cp"))
        start_query(lambda: query.trigger(availableNow=True).start(url)).awaitTermination()
        for topic in ("in", "out"):
            frame = spark.read.format("eoslog").options(**options, subscribe=topic).load(url)
            assert values(frame) == [*range(number * ROWS + ROWS)]

    runs(0)
    for number, step in enumerate(("looking for data files", "waiting until running"), 1):
        with pytest.raises(StopError):
            move(stop_at(step))
        runs(number)
    move()
    runs(3)
    assert not [*open_store(url, minio_server.settings).list("data/")]
