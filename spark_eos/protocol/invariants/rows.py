"""Invariants of a partition and of its rows."""

from __future__ import annotations

from spark_eos.protocol.index import IndexPage, IndexRow, Kind
from spark_eos.protocol.invariants.comparing import ensure
from spark_eos.protocol.state import Partition, PartitionKey


def check_partition(key: PartitionKey, partition: Partition, before: Partition) -> None:
    """Offsets are in order, and rows without a hole; those that were in ``before`` were looked at."""
    stable = partition.last_stable_offset
    ensure(0 <= partition.start <= stable <= partition.end, f"partition {key}: start, LSO, end out of order")
    at = partition.end if partition.index.start is None else partition.index.start
    ensure(at <= partition.start, f"partition {key} lacks its first rows")
    for page in partition.index.pages:
        ensure(page.base_offset == at, f"partition {key} has a hole at offset {at}")
        ensure(page.next_offset > partition.start, f"partition {key} keeps rows before its start")
        at = page.next_offset
    ensure(at <= stable, f"partition {key}: rows are sealed whose transaction is open")
    first = 0
    if partition.start == before.start and _continues(partition, before):
        first, at = len(before.index.tail), before.end
    for row in partition.index.tail.rows(first):
        ensure(row.base_offset == at and row.count >= 1, f"partition {key} has a hole at offset {at}")
        ensure(row.next_offset > partition.start, f"partition {key} keeps rows before its start")
        at = row.next_offset
    ensure(at == partition.end, f"partition {key} ends at {at}, not {partition.end}")


def _continues(new: Partition, old: Partition) -> bool:
    """Whether the rows of ``new`` are those of ``old`` and others after them, as far as bytes tell."""
    return new.index.pages is old.index.pages and new.index.tail.begins_with(old.index.tail)


def check_rows(key: PartitionKey, old: Partition, new: Partition) -> None:
    """Rows of ``old`` that are in ``new`` say the same."""
    if new.aborted is old.aborted and _continues(new, old):
        return
    # Stable rows may be rewritten (`ReplaceSegments`), and are sealed then; nothing else may change.
    kept = [_shown(old, row) for row in old.index.tail if row.next_offset > new.start]
    held = _rows_in_memory(new, old)
    rows = {row.base_offset: _shown(new, row) for row in held}
    sealed = new.index.pages[-1].next_offset if new.index.pages else 0
    files = {row.file for row in old.index.tail}
    rewritten = [row for row in held if row.file not in files or row.kind is Kind.HOLE]
    for row in kept:
        # An open transaction may be aborted; an aborted or committed one stays so.
        later = rows.get(row.base_offset)
        aborted = row._replace(kind=Kind.ABORTED) if row.producer.producer_id in old.open else row
        if later not in (row, aborted):
            stable = row.next_offset <= min(old.last_stable_offset, sealed)
            replaced = any(
                new_row.base_offset < row.next_offset and row.base_offset < new_row.next_offset
                for new_row in rewritten
            )
            ensure(stable and replaced, f"rows of partition {key} changed")


def _rows_in_memory(partition: Partition, old: Partition) -> list[IndexRow]:
    """All rows that are in memory, but those of pages that were there before: pages may have dropped theirs."""
    rows: list[IndexRow] = []
    old_pages = {id(page) for page in old.index.pages}
    pages = [page for page in partition.index.pages if id(page) not in old_pages]
    while pages:
        content = pages.pop().content or ()
        pages += [part for part in content if isinstance(part, IndexPage)]
        rows += [part for part in content if isinstance(part, IndexRow)]
    return [*rows, *partition.index.tail]


def _shown(partition: Partition, row: IndexRow) -> IndexRow:
    """The row with its transaction's abort written into it, as sealing does."""
    aborted = (row.producer.producer_id, row.producer.number) in partition.aborted
    return row._replace(kind=Kind.ABORTED) if row.kind is Kind.DATA and aborted else row
