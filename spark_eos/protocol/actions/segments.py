"""Segments: index rows are replaced by others with the same records at the same offsets, or with fewer of them.

Rolling makes few large batches of many small ones; compaction drops older values of a key (docs/design/0005). Readers
do not notice: what they have planned stays until its files are vacuumed, and each record that is left keeps its
offset. A request names the checksum of the rows that it replaces. Without that, two processes that rewrite the same
rows would undo one another's work, and deleted records could come back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from spark_eos.errors import InvalidRecordError, InvalidRequestError, SegmentsReplacedError
from spark_eos.protocol.actions.appends import check_file_name, check_floor
from spark_eos.protocol.actions.declaration import CRC, INT32, Field, declare
from spark_eos.protocol.actions.topics import require
from spark_eos.protocol.encoding.avro import LONG, STRING, array_of
from spark_eos.protocol.encoding.index_pages import checksum, read_rows, rows_columns, seal_rows
from spark_eos.protocol.encoding.values import INDEX_ROWS
from spark_eos.protocol.index import Index, IndexPage, IndexRow, Kind
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.sealing import PAGE_ROWS, sealed_to
from spark_eos.protocol.state import State


class ReplaceSegments(NamedTuple):
    """Sealed rows of a partition are replaced by others with the same records at the same offsets, or fewer of them.

    ``replaced`` is the checksum (`spark_eos.protocol.encoding.index_pages.checksum`) of the index pages
    from ``base_offset`` to ``next_offset``: of several requests that replace the same pages, one is accepted. ``rows``
    cover exactly these offsets. ``staged`` are the names of the files that were written for it; all other files of the
    rows belong to what is replaced.
    """

    topic: str
    topic_id: str
    partition: int
    base_offset: int
    next_offset: int
    replaced: int
    rows: tuple[IndexRow, ...]
    staged: tuple[str, ...] = ()


def replace_segments(state: State, action: ReplaceSegments) -> tuple[State, None]:
    """The rows of the action take the place of exactly the index pages that it names.

    They may reach into the tail, which is then sealed up to there (`sealed_to`).

    Raises `SegmentsReplacedError` if they are not there any more: another process was faster, or they were deleted.
    """
    topic = require(state, action.topic, action.topic_id)
    key = (topic.topic_id, action.partition)
    partition = state.partitions.get(key)
    where = f"{action.topic}-{action.partition}, offsets {action.base_offset} to {action.next_offset}"
    if partition is None:
        raise InvalidRequestError(f"{where}: the topic has {topic.partitions} partitions")
    if action.next_offset > (partition.index.pages[-1].next_offset if partition.index.pages else -1):
        partition = sealed_to(key, partition, action.next_offset)
    pages = partition.index.pages
    first = next((n for n, page in enumerate(pages) if page.base_offset == action.base_offset), len(pages))
    end = next((n for n, page in enumerate(pages) if page.next_offset == action.next_offset), -1) + 1
    if end <= first or checksum(pages[first:end]) != action.replaced:
        raise SegmentsReplacedError(
            f"{where}: what was to be replaced is not there any more, another process was faster; plan again"
        )
    _check_rows(action, where)
    for name in action.staged:
        # Only new files: those that the replaced rows refer to were never unreferenced, however old they are.
        check_floor(state, name)
    new = [seal_rows(key, action.rows[at : at + PAGE_ROWS]) for at in range(0, len(action.rows), PAGE_ROWS)]
    new_pages: tuple[IndexPage, ...] = (*pages[:first], *new, *pages[end:])
    partition = replace(partition, index=Index(new_pages, partition.index.tail))
    return replace(state, partitions=state.partitions.set(key, partition)), None


def _check_staged(action: ReplaceSegments) -> None:
    for name in action.staged:
        check_file_name(name)


def _check_written(action: ReplaceSegments) -> None:
    """The stored form has the partition once, and a file only together with its batch."""
    for row in action.rows:
        if (row.file is None) is not (row.batch is None) or (
            row.batch is not None and row.batch.partition != action.partition
        ):
            raise InvalidRequestError(
                f"the row at offset {row.base_offset} has no file, no batch, or one of another partition than "
                f"{action.partition}"
            )


def _read(stored: dict[str, Any]) -> ReplaceSegments:
    rows = tuple(read_rows(stored["partition"], stored["rows"]))
    return ReplaceSegments(**{**stored, "rows": rows, "staged": tuple(stored["staged"])})


declare(
    ReplaceSegments,
    number=20,
    fields=(
        Field("topic", STRING),
        Field("topic_id", STRING),
        Field("partition", LONG, bounds=INT32),
        Field("base_offset", LONG),
        Field("next_offset", LONG),
        Field("replaced", LONG, bounds=CRC),
        Field("rows", INDEX_ROWS._replace(write=rows_columns)),
        Field("staged", array_of(STRING)),
    ),
    rule=replace_segments,
    check=_check_staged,
    check_written=_check_written,
    read=_read,
)


def _check_rows(action: ReplaceSegments, where: str) -> None:
    at = action.base_offset
    for row in action.rows:
        if row.base_offset != at or row.count < 1:
            raise InvalidRequestError(f"{where}: the new rows leave a hole at offset {at}")
        at = row.next_offset
        _check_row(row, where)
    if at != action.next_offset:
        raise InvalidRequestError(f"{where}: the new rows end at offset {at}")


def _check_row(row: IndexRow, where: str) -> None:
    if row.file is None or row.batch is None:
        if row.kind is not Kind.HOLE:
            raise InvalidRequestError(f"{where}: a new row at offset {row.base_offset} has no file")
        return
    if row.kind not in {Kind.DATA, Kind.ABORTED}:
        raise InvalidRequestError(f"{where}: a new row at offset {row.base_offset} is {row.kind.name}")
    if row.file.is_parquet and (row.kind is not Kind.DATA or row.file.omitted):
        raise InvalidRequestError(
            f"{where}: a new row at offset {row.base_offset} is {row.kind.name}, or its file omits columns: a Parquet "
            "file cannot have it"
        )
    batch = row.batch
    end = row.file.size - row.file.footer
    inside = batch.position >= 0 <= batch.length and batch.position + batch.length <= end
    fits = 1 <= batch.count <= row.count and (row.file.offsets or batch.count == row.count)
    if not (inside and fits):
        raise InvalidRecordError(
            f"{where}: a new batch of {batch.count} records at offset {row.base_offset} does not fit its "
            f"{row.count} offsets, or does not lie in file {row.file.name} of {row.file.size} bytes"
        )
