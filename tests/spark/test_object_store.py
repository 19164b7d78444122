"""A log in a bucket, end to end: clients, batches, streams on MinIO and Azurite; secrets that are never shown."""

from __future__ import annotations

import json
import pickle
import uuid
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError, StorePermissionError
from spark_eos.log.log import Log
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.sink.checkpoint import Checkpoint, sources_of_batch
from spark_eos.spark.start import start_query
from spark_eos.storage import Settings, open_store, split_settings
from tests.security.roles import policy
from tests.sparks import HIDES
from verification.cloud_servers import temporary
from verification.fault_proxy import FaultPlan, FaultProxy

from .conftest import SECRETS

ROWS = 500


@pytest.fixture(params=["minio", "azurite"])
def server(request):
    return request.getfixturevalue(f"{request.param}_server")


MINIO_ALONE = pytest.mark.parametrize("server", ["minio"], indirect=True)
"""What is about Spark more than about the store, and takes its time."""


@pytest.fixture
def url(server):
    return f"{server.url}/{uuid.uuid4().hex}/log"


@pytest.fixture
def settings(server):
    return dict(server.settings)


@pytest.fixture
def secret(settings):
    return next(settings[name] for name in SECRETS & settings.keys())


def rows(url, settings, topic):
    """Values of all committed records, by partition, in order."""
    count = len(Admin(url, settings).describe_topic(topic).partitions)
    places = [TopicPartition(topic, number) for number in range(count)]
    with Consumer(
        url, {"auto.offset.reset": "earliest", "isolation.level": "read_committed", **settings}
    ) as consumer:
        consumer.assign(places)
        found = {at.partition: [] for at in places}
        while polled := consumer.poll(timeout_ms=0):
            for record in polled:
                found[record.partition].append(record.value)
        return found


@pytest.mark.deep("azurite")
def test_clients(url, settings):
    with Producer(url, {"transactional.id": "t", "num.partitions": 2, **settings}) as producer:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            for partition in range(2):
                producer.send("t", f"{number}", partition=partition)
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    assert rows(url, settings, "t") == {0: [b"0", b"2"], 1: [b"0", b"2"]}
    log = Log.open(url, settings=Settings(settings))
    assert log.url == url
    again = url.replace("s3:", "s3a:")
    if url.startswith("az:"):
        container, path = url.removeprefix("az://").split("/", 1)
        again = f"abfss://{container}@{settings['adls.account-name']}.dfs.core.windows.net/{path}"
    assert Log.shared(url, Settings(settings)).log_id == Log.shared(again, Settings(settings)).log_id
    if again.startswith("s3a:"):
        assert Log.shared(url, Settings(settings)) is Log.shared(again, Settings(settings))


@pytest.mark.deep("azurite")
def test_spark_writes_and_reads(spark, url, settings, tmp_path):
    frame = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value")
    write = frame.repartition(3).write.format("eoslog").options(**settings, **{"num.partitions": "2"})
    write.option("topic", "in").mode("append").save(url)
    source = spark.readStream.format("eoslog").options(**settings, maxOffsetsPerTrigger="300")
    copied = source.option("subscribe", "in").option("startingOffsets", "earliest").load(url)
    writer = copied.select("key", "value").writeStream.format("eoslog").trigger(availableNow=True)
    writer = writer.options(**settings, topic="out", checkpointLocation=str(tmp_path / "cp"))
    query = start_query(partial(writer.start, url))
    query.awaitTermination()
    shown = spark.read.format("eoslog").options(**settings, subscribe="out").load(url)
    values = sorted(int(row.value) for row in shown.collect())
    assert values == list(range(ROWS))
    assert sum(map(len, rows(url, settings, "out").values())) == ROWS
    group = Admin(url, settings).list_group_offsets(query.id)
    assert sum(offset.offset for at, offset in group.items() if at.topic == "in") == ROWS


