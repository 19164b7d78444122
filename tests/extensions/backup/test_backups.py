"""Backups: each is one state of the log, and whatever lies between its first and last entry can be restored."""

from __future__ import annotations

import re
from itertools import count

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    EosLogError,
    LogExistsError,
    NotALogError,
    StorePermissionError,
    UnsupportedVersionError,
)
from spark_eos.extensions.backup import view
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.deleting import delete_backups, vacuum_backups
from spark_eos.extensions.backup.listing import list_backups
from spark_eos.extensions.backup.repository import MANIFESTS, OBJECTS, RUNNING
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.extensions.backup.verifying import verify_backups
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.log.time_travel import state_at
from spark_eos.maintenance.copying import MARK, copy_log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import verify
from spark_eos.monitoring.status import status_of
from spark_eos.storage import MemoryStore, Settings
from spark_eos.testing import Fault, FaultyStore
from tests.crashpoints.test_maintenance import Interrupted
from tests.log.fakes import Waiting
from tests.maintenance.world import DAY_S, Clock, Watched, append, created, grown, listed, roll, values

pytestmark = pytest.mark.usefixtures("small_pages")


def backed_up(log, repository, **options):
    return backup_log(log.store, repository, clock=log.clock, **options)


def restored(repository, **options):
    """The restored log; verification found nothing in it, but that nothing has stored a snapshot yet."""
    target, found = MemoryStore(), []
    done = restore_log(repository, target, found=found.append, **options)
    assert [one for one in found if "is not there (yet)" not in one.text] == []
    log = Log.open(target)
    assert log.state.seq == done.verified.last_entry
    return log


def vacuumed(log, times=2):
    for _ in range(times):
        log.clock.now += 10 * DAY_S
        Vacuum(log, min_age_s=0).run()
        append(log, 77)


def test_a_backup_is_restored_as_the_log_was():
    log, repository = grown(), MemoryStore()
    backup = backed_up(log, repository, name="monday")
    append(log, 100)
    back = restored(repository)
    assert (back.log_id, back.state.seq) == (log.log_id, backup.last)
    assert values(back) == [*range(26)]
    assert MARK not in listed(back, "")
    summary = verify(back.store, lambda _: None)
    assert (summary.unreferenced_files, summary.unreferenced_index_pages) == (0, 0)
    append(back, 200)
    assert values(back) == [*range(26), 200]
    assert [one.name for one in list_backups(repository)] == ["monday"]


def test_every_entry_between_first_and_last_is_restored_as_it_was():
    log, repository = created(MemoryStore()), MemoryStore()
    before = -1
    for number in range(6):
        append(log, *range(number * 4, number * 4 + 4))
        if number == 3:
            roll(log, pages=2)
        backup = backed_up(log, repository)
        assert number == 0 or backup.first <= before, "no entry lies between two backups"
        before = backup.last
    backups = list_backups(repository)
    assert backups[0].first in {0, 5}
    for seq in range(backups[0].first, backups[-1].last + 1):
        back = restored(repository, to_entry=seq)
        assert back.state.seq == seq
        assert back.state.lineage == back_then(log, seq)
        assert values(back) == [*range(len(values(back)))]
    assert values(back) == [*range(24)]


def back_then(log, seq):
    """The lineage after an entry, as the newest state remembers it."""
    short = 4
    lineages = log.follow().lineages
    end = len(lineages) - (log.state.seq - seq) * short
    return _Prefix(lineages[end - short : end])


class _Prefix(bytes):
    def __eq__(self, other):
        return other.startswith(bytes(self))

    __hash__ = bytes.__hash__


def test_a_second_backup_copies_only_what_is_new():
    log, repository = grown(), MemoryStore()
    first = backed_up(log, repository, name="first")
    before = {*listed_in(repository, OBJECTS)}
    append(log, 100, 101)
    second = backed_up(log, repository)
    new = {name for name in {*listed_in(repository, OBJECTS)} - before if ".arrow" in name}
    assert len(new) == 2
    assert second.new_bytes < first.new_bytes
    assert second.new_files < 8
    assert values(restored(repository)) == [*range(26), 100, 101]
    assert values(restored(repository, backup=first.id)) == [*range(26)]


