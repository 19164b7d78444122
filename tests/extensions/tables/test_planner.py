"""Which files a version has: pure, from pages of the index."""

from __future__ import annotations

import pytest

from spark_eos.extensions.tables.planner import Planner, Unsealed, difference
from spark_eos.extensions.tables.target import DataFile
from spark_eos.protocol.encoding.index_pages import seal_rows
from spark_eos.protocol.index import in_memory
from spark_eos.protocol.index_rows import IndexRow, Kind
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef

KEY = ("topic-id", 0)


def parquet(name, groups, version=1):
    """A file with row groups of so many bytes."""
    return FileRef(f"tables/t-1/_segments/0/{name}.parquet", 4 + sum(groups) + 50, version, (), False, 50, 1)


def rows_of(file, groups, first=0, counts=None):
    """The index rows of a file's row groups, of ten records each."""
    found, position = [], 4
    for number, size in enumerate(groups):
        count = 10 if counts is None else counts[number]
        batch = BatchRef(0, count, position, size, 0, 0, 0)
        found.append(IndexRow(first, 10, Kind.DATA, NO_PRODUCER, 0, file, batch))
        first, position = first + 10, position + size
    return found


def end_mark(offset):
    return IndexRow(offset, 1, Kind.COMMIT, NO_PRODUCER, 0)


def planned(rows, start, end, *, per_page=2, fits=lambda _: True, planner=None):
    pages = [seal_rows(KEY, rows[at : at + per_page]) for at in range(0, len(rows), per_page)]
    pages = [page for page in pages if page.next_offset > start and page.base_offset < end]
    return (planner or Planner(in_memory)).files(0, Pin(start, end, tuple(pages)), fits)


ONE, TWO = parquet("one", [100, 200, 300]), parquet("two", [100])
ROWS = [*rows_of(ONE, [100, 200, 300]), end_mark(30), *rows_of(TWO, [100], 31)]


@pytest.mark.parametrize("per_page", [1, 2, 10])
def test_whole_files_are_in_a_version_wherever_pages_end(per_page):
    found = planned(ROWS, 0, 41, per_page=per_page)
    assert [(one.ref, one.base_offset, one.next_offset, one.rows) for one in found] == [
        (ONE, 0, 30, 30),
        (TWO, 31, 41, 10),
    ]
    assert found[0].at("tables/t-1/") == DataFile("_segments/0/one.parquet", 654, 30, 50)
    assert found[1].copied().path == "0-two.parquet"


def test_fewer_records_than_offsets_are_counted():
    (found,) = planned(rows_of(TWO, [100], counts=[7]), 0, 10)
    assert found.rows == 7


@pytest.mark.parametrize("per_page", [1, 2, 10])
@pytest.mark.parametrize(
    ("rows", "start", "end", "place", "why"),
    [
        (ROWS, 10, 41, (10, 30), "more row groups"),
        (ROWS, 5, 41, (0, 30), "more offsets"),
        (ROWS, 0, 20, (0, 20), "more row groups"),
        (ROWS, 0, 40, (31, 41), "more offsets"),
        (ROWS[1:], 10, 41, (10, 30), "more row groups"),
        ([ROWS[0], ROWS[2]._replace(base_offset=10)], 0, 20, (0, 10), "more row groups"),
        (rows_of(FileRef("data/a", 900, 1), [100, 100]), 0, 20, (0, 20), "an Arrow file"),
    ],
)
def test_a_part_of_a_file_is_not_in_a_version(rows, start, end, place, why, per_page):
    found = planned(rows, start, end, per_page=per_page)
    assert isinstance(found, Unsealed)
    assert (found.base_offset, found.next_offset) == place
    assert why in found.why


def test_files_with_other_columns_are_not_in_a_version():
    found = planned(ROWS, 0, 41, fits=lambda version: version > 1)
    assert found.why == f"{ONE.name} has other columns"


def test_aborted_records_and_holes_need_no_file():
    arrow = FileRef("data/a", 900, 1)
    aborted = rows_of(arrow, [100], 10)[0]._replace(kind=Kind.ABORTED)
    hole = IndexRow(20, 5, Kind.HOLE, NO_PRODUCER, -1)
    found = planned([*rows_of(TWO, [100]), aborted, hole], 0, 25)
    assert [one.ref for one in found] == [TWO]


def test_pages_that_stay_are_not_read_again():
    read = []

    def load(page):
        read.append(page)
        return in_memory(page)

    planner = Planner(load)
    for _ in range(2):
        assert len(planned(ROWS, 0, 41, planner=planner)) == 2
        planner.forget()
    assert len(read) == 3
    for _ in range(2):
        planner.forget()
    planned(ROWS, 0, 41, planner=planner)
    assert len(read) == 6, "what no version needs is forgotten"


def test_the_difference_of_two_versions():
    wanted = {name: DataFile(name, 1, 1) for name in "bc"}
    assert difference("ab", wanted) == ((DataFile("c", 1, 1),), (DataFile("a", 0, 0),))
