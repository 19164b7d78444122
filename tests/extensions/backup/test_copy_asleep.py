"""The process that copies sleeps between a look and a write: the log that is there by then stays as it is."""

from __future__ import annotations

from itertools import count

import pytest

from spark_eos.errors import EosLogError, LogExistsError, NotALogError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.maintenance import copying
from spark_eos.maintenance.copying import MARK, PLAN, copy_log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.rules import sealing
from spark_eos.storage import MemoryStore
from tests.crashpoints.test_maintenance import Interrupted
from tests.maintenance.world import DAY_S, Clock, Watched, append, created, roll, values


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(sealing, "PAGE_ROWS", 4)
    monkeypatch.setattr(sealing, "FAN_OUT", 2)
    monkeypatch.setattr(copying, "probe", lambda *_: None)  # Many operations, which leave nothing.


class Asleep(Interrupted):
    """Between a look and a write: before each operation that is no read."""

    def _call(self, operation, name, effect):
        return effect() if operation == "read" else super()._call(operation, name, effect)


def another(store, now):
    """The log, as another process has it."""
    clock = Clock(b"n")
    clock.now = now
    return Log.open(store, clock, Retry(deadline_s=10))


def as_it_is(store):
    """The store of a log that no one writes to any more."""
    now = MemoryStore()
    for info in store.list(""):
        now.create(info.name, store.read(info.name))
    return now


def compacted_and_vacuumed(log):
    roll(log, pages=1)
    list(Maintainer(log, only=["snapshot", "retire"]).run())
    for _ in range(2):
        log.clock.now += 10 * DAY_S
        Vacuum(log, min_age_s=0).run()
        append(log, -1)


def is_sound(store):
    found = []
    verify(store, found.append)
    return [one for one in found if one.verdict is not Verdict.NOTE] == []


def copied(source, target):
    copy_log(source, target, lambda _: None, quick=True)


@pytest.mark.deep(
    "from before a vacuum-copy",
    "from before a vacuum-log",
    "to a snapshot that is behind-copy",
    "to a snapshot that is behind-log",
)
@pytest.mark.parametrize("where", ["log", "copy"])
@pytest.mark.parametrize(
    ("records", "sees", "writes"),
    [(3, "more", 0), (9, "more", 1), (9, "less", 7)],
    ids=["to an end that is behind", "to a snapshot that is behind", "from before a vacuum"],
)
def test_another_copy_is_finished_and_used_at_every_operation(records, sees, writes, where):
    """The other one had seen ``sees`` of the log than the one that sleeps. No create of that reaches into its log."""
    done = refused = 0
    for at in count():
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(records))
        before = as_it_is(log.store)
        if sees == "more":
            append(log, *range(records, records + 7))
        used = []

        def work(log=log, target=target, before=before, used=used):
            if sees == "less":
                append(log, *range(records, records + 7))
                compacted_and_vacuumed(log)
            try:
                copied(before if sees == "more" else log.store, target)
            except (LogExistsError, NotALogError):
                return
            user = another(target, log.clock.now)
            append(user, *range(100, 100 + writes))
            if sees == "less":
                compacted_and_vacuumed(user)
            used.append((values(user), user.clock.now))

        said = ""
        source = Interrupted(log.store, at if where == "log" else -1, work)
        place = Asleep(target, at if where == "copy" else -1, work)
        try:
            copied(source, place)
        except (LogExistsError, NotALogError) as error:
            said = str(error)
            refused += 1
        if (source if where == "log" else place).count <= at:
            break
        assert "delete" not in said, "the log there is in use"
        if used:
            ((found, now),) = used
            assert values(another(target, now)) == found
            assert is_sound(target)
            user = another(target, now + 100)
            append(user, *range(200, 212))
            assert values(user) == [*found, *range(200, 212)]
            assert not {MARK, PLAN} & {info.name for info in target.list("")}
            done += 1
        else:
            assert values(Log.open(target))[:records] == [*range(records)]
    assert done > 5
    assert refused > 5


