"""Which Parquet files a read has whole: pure, over fetches made by hand."""

from __future__ import annotations

import random

import pytest

from spark_eos.log.data.planner import Fetch
from spark_eos.log.selection.sealed import SealedFile, split_sealed
from spark_eos.protocol.types import BatchRef, FileRef, TopicPartition

AT = TopicPartition("t", 0)


def batch(count, position, length=10):
    return BatchRef(0, count, position, length, 0, 0, 0)


def arrow(offset, count=1):
    return Fetch("t", 0, offset, count, 0, FileRef(f"a{offset}", 99, 0), batch(count, 8))


def groups(name, offset, *counts, offsets=False, version=0):
    """A Parquet file: a fetch of all of each of its row groups."""
    file = FileRef(name, 4 + 10 * len(counts) + 7, version, offsets=offsets, footer=7)
    found = []
    for number, count in enumerate(counts):
        found.append(Fetch("t", 0, offset, count, 0, file, batch(count, 4 + 10 * number)))
        offset += count
    return found


def split(fetches, is_whole=lambda _: True):
    return split_sealed(fetches, lambda file: file.schema_version == 0, is_whole)


def test_files_and_what_is_between_them():
    one, two = groups("one", 2, 3, 4), groups("two", 11, 5)
    before, between, after = [arrow(0), arrow(1)], [arrow(9, 2)], [arrow(16), arrow(18, 2)]
    found = split([*before, *one, *between, *two, *after])
    assert found.files == (SealedFile("one", 31, 0, 2, 9, 7), SealedFile("two", 21, 0, 11, 16, 5))
    assert found.rest == (*before, *between, *after)
    assert found.ranges == {AT: [(0, 2), (9, 11), (16, 20)]}, "17 is no record: a range may have it"


def test_nothing_is_sealed():
    assert split([arrow(0), arrow(1)]) == ((), (arrow(0), arrow(1)))
    assert split([]).ranges == {}


@pytest.mark.parametrize("cut", ["start", "end", "first group", "last group", "group between", "part"])
def test_a_file_that_is_cut_is_not_whole(cut):
    one, two, three = groups("f", 0, 3, 4, 5)
    fetches = {
        "start": [one._replace(offset=1, skip=1, count=2), two, three],
        "end": [one, two, three._replace(count=4)],
        "first group": [two, three],
        "last group": [one, two],
        "group between": [one, three],
        "part": [one._replace(part=(0, 2)), two, three],
    }[cut]
    assert split(fetches) == ((), tuple(fetches))


def test_a_file_of_an_older_schema_is_left_to_us():
    old = groups("old", 0, 3, version=1)
    assert split(old) == ((), tuple(old))


def test_files_with_offsets_that_have_no_record():
    """A fetch of such a file does not say whether it has all records of its batch: the caller does."""
    fetches = [fetch._replace(count=fetch.count + 5) for fetch in groups("f", 0, 3, 4, offsets=True)]
    asked = []
    assert split(fetches, lambda fetch: not asked.append(fetch)).files[0].records == 7
    assert asked == fetches
    assert split(fetches, lambda fetch: fetch is not fetches[1]).files == ()


@pytest.mark.parametrize("seed", range(30))
def test_each_record_once(seed):
    """Random files, cut at random: what is whole and the ranges of the rest have each record once, and no other."""
    chance = random.Random(seed)
    fetches, offset = [], 0
    for number in range(chance.randrange(12)):
        offset += chance.choice((0, 0, 2))  # A control batch, or records that were aborted.
        if chance.random() < 0.5:
            made = groups(
                f"f{number}", offset, *(chance.randrange(1, 5) for _ in range(chance.randrange(1, 4)))
            )
        else:
            made = [arrow(offset, chance.randrange(1, 4))]
        offset = made[-1].next_offset
        if chance.random() < 0.3:
            made = made[chance.randrange(len(made)) :]
        fetches += made
    found = split(fetches)
    read = [at for file in found.files for at in range(file.start, file.end)]
    read += [at for ranges in found.ranges.values() for first, end in ranges for at in range(first, end)]
    assert len(read) == len(set(read))
    records = {at for fetch in fetches for at in range(fetch.offset, fetch.next_offset)}
    assert records <= set(read)
    assert sum(file.records for file in found.files) + sum(fetch.count for fetch in found.rest) == len(
        records
    )