def listed_in(store, prefix):
    return sorted(info.name for info in store.list(prefix))


def test_nothing_new_is_a_backup_all_the_same():
    log, repository = grown(), MemoryStore()
    backed_up(log, repository, name="a")
    again = backed_up(log, repository, name="b")
    assert (again.new_files, again.new_bytes) == (0, 0)
    delete_backups(repository, ["a"])
    assert values(restored(repository)) == [*range(26)]


def test_to_a_time(monkeypatch):
    monkeypatch.setattr(view, "_SMALL", 0)  # Of a large pack the entries are read one by one.
    log, repository = created(MemoryStore(), snapshot_interval=1000), MemoryStore()
    times = []
    for number in range(5):
        append(log, number)
        times.append((log.state.timestamp_ms, number))
    backup = backed_up(log, repository)
    for time_ms, number in times:
        assert values(restored(repository, to_time_ms=time_ms)) == [*range(number + 1)]
    assert values(restored(repository, to_time_ms=backup.created_ms)) == [*range(5)]
    with pytest.raises(ConfigError, match=r"no backup in .* has the time .* entries 0 to 6"):
        restored(repository, to_time_ms=backup.created_ms + 1)
    with pytest.raises(ConfigError, match="has entry 7"):
        restored(repository, to_entry=7)
    with pytest.raises(ConfigError, match="not to both"):
        restored(repository, to_entry=7, to_time_ms=1)


def test_files_that_a_vacuum_has_removed_since_the_last_backup():
    """Of what was rewritten between two backups the log has no files any more, and the first backup does."""
    log, repository = grown(), MemoryStore()
    first = backed_up(log, repository)
    roll(log)
    vacuumed(log)
    second = backed_up(log, repository)
    delete_backups(repository, [first.id])
    for seq in range(second.first, second.last + 1):
        back = restored(repository, to_entry=seq)
        assert values(back) == [*range(26), 77, 77][: len(values(back))]


def test_files_that_came_and_went_between_two_backups_move_the_first_entry():
    log, repository = created(MemoryStore(), snapshot_interval=1000), MemoryStore()
    append(log, *range(5))
    first = backed_up(log, repository)
    append(log, *range(5, 9))
    for name in listed(log, paths.DATA)[6:8]:
        log.store.delete(name)
    looks = []

    def write_on(_, name):
        if name.startswith(paths.DATA) and name not in listed(log, paths.DATA):
            looks.append(name)
            assert len(looks) < 9, "it goes on for as long as the log is in use"
            append(log, len(looks))

    with pytest.raises(CorruptRecordError, match="The log itself is damaged"):
        backup_log(Watched(log.store, write_on), repository, clock=log.clock)
    Admin(log).delete_records({("t", 0): 9 + len(looks)})
    append(log, 9)
    second = backed_up(log, repository)
    assert second.first > first.last
    for seq in (second.first, second.last):
        assert values(restored(repository, backup=second.id, to_entry=seq)) in ([], [9])
    with pytest.raises(ConfigError, match=f"has entry {second.first - 1}"):
        restored(repository, backup=second.id, to_entry=second.first - 1)
    assert verify_backups(repository, print).damaged == ()


def test_what_a_vacuum_removes_meanwhile_is_backed_up_as_the_log_has_it_by_then():
    log, repository = grown(), MemoryStore()
    todo = [True]

    def disturb(operation, name):
        if operation == "read" and name.startswith(paths.DATA) and todo:
            todo.clear()
            roll(log)
            append(log, *range(26, 30))
            vacuumed(log)

    before = listed(log, paths.DATA)
    backup_log(Watched(log.store, disturb), repository, clock=log.clock)
    assert not {*before} <= {*listed(log, paths.DATA)}, "files went meanwhile"
    assert values(restored(repository)) == values(log) == [*range(30), 77, 77]


