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
from spark_eos.extensions.mirror.out.sending import rows_of
from spark_eos.extensions.ui.areas.records import records, show_record
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.log.data import convert
from spark_eos.log.data.parquet.columns import check_columns
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
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "key": _maybe(st.binary(max_size=3)),
            "value": _maybe(st.binary(max_size=3)),
            "headers": _maybe(st.lists(_maybe(HEADER), max_size=3)),
        }
    ),
    min_size=1,
    max_size=4,
)


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


def paged(log):
    """As the page shows it, by its place and by a search."""
    follower = Follower(log.store)
    try:
        follower.poll()
        shown = records(follower, Question({"topic": "t", "from": "start"}))
        records(follower, Question({"topic": "t", "from": "start", "search": "x"}))
        for row in shown["rows"]:
            show_record(follower, Question({"topic": "t", "partition": 0, "offset": row["offset"]}))
        return json.loads(json.dumps(shown))["rows"]
    finally:
        follower.close()


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


def is_read_as_it_was_written(schema, rows):
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )
    log = Log.create(MemoryStore())
    parquet = {"segment.format": "parquet"} if _fits_parquet(schema) else {}
    Admin(log).create_topic("t", schema=schema, config={**parquet, "segment.ms": 0})
    with Producer(log) as producer:
        for at in range(table.num_rows):
            producer.send_arrow("t", table.slice(at, 1))
            producer.flush()
    wanted = table.to_pylist()
    for is_rolled in (False, True):
        if is_rolled:
            assert Roller(log).run() or len(rows) == 1
        one_by_one, arrow = polled(log)
        same((record.value for record in one_by_one), wanted)
        same(arrow.select(schema.names).to_pylist(), wanted)
        same(read(log).select(schema.names).to_pylist(), wanted)
        assert len(paged(log)) == len(rows)
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
    table = pa.Table.from_pylist(
        rows, pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])
    )
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
    wanted = [
        (row["key"], row["value"], tuple((one["key"], one["value"]) for one in row["headers"] or ()))
        for row in rows
    ]
    assert [(one.key, one.value, tuple(one.headers)) for one in one_by_one] == wanted
    assert arrow.select(table.column_names).to_pylist() == rows
    assert read(log).select(table.column_names).to_pylist() == rows
    assert len(paged(log)) == len(rows)
    again = JsonRecords().rows(lines(arrow), 1)
    for row, (key, value, headers) in zip(again.to_pylist(), wanted, strict=True):
        assert (row.get("key"), row["value"]) == (key, value)
        assert tuple((one["key"], one["value"]) for one in row.get("headers") or ()) == headers
    (fetch,) = _fetches(log)
    sent = rows_of(log.read(log.topic("t"), fetch), "t-0")
    assert [(key, value, tuple(headers or ())) for key, value, headers, _ in sent] == wanted


def _fetches(log):
    from spark_eos.config.isolation import Isolation
    from spark_eos.log.data.planner import plan

    state = log.follow()
    end = state.partitions[log.topic("t").topic_id, 0].end
    return plan(state, TopicPartition("t", 0), 0, end, Isolation.READ_COMMITTED, log.load)


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"v"}])
def test_headers_that_an_earlier_version_took(header, monkeypatch):
    """`poll` and mirrors say where a name is missing and how to go on; other readers show the headers."""
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    rows = [None, [], [{"key": "k", "value": None}], [{"key": "k", "value": b"v"}, header], None]
    table = pa.table({"value": [b"%d" % at for at in range(5)], "headers": pa.array(rows, HEADERS)})
    with monkeypatch.context() as patched, Producer(log) as producer:
        patched.setattr(convert, "first_without_name", lambda _: None)
        producer.send_arrow("t", table)
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
    assert [len(row["headers"]) for row in paged(log)] == [0, 0, 1, 2, 0]
    (fetch,) = _fetches(log)
    with pytest.raises(InvalidRecordError, match="offset 3 of t-0 has a header that is null or has no name"):
        rows_of(log.read(log.topic("t"), fetch), "t-0")
