"""Values that programs make and clients take: one with a field of another type is refused by the field's own name."""

from __future__ import annotations

import inspect
from datetime import date, timedelta
from enum import Enum, IntEnum

import numpy as np
import pyarrow as pa
import pytest

from spark_eos import (
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTxnState,
    Producer,
    TopicPartition,
)
from spark_eos.clients.validation import check_headers
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTxnStateError,
    RecordTooLargeError,
)
from spark_eos.log.data import writer
from spark_eos.log.data.arrow import bytes_of_rows
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore

T0 = TopicPartition("topic", 0)


def kind(value):
    """An id that is the same in each process."""
    return type(value).__name__


@pytest.fixture
def log():
    log = Log.create(MemoryStore())
    log.ensure_topic("topic")
    return log


@pytest.fixture
def producer(log):
    settings = {"transactional.id": "till-1", "transaction.two.phase.commit.enable": True}
    with Producer(log, settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        yield producer


METADATA = r"the metadata of the offset of topic-0 is 5: it has to be text, as in OffsetAndMetadata\(offset, metadata"
OFFSET = "the offset of topic-0 is '1': it has to be a whole number"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (OffsetAndMetadata(1, 5), METADATA),
        (OffsetAndMetadata("1"), OFFSET),
        ("1", OFFSET),
        (None, "the offset of topic-0 is None"),
        (1.5, r"the offset of topic-0 is 1\.5"),
        (OffsetAndMetadata(True), "the offset of topic-0 is True"),
        ((1, "m", -1, 0), "the offset of topic-0 is"),
    ],
    ids=repr,
)
def test_an_offset_to_commit(log, producer, wrong, says):
    is_no_offset(log, producer, wrong, says)


def is_no_offset(log, producer, wrong, says):
    before = log.state.seq
    with Consumer(log, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        for call in (
            lambda: consumer.commit({T0: wrong}),
            lambda: consumer.commit_async({T0: wrong}),
            lambda: consumer.seek(T0, wrong),
            lambda: producer.send_offsets_to_transaction({T0: wrong}, "g"),
            lambda: Admin(log).alter_group_offsets("g", {T0: wrong}),
            lambda: Admin(log).delete_records({T0: wrong}),
        ):
            with pytest.raises(InvalidRequestError, match=says):
                call()
    assert log.state.seq == before, "nothing was written"


def test_offsets_without_metadata(log):
    admin = Admin(log)
    for offset in (0, OffsetAndMetadata(0)):
        admin.alter_group_offsets("g", {T0: offset})
        assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(0, "")}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (ConsumerGroupMetadata(5), "group_id"),
        (ConsumerGroupMetadata(b"g"), "group_id"),
        (ConsumerGroupMetadata("g", "1", "m"), "generation_id"),
        (ConsumerGroupMetadata("g", 1, 5), "member_id"),
        (ConsumerGroupMetadata("g", 1, "m", 5), "group_instance_id"),
        (ConsumerGroupMetadata("g", 1, "m", None, "t"), "topic_ids"),
    ],
    ids=repr,
)
def test_a_group_of_a_transaction(producer, wrong, field):
    with pytest.raises(
        InvalidRequestError, match=rf"^{field} of ConsumerGroupMetadata is .*group_metadata\(\)"
    ):
        producer.send_offsets_to_transaction({T0: 1}, wrong)
    producer.send_offsets_to_transaction({T0: 1}, "g")
    producer.commit_transaction()


@pytest.mark.parametrize("wrong", [5, b"1:2", (1, 2), PreparedTxnState("a", "b"), "1:2:3"], ids=repr)
def test_a_token_of_a_prepared_transaction(producer, wrong):
    with pytest.raises(ConfigError, match="is not the token of a prepared transaction"):
        producer.complete_transaction(wrong)


