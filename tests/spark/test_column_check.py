"""What a query that runs makes of columns that change, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin
from spark_eos.errors import SchemaMismatchError
from spark_eos.spark.options import parse_source
from spark_eos.spark.topics import ColumnCheck, source_schema


def test_columns_that_change_places_are_others(bench):
    admin = Admin(bench.log)
    admin.create_topic("t", schema=pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.int32())]))
    options = parse_source({"path": bench.url, "subscribe": "t"}, streaming=True)
    whole = source_schema(options)
    checks = [
        ColumnCheck(options, whole),
        ColumnCheck(options, whole[:1]),
        ColumnCheck(options, whole[2:]),
    ]
    for check in checks:
        check.check([bench.state.topics["t"]])
    admin.alter_topic("t", rename_columns={"a": "b", "b": "a"})
    topic = bench.state.topics["t"]
    for check in checks[:2]:
        with pytest.raises(SchemaMismatchError, match=r"are not those .*column 'a' was renamed to 'b'"):
            check.check([topic])
    checks[2].check([topic])  # Its own column is the same.
    ColumnCheck(options, whole).check([topic])  # A query that is started now knows.


def test_a_new_topic_has_no_null_where_the_query_knows_of_none(bench):
    admin = Admin(bench.log)
    for name, is_nullable in (("t1", False), ("t2", True)):
        admin.create_topic(name, schema=pa.schema([pa.field("a", pa.string(), nullable=is_nullable)]))
    options = parse_source({"path": bench.url, "subscribe": "t1"}, streaming=True)
    check = ColumnCheck(options, source_schema(options))
    with pytest.raises(SchemaMismatchError, match="column 'a' may be null now"):
        check.check([bench.state.topics["t2"]])
