"""Calls as other clients of Kafka spell them end where they are typed, with an error that has the right call."""

from __future__ import annotations

import re

import pytest

from spark_eos import Admin, Consumer, ConsumerGroupMetadata, Producer, TopicPartition
from spark_eos.clients.admin.resources import NewPartitions
from spark_eos.errors import ConfigError, InvalidRequestError

LOG = "memory://other-spellings"
T0 = TopicPartition("t", 0)


class Place:
    """confluent-kafka's TopicPartition is no tuple."""

    topic, partition, offset = "t", 0, 5

    def __repr__(self):
        return "Place()"


@pytest.fixture(scope="module")
def log():
    Admin(LOG).create_topic("t")
    with Producer(LOG) as producer:
        producer.send("t", b"x")
    return LOG


# -- Constructors -------------------------------------------------------------------------------------------


WITHOUT_A_LOG = pytest.mark.parametrize(
    ("arguments", "settings", "what"),
    [
        ([{"bootstrap.servers": "k:9092"}], {}, "was given a dict (bootstrap.servers) in place of a log"),
        ([], {"bootstrap_servers": "k:9092"}, "was given no log"),
        ([], {}, "was given no log"),
        ([None], {}, "was given no log"),
        ([""], {}, "was given no log"),
        (["k:9092"], {}, "was given the server 'k:9092', and there are no servers"),
        (["k1:9092,k2:9092"], {}, "was given the server 'k1:9092,k2:9092'"),
        ([["k:9092"]], {}, "was given ['k:9092'] in place of a log"),
        (["t", LOG], {}, f"was given '{LOG}' in place of a dict of settings"),
    ],
)


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
@WITHOUT_A_LOG
def test_a_client_without_a_log(client, arguments, settings, what):
    is_refused_without_a_log(client, arguments, settings, what)


def is_refused_without_a_log(client, arguments, settings, what):
    with pytest.raises(ConfigError, match=re.escape(f"{client.__name__} {what}")) as raised:
        client(*arguments, **settings)
    assert f"{client.__name__}('/data/log', {{...}})" in str(raised.value)


def test_servers_beside_a_log_are_to_be_left_out(log):
    for client in (Producer, Consumer):
        with pytest.raises(ConfigError, match=r"bootstrap\.servers.*leave out"):
            client(log, {"bootstrap.servers": "k:9092"})


def test_a_path_with_a_colon_may_be_a_log(tmp_path):
    with Producer(f"{tmp_path}/k:9092") as producer:
        producer.send("t", b"x")
    assert (tmp_path / "k:9092").is_dir()


# -- Calls of another name ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "name", "says"),
    [
        (Producer, "produce", "call send(topic, value=None, key=None,"),
        (Producer, "produce_batch", "call send_arrow(topic, rows"),
        (Producer, "list_topics", "call partitions_for(topic)"),
        (Producer, "poll", "not needed: the thread that sends calls `on_delivery`"),
        (Consumer, "consume", "call poll(timeout_ms=0, max_records=None)"),
        (Consumer, "list_topics", "call topics()"),
        (Consumer, "store_offsets", "call commit(offsets=None)"),
        (Consumer, "get_watermark_offsets", "call end_offsets(partitions)"),
        (Admin, "list_consumer_groups", "call list_groups()"),
        (Admin, "create_acls", "not there: the store decides"),
    ],
)
def test_a_call_that_has_another_name_here(log, client, name, says):
    has_another_name(log, client, name, says)


def has_another_name(log, client, name, says):
    made = client(log)
    assert not hasattr(made, name)
    with pytest.raises(AttributeError, match=re.escape(says)) as raised:
        getattr(made, name)
    assert f"'{client.__name__}' object has no attribute '{name}'" in str(raised.value)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        made.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["error", "value", "topic"])
def test_poll_returns_no_message(log, name):
    with Consumer(log) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        with pytest.raises(AttributeError, match="poll returns a list of records"):
            getattr(consumer.poll(), name)


