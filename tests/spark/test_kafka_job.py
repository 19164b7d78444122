"""Jobs as they are written for Kafka, with the format and the path exchanged: they run at the second start.

After a failed start only that is changed which its error says.
"""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from spark_eos import Consumer, Producer
from spark_eos.errors import ConfigError
from spark_eos.spark.start import start_query
from tests.sparks import SPARK

SECURITY = {
    "kafka.bootstrap.servers": "b1:9093,b2:9093",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": 'ScramLoginModule required username="u" password="p";',
    "kafka.ssl.truststore.location": "/etc/kafka/trust.jks",
    "kafka.ssl.truststore.password": "hush",
    "kafka.ssl.endpoint.identification.algorithm": "https",
}
SOURCE = {
    "subscribe": "orders",
    "startingOffsets": "latest",
    "startingTimestamp": "0",
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false",
    "maxOffsetsPerTrigger": "30",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "2m",
    "minPartitions": "3",
    "includeHeaders": "true",
    "groupIdPrefix": "orders",
    "kafka.group.id": "orders-job",
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "5000",
    "kafka.fetch.max.bytes": "52428800",
    "kafka.session.timeout.ms": "30000",
    "kafka.request.timeout.ms": "60000",
    "kafkaConsumer.pollTimeoutMs": "120000",
    "fetchOffset.numRetries": "5",
}
if SPARK < (4, 2):  # It refuses them: test_versions.py
    del SOURCE["minOffsetsPerTrigger"], SOURCE["maxTriggerDelay"]
SINK = {
    "kafka.acks": "all",
    "kafka.linger.ms": "50",
    "kafka.batch.size": "131072",
    "kafka.compression.type": "snappy",
    "kafka.enable.idempotence": "true",
    "kafka.max.in.flight.requests.per.connection": "5",
    "kafka.retries": "10",
    "kafka.delivery.timeout.ms": "120000",
    "kafka.max.request.size": "5242880",
}
ROWS = 50


class Job:
    """A stream from ``orders`` to ``clean``, a foreachBatch to two topics, and a batch read of a range."""

    def __init__(self, spark, url, folder):
        self.spark, self.url, self.folder = spark, url, folder
        self.security, self.sink, self.drops, self.starts = dict(SECURITY), dict(SINK), [], 0

    def start(self):
        self.starts += 1
        raw = self.spark.readStream.format("eoslog").options(**self.security).options(**SOURCE).load(self.url)
        order = F.from_json(F.col("value").cast("string"), "id int, amount double, country string")
        rows = raw.select(F.col("key").cast("string").alias("key"), order.alias("o"), "headers")
        rows = rows.select("key", F.to_json("o").alias("value"), "headers", "o.country", "o.amount")
        rows = rows.drop(*self.drops)
        self.run(self.to(rows.writeStream).option("topic", "clean"), "stream")
        self.run(rows.writeStream.foreachBatch(self.both), "both")
        ends = {"startingOffsets": '{"clean": {"0": 5}}', "endingOffsets": '{"clean": {"0": -1}}'}
        frame = self.spark.read.format("eoslog").options(**self.security).options(subscribe="clean", **ends)
        return frame.load(self.url).count()

    def to(self, writer):
        return writer.format("eoslog").options(**self.security).options(**self.sink).option("path", self.url)

    def both(self, frame, _):
        rows = frame.select("key", "value")
        self.to(rows.write).option("topic", "left").mode("append").save()
        self.to(rows.selectExpr("'right' as topic", "*").write).mode("append").save()

    def run(self, writer, name):
        writer = writer.option("checkpointLocation", f"{self.folder}/{name}").trigger(availableNow=True)
        query = start_query(writer.start)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def says(self):
        with pytest.raises(Exception, match="things do not fit; this is all of them") as caught:
            self.start()
        return str(caught.value)


@pytest.fixture
def job(spark, bench, tmp_path):
    with Producer(bench.url) as producer:
        for number in range(ROWS):
            order = {"id": number, "amount": number / 2, "country": "de"}
            producer.send("orders", json.dumps(order).encode(), key=str(number).encode())
    return Job(spark, bench.url, tmp_path)


@pytest.mark.deep
def test_a_job_runs_at_its_second_start(job, bench):
    text = job.says()
    assert "14 options are settings of Kafka's transport" in text
    job.security["kafka.options"] = "ignore"
    assert (
        "sinks are checked when they start. To save a start, set it there, too" in text
    )  # `security` is both's.
    assert (
        "they take compression.type auto, none, lz4 or zstd, and no columns that the topic does not have"
        in text
    )
    job.sink["kafka.compression.type"] = "zstd"
    job.drops = ["country", "amount"]
    assert job.start() == ROWS - 5
    assert job.starts == 2
    assert [bench.count(topic) for topic in ("clean", "left", "right")] == [ROWS] * 3
    assert bench.group("orders-job")["orders", 0] == bench.partitions("orders")[0].end


@pytest.mark.deep
def test_by_the_guide_the_first_start_names_what_the_sink_does_not_take(job, bench):
    job.security["kafka.options"] = "ignore"
    text = job.says()
    assert "there is no snappy here: use lz4" in text
    assert "drop country, amount" in text
    assert "2 things do not fit" in text  # That is all: the test above starts it without them.
    assert "clean" not in bench.state.topics


def test_so_do_clients(tmp_path):
    common = {
        "bootstrap.servers": "b1:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "key",
        "sasl.password": "hush",
        "socket.timeout.ms": 60_000,
        "client.id": "orders",
    }
    sends = {
        **common,
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "gzip",
        "linger.ms": 20,
        "batch.num.messages": 10_000,
        "message.timeout.ms": 120_000,
        "queue.buffering.max.messages": 100_000,
        "transactional.id": "orders-1",
    }
    with pytest.raises(ConfigError) as caught:
        Producer(tmp_path / "log", sends)
    text = str(caught.value)
    assert "8 options are settings of Kafka's transport" in text
    assert "its name here is delivery.timeout.ms" in text
    assert "there is no gzip here: use zstd" in text
    sends |= {"kafka.options": "ignore", "compression.type": "zstd"}
    sends["delivery.timeout.ms"] = sends.pop("message.timeout.ms")
    with Producer(tmp_path / "log", sends) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v", key=b"k")
        producer.commit_transaction()

    reads = {
        **common,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": 6_000,
        "max.poll.interval.ms": 300_000,
        "fetch.min.bytes": 1,
        "fetch.wait.max.ms": 500,
        "enable.partition.eof": False,
        "statistics.interval.ms": 0,
    }
    with pytest.raises(ConfigError) as caught:
        Consumer(tmp_path / "log", reads)
    assert "9 options are settings of Kafka's transport" in str(caught.value)
    assert "enable.partition.eof is not one of eoslog" in str(caught.value)
    del reads["enable.partition.eof"]
    with Consumer(tmp_path / "log", {**reads, "kafka.options": "ignore"}) as consumer:
        consumer.subscribe(["orders"])
        assert [record.value for record in consumer.poll(timeout_ms=5_000)] == [b"v"]