@pytest.mark.deep
def test_a_stream_with_the_rights_of_a_reader_and_of_a_writer(spark, minio_server, tmp_path):
    """From one log into another, with no more than conf/policies gives; and no query begins that may not write."""
    places = [uuid.uuid4().hex[:8] for _ in range(2)]
    first, second = (f"{minio_server.url}/{place}" for place in places)
    rights = {role: dict(temporary(minio_server, policy(role, places[0]))) for role in ("reader", "writer")}
    into = dict(temporary(minio_server, policy("writer", places[1])))
    frame = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format("eoslog").options(**rights["writer"], topic="in").mode("append")
    writer.save(first)

    def query(settings, to, topic):
        source = spark.readStream.format("eoslog").options(**rights["reader"], subscribe="in")
        copied = source.option("startingOffsets", "earliest").load(first).select("value")
        writer = copied.writeStream.format("eoslog").options(**settings, topic=topic)
        writer = writer.option("checkpointLocation", str(tmp_path / topic)).trigger(availableNow=True)
        return start_query(partial(writer.start, to))

    query(into, second, "out").awaitTermination()
    assert sum(map(len, rows(second, into, "out").values())) == ROWS
    before = [info.name for info in open_store(first, minio_server.settings).list("")]
    with pytest.raises((StreamingQueryException, PySparkException), match="They need s3:PutObject on it"):
        query(rights["reader"], first, "denied").awaitTermination()
    assert [info.name for info in open_store(first, minio_server.settings).list("")] == before


@pytest.mark.deep
@MINIO_ALONE
def test_a_stream_through_a_bad_network(spark, url, settings, tmp_path):
    """A query that fails is started again, as often as it takes: no row is lost, none is there twice."""
    spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value").write.format("eoslog").options(
        **settings, topic="in", **{"num.partitions": "2"}
    ).mode("append").save(url)
    address = urlsplit(settings["s3.endpoint"])
    with FaultProxy(
        address.hostname, address.port, plan=FaultPlan.everything(0.02), seed=7, delay_s=1.0
    ) as proxy:
        spoilt = {**settings, "s3.endpoint": proxy.url, "s3.request-timeout": "0.7"}
        for _ in range(20):
            source = spark.readStream.format("eoslog").options(**spoilt, maxOffsetsPerTrigger="100")
            copied = source.option("subscribe", "in").option("startingOffsets", "earliest").load(url)
            query = (
                copied.select("value").writeStream.format("eoslog")
                .options(**spoilt, topic="out", checkpointLocation=str(tmp_path / "cp"))
                .trigger(availableNow=True).start(url)
            )  # fmt: skip
            with suppress(StreamingQueryException):
                query.awaitTermination()
                break
        else:
            raise AssertionError("the query was started 20 times and came to no end")
        struck = {exchange.fault for exchange in proxy.exchanges if exchange.fault is not None}
    assert len(struck) > 3, f"{struck}: too few to say anything"
    found = rows(url, settings, "out")
    assert sorted(int(value) for values in found.values() for value in values) == list(range(ROWS))


@pytest.mark.deep
def test_the_checkpoint_of_a_query_read_in_buckets(spark, minio_server, azurite_server, tmp_path):
    """What Spark has written, put where s3a:// and abfss:// would have put it."""
    query = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "cp")).trigger(processingTime="0 seconds").start()
    )  # fmt: skip
    try:
        while len(query.recentProgress) < 3:
            query.awaitTermination(0.1)
    finally:
        query.stop()
    here = Checkpoint(str(tmp_path / "cp"))
    account = azurite_server.settings["adls.account-name"]
    place = f"checkpoints/{uuid.uuid4().hex}"
    for server, spelt in (
        (minio_server, "s3a://bucket"),
        (azurite_server, f"abfss://container@{account}.dfs.core.windows.net"),
    ):
        store = open_store(f"{server.url}/{place}", server.settings)
        for path in (tmp_path / "cp").rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                store.create(str(path.relative_to(tmp_path / "cp")), path.read_bytes())
        there = Checkpoint(f"{spelt}/{place}", server.settings)
        assert there.query_id() == here.query_id() == query.id
        assert sources_of_batch(there, 1) == sources_of_batch(here, 1)
        assert there.finished(0)


# -- Secrets ------------------------------------------------------------------------------------------


def everything_in(store):
    return b"".join(store.read(info.name).to_pybytes() for info in store.list(""))


