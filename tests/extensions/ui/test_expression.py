"""Filters that a person types: which records they choose, what is not read for them, and what errors say."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.reading import wanted
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking
from tests.needing import needs

ROWS = pa.table({"id": pa.array([0, 1, 2, 3], pa.int64()), "from": ["JFK", "LAX", None, "it's"]})

JSON = [
    b'{"amount": 4, "who": "it\'s", "an id": 9007199254740993, "rate": 0.1}',
    b'{"amount": 5.5, "ok": true, "an id": 9007199254740992}',
    b'{"amount": "7"}',
    b"no object",
    b'{"amount": NaN, "key": "not the record\'s"}',
    None,
    b'{"amount": null}',
    b'["amount"]',
]


@pytest.fixture(scope="module")
def ask():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("typed", 1, schema=ROWS.schema)
    Admin(log).create_topic("plain", 3)
    Admin(log).create_topic("json", 1)
    with Producer(log) as producer:
        producer.send_arrow("typed", ROWS)
        for number in range(30):
            producer.send(
                "plain", b"v", key=b"k%d" % number, partition=number % 3, timestamp_ms=1000 * number
            ).get()
        for value in JSON:
            producer.send("json", value, key=b"k").get()
    return Asking(log)


def found(ask, text, topic="typed", **fields):
    answer = ask("records", topic=topic, filter=text, **fields)
    return sorted(row["offset"] for row in answer["rows"])


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("id > 0 and id < 3 or id = 0", [0, 1, 2]),
        ("from NOT IN ('JFK')", [1, 3]),
        ("_offset < 2 AND _partition = 0", [0, 1]),
        ("_timestamp > '2020-01-01'", [0, 1, 2, 3]),
        ("  ", [0, 1, 2, 3]),
    ],
)
def test_which_records_it_chooses(ask, text, offsets):
    assert found(ask, text) == offsets
    assert found(ask, text, **{"from": "start"}) == offsets


def test_an_error_names_the_column(ask):
    assert "no column 'prise'" in ask("records", topic="typed", filter="prise > 5")["error"]


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("amount > 5", [1, 4]),  # NaN is above all numbers.
        ("NOT amount > 5", [0]),
        ("amount > 5 AND offset < 4", [1]),
        ("amount IN (4, 5.5) OR offset = 3", [0, 1, 3]),
        ("amount NOT IN (4)", [1, 4]),
        ("amount = '7'", [2]),
        ("amount IS NULL", [3, 5, 6, 7]),
        ("amount IS NOT NULL", [0, 1, 2, 4]),
        ("who LIKE 'it%'", [0]),
        (r"who LIKE 'it_s' AND who NOT LIKE '%\\%'", [0]),
        ('"an id" = 9007199254740993', [0]),
        ("ok = TRUE", [1]),
        ("rate = 0.1", [0]),
        ("(amount = '7' OR ok = TRUE) AND key = 'k'", [1, 2]),
    ],
)
def test_fields_of_values(ask, text, offsets):
    assert found(ask, text, topic="json") == offsets
    assert found(ask, text, topic="json", **{"from": "start"}) == offsets


def test_a_field_that_no_value_has_is_told_and_no_empty_answer(ask):
    def problem(text, **fields):
        return ask("records", topic="json", filter=text, **fields)["problem"]

    says = "no record that was looked at has such a field with a value of that type: "
    assert problem("amont > 5") == f"{says}amont > 5"
    assert problem("amount > 5 OR ok = 'yes'") == f"{says}ok = 'yes'"
    assert problem("amount > 5", decode="text") == f"{says}amount > 5"
    assert problem("amount > 5") is None
    assert problem("amont > 5 AND offset > 99") is None  # None was looked at.
    assert "no column 'prise'" in ask("records", topic="typed", filter="prise > 5")["error"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("amount > NULL", "NULL is no value: nulls are asked for by amount IS NULL"),
        ("amount > 1e99999999999999999999", "1e99999999999999999999 is no value"),
        ("amount", "not understood at its end"),
    ],
)
def test_errors_about_fields_of_values(ask, text, error):
    assert error in ask("records", topic="json", filter=text)["error"]


@needs("value_formats")
def test_fields_of_avro():
    schema = '{"type": "record", "name": "r", "fields": [{"name": "amount", "type": "double"}]}'
    log = Log.create(MemoryStore())
    Admin(log).create_topic("avro", 1, config={"value.format": "avro", "value.schema": schema})
    with Producer(log) as producer:
        for amount in (0.1, 7.5):
            producer.send("avro", {"amount": amount})
    assert found(Asking(log), "amount = 0.1", topic="avro") == [0]


def test_how_many_records_were_looked_at_and_what_was_not_read(ask):
    """What offset, partition and time alone exclude is not read: each record is a batch of its own here."""

    def looked_at(text, **fields):
        answer = ask("records", topic="plain", filter=text, **fields)
        assert answer["done"]
        return len(answer["rows"]), answer["looked_at"]

    assert looked_at("key = 'k7'") == (1, 30)
    assert looked_at("offset >= 8") == (6, 6)
    assert looked_at("partition = 2 AND offset = 3") == (1, 1)
    assert looked_at("timestamp >= '1970-01-01T00:00:25Z'") == (5, 5)
    assert looked_at("offset = 3 OR key = 'k7'") == (4, 30)
    assert looked_at("offset >= 8", search="nothing") == (0, 6)
    assert looked_at("offset < 2", partition=1, **{"from": "start"}) == (2, 2)


@pytest.mark.parametrize("narrowed", [500, 0])
def test_so_many_batches_are_left_out_in_one_call(ask, monkeypatch, narrowed):
    monkeypatch.setattr(wanted, "MOST_SKIPS", 4)
    monkeypatch.setattr(wanted, "_MOST_NARROWED", narrowed)
    text = "timestamp < '1970-01-01T00:00:02Z'"
    answer = ask("records", topic="plain", filter=text)
    calls, rows = 1, answer["rows"]
    while not answer["done"] and calls < 20:
        answer = ask("records", topic="plain", filter=text, before=answer["next"])
        calls, rows = calls + 1, [*rows, *answer["rows"]]
    assert [row["time"] for row in rows] == [1000, 0]
    assert 2 < calls < 20


def test_to_decode_values_counts_as_much_as_to_read_them(monkeypatch):
    log = Log.create(MemoryStore())
    Admin(log).create_topic("json", 1)
    with Producer(log, {"compression.type": "zstd"}) as producer:
        for number in range(4):
            producer.send("json", b'{"n": %d, "x": "%s"}' % (number, b"x" * 10_000)).get()
    monkeypatch.setattr(wanted, "MOST_BYTES", 15_000)
    ask = Asking(log)
    assert ask("records", topic="json", search='"n": 0')["done"]
    answer = ask("records", topic="json", filter="n = 0")
    assert (answer["done"], answer["looked_at"]) == (False, 2)