@pytest.mark.parametrize(
    ("way", "means"),
    [
        ({"to_offset": "5"}, "a whole number"),
        ({"shift_by": 1.5}, "a whole number"),
        ({"to_latest": "yes"}, "True or False"),
        ({"to_datetime": "2026-01-01"}, "a whole number or a datetime or None"),
        ({"to_datetime": date(2026, 1, 1)}, "a whole number or a datetime or None"),
        ({"by_duration": 5}, "text or a timedelta or None"),
    ],
    ids=str,
)
def test_a_way_to_reset_offsets(log, way, means):
    (name,) = way
    with pytest.raises(InvalidRequestError, match=rf"^reset_group_offsets: {name}=.*; expected {means}"):
        Admin(log).reset_group_offsets("g", ["topic"], **way)


def test_one_name_is_not_taken_for_its_letters(log, producer):
    admin = Admin(log)
    producer.abort_transaction()
    admin.fence_producers("till-1")
    assert set(log.follow().transactional_ids) == {"till-1"}
    assert [one.name for one in admin.describe_topics("topic")] == ["topic"]
    admin.alter_group_offsets("group", {T0: 0})
    assert set(admin.describe_groups("group")) == {"group"}
    assert admin.list_transactions("Prepared") == []
    for call in (admin.fence_producers, admin.describe_topics, admin.describe_groups, admin.delete_topics):
        for wrong in (5, [5], None if call in {admin.fence_producers, admin.delete_topics} else 5):
            with pytest.raises(InvalidRequestError, match=r"=.*; expected a list of text"):
                call(wrong)


# -- Every argument of the admin client ------------------------------------------------------------------------

ADMIN = {
    "abort_transaction": {"transactional_id": "till-1"},
    "abort_transaction_at": {"at": T0, "start_offset": 0},
    "alter_configs": {"config_resources": ["topic"]},
    "alter_group_offsets": {"group": "g", "offsets": {T0: 0}},
    "alter_log": {"config": {}},
    "alter_topic": {"name": "topic"},
    "create_partitions": {"topic_partitions": {"topic": 3}},
    "create_topic": {"name": "new"},
    "create_topics": {"new_topics": ["new"]},
    "delete_group": {"group": "g"},
    "delete_group_offsets": {"group": "g", "partitions": [T0]},
    "delete_records": {"offsets": {T0: 0}},
    "delete_topic": {"name": "topic"},
    "delete_topics": {"topics": ["topic"]},
    "describe_configs": {"config_resources": ["topic"]},
    "describe_group": {"group": "g"},
    "describe_producers": {"topic": "topic", "partition": 0},
    "describe_topic": {"name": "topic"},
    "describe_transaction": {"transactional_id": "till-1"},
    "fence_producers": {"transactional_ids": ["till-1"]},
    "force_terminate_transaction": {"transactional_id": "till-1"},
    "list_group_offsets": {"group": "g"},
    "list_offsets": {"topic_partition_specs": {T0: -1}},
    "move_data": {"to": ""},
    "note_verify": {"sound": True},
    "remove_members_from_group": {"group": "g"},
    "reset_group_offsets": {"group": "g"},
}
"""The arguments that each call needs."""

WRONG = {
    "Mapping": ["text", b"x", 5, True, ["a"], {"topic"}, object()],
    "Iterable": [b"x", 5, True, object(), [object()], [["a"]], {T0: object()}],
    "Collection": [b"x", 5, True, object(), [object()], [["a"]], {T0: object()}],
    "Callable": ["text", 5],
    "str": [b"x", 5, True, ["a"], {"a": 1}, object()],
    "int": ["5", 1.5, True, [5], object()],
    "float": ["5", True, [5], object()],
    "bool": ["false", 0, [], object()],
    "pa": ["bigint", {"a": "bigint"}, [pa.int64()], 5],
    "TopicPartition": ["topic-0", 5, ("topic",), ("topic", "0"), object()],
}
"""What is none of the types that a type begins with."""


@pytest.mark.parametrize("name", sorted(name for name in dir(Admin) if name[0] != "_" and name != "close"))
def test_an_argument_of_another_form_is_refused_by_name(log, name):
    admin, before = Admin(log), log.follow().seq
    call = getattr(admin, name)
    for one in inspect.signature(call).parameters.values():
        wrong = WRONG[one.annotation.split("[")[0].split(" ")[0].split(".")[0]]
        for value in [*wrong, *([] if "None" in one.annotation else [None])]:
            with pytest.raises(EosLogError):
                call(**{**ADMIN.get(name, {}), one.name: value})
    assert log.follow().seq == before, "nothing was written"


