"""Maintenance dies, or meets trouble, or meets others at work, at each of its store operations."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import ObjectNotFoundError, SegmentsReplacedError, StagedFileExpiredError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.reachability import data_files, page_names
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.actions import DeleteTopic
from spark_eos.protocol.rules import sealing
from spark_eos.storage import MemoryStore
from spark_eos.testing import Trouble, crash_points
from spark_eos.testing.wrapped_store import WrappedStore
from tests.maintenance.world import Clock, append, commit, created, left_behind, roll, stage, values

STEPS = ["snapshot", "retire", "retention", "vacuum", "expire"]
"""Those that write segments again have their own."""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(sealing, "PAGE_ROWS", 2)
    monkeypatch.setattr(sealing, "FAN_OUT", 2)


def world():
    """Objects of a log with something for every step: old records, garbage, a topic that is gone, no snapshot."""
    log = created(MemoryStore())
    log.does_maintenance = False
    for topic in ("old", "gone"):
        log.ensure_topic(topic)
        append(log, *range(3), topic=topic, timestamp_ms=1)
    append(log, *range(9))
    log.maintenance.snapshot()
    roll(log, pages=2)
    left_behind(log, 100)
    log.commit(lambda state: (DeleteTopic("gone", state.topics["gone"].topic_id),))
    append(log, *range(9, 12))
    log.store.overwrite(heartbeat_name("g", "m"), b"1")
    log.store.create("_probe/1", b"x")
    return {info.name: log.store.read(info.name) for info in log.store.list("")}


@pytest.fixture
def factory():
    objects = world()

    def make():
        store = MemoryStore()
        for name, data in objects.items():
            store.create(name, data)
        return store

    return make


def opened(store, name=b"m", hours=0):
    clock = Clock(name)
    clock.now += 3600.0 * (hours + 1)
    return Log.open(store, clock, Retry(deadline_s=0))


def maintain(store, process=0):
    """A process that tries again when a step has failed."""
    log = opened(store, b"m%d" % process, process)
    log.does_maintenance = False
    maintainer = Maintainer(
        log, only=STEPS, min_age_s=0, heartbeat_name=heartbeat_name, more={"roll": None, "compact": None}
    )
    for _ in range(5):
        if all(not done.error for done in [*maintainer.run()]):
            return
    raise AssertionError("the store is well, and the pass does not come to an end")


def check_whole(store, expected):
    """All that is committed can be read, and nothing is referred to that is not there."""
    log = opened(store, b"r", 50)
    found = {topic: values(log, topic) for topic in log.state.topics}
    assert {"t": found["t"], "old": found["old"]} == expected
    there = {info.name for info in store.list("")}
    assert {*data_files(log.state, log.load)} <= there
    snapshot = newest_snapshot(store)
    assert snapshot is None or {*page_names(snapshot, log.load)} <= there
    check_sound(store)
    return there


def check_sound(store):
    """Nothing is wrong with the log, and nothing had to be repaired."""
    findings = []
    verify(store, findings.append)
    assert [one for one in findings if one.verdict is not Verdict.NOTE] == []


@pytest.mark.deep("every trouble")
@pytest.mark.parametrize(
    ("troubles", "fewest"),
    [((Trouble.CRASH_AFTER, Trouble.REPLY_LOST), 50), (tuple(Trouble), 150)],
    ids=["done without a reply", "every trouble"],
)
def test_every_crash_point(factory, troubles, fewest):
    ends = []

    def check(store):
        found = check_whole(store.inner, {"t": [*range(12)], "old": []})
        data = {name for name in found if name.startswith((paths.DATA, "_groups/", "_probe/"))}
        ends.append(data)
        assert data == ends[0], "what is left over in the end is the same"
        assert len(data) < 13
        state = newest_snapshot(store.inner)
        assert state.seq >= 20

    def recover(store):
        seen = opened(store.inner, b"r", 40)
        assert values(seen) == [*range(12)]
        assert values(seen, "old") in ([], [*range(3)])
        check_sound(store.inner)
        maintain(store, store.process)

    points = [*crash_points(maintain, recover, check, factory, troubles=troubles)]
    assert len(points) > fewest


class Interrupted(WrappedStore):
    """Lets ``work`` happen just before operation number ``at``."""

    def __init__(self, inner, at, work):
        super().__init__(inner)
        self.count = 0
        self._at = at
        self._work = work

    def _call(self, operation, name, effect):
        self.count += 1
        if self.count - 1 == self._at:
            self._work()
        return effect()


def write(log):
    log.follow()
    append(log, *range(12, 24))


def write_and_roll(log):
    write(log)
    for pages in (1, 3):
        with suppress(StagedFileExpiredError, SegmentsReplacedError, ObjectNotFoundError):
            roll(log, pages=pages)


def commit_late(log):
    """What was staged when the log was shorter: it is in, or it is refused."""
    try:
        commit(log, log.late)
    except StagedFileExpiredError:
        log.refused = True


def maintain_too(log):
    maintain(log.store, 7)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("work", "more"),
    [(write, range(12, 24)), (write_and_roll, range(12, 24)), (commit_late, [77]), (maintain_too, [])],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_others_at_work_at_every_operation(factory, work, more):
    refused = done = 0
    for at in count():
        inner = factory()
        other = opened(inner, b"w")
        other.does_maintenance = False
        other.late, other.refused = stage(other, 77), False
        left_behind(other, 101)
        store = Interrupted(inner, at, partial(work, other))
        maintain(store)
        if store.count <= at:
            break
        done += 1
        refused += other.refused
        expected = [*range(12), *([] if other.refused else more)]
        check_whole(inner, {"t": expected, "old": []})
        maintain(inner, 9)
        check_whole(inner, {"t": expected, "old": []})
    assert done > 60
    if work is commit_late:
        assert 0 < refused < done
