"""Records of the log as Kafka's, and where they are on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.errors import InvalidRecordError
from spark_eos.extensions.mirror.runs import MapRow, Run
from spark_eos.log.data.records import Records
from spark_eos.log.data.value_ranges import first_without_name

Offsets = npt.NDArray[np.int64]

_RUNS = 10_000
"""In one record of the map: it stays far below the size that Kafka takes."""


def rows_of(records: Records, where: str) -> list[tuple[Any, Any, Any, int]]:
    """(key, value, headers, timestamp) of each record. Raises `InvalidRecordError` for one that Kafka cannot keep."""
    times: list[int] = records.column("timestamp").cast(pa.int64()).to_pylist()
    if times and min(times) < 1:
        at = next(number for number, time_ms in enumerate(times) if time_ms < 1)
        raise InvalidRecordError(
            f"the record at offset {records.offset(at)} of {where} has the timestamp {times[at]}: Kafka's clients "
            "cannot send one of 1970 or before. Delete the records up to it (eoslog delete-records) and start "
            "the mirror with --accept-loss, or leave the topic out"
        )
    if (row := first_without_name(records.column("headers"))) is not None:
        raise InvalidRecordError(
            f"the record at offset {records.offset(row)} of {where} has a header that is null or has no name, which "
            "Kafka does not have. Delete the records up to it (eoslog delete-records) and start the mirror with "
            "--accept-loss, or leave the topic out"
        )
    headers: list[Any] = records.column("headers").to_pylist()
    header_pairs = [
        None if record_headers is None else [(header["key"], header["value"]) for header in record_headers]
        for record_headers in headers
    ]
    return list(
        zip(
            records.column("key").to_pylist(),
            records.column("value").to_pylist(),
            header_pairs,
            times,
            strict=True,
        )
    )


def runs_between(kafka: Offsets, log: Offsets) -> list[Run]:
    """The runs of records with these offsets on both sides, ascending."""
    if not len(kafka):
        return []
    breaks = np.flatnonzero((np.diff(kafka) != 1) | (np.diff(log) != 1)) + 1
    starts = [0, *breaks.tolist()]
    ends = [*starts[1:], len(kafka)]
    return [Run(int(kafka[at]), int(log[at]), end - at) for at, end in zip(starts, ends, strict=True)]


def map_rows(end: tuple[int, int] | None, runs: Sequence[Run]) -> Iterator[MapRow]:
    """The rows of the map for these runs. ``end`` is where the last run before them ended, by side."""
    for at in range(0, len(runs), _RUNS):
        row_runs = tuple(runs[at : at + _RUNS])
        yield MapRow(end, row_runs)
        end = row_runs[-1].end
