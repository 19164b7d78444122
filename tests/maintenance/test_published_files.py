"""Files that published tables have: vacuum leaves them alone, copies have them, and verify misses them."""

from __future__ import annotations

import pytest

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.publication import RETENTION_MS
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import MemoryStore
from tests.needing import needs

from .world import DAY_S, Watched, another, append, created, listed, stage, values

pytestmark = pytest.mark.usefixtures("small_pages")

NOTE = "_maintenance/unreferenced"


@pytest.fixture
def log():
    log = created(MemoryStore())
    append(log, *range(6))
    return log


def publication(log, name="p", **config):
    topics = (("t", log.topic("t").topic_id),)
    pairs = tuple((key.replace("_", "."), value) for key, value in config.items())
    log.commit(lambda _: (a.CreatePublication(name, "delta", pairs, topics), a.FencePublisher(name)))
    return log


def seal(log, base=0):
    """All rows from ``base`` on in one file of the kind that tables share; its name."""
    topic = log.topic("t")
    key = (topic.topic_id, 0)
    end = log.follow().partitions[key].end
    wanted = [number for number in values(log) if number >= base]
    (staged,) = stage(log, *wanted, partition=0)
    staged_name = staged.file.name.rpartition("/")[2].removesuffix(".arrow")
    base_seq, unique = staged_name.split("-")
    name = paths.segment_file("t", topic.topic_id, int(base_seq), unique, 0)
    log.store.create(name, log.store.read(staged.file.name).to_pybytes())
    log.store.delete(staged.file.name)
    (batch,) = staged.batches
    row = IndexRow(
        base,
        end - base,
        Kind.DATA,
        NO_PRODUCER,
        batch.max_timestamp_ms,
        staged.file._replace(name=name),
        batch,
    )

    def replaced(state):
        pages = [
            one for one in sealed_to(key, state.partitions[key], end).index.pages if one.base_offset >= base
        ]
        return (a.ReplaceSegments("t", *key, base, end, checksum(pages), (row,), (name,)),)

    log.commit(replaced)
    return name


def begin(log, name="p", end=None):
    state = log.follow()
    known, key = state.publications[name], (log.topic("t").topic_id, 0)
    partition = state.partitions[key]
    end = partition.last_stable_offset if end is None else end
    pages = checksum(pages_of(key, partition, partition.start, end)[1])
    ranges = (a.PinnedRange(*key, partition.start, end, pages),)
    log.commit(lambda _: (a.BeginPublish(name, known.epoch, known.sequence + 1, state.seq, ranges),))


def end(log, name="p", released=()):
    known = log.state.publications[name]
    log.commit(lambda _: (a.EndPublish(name, known.epoch, known.sequence, (("t", 1),), released),))


def publish(log, name="p", **options):
    begin(log, name)
    end(log, name, **options)


def delete_records(log, offset):
    topic = log.topic("t")
    log.commit(lambda _: (a.AdvanceLogStart((a.PartitionOffset("t", topic.topic_id, 0, offset),)),))


def now(log):
    return Vacuum(log, min_age_s=0)


def segments(log):
    return [name for name in listed(log, paths.TABLES) if paths.is_segment(name)]


def pinned_rows(log, which="published"):
    version = getattr(log.follow().publications["p"], which)
    return [row for pin in version.pins.values() for row in pin.rows(log.load)]


# -- Vacuum ------------------------------------------------------------------------------------------------


def test_files_of_a_version_stay_until_the_next_one_is_published(log):
    first = seal(log)
    publication(log, retention_ms="0")
    publish(log)
    append(log, 6, 7)
    second = seal(log)
    delete_records(log, 8)
    now(log).run()
    assert segments(log) == [first], "the second one was in no version, and no reader needs it"
    append(log, 8)
    third = seal(log, 8)
    begin(log)
    now(log).run()
    assert segments(log) == sorted([first, third]), (
        "readers have the first version until the second one is there"
    )
    end(log)
    now(log).run()
    assert segments(log) == [third]
    log.commit(lambda _: (a.DropPublication("p"),))
    now(log).run()
    assert segments(log) == [third], "the log itself has it"
    assert second != third


def test_a_dropped_publication_promises_nothing(log):
    first = seal(log)
    publication(log)
    publish(log)
    delete_records(log, 6)
    now(log).run()
    assert segments(log) == [first]
    log.commit(lambda _: (a.DropPublication("p"),))
    now(log).run()
    assert segments(log) == []


