"""The partitions of a snapshot as columns: empty ones cost next to nothing, and rows stay packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding.index_pages import page_columns, read_pages
from spark_eos.protocol.encoding.offset_columns import read_runs
from spark_eos.protocol.encoding.packing import Head, Heads, heads_of
from spark_eos.protocol.encoding.values import FILE
from spark_eos.protocol.index import Index, Rows
from spark_eos.protocol.state import Partition, PartitionKey
from spark_eos.protocol.types import FileRef, ProducerStamp

__all__ = ["partition_columns", "read_partitions"]

_NO_ROWS = Rows()


def partition_columns(partitions: Mapping[PartitionKey, Partition]) -> dict[str, Any]:
    """All partitions as columns, in the order of their keys."""
    runs: list[dict[str, Any]] = []
    starts, ends, others = [], [], []
    tails: list[int] = []
    bodies: list[bytes] = []
    heads = _Heads()
    before: PartitionKey | None = None
    for at, key in enumerate(sorted(partitions)):
        one = partitions[key]
        if before is not None and key == (before[0], before[1] + 1):
            runs[-1]["count"] += 1
        else:
            runs.append({"topic_id": key[0], "first": key[1], "count": 1})
        before = key
        starts.append(one.start)
        ends.append(one.end)
        if one.open or one.aborted or one.index.pages:
            others.append(
                {
                    "at": at,
                    "open": [list(item) for item in sorted(one.open.items())],
                    "aborted": [list(item) for item in sorted(one.aborted)],
                    "pages": page_columns(one.index.pages),
                }
            )
        if one.index.tail:
            body, of, opened = one.index.tail.pack()
            tails += (at, opened, len(body), len(of))
            bodies.append(body)
            heads.add(of)
    body = b"".join(bodies)
    return {
        "runs": runs,
        "starts": starts,
        "ends": ends,
        "others": others,
        "tails": tails,
        "body": body,
        **heads.columns(),
    }


class _Heads:
    """The heads of blocks: each list of heads is stored once, and each head once, in the order of their first use."""

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._known: dict[Heads, int] = {}
        """One object of each list: most blocks share it, and that is quicker to see than that two lists are equal."""
        self._lists: dict[tuple[Head, ...], int] = {}
        self._heads: dict[Head, int] = {}

    def add(self, blocks: tuple[Heads, ...]) -> None:
        known = self._known
        for one in blocks:
            if one not in known:
                known[one] = self._lists.setdefault(one.rows, len(self._lists))
            self._blocks.append(known[one])

    def columns(self) -> dict[str, Any]:
        lists = [[self._heads.setdefault(one, len(self._heads)) for one in rows] for rows in self._lists]
        files: dict[FileRef, int] = {}
        heads: list[int] = []
        for kind, stamp, file in self._heads:
            heads += (kind, *stamp, -1 if file is None else files.setdefault(file, len(files)))
        return {
            "blocks": self._blocks,
            "lists": lists,
            "heads": heads,
            "files": [file._asdict() for file in files],
        }


def read_partitions(fields: dict[str, Any]) -> dict[PartitionKey, Partition]:
    """The partitions that `partition_columns` wrote. Raises `CorruptRecordError` for what does not fit together."""
    keys = read_runs(fields["runs"], len(fields["starts"]))
    indexes = _read_tails(fields)
    others = {one["at"]: one for one in fields["others"]}
    idle = Partition()
    found = {}
    for at, (key, start, end) in enumerate(zip(keys, fields["starts"], fields["ends"], strict=True)):
        if not end and at not in others and at not in indexes:
            found[key] = idle
            continue
        other = others.get(at)
        tail = indexes.get(at, _NO_ROWS)
        if other is None:
            found[key] = Partition(start, end, Index((), tail))
            continue
        found[key] = Partition(
            start,
            end,
            Index(tuple(read_pages(key, other["pages"])), tail),
            idle.open.update(other["open"]),
            idle.aborted.update(dict.fromkeys(map(tuple, other["aborted"]), True)),
        )
    return found


def _read_tails(fields: dict[str, Any]) -> dict[int, Rows]:
    files = [FILE.read(file) for file in fields["files"]]
    stamps: dict[ProducerStamp, ProducerStamp] = {}
    heads: list[Head] = []
    numbers = fields["heads"]
    for kind, pid, epoch, number, file in zip(*(numbers[at::5] for at in range(5)), strict=True):
        stamp = ProducerStamp(pid, epoch, number)
        heads.append((kind, stamps.setdefault(stamp, stamp), None if file < 0 else files[file]))
    lists = [heads_of(tuple([heads[one] for one in each])) for each in fields["lists"]]
    blocks = [lists[one] for one in fields["blocks"]]
    body, tails = fields["body"], fields["tails"]
    found = {}
    position = block = 0
    for at, opened, size, count in zip(*(tails[column::4] for column in range(4)), strict=True):
        of = tuple(blocks[block : block + count])
        found[at] = Rows.packed(body[position : position + size], of, opened)
        position += size
        block += count
    if (position, block) != (len(body), len(blocks)):
        raise CorruptRecordError("rows that belong to no partition")
    return found
