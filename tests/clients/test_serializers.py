"""Serializers and deserializers: functions and objects, of kafka-python and of confluent-kafka."""

from __future__ import annotations

import json
from itertools import count

import pyarrow as pa
import pytest
from confluent_kafka.serialization import StringDeserializer, StringSerializer

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.clients.serialization import SerializationContext
from spark_eos.errors import ConfigError, InvalidRecordError, RecordDeserializationError, SerializationError

T0 = TopicPartition("t", 0)
NUMBERS = count()


@pytest.fixture
def url():
    return f"memory://serializers-{next(NUMBERS)}"


def read(url, **settings):
    with Consumer(url, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([T0])
        return consumer.poll()


def fill(url, *values, **settings):
    with Producer(url, **settings) as producer:
        for value in values:
            producer.send("t", value)


class Json:
    """As kafka-python 2 and the serializers of this package have it: topic and value."""

    def __init__(self):
        self.seen, self.closed = [], 0

    def serialize(self, topic, value):
        self.seen.append(topic)
        return None if value is None else json.dumps(value).encode()

    def deserialize(self, topic, data):
        self.seen.append(topic)
        return None if data is None else json.loads(data)

    def close(self):
        self.closed += 1


class WithHeaders(Json):
    """As kafka-python 3 has it."""

    def serialize(self, topic, headers, data):
        headers.append(("format", b"json"))
        return super().serialize(topic, data)

    def deserialize(self, topic, headers, data):
        assert headers == [("format", b"json")]
        return super().deserialize(topic, data)


class WithContext:
    """As confluent-kafka has it."""

    def __init__(self, name):
        self.name = name

    def __call__(self, value, ctx=None):
        assert isinstance(ctx, SerializationContext)
        assert (ctx.topic, ctx.field) == ("t", self.name)
        return json.loads(value) if isinstance(value, bytes) else json.dumps(value).encode()


@pytest.mark.parametrize("make", [Json, WithHeaders])
def test_objects(url, make):
    there, back = make(), make()
    fill(url, {"a": 1}, None, value_serializer=there)
    assert [record.value for record in read(url, value_deserializer=back)] == [{"a": 1}, None]
    assert there.seen == back.seen == ["t", "t"]
    assert there.closed == back.closed == 1


def test_one_object_for_keys_and_values_is_closed_once(url):
    both = Json()
    fill(url, {"a": 1}, key_serializer=both, value_serializer=both)
    assert both.closed == 1


def test_headers_that_a_serializer_adds_are_stored(url):
    with Producer(url, value_serializer=WithHeaders()) as producer:
        given = [("trace", b"7")]
        producer.send("t", 1, headers=given)
    (record,) = read(url)
    assert record.headers == (("trace", b"7"), ("format", b"json"))
    assert given == [("trace", b"7")]


def test_functions(url):
    with Producer(
        url, key_serializer=str.encode, value_serializer=lambda v: json.dumps(v).encode()
    ) as producer:
        producer.send("t", [1, 2], key="k")
    (record,) = read(url, key_deserializer=bytes.decode, value_deserializer=json.loads)
    assert (record.key, record.value) == ("k", [1, 2])


def test_functions_of_a_context(url):
    with Producer(url, key_serializer=WithContext("key"), value_serializer=WithContext("value")) as producer:
        producer.send("t", [1], key={})
    (record,) = read(url, key_deserializer=WithContext("key"), value_deserializer=WithContext("value"))
    assert (record.key, record.value) == ({}, [1])


def test_those_of_confluent_kafka(url):
    fill(url, "ä", **{"value.serializer": StringSerializer("utf_8")})
    assert [record.value for record in read(url, value_deserializer=StringDeserializer("utf_8"))] == ["ä"]


def test_the_partition_follows_the_bytes_of_the_key(url):
    Admin(url).create_topic("t", 8)
    with Producer(url) as plain, Producer(url, key_serializer=str.encode) as made:
        for key in "abcdefgh":
            assert (
                plain.send("t", b"", key=key.encode()).result().partition
                == made.send("t", b"", key=key).result().partition
            )


def test_none_is_handed_on_like_every_other_value(url):
    fill(url, None, value_serializer=lambda value: repr(value).encode())
    assert [record.value for record in read(url, value_deserializer=lambda data: [data])] == [[b"None"]]


def test_a_serializer_that_fails_sends_nothing(url):
    with Producer(url, value_serializer=lambda value: value["missing"]) as producer:
        with pytest.raises(
            SerializationError, match=r"value\.serializer failed .* 't' .* dict .*KeyError"
        ) as raised:
            producer.send("t", {})
        assert isinstance(raised.value.__cause__, KeyError)
        assert producer.send("t", {"missing": b"1"}).result().offset == 0


def test_a_serializer_s_own_error_is_not_wrapped(url):
    """It says already which record it is about, and what to do."""
    error = SerializationError("a record of topic 't': no such field")

    def refuse(_):
        raise error

    with Producer(url, value_serializer=refuse) as producer, pytest.raises(SerializationError) as raised:
        producer.send("t", {})
    assert raised.value is error


def test_a_serializer_that_gives_no_bytes(url):
    with Producer(url, value_serializer=lambda value: value) as producer, pytest.raises(InvalidRecordError):
        producer.send("t", {})


def test_a_failing_serializer_does_not_spoil_a_transaction(url):
    with Producer(url, transactional_id="t", value_serializer=str.encode) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", "1")
        with pytest.raises(SerializationError):
            producer.send("t", 2)
        producer.commit_transaction()
    assert [record.value for record in read(url)] == [b"1"]


def test_records_before_a_bad_one_come_first_and_no_record_is_passed_over(url):
    Admin(url).create_topic("t", 2)
    with Producer(url) as producer:
        for value in ("1", "bad", "3"):
            producer.send("t", value, partition=0)
            producer.send("t", value.replace("bad", "2"), partition=1)
    with Consumer(url, auto_offset_reset="earliest", value_deserializer=int) as consumer:
        consumer.assign([T0, TopicPartition("t", 1)])
        seen, refused = [], []
        for _ in range(10):
            try:
                seen += [(record.partition, record.value) for record in consumer.poll()]
            except RecordDeserializationError as error:
                refused.append((error.topic_partition, error.offset, consumer.position(T0)))
                consumer.seek(error.topic_partition, error.offset + 1)
    assert sorted(seen) == [(0, 1), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert refused == [(T0, 1, 1)]


def test_rows_of_a_topic_with_a_schema_are_not_bytes(url):
    Admin(url).create_topic("t", schema=pa.schema({"a": pa.int64()}))
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"a": [1]}))
    assert [record.value for record in read(url, value_deserializer=json.loads)] == [{"a": 1}]


