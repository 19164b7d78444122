"""The publisher dies, or meets trouble, at each call of the store and at each commit to a table.

The next publisher goes on. Each version of each table has the rows that a read of the log gives as of its entry.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos import Admin, read_arrow
from spark_eos.errors import EosLogError
from spark_eos.extensions.tables.publisher import Publisher
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.data.parquet.reader import forget_footers
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.protocol.actions import AppendBatches, CreatePublication, EndTransaction, InitProducer
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp
from spark_eos.storage import MemoryStore
from spark_eos.testing import Trouble, check_log, crash_points
from tests.crashpoints.app import IN_DOUBT, Clock, no_threads
from tests.maintenance.sparse_world import small_pages
from verification.no_threads import NO_THREADS
from verification.publishing.memory_table import MemoryTable

TOPICS = ("t", "u")
PLACES = ["partition", "offset", "key", "value"]


def opened(store, process, patience=30):
    log = Log.open(store, Clock(process), Retry(deadline_s=patience), environment=NO_THREADS)
    log.does_maintenance = False
    return log


def append(log, name, *values, stamp=NO_PRODUCER):
    topic = log.topic(name)
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": pa.array(values, pa.binary())}), 0)
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(stamp, ((name, topic.topic_id),), files),))


def prepared(form):
    """Two topics, an aborted transaction in one of them, and a publication of both."""
    store = MemoryStore()
    log = Log.create(store, Clock(90), Retry(deadline_s=0), environment=NO_THREADS)
    log.does_maintenance = False
    for name in TOPICS:
        log.ensure_topic(name, 1, {"segment.format": form, "file.delete.delay.ms": "0"})
        append(log, name, b"a", b"b", b"c")
    log.commit(lambda state: (InitProducer(state.next_producer_id, 0, "app", 60_000),))
    stamp = ProducerStamp(log.state.transactional_ids["app"], 0, 0)
    append(log, "t", b"never", stamp=stamp)
    log.commit(lambda _: (EndTransaction(stamp, commit=False),))
    append(log, "t", b"d", b"e")
    pairs = tuple((name, log.topic(name).topic_id) for name in TOPICS)
    log.commit(lambda _: (CreatePublication("p", "delta", (("retention.ms", "0"),), pairs),))
    return {info.name: store.read(info.name) for info in store.list("")}


class TablesStore(MemoryStore):
    """The store of a log, and the tables that are elsewhere: these outlive a process, too."""

    def __init__(self, objects):
        super().__init__()
        for name, body in objects.items():
            self.create(name, body)
        self.tables = {name: MemoryTable(place=name) for name in TOPICS}
        self.made = []
        self.read_then = {}


class Remote(MemoryTable):
    """A table as one process sees it: its commits and its end are calls that meet trouble as those of the store do.

    A version is compared with the log at the moment of its commit: no later deletion can hide a fault.
    """

    def __init__(self, store, name):
        super().__init__(place=name)
        self.store = store
        self.table = store.inner.tables[name]

    def current(self):
        return self.table.current()

    def files(self):
        return self.table.files()

    def schema(self):
        return self.table.schema()

    def versions(self):
        return self.table.versions()

    def commit(self, expected, change, stamp, footers):
        read = {one.path: footers(one) for one in change.added}

        def effect():
            version = self.table.commit(expected, change, stamp, lambda one: read[one.path])
            same_rows(self.store.inner, self.place, stamp)
            self.store.inner.made.append((self.place, stamp.sequence, stamp.entry))
            return version

        return self.store._call("commit", self.place, effect)

    def drop(self):
        self.store._call("drop", self.place, self.table.drop)


def same_rows(store, name, stamp):
    """Compare the newest version of a table with the log; what the log said of an entry first stays what it says."""
    log = opened(store, 70)
    if (name, stamp.entry) not in store.read_then:
        rows = read_arrow(log, name, as_of=stamp.entry, columns=PLACES).read_all().to_pylist()
        store.read_then[name, stamp.entry] = rows
    folder = paths.table_folder(name, stamp.topic_id)
    found = []
    for path in store.tables[name].files():
        found += pq.ParquetFile(pa.BufferReader(store.read(folder + path))).read(PLACES).to_pylist()
    assert sorted(found, key=lambda row: row["offset"]) == store.read_then[name, stamp.entry]


def change(store):
    """Other processes, once: more rows, and a log start inside a file."""
    if "changed" not in store.notes:
        store.note("changed")
        log = opened(store.inner, 80)
        append(log, "t", b"f", b"g")
        append(log, "u", b"h")
        Admin(log).delete_records({("t", 0): 1})


def maintain(log, *steps):
    for done in Maintainer(log, only=steps, min_age_s=0).run():
        if done.error is not None:
            raise done.error


def until_done(store, work):
    for _ in range(10):
        try:
            return work()
        except EosLogError:
            if store.is_dead:
                raise
    raise AssertionError("the store is well, and publishing does not come to an end")


def job(store, *, patient, maintenance):
    forget_footers()  # A new process knows none.
    log = until_done(store, lambda: opened(store, store.process, 30 if patient else 0))
    publisher = Publisher(log, "p", {name: Remote(store, name) for name in TOPICS})
    until_done(store, publisher.publish)
    change(store)
    if maintenance:
        until_done(store, lambda: maintain(log, "roll", "vacuum"))
    until_done(store, publisher.publish)
    store.note("published")


def check_between(store):
    """After a crash: a table has a version only after the log has begun it, and all have it when the log ends it."""
    publication = check_log(store).publications["p"]
    for name, table in store.tables.items():
        now = table.current()
        found = 0 if now is None else now.stamp.sequence
        done = publication.published.sequence if publication.published is not None else 0
        begun = done if publication.begun is None else publication.begun.sequence
        assert done <= found, f"ended, and not in table {name!r}: version {done}"
        assert found <= begun, f"not begun, and in table {name!r}: version {found}"


def check(store):
    inner = store.inner
    state = check_log(inner)
    publication = state.publications["p"]
    assert publication.begun is None
    assert {*publication.published.pins.keys()} == {(state.topics[name].topic_id, 0) for name in TOPICS}
    assert len({one[:2] for one in inner.made}) == len(inner.made), "a sequence twice"
    assert {entry for name, _, entry in inner.made if name == "t"} == {
        entry for name, _, entry in inner.made if name == "u"
    }
    log = opened(inner, 60)
    maintain(log, "vacuum")
    maintain(log, "vacuum")
    for name, table in inner.tables.items():
        version = table.current()
        assert version.stamp.sequence == publication.sequence
        assert version.native == publication.published.natives[name]
        same_rows(inner, name, version.stamp)
    assert [end for _, end in inner.tables["t"].current().stamp.offsets.values()] == [
        state.partitions[state.topics["t"].topic_id, 0].end
    ]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("form", "maintenance", "patient", "troubles"),
    [
        ("parquet", False, False, tuple(Trouble)),
        ("arrow", True, True, IN_DOUBT),
    ],
)
def test_every_crash_point(form, maintenance, patient, troubles):
    def run(store):
        job(store, patient=patient, maintenance=maintenance)

    def recover(store):
        check_between(store.inner)
        run(store)

    with no_threads(), small_pages():
        objects = prepared(form)
        points = [*crash_points(run, recover, check, lambda: TablesStore(objects), troubles=troubles)]
    assert {point.operation for point in points} >= {"create", "upload", "commit"}
    assert {point.name for point in points if point.operation == "commit"} == {*TOPICS}