def dropped_by_the_table(log, **config):
    """A file that was in version 1 of a table, and is in no newer one, nor in the log."""
    name = seal(log)
    publication(log, **config)
    publish(log)
    delete_records(log, 6)
    publish(log)
    return name


def test_readers_of_earlier_versions_have_their_time(log):
    first = dropped_by_the_table(log)
    vacuum = now(log)
    before = log.clock.now
    done = vacuum.run()  # It does not wait for a week.
    assert (segments(log), done.promised, done.waiting) == ([first], 1, 0)
    assert log.clock.now - before < 3600
    assert listed(log, NOTE) == [NOTE]
    assert RETENTION_MS == 7 * DAY_S * 1000
    log.clock.now += 6.9 * DAY_S
    done = now(another(log)).run()
    assert (segments(log), done.promised) == ([first], 1)
    log.clock.now += 0.2 * DAY_S
    other = another(log)
    assert [one.name for one in now(other).look()] == [first]
    done = now(other).run()
    assert (segments(log), done.objects["data"], done.promised) == ([], 1, 0)
    now(other).run()
    assert bytes(log.store.read(NOTE)) == b""


def test_a_note_that_is_lost_or_damaged_begins_anew(log):
    first = dropped_by_the_table(log)
    now(log).run()
    log.clock.now += 6.9 * DAY_S
    folder = first.rpartition("/")[0].encode()
    damages = (b"", b"\xff\n 12\nx y\n1 \n", b"99999999999999999 %b\n" % first.encode(), b"1 %b/x\n" % folder)
    for damage in damages:
        log.store.overwrite(NOTE, damage)
        now(log).run()
        log.clock.now += 6.9 * DAY_S
        now(log).run()
        assert segments(log) == [first]
    log.clock.now += DAY_S
    now(log).run()
    assert segments(log) == []


def test_a_look_notes_nothing(log):
    dropped_by_the_table(log)
    vacuum = now(log)
    assert not any(paths.is_segment(one.name) for one in vacuum.look())
    assert vacuum.promised == 1
    assert listed(log, NOTE) == []


def test_a_noted_file_that_came_back_stays(log):
    """A log that was put back from a copy may refer to it again."""
    seal(log)
    publication(log, retention_ms="1000")
    publish(log)
    (name,) = segments(log)
    log.store.overwrite(NOTE, f"1 {name}\n".encode())
    log.clock.now += DAY_S
    now(log).run()
    assert segments(log) == [name]
    assert bytes(log.store.read(NOTE)) == b""


def test_a_file_that_was_in_no_version_goes_at_once(log):
    publication(log)
    publish(log)
    seal(log)
    append(log, 6)
    kept = seal(log)
    done = now(log).run()
    assert (segments(log), done.promised) == ([kept], 0)


def test_the_longest_promise_counts(log):
    first = seal(log)
    publication(log, retention_ms="0")
    publication(log, "q", location="x", retention_ms=f"{int(DAY_S * 1000)}")
    for name in "pq":
        publish(log, name)
    delete_records(log, 6)
    for name in "pq":
        publish(log, name)
    now(log).run()
    assert segments(log) == [first]
    log.clock.now += 1.1 * DAY_S
    now(log).run()
    assert segments(log) == []


def test_a_table_with_copies_needs_no_files(log):
    seal(log)
    publication(log)
    begin(log)
    delete_records(log, 6)
    now(log).run()
    assert len(segments(log)) == 1, "it is copied right now"
    end(log, released=("t",))
    now(log).run()
    assert segments(log) == []


def test_what_the_table_has_for_itself_is_let_alone(log):
    folder = paths.table_folder("t", log.topic("t").topic_id)
    mine = [
        f"{folder}_delta_log/00000000000000000000.json",
        f"{folder}00000000000000000000-x.parquet",
        f"{folder}part=1/00000000000000000000-x.parquet",
        f"{folder}_segments/0/other.parquet",
        f"{paths.TABLES}_segments/0/00000000000000000000-x.parquet",
    ]
    for name in mine:
        log.store.create(name, b"x")
    left = f"{paths.TABLES}gone-topic/_segments/0/00000000000000000000-x.parquet"
    log.store.create(left, b"x")
    done = now(log).run()
    assert done.objects["data"] == 1
    assert listed(log, paths.TABLES) == sorted(mine)