def test_what_is_no_serializer(url):
    with pytest.raises(ConfigError, match=r"value\.serializer='json': expected a function, or an object"):
        Producer(url, value_serializer="json")
    with pytest.raises(ConfigError, match=r"it is a class: give an instance, Json\(\.\.\.\)"):
        Consumer("memory://x", value_deserializer=Json)


# -- Keywords ------------------------------------------------------------------------------------------------


def test_settings_by_keyword_and_in_any_spelling(url):
    fill(url, b"1")
    settings = {"group_id": "g", "auto.offset.reset": "earliest"}
    with Consumer(url, settings, enable_auto_commit=False, client_id=None) as consumer:
        consumer.assign([T0])
        assert [record.value for record in consumer.poll()] == [b"1"]
        assert consumer.group_metadata().group_id == "g"


def test_a_setting_twice(url):
    with pytest.raises(ConfigError, match=r"linger\.ms is given twice, as 'linger\.ms' and as 'linger_ms'"):
        Producer(url, {"linger.ms": 5}, linger_ms=6)


def test_an_unknown_keyword(url):
    with pytest.raises(
        ConfigError, match=r"unknown consumer setting 'auto_ofset_reset'.*auto\.offset\.reset"
    ):
        Consumer(url, auto_ofset_reset="earliest")
    with pytest.raises(ConfigError, match=r"s3\.regio"):
        Admin("s3://bucket/log", **{"s3.regio": "x"})