def test_a_program_makes_a_log_in_the_place_at_every_operation_of_a_copy():
    """As a producer does that is started with the new URL too early: it is refused, or the copy is."""
    refused = made = 0
    for at in count():
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(9))
        kept = []

        def work(target=target, kept=kept):
            try:
                program = Log.open_or_create(target, Clock(b"p"), Retry(deadline_s=10))
            except NotALogError as error:
                assert "unfinished copy" in str(error)  # noqa: PT017
                return
            if "t" not in program.state.topics:
                program.ensure_topic("t")
            append(program, 77)
            kept.append(program.log_id)

        place = Asleep(target, at, work)
        try:
            copied(log.store, place)
        except (LogExistsError, NotALogError):
            assert kept, "the copy is refused only if there is another log"
            made += 1
            now = Log.open(target)
            assert (now.log_id, values(now)) == (kept[0], [77])
            with pytest.raises(LogExistsError):
                copied(log.store, target)
        else:
            assert values(Log.open(target)) == [*range(9), *([77] if kept else [])]
            refused += not kept
        if place.count <= at:
            break
    assert made > 1
    assert refused > 5


def test_a_copy_is_finished_at_every_operation_of_a_program_that_makes_a_log_there():
    """It had looked, and found an empty place. It never acknowledges a record that is not in the log afterwards."""
    done = 0
    for at in count():
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(9))
        copies = []

        def work(log=log, target=target, copies=copies):
            try:
                copied(log.store, target)
            except (LogExistsError, NotALogError):
                return
            copies.append(1)

        place = Asleep(target, at, work)
        acknowledged = []
        try:
            program = Log.open_or_create(place, Clock(b"p"), Retry(deadline_s=10))
            program.ensure_topic("t")
            append(program, 77)
            acknowledged.append(77)
        except EosLogError:
            pass
        if place.count <= at:
            break
        now = Log.open(target)
        if copies:
            done += 1
            assert now.log_id == log.log_id
            assert values(now) == [*range(9), *acknowledged]
        else:
            assert values(now) == acknowledged
        assert is_sound(target)
    assert done > 5


class KilledError(BaseException):
    """As a kill."""


def killed_at(log, target, at):
    """A copy that dies before it creates a name that begins with ``at``."""

    def kill(operation, name):
        if operation in {"create", "upload"} and name.startswith(at):
            raise KilledError

    with pytest.raises(KilledError):
        copied(log.store, Watched(target, kill))


def test_two_that_have_seen_different_ends_make_the_copy_by_the_first_plan(monkeypatch):
    """The second one has looked for a plan before the first one's came."""
    log, target = created(MemoryStore()), MemoryStore()
    append(log, *range(9))
    killed_at(log, target, paths.LOG + "0")
    append(log, *range(9, 16))
    looks, planned = [], copying._planned

    def first_look(place):
        looks.append(1)
        return planned(place) if looks[1:] else None

    monkeypatch.setattr(copying, "_planned", first_look)
    copied(log.store, target)
    assert values(Log.open(target)) == [*range(9)]
    assert is_sound(target)


@pytest.mark.parametrize("at", ["data/", paths.LOG + "0"], ids=["content", "plan"])
def test_what_has_come_into_an_unfinished_copy_is_not_taken_for_a_part_of_it(at):
    other = created(MemoryStore(), b"o")
    append(other, *range(20))
    for name in (paths.entry(0), paths.entry(18)):
        log, target = created(MemoryStore()), MemoryStore()
        append(log, *range(9))
        killed_at(log, target, at)
        target.create(name, other.store.read(name))
        for _ in range(2):
            with pytest.raises(LogExistsError, match=r"another process has made a log|holds another log"):
                copied(log.store, target)
        assert [info.name for info in target.list(paths.LOG) if "index" not in info.name] == [name]
