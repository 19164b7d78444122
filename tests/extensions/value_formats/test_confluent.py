"""Confluent's wire format, held against Confluent's own serializers, and against bytes that they wrote.

The serializers need packages beside confluent-kafka (its extras ``avro`` and ``json``). Where these are missing, the
bytes that they wrote once are compared, which are in this file:
``python -m tests.extensions.value_formats.test_confluent`` writes them.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError, RecordDeserializationError, SchemaRegistryError
from spark_eos.extensions.value_formats import registry as registries
from spark_eos.extensions.value_formats.registry import Registry
from spark_eos.log.log import Log
from spark_eos.log.topics import codec_of
from spark_eos.storage import MemoryStore
from tests.extensions.value_formats.registry_server import RegistryServer
from tests.extensions.value_formats.schemas import EVERY, example, of

NUMBER = of("Number", [{"name": "n", "type": "long"}])
WIDER = of("Number", [{"name": "n", "type": "double"}, {"name": "unit", "type": "string", "default": "m"}])
PERSON = {
    "type": "object",
    "title": "Person",
    "properties": {"name": {"type": "string"}, "age": {"type": ["null", "integer"]}},
    "required": ["name"],
}
HEADER = b"\x00\x00\x00\x00\x64"  # The registry of the tests gives the id 100 first.

SAMPLE = bytes.fromhex(
    "000000006401ffffffff0ffeffffffffffffffff010000003f9c7500883ce4377e0400ff146e61c3af766520e2989561"
    "626364020402ffffffffffffffffff01000404020261000000000202610200000000000000f83f020000000000000440"
    "0000000279000a04808080808040040874657874020000000000000000c902f8bbc60388e3c3de1b01aac4daa2e8beb0"
    "06aab4fab2acbf8fe93180f397b1c168ffffddf2dfffdfdc014866383164346661652d376465632d313164302d613736"
    "352d30306130633931653662663620b4c4b357a5793b85f675ddc000000001ff172b5af0010100000002000000030000"
    "000e61732074657874"
)
"""`example()` as confluent-kafka 2.16.1 wrote it, with `EVERY`."""

JSON_SAMPLE = bytes.fromhex("00000000647b226e616d65223a225a6fc3ab222c22616765223a377d")
"""A person as its JSONSerializer wrote it."""


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(registries, "_PAUSES_S", (0.0,))
    with RegistryServer() as server:
        yield server


def confluent(registry):
    """Confluent's client, or a skip with the reason."""
    module = pytest.importorskip(
        "confluent_kafka.schema_registry",
        reason="Confluent's serializers need confluent-kafka[avro,json]",
        exc_type=ImportError,
    )
    return module.SchemaRegistryClient({"url": registry.url})


def context():
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext("orders", MessageField.VALUE)


def codec(config, **of_the_reader):
    log = Log.create(MemoryStore())
    Admin(log).create_topic("orders", config=config)
    return codec_of(log.topic("orders"), **of_the_reader)


def test_what_confluents_serializer_writes_is_read(registry):
    client = confluent(registry)
    from confluent_kafka.schema_registry.avro import AvroSerializer

    data = AvroSerializer(client, json.dumps(EVERY))(example(), context())
    assert data == SAMPLE, (
        "another version writes other bytes: python -m tests.extensions.value_formats.test_confluent"
    )
    number = registry.subjects["orders-value"][0]
    found = codec(
        {"value.format": "avro-confluent", "value.schema": json.dumps(EVERY), "value.schema.id": number}
    )
    assert found.decode(data) == {**example(), "uuid": found.decode(data)["uuid"]}


def test_what_is_written_here_confluents_deserializer_reads(registry):
    client = confluent(registry)
    from confluent_kafka.schema_registry.avro import AvroDeserializer

    config = {
        "value.format": "avro-confluent",
        "value.schema": json.dumps(EVERY),
        "schema.registry.url": registry.url,
    }
    ours = codec(config)
    theirs = AvroDeserializer(client)
    value = example()
    read = theirs(ours.encode(value), context())
    assert {**read, "uuid": str(read["uuid"])} == value
    columns, _ = ours.decode_columns(pa.array([ours.encode(value)], pa.binary()), ours.fields)
    batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in ours.fields])
    encoded, problems = ours.encoder(batch.schema)(batch)
    assert not problems
    read = theirs(encoded[0].as_py(), context())
    assert {**read, "uuid": str(read["uuid"])} == value


def test_json_of_confluents_serializer_there_and_back(registry):
    client = confluent(registry)
    module = pytest.importorskip("confluent_kafka.schema_registry.json_schema", exc_type=ImportError)
    text = json.dumps(PERSON)
    ours = codec(
        {"value.format": "json-confluent", "value.schema": text, "schema.registry.url": registry.url}
    )
    data = module.JSONSerializer(text, client)({"name": "Zoë", "age": 7}, context())
    assert data == JSON_SAMPLE
    assert ours.decode(data) == {"name": "Zoë", "age": 7}
    assert module.JSONDeserializer(text, schema_registry_client=client)(
        ours.encode({"name": "Zoë"}), context()
    ) == {"name": "Zoë"}


