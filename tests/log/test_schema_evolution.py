"""Columns of a topic change: what clients, maintenance and time travel make of rows from before and after."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition, read_arrow
from spark_eos.config.isolation import Isolation
from spark_eos.errors import ConfigError, InvalidRequestError, SchemaMismatchError
from spark_eos.log.data.layout import SPARK_FIELD, Layout
from spark_eos.log.log import Log
from spark_eos.log.schemas.conversion import names_under
from spark_eos.log.schemas.fitting import Fitting, fits_into
from spark_eos.log.schemas.type_names import parse_type
from spark_eos.log.time_travel import as_of, plan_as_of, topic_as_of
from spark_eos.log.topics import layout_of
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol.arrow_fields import fields_of, named_fields

URLS = (f"memory://schema-evolution-{number}" for number in itertools.count())
SHOP = pa.struct([("zip", pa.int32()), ("city", pa.string())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("n", pa.int32()),
        ("shop", SHOP),
        ("shops", pa.list_(SHOP)),
        ("by", pa.map_(pa.string(), SHOP)),
        ("f", pa.float32()),
        ("day", pa.date32()),
        ("price", pa.decimal128(5, 2)),
    ]
)
FULL = {
    "id": 1,
    "n": 7,
    "shop": {"zip": 10, "city": "x"},
    "shops": [{"zip": 11, "city": "y"}, None],
    "by": [("k", {"zip": 12, "city": "z"})],
    "f": 1.5,
    "day": dt.date(2020, 1, 2),
    "price": Decimal("1.25"),
}
EMPTY = {**dict.fromkeys(FULL), "id": 2}


class Evolving:
    """A log with a topic ``t``, and an admin, a producer and a consumer of it."""

    def __init__(self, schema=COLUMNS, **config):
        self.url = next(URLS)
        self.admin = Admin(self.url)
        self.admin.create_topic("t", schema=schema, config=config)
        self.producer = Producer(self.url)
        self.schema = schema

    @property
    def log(self):
        return Log.shared(self.url)

    @property
    def topic(self):
        self.log.follow()
        return self.log.topic("t")

    def alter(self, **changes):
        self.admin.alter_topic("t", **changes)

    def send(self, *rows, schema=None):
        self.producer.send_arrow("t", pa.Table.from_pylist([*rows], schema=schema or self.schema)).result()

    def rows(self):
        with Consumer(self.url, {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(self.topic.partitions)])
            found = []
            while got := consumer.poll(0):
                found += [record.value for record in got]
        return found

    def names(self):
        return self.admin.describe_topic("t").schema.names


@pytest.fixture
def evolving():
    return Evolving()


def test_every_change_at_once_is_seen_in_old_rows(evolving):
    evolving.send(FULL, EMPTY)
    evolving.alter(
        add_columns={"new": "string", "shop.street": pa.string(), "shops.element.area": "struct<x: int>"},
        rename_columns={"id": "key", "shop.city": "town", "by.value.city": "town"},
        drop_columns=["n", "shops.element.city"],
        widen_columns={
            "f": "double",
            "day": "timestamp_ntz",
            "price": "decimal(10,4)",
            "shop.zip": pa.int64(),
        },
    )
    assert evolving.rows() == [
        {
            "key": 1,
            "shop": {"zip": 10, "town": "x", "street": None},
            "shops": [{"zip": 11, "area": None}, None],
            "by": [("k", {"zip": 12, "town": "z"})],
            "f": 1.5,
            "day": dt.datetime(2020, 1, 2),  # noqa: DTZ001
            "price": Decimal("1.2500"),
            "new": None,
        },
        {
            **dict.fromkeys(("shop", "shops", "by", "f", "day", "price", "new")),
            "key": 2,
        },
    ]


def test_names_are_used_again_for_other_columns(evolving):
    evolving.send(FULL)
    evolving.alter(drop_columns=["n"])
    evolving.alter(add_columns={"n": "int"})
    evolving.alter(rename_columns={"n": "f", "f": "n"})  # They change places.
    assert [(row["n"], row["f"]) for row in evolving.rows()] == [(1.5, None)]
    ids = [field.field_id for field in named_fields(fields_of(evolving.topic.schemas[-1]).fields)]
    assert len({*ids}) == len(ids)
    assert max(ids) == len([*named_fields(fields_of(evolving.topic.schemas[0]).fields)]) + 1


def test_a_column_takes_the_name_of_one_that_is_renamed(evolving):
    """In one change; and a field may be named like a column."""
    evolving.send(FULL)
    evolving.alter(rename_columns={"f": "old"}, add_columns={"f": "int"})
    evolving.alter(add_columns={"shop.n": "int"})
    (row,) = evolving.rows()
    assert (row["old"], row["f"], row["shop"]) == (1.5, None, {**FULL["shop"], "n": None})


def test_the_newest_column_goes_and_another_one_comes(evolving):
    """Its id is the highest that was ever given."""
    evolving.send(FULL)
    evolving.alter(drop_columns=["price"])
    evolving.alter(add_columns={"price": "decimal(9,2)"})
    assert [row["price"] for row in evolving.rows()] == [None]


def test_a_schema_names_all_columns(evolving):
    wider = [field.with_type(pa.int64()) if field.name == "n" else field for field in COLUMNS]
    evolving.send(FULL)
    evolving.alter(schema=pa.schema([*reversed(wider), pa.field("new", pa.int8())]))
    assert evolving.rows() == [{**FULL, "new": None}]
    assert evolving.names() == [*reversed(COLUMNS.names), "new"]
    versions = len(evolving.topic.schemas)
    evolving.alter(schema=evolving.admin.describe_topic("t").schema)
    assert len(evolving.topic.schemas) == versions  # Nothing changed.
    for wrong, told in (
        (COLUMNS, "column 'new' is missing.*drop_columns"),
        (
            evolving.admin.describe_topic("t").schema.append(pa.field("m", pa.int8(), nullable=False)),
            "'m' is new",
        ),
        (pa.schema([*wider[1:], pa.field("id", pa.string()), ("new", pa.int8())]), "cannot become string"),
    ):
        with pytest.raises(SchemaMismatchError, match=told):
            evolving.alter(schema=wrong)
    with pytest.raises(ConfigError, match="keep one of them"):
        evolving.alter(schema=COLUMNS, drop_columns=["n"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"drop_columns": ["idd"]}, "no column 'idd'.*did you mean 'id'"),
        ({"drop_columns": ["shop.town"]}, r"no column 'shop\.town': there is no 'town'; there is zip, city"),
        ({"drop_columns": ["shops.city"]}, "there is no 'city'; there is element"),
        ({"rename_columns": {"id": "n"}}, "same name"),
        ({"rename_columns": {"shop.zip": "city"}}, "city"),
        ({"rename_columns": {"id": "_offset"}}, "kept for the columns that reading adds"),
        ({"add_columns": {"n": "int"}}, "has a column 'n' already"),
        ({"add_columns": {"N": "int"}}, "same name"),
        (
            {"add_columns": {"shop.ZIP": "int"}},
            "column 'shop' would have the fields 'zip' and 'ZIP'.*rename one",
        ),
        (
            {"add_columns": {"shops.element.City": "int"}},
            r"'shops\.element' would have the fields 'city' and 'City'",
        ),
        ({"add_columns": {"by.value.ZIP": "int"}}, r"'by\.value' would have the fields 'zip' and 'ZIP'"),
        ({"rename_columns": {"shop.zip": "City"}}, "'shop' would have the fields 'City' and 'city'"),
        (
            {"add_columns": {"x": "array<struct<a: int, A: int>>"}},
            r"'x\.element' would have the fields 'a' and 'A'",
        ),
        ({"add_columns": {"n.x": "int"}}, "'n' is no struct"),
        ({"add_columns": {"`a": "int"}}, "no name of a column"),
        ({"widen_columns": {"n": "smallint"}}, "column 'n' is int32 and cannot become int16"),
        ({"widen_columns": {"shop": "struct<zip: bigint>"}}, "widen the fields in it"),
        ({"drop_columns": ["shop.zip", "shop.city"]}, "only one of its struct"),
        ({"drop_columns": ["by.key"]}, r"'by' is no struct.*cannot be dropped"),
        ({"drop_columns": ["by.value"]}, r"'by' is no struct.*cannot be dropped"),
        ({"drop_columns": ["shops.element"]}, r"'shops' is no struct.*cannot be dropped"),
        ({"rename_columns": {"by.value": "x"}}, r"'by' is no struct.*no name that could be changed"),
        ({"rename_columns": {"shops.element": "x"}}, r"'shops' is no struct.*no name that could be changed"),
        ({"drop_columns": ["n"], "widen_columns": {"n": "bigint"}}, "dropped and changed"),
    ],
)
def test_changes_that_are_refused(evolving, changes, told):
    with pytest.raises(SchemaMismatchError, match=told):
        evolving.alter(**changes)
    assert len(evolving.topic.schemas) == 1


TWICE = pa.struct([("a", pa.int8()), ("b", pa.int8()), ("A", pa.int8())])


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        (TWICE, "st"),
        (pa.list_(TWICE), "st.element"),
        (pa.large_list(pa.list_(TWICE, 2)), "st.element.element"),
        (pa.map_(pa.string(), TWICE), "st.value"),
        (pa.map_(TWICE, pa.string()), "st.key"),
        (pa.struct([("x", pa.list_(pa.struct([("y", TWICE)])))]), "st.x.element.y"),
    ],
)
def test_no_topic_is_made_with_names_that_differ_in_case_alone(type_, path):
    """Spark takes them for one, at every depth, and could read neither."""
    with pytest.raises(SchemaMismatchError, match=f"column '{path}' would have the fields 'a' and 'A'"):
        Admin("memory://case-of-names").create_topic("t", schema=pa.schema([("st", type_)]))


def test_names_that_an_earlier_version_took_are_renamed(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("spark_eos.log.data.schema_limits._check_names", lambda *_: None)
        evolving = Evolving(pa.schema([("st", TWICE)]))
    evolving.send({"st": {"a": 1, "b": 2, "A": 3}})
    with pytest.raises(SchemaMismatchError, match="'a' and 'A'"):
        evolving.alter(add_columns={"x": "int"})
    evolving.alter(rename_columns={"st.A": "c"})
    assert evolving.rows() == [{"st": {"a": 1, "b": 2, "c": 3}}]


def test_names_with_dots(evolving):
    evolving.alter(add_columns={"`a.b`": "struct<`c.d`: int, e: int>"})
    evolving.alter(drop_columns=["`a.b`.`c.d`"])
    evolving.alter(rename_columns={"`a.b`": "plain"})
    evolving.alter(widen_columns={"plain.e": "bigint"})
    assert evolving.admin.describe_topic("t").schema.field("plain").type == pa.struct([("e", pa.int64())])


def test_a_topic_without_a_schema_gets_none():
    admin = Admin(next(URLS))
    admin.create_topic("t")
    with pytest.raises(InvalidRequestError, match="Kafka-shaped"):
        admin.alter_topic("t", add_columns={"x": "int"})
    with pytest.raises(InvalidRequestError, match="Kafka-shaped"):
        admin.alter_topic("t", schema=COLUMNS)


# -- Clients that run on -----------------------------------------------------------------------------------


def test_a_producer_learns_columns_and_takes_narrower_rows(evolving):
    evolving.send(FULL)
    Admin(evolving.log).alter_topic("t", add_columns={"new": "int"}, widen_columns={"n": "bigint"})
    wide = pa.schema([*(f for f in COLUMNS if f.name != "n"), ("n", pa.int64()), ("new", pa.int32())])
    evolving.send({**FULL, "n": 2**40, "new": 5}, schema=wide)
    evolving.send(FULL)  # A program that knows none of it.
    evolving.send(
        {"id": 3, "shop": {"zip": 1}},
        schema=pa.schema([COLUMNS[0], ("shop", pa.struct([("zip", pa.int8())]))]),
    )
    assert [(row["n"], row["new"]) for row in evolving.rows()] == [
        (7, None),
        (2**40, 5),
        (7, None),
        (None, None),
    ]
    assert evolving.rows()[-1]["shop"] == {"zip": 1, "city": None}
    with pytest.raises(SchemaMismatchError, match="'n'"):
        evolving.send({"id": 4, "n": 0.5}, schema=pa.schema([COLUMNS[0], ("n", pa.float64())]))


def test_rows_that_wait_while_a_column_is_renamed_have_their_values():
    evolving = Evolving()
    waiting = Producer(evolving.url, {"linger.ms": 60_000})
    future = waiting.send_arrow("t", pa.Table.from_pylist([FULL], schema=COLUMNS))
    evolving.alter(rename_columns={"n": "number"}, drop_columns=["f"])
    waiting.flush()
    future.result()
    assert [(row["number"], "f" in row) for row in evolving.rows()] == [(7, False)]


def test_a_consumer_goes_on_with_the_new_columns(evolving):
    evolving.send(FULL)
    with Consumer(evolving.url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [*consumer.poll(0)[0].value] == COLUMNS.names
        evolving.alter(rename_columns={"n": "number"})
        evolving.send({"id": 5, "number": 9}, schema=pa.schema([COLUMNS[0], ("number", pa.int32())]))
        found = []
        while not found:
            found = consumer.poll(0)
        assert found[0].value["number"] == 9
        consumer.seek(TopicPartition("t", 0), 0)
        assert consumer.poll_arrow(0).column("number").to_pylist() == [7]
        assert consumer.poll_arrow(0).column("number").to_pylist() == [9]


@pytest.mark.parametrize("many", [8])
def test_changes_at_the_same_time(evolving, many):
    logs = [Log.open(evolving.log.store) for _ in range(many)]  # Processes of their own, so to say.
    failed = []

    def add(number):
        try:
            Admin(logs[number]).alter_topic("t", add_columns={f"c{number}": "int"})
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(evolving.names()) == sorted([*COLUMNS.names, *(f"c{number}" for number in range(many))])
    ids = [field.field_id for field in named_fields(fields_of(evolving.topic.schemas[-1]).fields)]
    assert len({*ids}) == len(ids)


# -- Parquet -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [pa.struct([]), pa.decimal128(5, -2), pa.list_(pa.struct([]))])
def test_columns_that_parquet_does_not_have_are_refused(bad):
    says = r"topic '\w+', segment.format=parquet: column 'x[.\w]*' is a .* Parquet files cannot have such a column"
    schema, parquet = pa.schema([("i", pa.int64()), ("x", bad)]), {"segment.format": "parquet"}
    evolving = Evolving(pa.schema([("i", pa.int64())]), **parquet)
    other = Evolving(schema)
    for one, refused in (
        (evolving, lambda: evolving.admin.create_topic("new", schema=schema, config=parquet)),
        (evolving, lambda: evolving.alter(schema=schema)),
        (evolving, lambda: evolving.alter(add_columns={"x": bad})),
        (other, lambda: other.alter(config=parquet)),
        (other, lambda: other.alter(config=parquet, add_columns={"y": "int"})),
    ):
        before = one.admin.describe_log().entries
        with pytest.raises(SchemaMismatchError, match=says):
            refused()
        assert one.admin.describe_log().entries == before
    other.alter(config=parquet, drop_columns=["x"])
    evolving.alter(config={"segment.format": "arrow"}, add_columns={"x": bad})
    evolving.alter(config={"retention.ms": "1000"}, add_columns={"y": "int"})


def test_bloom_filters_are_of_columns_that_can_have_them():
    setting = "segment.bloom.filter.columns"
    inner = pa.struct([("x", pa.int64())])
    schema = pa.schema([("k", pa.string()), ("b", pa.bool_()), ("s", inner), ("d", pa.float64())])
    evolving = Evolving(schema, **{setting: "k"})
    before = evolving.admin.describe_log().entries
    wrong = {
        "k,q": "no column 'q'",
        "b": "column 'b' is bool",
        "s": "column 's' is struct",
        "d": "column 'd' is double",
    }
    for names, says in wrong.items():
        with pytest.raises(ConfigError, match=f"topic 't', {setting}: .*{says}"):
            evolving.alter(config={setting: names})
        with pytest.raises(ConfigError, match=f"topic 'new', {setting}: .*{says}"):
            evolving.admin.create_topic("new", schema=schema, config={setting: names})
    with pytest.raises(ConfigError, match="no column 'k'"):
        evolving.alter(drop_columns=["k"])
    with pytest.raises(ConfigError, match="no column 'headers' for it; it has key, value"):
        evolving.admin.create_topic("new", config={setting: "headers"})
    assert evolving.admin.describe_log().entries == before
    evolving.alter(rename_columns={"k": "name"})
    assert evolving.admin.describe_topic("t").config == {setting: "name"}
    evolving.alter(rename_columns={"name": "k"}, config={setting: None})
    assert evolving.admin.describe_topic("t").config == {}, "what is said goes before what follows"
    evolving.alter(config={setting: "k"})
    evolving.alter(rename_columns={"k": "name"}, config={"retention.ms": "1000"})
    assert evolving.admin.describe_topic("t").config == {setting: "name", "retention.ms": "1000"}


# -- Keys --------------------------------------------------------------------------------------------------


def test_keys_keep_their_partitions():
    evolving = Evolving(
        pa.schema([("k", pa.int32()), ("v", pa.int32()), ("w", pa.int32())]), **{"key.columns": "k"}
    )
    with pytest.raises(SchemaMismatchError, match=r"'k' is one of key.columns, and cannot become int64"):
        evolving.alter(widen_columns={"k": "bigint"})
    with pytest.raises(SchemaMismatchError, match=r"'k' is one of key.columns, and cannot be dropped"):
        evolving.alter(drop_columns=["k"])
    evolving.alter(rename_columns={"k": "key"}, widen_columns={"v": "bigint"})
    assert evolving.admin.describe_topic("t").config == {"key.columns": "key"}
    with pytest.raises(ConfigError, match=r"key.columns names 'k'"):
        evolving.alter(add_columns={"x": "int"}, config={"key.columns": "k"})


def test_keys_of_narrower_rows_go_where_the_wide_ones_go():
    evolving = Evolving(pa.schema([("k", pa.int64()), ("v", pa.int32())]), **{"key.columns": "k"})
    evolving.alter(partitions=8)
    keys = [*range(50)]
    evolving.producer.send_arrow("t", pa.table({"k": pa.array(keys, pa.int64())})).result()
    evolving.producer.send_arrow("t", pa.table({"k": pa.array(keys, pa.int16())})).result()
    homes = {}
    with Consumer(evolving.url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", number) for number in range(8)])
        while got := consumer.poll(0):
            for record in got:
                homes.setdefault(record.value["k"], []).append(record.partition)
    assert all(len(found) == 2 and len({*found}) == 1 for found in homes.values())
    assert len(homes) == 50


# -- Maintenance and time travel ---------------------------------------------------------------------------


def shown(evolving, seq):
    """The rows as of an entry, with the columns of then."""
    log = evolving.log
    past = as_of(log, seq)
    topic = topic_as_of(log.topic("t"), past.state.topics["t"])
    at = TopicPartition("t", 0)
    end = past.state.partitions[topic.topic_id, 0].end
    fetches = plan_as_of(log, log.state, past, at, 0, end, Isolation.READ_COMMITTED)
    rows = [row for fetch in fetches for row in log.read(topic, fetch).to_pylist()]
    return [{name: value for name, value in row.items() if name != "_timestamp"} for row in rows]


def test_rolling_keeps_values_by_ids(evolving):
    for number in range(6):
        evolving.send({**FULL, "id": number})
    seq = evolving.log.state.seq
    evolving.alter(
        rename_columns={"n": "number", "shop.zip": "code"},
        drop_columns=["f"],
        widen_columns={"price": "decimal(9,3)"},
    )
    before = evolving.rows()
    assert shown(evolving, seq) == [{**FULL, "id": number} for number in range(6)]
    assert Roller(evolving.log, tail_rows=2).run()
    assert evolving.rows() == before
    # The files of then are gone from the index: their rows were rewritten, without the column that was dropped.
    with pytest.raises(SchemaMismatchError, match=r"'f' of version 3.*dropped since.*its values are gone"):
        shown(evolving, seq)


def test_a_file_of_an_earlier_version_has_its_columns_under_their_new_names_and_its_times(evolving):
    """A rewrite leaves out no column of now that it has."""
    evolving.alter(rename_columns={"n": "number"}, drop_columns=["f"])
    topic = evolving.topic
    stored = ["id", "n", "f", "_timestamp"]
    assert names_under(layout_of(topic, 1), stored, layout_of(topic)) == {"id", "number", "_timestamp"}
    assert names_under(layout_of(topic, 1), stored[:3], layout_of(topic)) == {"id", "number"}


def test_time_travel_over_rows_that_were_widened_and_rolled(evolving):
    for number in range(6):
        evolving.send({**FULL, "id": number})
    seq = evolving.log.state.seq
    evolving.alter(rename_columns={"n": "number"}, add_columns={"x": "int"}, widen_columns={"f": "double"})
    assert Roller(evolving.log, tail_rows=2).run()
    assert shown(evolving, seq) == [{**FULL, "id": number} for number in range(6)]


def test_compaction_by_a_key_that_was_renamed():
    config = {
        "key.columns": "k",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "segment.ms": "1",
    }
    schema = pa.schema([("k", pa.string()), ("v", pa.int32()), ("w", pa.int32())])
    evolving = Evolving(schema, **config)
    evolving.send({"k": "a", "v": 1}, {"k": "b", "v": 2})
    evolving.alter(rename_columns={"k": "key", "v": "value"}, widen_columns={"v": "bigint"})
    wide = pa.schema([("key", pa.string()), ("value", pa.int64())])
    evolving.send({"key": "a", "value": 3}, schema=wide)
    evolving.send({"key": "b"}, schema=wide)
    evolving.send({"key": "c", "value": 4}, schema=wide)
    evolving.log.clock.sleep(0.01)
    assert Compactor(evolving.log).run()
    found = [(row["key"], row["value"]) for row in evolving.rows()]
    assert found == [("a", 3), ("b", None), ("c", 4)]
    with pytest.raises(SchemaMismatchError, match=r"is compacted: column 'w' cannot be dropped.*tombstones"):
        evolving.alter(drop_columns=["w"])
    evolving.alter(config={"cleanup.policy": "delete"})
    evolving.alter(drop_columns=["w"])


# -- Types -------------------------------------------------------------------------------------------------


def test_what_spark_says_of_a_column_follows_its_type():
    comment = b'{"metadata":{"comment":"c"},"name":"a","nullable":true,"type":"integer"}'
    varchar = b'{"metadata":{},"name":"b","nullable":true,"type":"varchar(3)"}'
    columns = [
        pa.field("a", pa.int32(), metadata={SPARK_FIELD: comment}),
        pa.field(
            "b", pa.struct([("x", pa.string())]), metadata={SPARK_FIELD: varchar.replace(b'"v', b'{"v')}
        ),
        pa.field("c", pa.string(), metadata={SPARK_FIELD: varchar}),
    ]
    evolving = Evolving(pa.schema([columns[0], columns[2]]))
    evolving.alter(widen_columns={"a": "decimal(12,2)"}, rename_columns={"c": "d"})
    found = evolving.admin.describe_topic("t").schema
    assert found.field("a").metadata[SPARK_FIELD] == comment.replace(b"integer", b"decimal(12,2)")
    assert found.field("d").metadata[SPARK_FIELD] == varchar
    with pytest.raises(SchemaMismatchError, match="another type or other metadata in Spark"):
        evolving.alter(
            schema=pa.schema(
                [("a", pa.decimal128(12, 2)), columns[2].with_name("d").with_metadata({SPARK_FIELD: b"1"})]
            )
        )


def test_rows_of_other_types_than_the_ones_before_are_fitted():
    fitting = Fitting(Layout.typed(pa.schema([("a", pa.int64())]), 1))
    for type_ in (pa.int64(), pa.int32(), pa.int16(), pa.int64()):
        assert fitting(pa.table({"a": pa.array([1], type_)})).schema.field("a").type == pa.int64()


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("bigint", pa.int64()),
        (" INT ", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("decimal(7)", pa.decimal128(7, 0)),
        ("decimal(38, 38)", pa.decimal128(38, 38)),
        ("decimal", pa.decimal128(10, 0)),
        ("array<map<string,double>>", pa.list_(pa.map_(pa.string(), pa.float64()))),
        (
            "struct<a: int, `b c`: array<date>>",
            pa.struct([("a", pa.int32()), ("b c", pa.list_(pa.date32()))]),
        ),
        ("struct<a int>", pa.struct([("a", pa.int32())])),
    ],
)
def test_names_of_types(text, type_):
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "array<int",
        "map<int>",
        "struct<>",
        "decimal(0)",
        "decimal(39,2)",
        "decimal(2,x)",
        "int int",
        "int;",
    ],
)
def test_texts_that_are_no_type(text):
    with pytest.raises(ConfigError, match="is no type of a column: expected one of boolean"):
        parse_type(text)


def test_what_fits_into_what():
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    assert fits_into(pa.struct([("a", pa.int8())]), inner)
    assert fits_into(pa.list_(pa.int8()), pa.list_(pa.int64()))
    assert fits_into(pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64()))
    assert not fits_into(pa.struct([("c", pa.int8())]), inner)
    assert not fits_into(pa.map_(pa.int8(), pa.int8()), pa.map_(pa.int16(), pa.int8()))
    assert not fits_into(pa.int64(), pa.int32())
    assert not fits_into(pa.string(), inner)


def test_read_arrow_as_of_an_entry_has_the_columns_of_then(evolving):
    evolving.send(FULL)
    seq = evolving.log.state.seq
    evolving.alter(rename_columns={"n": "number", "f": "n"}, widen_columns={"id": "bigint"})
    then = read_arrow(evolving.log, "t", as_of=seq, columns=["id", "n", "f"]).read_all()
    assert then.to_pylist() == [{"id": 1, "n": 7, "f": 1.5}]
    assert then.schema.field("id").type == pa.int32()
    now = read_arrow(evolving.log, "t", columns=["number", "n"]).read_all()
    assert now.to_pylist() == [{"number": 7, "n": 1.5}]
