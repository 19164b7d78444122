"""Which part of a read other engines do themselves: sealed Parquet files that it needs whole. Pure.

Such a file has rows of one partition, all of them committed, in its own columns, the offsets among them. Our reader
reads files that are cut: the log's start or the end of the read lies in them, or some of their row groups were written
again since. It also reads files of an older version of the topic's schema, and what is not sealed yet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

from spark_eos.log.data.planner import Fetch
from spark_eos.protocol.types import FileRef, TopicPartition

_FIRST_GROUP = 4
"""Where the first row group of a Parquet file begins: after ``PAR1``."""


class SealedFile(NamedTuple):
    """A file that is read whole. ``start`` and ``end`` bound the offsets of its ``records``."""

    name: str
    size: int
    partition: int
    start: int
    end: int
    records: int


class SealedPlan(NamedTuple):
    """What a read consists of: whole files, and the fetches of the rest. No record is in both."""

    files: tuple[SealedFile, ...]
    rest: tuple[Fetch, ...]

    @property
    def ranges(self) -> dict[TopicPartition, list[tuple[int, int]]]:
        """The offsets of the rest: ranges by partition, in order, without an offset of ``files``."""
        edges = sorted((file.partition, file.start) for file in self.files)
        by_partition: dict[TopicPartition, list[tuple[int, int]]] = {}
        for fetch in self.rest:
            ranges = by_partition.setdefault(TopicPartition(fetch.topic, fetch.partition), [])
            between = ranges and _between(edges, fetch.partition, ranges[-1][1], fetch.offset)
            if not ranges or between:
                ranges.append((fetch.offset, fetch.next_offset))
            else:
                ranges[-1] = (ranges[-1][0], fetch.next_offset)
        return by_partition


def split_sealed(
    fetches: Iterable[Fetch], is_readable: Callable[[FileRef], bool], is_whole: Callable[[Fetch], bool]
) -> SealedPlan:
    """Part the fetches of a read, which are in the order of partitions and offsets.

    ``is_readable`` says of a Parquet file whether its columns are those of the read. ``is_whole`` says whether a fetch
    has all records of its batch; it is asked only about files with offsets that have no record, where the fetch does
    not say so itself.
    """
    fetches = tuple(fetches)
    by_file: dict[FileRef, list[Fetch]] = {}
    for fetch in fetches:
        if fetch.file.is_parquet:
            by_file.setdefault(fetch.file, []).append(fetch)
    whole = {
        file for file, of_file in by_file.items() if is_readable(file) and _is_all_of(file, of_file, is_whole)
    }
    files = tuple(_sealed(file, of_file) for file, of_file in by_file.items() if file in whole)
    return SealedPlan(files, tuple(fetch for fetch in fetches if fetch.file not in whole))


def _is_all_of(file: FileRef, fetches: list[Fetch], is_whole: Callable[[Fetch], bool]) -> bool:
    """Whether the fetches have every row group of the file, one after the other, and every record of each."""
    position = _FIRST_GROUP
    for fetch in fetches:
        if fetch.batch.position != position or fetch.part is not None:
            return False
        if not (is_whole(fetch) if file.offsets else (fetch.skip, fetch.count) == (0, fetch.batch.count)):
            return False
        position += fetch.batch.length
    return position == file.size - file.footer


def _sealed(file: FileRef, fetches: list[Fetch]) -> SealedFile:
    first, last = fetches[0], fetches[-1]
    records = sum(fetch.batch.count for fetch in fetches)
    return SealedFile(file.name, file.size, first.partition, first.offset, last.next_offset, records)


def _between(edges: list[tuple[int, int]], partition: int, first: int, end: int) -> bool:
    """Whether a file of the partition begins at one of these offsets."""
    at = bisect_left(edges, (partition, first))
    return at < len(edges) and edges[at] < (partition, end)