def test_what_is_expected_is_said(log):
    admin = Admin(log)
    for call, says in {
        lambda: admin.alter_log(None): "alter_log: config=None; expected a dict of text to any value",
        lambda: admin.alter_topic(
            "topic", rename_columns=["a"]
        ): r"rename_columns=\['a'\]; expected a dict of text to "
        "text or None",
        lambda: admin.alter_topic(
            "topic", schema={"a": "int"}
        ): "schema={'a': 'int'}; expected a pyarrow.Schema or None",
        lambda: admin.create_topics(
            5
        ): "create_topics: new_topics=5; expected a list of text or NewTopic or a dict of",
        lambda: admin.delete_group_offsets("g", 5): "partitions=5; expected a list of "
        r"TopicPartition\(topic, partition\) or text",
        lambda: admin.resolve_transactions(5): "decider=5; expected text or a path or a Log or None",
        lambda: admin.describe_configs("topic"): "config_resources='topic'; expected a list of any value",
    }.items():
        with pytest.raises(InvalidRequestError, match=says):
            call()
    with pytest.raises(TypeError, match=r"create_topic\(\) got an unexpected keyword argument 'nope'"):
        admin.create_topic("new", nope=1)


def test_a_column_to_drop_is_not_taken_for_its_letters(log):
    admin = Admin(log)
    admin.create_topic("typed", schema=pa.schema([("ab", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]))
    admin.alter_topic("typed", drop_columns="ab")
    assert admin.describe_topic("typed").schema.names == ["a", "b"]


# -- What has aborted a prepared transaction -------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["complete_transaction with an older token or none", "abort_transaction"])
def test_an_aborted_transaction_names_what_may_have_done_it(producer, cause):
    producer.send("topic", b"x")
    token = producer.prepare_transaction()
    if cause == "abort_transaction":
        producer.abort_transaction()
    else:
        producer.complete_transaction("")
    with pytest.raises(InvalidTxnStateError, match=rf"was aborted, .* by {cause}"):
        producer.complete_transaction(token)


# -- Records of another form than their topic ------------------------------------------------------------------


@pytest.mark.parametrize("value", [{"a": 1}, b"x", "x", None, 5], ids=repr)
def test_a_record_for_a_topic_with_columns(log, value):
    Admin(log).create_topic("typed", schema=pa.schema([("a", pa.int64()), ("b", pa.string())]))
    with Producer(log) as producer, pytest.raises(InvalidRecordError) as raised:
        producer.send("typed", value)
    assert str(raised.value) == (
        "topic 'typed' has the columns a: int64, b: string, and send is for topics without: send rows, as "
        "send_arrow('typed', pyarrow.table({'a': [...], 'b': [...]}))"
    )


def test_a_dict_for_a_topic_without_columns(log):
    with Producer(log) as producer:
        with pytest.raises(
            InvalidRecordError, match=r"not dict\. Set value\.serializer, or the topic's value\.format"
        ):
            producer.send("topic", {"a": 1})
        with pytest.raises(InvalidRecordError, match=r"not dict\. Set key\.serializer$"):
            producer.send("topic", b"x", key={"a": 1})
        with pytest.raises(InvalidRecordError, match=r"not int$"):
            producer.send("topic", 5)


@pytest.mark.parametrize("wrong", [True, "0", 0.0, [0]], ids=repr)
def test_a_partition_that_is_no_number_fails_no_record_beside_it(log, wrong):
    with Producer(log, linger_ms=60_000) as producer:
        beside = producer.send("topic", b"x")
        for call in (
            lambda: producer.send("topic", b"x", partition=wrong),
            lambda: producer.send_arrow("topic", pa.table({"value": [b"x"]}), partition=wrong),
        ):
            with pytest.raises(InvalidRequestError, match=r"^partition=.*: it has to be a whole number"):
                call()
        numpys = producer.send("topic", b"x", partition=np.int64(0))
        producer.flush()
        assert [beside.result().offset, numpys.result().offset] == [0, 1]


def test_rows_for_a_partition_of_numpy(log):
    """As the keys of pandas' ``groupby`` are."""
    with Producer(log, transactional_id="numpys") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send_arrow("topic", pa.table({"value": [b"x", b"y"]}), partition=np.int64(0))
        producer.commit_transaction()
        assert sent.result(0) == [("topic", 0, 0, sent.result(0)[0].timestamp_ms, 2)]


@pytest.mark.parametrize("wrong", [5, b"topic"], ids=repr)
def test_a_name_that_is_no_text(log, wrong):
    admin = Admin(log)
    for call in (admin.describe_topic, admin.delete_topic, admin.delete_group):
        with pytest.raises(EosLogError):
            call(wrong)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ((pair for pair in [("a", b"1")]), r"not generator: give \[\(name, value\)"),
        ({"a": b"1"}, r"not dict: give list\(headers\.items\(\)\)"),
        ({("a", b"1")}, "not set"),
        (0, "not int"),
        ("a", "a header must be a pair"),
    ],
    ids=kind,
)
@pytest.mark.parametrize("serializer", [None, str.encode], ids=["", "serializer"])
def test_headers_that_are_no_list(log, serializer, wrong, says):
    before = log.state.seq
    with (
        Producer(log, value_serializer=serializer) as producer,
        pytest.raises(InvalidRecordError, match=says),
    ):
        producer.send("topic", "x", headers=wrong)
    assert log.follow().seq == before


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_headers_are_as_large_in_a_record_as_in_a_row():
    headers = [("a", b"1"), ("\N{SNOWMAN}", None), ("", b"")]
    row = pa.array([[{"key": name, "value": value} for name, value in headers]], HEADERS)
    assert check_headers(headers) == bytes_of_rows(row)[0]