def test_more_files_than_fit_into_a_round(log):
    names = []
    publication(log)
    for number in range(6, 12):
        names.append(seal(log))
        publish(log)
        append(log, number)
    delete_records(log, 12)
    publish(log)
    vacuum = Vacuum(log, min_age_s=0, chunk=4)
    while (done := vacuum.run()).promised < len(names):
        assert done.promised > 0
    log.clock.now += 8 * DAY_S
    vacuum.run()
    assert segments(log) == []


# -- Pages, copies, verify ---------------------------------------------------------------------------------


def test_a_pinned_page_outlives_its_place_in_the_index(log):
    """It is stored with the next snapshot, though the index has dropped it by then."""
    publication(log)
    publish(log)
    rows = pinned_rows(log)
    delete_records(log, 6)
    seq = log.state.seq
    for number in range(6, 40):
        append(log, number)
    assert newest_snapshot(log.store).seq > seq
    now(log).run()
    fresh = another(log)
    assert pinned_rows(fresh) == rows
    assert not any(
        page.is_held for pin in fresh.state.publications["p"].published.pins.values() for page in pin.pages
    )
    now(fresh).run()
    assert pinned_rows(another(log)) == rows
    assert [row.base_offset for row in rows] == [*range(6)]
    for row in rows:
        log.store.size(row.file.name)


def findings(log):
    found = []
    verify(log.store, found.append)
    return found


def versions_apart(log):
    """A published version of files and pages that the log itself has dropped, and one that was begun."""
    seal(log)
    publication(log)
    publish(log)
    append(log, 6, 7)
    seal(log, 6)
    begin(log)
    delete_records(log, 8)
    for number in range(8, 30):
        append(log, number)
    now(log).run()
    return log


@pytest.mark.parametrize("way", ["copy", pytest.param("backup", marks=needs("backup"))])
def test_a_copy_has_what_is_pinned(log, way):
    versions_apart(log)
    target = MemoryStore()
    if way == "copy":
        copy_log(log.store, target, pytest.fail)
    else:
        from spark_eos.extensions.backup.backing_up import backup_log
        from spark_eos.extensions.backup.restoring import restore_log

        backup_log(log.store, repository := MemoryStore(), clock=log.clock)
        restore_log(repository, target)
    other = Log.open(target)
    assert pinned_rows(other) == pinned_rows(log)
    assert pinned_rows(other, "begun") == pinned_rows(log, "begun")
    for row in (*pinned_rows(other), *pinned_rows(other, "begun")):
        assert target.read(row.file.name).to_pybytes() == log.store.read(row.file.name).to_pybytes()


@needs("backup")
def test_there_is_no_backup_without_what_is_pinned(log):
    from spark_eos.extensions.backup.backing_up import backup_log

    versions_apart(log)
    log.store.delete(segments(log)[0])
    with pytest.raises(CorruptRecordError, match="The log itself is damaged"):
        backup_log(log.store, MemoryStore(), clock=log.clock)


def test_verify_misses_what_is_pinned(log):
    versions_apart(log)
    assert findings(log) == []
    name = segments(log)[0]
    data = log.store.read(name).to_pybytes()
    flipped = bytearray(data)
    flipped[-len(data) // 2] ^= 1
    for damage, text in ((None, "is missing"), (data + b"x", "has"), (bytes(flipped), "CRC32C|checksum")):
        log.store.delete(name)
        if damage is not None:
            log.store.create(name, damage)
        (finding,) = [one for one in findings(log) if one.name == name]
        assert "in a published table" in finding.text
        assert any(part in finding.text for part in text.split("|")), finding
        if damage is None:
            log.store.create(name, data)
    log.store.delete(name)
    log.store.create(name, data)
    assert findings(log) == []


def test_verify_beside_a_version_that_no_longer_needs_a_file(log):
    versions_apart(log)
    name, others = segments(log)[0], [end, publish, lambda log: log.store.delete(name)]

    def go_on(_, looked_at):
        while looked_at == name and others:
            others.pop(0)(log)

    found = []
    verify(Watched(log.store, go_on), found.append)
    assert (found, others) == ([], [])


def test_verify_misses_a_pinned_page(log):
    versions_apart(log)
    fresh = another(log)
    page = fresh.state.publications["p"].published.pins[log.topic("t").topic_id, 0].pages[0]
    name = paths.page(page)
    log.store.delete(name)
    with pytest.raises(ObjectNotFoundError):
        pinned_rows(fresh)
    (finding,) = [one for one in findings(log) if one.name == name]
    assert "is missing" in finding.text