# -- Arguments ----------------------------------------------------------------------------------------------


@pytest.fixture
def consumer(log):
    with Consumer(log, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        yield consumer


@pytest.mark.parametrize("wrong", [Place(), "t", 5, ("t",), ("t", "0"), ("t", True)], ids=repr)
@pytest.mark.parametrize(
    "name", ["position", "highwater", "pause", "assign", "committed", "end_offsets", "seek"]
)
def test_what_is_no_partition(consumer, name, wrong):
    call = getattr(consumer, name)
    given = {"seek": (wrong, 0), "position": (wrong,), "highwater": (wrong,), "pause": (wrong,)}
    with pytest.raises(InvalidRequestError, match=r"TopicPartition\(topic, partition\)"):
        call(*given.get(name, ([wrong],)))


def test_one_partition_is_no_list(consumer):
    for call in (consumer.assign, consumer.end_offsets, consumer.beginning_offsets):
        with pytest.raises(InvalidRequestError, match=r"is no list of partitions: give \[TopicPartition"):
            call(T0)


@pytest.mark.parametrize("wrong", [[Place()], [T0], Place(), 5, {"t": 5}, {5: 5}, {Place(): 5}], ids=repr)
def test_offsets_are_a_dict_by_partition(log, consumer, wrong):
    admin = Admin(log)
    producer = Producer(log, {"transactional.id": "spelling"})
    producer.init_transactions()
    producer.begin_transaction()
    for call in (
        consumer.commit,
        consumer.commit_async,
        consumer.offsets_for_times,
        lambda offsets: producer.send_offsets_to_transaction(offsets, "g"),
        lambda offsets: admin.alter_group_offsets("g", offsets),
        admin.delete_records,
        admin.list_offsets,
    ):
        with pytest.raises(InvalidRequestError, match=r"TopicPartition\(topic, partition\)"):
            call(wrong)
    producer.abort_transaction()
    producer.close()


def test_a_group_is_its_metadata_or_its_id(log):
    with Producer(log, {"transactional.id": "spelling"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for wrong in (5, ("g",), None):
            with pytest.raises(InvalidRequestError, match=r"give consumer\.group_metadata\(\)"):
                producer.send_offsets_to_transaction({T0: 1}, wrong)
        with pytest.raises(ConfigError, match="needs the id of a consumer group"):
            producer.send_offsets_to_transaction({T0: 1}, "")
        producer.send_offsets_to_transaction({T0: 1}, ConsumerGroupMetadata("other"))
        producer.commit_transaction()
    assert Admin(log).list_group_offsets("other")[T0].offset == 1


def test_a_time_is_a_number(consumer):
    with pytest.raises(InvalidRequestError, match="the time of t-0 is 'now'"):
        consumer.offsets_for_times({T0: "now"})


def test_calls_of_the_admin_client(log):
    admin = Admin(log)
    for call, given, says in (
        (
            admin.create_partitions,
            ("t", 2),
            "topic_partitions='t'; expected a dict of text to a whole number",
        ),
        (admin.create_partitions, ([NewPartitions(2)],), "expected a dict of text to a whole number"),
        (admin.create_partitions, ({"t": "2"},), "topic 't': '2' is no number of partitions"),
        (admin.create_topics, ([Place()],), r"NewTopic\(name, num_partitions\)"),
        (admin.create_topic, (["t"],), r"create_topic: name=\['t'\]; expected text"),
        (admin.describe_configs, ([Place()],), r"ConfigResource\('topic', name\)"),
        (admin.alter_configs, ([5],), r"ConfigResource\('topic', name\)"),
        (admin.delete_group_offsets, ("other", [5]), r"TopicPartition\(topic, partition\)"),
    ):
        with pytest.raises(InvalidRequestError, match=says):
            call(*given)


def test_topics_are_names(log):
    consumer = Consumer(log, group_id="h")
    for wrong in (5, None):
        with pytest.raises(InvalidRequestError, match="are no topics: give a list of names"):
            consumer.subscribe(wrong)