def test_the_sample_is_read_without_confluents_packages():
    found = codec(
        {"value.format": "avro-confluent", "value.schema": json.dumps(EVERY), "value.schema.id": 100}
    )
    assert SAMPLE[:5] == HEADER
    value = found.decode(SAMPLE)
    assert {**value, "uuid": str(value["uuid"])} == example()
    assert found.encode(example()) == SAMPLE
    columns, problems = found.decode_columns(pa.array([SAMPLE, SAMPLE]), found.fields)
    assert not problems
    batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in found.fields])
    assert found.encoder(batch.schema)(batch)[0].to_pylist() == [SAMPLE, SAMPLE]
    person = codec(
        {"value.format": "json-confluent", "value.schema": json.dumps(PERSON), "value.schema.id": 100}
    )
    assert person.decode(JSON_SAMPLE) == {"name": "Zoë", "age": 7}
    assert json.loads(person.encode({"name": "Zoë", "age": 7})[5:]) == {"name": "Zoë", "age": 7}


# -- The registry -----------------------------------------------------------------------------------------


def test_a_topic_takes_the_newest_schema_of_its_subject(registry):
    registry.add("orders-value", NUMBER)
    number = registry.add("orders-value", WIDER)
    admin = Admin("memory://newest")
    admin.create_topic(
        "orders", config={"value.format": "avro-confluent", "schema.registry.url": registry.url}
    )
    config = admin.describe_topic("orders").config
    assert (json.loads(config["value.schema"]), config["value.schema.id"]) == (WIDER, str(number))
    newer = registry.add(
        "orders-value", of("Number", [*WIDER["fields"], {"name": "x", "type": "int", "default": 0}])
    )
    again = {"value.format": "avro-confluent", "value.schema": None, "value.schema.id": None}
    admin.alter_topic("orders", config=again)
    assert admin.describe_topic("orders").config["value.schema.id"] == str(newer)
    with pytest.raises(ConfigError, match=r"has no subject 'others-value': give value.schema"):
        admin.create_topic(
            "others", config={"value.format": "avro-confluent", "schema.registry.url": registry.url}
        )
    assert admin.list_topics() == ["orders"]


def test_a_schema_that_is_no_such_value_is_not_taken(registry):
    registry.add("orders-value", PERSON, "JSON")
    registry.add("inner", of("Inner", []))
    to_inner = [{"name": "Inner", "subject": "inner", "version": 1}]
    registry.add("items-value", of("Outer", [{"name": "i", "type": "Inner"}]), references=to_inner)
    admin = Admin("memory://not-taken")
    config = {"value.format": "avro-confluent", "schema.registry.url": registry.url}
    for topic, says in (("orders", "is JSON"), ("items", "refers to other schemas")):
        with pytest.raises(ConfigError, match=f"the newest schema of subject '{topic}-value' {says}"):
            admin.create_topic(topic, config=config)


def test_a_schema_with_an_id_is_not_registered(registry):
    """Its subject may be another one, and the program may have no right to add to any."""
    admin = Admin("memory://has-an-id")
    config = {"value.format": "avro-confluent", "value.schema": json.dumps(NUMBER), "value.schema.id": 7}
    admin.create_topic("orders", config={**config, "schema.registry.url": registry.url})
    admin.alter_topic("orders", config={"value.format": "avro-confluent"})
    assert (admin.describe_topic("orders").config["value.schema.id"], registry.calls) == ("7", [])


def test_a_json_schema_is_registered_as_one(registry):
    asked = Registry(registry.url)
    number = asked.register("orders-value", json.dumps(PERSON), "JSON")
    assert asked.schema(number).kind == "JSON"
    config = {"value.format": "avro-confluent", "value.schema": json.dumps(NUMBER), "value.schema.id": 5}
    found = codec({**config, "schema.registry.url": registry.url})
    with pytest.raises(ValueError, match=rf"the schema with id {number} is not Avro, but JSON"):
        found.decode(b"\x00" + number.to_bytes(4, "big") + b"\x02")


