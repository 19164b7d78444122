"""Which partition a row goes to: the one it names, else the hash of its key, else one that sticks.

A partitioner takes many rows at once and answers with one partition for all of them or with an array,
one per row. Hashes are Kafka's, so that a key keeps its partition when a topic moves between the two.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.errors import ConfigError, InvalidRecordError, SchemaMismatchError
from spark_eos.log.data.arrow import size_of
from spark_eos.log.data.layout import normalise_type
from spark_eos.log.data.murmur import hash_matrix, murmur2

PRODUCER_BATCH_BYTES = 16_384
"""Bytes a producer sends to one partition before `Sticky` moves on (Kafka's batch.size)."""

Rows: TypeAlias = pa.RecordBatch | pa.Table
Partitions: TypeAlias = int | npt.NDArray[np.int32]
"""One partition for all rows, or one per row."""


class Partitioner(Protocol):
    """Assigns rows to partitions ``0 … partitions - 1``."""

    def __call__(self, rows: Rows, partitions: int, /) -> Partitions: ...


def explicit(column: pa.Array | pa.ChunkedArray, partitions: int) -> npt.NDArray[np.int32]:
    """The partition numbers that rows name themselves; -1 where a row names none (null).

    Raises `InvalidRecordError` for a number the topic does not have, `SchemaMismatchError` if the column
    does not hold integers.
    """
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int32)
    if not pa.types.is_integer(column.type):
        raise SchemaMismatchError(
            f"the partition column holds {column.type}; it must hold integers, such as int32"
        )
    bounds = pc.min_max(column)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not 0 <= bound < partitions:
            raise InvalidRecordError(
                f"{_no_such_partition(bound, partitions)}. The column of partitions names it: leave that column out "
                "and rows go by their key, or give the topic more partitions"
            )
    filled = column.cast(pa.int32()).fill_null(-1) if column.null_count else column.cast(pa.int32())
    numbers: npt.NDArray[np.int32] = filled.to_numpy()
    return numbers


def key_partitions(
    keys: pa.Array | pa.ChunkedArray | Sequence[pa.Array], partitions: int
) -> npt.NDArray[np.int32]:
    """Kafka's ``(murmur2(key) & 0x7fffffff) % partitions``, for keys as `key_hashes` takes them."""
    positive = key_hashes(keys) & np.int32(0x7FFFFFFF)
    remainders: npt.NDArray[np.int32] = (positive.view(np.uint32) % np.uint32(partitions)).view(np.int32)
    return remainders