def test_a_log_that_was_restored_goes_on_in_the_same_repository():
    log, repository = grown(), MemoryStore()
    backed_up(log, repository, name="before")
    append(log, *range(26, 40))
    backed_up(log, repository, name="gone")
    back = restored(repository, backup="before")
    append(back, *range(100, 120))
    backed_up(back, repository, name="after")
    assert values(restored(repository, backup="gone")) == [*range(40)]
    assert values(restored(repository)) == [*range(26), *range(100, 120)]
    assert verify_backups(repository, print).whole == ("before", "gone", "after")


@pytest.mark.usefixtures("timeless_folders")
def test_groups_transactions_and_offsets_are_as_they_were(tmp_path):
    log = Log.create(tmp_path / "log")
    with Producer(log, {"transactional.id": "a", "transaction.timeout.ms": 120_000}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open")
        producer.flush()
        backup_log(log.store, tmp_path / "backups", name="open")
        state = log.state
        producer.commit_transaction()
    backup_log(log.store, tmp_path / "backups", name="done")
    restore_log(tmp_path / "backups", tmp_path / "back", backup="open")
    back = Log.open(tmp_path / "back")
    assert back.state == state
    assert len(back.state.open_transactions) == 1
    waiting = Log.open(tmp_path / "back", Waiting())
    with Consumer(waiting, {"isolation.level": "read_committed"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        while Log.open(tmp_path / "back").state.open_transactions:  # It times out as in any log.
            assert consumer.poll(timeout_ms=100_000) == []
    assert [one.transaction.value for one in Log.open(tmp_path / "back").state.producers.values()] == [
        "CompleteAbort"
    ]
    restore_log(tmp_path / "backups", tmp_path / "between", backup="done", to_entry=state.seq)
    assert Log.open(tmp_path / "between").state == state
    restore_log(tmp_path / "backups", tmp_path / "done")
    assert Log.open(tmp_path / "done").state == state_at(log, log.follow().seq)


@pytest.mark.parametrize("longer", [0, 3, 60], ids=["shorter", "a little longer", "retired"])
def test_a_log_restored_to_an_earlier_entry_has_another_history(longer):
    """Its next backup does not go on from the one whose end is gone, and both are restored as they were."""
    log, repository = grown(), MemoryStore()
    backed_up(log, repository, name="before")
    before = log.follow().seq
    append(log, *range(26, 34))
    gone = backed_up(log, repository, name="gone")
    back = restored(repository, to_entry=before + 2)
    append(back, *range(100, 101 + longer))
    after = backed_up(back, repository, name="after")
    assert after.last == back.state.seq
    assert values(restored(repository, backup="gone")) == [*range(34)]
    new = values(restored(repository, backup="after"))
    assert new == values(back) == [*range(28), *range(100, 101 + longer)]
    for seq in range(gone.first, gone.last + 1):
        there = values(restored(repository, backup="gone", to_entry=seq))
        assert there == [*range(len(there))]
    assert verify_backups(repository, print).whole == ("before", "gone", "after")


@pytest.mark.deep("first")
@pytest.mark.parametrize("newest", [False, True], ids=["first", "goes on"])
def test_a_log_that_is_put_back_at_any_operation_of_its_backup(newest):
    """The backup has one history or the other, or there is none."""
    ends = set()
    for at in count():
        log, repository, place = created(MemoryStore()), MemoryStore(), MemoryStore()
        append(log, *range(7))
        copy_log(log.store, place, lambda _: None)
        if newest:
            backed_up(log, repository, name="before")
        append(log, *range(7, 12))
        back = Log.open(place, Clock(b"n"), Retry(deadline_s=10))
        append(back, *range(100, 105))
        old, new = values(log), values(back)

        def put_back(log=log, place=place):
            for info in [*log.store.list("")]:
                log.store.delete(info.name)
            for info in place.list(""):
                log.store.create(info.name, place.read(info.name))

        source = Interrupted(log.store, at, put_back)
        try:
            backup_log(source, repository, name="monday", clock=log.clock)
        except EosLogError as error:
            ends.add(type(error))
            assert "monday" not in [one.name for one in list_backups(repository)]
        else:
            assert values(restored(repository, backup="monday")) in (old, new)
        assert verify_backups(repository, print).damaged == ()
        if source.count <= at:
            break
    assert at > 15


@pytest.mark.deep("back up-1", "copy-1")
@pytest.mark.parametrize("step", [3, 1])
@pytest.mark.parametrize("call", ["back up", "copy"])
def test_names_of_entries_that_are_deleted_while_the_process_sleeps(call, step):
    """A free slot is the end of the log only if no snapshot has gone past it. It sleeps at every ``step``-th call."""
    for at in count(0, step):
        log, repository, target = created(MemoryStore()), MemoryStore(), MemoryStore()
        append(log, *range(7))

        def others(log=log):
            append(log, *range(7, 30))
            list(Maintainer(log, only=["snapshot", "retire"]).run())
            for info in [*log.store.list(paths.LOG)]:
                if not info.size:
                    log.store.delete(info.name)

        source = Interrupted(log.store, at, others)
        if call == "copy":
            copy_log(source, target, lambda _: None)
        else:
            backup_log(source, repository)
            restore_log(repository, target)
        if source.count <= at:
            break
        assert values(Log.open(target)) in ([*range(7)], [*range(30)])
    assert at > 15


# -- What is in the way, damage ---------------------------------------------------------------------------


def test_what_is_in_the_way_is_refused():
    log, other, repository = grown(), Log.create(MemoryStore()), MemoryStore()
    backed_up(log, repository, name="monday")
    with pytest.raises(LogExistsError, match="has the backups of log"):
        backup_log(other.store, repository)
    with pytest.raises(ConfigError, match="has a backup named 'monday' already"):
        backed_up(log, repository, name="monday")
    with pytest.raises(ConfigError, match="cannot be named 'a/b'"):
        backed_up(log, repository, name="a/b")
    with pytest.raises(ConfigError, match="cannot be named 'a/b'"):
        backed_up(log, new := MemoryStore(), name="a/b")
    assert [*new.list("")] == [], "what is refused writes nothing"
    photos = MemoryStore()
    photos.create("photos/one.jpg", b"x")
    with pytest.raises(NotALogError, match=r"not empty \(it holds 'photos/one\.jpg'\)"):
        backed_up(log, photos)
    with pytest.raises(NotALogError, match=r"not empty \(it holds '_log/"):
        backed_up(log, other.store)
    with pytest.raises(NotALogError, match="is no repository"):
        restored(MemoryStore())
    with pytest.raises(NotALogError, match="is not a log"):
        backup_log(MemoryStore(), repository)
    with pytest.raises(ConfigError, match="has no backup 'tuesday'; it has monday"):
        restored(repository, backup="tuesday")
    with pytest.raises(LogExistsError, match="holds a log already"):
        restore_log(repository, other.store)
    with pytest.raises(ConfigError, match="has no backup 'tuesday'"):
        delete_backups(repository, ["monday", "tuesday"])
    delete_backups(repository, ["monday"])
    with pytest.raises(ConfigError, match="has no backup: none was finished there, or all were deleted"):
        restored(repository)
    assert listed_in(repository, RUNNING) == []


def test_the_newest_backup_is_the_last_one_that_was_made():
    """The clock of a machine was a year ahead when it made the first one."""
    log, repository = grown(), MemoryStore()
    log.clock.now += 365 * DAY_S
    first = backed_up(log, repository)
    log.clock.now -= 365 * DAY_S
    append(log, 77)
    backups = [backed_up(log, repository) for _ in range(2)]
    assert [backup.last for backup in list_backups(repository)] == [
        first.last,
        *(one.last for one in backups),
    ]
    assert restored(repository).state.seq == log.state.seq > first.last
    assert [backup.new_files for backup in backups][1:] == [0], "each goes on from the one before"
    log.clock.now += DAY_S
    append(log, 78)
    with pytest.raises(ConfigError, match=r"no backup in .* has the time"):  # It was made after all of them.
        restored(repository, to_time_ms=log.clock.now_ms())


def test_an_id_is_that_of_its_backup_whatever_others_are_named():
    log, repository = grown(9), MemoryStore()
    first = backed_up(log, repository, name="first")
    append(log, 50)
    backed_up(log, repository, name=first.id)
    assert values(restored(repository, backup=first.id)) == [*range(12)]


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST])
def test_a_reply_is_lost_when_a_backup_becomes_whole(fault):
    log, repository = grown(9), MemoryStore()
    spoilt = FaultyStore(repository)
    spoilt.inject(fault, "create", f"{MANIFESTS}*")
    backup = backed_up(log, spoilt)
    assert list_backups(repository) == [backup]
    assert listed_in(repository, RUNNING) == []


def test_the_end_of_a_backup_outlives_a_power_cut():
    log = grown(9)
    source = FaultyStore(log.store)
    backup = backup_log(source, MemoryStore(), clock=log.clock)
    assert source.count("ensure_durable", paths.entry(backup.last, log.state.entries_per_folder)) == 1


def test_no_log_is_restored_into_the_repository(tmp_path):
    """Deleting backups frees all that lies there and that none of them needs."""
    log, repository = Log.create(str(tmp_path / "log")), tmp_path / "repository"
    backup_log(log.store, repository)
    (tmp_path / "link").symlink_to(repository)
    refused = r"the restored log .* and the repository .* lie in one another"
    for place in (repository / "objects" / "restored", tmp_path / "link" / "restored", tmp_path):
        with pytest.raises(ConfigError, match=refused):
            restore_log(repository, place)
    for place in (repository / "objects", tmp_path / "link" / "data"):
        with pytest.raises(ConfigError, match=refused):
            restore_log(repository, tmp_path / "new", settings=Settings({"data.url": str(place)}))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("make", [backup_log, lambda log, place: copy_log(log, place, print)])
def test_a_link_does_not_lead_into_the_log(tmp_path, make):
    log = Log.create(str(tmp_path / "log"))
    (tmp_path / "link").symlink_to(tmp_path / "log")
    with pytest.raises(ConfigError, match="lie in one another"):
        make(log.store, tmp_path / "link" / "inside")
    assert not (tmp_path / "log" / "inside").exists()


def test_an_unfinished_restore_goes_on_with_the_same_entry_only():
    log, repository, target = grown(), MemoryStore(), MemoryStore()
    backup = backed_up(log, repository)

    def stop(operation, name):
        if operation == "create" and name.startswith(paths.LOG):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore_log(repository, Watched(target, stop))
    with pytest.raises(LogExistsError, match=r"unfinished copy .* of another backup or entry"):
        restore_log(repository, target, to_entry=backup.last - 1)
    said = (
        rf"holds an unfinished restore of backup {backup.id} up to entry {backup.last}, and is no log yet. It goes on "
        rf"with `eoslog restore REPOSITORY {re.escape(target.url)} --backup {backup.id} --to-entry {backup.last}`"
    )
    for call in (
        Log.open,
        Log.create,
        Log.open_or_create,
        lambda place: verify(place, print),
        lambda place: copy_log(place, MemoryStore(), print),
        lambda place: backup_log(place, MemoryStore()),
    ):
        with pytest.raises(NotALogError, match=said):
            call(target)
    (trouble,) = status_of(target).troubles
    assert re.search(said, trouble.text)
    restore_log(repository, target, backup=backup.id, to_entry=backup.last)
    assert values(Log.open(target)) == [*range(26)]


def test_a_backup_can_be_read_and_not_written():
    from spark_eos.extensions.backup.repository import Repository
    from spark_eos.extensions.backup.view import BackupView

    log, repository = grown(), MemoryStore()
    backup = backed_up(log, repository)
    view = Log.open(BackupView(repository, Repository.open(repository).load(backup.id)))
    assert values(view) == [*range(26)]
    with pytest.raises(StorePermissionError, match="restore it with eoslog restore"):
        append(view, 1)


@pytest.mark.parametrize("change", ["flipped", "cut", "gone"])
def test_damage_is_found_and_never_restored(change):
    log, original = grown(9), MemoryStore()
    backup = backed_up(log, original)
    objects = {info.name: original.read(info.name).to_pybytes() for info in original.list("")}
    refused = 0
    for name in objects:
        repository = MemoryStore()
        for other, data in objects.items():
            if other != name:
                repository.create(other, data)
            elif change == "flipped":
                middle = len(data) // 2
                repository.create(name, data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
            elif change == "cut":
                repository.create(name, data[:-1])
        found = []
        try:
            verified = verify_backups(repository, found.append)
            seen = bool(verified.damaged) or not verified.whole
        except (CorruptRecordError, NotALogError):
            seen = True
        if name == "repository.json" and change == "flipped":
            continue  # One letter of the log's id: it is compared at the next backup.
        assert seen, name
        try:
            target = MemoryStore()
            restore_log(repository, target, backup=backup.id)
            back = Log.open(target)
        except (CorruptRecordError, NotALogError, ConfigError):
            refused += 1
        else:
            assert values(back) == [*range(12)], f"{name} is only needed for earlier entries"
    assert refused >= 15


def test_what_is_worth_a_note_in_the_log_is_no_finding_in_a_backup():
    log, repository, in_log, in_backup = grown(9), MemoryStore(), [], []
    log.clock.now = 4e9  # A wrong clock has driven the log's time ahead.
    append(log, 50)
    backed_up(log, repository)
    assert verify(log.store, in_log.append).is_sound
    assert len(verify_backups(repository, in_backup.append).whole) == 1
    assert ["time" in one.text for one in in_log] == [True]
    assert in_backup == []


def test_what_is_missing_in_the_repository_is_copied_again():
    log, repository = grown(), MemoryStore()
    backed_up(log, repository, name="a")
    names = listed_in(repository, OBJECTS)
    for name in names[::2]:
        repository.delete(name)
    rows = log.state.partitions[log.topic("t").topic_id, 0].index.tail
    needed = tuple(row.file.name for row in rows if row.file)
    cut = next(name for name in names[1::2] if name.endswith(needed))
    repository.overwrite(cut, repository.read(cut, 0, 9))
    append(log, 50)
    backed_up(log, repository, name="b")
    found = []
    verified = verify_backups(repository, found.append)
    assert (verified.whole, verified.damaged) == (("b",), ("a",))
    assert {one.name for one in found if "is missing" not in one.text} == {cut}
    assert values(restored(repository)) == [*range(26), 50]


def test_a_damaged_file_of_the_same_size_is_reused_until_it_is_deleted():
    """Sizes are looked at, bytes by `verify_backups`; what its finding says to do helps."""
    log, repository = grown(), MemoryStore()
    backed_up(log, repository, name="a")
    name = max(name for name in listed_in(repository, OBJECTS) if ".arrow" in name)
    data = repository.read(name).to_pybytes()
    repository.overwrite(name, data[:-1] + bytes([data[-1] ^ 1]))
    backed_up(log, repository, name="b")
    found = []
    assert verify_backups(repository, found.append).damaged == ("a", "b")
    assert {one.name for one in found} == {name}
    assert "is damaged" in found[0].text
    assert "Delete this object: then the next eoslog backup copies the file again" in found[0].remedy
    repository.delete(name)
    backed_up(log, repository, name="c")
    assert verify_backups(repository, found.append, ["c"]).whole == ("c",)
    assert values(restored(repository)) == [*range(26)]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]\n", b"x" * 5000], ids=["empty", "cut", "a list", "noise"])
def test_a_damaged_manifest_is_in_the_way_of_no_other_backup(damage):
    log, repository = grown(), MemoryStore()
    lost = backed_up(log, repository, name="lost")
    append(log, 50)
    backed_up(log, repository, name="whole")
    repository.overwrite(f"{MANIFESTS}{lost.id}.json", damage)
    assert [one.name for one in list_backups(repository)] == ["whole"]
    assert values(restored(repository, backup="whole")) == values(restored(repository)) == [*range(26), 50]
    found = []
    verified = verify_backups(repository, found.append)
    assert (verified.whole, verified.damaged) == (("whole",), (lost.id,))
    assert "delete this object" in found[0].remedy
    backed_up(log, repository, name="more")
    with pytest.raises(CorruptRecordError, match="no manifest"):
        vacuum_backups(repository)
    assert values(restored(repository, backup="more")) == [*range(26), 50]
    repository.delete(found[0].name)
    assert vacuum_backups(repository).running == 0
    assert verify_backups(repository, print).whole == ("whole", "more")


def test_damage_of_the_log_is_named_and_there_is_no_backup():
    log, repository = grown(), MemoryStore()
    name = listed(log, paths.DATA)[-1]
    data = bytearray(log.store.read(name))
    data[300] ^= 1
    log.store.overwrite(name, bytes(data))
    with pytest.raises(CorruptRecordError, match=rf"{name}: bytes .* CRC32C .*eoslog verify"):
        backed_up(log, repository)
    assert listed_in(repository, MANIFESTS) == listed_in(repository, RUNNING) == []


def test_the_end_of_a_parquet_file_is_looked_at_too():
    """What its rows are compared with, and where they lie."""
    log = created(MemoryStore())
    Admin(log).create_topic("p", config={"segment.format": "parquet"})
    append(log, *range(12), topic="p")
    Roller(log, tail_rows=1).run()
    repository = MemoryStore()
    backed_up(log, repository)
    assert values(restored(repository), "p") == [*range(12)]
    (name,) = (name for name in listed(log, paths.TABLES) if paths.is_segment(name))
    data = bytearray(log.store.read(name))
    data[-20] ^= 1
    log.store.overwrite(name, bytes(data))
    with pytest.raises(CorruptRecordError, match=rf"{name}: bytes .* CRC32C"):
        backed_up(log, MemoryStore())


def test_large_files_are_copied_in_parts(monkeypatch):
    from spark_eos.extensions.backup import transfer

    monkeypatch.setattr(transfer, "PART", 100)
    log, repository = grown(), MemoryStore()
    spoilt = FaultyStore(repository)
    spoilt.inject(Fault.DUPLICATE, "upload")  # A reply is lost, and the request sent again.
    backed_up(log, spoilt)
    assert verify_backups(repository, print).damaged == ()
    assert values(restored(repository)) == [*range(26)]
    name = listed(log, paths.DATA)[-1]
    data = bytearray(log.store.read(name))
    data[300] ^= 1
    log.store.overwrite(name, bytes(data))
    with pytest.raises(CorruptRecordError, match=name):
        backed_up(log, MemoryStore())


def test_a_large_file_that_ends_early_is_damage(monkeypatch):
    """It has its length, and still a read gets less."""
    from spark_eos.extensions.backup import transfer

    class Short(Watched):
        def read(self, name, offset=0, length=None):
            data = super().read(name, offset, length)
            return data[:0] if offset and name.startswith(paths.DATA) else data

    monkeypatch.setattr(transfer, "PART", 100)
    log, repository = grown(), MemoryStore()
    with pytest.raises(CorruptRecordError, match=r"ends before byte .*eoslog verify"):
        backup_log(Short(log.store, lambda *_: None), repository, clock=log.clock)
    assert listed_in(repository, MANIFESTS) == []


def test_a_manifest_of_a_newer_version_is_refused():
    log, repository = grown(), MemoryStore()
    backup = backed_up(log, repository)
    name = f"{MANIFESTS}{backup.id}.json"
    text = repository.read(name).to_pybytes().replace(b'"version":1', b'"version":2')
    repository.overwrite(name, text)
    for call in (list_backups, restored, vacuum_backups):
        with pytest.raises(UnsupportedVersionError, match="upgrade it"):
            call(repository)


def test_a_repository_of_a_newer_version_is_refused():
    repository = MemoryStore()
    backed_up(grown(), repository)
    mark = repository.read("repository.json").to_pybytes()
    repository.overwrite("repository.json", mark.replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(UnsupportedVersionError, match="a repository of format version 2"):
        list_backups(repository)


def test_a_backup_of_a_log_with_a_long_address_is_listed():
    log, repository = grown(), MemoryStore()
    log.store.url = f"memory://{'x' * 5000}"
    backup = backed_up(log, repository)
    assert list_backups(repository) == [backup]
