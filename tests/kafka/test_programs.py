"""Programs as they are written for kafka-python, with nothing changed but the import and the address."""

from __future__ import annotations

import enum
import json
import threading
from itertools import count
from types import SimpleNamespace

import pytest

from spark_eos import Admin, errors
from spark_eos.clients.background import within
from spark_eos.clients.records import ConsumerRecords
from spark_eos.kafka import (
    ConsumerRebalanceListener,
    JsonSerializer,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from spark_eos.kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from spark_eos.kafka.errors import KafkaError, KafkaTimeoutError, TopicAlreadyExistsError
from spark_eos.log.environment import PROCESS
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore

NUMBERS = count()


@pytest.fixture
def servers():
    return f"memory://kafka-programs-{next(NUMBERS)}"


def test_produce_and_consume(servers):
    """The examples of kafka-python's front page."""
    producer = KafkaProducer(
        bootstrap_servers=[servers], value_serializer=lambda v: json.dumps(v).encode("utf-8")
    )
    done = []
    for number in range(10):
        producer.send("my-topic", {"number": number}, key=b"k%d" % number).add_callback(
            done.append
        ).add_errback(print)
    producer.flush(timeout=30)
    assert [one.offset for one in done] == list(range(10))
    with pytest.raises(KafkaError):
        KafkaProducer(bootstrap_servers=[servers], max_request_size=5).send("my-topic", b"too long").get(
            timeout=60
        )

    consumer = KafkaConsumer(
        "my-topic",
        group_id="my-group",
        bootstrap_servers=(servers,),
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        value_deserializer=lambda m: json.loads(m.decode("utf-8")),
        consumer_timeout_ms=200,
    )
    seen = [
        (message.topic, message.partition, message.offset, message.key, message.value) for message in consumer
    ]
    assert seen[3] == ("my-topic", 0, 3, b"k3", {"number": 3})
    assert len(seen) == 10
    consumer.close()
    settings = {"bootstrap.servers": servers, "allow_auto_create_topics": False}
    again = KafkaConsumer("my-topic", group_id="my-group", consumer_timeout_ms=100, **settings)
    assert list(again) == []
    assert producer.metrics()["producer-metrics"]["record-send-total"] == 10


def test_a_consumer_without_a_group_reads_all_partitions(servers):
    admin = KafkaAdminClient(bootstrap_servers=servers, client_id="test")
    admin.create_topics(
        new_topics=[NewTopic(name="t", num_partitions=2, replication_factor=1)], validate_only=False
    )
    consumer = KafkaConsumer(
        "t", bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=100
    )
    producer = KafkaProducer(bootstrap_servers=servers)
    for partition in (0, 1):
        producer.send("t", b"%d" % partition, partition=partition)
    producer.flush()
    assert sorted(message.value for message in consumer) == [b"0", b"1"]
    admin.create_partitions({"t": NewPartitions(3)})
    producer.send("t", b"2", partition=2).get(timeout=60)
    assert [message.value for message in consumer] == [b"2"]
    assert consumer.subscription() == {"t"}
    assert consumer.assignment() == {TopicPartition("t", number) for number in range(3)}
    consumer.subscribe(pattern="^u.*")
    producer.send("u1", b"u").get(timeout=60)
    assert [message.value for message in consumer] == [b"u"]


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_pattern_stands_for_all_names_that_begin_with_it(servers, group_id):
    """kafka-python's subscribed_pattern.match. The consumer read nothing, and said nothing."""
    producer = KafkaProducer(bootstrap_servers=servers)
    for topic in ("orders-eu", "orders-us", "old-orders-eu"):
        producer.send(topic, topic.encode()).get(timeout=60)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        consumer_timeout_ms=100,
    )
    consumer.subscribe(pattern="^(?i:ORDERS)")
    assert sorted(message.value for message in consumer) == [b"orders-eu", b"orders-us"]
    assert consumer.subscription() == {"orders-eu", "orders-us"}
    with pytest.raises(errors.InvalidRequestError, match="timeout_ms is '1'"):
        consumer.end_offsets([TopicPartition("orders-eu", 0)], timeout_ms="1")
    consumer.close()


