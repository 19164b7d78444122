"""Rolling and compaction die, or meet trouble, at each call of the store: no reader notices, and it gets done."""

from __future__ import annotations

import pytest

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError, OutcomeUnknownError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.data.parquet.plan import plan_sealed
from spark_eos.log.log import Log
from spark_eos.maintenance import compaction
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.segments.sealer import Cut, seal
from spark_eos.protocol.actions import ReplaceSegments
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage import MemoryStore
from spark_eos.testing import Trouble, check_log, crash_points
from tests.crashpoints.app import IN_DOUBT, Clock
from tests.maintenance.sparse_world import AT, COMMITTED, UNCOMMITTED, World, seen, small_pages

UNKNOWN = (CommitOutcomeUnknownError, OutcomeUnknownError)


def prepared(**config):
    """A log with an abort, and with keys that are there more than once."""
    world = World(
        MemoryStore(), maintenance=False, config={name.replace("_", "."): v for name, v in config.items()}
    )
    for number in range(8):
        world.transaction((b"k%d" % (number % 3), b"%d" % number), commit=number != 3)
    world.seal()
    return {info.name: world.store.read(info.name) for info in world.store.list("")}


def store_with(objects):
    store = MemoryStore()
    for name, body in objects.items():
        store.create(name, body)
    return store


def opened(store, patience=30):
    log = Log.open(store, Clock(store.process), Retry(deadline_s=patience))
    log.does_maintenance = False
    return log


def read(store):
    log = opened(store)
    return {isolation: dict(seen(log, isolation)) for isolation in (COMMITTED, UNCOMMITTED)}


def committed_files(store, end):
    """The new files that were ever part of the log."""
    entries = [decode_entry(store.read(paths.entry(seq)), seq, "") for seq in range(end + 1)]
    return {
        row.file.name
        for entry in entries
        for request in entry.requests
        for action in request.actions
        if isinstance(action, ReplaceSegments)
        for row in action.rows
        if row.file is not None
    }


def every_point(objects, worker, patient, troubles, check_while, check_end):
    """All points of a job that does ``worker(log).run()``; the operations that it did."""

    def run(store):
        job = worker(opened(store, 30 if patient else 0))
        for _ in range(10):
            try:
                job.run()
            except UNKNOWN:
                store.note("unknown")
            except EosLogError:
                if store.is_dead:
                    raise
            else:
                return
        raise AssertionError("the store is well, and it does not come to an end")

    def recover(store):
        check_log(store.inner)
        check_while(read(store))
        run(store)

    def check(store):
        state = check_log(store.inner)
        (partition,) = state.partitions.values()
        rows = [*partition.index.scan(0)]
        check_end(
            read(store), [row for row in rows if row.next_offset <= partition.index.pages[-1].next_offset]
        )
        left = {
            info.name for folder in (paths.DATA, paths.TABLES) for info in store.inner.list(folder)
        } - objects.keys()
        orphans = left - committed_files(store.inner, state.seq)
        assert not orphans or "unknown" in store.notes or store.process > 1, "a file that nobody needs"

    points = [*crash_points(run, recover, check, lambda: store_with(objects), troubles=troubles)]
    return {point.operation for point in points}


runs = pytest.mark.parametrize(("patient", "troubles"), [(False, tuple(Trouble)), (True, IN_DOUBT)])


class Sealing:
    """Seals for a table, up to the middle of a batch."""

    def __init__(self, log):
        self._log = log

    def run(self):
        topic = self._log.follow().topics["t"]
        partition = self._log.state.partitions[topic.topic_id, 0]
        cut = Cut("t", topic.topic_id, 0, partition.start, partition.index.pages[-1].next_offset - 1)
        state = seal(self._log, [cut])
        assert plan_sealed(state, AT, cut.start, cut.end, load=self._log.load).rest == ()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("worker", "form", "patient", "troubles"),
    [
        (Roller, "arrow", False, tuple(Trouble)),
        (Roller, "parquet", True, IN_DOUBT),
        (Sealing, "parquet", False, tuple(Trouble)),
    ],
)
def test_rolling(worker, form, patient, troubles):
    with small_pages():
        objects = prepared(segment_format=form)
        store = store_with(objects)
        store.process = 0
        expected = read(store)

        def same(found):
            assert found == expected

        def done(found, sealed):
            same(found)
            assert len(sealed) <= 4 or worker is Sealing

        assert every_point(objects, worker, patient, troubles, same, done) >= {"upload", "create"}


@pytest.mark.deep("False-troubles0")
@runs
def test_compaction(patient, troubles, monkeypatch):
    monkeypatch.setattr(compaction, "ROWS", 6)
    with small_pages():
        form = "arrow" if patient else "parquet"
        objects = prepared(cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_format=form)
        store = store_with(objects)
        store.process = 0
        before = read(store)
        Compactor(opened(store)).run()
        after = read(store)
        assert {b"5", b"6", b"7"} <= set(after[COMMITTED].values())
        assert len(after[COMMITTED]) < len(before[COMMITTED])

        def between(found):
            for isolation in found:
                assert after[isolation].items() <= found[isolation].items() <= before[isolation].items()

        def done(found, _):
            assert found == after

        assert every_point(objects, Compactor, patient, troubles, between, done) >= {"upload", "create"}
