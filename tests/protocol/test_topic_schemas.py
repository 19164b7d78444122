"""Schemas of topics, as the rules see them: any bytes are a schema that can be used, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions import AlterTopic
from spark_eos.protocol.arrow_schema import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_SCHEMA_FIELDS, shape_of


def nested(levels, inner=None):
    """A type of so many levels."""
    inner = inner or pa.int64()
    for level in range(levels - 1):
        inner = pa.struct([("a", inner)]) if level % 2 else pa.list_(inner)
    return inner


def stored(*fields):
    return pa.schema(fields).serialize().to_pybytes()


WIDE = stored(
    ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
    ("é", pa.decimal128(9, 2)),
    ("t", pa.timestamp("us", "UTC")),
)


def test_what_is_in_a_schema():
    assert shape_of(WIDE) == (("m", "é", "t"), (4, 1, 1), 7)


@given(
    st.lists(st.tuples(st.integers(0, len(WIDE) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 999)
)
def test_any_bytes_are_a_schema_or_are_refused(changes, length):
    data = bytearray(WIDE)
    for place, byte in changes:
        data[place] = byte
    try:
        found = shape_of(bytes(data[:length]))
    except ValueError:
        return
    assert found.fields <= MAX_SCHEMA_FIELDS


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (b"", "no Arrow schema"),
        (b"\xff" * 40, "no Arrow schema"),
        (stored(), "no column"),
        (stored(("", pa.int64())), "without a name"),
        (stored(("a", pa.int64()), ("a", pa.int64())), "two of the same name"),
        (stored(("a", pa.dictionary(pa.int32(), pa.string()))), "column 'a'"),
        (stored(("a", pa.null())), "column 'a'"),
        (
            stored(("deep", nested(MAX_SCHEMA_DEPTH + 1))),
            "column 'deep' is nested 64 levels deep; 63 are possible",
        ),
        (stored(*((f"c{number}", pa.bool_()) for number in range(MAX_SCHEMA_FIELDS + 1))), "more than 10000"),
        (bytes(MAX_SCHEMA_BYTES + 1), "4194305 bytes"),
        (WIDE.replace("é".encode(), b"\xff\xff"), "damaged"),
    ],
)
def test_schemas_that_are_refused(log, schema, told):
    with pytest.raises(InvalidRequestError, match=told):
        log.topic("new", schema=schema)
    log.topic("typed", schema=WIDE)
    with pytest.raises(InvalidRequestError, match=told):
        log.do(AlterTopic("typed", "typed-id", schema=schema))


def test_the_largest_schemas(log):
    log.topic("deep", schema=stored(("deep", nested(MAX_SCHEMA_DEPTH))))
    log.topic("wide", schema=stored(*((f"c{number}", pa.bool_()) for number in range(MAX_SCHEMA_FIELDS))))
