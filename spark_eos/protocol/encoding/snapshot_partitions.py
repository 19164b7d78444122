"""The partitions of a snapshot as columns: empty ones cost next to nothing, and rows stay packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.avro import BYTES, LONG, LONGS, array_of, converted, record_of
from spark_eos.protocol.encoding.index_pages import PAGES, page_columns, read_pages
from spark_eos.protocol.encoding.offset_columns import read_runs
from spark_eos.protocol.encoding.packing import Head, Heads, heads_of
from spark_eos.protocol.encoding.values import FILE, RUNS
from spark_eos.protocol.index import Index, Rows
from spark_eos.protocol.state import Partition, PartitionKey
from spark_eos.protocol.types import FileRef, ProducerStamp

_NO_ROWS = Rows()


class OtherPartition(NamedTuple):
    """What few partitions have: that number ``at`` has transactions or pages."""

    at: int
    open: Any
    aborted: Any
    pages: dict[str, Any]


class Partitions(NamedTuple):
    """All partitions at once: a column of numbers costs a hundredth of a record for each.

    ``runs`` are partitions whose numbers follow one another. ``tails`` are the newest rows
    (`spark_eos.protocol.index_rows.Rows.pack`): for each the number of its partition, how many rows are open, bytes and
    blocks. ``lists`` are the heads of blocks: each row's number in ``heads``, of which each has kind, producer id,
    epoch, transaction number, and the number of its file or -1.
    """

    runs: list[dict[str, Any]]
    starts: list[int]
    ends: list[int]
    others: Any
    tails: list[int]
    body: bytes
    blocks: list[int]
    lists: Any
    heads: list[int]
    files: Any


def partition_columns(partitions: Mapping[PartitionKey, Partition]) -> Partitions:
    """All partitions as columns, in the order of their keys."""
    runs: list[dict[str, Any]] = []
    starts, ends, others = [], [], []
    tails: list[int] = []
    bodies: list[bytes] = []
    heads = _Heads()
    before: PartitionKey | None = None
    for at, key in enumerate(sorted(partitions)):
        partition = partitions[key]
        if before is not None and key == (before[0], before[1] + 1):
            runs[-1]["count"] += 1
        else:
            runs.append({"topic_id": key[0], "first": key[1], "count": 1})
        before = key
        starts.append(partition.start)
        ends.append(partition.end)
        if partition.open or partition.aborted or partition.index.pages:
            others.append(
                OtherPartition(
                    at,
                    sorted(partition.open.items()),
                    sorted(partition.aborted),
                    page_columns(partition.index.pages),
                )
            )
        if partition.index.tail:
            body, of, opened = partition.index.tail.pack()
            tails += (at, opened, len(body), len(of))
            bodies.append(body)
            heads.add(of)
    return Partitions(runs, starts, ends, others, tails, b"".join(bodies), *heads.columns())


class _Heads:
    """The heads of blocks: each list of heads is stored once, and each head once, in the order of their first use."""

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._numbers: dict[Heads, int] = {}
        """One object of each list: most blocks share it, and that is quicker to see than that two lists are equal."""
        self._lists: dict[tuple[Head, ...], int] = {}
        self._heads: dict[Head, int] = {}

    def add(self, blocks: tuple[Heads, ...]) -> None:
        numbers = self._numbers
        for heads in blocks:
            if heads not in numbers:
                numbers[heads] = self._lists.setdefault(heads.rows, len(self._lists))
            self._blocks.append(numbers[heads])

    def columns(self) -> tuple[list[int], list[list[int]], list[int], list[FileRef]]:
        """`Partitions.blocks` and the columns after it."""
        lists = [[self._heads.setdefault(head, len(self._heads)) for head in rows] for rows in self._lists]
        files: dict[FileRef, int] = {}
        heads: list[int] = []
        for kind, stamp, file in self._heads:
            heads += (kind, *stamp, -1 if file is None else files.setdefault(file, len(files)))
        return self._blocks, lists, heads, [*files]


def read_partitions(columns: Partitions) -> Map[PartitionKey, Partition]:
    """The partitions that `partition_columns` wrote. Raises `CorruptRecordError` for what does not fit together."""
    keys = read_runs(columns.runs, len(columns.starts))
    indexes = _read_tails(columns)
    others = {other.at: other for other in columns.others}
    idle = Partition()
    partitions = {}
    for at, (key, start, end) in enumerate(zip(keys, columns.starts, columns.ends, strict=True)):
        if not end and at not in others and at not in indexes:
            partitions[key] = idle
            continue
        other = others.get(at)
        tail = indexes.get(at, _NO_ROWS)
        if other is None:
            partitions[key] = Partition(start, end, Index((), tail))
            continue
        partitions[key] = Partition(
            start,
            end,
            Index(tuple(read_pages(key, other.pages)), tail),
            idle.open.update(other.open),
            idle.aborted.update(dict.fromkeys(map(tuple, other.aborted), True)),
        )
    return Map(partitions)


def _read_tails(columns: Partitions) -> dict[int, Rows]:
    stamps: dict[ProducerStamp, ProducerStamp] = {}
    heads: list[Head] = []
    numbers = columns.heads
    for kind, pid, epoch, number, file in zip(*(numbers[at::5] for at in range(5)), strict=True):
        stamp = ProducerStamp(pid, epoch, number)
        heads.append((kind, stamps.setdefault(stamp, stamp), None if file < 0 else columns.files[file]))
    lists = [heads_of(tuple([heads[number] for number in row_numbers])) for row_numbers in columns.lists]
    blocks = [lists[number] for number in columns.blocks]
    body, tails = columns.body, columns.tails
    indexes = {}
    position = block = 0
    for at, opened, size, count in zip(*(tails[column::4] for column in range(4)), strict=True):
        of = tuple(blocks[block : block + count])
        indexes[at] = Rows.packed(body[position : position + size], of, opened)
        position += size
        block += count
    if (position, block) != (len(body), len(blocks)):
        raise CorruptRecordError("rows that belong to no partition")
    return indexes


_LONG_LISTS = array_of(LONGS)

PARTITION_COLUMNS = converted(
    record_of(
        Partitions,
        runs=RUNS,
        starts=LONGS,
        ends=LONGS,
        others=array_of(
            record_of(OtherPartition, at=LONG, open=_LONG_LISTS, aborted=_LONG_LISTS, pages=PAGES)
        ),
        tails=LONGS,
        body=BYTES,
        blocks=LONGS,
        lists=_LONG_LISTS,
        heads=LONGS,
        files=array_of(FILE),
    ),
    partition_columns,
    read_partitions,
)
"""All partitions of a state."""