@pytest.mark.parametrize(
    ("config", "wrong", "error", "says"),
    [
        ({"max.message.bytes": 100}, {"value": b"x" * 200}, RecordTooLargeError, "has 2[0-9]+ bytes"),
        ({"cleanup.policy": "compact"}, {"key": None}, InvalidRecordError, "has no key"),
        ({}, {"headers": [{"key": None, "value": b""}]}, InvalidRecordError, "has a header that is null"),
    ],
    ids=["size", "key", "headers"],
)
@pytest.mark.parametrize("sliced", [False, True], ids=["", "sliced"])
def test_a_row_that_is_refused_has_the_number_that_it_has_in_the_table(
    log, monkeypatch, config, wrong, error, says, sliced
):
    """The table is of several chunks, and the writer cuts large ones."""
    Admin(log).create_topic("t", 3, config=config)
    fine = {"key": b"k", "value": b"v", "headers": None}
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])
    rows = [fine] * 7 + [{**fine, **wrong}] + [fine] * 4
    table = pa.concat_tables(
        [pa.Table.from_pylist(rows[at : at + 3], schema=schema) for at in range(0, 12, 3)]
    )
    assert table["value"].num_chunks == 4
    if sliced:
        table = table.combine_chunks()
        monkeypatch.setattr(writer, "slices", lambda batch, _: [batch.slice(at, 2) for at in range(0, 12, 2)])
    with Producer(log) as producer, pytest.raises(error, match=f"^row 7 of those for topic 't' {says}"):
        producer.send_arrow("t", table).result()


def test_a_null_in_a_column_that_has_none_is_named_by_its_row_in_the_table(log):
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    Admin(log).create_topic("typed", schema=schema)
    table = pa.table({"n": pa.chunked_array([[1, 2], [3, None]])})
    with (
        Producer(log) as producer,
        pytest.raises(InvalidRecordError, match="but row 3 of those for it has no value"),
    ):
        producer.send_arrow("typed", table)


