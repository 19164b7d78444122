"""What an increment costs: as much as is new, however old the log is and however many backups there are. Counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from spark_eos import Admin, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import ConfigError
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.deleting import delete_backups, vacuum_backups
from spark_eos.extensions.backup.listing import list_backups, unfinished_backups
from spark_eos.extensions.backup.manifest import encode
from spark_eos.extensions.backup.repository import MANIFESTS, OBJECTS, Repository
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.extensions.backup.sealed import Sealed
from spark_eos.extensions.backup.verifying import verify_backups
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.storage import MemoryStore, open_store
from tests.maintenance.world import DAY_S, append, created, roll, values
from verification.remote_store import RemoteStore

pytestmark = pytest.mark.usefixtures("small_pages")

NEW = 5
"""Records, each in an entry and a file of its own, between two backups. It is the interval of snapshots."""


class Increment:
    """A backup after some more records: what it requested of the log and of the repository."""

    def __init__(self, log, repository, name=None):
        append(log, *range(NEW))
        before = newest(repository)
        source, target = RemoteStore(log.store), RemoteStore(repository)
        backup_log(source, target, name=name, clock=log.clock)
        self.pages = [name for name in reads(source) if name.startswith(paths.INDEX)]
        self.known_pages = {*self.pages} & {*before.inside}
        self.data = [name for name in reads(source) if name.startswith(paths.DATA)]
        self.others = len(reads(source)) - len(self.pages), reads_by_folder(target)


def newest(repository):
    return Repository.open(repository).newest()


def reads(store):
    return [request.name for request in store.requests if request.verb == "GET"]


def reads_by_folder(store):
    return Counter(name.partition("/")[0] for name in reads(store))


def after(count, backups):
    """The last of so many increments, after so many records."""
    log, repository = created(MemoryStore()), MemoryStore()
    append(log, *range(count))
    backup_log(log.store, repository, clock=log.clock)
    return [Increment(log, repository, f"b{number}") for number in range(backups)][-1]


@pytest.mark.parametrize(("count", "backups"), [(320, 4), (20, 24)], ids=["an old log", "many backups"])
def test_an_increment_takes_the_requests_of_one_of_a_young_log_with_few_backups(count, backups):
    young, old = after(20, 4), after(count, backups)
    assert old.others == young.others
    assert len(old.data) == len(young.data) == NEW
    assert old.known_pages == set()
    levels = 8
    assert len(old.pages) <= 2 + 2 * levels
    assert old.others[1]["backups"] == 1, "the newest manifest"


def test_without_a_new_snapshot_there_are_few_packs_of_entries_and_each_entry_is_stored_a_few_times():
    log, repository = created(MemoryStore(), snapshot_interval=1000), MemoryStore()
    backup_log(log.store, repository, clock=log.clock)
    stored = Counter()
    for _ in range(40):
        assert Increment(log, repository).others[1]["objects"] <= 6
    for info in repository.list(OBJECTS):
        if "entries-" in info.name:
            first, last = map(int, info.name.rpartition("entries-")[2].split("-"))
            stored.update(range(first, last + 1))
    assert max(stored.values()) <= 6
    restore_log(repository, back := MemoryStore())
    assert values(Log.open(back)) == values(log)


def test_entry_0_is_not_kept_with_all_that_followed_it():
    log, repository = created(MemoryStore()), MemoryStore()
    backup_log(log.store, repository, clock=log.clock)
    for _ in range(4):
        done = Increment(log, repository)
    assert done.others[1]["objects"] == 2, "a snapshot and the entries after it"
    packs = newest(repository).packs
    assert (packs[0].first, len(packs[0].sizes)) == (0, 1)
    base = max(seq for seq in map(paths.snapshot_seq, _files(repository)) if seq is not None)
    assert all(pack.first + len(pack.sizes) > base for pack in packs[1:])
    restore_log(repository, back := MemoryStore())
    assert values(Log.open(back)) == values(log)
    repository.delete(packs[0].file.object_name)  # Nothing else of it is read.
    Increment(log, repository)
    restore_log(repository, back := MemoryStore())
    assert values(Log.open(back)) == values(log)


def test_a_snapshot_of_another_history_is_not_backed_up():
    """The folder of snapshots was put back from another copy of the log."""
    log, other = created(MemoryStore()), created(MemoryStore(), b"b")
    for one in (log, other):
        append(one, *range(12))
    name = max(info.name for info in log.store.list(paths.SNAPSHOTS))
    log.store.overwrite(name, other.store.read(name))
    backup_log(log.store, repository := MemoryStore(), clock=log.clock)
    assert name not in _files(repository)


def _files(repository):
    return [file.name for file in newest(repository).files]


def test_what_is_known_of_pages_changes_nothing_but_the_requests():
    """Beside a repository whose manifests say nothing of pages: the same files, as the log grows and shrinks."""
    log, knowing, plain = created(MemoryStore()), MemoryStore(), MemoryStore()
    for one in (knowing, plain):
        backup_log(log.store, one, clock=log.clock)

    def written(name):
        done = Increment(log, knowing, name)
        backup_log(log.store, plain, name=name, clock=log.clock)
        manifest = newest(plain)
        plain.overwrite(f"{MANIFESTS}{manifest.backup.id}.json", encode(replace(manifest, inside={})))
        assert sorted(_files(knowing)) == sorted(_files(plain))
        return done.known_pages

    for number in range(8):
        assert written(f"grown{number}") == set()
    start = 18
    Admin(log).delete_records({TopicPartition("t", 0): start})
    log.clock.now += 10 * DAY_S
    Vacuum(log, min_age_s=0).run()
    for number in range(4):
        for page in written(f"shorter{number}"):
            first, end = map(int, page.rpartition("/")[2].split("-")[1:3])
            assert first < start < end, "only pages in which the partition begins"
    roll(log, pages=4)
    for number in range(3):
        written(f"rolled{number}")
    assert verify_backups(knowing, print).damaged == ()
    for one in list_backups(knowing):
        back = MemoryStore()
        restore_log(knowing, back, backup=one.name)
        assert Log.open(back).state.seq == one.last


def test_a_file_that_is_missing_in_the_repository_has_its_page_read_again():
    log, repository = created(MemoryStore()), MemoryStore()
    append(log, *range(40))
    backup_log(log.store, repository, clock=log.clock)
    lost = next(info.name for info in repository.list(OBJECTS) if ".arrow" in info.name)
    repository.delete(lost)
    assert lost.split("/", 2)[2] in Increment(log, repository).data
    assert verify_backups(repository, lambda _: None, [list_backups(repository)[-1].id]).damaged == ()


def test_pages_whose_pages_are_not_all_known_are_read():
    log = created(MemoryStore())
    append(log, *range(40))
    load = Log.open(log.store).load
    pages = log.follow().sealed_pages()
    sealed = Sealed(load, {}, {})
    rows = [row.base_offset for row in sealed.rows(pages, 0)]
    names = [*sealed.names(pages)]
    assert rows == [*range(len(rows))]
    for gone in names:
        some = {name: what for name, what in sealed.inside.items() if name != gone}
        again = Sealed(load, {}, some)
        assert [*again.names(pages)] == names
        assert [row.base_offset for row in again.rows(pages, 0)] == rows


def test_names_are_found_without_reading_manifests_and_one_that_was_given_up_is_free():
    log, repository = created(MemoryStore()), MemoryStore()
    for name in ("b-monday", "monday", None):
        backup_log(log.store, repository, name=name, clock=log.clock)
    with pytest.raises(ConfigError, match="has a backup named 'monday' already"):
        backup_log(log.store, repository, name="monday", clock=log.clock)
    target = RemoteStore(repository)
    run = Repository.open(target).begin("tuesday", log.clock)
    assert not [name for name in reads(target) if name.startswith(MANIFESTS)]
    assert unfinished_backups(repository) == ["tuesday"]
    assert vacuum_backups(repository, give_up_s=0).given_up == (run.id,)
    backup_log(log.store, repository, name="tuesday", clock=log.clock)
    delete_backups(repository, ["monday"])
    backup_log(log.store, repository, name="monday", clock=log.clock)
    assert [one.name for one in list_backups(repository)][-2:] == ["tuesday", "monday"]
    assert unfinished_backups(repository) == []


def test_a_backup_that_was_begun_is_listed_as_such(tmp_path, capsys):
    log, repository = created(MemoryStore()), str(tmp_path / "repository")
    backup_log(log.store, repository, name="monday", clock=log.clock)
    opened = Repository.open(open_store(repository))
    run = opened.begin(None, log.clock)
    opened.begin("tuesday", log.clock)
    assert main(["backups", "list", repository]) in (None, 0)
    _, monday, *others = capsys.readouterr().out.splitlines()
    assert monday.startswith("monday ")
    assert {line.partition(": was begun, and is not whole")[0] for line in others} == {run.id, "tuesday"}
