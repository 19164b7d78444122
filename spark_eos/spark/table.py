"""A whole topic as one DataFrame: what is sealed by Spark's own Parquet reader, the rest by eoslog, at one entry."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_eos.clients.table_plan import TableRead, plan_table
from spark_eos.config.store import only_store_options
from spark_eos.errors import ConfigError
from spark_eos.log.data_place import data_settings, has_all_data
from spark_eos.log.selection.columns import place_names
from spark_eos.log.topics import config_value
from spark_eos.spark.options import parse_source
from spark_eos.spark.topics import source_schema
from spark_eos.spark.types import without
from spark_eos.storage import is_object_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG = logging.getLogger(__name__)

_TAKEN = ("includeHeaders", "includeMetadata", "minPartitions", "maxRecordsPerPartition")
"""Options of the source that fit: they do not say what is read."""

_EXACT = {
    # What the session's settings may say otherwise: a file that is gone or damaged would be passed over.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
    # Dates and times before 1582 and 1900 are those that were written.
    "datetimeRebaseMode": "CORRECTED",
}
"""Options of Spark's Parquet reader."""

_FORMAT = "org.apache.spark.sql.parquet"
"""Spark's Parquet reader by its old name: the same one whatever ``spark.sql.sources.useV1SourceList`` says.

The other one takes the least and greatest values of the wrong column from files that have more columns than are read
(``spark.sql.parquet.aggregatePushdown``): tried with Spark 4.2.
"""

_FLOATING = {"parquet.filter.dictionary.enabled": "false"}
"""For columns with floating-point numbers: -0.0 equals 0.0, but a row group's dictionary is searched for the bits."""

_FIELD_ID = "parquet.field.id"
"""Metadata of a column by which Spark finds it in files, if the session says so. Ours have no such ids."""

_GLOB = re.compile(r"([\\{}\[\]*?])")
"""What Hadoop takes for a pattern in the name of a folder.

Spark's own option against that (``__globPaths__``) reads each file as often as there are such names: tried.
"""

_SCHEMES = {"s3": "s3a", "abfss": "abfss", "gs": "gs"}
"""Of object stores that Hadoop knows: what their URLs begin with there."""

_S3A = {
    "s3.access-key-id": "fs.s3a.access.key",
    "s3.secret-access-key": "fs.s3a.secret.key",
    "s3.session-token": "fs.s3a.session.token",
    "s3.endpoint": "fs.s3a.endpoint",
    "s3.region": "fs.s3a.endpoint.region",
}