@pytest.mark.parametrize("wrong", [5, "print", [print]], ids=repr)
def test_what_is_no_function_is_not_called_later(log, wrong):
    before = log.state.seq
    listener = type("Listener", (), {"on_partitions_revoked": wrong})()
    with Consumer(log, group_id="g") as consumer, Producer(log, linger_ms=60_000) as producer:
        consumer.assign([T0])
        for call, name in (
            (lambda: producer.send("topic", b"x", on_delivery=wrong), "on_delivery"),
            (lambda: consumer.commit_async({T0: 0}, wrong), "callback"),
            (lambda: consumer.subscribe(["topic"], on_assign=wrong), "on_assign"),
            (lambda: consumer.subscribe(["topic"], on_lost=wrong), "on_lost"),
            (
                lambda: consumer.subscribe(["topic"], listener=listener),
                "on_partitions_revoked of the listener",
            ),
        ):
            with pytest.raises(InvalidRequestError, match=rf"^{name}=.*: it has to be a function, or None"):
                call()
        producer.flush()
        assert log.follow().seq == before, "nothing was written"
        future = producer.send("topic", b"x")
        for call in (future.add_callback, future.add_errback, future.add_both):
            with pytest.raises(InvalidRequestError, match=r"back=.*: it has to be a function"):
                call(wrong)


@pytest.mark.parametrize("wrong", [["topic"], {"topic": 0}, None], ids=repr)
def test_a_topic_that_is_no_text(log, wrong):
    with Producer(log) as producer:
        for call in (
            lambda: producer.send(wrong, b"x"),
            lambda: producer.send_arrow(wrong, pa.table({"value": [b"x"]})),
        ):
            with pytest.raises(InvalidRequestError, match=r"^illegal topic name"):
                call()


@pytest.mark.parametrize("wrong", ["topic-0", ("topic",), ("topic", "0"), ("topic", False), (5, 0)], ids=repr)
def test_a_partition_that_is_none(log, wrong):
    """`False` is no number 0, though Python says so."""
    with Consumer(log) as consumer:
        consumer.assign([T0])
        for call in (lambda: consumer.assign([wrong]), lambda: consumer.position(wrong)):
            with pytest.raises(InvalidRequestError, match="is no partition: give TopicPartition"):
                call()


@pytest.mark.parametrize("wrong", [[{"value": b"x"}], {"value": [b"x"]}, None, pa.array([b"x"])], ids=kind)
def test_rows_that_are_not_arrows(log, wrong):
    with (
        Producer(log) as producer,
        pytest.raises(
            InvalidRecordError, match=r"^send_arrow takes rows as a pyarrow\.Table.*from_pandas\(frame"
        ),
    ):
        producer.send_arrow("topic", wrong)


class Topic(str, Enum):
    """As programs list their topics. (``StrEnum`` shows itself otherwise, which counts for nothing.)"""

    ORDERS = "orders"
    TOPIC = "topic"


class Number(IntEnum):
    ZERO = 0


def test_a_name_of_an_enumeration_fails_no_record_beside_it(log):
    """It did when the batch was sent, with the name of a class of the protocol."""
    with Producer(log) as producer:
        futures = [producer.send(Topic.TOPIC, Topic.TOPIC, key=np.str_("k"), partition=Number.ZERO)]
        futures += [
            producer.send("topic", b"2"),
            producer.send(Topic.ORDERS, b"3"),
            producer.send(np.str_("n"), b"4"),
        ]
    assert [future.result(60)[:3] for future in futures] == [
        ("topic", 0, 0),
        ("topic", 0, 1),
        ("orders", 0, 0),
        ("n", 0, 0),
    ]
    assert {*map(type, log.state.topics)} == {str}


def test_partitions_counted_by_numpy(log):
    """As those of a column's distinct values are. It was refused by the name of a class of the protocol."""
    admin = Admin(log)
    admin.create_topic("counted", partitions=np.int64(2))
    admin.create_topics({"several": {"num_partitions": np.int32(2)}})
    admin.alter_topic("counted", partitions=np.int64(3))
    admin.create_partitions({"several": np.int64(4)})
    counts = [log.state.topics[name].partitions for name in ("counted", "several")]
    assert counts == [3, 4]
    assert {*map(type, counts)} == {int}


