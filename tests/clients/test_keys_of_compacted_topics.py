"""A topic that is compacted takes no record without a key, by whatever way it comes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import ConfigError, InvalidRecordError
from spark_eos.log.log import Log
from spark_eos.maintenance.compaction import Compactor

COMPACT = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
NO_KEY = "has no key.*topic is compacted.*give it a key, or set cleanup.policy=delete"


@pytest.fixture(params=["compact", "compact,delete"])
def url(request, tmp_path):
    url = str(tmp_path / "log")
    Admin(url).create_topic("t", config={**COMPACT, "cleanup.policy": request.param})
    return url


def values(url):
    with Consumer(url) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        return [record.value for record in consumer.poll(timeout_ms=1000)]


def test_send(url):
    """The record alone is refused: those that wait beside it are sent."""
    with Producer(url, linger_ms=60_000) as producer:
        first = producer.send("t", b"1", key=b"k")
        with pytest.raises(InvalidRecordError, match=f"topic 't' {NO_KEY}"):
            producer.send("t", b"2")
        producer.send("t", b"3", key=b"")
        producer.flush()
        assert first.result().offset == 0
    assert values(url) == [b"1", b"3"]


@pytest.mark.parametrize(
    "key",
    [
        None,
        pa.nulls(2),
        pa.array([b"k", None]),
        pa.array(["k", None]),
        pa.array([b"k", None]).dictionary_encode(),
    ],
)
def test_send_arrow(url, key):
    rows = {"value": [b"1", b"2"]} if key is None else {"key": key, "value": [b"1", b"2"]}
    with Producer(url) as producer:
        row = 0 if key is None or key.null_count == 2 else 1
        with pytest.raises(InvalidRecordError, match=f"row {row} of those for topic 't' {NO_KEY}"):
            producer.send_arrow("t", pa.table(rows))
        assert producer.send_arrow("t", pa.table({"key": [b"k"], "value": [b"3"]})).result()
    assert values(url) == [b"3"]


def test_transactions(url):
    with Producer(url, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1", key=b"k")
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            producer.send("t", b"2")
        with pytest.raises(InvalidRecordError, match="no key"):
            producer.send_arrow("t", pa.table({"value": [b"2"]}))
        producer.commit_transaction()
    assert values(url) == [b"1"]


@pytest.mark.parametrize("parse", [[], ["--property", "parse.key=true", "--property", "null.marker=-"]])
def test_eoslog_produce(url, parse, tmp_path, capsys):
    lines = tmp_path / "lines"
    lines.write_bytes(b"k\tv\n-\tv\n" if parse else b"v\n")
    assert main(["produce", url, "t", "--file", str(lines), *parse]) != 0
    assert f"line {2 if parse else 1} for topic 't' has no key" in capsys.readouterr().err
    assert values(url) == []


def test_columns(tmp_path):
    """A row has a key if one of its key columns has a value; a topic without them cannot be compacted."""
    url, schema = (
        str(tmp_path / "log"),
        pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.string())])), ("x", pa.int64())]),
    )
    admin = Admin(url)
    for policy in ("compact", "delete,compact"):
        with pytest.raises(ConfigError, match=f"topic 't': cleanup.policy={policy} .*set key.columns"):
            admin.create_topic("t", schema=schema, config={"cleanup.policy": policy})
    admin.create_topic("t", schema=schema, config={"cleanup.policy": "compact", "key.columns": "a, b"})
    with pytest.raises(ConfigError, match=r"set key\.columns"):
        admin.alter_topic("t", config={"key.columns": None})
    admin.create_topic("u", schema=schema)
    with pytest.raises(ConfigError, match=r"set key\.columns"):
        admin.alter_topic("u", config={"cleanup.policy": "compact"})
    admin.alter_topic("u", config={"cleanup.policy": "compact", "key.columns": "x"})
    with Producer(url) as producer:
        producer.send_arrow(
            "t", pa.table({"a": [None, 1], "b": [{"c": None}, None], "x": [1, 2]}, schema=schema)
        )
        for rows in (
            pa.table({"a": [1, None], "b": [None, None], "x": [1, 2]}, schema=schema),
            pa.table({"x": [1]}),
        ):
            with pytest.raises(InvalidRecordError, match=r"has no key \(a, b\), and the topic is compacted"):
                producer.send_arrow("t", rows)


def test_a_producer_that_learns_of_more_partitions_learns_the_policy_as_well(tmp_path):
    """A record without a key would fail later, with all that wait beside it."""
    log = Log.create(str(tmp_path / "log"))
    admin = Admin(log)
    admin.create_topic("t")
    with Producer(log, linger_ms=60_000) as producer:
        producer.send("t", b"1")
        admin.create_partitions({"t": 2})
        admin.alter_topic("t", config=COMPACT)
        producer.send("t", b"2", key=b"k", partition=1)
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            producer.send("t", b"3")


def test_a_topic_that_is_compacted_from_now_on_loses_no_record(tmp_path):
    """Also where the writer has not heard of the new policy yet."""
    url = str(tmp_path / "log")
    Admin(url).create_topic("t")
    with Producer(url, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"old")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("t", b"on its way")
        Admin(url).alter_topic("t", config=COMPACT)
        producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            producer.send("t", b"new")
        producer.send("t", b"1", key=b"k")
        producer.send("t", b"2", key=b"k")
        producer.commit_transaction()
    log = Log.open(url)
    log.clock.sleep(0.01)
    assert Compactor(log).run()
    assert values(url) == [b"old", b"on its way", b"2"]
