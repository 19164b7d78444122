"""The admin client: topics, transactions and groups of a log."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.clients.admin.resources import ConfigResource, NewTopic, OffsetSpec
from spark_eos.errors import (
    ConfigError,
    InvalidRequestError,
    NotALogError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    SchemaMismatchError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from spark_eos.storage import MemoryStore
from tests.maintenance.world import created

T0 = TopicPartition("t", 0)
NAMES = (f"memory://admin-{number}" for number in itertools.count())


@pytest.fixture
def url():
    return next(NAMES)


@pytest.fixture
def admin(url):
    with Admin(url) as admin:
        admin.create_topic("t", 2)
        yield admin


def open_transaction(url, transactional_id="app"):
    producer = Producer(url, {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x", partition=0)
    producer.flush()
    return producer


def test_topics(admin):
    admin.create_topic("a", config={"retention.ms": 5})
    assert admin.list_topics() == ["a", "t"]
    with pytest.raises(TopicExistsError, match="'t'"):
        admin.create_topic("t")
    with pytest.raises(ConfigError, match=r"did you mean retention\.ms"):
        admin.create_topic("b", config={"retention.msx": 5})
    admin.delete_topic("t")
    assert admin.list_topics() == ["a"]
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_topic("t")
    admin.delete_topics(["a", "a"])
    assert admin.list_topics() == []


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_is_to_be_created_twice(url, validate_only):
    with pytest.raises(InvalidRequestError, match="topic 'b' is named twice"):
        Admin(url).create_topics(["a", "b", "b"], validate_only=validate_only)
    with pytest.raises(NotALogError):
        Admin(url).list_topics()


@pytest.mark.parametrize("given", [("bad/name", 1), ("..", 1), ("t", 0), ("t", -2)], ids=str)
@pytest.mark.parametrize(
    "create",
    [
        lambda admin, name, partitions: admin.create_topic(name, partitions),
        lambda admin, name, partitions: admin.create_topics({name: {"num_partitions": partitions}}),
        lambda admin, name, partitions: admin.create_topics([NewTopic(name, partitions)], validate_only=True),
    ],
    ids=["create_topic", "create_topics", "validate_only"],
)
def test_no_log_is_created_for_a_topic_that_is_refused(url, create, given):
    with pytest.raises(InvalidRequestError, match=f"topic.*{given[0]}"):
        create(Admin(url), *given)
    with pytest.raises(NotALogError):
        Admin(url).list_topics()


def test_description(url, admin):
    open_transaction(url)
    described = admin.describe_topic("t")
    assert [(p.partition, p.start, p.end, p.lso) for p in described.partitions] == [
        (0, 0, 1, 0),
        (1, 0, 0, 0),
    ]
    assert (described.name, described.config, described.schema) == ("t", {}, None)


@pytest.mark.parametrize("validate_only", [False, True])
def test_partitions_that_are_not_more(admin, validate_only):
    for count in (2, 1):
        with pytest.raises(InvalidRequestError, match=f"topic 't' has 2 partitions: {count} are not more"):
            admin.create_partitions({"t": count}, validate_only=validate_only)
    assert len(admin.describe_topic("t").partitions) == 2


def test_altering(admin):
    admin.create_topic(
        "a", config={"retention.ms": 5, "segment.ms": 6}, schema=pa.schema([("id", pa.int64())])
    )
    admin.alter_topic("a", partitions=3, config={"retention.ms": None, "segment.bytes": 7})
    described = admin.describe_topic("a")
    assert len(described.partitions) == 3
    assert described.config == {"segment.ms": "6", "segment.bytes": "7"}
    wider = pa.schema([("id", pa.int64()), ("name", pa.string())])
    admin.alter_topic("a", schema=wider)
    assert admin.describe_topic("a").schema == wider
    with pytest.raises(SchemaMismatchError, match="'name'"):
        admin.alter_topic("a", schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidRequestError, match="3 partitions"):
        admin.alter_topic("a", partitions=2)
    with pytest.raises(ConfigError, match="'retention'"):
        admin.alter_topic("a", config={"retention": None})
    with pytest.raises(InvalidRequestError, match="Kafka-shaped"):
        admin.alter_topic("t", schema=wider)


def test_transactions(url, admin):
    open_transaction(url)
    (listed,) = admin.list_transactions()
    assert listed == admin.describe_transaction("app")
    assert (listed.transactional_id, listed.state, listed.timeout_ms) == ("app", "Ongoing", 900_000)
    assert (listed.epoch, listed.number, listed.partitions) == (0, 0, [T0])
    (writer,) = admin.describe_producers("t", 0)
    assert (writer.producer_id, writer.last_sequence, writer.transaction_start) == (listed.producer_id, 0, 0)
    assert admin.describe_producers("t", 1) == []
    with pytest.raises(InvalidRequestError, match="'nobody'"):
        admin.describe_transaction("nobody")


def test_aborting_fences_the_producer(url, admin):
    producer = open_transaction(url)
    admin.abort_transaction("app")
    assert admin.describe_transaction("app").state == "CompleteAbort"
    assert admin.describe_topic("t").partitions[0].lso == 2
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    with pytest.raises(InvalidRequestError, match="no open transaction"):
        admin.abort_transaction("app")


def test_fencing(url, admin):
    producer = open_transaction(url)
    admin.fence_producers(["app", "new"])
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    assert [t.transactional_id for t in admin.list_transactions()] == ["app", "new"]
    assert admin.describe_transaction("app").timeout_ms == 900_000


def test_deleting_records(url, admin):
    with Producer(url) as producer:
        for value in "abc":
            producer.send("t", value, partition=0)
    assert admin.delete_records({T0: 2}) == {T0: 2}
    with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])
        assert [record.value for record in consumer.poll()] == [b"c"]
    assert admin.delete_records({T0: 1}) == {T0: 2}
    assert admin.delete_records({T0: -1}) == {T0: 3}
    with pytest.raises(OffsetOutOfRangeError, match="offset 4"):
        admin.delete_records({T0: 4})


def test_groups(admin):
    assert admin.list_groups() == []
    admin.alter_group_offsets("g", {T0: 0, TopicPartition("t", 1): OffsetAndMetadata(3, "note")})
    assert admin.list_groups() == ["g"]
    assert admin.list_group_offsets("g") == {
        T0: OffsetAndMetadata(0),
        TopicPartition("t", 1): OffsetAndMetadata(3, "note"),
    }
    assert admin.list_group_offsets("nobody") == {}
    with pytest.raises(UnknownTopicOrPartitionError, match="'u'"):
        admin.alter_group_offsets("g", {TopicPartition("u", 0): 1})


CALLS = {
    "list_topics": (),
    "describe_topic": ("t",),
    "delete_topic": ("t",),
    "alter_topic": ("t", 2),
    "list_transactions": (),
    "describe_transaction": ("x",),
    "describe_producers": ("t", 0),
    "fence_producers": (["x"],),
    "abort_transaction": ("x",),
    "abort_transaction_at": (T0, 0),
    "resolve_transactions": (),
    "force_terminate_transaction": ("x",),
    "find_hanging_transactions": (),
    "delete_records": ({T0: 1},),
    "delete_topics": (["t"],),
    "describe_topics": (),
    "create_partitions": ({"t": 2},),
    "describe_configs": (["t"],),
    "alter_configs": ([ConfigResource("topic", "t", {})],),
    "list_offsets": ({T0: 0},),
    "list_groups": (),
    "list_group_offsets": ("g",),
    "alter_group_offsets": ("g", {T0: 1}),
    "describe_group": ("g",),
    "describe_groups": (),
    "delete_group": ("g",),
    "delete_group_offsets": ("g", [T0]),
    "remove_members_from_group": ("g",),
    "describe_log": (),
    "alter_log": ({},),
    "expire": (),
    "describe_clock": (),
    "mend_clock": (),
    "move_data": ("",),
    "note_backup": (),
    "note_verify": (True,),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_log_is_not_created(name, tmp_path):
    with pytest.raises(NotALogError):
        getattr(Admin(tmp_path / "none"), name)(*CALLS[name])
    assert not (tmp_path / "none").exists()


def test_no_call_is_left_out_above():
    public = {name for name in dir(Admin) if not name.startswith("_")}
    assert public == {*CALLS, "create_topic", "create_topics", "reset_group_offsets", "close"}


def test_resetting_does_not_create_a_log_either(tmp_path):
    with pytest.raises(NotALogError):
        Admin(tmp_path / "none").reset_group_offsets("g", [T0], to_earliest=True)


@pytest.mark.parametrize("spec", ["latest", None, (1,), float("nan"), -3], ids=str)
def test_an_offset_spec_that_is_none(admin, spec):
    with pytest.raises(InvalidRequestError, match=r"^t-0: .* is no time in milliseconds, and neither"):
        admin.list_offsets({T0: spec})


def test_records_before_a_transaction_that_has_timed_out_are_deleted():
    log = created(MemoryStore())
    dead = Producer(log, {"transactional.id": "dead", "transaction.timeout.ms": 1000})
    dead.init_transactions()
    dead.begin_transaction()
    dead.send("t", b"x")
    dead.flush()
    assert log.expire_overdue() == (), "it is watched from now on"
    assert Admin(log).delete_records({T0: -1}) == {T0: 0}, "what is stable"
    log.clock.now += 3600
    assert Admin(log).delete_records({T0: -1}) == {T0: 2}, "the record, and the control batch that ends it"


COMMITTED = {"isolation_level": "read_committed"}


@pytest.mark.parametrize(
    ("look", "found"),
    [
        (lambda log: Admin(log).reset_group_offsets("g", [T0], to_latest=True)[T0], 3),
        (lambda log: Admin(log).list_offsets({T0: OffsetSpec.LATEST}, "read_committed")[T0], (3, -1)),
        (lambda log: Admin(log).list_offsets({T0: 1000}, "read_committed")[T0], (1, 2000)),
        (lambda log: Consumer(log, COMMITTED).end_offsets([T0])[T0], 3),
        (lambda log: Consumer(log, COMMITTED).offsets_for_times({T0: 1000})[T0], (1, 2000)),
    ],
    ids=["reset", "latest", "a time", "end", "times"],
)
def test_records_behind_a_transaction_that_has_timed_out_are_found(look, found):
    log = created(MemoryStore())
    dead = Producer(log, {"transactional.id": "dead", "transaction.timeout.ms": 1000})
    dead.init_transactions()
    dead.begin_transaction()
    dead.send("t", b"x", timestamp_ms=1000)
    dead.flush()
    with Producer(log) as producer:
        producer.send("t", b"y", timestamp_ms=2000)
    log.expire_overdue()
    log.clock.now += 3600
    assert look(log) == found


def test_topics_by_their_options(admin):
    """As kafka-python's admin client takes them, too."""
    schema = pa.schema([("n", pa.int64())])
    admin.create_topics({"a": {"num_partitions": 3, "configs": {"retention.ms": 5}}, "b": {"schema": schema}})
    a, b = admin.describe_topics(["a", "b"])
    assert (len(a.partitions), a.config, a.schema) == (3, {"retention.ms": "5"}, None)
    assert (len(b.partitions), b.config, b.schema.field("n").type) == (1, {}, pa.int64())
