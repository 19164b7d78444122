"""Mutants of what is read: columns that are chosen, and filters."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_RECORDS = "spark_eos/log/data/records.py"
_FILTER, _PUSHED = "spark_eos/log/selection/row_filter.py", "spark_eos/spark/source/pushdown.py"
_OF_COLUMNS = ("tests/log/test_projection.py",)
_OF_FILTERS = ("tests/log/test_row_filter.py",)
_OF_PUSHED = ("tests/spark/test_pushdown.py", "-k", "not on_spark and not spark_reads and not spark_says")
_EXPRESSION, _OF_EXPRESSIONS = "spark_eos/log/selection/expression.py", ("tests/log/test_expression.py",)
_WHERE = "spark_eos/spark/source/where.py"
_OF_WHERE = ("tests/spark/test_where.py", "-k", "not on_spark and not of_spark")

MUTANTS = (
    Mutant(
        "nan-compares-with-nothing",
        _EXPRESSION,
        'if sign.text[0] == ">" and field.type is not None and pa.types.is_floating(field.type):',
        "if False:",
        "a filter leaves out NaN where Spark's own keeps it",
        _OF_EXPRESSIONS,
    ),
    Mutant(
        "times-in-filters-cut-off",
        _EXPRESSION,
        "(parse_time(text) - _EPOCH) // timedelta(microseconds=1)",
        "(parse_time(text) - _EPOCH) // timedelta(milliseconds=1) * 1000",
        "a filter by time chooses other records than its text says",
        _OF_EXPRESSIONS,
    ),
    Mutant(
        "filters-of-a-source-not-applied",
        "spark_eos/spark/source/scan.py",
        "                table = row_filter.apply(table)\n",
        "                pass\n",
        "rows that option where excludes come to Spark",
        _OF_WHERE,
    ),
    Mutant(
        "columns-of-a-filter-may-change",
        "spark_eos/spark/topics.py",
        "        self._filtered = () if where is None else where.columns\n",
        "        self._filtered = ()\n",
        "a running query filters by another column of the same name",
        _OF_WHERE,
    ),
    Mutant(
        "collated-texts-compared-as-bytes",
        _WHERE,
        "            if type_.startswith(_COLLATED):\n",
        "            if False:\n",
        "a filter leaves out texts that are equal in Spark",
        _OF_WHERE,
    ),
    Mutant(
        "one-filter-for-columns-of-two-types",
        _WHERE,
        "        if _types(filters[topic]) != _types(filters[first]):\n",
        "        if False:\n",
        "values of one topic are compared with values of the type of another one",
        _OF_WHERE,
    ),
    Mutant(
        "times-of-a-batch-made-up",
        _RECORDS,
        "    return layout.timestamp_column in columns and batch.min_timestamp_ms != batch.max_timestamp_ms\n",
        "    return False\n",
        "a file that says it has no timestamps, but rows of several, is believed",
        ("tests/log/test_projection.py",),
    ),
    Mutant(
        "columns-of-an-older-schema-by-name",
        _RECORDS,
        "    read_columns = columns if newest.version == layout.version else None\n",
        "    read_columns = columns\n",
        "rows of an older schema lack the new column",
        _OF_COLUMNS,
    ),
    Mutant(
        "files-that-are-not-read-are-read-ahead",
        "spark_eos/log/data/task_io.py",
        "        ahead = [fetch for fetch in fetches if needs_file(topics[fetch.topic], fetch, columns)]\n",
        "        ahead = [*fetches]\n",
        "an object store is asked for bytes that nothing uses",
        _OF_COLUMNS,
    ),
    Mutant(
        "filter-ends-one-offset-early",
        _FILTER,
        "        stop = low + 1\n",
        "        stop = low\n",
        "the last row that a filter is true of is not read",
        _OF_FILTERS,
    ),
    Mutant(
        "filter-begins-one-offset-late",
        _FILTER,
        "                high = middle\n            else:\n                low = middle + 1\n",
        "                high = middle\n            else:\n                low = middle + 2\n",
        "the first row that a filter is true of is not read",
        _OF_FILTERS,
    ),
    Mutant(
        "filter-by-the-oldest-batch-alone",
        _FILTER,
        "                max(fetch.batch.max_timestamp_ms for fetch in fetches),\n",
        "                fetches[0].batch.max_timestamp_ms,\n",
        "batches are left out by the times of the first one",
        _OF_FILTERS,
    ),
    Mutant(
        "filters-of-one-load-mixed",
        _PUSHED,
        "    if first != digest:\n",
        "    if not first:\n",
        "two queries of one DataFrame get the rows of one filter",
        _OF_PUSHED,
    ),
    Mutant(
        "null-safe-equality-as-equality",
        _PUSHED,
        "    spark_filters.EqualNullSafe: lambda field, value: (field == value) & field.is_valid(),\n",
        "    spark_filters.EqualNullSafe: lambda field, value: field == value,\n",
        "NOT (key <=> 'x') loses every row whose key is null",
        ("tests/spark/test_pushed_filters.py",),
    ),
    Mutant(
        "times-without-a-zone-pushed",
        _PUSHED,
        "isinstance(value, datetime) and (value.tzinfo is None) == (type_.tz is None)",
        "isinstance(value, datetime)",
        "a time without a zone is taken for one in UTC",
        _OF_PUSHED,
    ),
    Mutant(
        "null-in-a-list-pushed",
        _PUSHED,
        "        if not values or any(value is None for value in values):\n            return None\n",
        "        values = [value for value in values if value is not None]\n",
        "NOT IN with a null keeps rows that Spark does not",
        _OF_PUSHED,
    ),
)
