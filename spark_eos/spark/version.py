"""The versions of Spark that this connector was tried with, and all that differs between them for it.

Other modules ask for what they need by name and never for a version. Where PySpark itself shows what it has, its number
is not asked, since a vendor's Spark may have more than that says; docs/quality/spark-facts.md has the recordings.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyspark

from spark_eos.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "HAS_READ_LIMITS",
    "SPARK",
    "TRIED",
    "UNTRIED",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "check_version",
    "from_arrow_type",
    "local_folders",
    "session_of_query",
    "to_arrow_schema",
    "to_arrow_type",
    "with_offsets",
]

SPARK: str = pyspark.__version__
"""The version of this process's PySpark."""

TRIED = ("4.1", "4.2", "4.3")
"""The minor versions that the tests run with."""

UNTRIED = "SPARK_EOS_UNTRIED_SPARK"
"""Set to ``true`` in the driver's environment, it lets another version of Spark through."""

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
    """Whether Spark tells a source the start and the limit of a micro-batch, and of AvailableNow (since 4.2).

    Spark 4.1 asks for all that is there in each micro-batch, and runs AvailableNow as one.
    """
except ModuleNotFoundError:

    class ReadLimit:  # type: ignore[no-redef]
        """Stands in for the class that this Spark does not have, as those below."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """The one limit of this Spark."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """Never given by this Spark."""

        max_rows: int

    @dataclass
    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        """Never given by this Spark."""

        min_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Never asked for by this Spark."""

    HAS_READ_LIMITS = False


_LEAVES_OFFSETS_OUT = SPARK.startswith("4.1.")


@cache
def _in_utc() -> dict[str, Any]:
    """Timestamps over Arrow are in UTC. Before Spark 4.2 they were so without being told."""
    from pyspark.sql.pandas.types import to_arrow_type as convert

    return {"timezone": "UTC"} if "timezone" in signature(convert).parameters else {}


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's columns over Arrow, in UTC. Raises Spark's error for a type that Arrow does not have."""
    from pyspark.sql.pandas.types import to_arrow_schema as convert

    return convert(schema, **_in_utc())


def to_arrow_type(type_: DataType) -> pa.DataType:
    """Spark's type over Arrow, in UTC. Raises Spark's error for a type that Arrow does not have."""
    from pyspark.sql.pandas.types import to_arrow_type as convert

    return convert(type_, **_in_utc())


def from_arrow_type(type_: pa.DataType) -> Any:
    """Spark's type of Arrow's; a timestamp without a time zone stays one."""
    from pyspark.sql.pandas.types import from_arrow_type as convert

    try:
        return convert(type_, prefer_timestamp_ntz=True)
    except TypeError:  # Spark 4.1, where a field `wkb` of a struct has no metadata.
        return convert(_with_metadata(type_), prefer_timestamp_ntz=True)


def _with_metadata(type_: pa.DataType) -> pa.DataType:
    """The type with metadata, which say nothing, at each field of a struct that has none."""
    import pyarrow as pa

    def field(of: pa.Field) -> pa.Field:
        return of.with_type(_with_metadata(of.type)).with_metadata(of.metadata or {b"": b""})

    if pa.types.is_struct(type_):
        return pa.struct([field(type_.field(number)) for number in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return pa.map_(field(type_.key_field), field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(field(type_.value_field))
    return type_


def with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the offsets of empty nested values, which Spark 4.1 leaves out: Arrow's C++ would read past them.

    That ends the process (SPARK-55056), for instance where all values of an ``array<array<string>>`` are null.
    """
    if not _LEAVES_OFFSETS_OUT:
        return batch
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [_with_offsets(column) for column in batch.columns], schema=batch.schema
    )


def _with_offsets(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    type_ = array.type
    if not pa.types.is_nested(type_):
        return array
    if not len(array):
        return pa.array([], type_)
    if pa.types.is_struct(type_):
        children = [_with_offsets(array.field(number)) for number in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if pa.types.is_map(type_):
        children = [
            pa.StructArray.from_arrays(
                [_with_offsets(array.keys), _with_offsets(array.items)],
                fields=[type_.key_field, type_.item_field],
            )
        ]
    else:
        children = [_with_offsets(array.values)]
    return pa.Array.from_buffers(
        type_, len(array), array.buffers()[:2], array.null_count, array.offset, children=children
    )


def local_folders(context: SparkContext) -> list[str]:
    """Where the driver's JVM keeps its temporary files: what it tells the Python processes that it starts.

    By handles of single methods. Py4J looks at all methods of a class, and those of ``SparkEnv`` in Spark 4.3 name a
    class that PySpark does not ship.
    """
    jvm: Any = context._jvm  # noqa: SLF001
    java, loader = jvm.java.lang, jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def found(name: str) -> Any:
        return java.Class.forName(f"org.apache.spark.{name}", True, loader)

    lookup, of = java.invoke.MethodHandles.publicLookup(), java.invoke.MethodType.methodType
    env, blocks = found("SparkEnv"), found("storage.BlockManager")
    arguments = jvm.java.util.ArrayList()
    arguments.add(lookup.findStatic(env, "get", of(env)).invokeWithArguments(arguments))
    manager = lookup.findVirtual(env, "blockManager", of(blocks)).invokeWithArguments(arguments)
    return [*manager.diskBlockManager().localDirsString()]


def session_of_query(batch: DataFrame) -> SparkSession:
    """The session that knows the query, in a process of Spark Connect's server that runs its ``foreachBatch``.

    Since Spark 4.3 the session of ``batch`` is a clone, which knows no query. The one that the query was started in is
    a variable of the process's main function, and nowhere else.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_filename.endswith("foreach_batch_worker.py"):
            session: SparkSession | None = frame.f_locals.get("spark_connect_session")
            if session is not None:
                return session
        frame = frame.f_back
    return batch.sparkSession


def check_version(version: str = SPARK) -> None:
    """Raise `ConfigError` for a Spark that the tests do not run with, unless the environment has `UNTRIED`."""
    if version.startswith(tuple(f"{minor}." for minor in TRIED)):
        return
    if os.environ.get(UNTRIED, "").lower() in {"1", "true"}:
        return
    raise ConfigError(
        f"this is Spark {version}; format('eoslog') was tried with {TRIED[0]} to {TRIED[-1]}, and what it rests on may "
        f"be different here. Install one of these (pip install 'pyspark[sql]~={TRIED[-1]}.0'), or set {UNTRIED}=true "
        "in the environment of the driver to try"
    )
