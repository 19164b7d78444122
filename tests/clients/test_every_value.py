"""What a writer takes, every reader gives: all types and shapes, with nulls at every level; and headers."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_eos import Admin, Consumer, Producer, TopicPartition, read_arrow
from spark_eos.cli.console.intake import JsonRecords, TypedRows
from spark_eos.cli.console.properties import PrintFormat
from spark_eos.cli.console.rendering import rendered_json, rendered_text
from spark_eos.errors import CorruptRecordError, InvalidRecordError
from spark_eos.log.data import convert
from spark_eos.log.data.parquet.columns import check_columns
from spark_eos.log.data.value_ranges import first_without_name
from spark_eos.log.log import Log
from spark_eos.maintenance.rolling import Roller
from spark_eos.storage.memory import MemoryStore

_SCALARS = (
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
    (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(9, 2), st.integers(-999_999_999, 999_999_999).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    (pa.binary(), st.binary(max_size=5)),
    (pa.date32(), st.dates()),
    (pa.time64("ns"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(timezone.utc))),
    (pa.duration("us"), st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000))),
)


def _maybe(values):
    return st.none() | values


def _list(inner):
    type_, values = inner
    return pa.list_(type_), st.lists(_maybe(values), max_size=3)


def _struct(inner):
    fields = [(f"f{at}", *one) for at, one in enumerate(inner)]
    values = {name: _maybe(values) for name, _, values in fields}
    return pa.struct([(name, type_) for name, type_, _ in fields]), st.fixed_dictionaries(values)


def _map(inner):
    (key, keys), (type_, values) = inner
    pairs = st.lists(st.tuples(keys, _maybe(values)), max_size=3, unique_by=lambda pair: repr(pair[0]))
    return pa.map_(key, type_), pairs


def _nested(inner):
    return (
        inner.map(_list)
        | st.lists(inner, min_size=1, max_size=3).map(_struct)
        | st.tuples(st.sampled_from(_SCALARS), inner).map(_map)
    )


TYPES = st.recursive(st.sampled_from(_SCALARS), _nested, max_leaves=5)
TABLES = st.lists(TYPES, min_size=1, max_size=3).flatmap(
    lambda columns: st.tuples(
        st.just(pa.schema([(f"c{at}", type_) for at, (type_, _) in enumerate(columns)])),
        st.lists(st.tuples(*(_maybe(values) for _, values in columns)), min_size=1, max_size=4),
    )
)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
HEADER = st.fixed_dictionaries({"key": _maybe(NAMES), "value": _maybe(st.binary(max_size=3))})
KAFKA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])


def _records(header):
    columns = {
        "key": _maybe(st.binary(max_size=3)),
        "value": _maybe(st.binary(max_size=3)),
        "headers": _maybe(st.lists(header, max_size=3)),
    }
    return st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4)


RECORDS = _records(_maybe(HEADER))
NAMED = _records(st.fixed_dictionaries({"key": NAMES, "value": _maybe(st.binary(max_size=3))}))
"""Whose headers all have names."""


NAMELESS = pytest.mark.parametrize("header", [None, {"key": None, "value": b"v"}])


def _until_empty(poll):
    while len(some := poll(timeout_ms=0)):
        yield some


def polled(log):
    """By `poll`, and as Arrow."""
    found = []
    for arrow in (False, True):
        with Consumer(log) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek_to_beginning()
            poll = consumer.poll_arrow if arrow else consumer.poll
            found.append([*_until_empty(poll)])
    return [one for some in found[0] for one in some], pa.concat_tables(found[1])


def lines(table):
    """As ``eoslog consume`` prints it: text, and JSON."""
    properties = PrintFormat(print_headers=True, print_key=True, print_timestamp=True)
    assert [*rendered_text(properties)(table)]
    assert [*rendered_text(properties, is_hex=True)(table)]
    return [one.rstrip(b"\n") for one in rendered_json()(table)]


def read(log):
    return read_arrow(log, "t").read_all()


def same(ours, theirs):
    """NaN is itself here."""
    assert [repr(one) for one in ours] == [repr(one) for one in theirs]


@settings(max_examples=12, suppress_health_check=[HealthCheck.data_too_large])
@given(TABLES)
def test_every_value_of_columns(given):
    is_read_as_it_was_written(*given)


@pytest.mark.deep
@settings(max_examples=300, suppress_health_check=[HealthCheck.data_too_large])
@given(TABLES)
def test_many_values_of_columns(given):
    is_read_as_it_was_written(*given)


def table_of(schema, rows):
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def log_of(table):
    """A log with a topic of these rows, each a file of its own."""
    schema, log = table.schema, Log.create(MemoryStore())
    parquet = {"segment.format": "parquet"} if _fits_parquet(schema) else {}
    Admin(log).create_topic("t", schema=schema, config={**parquet, "segment.ms": 0})
    with Producer(log) as producer:
        for at in range(table.num_rows):
            producer.send_arrow("t", table.slice(at, 1))
            producer.flush()
    return log


def is_read_as_it_was_written(schema, rows):
    table = table_of(schema, rows)
    log, wanted = log_of(table), table.to_pylist()
    for is_rolled in (False, True):
        if is_rolled:
            assert Roller(log).run() or len(rows) == 1
        one_by_one, arrow = polled(log)
        same((record.value for record in one_by_one), wanted)
        same(arrow.select(schema.names).to_pylist(), wanted)
        same(read(log).select(schema.names).to_pylist(), wanted)
        again = TypedRows(schema).rows(lines(arrow), 1)
        same(again.select(schema.names).to_pylist(), wanted)


def _fits_parquet(schema):
    try:
        check_columns(schema)
    except ValueError:
        return False
    return True


@settings(max_examples=30)
@given(RECORDS)
def test_every_record_of_kafka(rows):
    table = pa.Table.from_pylist(rows, KAFKA)
    nameless = [
        at
        for at, row in enumerate(rows)
        if any(header is None or header["key"] is None for header in row["headers"] or ())
    ]
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    with Producer(log) as producer:
        if nameless:
            with pytest.raises(
                InvalidRecordError, match=f"row {nameless[0]} of those for topic 't' has a header"
            ):
                producer.send_arrow("t", table)
            return
        producer.send_arrow("t", table)
    one_by_one, arrow = polled(log)
    wanted = [shape(row) for row in rows]
    assert [(one.key, one.value, tuple(one.headers)) for one in one_by_one] == wanted
    assert arrow.select(table.column_names).to_pylist() == rows
    assert read(log).select(table.column_names).to_pylist() == rows
    again = JsonRecords().rows(lines(arrow), 1)
    for row, (key, value, headers) in zip(again.to_pylist(), wanted, strict=True):
        assert (row.get("key"), row["value"]) == (key, value)
        assert tuple((one["key"], one["value"]) for one in row.get("headers") or ()) == headers


def shape(row):
    """Key, value and headers as a program gets them."""
    return row["key"], row["value"], tuple((one["key"], one["value"]) for one in row["headers"] or ())


@NAMELESS
def test_headers_that_an_earlier_version_took(header, monkeypatch):
    """`poll` says where a name is missing and how to go on; other readers show the headers."""
    rows, log = log_of_an_earlier_version(header, monkeypatch)
    with Consumer(log) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        with pytest.raises(
            CorruptRecordError, match=r"t-0, offset 3: a header is null or has no name.*seek to offset 4"
        ):
            consumer.poll(timeout_ms=0)
        assert [len(consumer.poll(timeout_ms=0, max_records=1)) for _ in range(3)] == [1, 1, 1]
        consumer.seek(TopicPartition("t", 0), 4)
        assert [record.offset for record in consumer.poll(timeout_ms=0)] == [4]
        consumer.seek_to_beginning()
        arrow = consumer.poll_arrow(timeout_ms=0)
    assert arrow.column("headers").to_pylist() == rows == read(log).column("headers").to_pylist()
    assert json.loads(lines(arrow)[3])["headers"] == [["k", "v"], header and [None, "v"]]


@NAMELESS
def test_the_first_header_without_a_name_of_a_column_in_chunks(header):
    """As Parquet files give one that is large."""
    chunks = [[None, []], [[{"key": "k", "value": None}], [header], [header]]]
    assert first_without_name(pa.chunked_array(chunks, HEADERS)) == 3


def log_of_an_earlier_version(header, monkeypatch):
    """Headers of five records, and a log with them."""
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    rows = [None, [], [{"key": "k", "value": None}], [{"key": "k", "value": b"v"}, header], None]
    table = pa.table({"value": [b"%d" % at for at in range(5)], "headers": pa.array(rows, HEADERS)})
    with monkeypatch.context() as patched, Producer(log) as producer:
        patched.setattr(convert, "first_without_name", lambda _: None)
        producer.send_arrow("t", table)
    return rows, log