def read_table(
    spark: SparkSession,
    log: str | os.PathLike[str],
    topic: str,
    *,
    as_of: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
    whole_transactions: bool = False,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Read all committed records of a topic, at the speed of Parquet where ``maintain`` has sealed them.

    The rows are those of ``spark.read.format("eoslog")`` at the moment of this call. Each is read once: from sealed
    Parquet files by Spark's own reader, to which Spark hands the columns and filters of a query, and from the rest of
    the log by eoslog. The moment is that of one entry of the log: what writers, ``maintain`` and retention do later
    does not change the result. Files that the log no longer needs stay for ``file.delete.delay.ms`` of the topic: a
    query that runs later than that ends with an error that names the file. Call this again then.

    Parameters
    ----------
    spark
        The session; also one of Spark Connect.
    log
        The path or URL of the log.
    topic
        The name of the topic.
    as_of
        Read the log as it was: after this entry (its number), or at this time (a ``datetime``, or text in ISO 8601; in
        UTC unless it has a time zone). None: as it is now.
    columns
        The columns of the result, in this order, as option ``columns`` of the source. None: those of the source.
    whole_transactions
        As in `read_arrow`, and as option ``wholeTransactions`` of the source.
    options
        Settings of the log's object store, and the source's ``includeHeaders``, ``includeMetadata``,
        ``minPartitions`` and ``maxRecordsPerPartition``.

    Returns
    -------
    pyspark.sql.DataFrame
        The rows, in the columns of the source; each may be null.

    Raises
    ------
    ConfigError
        An argument or option does not fit.
    UnknownTopicOrPartitionError
        There is no such topic.
    InvalidRequestError
        ``as_of`` is not in the log, or not any more; nor are the entries by which ``whole_transactions`` is known.

    Examples
    --------
    >>> from spark_eos import read_table
    >>> rows = spark.createDataFrame([("AA", 3), ("UA", 11)], "carrier string, delay int")
    >>> rows.write.format("eoslog").option("topic", "flights").mode("append").save(folder + "/log")
    >>> read_table(spark, folder + "/log", "flights").filter("delay > 5").collect()
    [Row(carrier='UA', delay=11)]

    Notes
    -----
    docs/guide/reading-tables.md.
    """
    source_options = _options(topic, columns, options)
    url = os.fspath(log)
    read, schema = _planned(url, topic, as_of, source_options, whole=whole_transactions)
    source = {"path": read.log.url, **source_options}
    sealed = _sealed(spark, read, schema, source_options) if read.files else None
    if sealed is None:
        return _nullable(_ours(spark, {**source, "offsetRanges": _everything(read)}))
    if not read.rest:
        return sealed
    ranges = {str(at.partition): spans for at, spans in read.plan.ranges.items()}
    unsealed = _ours(spark, {**source, "offsetRanges": _ranges(read, ranges)}, schema)
    return sealed.unionAll(unsealed)


def _planned(
    url: str, topic: str, as_of: int | str | datetime | None, source_options: dict[str, str], *, whole: bool
) -> tuple[TableRead, StructType]:
    """The plan and the columns of the rows, both of one version of the topic's schema.

    Adds to ``source_options`` the option by which eoslog reads the log as of the plan's entry, where it would not do so
    anyway.
    """
    while True:
        read = plan_table(url, topic, as_of, only_store_options(source_options), whole_transactions=whole)
        if read.is_past or "compact" in config_value(read.topic, "cleanup.policy", tuple):
            # What compaction takes away later was there at that entry.
            source_options["versionAsOf"] = str(read.seq)
        schema = source_schema(parse_source({"path": read.log.url, **source_options}, streaming=False))
        current = read.log.state.topics.get(topic)
        if read.is_past or current is None or current.schemas == read.topic.schemas:
            return read, schema
        # The schema was changed in between: the columns may be those of the next version.


def _options(
    topic: str, columns: Sequence[str] | None, options: Mapping[str, object] | None
) -> dict[str, str]:
    """Options of the source for this read. Raises `ConfigError` for one that would say what is read."""
    texts = {name: str(value) for name, value in (options or {}).items()}
    names = {name.lower() for name in _TAKEN}
    for name in texts.keys() - only_store_options(texts).keys():
        if name.lower() not in names:
            raise ConfigError(
                f"read_table: option {name} does not fit; it takes settings of an object store and {', '.join(_TAKEN)}"
            )
    if columns is not None:
        if isinstance(columns, str) or not columns:
            raise ConfigError(f"read_table: columns={columns!r}; expected a list of names, such as ['value']")
        for name in columns:
            if "," in name or name != name.strip():
                raise ConfigError(
                    f"read_table: columns has {name!r}: names with a comma in them or a blank at an end cannot be "
                    "chosen there. Leave columns out, and select from the result"
                )
        texts["columns"] = ",".join(columns)
    return {**texts, "subscribe": topic}


def _everything(read: TableRead) -> str:
    """All offsets of the plan as one range a partition, in the form of option ``offsetRanges``."""
    ranges: dict[str, list[int]] = {}
    for file in read.files:
        ends = ranges.setdefault(str(file.partition), [file.start, file.end])
        ends[:] = [min(ends[0], file.start), max(ends[1], file.end)]
    for fetch in read.rest:
        ends = ranges.setdefault(str(fetch.partition), [fetch.offset, fetch.next_offset])
        ends[:] = [min(ends[0], fetch.offset), max(ends[1], fetch.next_offset)]
    return _ranges(read, {number: [ends] for number, ends in ranges.items()})


def _ranges(read: TableRead, ranges: Mapping[str, Sequence[Sequence[int]]]) -> str:
    """Option ``offsetRanges``: of this topic, and not of one that is created again with its name."""
    return json.dumps({read.topic.name: {"id": read.topic.topic_id, **ranges}})


def _ours(spark: SparkSession, options: Mapping[str, str], columns: StructType | None = None) -> DataFrame:
    reader = spark.read.format("eoslog").options(**options)
    return (reader if columns is None else reader.schema(columns)).load()


def _nullable(rows: DataFrame) -> DataFrame:
    """The rows with columns that may be null, as those of Parquet files may for Spark."""
    from pyspark.sql.types import StructField, StructType

    if all(field.nullable for field in rows.schema):
        return rows
    return rows.to(StructType([StructField(f.name, f.dataType, True, f.metadata) for f in rows.schema]))


def _sealed(
    spark: SparkSession, read: TableRead, schema: StructType, options: Mapping[str, str]
) -> DataFrame | None:
    """The rows of the sealed files; None if Spark cannot read them, or not to the same values."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructField, StructType

    base = _location(read.log.data_location) if has_all_data(read.log.state) else None
    if base is None or not all(_is_plain(field.dataType) for field in schema):
        return None
    is_typed = bool(read.topic.schemas)
    constants: dict[str, Any] = {place_names(is_typed=is_typed)[0]: sql.lit(read.topic.name)}
    if not is_typed:
        constants["timestampType"] = sql.lit(0)
    stored = [
        without(StructField(f.name, f.dataType, True, f.metadata), _FIELD_ID)
        for f in schema
        if f.name not in constants
    ]
    exact = {**_EXACT, **(_FLOATING if any(_is_floating(field.dataType) for field in stored) else {})}
    reader = (
        spark.read.format(_FORMAT).schema(StructType(stored)).options(**exact, **_of_hadoop(read, options))
    )

    def shown_as(field: StructField) -> Any:
        if field.name in constants:
            return constants[field.name].alias(field.name)
        name = f"`{field.name.replace('`', '``')}`"  # A name costs no call of the JVM, as `col` does.
        if _FIELD_ID in field.metadata:
            return sql.col(name).alias(field.name, metadata=field.metadata)
        return name

    def rows_of(paths: list[str]) -> DataFrame:
        rows = reader.load(paths)
        return rows if stored == list(schema) else rows.select(*map(shown_as, schema))

    paths = [_GLOB.sub(r"\\\1", f"{base}/{file.name}") for file in read.files]
    if not is_object_store(read.log.data_location):
        return rows_of(paths)
    try:
        rows = rows_of(paths)
        rows.schema  # noqa: B018  (Spark Connect looks for the files only now)
    except Exception as error:
        if not _lacks_jar(error):
            raise
        _LOG.warning(
            "read_table: this Spark cannot read %s by itself: eoslog reads all of topic %s, which takes longer. Add "
            "the jar of that store, such as org.apache.hadoop:hadoop-aws of Spark's Hadoop (spark.jars.packages)",
            base,
            read.topic.name,
        )
        return None
    return rows


def _location(url: str) -> str | None:
    """The folder of the log as Hadoop names it; None if it has no name for it."""
    if not is_object_store(url):
        return f"file://{url}" if url.startswith("/") else None
    scheme, _, path = url.partition(":")
    return f"{_SCHEMES[scheme]}:{path}" if scheme in _SCHEMES else None


def _of_hadoop(read: TableRead, options: Mapping[str, str]) -> dict[str, str]:
    settings = data_settings(read.log.state, only_store_options(options))
    hadoop_options = {_S3A[name]: value for name, value in settings.items() if name in _S3A}
    if "fs.s3a.endpoint" in hadoop_options:
        hadoop_options["fs.s3a.path.style.access"] = "true"
        hadoop_options["fs.s3a.connection.ssl.enabled"] = str(
            hadoop_options["fs.s3a.endpoint"].startswith("https")
        ).lower()
    return hadoop_options


def _lacks_jar(error: Exception) -> bool:
    text = str(error)
    return "ClassNotFoundException" in text or "No FileSystem for scheme" in text


def _is_plain(type_: Any) -> bool:
    """Whether Spark reads such a column of our files as eoslog gives it.

    Not so are its own types that Parquet and Arrow do not have: char and varchar, collations, intervals, VARIANT; and
    structs with fields whose names differ in case alone, which Spark finds in no file.
    """
    from pyspark.sql import types as t

    if isinstance(type_, t.ArrayType):
        return _is_plain(type_.elementType)
    if isinstance(type_, t.MapType):
        return _is_plain(type_.keyType) and _is_plain(type_.valueType)
    if isinstance(type_, t.StructType):
        names = {name.lower() for name in type_.names}
        return len(names) == len(type_) and all(_is_plain(field.dataType) for field in type_)
    return type_ in _plain_types() or type(type_) is t.DecimalType


def _is_floating(type_: Any) -> bool:
    """Whether there are floating-point numbers in a column, however deep."""
    from pyspark.sql import types as t

    if isinstance(type_, t.ArrayType):
        return _is_floating(type_.elementType)
    if isinstance(type_, t.MapType):
        return _is_floating(type_.keyType) or _is_floating(type_.valueType)
    if isinstance(type_, t.StructType):
        return any(_is_floating(field.dataType) for field in type_)
    return isinstance(type_, (t.FloatType, t.DoubleType))


def _plain_types() -> tuple[Any, ...]:
    from pyspark.sql import types as t

    integers = (t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType())
    times = (t.DateType(), t.TimestampType(), t.TimestampNTZType())
    return (t.BooleanType(), *integers, t.FloatType(), t.DoubleType(), t.StringType(), t.BinaryType(), *times)