def executions(spark):
    """What the SQL page of the Spark UI shows, by the execution's id; what other tests did in this session too."""
    spark._jsc.sc().listenerBus().waitUntilEmpty(600_000)
    listed = spark._jsparkSession.sharedState().statusStore().executionsList()
    return {shown.executionId(): shown for shown in map(listed.apply, range(listed.size()))}


@pytest.fixture
def _hides(spark):
    for name, value in HIDES.items():
        spark.conf.set(name, value)
    yield
    for name in HIDES:
        spark.conf.unset(name)


@pytest.mark.deep
@pytest.mark.usefixtures("_hides")
def test_secrets_are_in_no_plan_and_not_in_the_log(spark, url, settings, secret, tmp_path, capsys):
    earlier = executions(spark).keys()
    with Producer(url, settings) as producer:
        producer.send("in", "1").result()
    frame = spark.read.format("eoslog").options(**settings, subscribe="in").load(url)
    frame.explain(mode="extended")
    assert frame.count() == 1
    texts = [capsys.readouterr().out, frame._jdf.queryExecution().toString(), str(frame), repr(frame)]
    given = {**settings, "subscribe": "in", "startingOffsets": "earliest"}
    streamed = spark.readStream.format("eoslog").options(**given).load(url)
    writer = streamed.select("value").writeStream.format("eoslog").trigger(availableNow=True)
    writer = writer.options(**settings, topic="out", checkpointLocation=str(tmp_path / "cp"))
    query = start_query(lambda: writer.start(url))
    query.awaitTermination()
    query.explain(extended=True)
    texts += [capsys.readouterr().out, json.dumps(query.lastProgress, default=str)]
    more = spark.range(1).selectExpr("'x' AS value").write.format("eoslog").options(**settings, topic="out")
    more.mode("append").save(url)
    seen = executions(spark)
    assert len(seen.keys() - earlier) > 3
    for number, shown in seen.items():
        shows = [shown.physicalPlanDescription(), shown.details(), shown.modifiedConfigs().toString()]
        assert number in earlier or all(shows)  # A read that another test was refused has no plan.
        assert not any(secret in text for text in shows)
    for text in texts:
        assert text
        assert secret not in text
    assert secret.encode() not in everything_in(open_store(url, Settings(settings)))
    for path in (tmp_path / "cp").rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()


@pytest.mark.deep("azurite")
def test_secrets_are_in_no_error(spark, url, settings):
    # Azure's keys are base64.
    wrong = "wrong/and/still/kept/from/everybody+"
    name = next(iter(SECRETS & settings.keys()))
    with Producer(url, settings) as producer:
        producer.send("in", "1").result()
    given = {**settings, name: wrong}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("eoslog").options(**given, subscribe="in").load(url).count()
    assert "check key and secret" in str(caught.value)
    assert wrong not in str(caught.value)
    with pytest.raises(PySparkException) as caught:
        spark.range(1).selectExpr("'x' AS value").write.format("eoslog").options(**given, topic="t").save(url)
    assert wrong not in str(caught.value)
    with pytest.raises(StorePermissionError) as refused, Producer(url, given) as producer:
        producer.send("in", "1").result()
    assert wrong not in str(refused.value)


@MINIO_ALONE
def test_options_go_to_the_tasks_and_are_not_shown(settings, secret):
    source = parse_source({"path": "s3://b/l", "subscribe": "t", **settings}, streaming=True)
    sink = parse_sink(
        {"path": "s3://bucket/l", "checkpointLocation": "abfss://c@acc.dfs.core.windows.net/cp", **settings,
         "adls.account-key": secret}, streaming=True,
    )  # fmt: skip
    assert split_settings(settings)[1] == source.settings == sink.settings == Settings(settings)
    assert sink.checkpoint_settings == Settings({"adls.account-key": secret})
    for options in (source, sink):
        assert secret not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("path", "checkpoint", "key"),
    [("/some/folder", "/cp", "s3.region"), ("s3://bucket/l", "s3a://bucket/cp", "gcs.oauth2.token")],
)
def test_settings_for_a_store_that_is_not_used(path, checkpoint, key):
    with pytest.raises(ConfigError, match=f"{key} is a setting of an object store that neither"):
        parse_sink({"path": path, "checkpointLocation": checkpoint, key: "x"}, streaming=True)
