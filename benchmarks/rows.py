"""The rows that are written: the same ones for all, from memory, so that making them costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

KEYS = 100_000
"""Distinct keys, of 5 to 9 bytes."""


def values(count: int, size: int, seed: int = 0, *, padded: bool = False) -> pa.Array:
    """``count`` values of ``size`` bytes: random hexadecimal digits, which compress to half.

    ``padded``: sixteen of them, the rest blanks.
    """
    digits = _HEX[np.random.default_rng(seed).integers(0, 16, count * size, np.uint8)]
    if padded:
        digits.reshape(count, size)[:, 16:] = ord(" ")
    offsets = np.arange(0, count * size + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def table(count: int, size: int, seed: int = 0, *, keyed: bool, padded: bool = False) -> pa.Table:
    """Rows with a value, and with a key if asked for."""
    columns = {"value": values(count, size, seed, padded=padded)}
    if keyed:
        names = [b"key-%d" % number for number in range(KEYS)]
        numbers = np.random.default_rng(seed + 1).integers(0, KEYS, count)
        columns = {"key": pa.array(names, pa.binary()).take(pa.array(numbers)), **columns}
    return pa.table(columns)


def cached(
    spark: SparkSession, folder: Path, count: int, size: int, *, keyed: bool, padded: bool = False
) -> DataFrame:
    """Such rows, in two partitions, as `in_memory` has them."""
    return in_memory(
        spark, folder, [table(count // 2, size, part, keyed=keyed, padded=padded) for part in range(2)]
    )


def in_memory(spark: SparkSession, folder: Path, parts: Sequence[pa.Table], *columns: str) -> DataFrame:
    """A DataFrame with these partitions, which Spark holds in memory. ``columns``: expressions. `unpersist` it."""
    from pyspark import StorageLevel

    folder.mkdir(parents=True)
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet", compression="none", use_dictionary=False)
    frame = spark.read.parquet(str(folder))
    frame = (frame.selectExpr(*columns) if columns else frame).persist(StorageLevel.MEMORY_ONLY)
    assert frame.count() == sum(part.num_rows for part in parts)
    return frame


def label(size: int) -> str:
    """A size for people."""
    return f"{size} B" if size < 1000 else f"{size // 1000} KB"
