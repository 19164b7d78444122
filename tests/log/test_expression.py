"""Filters that a person types: which rows they choose, by Arrow's functions and as its expression, and their errors."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.log.selection.expression import parsed
from spark_eos.log.selection.row_filter import RowFilter
from tests.starting import run

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array([0, 1, 2, 3], pa.int64()),
        "from": ["JFK", "LAX", None, "it's"],
        "key": pa.array([b"k1", b"\xff", None, b""], pa.binary()),
        "price": pa.array([Decimal("1.50"), Decimal("-2.00"), None, Decimal("9.99")], pa.decimal128(9, 2)),
        "rate": [0.5, 1e300, None, NAN],
        "half": pa.array([0.5, 1e30, None, NAN], pa.float32()),
        "paid": [True, False, None, True],
        "at": pa.array(
            [datetime(2026, 1, day, 0, 0, 0, 7, tzinfo=timezone.utc) for day in range(1, 5)],
            pa.timestamp("us", "UTC"),
        ),
        "local": pa.array(np.arange("2026-01-01", "2026-01-05", dtype="datetime64[D]")).cast(
            pa.timestamp("ms")
        ),
        "day": pa.array([0, 1, 2, 3], pa.date32()),
        "tags": [["x"], [], None, ["y"]],
        "a b": ["x", "y", "z", ""],
    }
)


def chosen(text):
    """By the functions, also in another process, and as an expression."""
    found = parsed(text, "t", ROWS.schema)
    by_expression = RowFilter(found.expression, ROWS.schema, is_typed=True)
    numbers = [
        one.apply(ROWS)["id"].to_pylist() for one in (found, pickle.loads(pickle.dumps(found)), by_expression)
    ]
    assert numbers[0] == numbers[1] == numbers[2]
    assert {field.name for field in found.fields} == {*by_expression.columns}
    return numbers[0]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("id >= 2", [2, 3]),
        ("id = 1 OR id=3", [1, 3]),
        ("NOT (id > 0 AND id <= 2)", [0, 3]),
        ("id > 0 and id < 3 or id = 0", [0, 1, 2]),
        ("id = 0 or id > 0 and id < 2", [0, 1]),
        ("id <> 0 and id != 1 and id == 3", [3]),
        ("\"from\" = 'JFK'", [0]),
        ("from != 'JFK'", [1, 3]),
        ("from = 'it''s'", [3]),
        ("from is null", [2]),
        ("from IS NOT NULL", [0, 1, 3]),
        ("from IN ('JFK', 'LAX')", [0, 1]),
        ("from NOT IN ('JFK')", [1, 3]),
        ("NOT (from = 'JFK')", [1, 3]),
        ("from = 'JFK' OR id = 2", [0, 2]),
        ("NOT (from = 'JFK' AND id = 2)", [0, 1, 3]),
        ("from LIKE '%A%'", [1]),
        ("from not like 'J%'", [1, 3]),
        ("key = 'k1'", [0]),
        ("key > 'k1'", [1]),
        ("key LIKE 'k%'", [0]),
        ("price > 1.5", [3]),
        ("price <= -2", [1]),
        ("rate > 1e299", [1, 3]),
        ("rate >= 2", [1, 3]),
        ("NOT (rate > 1e299)", [0]),
        ("rate < 1e301", [0, 1]),
        ("rate = 0.5 OR rate <= 0.5", [0]),
        ("rate != 0.5", [1, 3]),
        ("half > 7", [1, 3]),
        ("paid = TRUE", [0, 3]),
        ("paid != true", [1]),
        ("at >= '2026-01-03'", [2, 3]),
        ("at = '2026-01-02T00:00:00.000007Z'", [1]),
        ("at = '2026-01-02T00:00:00.000Z'", []),
        ("at < '2026-01-02T01:00:00.000007+01:00'", [0]),
        ("at < '1969-12-31T23:59:59.999999'", []),
        ("local >= '2026-01-03'", [2, 3]),
        ("day = '1970-01-03'", [2]),
        ("tags IS NULL", [2]),
        ("\"a b\" = ''", [3]),
    ],
)
def test_which_rows_it_chooses(text, numbers):
    assert chosen(text) == numbers


TEXTS = ["a", "é", "\N{GRINNING FACE}", "a\\b", "a\\bc", "a%", "ab", "x_y", "a\nb", "caf\u00e9", "(a)", ""]


@pytest.mark.parametrize(
    ("pattern", "chosen_texts"),
    [
        ("_", ["a", "é", "\N{GRINNING FACE}"]),
        ("__", ["a%", "ab"]),
        ("caf_", ["café"]),
        ("caf__", []),
        ("%é", ["é", "café"]),
        ("a_b", ["a\\b", "a\nb"]),
        ("(_)", ["(a)"]),
        (r"a\\b%", ["a\\b", "a\\bc"]),
        (r"%\\b", ["a\\b"]),
        (r"%\\%", ["a\\b", "a\\bc"]),
        (r"a\%", ["a%"]),
        (r"%\_%", ["x_y"]),
        (r"a\\_", ["a\\b"]),
        (r"\\", []),
        ("a%b", ["a\\b", "ab", "a\nb"]),
        ("%", TEXTS),
        ("", [""]),
    ],
)
@pytest.mark.parametrize("column", ["text", "bytes", "large"])
def test_like_is_that_of_spark(column, pattern, chosen_texts):
    """Of texts, and of the bytes of texts, which topics without a schema have: ``_`` is a character of them."""
    rows = pa.table(
        {
            "text": TEXTS,
            "bytes": [text.encode() for text in TEXTS],
            "large": pa.array(TEXTS, pa.large_string()),
        }
    )
    row_filter = parsed(f"{column} LIKE '{pattern}'", "t", rows.schema)
    by_expression = RowFilter(row_filter.expression, rows.schema, is_typed=True)
    assert row_filter.apply(rows)["text"].to_pylist() == chosen_texts
    assert by_expression.apply(rows)["text"].to_pylist() == chosen_texts
    other = parsed(f"{column} NOT LIKE '{pattern}'", "t", rows.schema)
    assert other.apply(rows)["text"].to_pylist() == [text for text in TEXTS if text not in chosen_texts]


def test_a_name_with_a_quote_in_it():
    rows = pa.table({'say "x"': [1, 2]})
    assert parsed('"say ""x""" = 2', "t", rows.schema).apply(rows).num_rows == 1