def test_schemas_are_registered_and_looked_up_once(registry):
    admin = Admin("memory://registered")
    config = {
        "value.format": "avro-confluent",
        "value.schema": json.dumps(NUMBER),
        "schema.registry.url": registry.url,
    }
    admin.create_topic("orders", config=config)
    with Producer("memory://registered") as producer:
        producer.send("orders", {"n": 1})
    admin.alter_topic("orders", config={"value.schema": json.dumps(WIDER)})
    found = admin.describe_topic("orders").config
    assert found["value.schema.id"] == "101"
    assert json.loads(found["value.writer.schemas"]) == {"100": NUMBER}
    assert [*registry.subjects] == ["orders-value"]
    with Producer("memory://registered") as producer:
        producer.send("orders", {"n": 2.5, "unit": "km"})
        # A third program has registered one more, of which the topic does not know.
        other = registry.add("orders-value", of("Number", [{"name": "n", "type": "int"}]))
        for _ in range(3):
            producer.send("orders", b"\x00" + other.to_bytes(4, "big") + b"\x08")
    consumer = Consumer("memory://registered", {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", 0)])
    registry.down = 503
    assert len(consumer.poll()) == 2
    with pytest.raises(SchemaRegistryError, match="HTTP 503"):
        consumer.poll()
    registry.down, before = 0, len(registry.calls)
    consumer.seek_to_beginning()
    four = {"n": 4.0, "unit": "m"}
    assert [record.value for record in consumer.poll()] == [
        {"n": 1.0, "unit": "m"},
        {"n": 2.5, "unit": "km"},
        four,
        four,
        four,
    ]
    assert registry.calls[before:] == [("GET", f"/schemas/ids/{other}")]


def test_schemas_that_refer_to_others(registry):
    inner = of("org.Inner", [{"name": "x", "type": "int"}])
    registry.add("inner", inner)
    outer = of("Outer", [{"name": "i", "type": "org.Inner"}])
    number = registry.add(
        "orders-value", outer, references=[{"name": "org.Inner", "subject": "inner", "version": 1}]
    )
    own = of("Outer", [{"name": "i", "type": inner}])
    found = codec(
        {
            "value.format": "avro-confluent",
            "value.schema": json.dumps(own),
            "value.schema.id": 5,
            "schema.registry.url": registry.url,
        }
    )
    data = b"\x00" + number.to_bytes(4, "big") + b"\x0e"
    assert found.decode(data) == {"i": {"x": 7}}
    columns, problems = found.decode_columns(pa.array([data]), found.fields)
    assert not problems
    assert columns[0].to_pylist() == [{"x": 7}]


def test_a_schema_of_a_schema_that_another_one_refers_to(registry):
    registry.add("common/inner", of("Inner", [{"name": "x", "type": "int"}]))
    to_inner = [{"name": "Inner", "subject": "common/inner", "version": 1}]
    registry.add("middle", of("Middle", [{"name": "i", "type": "Inner"}]), references=to_inner)
    to_middle = [{"name": "Middle", "subject": "middle", "version": 1}]
    outer = registry.add("orders-value", of("Outer", [{"name": "m", "type": "Middle"}]), references=to_middle)
    found = Registry(registry.url).schema(outer)
    assert [json.loads(text)["name"] for text in found.references] == ["Inner", "Middle"]


def test_replies_that_refuse_are_closed(registry, monkeypatch):
    """Each holds a connection until then."""
    refused, urlopen = [], urllib.request.urlopen

    def asked(*arguments, **named):
        try:
            return urlopen(*arguments, **named)
        except urllib.error.HTTPError as error:
            refused.append(error)
            raise

    monkeypatch.setattr(urllib.request, "urlopen", asked)
    test_a_registry_that_fails_makes_no_dead_letters(registry)
    assert {one.code for one in refused} == {401, 404, 503}
    assert all(one.fp.closed for one in refused)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"down": 503, "is_cut": True}, "HTTP 503"),
        ({"down": 429}, "HTTP 429"),
        ({"down": 404}, "HTTP 404 .*it is no answer of a registry"),
        ({"down": 404, "is_cut": True}, "HTTP 404"),
        ({"is_cut": True}, "IncompleteRead"),
    ],
)
def test_a_reply_that_may_be_another_one_soon(registry, wrong, reason):
    vars(registry).update(wrong)
    number = registry.add("orders-value", NUMBER)
    with pytest.raises(SchemaRegistryError, match=rf"GET /schemas/ids/{number}: {reason}"):
        Registry(registry.url).schema(number)
    assert len(registry.calls) == 2, "it was asked again"


def test_a_refusal_that_is_cut(registry):
    registry.is_cut, registry.user_info = True, "a:b"
    with pytest.raises(ConfigError, match="HTTP 401"):
        Registry(registry.url).register("orders-value", json.dumps(NUMBER), "AVRO")


def test_credentials_are_not_sent_on(registry):
    """A registry, or what is in its place, may redirect to any other host."""
    number = registry.add("orders-value", NUMBER)
    with RegistryServer() as front:
        front.elsewhere = registry.url
        assert Registry(front.url, "me:secret").schema(number).text == json.dumps(NUMBER)
        assert front.authorizations != [None]
    assert registry.authorizations == [None]


