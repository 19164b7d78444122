"""Which Parquet files have exactly the records of some offsets: other programs may read these as a whole. Pure."""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import Fetch, planned_rows
from spark_eos.protocol.index import Load, in_memory
from spark_eos.protocol.state import State
from spark_eos.protocol.types import FileRef, TopicPartition


class SealedFile(NamedTuple):
    """A Parquet file of a partition, all of whose rows are wanted.

    They have offsets from ``base_offset`` to before ``next_offset``.
    """

    file: FileRef
    partition: int
    base_offset: int
    next_offset: int
    rows: int
    min_timestamp_ms: int
    max_timestamp_ms: int


class SealedPlan(NamedTuple):
    """The records of a range of offsets: those of whole ``files``, and ``rest``, which the log has to read."""

    files: tuple[SealedFile, ...]
    rest: tuple[Fetch, ...]


def plan_sealed(
    state: State,
    at: TopicPartition,
    start: int,
    end: int,
    isolation: Isolation = Isolation.READ_COMMITTED,
    load: Load = in_memory,
    *,
    version: int = 0,
) -> SealedPlan:
    """What holds the offsets ``start`` to ``end - 1``, both in their order.

    Raises as `spark_eos.log.data.planner.plan`. A file with rows that lie outside, or that were replaced since,
    belongs to the rest; so does one whose rows have an older ``version`` of the topic's schema.
    """
    files: dict[str, SealedFile] = {}
    lengths: dict[str, int] = {}
    fetches = []
    for row, fetch in planned_rows(state, at, start, end, isolation, load):
        file, batch = fetch.file, fetch.batch
        fetches.append(fetch)
        if not file.is_parquet or file.schema_version < version:
            continue
        times = batch.min_timestamp_ms, batch.max_timestamp_ms
        sealed = SealedFile(file, at.partition, fetch.offset, fetch.next_offset, batch.count, *times)
        if (before := files.get(file.name)) is not None:
            sealed = sealed._replace(
                base_offset=before.base_offset,
                rows=before.rows + sealed.rows,
                min_timestamp_ms=min(before.min_timestamp_ms, sealed.min_timestamp_ms),
                max_timestamp_ms=max(before.max_timestamp_ms, sealed.max_timestamp_ms),
            )
        files[file.name] = sealed
        # Of a batch on both sides of an end it is not known here which records lie inside.
        is_cut = fetch.count < row.next_offset - row.base_offset
        lengths[file.name] = lengths.get(file.name, 0) + (0 if is_cut else batch.length)
    whole = {name for name, length in lengths.items() if length == files[name].file.body}
    return SealedPlan(
        tuple(sealed for name, sealed in files.items() if name in whole),
        tuple(fetch for fetch in fetches if fetch.file.name not in whole),
    )