def test_a_consumer_without_a_group_either_subscribes_or_assigns(servers):
    """The next poll read what it had subscribed to, whatever was assigned."""
    KafkaAdminClient(bootstrap_servers=servers).create_topics([NewTopic("orders", 2, 1)])
    both = TopicPartition("orders", 0), TopicPartition("orders", 1)
    consumer = KafkaConsumer("orders", bootstrap_servers=servers)
    with pytest.raises(errors.IllegalStateError, match="call unsubscribe before assign"):
        consumer.assign([both[0]])
    consumer.unsubscribe()
    consumer.assign([both[0]])
    with pytest.raises(errors.IllegalStateError, match="call unsubscribe before subscribe"):
        consumer.subscribe(["orders"])
    consumer.poll()
    assert consumer.assignment() == {both[0]}
    consumer.subscribe([])
    consumer.subscribe(["orders"])
    consumer.poll()
    assert consumer.assignment() == {*both}


def test_a_poll_loop_that_commits_by_hand(servers):
    producer = KafkaProducer(bootstrap_servers=servers, value_serializer=JsonSerializer())
    for number in range(5):
        producer.send("t", number)
    producer.close(timeout=60)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id="g",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=2,
        value_deserializer=JsonSerializer(),
    )
    consumer.subscribe(["t"])
    seen, told = [], []
    while len(seen) < 5:
        batch = consumer.poll(timeout_ms=500)
        assert isinstance(batch, dict)
        for tp, messages in batch.items():
            for message in messages:
                seen += [message.value]
            consumer.commit({tp: OffsetAndMetadata(messages[-1].offset + 1, None, -1)})
    assert seen == [0, 1, 2, 3, 4]
    at = TopicPartition("t", 0)
    assert consumer.committed(at) == 5
    consumer.commit_async(
        {at: OffsetAndMetadata(4, "by hand")}, callback=lambda *given: told.append(given)
    ).get(60)
    consumer.poll()
    assert told[0][1] is None
    assert consumer.committed(at, metadata=True).metadata == "by hand"
    consumer.close(autocommit=False)


def test_seeks_times_and_pauses(servers):
    producer = KafkaProducer(bootstrap_servers=servers)
    for ms in (1000, 2000, 3000):
        producer.send("t", b"%d" % ms, timestamp_ms=ms)
    producer.flush()
    at = TopicPartition("t", 0)
    consumer = KafkaConsumer(bootstrap_servers=servers)
    consumer.assign([at])
    consumer.seek_to_beginning(at)
    assert [message.timestamp for message in consumer.poll(100)[at]] == [1000, 2000, 3000]
    found = consumer.offsets_for_times({at: 1500})[at]
    assert (found.offset, found.timestamp) == (1, 2000)
    consumer.seek(at, found.offset)
    assert [message.value for message in consumer.poll(100, max_records=1)[at]] == [b"2000"]
    assert consumer.position(at) == 2
    consumer.pause(at)
    assert consumer.poll(10) == {}
    assert consumer.paused() == {at}
    consumer.resume(at)
    assert [message.value for message in consumer.poll(100)[at]] == [b"3000"]
    assert (consumer.beginning_offsets([at]), consumer.end_offsets([at])) == ({at: 0}, {at: 3})
    assert (consumer.highwater(at), consumer.partitions_for_topic("t"), consumer.topics()) == (3, {0}, {"t"})


