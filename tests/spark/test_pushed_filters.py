"""What a filter keeps that a batch read takes is what Spark keeps, for every operator, type and value."""

from __future__ import annotations

import random
from functools import reduce

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer, read_table
from spark_eos.log.selection.row_filter import RowFilter
from spark_eos.spark.source.pushdown import as_expression
from tests.sealing import seal

from . import filters as made

TABLE = made.table()
NUMBERED = TABLE.append_column("n", pa.array(range(TABLE.num_rows), pa.int32()))
ROWS = TABLE.to_pylist()


def kept(filter_, *, ordered):
    """The numbers of the rows that are kept; None: the filter is left to Spark."""
    names = frozenset(TABLE.schema.names)
    found = as_expression(filter_, NUMBERED.schema, places=names if ordered else (), keys=names)
    if found is None:
        return None
    return RowFilter(found, NUMBERED.schema, is_typed=True).apply(NUMBERED).column("n").to_pylist()


@pytest.mark.parametrize("ordered", [False, True], ids=["of a key", "of a place"])
def test_every_filter_keeps_the_rows_that_spark_keeps(ordered):
    all_ = [*made.filters()]
    taken = [(one, found) for one in all_ if (found := kept(one, ordered=ordered)) is not None]
    wrong = [
        one for one, found in taken if found != [n for n, row in enumerate(ROWS) if made.is_kept(one, row)]
    ]
    assert wrong == []
    assert len(taken) > len(all_) * (0.5 if ordered else 0.25), "a filter that is not taken says nothing here"


# -- On Spark ------------------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    """A log with the rows, all columns of which are the key; and the same ones sealed, one in a row group."""
    url = str(tmp_path / "log")
    with Admin(url) as admin, Producer(url) as producer:
        for topic in ("t", "sealed"):
            admin.create_topic(
                topic, 1, {"key.columns": ",".join(TABLE.schema.names)}, schema=NUMBERED.schema
            )
            producer.send_arrow(topic, NUMBERED).result(timeout=60)
    seal(Log.shared(url), "sealed", NUMBERED.num_rows, group=1)
    return url


@pytest.fixture
def session(spark):
    """Filters are pushed down, and the session is far from UTC."""
    zone, setting = spark.conf.get("spark.sql.session.timeZone"), "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.unset(setting)
    spark.conf.set("spark.sql.session.timeZone", zone)


def source(spark, url, **options):
    return spark.read.format("eoslog").options(path=url, subscribe="t", **options).load()


def in_parts(all_, size):
    return (all_[start : start + size] for start in range(0, len(all_), size))


@pytest.mark.deep
def test_what_is_written_down_of_spark_is_what_spark_says(session, log):
    """2,000 and more conditions, each on every row: true, false or null."""
    rows = source(session, log).cache()
    all_ = [*made.filters(), *made.nested(1000)]
    assert len(all_) > 2000
    wrong = []
    for some in in_parts(all_, 200):
        found = rows.selectExpr("n", *(f"{made.sql(one)} as c{at}" for at, one in enumerate(some))).collect()
        for answers in found:
            row = ROWS[answers.n]
            wrong += [
                (made.sql(one), answers.n, answers[at + 1])
                for at, one in enumerate(some)
                if answers[at + 1] is not made.outcome(one, row)
            ]
    assert wrong == []


@pytest.mark.deep
@pytest.mark.parametrize("pushed", [True, False], ids=["pushed down", "by bounds of row groups"])
def test_a_query_with_a_filter_has_the_rows_that_spark_keeps(session, log, pushed):
    def rows():
        return source(session, log, filterPushdown="true") if pushed else read_table(session, log, "sealed")

    drawn = random.Random(4)
    all_ = [*drawn.sample([*made.filters()], 240), *made.nested(160)]
    wrong = []
    for some in in_parts(all_, 20):
        parts = [rows().where(made.sql(one)).selectExpr(f"{at} as at", "n") for at, one in enumerate(some)]
        found = {(row.at, row.n) for row in reduce(lambda left, right: left.unionAll(right), parts).collect()}
        wanted = {
            (at, n) for at, one in enumerate(some) for n, row in enumerate(ROWS) if made.is_kept(one, row)
        }
        wrong += [(made.sql(some[at]), n) for at, n in found ^ wanted]
    assert wrong == []