def test_a_reader_asks_the_registry_that_it_was_given(registry):
    """The one that the topic names may be out of its reach."""
    registry.user_info = "me:secret"
    number = registry.add("orders-value", NUMBER)
    with RegistryServer() as of_the_topic:
        config = {
            "value.format": "avro-confluent",
            "value.schema": json.dumps(WIDER),
            "value.schema.id": 5,
            "schema.registry.url": of_the_topic.url,
        }
        found = codec(config, user_info="me:secret", registry_url=registry.url)
        assert found.decode(b"\x00" + number.to_bytes(4, "big") + b"\x02") == {"n": 1.0, "unit": "m"}
        assert of_the_topic.calls == []


@pytest.mark.parametrize("instead", [[1], {"message": "log in"}, "down for repair"])
def test_a_reply_of_something_else(registry, instead):
    """A proxy may answer in place of the registry."""
    number, registry.instead = registry.add("orders-value", NUMBER), instead
    found = Registry(registry.url)
    for ask in (
        lambda: found.schema(number),
        lambda: found.latest("orders-value"),
        lambda: found.register("orders-value", json.dumps(NUMBER), "AVRO"),
    ):
        with pytest.raises(SchemaRegistryError, match="it is no answer of a registry"):
            ask()


@pytest.mark.parametrize(
    "instead",
    [
        {"schema": 5, "id": "x"},
        {"schema": '"int"', "id": "x", "references": 5},
        {"schema": '"int"', "id": None, "references": [{"name": "a"}]},
    ],
)
def test_a_reply_that_makes_no_sense(registry, instead):
    number, registry.instead = registry.add("orders-value", NUMBER), instead
    found = Registry(registry.url)
    for ask in (
        lambda: found.schema(number),
        lambda: found.latest("orders-value"),
        lambda: found.register("orders-value", json.dumps(NUMBER), "AVRO"),
    ):
        with pytest.raises(SchemaRegistryError, match="an answer that makes no sense"):
            ask()


def test_a_registry_that_fails_makes_no_dead_letters(registry):
    """What cannot be looked up now is not broken: an error of the whole read, also where broken values are allowed."""
    found = codec(
        {
            "value.format": "avro-confluent",
            "value.schema": json.dumps(NUMBER),
            "value.schema.id": 5,
            "schema.registry.url": registry.url,
        }
    )
    data = pa.array([b"\x00\x00\x00\x00\x77\x02"])
    _, problems = found.decode_columns(data, found.fields)
    assert "the topic has no schema with id 119, and http://127" in problems.reasons[0]
    registry.down = 503
    with pytest.raises(SchemaRegistryError, match=r"HTTP 503.*value.writer.schemas"):
        found.decode_columns(data, found.fields)
    with pytest.raises(SchemaRegistryError):
        found.decode(data[0].as_py())
    registry.down, registry.user_info = 0, "a:b"
    with pytest.raises(ConfigError, match=r"HTTP 401.*schema.registry.basic.auth.user.info"):
        found.decode_columns(data, found.fields)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:8081", "expected a URL"),
        ("http://me:secret@host", "user and password"),
        ("http://host/?token=secret", "'http://host/' has a query or a fragment"),
        ("ftp://x", "expected a URL"),
        ("http://[::1", "expected a URL"),
        ("http://localhost:99999", "expected a URL"),
    ],
)
def test_urls(url, says):
    config = {"value.format": "avro-confluent", "value.schema": '"int"', "value.schema.id": 1}
    with pytest.raises(ConfigError, match=says):
        Admin("memory://urls").create_topic("t", config={**config, "schema.registry.url": url})


def test_the_consumer_names_the_record():
    admin = Admin("memory://named")
    admin.create_topic(
        "orders",
        config={"value.format": "avro-confluent", "value.schema": json.dumps(NUMBER), "value.schema.id": 1},
    )
    with Producer("memory://named") as producer:
        producer.send("orders", {"n": 1})
        producer.send("orders", b"\x00\x00\x00\x00\x02\x02")
    consumer = Consumer("memory://named", {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", 0)])
    assert [record.value for record in consumer.poll()] == [{"n": 1}]
    with pytest.raises(
        RecordDeserializationError, match=r"orders-0 at offset 1.*no schema with id 2"
    ) as caught:
        consumer.poll()
    assert (caught.value.topic_partition, caught.value.offset) == (TopicPartition("orders", 0), 1)


if __name__ == "__main__":
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    with RegistryServer() as server:
        made = AvroSerializer(SchemaRegistryClient({"url": server.url}), json.dumps(EVERY))
        print(made(example(), context()).hex())  # noqa: T201
    with RegistryServer() as server:
        made = JSONSerializer(json.dumps(PERSON), SchemaRegistryClient({"url": server.url}))
        print(made({"name": "Zoë", "age": 7}, context()).hex())  # noqa: T201
