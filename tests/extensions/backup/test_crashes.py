"""Backups, restores and deletions die, or meet trouble, or meet one another, at each of their store operations."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count

import pytest

from spark_eos.errors import ConfigError, EosLogError, LogExistsError, NotALogError
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.deleting import GIVE_UP_S, delete_backups, vacuum_backups
from spark_eos.extensions.backup.listing import list_backups
from spark_eos.extensions.backup.repository import MANIFESTS, OBJECTS, RUNNING, Repository
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.extensions.backup.verifying import verify_backups
from spark_eos.log.clock import SYSTEM
from spark_eos.log.log import Log
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.rules import sealing
from spark_eos.storage import MemoryStore
from spark_eos.testing import crash_points
from tests.crashpoints.test_maintenance import Interrupted
from tests.maintenance.world import append, created, listed, roll, values
from verification.retiring import RETIRED_AT_ONCE

NAMES = ("one", "two")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(sealing, "PAGE_ROWS", 2)
    monkeypatch.setattr(sealing, "FAN_OUT", 2)


@pytest.fixture
def log():
    made = created(MemoryStore())
    append(made, *range(7))
    return made


@pytest.fixture
def factory(log):
    """Makes repositories with a backup; the log has gone on since."""
    repository = MemoryStore()
    backup_log(log.store, repository, name="one", clock=log.clock)
    roll(log, pages=1)
    append(log, 7, 8)
    objects = {info.name: repository.read(info.name) for info in repository.list("")}

    def make():
        store = MemoryStore()
        for name, data in objects.items():
            store.create(name, data)
        return store

    return make


EXPECTED = {"one": [*range(7)], "two": [*range(9)], "three": [*range(9)]}


def check_whole(repository):
    """Each backup that is listed is whole, and the log that it makes has its rows."""
    found = []
    names = [one.name for one in list_backups(repository)]
    verified = verify_backups(repository, found.append)
    assert (sorted(verified.whole), verified.damaged, found) == (sorted(names), (), [])
    for one in list_backups(repository):
        target = MemoryStore()
        restore_log(repository, target, backup=one.id)
        assert values(Log.open(target)) == EXPECTED[one.name]
    return names


def check_clean(repository):
    """Nothing is left over after a vacuum that knows that all is dead."""
    vacuum_backups(repository, give_up_s=0)
    assert [info.name for info in repository.list(RUNNING)] == []
    before = [info.name for info in repository.list(OBJECTS)]
    assert vacuum_backups(repository, give_up_s=0).files == 0
    assert [info.name for info in repository.list(OBJECTS)] == before
    return before


@pytest.mark.deep
def test_a_backup_at_every_crash_point(factory, log):
    ends = []

    def job(store):
        with suppress(ConfigError):  # It is there: the try before was not told so.
            backup_log(log.store, store, name="two")

    def check(store):
        assert check_whole(store.inner) == ["one", "two"]
        ends.append(len(check_clean(store.inner)))
        assert ends[-1] == ends[0]

    def recover(store):
        assert check_whole(store.inner) in (["one"], ["one", "two"])
        job(store)

    assert len([*crash_points(job, recover, check, factory)]) > 40


@pytest.mark.deep
def test_a_first_backup_at_every_crash_point(log):
    def job(store):
        with suppress(ConfigError):
            backup_log(log.store, store, name="one")

    def recover(store):
        with suppress(NotALogError):
            assert check_whole(store.inner) in ([], ["one"])
        job(store)

    def check(store):
        assert check_whole(store.inner) == ["one"]
        check_clean(store.inner)

    assert len([*crash_points(job, recover, check)]) > 40


@pytest.mark.deep
def test_a_restore_at_every_crash_point(factory):
    repository = factory()
    last = list_backups(repository)[0].last

    def job(store):
        restore_log(repository, store, to_entry=last - 1)

    def recover(store):
        with suppress(NotALogError):
            assert values(Log.open(store.inner)) == [*range(6)], "what can be opened is whole"
        try:
            job(store)
        except EosLogError:
            assert values(Log.open(store.inner)) == [*range(6)], "it was done"

    def check(store):
        assert values(Log.open(store.inner)) == [*range(6)]
        findings = []
        verify(store.inner, findings.append)
        assert [one for one in findings if one.verdict is not Verdict.NOTE] == []

    assert len([*crash_points(job, recover, check)]) > 40


def test_a_deletion_at_every_crash_point(factory, log):
    def make():
        store = factory()
        backup_log(log.store, store, name="two", clock=log.clock)
        return store

    def job(store):
        with suppress(ConfigError):
            delete_backups(store, ["one"])
        vacuum_backups(store)

    def recover(store):
        assert check_whole(store.inner) in (["two"], ["one", "two"])
        job(store)

    def check(store):
        assert check_whole(store.inner) == ["two"]
        used = len([*store.inner.list(OBJECTS)])
        assert len(check_clean(store.inner)) == used, "nothing was left"

    assert len([*crash_points(job, recover, check, make)]) > 20


@pytest.mark.deep("delete and back up")
@pytest.mark.parametrize("what", ["delete", "delete and back up", "vacuum"])
def test_others_at_work_at_every_operation_of_a_backup(factory, log, what):
    """A deletion beside it takes nothing from it, and what it gives up is no backup."""
    done = 0
    for at in count():
        inner = factory()

        def work(inner=inner):
            with suppress(ConfigError):
                if what == "vacuum":
                    vacuum_backups(inner, give_up_s=0)
                else:
                    delete_backups(inner, ["one"])
                if what == "delete and back up":
                    backup_log(log.store, inner, name="three")

        store = Interrupted(inner, at, work)
        with suppress(ConfigError):
            backup_log(log.store, store, name="two")
        if store.count <= at:
            break
        done += 1
        names = check_whole(inner)
        if what != "vacuum":
            assert "two" in names
        check_clean(inner)
        assert check_whole(inner) == names
    assert done > 10


@pytest.mark.deep("back up")
@pytest.mark.parametrize("what", ["back up", "delete"])
def test_others_at_work_at_every_operation_of_a_deletion(factory, log, what):
    done = 0
    for at in count():
        inner = factory()
        backup_log(log.store, inner, name="two", clock=log.clock)

        def work(inner=inner):
            if what == "back up":
                backup_log(log.store, inner, name="three")
            else:
                with suppress(ConfigError):
                    delete_backups(inner, ["two"])

        store = Interrupted(inner, at, work)
        delete_backups(store, ["one"])
        if store.count <= at:
            break
        done += 1
        names = check_whole(inner)
        assert names in ((["two", "three"], ["three", "two"]) if what == "back up" else ([],))
        check_clean(inner)
        assert check_whole(inner) == names
    assert done > 5


@pytest.mark.parametrize("begun", [True, False], ids=["ends", "begins and ends"])
def test_a_backup_ends_at_every_operation_of_a_vacuum(factory, log, begun):
    """Its objects are listed before its manifest is there, or neither is."""
    for at in count():
        inner = factory()
        before = {info.name for info in inner.list("")}
        backup_log(log.store, inner, name="two", clock=log.clock)
        late = {info.name: inner.read(info.name) for info in inner.list("") if info.name not in before}
        late = {name: data for name, data in late.items() if not begun or name.startswith(MANIFESTS)}
        for name in late:
            inner.delete(name)
        running = f"{RUNNING}{next(name for name in late if name.startswith(MANIFESTS))[len(MANIFESTS) : -5]}"
        if begun:
            inner.create(running, b"{}")

        def end(inner=inner, late=late, running=running):
            for name, data in late.items():
                inner.create(name, data)
            inner.delete(running)

        store = Interrupted(inner, at, end)
        vacuum_backups(store)
        if store.count <= at:
            break
        assert check_whole(inner) == ["one", "two"]
    assert at > 5


class _Paused(Interrupted):
    """A process that sleeps before it makes its manifest, while ``work`` happens."""

    def _call(self, operation, name, effect):
        if operation == "create" and name.startswith(MANIFESTS):
            self._work()
        return super()._call(operation, name, effect)


def test_a_backup_that_was_given_up_while_it_slept_is_none(factory, log):
    inner = factory()

    def work():
        assert vacuum_backups(inner).running == 1
        assert vacuum_backups(inner, give_up_s=0).files > 0

    with pytest.raises(ConfigError, match="was given up by eoslog backups vacuum"):
        backup_log(log.store, _Paused(inner, -1, work), name="two")
    assert check_whole(inner) == ["one"]
    backup_log(log.store, inner, name="two")
    assert check_whole(inner) == ["one", "two"]


class _Beating(Interrupted):
    """A process that sleeps before it shows that it goes on."""

    def _call(self, operation, name, effect):
        if operation == "overwrite" and name.startswith(RUNNING):
            self._work()
        return super()._call(operation, name, effect)


class _Aged(MemoryStore):
    """Each object was written ``age`` seconds ago."""

    age = 0.0

    def age_s(self, name):
        self.size(name)
        return self.age


def test_a_backup_is_given_up_after_an_hour_without_a_sign(log):
    repository = _Aged()
    backup_log(log.store, repository, name="one")
    Repository.open(repository).begin("slow", SYSTEM)
    repository.age = GIVE_UP_S - 1
    freed = vacuum_backups(repository)
    assert (freed.given_up, freed.running) == ((), 1)
    repository.age = GIVE_UP_S
    freed = vacuum_backups(repository)
    assert (len(freed.given_up), freed.running) == (1, 0)


def test_a_backup_that_was_given_up_is_not_called_damaged(log, caplog):
    repository = MemoryStore()
    backup_log(log.store, repository, name="one")
    Repository.open(repository).begin("died", SYSTEM)
    assert len(vacuum_backups(repository, give_up_s=0).given_up) == 1
    assert backup_log(log.store, repository, name="two").new_files == 0
    assert caplog.messages == []


def test_a_sign_of_life_after_it_was_given_up_is_in_the_way_of_no_vacuum(factory, log, monkeypatch):
    monkeypatch.setattr("spark_eos.extensions.backup.repository._BEAT_S", -1)
    inner = factory()
    with pytest.raises(ConfigError, match="was given up"):
        backup_log(log.store, _Beating(inner, -1, lambda: vacuum_backups(inner, give_up_s=0)), name="two")
    assert [info.name for info in inner.list(RUNNING)] == []


# -- Real processes ---------------------------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "spark_eos", *map(str, arguments)]


def killed(arguments, most_s):
    """Whether the command was killed; else it has ended well."""
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    time.sleep(random.uniform(0.25, most_s))
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode in {0, -signal.SIGKILL}, said
    return process.returncode != 0


@pytest.mark.deep
def test_the_commands_are_killed(tmp_path):
    """Backups beside a writer, restores, deletions: whatever is left, the next one goes on, and nothing is wrong."""
    url, repository = str(tmp_path / "log"), str(tmp_path / "backups")
    log = Log.create(url, snapshot_interval=20, config=RETIRED_AT_ONCE)
    log.ensure_topic("t")
    number = kills = 0
    for turn in range(4):
        append(log, *range(number, number + 30))
        number += 30
        kills += killed(("backup", url, repository, "--name", f"b{turn}"), 0.9)
        names = []
        with suppress(NotALogError):
            names = [one.name for one in list_backups(repository)]
        if f"b{turn}" not in names:
            subprocess.run(
                command("backup", url, repository, "--name", f"b{turn}"),
                check=True,
                stdout=subprocess.DEVNULL,
            )
        target = tmp_path / f"restored-{turn}"
        kills += killed(("restore", repository, target, "--backup", f"b{turn}"), 0.9)
        with suppress(LogExistsError):  # The kill came too late.
            restore_log(repository, str(target), backup=f"b{turn}")
        assert values(Log.open(target)) == [*range(number)]
        findings = []
        verify(target, findings.append)
        assert [one for one in findings if one.verdict is not Verdict.NOTE] == []
        if turn:
            kills += killed(("backups", "delete", repository, f"b{turn - 1}", "--give-up", "0"), 0.7)
    assert verify_backups(repository, print).damaged == ()
    freed = vacuum_backups(repository, give_up_s=0)
    assert freed.running == 0
    assert verify_backups(repository, print).damaged == ()
    assert kills > 0
    assert listed(log, "data/")
