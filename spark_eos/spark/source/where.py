"""Option ``where``: a filter of the whole query, which a task applies before its rows leave it.

Spark tells the source of a stream of no filter, and makes rows of its own of all that a task hands over before it drops
any. The rows are those that Spark's own filter right behind the source would leave. Offsets stay offsets: what is
planned, read and committed is the same with and without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_eos.errors import ConfigError, InvalidRequestError, SchemaMismatchError
from spark_eos.log.selection.expression import parsed
from spark_eos.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructField, StructType

    from spark_eos.log.selection.expression import Filter

_COLLATED = "string collate "
"""How Spark names texts that it compares otherwise than byte by byte."""


class Where(NamedTuple):
    """A filter, and the columns that it names, as Spark has them."""

    row_filter: Filter
    columns: tuple[StructField, ...]


def filter_of(text: str, topics: Mapping[str, StructType]) -> Where:
    """The filter that a text says, over the columns of each of the topics, which need not have others in common.

    Raises `ConfigError` for what is no filter of such a topic, `SchemaMismatchError` where two topics differ.
    """
    filters = {}
    for topic, columns in topics.items():
        try:
            row_filter = parsed(text, topic, arrow_schema(columns))
        except InvalidRequestError as error:
            raise ConfigError(f"option where={text!r}: {error}") from None
        fields = tuple(columns[field.name] for field in row_filter.fields)
        for field in fields:
            type_ = field.dataType.simpleString()
            if type_.startswith(_COLLATED):
                raise ConfigError(
                    f"option where={text!r}: column {field.name!r} of topic {topic!r} is {type_}, whose texts Spark "
                    "compares otherwise than the log does: filter it with df.where(...)"
                )
        filters[topic] = Where(row_filter, fields)
    first, *others = filters
    for topic in others:
        if _types(filters[topic]) != _types(filters[first]):
            raise SchemaMismatchError(
                f"topics {first!r} and {topic!r} have different types for option where={text!r}: "
                f"{_told(filters[first])} and {_told(filters[topic])}. Read each with a source of its own"
            )
    return filters[first]


def _types(where: Where) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in where.columns}


def _told(where: Where) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in _types(where).items())