def key_hashes(keys: pa.Array | pa.ChunkedArray | Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """One 32-bit hash per row of the key column, or of several columns that are the key together.

    A column is hashed by the bytes Kafka's own serializer of its type makes, all big-endian:

    - string, binary: the bytes themselves
    - int16, int32, int64: 2, 4, 8 bytes; int8: 1 byte
    - float, double: the IEEE bits in 4, 8 bytes, one pattern for all NaN
    - bool: 1 byte, 0 or 1
    - date, timestamp, duration: days since 1970 as int32; microseconds (since 1970 in UTC) as int64
    - decimal: its text

    Several columns: murmur2 of their hashes, 4 bytes big-endian each, one after the other. Null has the
    hash 0. The encoding never changes: it decides where keys live. Raises `SchemaMismatchError` for a
    column that cannot be a key (lists, structs, maps).
    """
    columns = [keys] if isinstance(keys, (pa.Array, pa.ChunkedArray)) else list(keys)
    hashes = [_column_hashes(column) for column in columns]
    if len(hashes) == 1:
        return hashes[0]
    return hash_matrix(np.stack(hashes, axis=1).astype(">i4").view(np.uint8))


def _column_hashes(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    types = pa.types
    if types.is_null(column.type):
        return np.zeros(len(column), np.int32)
    stored = normalise_type(column.type, "key")
    if types.is_string(stored) or types.is_binary(stored):
        return murmur2(column.cast(stored) if types.is_dictionary(column.type) else column)
    column = column.cast(stored) if column.type != stored else column
    if types.is_decimal(stored):
        return murmur2(column.cast(pa.string()))
    if types.is_date32(stored):
        column, stored = column.cast(pa.int32()), pa.int32()
    elif types.is_temporal(stored):
        column, stored = column.cast(pa.int64()), pa.int64()
    elif types.is_boolean(stored):
        column, stored = column.cast(pa.int8()), pa.int8()
    if not types.is_primitive(stored):
        raise SchemaMismatchError(f"a column of type {stored} cannot be a key; use one without nested values")
    zero = pa.scalar(0, stored)
    values = (column.fill_null(zero) if column.null_count else column).to_numpy()
    if types.is_floating(stored):
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    encoded = np.ascontiguousarray(values.astype(values.dtype.newbyteorder(">")))
    hashes = hash_matrix(encoded.view(np.uint8).reshape(len(encoded), encoded.dtype.itemsize))
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


class Sticky:
    """All rows of a call to one partition; the next partition once ``batch_bytes`` went to this one.

    With ``batch_bytes=0`` each call has its own partition, which suits large calls (one of Spark's Arrow
    batches); `PRODUCER_BATCH_BYTES` gathers small ones. ``start`` is the first partition (taken modulo
    their number): let different writers start at different ones.
    """

    def __init__(self, start: int, batch_bytes: int = 0) -> None:
        self._partition = start
        self._batch_bytes = batch_bytes
        self._sent = 0

    def __call__(self, rows: Rows, partitions: int) -> int:
        return self.take(partitions, size_of(rows) if rows.num_rows else 0)

    def take(self, partitions: int, size: int) -> int:
        """The partition for ``size`` bytes of rows; no bytes change nothing."""
        current = self._partition % partitions
        self._sent += size
        if size and self._sent >= self._batch_bytes:
            self._partition, self._sent = current + 1, 0
        return current


@dataclass
class DefaultPartitioner:
    """The partition a row names, else Kafka's hash of its key, else `Sticky`.

    ``key_columns``: one or more columns that are the key; a key is absent where all of them are null.
    ``partition_column``: the column with explicit partition numbers. Columns that the rows do not have
    count as null. Raises `InvalidRecordError` for a partition number the topic does not have, whatever
    their number.
    """

    sticky: Sticky
    key_columns: Sequence[str] = ("key",)
    partition_column: str | None = "partition"

    def __call__(self, rows: Rows, partitions: int, /) -> Partitions:
        named = self._named_partitions(rows, partitions)
        if partitions == 1 or not rows.num_rows:
            return 0
        if named is not None and named.min() >= 0:
            return _shortest(named)
        target = self._keyed(rows, partitions)
        if named is not None:
            target = named if target is None else np.where(named >= 0, named, target)
        if target is None:
            return self.sticky(rows, partitions)
        left = target < 0
        count = int(np.count_nonzero(left))
        if count:
            size = -(-size_of(rows) * count // rows.num_rows)
            target = np.where(left, np.int32(self.sticky.take(partitions, size)), target)
        return _shortest(target)

    def _named_partitions(self, rows: Rows, partitions: int) -> npt.NDArray[np.int32] | None:
        """What `explicit` says; None if no row names a partition."""
        if self.partition_column is None or self.partition_column not in rows.schema.names:
            return None
        column = rows.column(self.partition_column)
        return None if column.null_count == len(column) else explicit(column, partitions)

    def _keyed(self, rows: Rows, partitions: int) -> npt.NDArray[np.int32] | None:
        """Partitions by key, -1 where it is absent; None if no row has one."""
        names = rows.schema.names
        columns = [
            rows.column(name) if name in names else pa.nulls(rows.num_rows) for name in self.key_columns
        ]
        if all(column.null_count == len(column) for column in columns):
            return None
        hashed = key_partitions(columns, partitions)
        if all(column.null_count for column in columns):
            absent = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
            hashed[np.logical_and.reduce(absent)] = -1
        return hashed


def check_partitions(result: object, rows: int, partitions: int, source: str) -> Partitions:
    """``result`` of a partitioner, as an int if it is one partition for all, else as an int32 array.

    Raises `InvalidRecordError`, naming ``source``, unless it is an integer or one integer per row, each
    from 0 to ``partitions - 1``.
    """
    if isinstance(result, (int, np.integer)) and not isinstance(result, bool):
        lowest = highest = int(result)
    elif isinstance(result, np.ndarray):
        if result.dtype.kind not in "iu" or result.shape != (rows,):
            raise InvalidRecordError(
                f"{source}: expected one integer for each of {rows} rows, found an array of {result.dtype} "
                f"with the shape {result.shape}"
            )
        if not rows:
            return 0
        lowest, highest = int(result.min()), int(result.max())
    else:
        raise InvalidRecordError(
            f"{source}: expected an int or a NumPy array of integers, found {type(result).__name__}"
        )
    for bound in (lowest, highest):
        if not 0 <= bound < partitions:
            raise InvalidRecordError(f"{source}: {_no_such_partition(bound, partitions)}")
    return (
        lowest
        if lowest == highest or not isinstance(result, np.ndarray)
        else result.astype(np.int32, copy=False)
    )


def load_partitioner(spec: str) -> Partitioner:
    """The custom partitioner of ``partitioner.class``: ``module:name`` or ``module.name``.

    The name is a callable as `Partitioner`, or a class without arguments whose instances are. What it
    returns is checked at each call (`check_partitions`). Raises `ConfigError` if there is no such thing.
    """
    module_name, separator, path = spec.partition(":") if ":" in spec else spec.rpartition(".")
    if not (module_name and separator and path):
        raise ConfigError(f"partitioner.class={spec!r} is not of the form 'module:name' or 'module.name'")
    try:
        target: object = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"partitioner.class={spec!r}: module {module_name!r} cannot be imported: {error!r}; put it where "
            "this process and Spark's executors find it (PYTHONPATH, --py-files)"
        ) from error
    try:
        for part in path.split("."):
            target = getattr(target, part)
        candidate = target() if isinstance(target, type) else target
    except Exception as error:
        raise ConfigError(f"partitioner.class={spec!r}: {path!r} cannot be had from it: {error!r}") from error
    if not callable(candidate):
        raise ConfigError(
            f"partitioner.class={spec!r} is a {type(candidate).__name__}, which cannot be called"
        )
    return _CheckedPartitioner(candidate, f"partitioner.class={spec!r}")


@dataclass
class _CheckedPartitioner:
    partitioner: Callable[[Rows, int], object]
    source: str

    def __call__(self, rows: Rows, partitions: int, /) -> Partitions:
        return check_partitions(self.partitioner(rows, partitions), rows.num_rows, partitions, self.source)


def _shortest(targets: npt.NDArray[np.int32]) -> Partitions:
    """The one partition if it is the same in all rows: the writer need not sort then."""
    lowest = int(targets.min())
    return lowest if lowest == targets.max() else targets


def _no_such_partition(number: int, partitions: int) -> str:
    return f"there is no partition {number}: the topic has {partitions}, numbered from 0 to {partitions - 1}"