def test_it_may_be_long():
    """As long as its parts are beside one another."""
    assert chosen(" OR ".join(["id = 2", *["id = 7"] * 1500])) == [2]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "id=1 or prise > 5",
            "topic 't' has no column 'prise', which the filter names at character 9; did you mean 'price'? It",
        ),
        ("id = 'x'", "column 'id' is of type int64, and 'x' is no value of it"),
        ("id = TRUE", "column 'id' is of type int64, and TRUE is no value of it"),
        ("from = TRUE", "column 'from' is of type string, and TRUE is no value of it"),
        ("id = 1.5", "column 'id' is of type int64"),
        ("id = 99999999999999999999", "column 'id' is of type int64"),
        ("from = 5", "column 'from' is of type string, and 5 is no value of it"),
        ("at > 'soon'", "column 'at' is of type timestamp[us, tz=UTC], and 'soon' is no value of it"),
        ("local = '2026-01-03T00:00:00.0005'", "column 'local' is of type timestamp[ms]"),
        ("paid = NULL", "column 'paid' is of type bool, and NULL is no value of it"),
        ("tags = 'x'", "column 'tags' is of type list"),
        ("id LIKE 'x'", "column 'id' is of type int64: LIKE is for text"),
        ("from LIKE 'a\\b'", "has LIKE 'a\\b': a backslash stands before"),
        ("from LIKE 'a\\'", "has LIKE 'a\\': a backslash stands before"),
        ("", "not understood at its end"),
        ("id =", "not understood at its end"),
        ("id 5", "not understood at '5', character 4"),
        ("id = 5 5", "not understood at '5', character 8"),
        ("id NOT = 5", "not understood at '= 5'"),
        ("(id = 5", "not understood at its end"),
        ("id = 5; drop", "not understood at '; drop'"),
        ("id = 'x", 'not understood at "\'x"'),
        ("NOT " * 200 + "id = 1", "more than 50 levels"),
        ("(" * 200, "more than 50 levels"),
    ],
)
def test_errors_name_the_column_or_the_place(text, error):
    with pytest.raises(InvalidRequestError) as caught:
        parsed(text, "t", ROWS.schema)
    assert error in str(caught.value)


def test_a_task_loads_neither_pandas_nor_arrows_engine():
    assert run("log/filters_rows").stdout.split() == ["3"]
