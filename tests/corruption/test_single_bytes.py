"""Any damaged byte in any file of a log is noticed when it is used: an error that names the file, or no effect."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from spark_eos.errors import CorruptRecordError, NotALogError, ObjectNotFoundError
from spark_eos.log.log import Log
from tests.corruption.damage import (
    FULL,
    Damage,
    FilesStore,
    behave,
    compressed,
    damages,
    golden,
    outcome,
    seen,
)
from tests.log.fakes import FakeClock

LOGS: dict[str, Callable[[], dict[str, bytes]]] = {"golden": golden, "compressed": compressed}


def is_lost_entry(damage: Damage) -> bool:
    return (
        damage.kind == "gone" and damage.file.startswith("_log/") and damage.file[:-5].strip("_log/0") != ""
    )


@pytest.mark.deep
@pytest.mark.parametrize("which", LOGS)
def test_damaged_bytes(which: str) -> None:
    files = LOGS[which]()
    expected = behave(files, {})
    counts: Counter[tuple[str, str, str]] = Counter()
    for name in files:
        for damage in damages(files, name, sample=4 if len(files) > 30 else 12):
            if is_lost_entry(damage):
                continue  # below
            counts[name.partition("/")[0], damage.kind, outcome(files, damage, expected)] += 1
    found = {(place, seen) for place, _, seen in counts}
    assert found >= {
        ("_log", "CorruptRecordError"),
        ("_log", "UnsupportedVersionError"),
        ("data", "CorruptRecordError"),
        ("data", "ObjectNotFoundError"),
        ("data", "as before"),
    }
    assert not any(
        place == "_log" and seen == "as before" for place, seen in found
    )  # every byte of an entry counts
    if FULL:
        lines = [f"{which}: {sum(counts.values())} damages of {sum(map(len, files.values()))} bytes"]
        lines += [" ".join((*key, str(count))) for key, count in sorted(counts.items())]
        sys.stdout.write("\n".join(["", *lines, ""]))  # pytest -s


@pytest.mark.parametrize("which", LOGS)
def test_what_is_damaged_in_a_batch_is_named_with_its_place(which: str) -> None:
    files = LOGS[which]()
    log = Log.open(FilesStore(files, {}))
    topic = log.topic("events")
    row = log.state.partitions[topic.topic_id, 1].index.tail[0]
    assert row.file is not None
    assert row.batch is not None
    damage = Damage("flipped", row.file.name, row.batch.position + row.batch.length // 2, 3)
    with pytest.raises(CorruptRecordError) as caught:
        behave(files, {damage.file: damage.of(files[damage.file])})
    end = row.batch.position + row.batch.length
    assert f"file {row.file.name!r}, bytes {row.batch.position} to {end} (events-1, offset 0)" in str(
        caught.value
    )


def test_the_first_entry_is_gone() -> None:
    files = golden()
    first = min(it for it in files if it.startswith("_log/"))
    with pytest.raises(NotALogError, match=first):
        behave(files, {first: None})


def test_the_last_entry_is_gone() -> None:
    """It cannot be noticed: the log is as it was before that entry."""
    files = golden()
    last = max(it for it in files if it.startswith("_log/"))
    assert behave(files, {last: None})[1] == behave(files, {})[1] - 1


def test_an_entry_in_the_middle_is_gone() -> None:
    """Noticed if two or more follow it: one alone is what a power cut may leave (docs/design/0002)."""
    files = golden()
    entries = sorted(it for it in files if it.startswith("_log/"))
    for name in entries[1:-2]:
        with pytest.raises(CorruptRecordError, match=f"{name} is missing"):
            behave(files, {name: None})


def test_an_entry_that_is_seen_late_is_no_damage() -> None:
    """A network file system that remembers for a while that an entry was not there."""
    files = golden()
    hidden = sorted(it for it in files if it.startswith("_log/"))[3]
    expected = behave(files, {})

    class Forgetful(FilesStore):
        late = 5

        def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
            if name == hidden and self.late:
                self.late -= 1
                raise ObjectNotFoundError(name)
            return super().read(name, offset, length)

    assert seen(Log.open(Forgetful(files, {}), clock=FakeClock())) == expected[0]


def test_data_that_nobody_reads_may_be_gone() -> None:
    files = golden()
    expected = behave(files, {})
    gone = [name for name in files if name.startswith("data/")]
    found = {outcome(files, Damage("gone", name), expected) for name in gone}
    assert found <= {ObjectNotFoundError.__name__, "as before"}
