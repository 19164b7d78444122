"""A whole topic in DuckDB and Polars: sealed Parquet files by their own readers, the rest as Arrow, at one entry."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from spark_eos.clients.arrow_reader import ArrowWork, available_columns, chosen_columns
from spark_eos.clients.table_plan import TableRead, plan_table
from spark_eos.errors import ConfigError
from spark_eos.errors.loading import Loading
from spark_eos.log.data_place import has_all_data
from spark_eos.log.log import Log
from spark_eos.log.selection.columns import place_names
from spark_eos.log.topics import layout_of

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_GLOB = re.compile(r"([*?\[])")
_MICROSECONDS = pa.timestamp("us", "UTC")


def read_duckdb(
    connection: duckdb.DuckDBPyConnection,
    log: str | os.PathLike[str] | Log,
    topic: str,
    *,
    as_of: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
    whole_transactions: bool = False,
    config: Mapping[str, object] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Read all committed records of a topic in DuckDB, at the speed of Parquet where ``maintain`` has sealed them.

    Arguments and errors are as `read_arrow` has them; rows and columns, too, at the moment of this call, with times in
    microseconds. DuckDB reads the sealed files of a log in a folder by itself; to their reader it hands the columns and
    filters of a query. What it cannot read so is read as by `read_arrow`. What writers and ``maintain`` do later does
    not change the result. Files that the log no longer needs stay for ``file.delete.delay.ms`` of the topic: a later
    query fails and names one.

    Parameters
    ----------
    connection
        Whose relation it is.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows. It can be queried any number of times.

    Examples
    --------
    >>> import duckdb
    >>> from spark_eos import Log, Producer, read_duckdb
    >>> from spark_eos.storage import MemoryStore
    >>> log = Log.create(MemoryStore())
    >>> with Producer(log) as producer:
    ...     _ = producer.send("orders", b"one")
    >>> orders = read_duckdb(duckdb.connect(), log, "orders", columns=["offset", "value"])
    >>> orders.fetchall()
    [(0, b'one')]
    """
    parts = _Parts.of(log, topic, as_of, columns, config, whole=whole_transactions)
    relations = []
    if parts.paths:
        shown = ", ".join(
            f"{_text(topic)} AS {_name(name)}" if name == parts.topic_column else _name(name)
            for name in parts.schema.names
        )
        paths = [_GLOB.sub(r"[\1]", path) for path in parts.paths]
        relations.append(connection.read_parquet(paths, hive_partitioning=False).project(shown))
    if parts.read.rest or not relations:
        relations.append(connection.from_arrow(_Stream(parts)))
    return relations[0] if len(relations) == 1 else relations[0].union(relations[1])


def read_polars(
    log: str | os.PathLike[str] | Log,
    topic: str,
    *,
    as_of: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
    whole_transactions: bool = False,
    config: Mapping[str, object] | None = None,
) -> pl.LazyFrame:
    """Read all committed records of a topic in Polars, at the speed of Parquet where ``maintain`` has sealed them.

    As `read_duckdb`. Polars hands the columns and filters of a query to both parts.

    Returns
    -------
    polars.LazyFrame
        The rows. It can be collected any number of times.

    Examples
    --------
    >>> from spark_eos import Log, Producer, read_polars
    >>> from spark_eos.storage import MemoryStore
    >>> log = Log.create(MemoryStore())
    >>> with Producer(log) as producer:
    ...     _ = producer.send("orders", b"one")
    >>> read_polars(log, "orders", columns=["offset", "value"]).collect().rows()
    [(0, b'one')]
    """
    with Loading("read_polars", "demo", "polars", alone=True):
        import polars as pl
        from polars.io.plugins import register_io_source

    parts = _Parts.of(log, topic, as_of, columns, config, whole=whole_transactions)
    frames: list[pl.LazyFrame] = []
    if parts.paths:
        frame = pl.scan_parquet(parts.paths, glob=False, hive_partitioning=False)
        frames.append(
            frame.select(
                pl.lit(topic).alias(name) if name == parts.topic_column else pl.col(name)
                for name in parts.schema.names
            )
        )
    if parts.read.rest or not frames:

        def rows(
            with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            rows_left = n_rows
            for batch in parts.batches():
                chunk = pl.DataFrame(pa.Table.from_batches([batch], schema=parts.schema))
                if predicate is not None:
                    chunk = chunk.filter(predicate)
                if with_columns is not None:
                    chunk = chunk.select(with_columns)
                yield chunk if rows_left is None else chunk.head(rows_left)
                rows_left = None if rows_left is None else max(rows_left - chunk.height, 0)
                if rows_left == 0:
                    return

        schema = pl.DataFrame(parts.schema.empty_table()).schema
        frames.append(register_io_source(rows, schema=schema))
    return frames[0] if len(frames) == 1 else pl.concat(frames)


class _Parts(NamedTuple):
    """A read in the columns ``schema``: ``paths`` of files that the engine reads, and `batches` of the rest."""

    read: TableRead
    paths: list[str]
    schema: pa.Schema
    topic_column: str

    @staticmethod
    def of(
        log: str | os.PathLike[str] | Log,
        topic: str,
        as_of: int | str | datetime | None,
        columns: Sequence[str] | None,
        config: Mapping[str, object] | None,
        *,
        whole: bool,
    ) -> _Parts:
        read = plan_table(log, topic, as_of, config, whole_transactions=whole)
        available = available_columns(read.topic)
        names = chosen_columns(read.topic, available, columns)
        time = layout_of(read.topic).timestamp_column
        schema = pa.schema(
            # All may be null, as the columns of Parquet files may for these engines.
            [pa.field(n, _MICROSECONDS if n == time else available.field(n).type) for n in names]
        )
        topic_column = place_names(is_typed=bool(read.topic.schemas))[0]
        url = read.log.data_location
        # Other columns than the topic's name have to be there: a file has no rows without one.
        is_here = url.startswith("/") and has_all_data(read.log.state)
        if not is_here or {*names} <= {topic_column} or not all(map(_is_plain, schema.types)):
            fetches = sorted(read.all_fetches, key=lambda fetch: (fetch.partition, fetch.offset))
            read = read._replace(plan=read.plan._replace(files=(), rest=tuple(fetches)))
        paths = [f"{url}/{file.name}" for file in read.files]
        return _Parts(read, paths, schema, topic_column)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rest, from its beginning."""
        available = available_columns(self.read.topic)
        stored = pa.schema([available.field(name) for name in self.schema.names])
        work = ArrowWork(self.read.log, self.read.topic, self.read.rest, stored, stored, None)
        for batch in work.batches():
            yield batch.cast(self.schema)


class _Stream:
    """What DuckDB asks for the rows again with each query. No tuple: DuckDB 2 takes none for a stream."""

    def __init__(self, parts: _Parts) -> None:
        self.parts = parts

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.parts.schema, self.parts.batches())
        return reader.__arrow_c_stream__(requested_schema)


def _is_plain(type_: pa.DataType) -> bool:
    """Whether the values of a type are the same in our Parquet files: durations are numbers there, times differ.

    Names of a struct's fields that differ in case alone are others for DuckDB there.
    """
    types = pa.types
    if types.is_duration(type_) or types.is_time(type_):
        return False
    if types.is_struct(type_):
        names = {type_.field(number).name.lower() for number in range(type_.num_fields)}
        if len(names) < type_.num_fields:
            return False
    return all(_is_plain(type_.field(number).type) for number in range(type_.num_fields))


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    if "'" in text:
        raise ConfigError(f"{text!r} is no name of a topic")
    return f"'{text}'"