def test_a_poll_that_is_interrupted_passes_no_record_over(servers, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x")
    consumer = KafkaConsumer("t", bootstrap_servers=servers, auto_offset_reset="earliest")
    with monkeypatch.context() as stopped:
        stopped.setattr(ConsumerRecords, "by_partition", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(100)
    assert [[message.value for message in batch] for batch in consumer.poll(100).values()] == [[b"x"]]


def test_a_rebalance_listener(servers):
    KafkaAdminClient(bootstrap_servers=servers).create_topics({"t": {"num_partitions": 2}})
    heard = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            heard.append(("revoked", len(revoked)))

        def on_partitions_assigned(self, assigned):
            heard.append(("assigned", len(assigned)))

    consumer = KafkaConsumer(bootstrap_servers=servers, group_id="g")
    consumer.subscribe(["t"], listener=Listener())
    consumer.poll(10)
    consumer.close()
    assert heard == [("assigned", 2), ("revoked", 2)]


def test_a_transactional_copy(servers):
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(3):
            producer.send("in", b"%d" % number)
    consumer = KafkaConsumer(
        "in",
        bootstrap_servers=servers,
        group_id="copy",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id="copy-1", acks="all")
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        batch = consumer.poll(timeout_ms=500)
        producer.begin_transaction()
        offsets = {}
        for tp, messages in batch.items():
            for message in messages:
                producer.send("out", message.value, key=message.key)
            offsets[tp] = OffsetAndMetadata(messages[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        end()
        if end == producer.abort_transaction:
            consumer.seek_to_beginning()
    settings = {
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 100,
    }
    copies = KafkaConsumer("out", bootstrap_servers=servers, **settings)
    assert [message.value for message in copies] == [b"0", b"1", b"2"]
    assert consumer.committed(TopicPartition("in", 0)) == 3


def test_an_address_of_a_server(servers):
    with pytest.raises(errors.ConfigError, match=r"there is no server; give the log's folder or URL"):
        KafkaProducer(bootstrap_servers="localhost:9092")
    with pytest.raises(errors.ConfigError, match="bootstrap_servers=None"):
        KafkaConsumer("t")
    with pytest.raises(errors.ConfigError, match="needs group_id"):
        KafkaConsumer(bootstrap_servers=log_with_topic(servers)).subscribe(
            ["t"], listener=ConsumerRebalanceListener()
        )


def log_with_topic(url):
    Admin(url).create_topic("t")
    return url


def test_settings_of_the_transport_can_be_dropped(servers):
    settings = {"request_timeout_ms": 1000, "security_protocol": "SSL", "api_version": (2, 6)}
    with pytest.raises(errors.ConfigError, match="security_protocol"):
        KafkaProducer(bootstrap_servers=servers, **settings)
    with KafkaProducer(bootstrap_servers=servers, kafka_options="ignore", **settings) as producer:
        producer.send("t", b"x").get(timeout=60)


def test_json_leaves_tombstones_as_they_are():
    json_of = JsonSerializer()
    assert json_of.serialize("t", [], None) is json_of.deserialize("t", [], None) is None
    assert json_of.deserialize("t", [], b"null") is None


# -- The admin client ----------------------------------------------------------------------------------------


def test_the_admin_client(servers):
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics(["a", NewTopic("b", 2, 3, topic_configs={"retention.ms": "1000"})])
    entries = Admin(servers).describe_log().entries
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(["c", "a"])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(["c", "a"], validate_only=True)
    admin.create_topics(["c"], validate_only=True)
    with pytest.raises(errors.InvalidRequestError, match="named twice"):
        admin.create_topics(["c", "c"])
    with pytest.raises(errors.InvalidRequestError, match="unknown option 'partitions'"):
        admin.create_topics({"c": {"partitions": 2}})
    assert admin.list_topics() == ["a", "b"]
    assert [len(topic.partitions) for topic in admin.describe_topics(["b", "a"])] == [2, 1]

    with pytest.raises(errors.InvalidRequestError, match="are not more"):
        admin.create_partitions({"a": 5, "b": 2})
    admin.create_partitions({"a": 5, "b": 3}, validate_only=True)
    assert Admin(servers).describe_log().entries == entries
    admin.create_partitions({"a": 5, "b": 3})
    assert [len(topic.partitions) for topic in admin.describe_topics()] == [5, 3]
    assert Admin(servers).describe_log().entries == entries + 1

    of_b = ConfigResource(ConfigResourceType.TOPIC, "b")
    assert admin.describe_configs([of_b])["topic"]["b"].keys() == {"retention.ms"}
    admin.alter_configs(
        [
            ConfigResource(
                "topic",
                "b",
                {"retention.ms": None, "cleanup.policy": "compact", "file.delete.delay.ms": 60_000},
            ),
            ConfigResource("BROKER", "0", {"offsets.retention.minutes": 60}),
        ]
    )
    changed = admin.describe_configs([of_b], config_filter="all")["topic"]["b"]
    assert (changed["cleanup.policy"]["value"], changed["cleanup.policy"]["is_default"]) == ("compact", False)
    assert changed["retention.ms"]["is_default"]
    was_set = changed["file.delete.delay.ms"]
    assert (was_set["value"], was_set["is_default"]) == (was_set["default"], False)
    assert admin.describe_configs([ConfigResource("topic", "b", [])])["topic"]["b"] == {}
    of_log = ConfigResource(ConfigResourceType.LOG, configs=["offsets.retention.minutes"])
    assert admin.describe_configs([of_log])["log"][""]["offsets.retention.minutes"]["value"] == "60"
    with pytest.raises(errors.InvalidRequestError, match="has to be a dict"):
        admin.alter_configs([of_b])
    with pytest.raises(errors.InvalidRequestError, match="topics and the log have settings"):
        ConfigResource("user", "x")

    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics(["a", "missing"])
    assert admin.list_topics() == ["a", "b"]
    admin.delete_topics(["a", "b"])
    assert admin.list_topics() == []


class ResourceTypes(enum.IntEnum):
    """As that of kafka-python, whose values are the numbers of Kafka's requests."""

    TOPIC = 2
    BROKER = 4


def test_resources_of_kafka_python_itself(servers):
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics(["a"])
    resources = [
        SimpleNamespace(resource_type=ResourceTypes.TOPIC, name="a", configs={"retention.ms": 5}),
        SimpleNamespace(
            resource_type=ResourceTypes.BROKER, name="0", configs={"offsets.retention.minutes": 60}
        ),
    ]
    admin.alter_configs(resources)
    found = admin.describe_configs(resources)
    assert found["topic"]["a"]["retention.ms"]["value"] == "5"
    assert found["log"]["0"]["offsets.retention.minutes"]["value"] == "60"


def test_list_offsets(servers):
    at = TopicPartition("t", 0)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for ms in (1000, 2000):
            producer.send("t", b"x", timestamp_ms=ms)
    open_ = KafkaProducer(bootstrap_servers=servers, transactional_id="a")
    open_.init_transactions()
    open_.begin_transaction()
    open_.send("t", b"y")
    open_.flush()
    admin = KafkaAdminClient(bootstrap_servers=servers)
    asked = (OffsetSpec.EARLIEST, OffsetSpec.LATEST, 1500, 10**14)
    assert [tuple(admin.list_offsets({at: spec})[at]) for spec in asked] == [
        (0, -1),
        (3, -1),
        (1, 2000),
        (-1, -1),
    ]
    assert admin.list_partition_offsets({at: OffsetSpec.LATEST}, "read_committed")[at].offset == 2
    Admin(servers).alter_group_offsets("g", {at: 1})
    Admin(servers).alter_group_offsets("other", {at: 1})
    with pytest.raises(errors.GroupIdNotFoundError, match="'go'"):
        admin.delete_groups("go")
    admin.delete_groups(["g"])
    assert admin.list_groups() == ["other"]
    with pytest.raises(errors.InvalidRequestError, match="-3 is no time"):
        admin.list_offsets({at: -3})
    with pytest.raises(errors.ConfigError, match="isolation_level"):
        admin.list_offsets({at: 0}, "none")
    open_.close()


def test_calls_with_a_timeout():
    store, gate, at = FaultyStore(MemoryStore()), threading.Event(), TopicPartition("t", 0)
    log = Log.create(store)
    with KafkaProducer(bootstrap_servers=log) as producer:
        producer.send("t", b"x", timestamp_ms=1)
    consumer = KafkaConsumer("t", bootstrap_servers=log, group_id="g", auto_offset_reset="earliest")
    consumer.poll(timeout_ms=1000)
    consumer.commit(timeout_ms=60_000)
    assert consumer.committed(at, timeout_ms=60_000) == consumer.position(at, timeout_ms=60_000) == 1
    assert consumer.end_offsets([at], timeout_ms=60_000) == {at: 1}
    assert consumer.beginning_offsets([at], timeout_ms=60_000) == {at: 0}
    assert consumer.offsets_for_times({at: 0}, timeout_ms=60_000)[at].offset == 0
    store.before = lambda operation, _: operation != "create" or gate.wait(30)
    with pytest.raises(KafkaTimeoutError, match=r"commit was not done after 0\.05 s"):
        consumer.commit({at: OffsetAndMetadata(0)}, timeout_ms=50)
    with pytest.raises(KafkaTimeoutError, match="call it again to wait longer"):
        consumer.commit({at: OffsetAndMetadata(0)}, timeout_ms=50)
    gate.set()
    consumer.commit({at: OffsetAndMetadata(0)}, timeout_ms=60_000)
    assert consumer.committed(at, timeout_ms=60_000) == 0


def test_a_time_that_ran_out_inside_of_a_call_is_not_said_to_be_its_timeout():
    def call():
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        within(PROCESS, 60.0, call, "flush")


def test_a_listener_may_call_with_a_timeout():
    log, at, answers = Log.create(MemoryStore()), TopicPartition("t", 0), []
    with KafkaProducer(bootstrap_servers=log) as producer:
        producer.send("t", b"x")

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            pass

        def on_partitions_assigned(self, assigned):
            answers.append(consumer.end_offsets(assigned, timeout_ms=60_000))

    consumer = KafkaConsumer(bootstrap_servers=log, group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["t"], listener=Listener())
    consumer.poll(timeout_ms=1000)
    assert answers == [{at: 1}]
    consumer.close()


def test_errors_have_kafkas_root():
    assert issubclass(KafkaTimeoutError, KafkaError)