def test_names_of_an_enumeration(log):
    at = TopicPartition(Topic.TOPIC, Number.ZERO)
    with Producer(log, transactional_id=Topic.ORDERS, client_id=Topic.ORDERS) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(Topic.TOPIC, b"1")
        producer.send_offsets_to_transaction({at: OffsetAndMetadata(Number.ZERO, Topic.ORDERS)}, Topic.TOPIC)
        producer.commit_transaction()
    admin = Admin(log)
    admin.create_topic(Topic.ORDERS)
    with Consumer(
        log, group_id=Topic.ORDERS, auto_offset_reset="earliest", client_id=Topic.ORDERS
    ) as consumer:
        consumer.subscribe([Topic.TOPIC])
        assert [record.value for record in consumer.poll(0)] == [b"1"]
        consumer.commit({at: Number.ZERO})
        assert consumer.committed(at) == 0
    assert admin.list_group_offsets("topic") == {T0: OffsetAndMetadata(0, "orders")}
    admin.delete_topic(Topic.ORDERS)
    assert admin.list_topics() == ["topic"]


@pytest.mark.parametrize("wrong", [None, "1", timedelta(seconds=1), float("nan"), True], ids=repr)
def test_a_time_that_is_no_number(log, wrong):
    """A wait of NaN never ended."""
    with Consumer(log) as consumer:
        consumer.assign([T0])
        for poll in (consumer.poll, consumer.poll_arrow):
            with pytest.raises(
                InvalidRequestError, match=r"^timeout_ms is .*: it has to be a number of milliseconds"
            ):
                poll(wrong)
        with pytest.raises(InvalidRequestError, match=r"^the time of topic-0 is "):
            consumer.offsets_for_times({T0: wrong})
    with Producer(log) as producer:
        producer.send("topic", b"1")
        if wrong is not None:
            with pytest.raises(
                InvalidRequestError, match=r"^timeout of flush is .*: it has to be a number of seconds"
            ):
                producer.flush(wrong)


@pytest.mark.parametrize("wrong", [-1, -2, -0.5])
def test_a_time_before_1970_is_no_place(log, wrong):
    """-1 is the end to confluent-kafka, and an error to kafka-python: it must not be the begin."""
    with (
        Consumer(log) as consumer,
        pytest.raises(InvalidRequestError, match=rf"^the time of topic-0 is {wrong}: "),
    ):
        consumer.offsets_for_times({T0: wrong})


def test_a_time_that_no_float_is(log):
    huge = 10**400
    with Consumer(log) as consumer:
        consumer.assign([T0])
        for call in (consumer.poll, consumer.poll_arrow, lambda wrong: consumer.close(timeout_ms=wrong)):
            with pytest.raises(InvalidRequestError, match=r"^timeout_ms is too large"):
                call(huge)
        with pytest.raises(InvalidRequestError, match=r"^the time of topic-0 is too large"):
            consumer.offsets_for_times({T0: huge})
        with pytest.raises(InvalidRequestError, match=r"^timeout_ms is '1'"):
            consumer.close(timeout_ms="1")
        consumer.close(timeout_ms=float("inf"))
    with Producer(log) as producer:
        producer.send("topic", b"1")
        with pytest.raises(InvalidRequestError, match=r"^timeout of flush is too large"):
            producer.flush(huge)
        producer.flush(float("inf"))


@pytest.mark.parametrize("wrong", ["1", 1.5, timedelta(1)], ids=repr)
def test_a_number_of_records_that_is_none(log, wrong):
    with Consumer(log) as consumer, pytest.raises(InvalidRequestError, match=r"^max_records="):
        consumer.poll(max_records=wrong)


def test_text_that_utf_8_does_not_have(log):
    with Producer(log) as producer:
        for record in ({"value": "\ud800"}, {"key": "\ud800"}, {"headers": [("\ud800", b"")]}):
            with pytest.raises(InvalidRecordError, match="is no text that UTF-8 has"):
                producer.send("topic", **record)
