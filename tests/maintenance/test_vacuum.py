"""Vacuum: what goes, what stays, and what happens meanwhile."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import pytest

from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import (
    DivergedLogError,
    NotALogError,
    ObjectNotFoundError,
    SegmentsReplacedError,
    StagedFileExpiredError,
    StoreFullError,
)
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance import vacuum as vacuum_module
from spark_eos.maintenance.end_marks import FirstSeen, LogEndMarks, Milestone
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol.actions import (
    AdvanceLogStart,
    AlterTopic,
    DeleteTopic,
    Entry,
    JoinGroup,
    LeaveGroup,
    PartitionOffset,
    RaiseStagingFloor,
)
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.storage import MemoryStore, PosixStore

from .world import (
    DAY_S,
    another,
    append,
    commit,
    created,
    fetches,
    left_behind,
    listed,
    partition_of,
    roll,
    stage,
    values,
)

pytestmark = pytest.mark.usefixtures("small_pages")


class HookedStore(MemoryStore):
    """Calls ``hooks[operation]`` before, once each, with the name."""

    def __init__(self):
        super().__init__()
        self.hooks = {}

    def _met(self, operation, name):
        hook = self.hooks.get(operation)
        if hook is not None and hook[0](name):
            del self.hooks[operation]
            hook[1]()

    def create(self, name, data):
        self._met("create", name)
        super().create(name, data)

    def delete(self, name):
        self._met("delete", name)
        super().delete(name)

    def list(self, prefix):
        self._met("list", prefix)
        found = [*super().list(prefix)]
        self._met("listed", prefix)
        return iter(found)


@pytest.fixture
def log():
    return created(HookedStore())


def now(log, **options):
    """A vacuum to which everything is old enough."""
    return Vacuum(log, min_age_s=0, **options)


def files(log):
    return listed(log, paths.DATA)


def in_use(log):
    return sorted({fetch.file.name for fetch in fetches(log)})


# -- Data files ------------------------------------------------------------------------------------------


def test_files_of_another_log_that_lies_among_the_data_files_stay(tmp_path):
    """A place was mistyped: what looks like a data file there is referred to by the other one."""
    log, inner = (created(PosixStore(str(tmp_path / place))) for place in ("log", "log/data/inner"))
    append(inner, 1, 2)
    left_behind(log, 1)
    append(log, *range(10))
    before = listed(inner, "data/")
    assert now(log).run().objects["data"] == 1
    assert listed(inner, "data/") == before


def test_what_was_never_committed_goes(log):
    append(log, *range(30))
    used = files(log)
    left_behind(log, 100)
    done = now(log).run()
    assert done.objects["data"] == 1
    assert done.size > 100
    assert files(log) == used == in_use(log)
    assert values(another(log)) == [*range(30)]


def test_what_is_staged_may_not_be_committed_any_more_once_the_floor_has_risen(log):
    append(log, 0)
    late = left_behind(log, 1)
    now(log).run()
    with pytest.raises(StagedFileExpiredError):
        commit(log, late)
    assert values(log) == [0]


def test_a_file_that_is_committed_before_the_floor_rises_stays(log):
    append(log, 0)
    other = another(log)
    late = left_behind(other, 1)
    is_entry = lambda name: name.startswith(paths.LOG)  # noqa: E731
    log.store.hooks["create"] = (is_entry, lambda: commit(other, late))
    assert "data" not in now(log).run().objects
    assert log.state.staging_floor > 0
    assert values(another(log, b"c")) == [0, 1]


def test_who_started_lately_is_not_refused(log):
    append(log, 0)
    old = left_behind(log, 1)
    log.clock.now += DAY_S
    append(log, 2)
    young = stage(log, 3)
    log.clock.now += DAY_S - 120
    done = Vacuum(log).run()
    assert done.objects["data"] == 1
    assert old[0].file.name not in files(log)
    commit(log, young)
    assert values(log) == [0, 2, 3]
    assert log.state.staging_floor == 4, "after the last entry that is a day old"


def test_the_floor_is_where_this_process_has_seen_the_end(log):
    """The wall clock went back, so the entries look young for ever."""
    append(log, 0)
    left_behind(log, 1)
    watching = Vacuum(log)
    wall, monotonic = log.clock.now_ms(), log.clock.monotonic
    log.clock.now_ms = lambda: wall - 3 * int(DAY_S) * 1000
    assert watching.run(wait=False).waiting == 0
    log.clock.now += DAY_S - 60
    append(log, 2)
    left_behind(log, 3)
    assert watching.run(wait=False).waiting == 0
    log.clock.now += 60
    assert monotonic() == log.clock.now
    assert watching.run(wait=False).waiting == 1
    assert log.state.staging_floor == 4
    log.clock.now += DAY_S
    assert watching.run(wait=False).waiting == 1, "the first one was deleted"
    assert len(files(log)) == 3


def test_retired_entries_say_nothing_of_the_time(log):
    """A busy log has retired them before a day is over."""
    append(log, *range(10))
    left_behind(log, 100)
    append(log, *range(10, 40))
    assert not log.store.size(paths.entry(20))
    assert Vacuum(log).look() == []
    log.clock.now += DAY_S - 3600
    assert Vacuum(log).look() == []
    log.clock.now += 2 * 3600
    assert len(Vacuum(log).look()) == 1


def test_an_entry_without_requests_says_nothing_of_the_time(log):
    """None of our processes writes one; a reader takes it for what it is."""
    append(log, 0)
    left_behind(log, 100)
    for _ in range(3):
        state = log.follow()
        entry = Entry(state.seq + 1, (), state.lineage)
        log.store.create(paths.entry(entry.seq, state.entries_per_folder), encode_entry(entry))
        assert Vacuum(log).look() == []
        append(log, 0)
    log.clock.now += 2 * DAY_S
    assert len(Vacuum(log).look()) == 1


def test_the_next_process_knows_where_the_end_was(log):
    """Runs of a minute each, on a log that has retired its entries every time."""
    for hour in range(30):
        left_behind(log, 100)
        append(log, *range(20 * hour, 20 * hour + 20))
        deleted = Vacuum(log).run().objects.get("data", 0)
        assert deleted == (hour >= 24), hour
        log.clock.now += 3600
    assert len(bytes(log.store.read("_maintenance/ends")).splitlines()) < 30
    log.store.overwrite("_maintenance/ends", b"nonsense\n1 99999999\n\xff\n7")
    assert Vacuum(log).run().objects == {}


def test_a_note_of_a_clock_that_was_ahead_stops_no_later_ones(log):
    now_s = log.clock.now
    log.clock.now += 365 * DAY_S
    Vacuum(log).run()
    log.clock.now = now_s
    for hour in range(0, 30, 3):
        left_behind(log, 100)
        append(log, *range(20 * hour, 20 * hour + 20))
        assert Vacuum(log).run().objects.get("data", 0) == (hour >= 24), hour
        log.clock.now += 3 * 3600


@pytest.mark.deep
def test_notes_are_few(log):
    for _ in range(300):
        append(log, 1)
        Vacuum(log, min_age_s=600).run()
    assert len(bytes(log.store.read("_maintenance/ends")).splitlines()) <= 100


def test_of_the_notes_that_are_old_enough_the_newest_counts():
    marks = LogEndMarks(MemoryStore(), "ends")
    for at in range(0, 100, 10):
        marks.add(marks.read(99, at), Milestone(at, at), 15)
    assert marks.read(99, 100) == [(70, 70), (80, 80), (90, 90)]


def test_a_file_is_deleted_when_the_delay_of_its_topic_is_over(log):
    log.ensure_topic("quick", config={"file.delete.delay.ms": 5000})
    left_behind(log, 1, topic="quick")
    begin = log.clock.now
    deleted_at = []
    log.store.hooks["delete"] = (lambda _: True, lambda: deleted_at.append(log.clock.now - begin))
    assert now(log).run().objects == {"data": 1}
    assert 5 <= deleted_at[0] < 10
    left_behind(log, 1)
    begin = log.clock.now
    log.store.hooks["delete"] = (lambda _: True, lambda: deleted_at.append(log.clock.now - begin))
    assert now(log).run().objects == {"data": 1}
    assert 60 <= deleted_at[1] < 65


def test_who_does_not_wait_deletes_later(log):
    append(log, 0)
    left_behind(log, 1)
    watching = now(log)
    assert (watching.run(wait=False).waiting, len(files(log))) == (1, 2)
    log.clock.now += 50
    assert (watching.run(wait=False).waiting, len(files(log))) == (1, 2)
    log.clock.now += 10
    assert watching.run(wait=False).objects == {"data": 1}
    assert len(files(log)) == 1


def test_a_topic_that_was_deleted_goes_whole(log):
    append(log, *range(30))
    log.ensure_topic("kept")
    append(log, 1, 2, topic="kept")
    log.commit(lambda _: (DeleteTopic("t", log.topic("t").topic_id),))
    log.commit(lambda state: (AlterTopic("kept", state.topics["kept"].topic_id),))
    append(log, *range(3, 20), topic="kept")
    assert now(log).run().objects["data"] == 30
    assert all("/kept-" in name for name in files(log))
    assert len(files(log)) == 19
    topic_id = log.topic("kept").topic_id
    assert all(topic_id in name for name in listed(log, paths.INDEX))
    assert values(another(log), "kept") == [*range(1, 20)]


def test_what_was_written_anew_goes_after_its_readers(log):
    append(log, *range(20))
    before = files(log)
    planned = fetches(log)
    roll(log)
    watching = now(log)
    watching.run(wait=False)
    assert values(log, planned=planned) == [*range(20)], "planned before, and not read yet"
    log.clock.now += 60
    watching.run(wait=False)
    assert values(another(log)) == [*range(20)]
    assert files(log) == in_use(log)
    assert len(set(before) & set(files(log))) < 5


def test_files_before_the_start_go_though_their_page_is_kept(log):
    append(log, *range(30))
    top = partition_of(log).index.pages[0]
    assert top.level
    topic_id = log.topic("t").topic_id
    log.commit(lambda _: (AdvanceLogStart((PartitionOffset("t", topic_id, 0, top.next_offset - 1),)),))
    assert partition_of(log).index.pages[0] == top
    now(log).run()
    assert files(log) == in_use(log)
    assert values(another(log)) == [*range(top.next_offset - 1, 30)]


def test_other_peoples_files_stay(log):
    log.store.create("data/readme.txt", b"x")
    log.store.create("data/t-1/1.arrow", b"x")
    assert now(log).run().objects == {}
    assert len(files(log)) == 2


def test_a_dry_run_changes_nothing(log):
    append(log, *range(10))
    staged = left_behind(log, 100)
    before, seq = listed(log, ""), log.state.seq
    (left,) = now(log).look()
    assert (left.kind, left.name, left.size) == ("data", staged[0].file.name, staged[0].file.size)
    assert (listed(log, ""), log.follow().seq) == (before, seq)
    commit(log, staged)


def test_a_log_in_which_nothing_is_left_over_does_not_grow(log):
    append(log, *range(10))
    left_behind(log, 100)
    now(log).run()
    seq = log.follow().seq
    for _ in range(3):
        log.clock.now += 3 * DAY_S
        assert now(log).run().objects == {}
        assert Vacuum(log).run().objects == {}
    assert log.follow().seq == seq


def test_more_than_fits_takes_rounds(log):
    append(log, *range(40))
    for number in range(20):
        left_behind(log, number)
    held = []
    vacuum = now(log, chunk=7)
    kept = vacuum._left_over

    def watch(*arguments):
        found = kept(*arguments)
        held.append(len(found))
        return found

    vacuum._left_over = watch
    assert vacuum.run().objects["data"] == 20
    assert max(held) <= 7
    assert files(log) == in_use(log)
    assert values(another(log)) == [*range(40)]


# -- Pages ----------------------------------------------------------------------------------------------


def pages(log):
    return listed(log, paths.INDEX)


def test_pages_in_use_stay_at_every_level(log):
    append(log, *range(60))
    assert {page.level for page in partition_of(log).index.pages} == {0, 1, 2}
    before = pages(log)
    assert now(log).run().objects == {}
    assert pages(log) == before
    assert values(another(log)) == [*range(60)]


def test_pages_that_nobody_refers_to_go(log):
    append(log, *range(40))
    roll(log)
    rolled = partition_of(log).index.pages
    assert len(rolled) == 1
    append(log, *range(40, 55))  # Two more snapshots: the one that refers to the old ones goes.
    done = now(log).run()
    assert done.objects["index"] > 5
    assert values(another(log)) == [*range(55)]
    snapshot = newest_snapshot(log.store)
    assert {paths.page(page) for page in rolled} <= set(pages(log))
    assert snapshot.seq > 50


def test_pages_of_the_snapshot_before_the_newest_stay(log):
    append(log, *range(29))
    roll(log)
    append(log, *range(100, 102))
    now(log).run()
    for name in listed(log, paths.SNAPSHOTS):
        seq = paths.snapshot_seq(name)
        state = vacuum_module.decode_snapshot(log.store.read(name), seq, name)
        assert [*vacuum_module.page_names(state, another(log).load)]


def test_a_damaged_snapshot_keeps_no_page_and_stops_nothing(log):
    append(log, *range(29))
    log.store.overwrite(listed(log, paths.SNAPSHOTS)[0], b"damaged")
    log.store.create("_log/index/left/over.avro", b"")
    assert now(log).run().objects == {"index": 1}


def test_pages_that_are_stored_while_they_are_listed_stay(log):
    """Another process passes a boundary, and stores pages, of which the state at hand knows nothing yet."""
    append(log, *range(20))
    other = another(log)
    other.does_maintenance = False

    def go_on():
        append(other, *range(20, 60))
        other.maintenance._snapshots._pages.save(
            page for partition in other.state.partitions.values() for page in partition.index.pages
        )

    log.store.hooks["list"] = (lambda prefix: prefix == paths.INDEX, go_on)
    now(log).run()
    # It was between the two: pages are saved, and the snapshot that refers to them is not.
    other.maintenance._snapshots._pages.save = lambda _: 0
    assert other.maintenance.snapshot() == 60, "it has stored its pieces before, and now says where they are"
    assert values(another(log, b"c")) == [*range(60)]


def test_pages_that_are_stored_after_the_log_was_followed_stay(log):
    append(log, *range(20))
    other = another(log)
    log.store.hooks["listed"] = (
        lambda prefix: prefix == paths.INDEX,
        lambda: append(other, *range(20, 60)),
    )
    now(log).run()
    assert values(another(log, b"c")) == [*range(60)]


def test_a_walk_over_a_state_that_is_too_old_begins_again(log):
    append(log, *range(40))
    late = another(log)
    roll(log)
    append(log, *range(40, 55))
    now(log).run()
    assert values(log) == [*range(55)]
    follow, calls = late.follow, count()

    def lagging():
        return late.state if next(calls) < 2 else follow()

    late.follow = lagging
    assert now(late).run().objects == {}
    assert late.state.seq == log.state.seq


def test_a_page_that_is_gone_is_told_while_others_write(log):
    append(log, *range(40))
    log.store.delete(listed(log, paths.INDEX)[0])
    late = another(log)
    follow, looks = late.follow, count()

    def busy():
        assert next(looks) < 9, "it goes on for as long as the log is in use"
        append(log, 1)
        return follow()

    late.follow = busy
    with pytest.raises(ObjectNotFoundError):
        now(late).run()


# -- Others ----------------------------------------------------------------------------------------------


def joined(log, member):
    def propose(_state):
        topics = ("t",)
        return (JoinGroup("g", member, topics, ("range",), 1000),)

    log.commit(propose)


def test_heartbeats_of_members_that_are_gone(log):
    for member in ("here", "gone"):
        joined(log, member)
        log.store.overwrite(heartbeat_name("g", member), b"1")
    log.store.overwrite(heartbeat_name("unknown", "m"), b"1")
    log.commit(lambda _: (LeaveGroup("g", ("gone",)),))
    assert now(log).run().objects == {}, "without the names it looks at none"
    assert now(log, heartbeat_name=heartbeat_name).run().objects == {"heartbeat": 2}
    assert listed(log, "_groups/") == [heartbeat_name("g", "here")]


def test_a_member_that_joins_while_heartbeats_are_listed(log):
    other = another(log)

    def join():
        joined(other, "late")
        log.store.overwrite(heartbeat_name("g", "late"), b"1")

    log.store.hooks["list"] = (lambda prefix: prefix == "_groups/", join)
    assert now(log, heartbeat_name=heartbeat_name).run().objects == {}


def test_probes(log):
    log.store.create("_probe/00", b"x")
    begin = log.clock.now
    assert now(log).run().objects == {"probe": 1}
    assert log.clock.now - begin >= 60
    assert listed(log, "_probe/") == []


def test_temporary_files(tmp_path):
    log = created(PosixStore(str(tmp_path)))
    append(log, 0)
    for name, age_s in (("old", 3700), ("young", 10)):
        path = tmp_path / "_tmp" / name
        path.write_bytes(b"x")
        modified = path.stat().st_mtime - age_s
        os.utime(path, (modified, modified))
    assert now(log).run().objects == {"temporary": 1}
    assert not (tmp_path / "_tmp" / "old").exists()
    assert (tmp_path / "_tmp" / "young").exists()


# -- A full disk -------------------------------------------------------------------------------------------


class FullStore(HookedStore):
    """Has no byte left while it is ``full``; a file that is deleted makes room if ``makes_room``."""

    full = makes_room = False

    def create(self, name, data):
        if self.full:
            raise StoreFullError(f"{name}: no space left")
        super().create(name, data)

    def overwrite(self, name, data):
        if self.full:
            raise StoreFullError(f"{name}: no space left")
        super().overwrite(name, data)

    def delete(self, name):
        super().delete(name)
        self.full = self.full and not self.makes_room


@pytest.fixture
def full():
    """A log with a file that can be committed no more, and with one that still can."""
    log = created(FullStore())
    append(log, *range(3))
    left_behind(log, 100)
    log.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))
    left_behind(log, 200)
    log.store.full = True
    return log


def test_a_full_disk_keeps_what_needs_an_entry_first(full, caplog):
    early, late = sorted({*files(full)} - {*in_use(full)})
    assert now(full).run().objects == {"data": 1}
    assert {early, late} & {*files(full)} == {late}
    assert "Not all was deleted: an entry has to be written first" in caplog.text
    with pytest.raises(StoreFullError, match="Nothing was deleted: an entry has to be written first"):
        now(full).run()
    assert late in files(full)


def test_what_was_deleted_makes_room_for_the_entry(full, caplog):
    full.store.makes_room = True
    assert now(full).run().objects == {"data": 2}
    assert files(full) == in_use(full)
    assert "no space" not in caplog.text


# -- A log that is not what it was ------------------------------------------------------------------------


def test_a_folder_that_was_replaced_keeps_its_files(log):
    append(log, *range(10))
    left_behind(log, 100)
    fresh = created(MemoryStore(), b"z")
    fresh_log = Log.open(fresh.store, fresh.clock)
    append(fresh_log, *range(3))

    def replace():
        for info in [*log.store.list("")]:
            MemoryStore.delete(log.store, info.name)
        for info in fresh.store.list(""):
            log.store.overwrite(info.name, fresh.store.read(info.name))

    at = log.clock.now + 30
    log.clock.on_sleep = lambda: replace() if log.clock.now >= at and files(log) != files(fresh) else None
    with pytest.raises(NotALogError, match="removed or replaced"):
        now(log).run()
    assert files(log) == files(fresh)
    with pytest.raises(NotALogError):
        now(log).run()


def test_a_folder_that_was_put_back_from_a_copy_keeps_its_files(log):
    append(log, *range(12))
    copy = {info.name: log.store.read(info.name) for info in log.store.list("")}
    roll(log)

    def restore():
        for info in [*log.store.list("")]:
            MemoryStore.delete(log.store, info.name)
        for name, data in copy.items():
            log.store.overwrite(name, data)

    at = log.clock.now + 30
    log.clock.on_sleep = lambda: restore() if log.clock.now == at else None
    with pytest.raises(DivergedLogError, match="put back from a copy"):
        now(log).run()
    assert values(another(log)) == [*range(12)]


def test_a_folder_that_is_put_back_while_files_are_deleted_keeps_them(tmp_path):
    """Some time after the first of many deletions. A process that was frozen in one deletes that file alone."""
    copy, put_back = {}, []

    class Changing(PosixStore):
        def delete(self, name):
            super().delete(name)
            if name.startswith(paths.DATA) and not put_back:
                put_back.append(name)
                for info in [*self.list("")]:
                    super().delete(info.name)
                for other, data in copy.items():
                    self.create(other, data)

    store = Changing(tmp_path / "log")
    log = created(store)
    append(log, *range(12))
    copy |= {info.name: bytes(store.read(info.name)) for info in store.list("")}
    roll(log)
    with pytest.raises(DivergedLogError, match="put back from a copy"):
        now(log).run()
    assert put_back
    assert values(Log.open(PosixStore(tmp_path / "log"), log.clock)) == [*range(12)]


def test_what_deletions_rest_on_is_settled_first(log):
    append(log, *range(3))
    left_behind(log, 100)
    settled = []
    log.store.ensure_durable = settled.append
    log.store.hooks["delete"] = (lambda _: True, lambda: settled.append("delete"))
    now(log).run()
    assert settled[-2:] == [paths.entry(log.state.seq), "delete"]


def test_entries_of_the_folder_before_are_settled_too():
    log = created(HookedStore(), entries_per_folder=7)
    append(log, *range(5))
    left_behind(log, 100)
    assert log.state.seq == 7
    settled = []
    log.store.ensure_durable = settled.append
    now(log).run()
    assert settled[-2:] == [paths.entry(8, 7), paths.entry(6, 7)]


# -- Beside others ---------------------------------------------------------------------------------------


OUTRUN = (StagedFileExpiredError, SegmentsReplacedError, ObjectNotFoundError)


MOST_TRIES = 20_000


def write(log, topic, going):
    for value in range(40):
        if value % 5 == 4:
            left_behind(log, 1000, topic=topic)
        again(partial(append, log, value, topic=topic), StagedFileExpiredError, going)
        if value % 13 == 12:
            again(partial(roll, log, topic), OUTRUN, going)


def clean(log, topic, going, stop, deleted):
    # An hour passes with each pass: old is what was there a few passes ago.
    vacuum = Vacuum(log, min_age_s=3 * 3600)
    while not stop.is_set():
        if not going.wait(1):
            continue
        log.clock.now += 3600
        deleted.append(vacuum.run(wait=False).objects.get("data", 0))
        found = again(partial(values, log, topic), ObjectNotFoundError, going)
        assert found == [*range(len(found))]


def test_several_at_once_beside_writers():
    """Writers and readers, while three processes vacuum under them with a floor that allows no slow writer."""
    log = created(MemoryStore(), snapshot_interval=100)
    topics = ("t0", "t1", "t2")
    for topic in topics:
        log.ensure_topic(topic)
    stop, deleted = threading.Event(), []
    going = threading.Event()
    going.set()
    with ThreadPoolExecutor(6) as pool:
        cleaners = [
            pool.submit(clean, another(log, b"c%d" % number), topic, going, stop, deleted)
            for number, topic in enumerate(topics)
        ]
        try:
            writers = [
                pool.submit(write, another(log, b"w%d" % number), topic, going)
                for number, topic in enumerate(topics)
            ]
            for writer in writers:
                writer.result()
        finally:
            stop.set()
        for cleaner in cleaners:
            cleaner.result()
    assert sum(deleted) > 10
    seen = another(log, b"z")
    for topic in topics:
        assert values(seen, topic) == [*range(40)]


def again(call, errors, going):
    """What a client does that is refused, or meets a file that is gone: it starts again.

    After some tries the others wait: on a busy machine their passes can be quicker for ever. The log then stands
    still, so what fails on and on is a file that is gone though the log has it.
    """
    tries = 0
    while True:
        try:
            result = call()
        except errors:
            tries += 1
            if tries > 20:
                going.clear()
            if tries > MOST_TRIES:
                raise
        else:
            going.set()
            return result


def test_a_floor_above_the_end_is_never_asked_for(log):
    append(log, *range(3))
    left_behind(log, 5)
    now(log).run()
    assert log.state.staging_floor == log.state.seq
    assert log.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))


def test_what_a_clock_that_was_ahead_has_noted_counts_as_seen_now():
    """Else it would stay until that time has come."""
    noted = FirstSeen(MemoryStore(), "_maintenance/seen")
    noted.write({"data/a": 500, "data/b": 9_000_000})
    assert noted.read(1000) == {"data/a": 500, "data/b": 1000}
