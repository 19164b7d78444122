"""Batch reads that leave out what the query's filter excludes: whole partitions and batches, and rows of the others.

Spark 4.2 keeps one plan of a Python source for each ``load()``, and not for each query: with a filter pushed down,
every later query of the same DataFrame gets the rows of that filter (tests/spark_facts/test_batches.py). Spark asks no
source about a query without a filter, so no source can prevent that. Therefore nothing is pushed down unless option
``filterPushdown`` says that the DataFrame is for one filter. A second filter is refused.

Every filter is handed back, so Spark applies all of them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource as spark_filters

from spark_eos.errors import ConfigError, StorageError
from spark_eos.log.data.layout import SPARK_FIELD
from spark_eos.log.data.planner import Fetch
from spark_eos.log.selection.columns import place_names
from spark_eos.log.selection.row_filter import RowFilter
from spark_eos.log.topics import key_columns, schema_of
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.source.values import codec_for
from spark_eos.spark.topics import selected_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import Topic
    from spark_eos.spark.options import SourceOptions

_COMPARED: dict[Any, Callable[[Any, Any], Any]] = {
    spark_filters.EqualTo: lambda field, value: field == value,
    spark_filters.EqualNullSafe: lambda field, value: (field == value) & field.is_valid(),
    spark_filters.GreaterThan: lambda field, value: field > value,
    spark_filters.GreaterThanOrEqual: lambda field, value: field >= value,
    spark_filters.LessThan: lambda field, value: field < value,
    spark_filters.LessThanOrEqual: lambda field, value: field <= value,
}
"""Comparisons with a value that is not null. Where the column is null they are null, in Spark as in Arrow, and so is
their negation; but ``<=>`` is false there, and its negation true."""

_EQUALITIES = (spark_filters.EqualTo, spark_filters.EqualNullSafe)


class EosLogPushdownReader(EosLogBatchReader):
    """As its base. Spark refuses a reader with `pushFilters` unless its setting for that is on."""

    def __init__(self, options: SourceOptions, schema: StructType, load_id: str) -> None:
        super().__init__(options, schema)
        self._load_id = load_id
        self._filter: RowFilter | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what can be decided here. All filters are handed back."""
        state = host().log(self._options.path, self._options.settings).state
        topics = [
            state.topics[name] for name in {at.topic for at in selected_partitions(self._options, state)}
        ]
        decodes = any(codec_for(self._options, topic) is not None for topic in topics)
        places, keys = _columns(topics)
        if decodes:  # Their key is a column of another name, and a place is only what options add.
            shown = self._options.include_metadata or self._options.columns is not None
            places, keys = place_names(is_typed=True) if shown else (), frozenset()
        expressions = [
            expression
            for filter_ in filters
            if (expression := as_expression(filter_, self._columns, places=places, keys=keys)) is not None
        ]
        _note(self._load_id, sorted(str(filter_) for filter_ in filters))
        if expressions:
            combined = reduce(lambda left, right: left & right, expressions)
            self._filter = RowFilter(
                combined, self._columns, is_typed=decodes or bool(topics and topics[0].schemas)
            )
            self._filters.append(self._filter)
        return filters

    def _range(self, at: TopicPartition, start: int, end: int) -> tuple[int, int]:
        return (start, end) if self._filter is None else self._filter.narrowed(at, start, end)

    def _matching_fetches(self, fetches: list[Fetch]) -> list[Fetch]:
        return fetches if self._filter is None else self._filter.kept(fetches)


def as_expression(
    filter_: Filter, columns: pa.Schema, *, places: Collection[str], keys: Collection[str]
) -> Any:
    """The filter for Arrow; None unless it is true, false and null of the very rows of which Spark's is.

    What is kept is what it is true of. False and null differ all the same: the filter may be negated.

    ``places`` are the names of topic, partition, offset and timestamp, which are compared; columns ``keys`` are for
    equality alone.
    """
    import pyarrow.compute as pc

    if isinstance(filter_, spark_filters.Not):
        child = as_expression(filter_.child, columns, places=places, keys=keys)
        return None if child is None else ~child
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    if len(path) != 1 or path[0] not in columns.names or path[0] not in {*places, *keys}:
        return None
    name, type_ = path[0], columns.field(path[0]).type
    field = pc.field(name)
    if isinstance(filter_, spark_filters.IsNull):
        return field.is_null()
    if isinstance(filter_, spark_filters.IsNotNull):
        return field.is_valid()
    if isinstance(filter_, spark_filters.In):
        values = [_literal(value, type_) for value in filter_.value]
        if not values or any(value is None for value in values):
            return None
        return reduce(lambda left, right: left | right, [field == value for value in values])
    compared = _COMPARED.get(type(filter_))
    value = None if compared is None else _literal(getattr(filter_, "value", None), type_)
    if compared is None or value is None or not (name in places or isinstance(filter_, _EQUALITIES)):
        return None
    return compared(field, value)


def _columns(topics: Sequence[Topic]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The place columns, and the key columns that all of the topics have."""
    if not topics:
        return (), frozenset()
    keys = [{*_plain_keys(topic)} for topic in topics]
    return place_names(is_typed=bool(topics[0].schemas)), frozenset(set.intersection(*keys))


def _plain_keys(topic: Topic) -> Iterator[str]:
    """The key columns whose values are equal in Spark if they are in Arrow: without a collation or padding."""
    schema = schema_of(topic)
    for name in key_columns(topic):
        if schema is None or SPARK_FIELD not in (schema.field(name).metadata or {}):
            yield name


def _literal(value: object, type_: pa.DataType) -> Any:
    """The value in the column's type; None if it is null or of another type."""
    import pyarrow.compute as pc

    types = pa.types
    if types.is_integer(type_):
        fits = type(value) is int
    elif types.is_timestamp(type_):  # Spark's timestamp is a moment; one without a time zone is not.
        fits = isinstance(value, datetime) and (value.tzinfo is None) == (type_.tz is None)
    elif types.is_date(type_):
        fits = type(value) is date
    elif types.is_binary(type_):
        fits = isinstance(value, (bytes, bytearray))
    else:
        fits = (types.is_string(type_) and isinstance(value, str)) or (
            types.is_boolean(type_) and isinstance(value, bool)
        )
    if fits:
        with suppress(pa.ArrowException, OverflowError, ValueError):
            return pc.scalar(pa.scalar(bytes(value) if isinstance(value, bytearray) else value, type_))
    return None


def _note(load_id: str, filters: list[str]) -> None:
    """Write down the filter of this ``load()``, for all queries of this Spark.

    Raises `ConfigError` if another one is there, `StorageError`.
    """
    digest = hashlib.sha256("\n".join(filters).encode()).hexdigest()
    path = host().notes() / "filters" / load_id
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x") as note:
                note.write(f"{digest}\n{' and '.join(filters)}")
            return
        except FileExistsError:
            first, _, shown = path.read_text().partition("\n")
    except OSError as error:
        raise StorageError(
            f"option filterPushdown: the filter of this DataFrame cannot be noted in {path.parent} "
            f"(SPARK_LOCAL_DIRS): {error}. Make room there, or leave the option out"
        ) from error
    if first != digest:
        raise ConfigError(
            f"option filterPushdown: this DataFrame was read with the filter {shown} before, and Spark would give "
            f"both queries the rows of one of them. For {' and '.join(filters)} make another DataFrame with load(), or "
            "leave the option out"
        )
