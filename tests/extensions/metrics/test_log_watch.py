"""A log that is watched: what a scrape costs, what it shows when the log changes, and when it cannot be reached."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.errors import CorruptRecordError, ProducerFencedError, StoreUnavailableError
from spark_eos.extensions.metrics.debt import Snapshots
from spark_eos.extensions.metrics.periodic import Periodic
from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.rolling import TAIL_ROWS, Roller
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.monitoring import members, register
from spark_eos.monitoring.sizes import Sizes
from spark_eos.monitoring.status import Space, status_of
from spark_eos.protocol.actions import CreateTopic, Entry, JoinGroup, Request
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.storage import MemoryStore, Settings, open_store
from spark_eos.testing import FaultyStore
from tests.extensions.metrics.metrics_world import SECRET, Time, has, scraped, value, watched
from verification.retiring import RETIRED_AT_ONCE


class Watched:
    """A log, what watches it, and a clock that says when it may look again."""

    def __init__(self, store=None, snapshot_interval=200, **options):
        self.store = store
        if store is None:
            self.store = FaultyStore(MemoryStore())
            self.store.requests_are_free = False  # As a bucket: each look is a request.
        self.log = Log.create(self.store, snapshot_interval=snapshot_interval, config=RETIRED_AT_ONCE)
        self.now = Time()
        self.watch = LogWatch(self.store, now=self.now, **options)

    def look(self, later_s=2.0):
        self.now.now_s += later_s
        return watched(self.watch)


def send(log, topic, count=1, **settings):
    with Producer(log, settings) as producer:
        for _ in range(count):
            producer.send(topic, b"x").result()


# -- What it costs --------------------------------------------------------------------------------------


def test_twenty_scrapes_at_once_poll_the_log_once():
    world = Watched(garbage_s=None)
    send(world.log, "t")
    registry = CollectorRegistry()
    register(world.watch, registry=registry)
    world.look()
    world.look(61)  # The debt is looked at again, too.
    before = Counter(call.operation for call in world.store.journal)
    together = threading.Barrier(20)

    def scrape(_):
        together.wait()
        return scraped(registry)[0]

    with ThreadPoolExecutor(20) as pool:
        for seconds in range(3):
            world.now.now_s += 1.0
            found = [*pool.map(scrape, range(20))]
            assert all(value(samples, "eoslog_up") == 1 for samples in found), seconds
    after = Counter(call.operation for call in world.store.journal)
    assert after - before == {"read": 3}


def test_a_second_scrape_in_the_same_second_polls_nothing():
    world = Watched(garbage_s=None)
    world.look()
    before = len(world.store.journal)
    world.look(0.9)
    assert len(world.store.journal) == before


def test_looking_never_writes(tmp_path):
    url = str(tmp_path / "log")
    world = Watched(url)
    with closing(Producer(url, {"transactional.id": "x"})) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
        for _ in range(9):
            send(world.log, "t")

        def files():
            return {
                str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in Path(url).rglob("*")
            }

        before = files()
        assert ("maintenance.garbage.objects",) in world.look()
        world.look(4000)
        assert files() == before
        producer.abort_transaction()


# -- What it shows --------------------------------------------------------------------------------------


def test_an_empty_log():
    found = Watched().look()
    assert found["up",] == 1
    assert found["log.entries",] == 1
    assert found["topics",] == 0
    assert found["maintenance.unsealed_entries",] == 0
    assert found["maintenance.garbage.size",] == 0


def test_the_series_of_a_deleted_topic_vanish():
    world = Watched(by_partition=True)
    for topic in ("stays", "goes"):
        world.log.ensure_topic(topic)
    world.look()
    for topic in ("stays", "goes"):
        send(world.log, topic)
    Admin(world.log).alter_group_offsets("g", {TopicPartition("goes", 0): 0})
    found = world.look()
    assert found["topic.messages", "goes"] == 1
    assert found["consumer_group.lag", "g", "goes"] == 1
    Admin(world.log).delete_topic("goes")
    found = world.look()
    assert [*world.watch._counts.topics] == [world.log.topic("stays").topic_id]
    assert not any("goes" in key for key in found)
    assert found["topic.messages", "stays"] == 1
    send(world.log, "goes", 2)  # Another topic of that name counts from zero.
    assert world.look()["topic.messages", "goes"] == 2


def test_a_thousand_topics():
    world = Watched(garbage_s=None)
    names = [f"t-{number}" for number in range(1000)]
    world.log.commit(lambda _: tuple(CreateTopic(name, f"id-{name}", 2) for name in names))
    send(world.log, "t-7")
    found = world.look()
    assert [found["topic.partitions", name] for name in names] == [2] * 1000
    assert found["topic.offsets", "t-7"] == 1
    assert found["topics",] == 1000


def test_counters_go_on_when_the_log_is_opened_again_and_count_nothing_twice():
    world = Watched(garbage_s=None)
    world.log.ensure_topic("t")
    world.look()
    send(world.log, "t", 3)
    assert world.look()["topic.messages", "t"] == 3
    for error, total in ((RuntimeError("a broken cable"), 5), (CorruptRecordError("damaged"), 7)):
        world.store.inject(error, "read", "_log/0*", times=None)
        assert world.look()["up",] == 0
        send(Log.open(world.store.inner), "t", 2)
        world.store.heal()
        found = world.look()  # After the second error the log is read from its first entry on.
        assert (found["up",], found["topic.messages", "t"]) == (1, total)
        assert found["look.errors", getattr(error, "code", "RuntimeError")] == 1


def test_a_process_that_starts_again_has_the_entries_and_new_counts():
    world = Watched(garbage_s=None)
    send(world.log, "t", 3)
    found = watched(LogWatch(world.store))
    assert (found["topic.messages", "t"], found["topic.offsets", "t"]) == (0, 3)
    assert found["log.entries",] == world.log.state.seq + 1


def test_rejected_requests_and_ends_of_transactions_are_counted():
    world = Watched(garbage_s=None)
    world.log.ensure_topic("t")
    world.look()
    producer = Producer(world.log, {"transactional.id": "x"})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
        end()
    producer.begin_transaction()
    producer.send("t", b"x")
    producer.flush()
    with closing(Producer(world.log, {"transactional.id": "x"})) as other:
        other.init_transactions()  # It aborts what the first one has open.
    found = world.look()
    assert (found["log.transactions", "commit"], found["log.transactions", "abort"]) == (1, 2)
    assert found["log.requests", "rejected"] == 0
    assert found["log.requests", "accepted"] == world.log.state.seq - 1
    with suppress(ProducerFencedError):
        producer.close()


def test_what_is_refused_or_was_written_before_counts_as_that():
    world = Watched(garbage_s=None)
    world.look()
    send(world.log, "t")
    state = world.log.state
    name = paths.entry(state.seq, state.entries_per_folder)
    (again,) = decode_entry(world.store.read(name), state.seq, name).requests[0].actions
    world.log.commit(lambda _: (again,))  # Of a writer that did not learn of the first time.
    state = world.log.state
    late = Request(b"r" * 16, state.timestamp_ms, (CreateTopic("t", "another id", 1),), "late")
    name = paths.entry(state.seq + 1, state.entries_per_folder)
    world.store.create(name, encode_entry(Entry(state.seq + 1, (late,), state.lineage)))
    found = world.look()
    assert (found["topic.messages", "t"], found["topic.offsets", "t"]) == (1, 1)
    assert found["log.requests", "rejected"] == 1
    assert found["log.requests", "accepted"] == state.seq


def test_fencings_are_counted_and_two_programs_of_one_id_are_a_trouble():
    world = Watched()
    assert world.look()["log.fencings",] == 0

    def begin():
        producer = Producer(world.log, {"transactional.id": "payer"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x")
        producer.flush()

    begin()
    for times in range(1, 4):
        begin()
        assert world.look()["log.fencings",] == times
    assert world.look()["trouble", "fenced", "warning", "payer"] == 1
    Producer(world.log, {"transactional.id": "payer"}).init_transactions()
    with Producer(world.log, {"transactional.id": "payer"}) as producer:  # A restart: it had nothing open.
        producer.init_transactions()
    assert world.look()["log.fencings",] == 4
    again = LogWatch(world.store)
    assert watched(again)["log.fencings",] == 0  # It counts from its start on.


def test_requests_that_share_an_entry():
    world = Watched(garbage_s=None)
    world.look()
    with ThreadPoolExecutor(8) as pool:
        start = threading.Barrier(8)

        def create(number):
            start.wait()
            world.log.ensure_topic(f"t-{number}")

        for _ in pool.map(create, range(8)):
            pass
    found = world.look()
    entries = world.log.state.seq
    assert found["log.requests", "accepted"] == 8
    assert (found["log.grouped_requests",] > 0) == (entries < 8)
    assert found["log.grouped_requests",] <= 8


def test_an_open_transaction():
    world = Watched(garbage_s=None)
    world.log.ensure_topic("t")
    producer = Producer(world.log, {"transactional.id": "x", "transaction.timeout.ms": 50_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x")
    producer.flush()
    send(world.log, "t", 2)
    world.watch._clock = clock = Ahead(60_000)
    found = world.look()
    assert (found["transactions.open",], found["transactions.late",]) == (1, 1)
    assert found["topic.lso_lag", "t"] == 3
    assert 60 <= found["topic.open_transaction.age", "t"] < 3600
    assert found["transactions.oldest.age",] == found["topic.open_transaction.age", "t"]
    assert clock.now_ms() > 0
    producer.abort_transaction()
    found = world.look()
    assert (found["transactions.open",], found["topic.lso_lag", "t"]) == (0, 0)
    assert found["topic.open_transaction.age", "t"] == 0
    producer.close()


def test_a_prepared_transaction():
    world = Watched(garbage_s=None)
    world.log.ensure_topic("t")
    settings = {"transactional.id": "x", "transaction.two.phase.commit.enable": True}
    with Producer(world.log, settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
        values = world.look()
        assert (values["transactions.open",], values["transactions.prepared",]) == (1, 0)
        producer.prepare_transaction()
        world.watch._clock = Ahead(60_000)
        values = world.look()
        assert (values["transactions.open",], values["transactions.prepared",]) == (1, 1)
        assert 60 <= values["transactions.prepared.age",] < 3600
        producer.commit_transaction()
    values = world.look()
    assert (values["transactions.prepared",], values["transactions.prepared.age",]) == (0, 0)


def test_members_that_were_not_asked_are_not_called_alive(monkeypatch):
    monkeypatch.setattr(members, "MOST", 3)
    world = Watched(garbage_s=None)
    now_ms = world.log.clock.now_ms()
    for group, count in (("a", 2), ("b", 2), ("c", 1)):
        for number in range(count):
            join = JoinGroup(group, f"m{number}", ("t",), ("range",), 45_000)
            world.log.commit(lambda _, join=join: (join,))
            world.store.overwrite(heartbeat_name(group, f"m{number}"), b"1 %d" % now_ms)
    silent = {key: count for key, count in world.look().items() if "silent_members" in key[0]}
    assert silent == {("consumer_group.silent_members", "a"): 0}
    world.store.overwrite(heartbeat_name("b", "m0"), b"1 %d" % (now_ms - 90_000))
    assert world.look()["consumer_group.silent_members", "b"] == 1, "one at least"


class Ahead:
    """This machine's clock, and how far it is ahead."""

    def __init__(self, ahead_ms):
        self._clock, self._ahead_ms = SYSTEM, ahead_ms

    def __getattr__(self, name):
        return getattr(self._clock, name)

    def now_ms(self):
        return self._clock.now_ms() + self._ahead_ms


def test_a_clock_that_is_behind_the_log():
    world = Watched(garbage_s=None)
    world.watch._clock = Ahead(-3_600_000)
    found = world.look()
    assert found["log.clock.ahead",] == pytest.approx(3600, abs=60)
    assert found["log.last_entry.age",] == 0


ODD = ['a "quoted" name', "back\\slash", "line\nbreak", "größe ✓", "{a=b}", "x" * 300]


def test_odd_names_are_labels():
    world = Watched(garbage_s=None)
    world.log.ensure_topic("t")
    for name in ODD:
        Admin(world.log).alter_group_offsets(name, {TopicPartition("t", 0): 0})
    registry = CollectorRegistry()
    register(world.watch, registry=registry)
    world.watch.points(wait=True)
    samples, _, _ = scraped(registry)
    for name in ODD:
        assert value(samples, "eoslog_consumer_group_lag", group=name) == 0


def test_a_path_that_is_no_text(tmp_path):
    url = os.fsdecode(os.fsencode(tmp_path) + b"/\xff-log")
    try:
        Log.create(url)
    except OSError:
        pytest.skip("this file system takes no such names")
    registry = CollectorRegistry()
    watch = LogWatch(url)
    register(watch, registry=registry)
    watch.points(wait=True)
    assert value(scraped(registry)[0], "eoslog_up") == 1


# -- Maintenance ----------------------------------------------------------------------------------------


def snapshot_age(log, now_ms):
    points = Snapshots().look(log, now_ms, "")
    return next(one.value for one in points if one.metric.name.endswith("snapshot.age"))


def test_debt_and_what_maintenance_makes_of_it():
    world = Watched(snapshot_interval=4)
    log = world.log.without_maintenance()
    send(log, "t", 90)
    found = world.look()
    assert found["maintenance.unsealed_entries",] == log.state.seq
    assert found["maintenance.unsealed_batches", "t"] == found["topic.batches", "t"] == 90
    assert found["maintenance.small_batches", "t"] == 89
    maintainer = Maintainer(world.log, min_age_s=0.0, only=["roll", "snapshot", "retire"])
    assert [done.error for done in maintainer.run()] == [None] * 3
    found = world.look(4000)
    assert found["topic.batches", "t"] == 1
    assert found["maintenance.small_batches", "t"] == 0
    assert found["maintenance.unsealed_entries",] < 4
    now_ms = SYSTEM.now_ms()
    young, old = (snapshot_age(log, at_ms) for at_ms in (now_ms, now_ms + 3_600_000))
    assert (0 <= young < 60, old) == (True, young + 3600)
    (name,) = (info.name for info in log.store.list(paths.SNAPSHOTS))
    seq = paths.snapshot_seq(name)
    name = paths.entry(seq, log.state.entries_per_folder)
    entry = decode_entry(log.store.read(name), seq, name)
    first = entry.requests[-1]._replace(request_id=bytes(16), timestamp_ms=now_ms - 7_200_000)
    log.store.overwrite(name, encode_entry(entry._replace(requests=(first, *entry.requests))))
    assert snapshot_age(log, now_ms) == young, "as of the newest request of its entry"
    # By the times of the entries there is no garbage yet: writers have a day.
    assert found["maintenance.garbage.objects",] == 0


def test_of_several_snapshots_the_newest_counts():
    world = Watched(snapshot_interval=4)
    for _ in range(2):
        send(world.log.without_maintenance(), "t", 8)
        assert [done.error for done in Maintainer(world.log, only=["snapshot"]).run()] == [None]
    assert len([*world.log.store.list(paths.SNAPSHOTS)]) == 2
    assert world.look()["maintenance.unsealed_entries",] < 4


def test_a_snapshot_whose_entry_is_retired_has_no_age():
    """So it is where a newer one was stored after the listing."""
    world = Watched(snapshot_interval=4)
    send(world.log.without_maintenance(), "t", 8)
    assert [done.error for done in Maintainer(world.log, only=["snapshot"]).run()] == [None]
    (name,) = (info.name for info in world.log.store.list(paths.SNAPSHOTS))
    state = world.log.state
    world.log.store.retire(paths.entry(paths.snapshot_seq(name), state.entries_per_folder))
    found = world.look()
    assert found["maintenance.unsealed_entries",] == state.seq - paths.snapshot_seq(name)
    assert ("maintenance.snapshot.age",) not in found


def test_small_batches_that_rolling_leaves_alone_are_no_debt():
    """Else the alert on them would not end with what its runbook says."""
    world = Watched()
    log = world.log.without_maintenance()
    send(log, "t", TAIL_ROWS - 1)
    assert world.look()["maintenance.small_batches", "t"] == 0
    assert Roller(log).look() == []
    send(log, "t", 1)
    assert world.look(2)["maintenance.small_batches", "t"] == TAIL_ROWS - 1
    assert Roller(log).look() == [TopicPartition("t", 0)]


def test_garbage_is_what_a_vacuum_would_delete():
    world = Watched()
    world.watch._clock = Ahead(0)
    topic = world.log.ensure_topic("t") or world.log.topic("t")
    columns = [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC"))]
    rows = {"key": [b"k"], "value": [b"x" * 1000], "timestamp": [0]}
    for _ in range(3):  # Their writer died before it committed them.
        with world.log.stage(topic) as writer:
            writer.append(pa.RecordBatch.from_pydict(rows, schema=pa.schema(columns)), 0)
            writer.finish()
    send(world.log, "t", 9)
    found = world.look()
    assert (found["maintenance.garbage.objects",], found["maintenance.garbage.size",]) == (0, 0)
    world.watch._clock._ahead_ms = 2 * 24 * 3_600_000  # Writers have a day.
    found = world.look(4000)
    left = Vacuum(world.log, min_age_s=0.0).look()
    assert found["maintenance.garbage.objects",] == len(left) == 3
    assert found["maintenance.garbage.size",] == sum(one.size for one in left) > 0


def test_sizes_that_are_measured_on_are_those_that_are_measured_anew():
    log = Log.create(MemoryStore(), snapshot_interval=4, config=RETIRED_AT_ONCE)
    sizes, producer = Sizes(), Producer(log)
    for number in range(30):
        producer.send("t", b"x" * number).result()
        if number % 7 == 6:
            list(Maintainer(log, only=["roll", "snapshot"], tail_rows=3).run())
        if number == 20:
            Admin(log).delete_records({TopicPartition("t", 0): 5})
        state = log.follow()
        assert sizes.of(state) == Sizes().of(state)
    producer.close()


# -- A log that cannot be reached -----------------------------------------------------------------------


class Hanging:
    """A store whose reads wait until it is released."""

    def __init__(self, store):
        self.free = threading.Event()
        self.free.set()
        self.waits = threading.Event()
        store.before = self._before

    def _before(self, operation, _name):
        if operation == "read" and not self.free.is_set():
            self.waits.set()
            self.free.wait(60)


def test_a_log_that_hangs_holds_up_no_scrape():
    earlier = {*threading.enumerate()}
    world = Watched(garbage_s=None, timeout_s=0.05)
    hanging = Hanging(world.store)
    registry = CollectorRegistry()
    register(world.watch, registry=registry)
    world.look()
    assert has(scraped(registry)[0], "eoslog_topics")
    hanging.free.clear()
    world.now.now_s += 2.0
    for _ in range(3):
        samples, _, _ = scraped(registry)
        assert value(samples, "eoslog_up") == 0
        assert not has(samples, "eoslog_topics")
        assert has(samples, "db_client_operation_duration_seconds_count")
        world.now.now_s += 100.0
    assert hanging.waits.is_set()
    looks = [one for one in threading.enumerate() if one.name == "eoslog-look" and one not in earlier]
    assert len(looks) == 1, "no second look was begun"
    hanging.free.set()
    assert world.look(100)["up",] == 1


def test_a_log_that_is_removed_and_another_one_in_its_place(tmp_path):
    url = str(tmp_path / "log")
    world = Watched(url, garbage_s=None)
    send(world.log, "first")
    assert ("topic.offsets", "first") in world.look()
    Path(url).rename(f"{url}-away")
    found = world.look()
    assert status_of(url).troubles[0].name == "NOT_A_LOG"
    assert (found["up",], found["look.errors", "NOT_A_LOG"]) == (0, 1)
    assert world.look()["look.errors", "NOT_A_LOG"] == 2
    send(Log.create(url), "second")
    found = world.look()
    assert found["up",] == 1
    assert ("topic.offsets", "second") in found
    assert ("topic.offsets", "first") not in found
    send(Log.open(url), "second")
    assert world.look()["topic.messages", "second"] == 1


def test_a_log_that_is_removed_from_a_bucket_is_down_within_a_minute():
    world = Watched(garbage_s=None, clock=Ahead(0))
    send(world.log, "t")
    world.watch._clock.monotonic = world.now
    assert world.look()["up",] == 1
    for info in [*world.store.inner.list("")]:
        world.store.inner.delete(info.name)
    found = world.look(61)
    assert (found["up",], found["look.errors", "NOT_A_LOG"]) == (0, 1)
    assert ("topics",) not in found


def test_a_log_in_a_bucket_that_is_put_back_is_read_anew():
    world = Watched(garbage_s=None)
    inner = world.store.inner
    send(world.log, "t", 2)
    copy = {info.name: bytes(inner.read(info.name)) for info in inner.list("")}
    send(world.log, "t", 3)
    assert world.look()["topic.offsets", "t"] == 5
    for info in [*inner.list("")]:
        inner.delete(info.name)
    for name, data in copy.items():
        inner.create(name, data)
    send(Log.open(inner), "t", 8)
    found = world.look()
    assert (found["up",], found["look.errors", "DIVERGED_LOG"]) == (0, 1)
    found = world.look()
    assert (found["up",], found["topic.offsets", "t"]) == (1, 10)


def test_a_place_without_a_log():
    watch = LogWatch(MemoryStore())
    found = watched(watch)
    assert (found["up",], found["look.errors", "NOT_A_LOG"]) == (0, 1)
    assert watch.error is not None


def test_the_space_of_the_disk_is_told_also_while_the_log_cannot_be_read():
    spaces = [Space(9 << 30, 1000 << 30)]
    world = Watched(space=lambda _: spaces[0])
    found = world.look()
    assert (found["disk.free",], found["disk.size",]) == (9 << 30, 1000 << 30)
    assert found["trouble", "disk full", "critical", ""] == 1
    world.store.inject(StoreUnavailableError("away"), "read", times=None)
    found = world.look()
    assert (found["up",], found["disk.free",]) == (0, 9 << 30)
    assert [labels for labels in found if labels[0] == "trouble"] == [
        ("trouble", "STORE_UNAVAILABLE", "critical", ""),
        ("trouble", "disk full", "critical", ""),
    ]
    world.store.heal()
    spaces[0] = Space(40 << 30, 1000 << 30)
    assert world.look()["trouble", "little space", "note", ""] == 1
    spaces[0] = None  # It does not tell: that is no number.
    assert not [labels for labels in world.look() if labels[0] in {"trouble", "disk.free", "disk.size"}]


def test_of_two_disks_the_fuller_one_is_told(tmp_path):
    places = {
        str(tmp_path / "chain"): Space(500, 1000 << 30),
        str(tmp_path / "data"): Space(1 << 40, 2 << 40),
    }
    url, data = places
    Log.create(open_store(url, Settings({"data.url": data})))
    watch = LogWatch(url, space=lambda store: places[store.url])
    assert watched(watch)["disk.free",] == 500
    places[url], places[data] = places[data], places[url]
    assert watched(LogWatch(url, space=lambda store: places[store.url]))["disk.free",] == 500


def test_troubles_are_those_of_status_by_the_limits_of_the_log():
    world = Watched()
    Admin(world.log).create_topic("orders", 1)
    Admin(world.log).alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    with Producer(world.log) as producer:
        producer.send("orders", b"x", timestamp_ms=SYSTEM.now_ms() - 400_000).result()
    found = world.look()
    limit = "consumer_group.lag_limit", "billing", "orders"
    assert (found["trouble", "group behind", "warning", "billing"], found[limit]) == (1, 300)
    Admin(world.log).alter_log({"health.lag.max.ms:billing": 3_600_000})
    assert world.look()[limit] == 3600
    assert not [labels for labels in world.look() if labels[0] == "trouble"]


def test_an_error_is_said_once_and_without_secrets(caplog):
    world = Watched(garbage_s=None, settings=Settings({"s3.secret-access-key": SECRET}))
    world.store.inject(RuntimeError(f"a broken cable, {SECRET}"), "read", times=None)
    for _ in range(3):
        assert world.look()["up",] == 0
    assert caplog.text.count("a broken cable") == 1
    assert SECRET not in caplog.text


def test_a_listing_that_fails_takes_nothing_else_away():
    world = Watched()
    world.look()
    world.store.inject(RuntimeError("no list"), "list", "data/*")
    found = world.look(4000)
    assert (found["up",], found["look.errors", "RuntimeError"]) == (1, 1)
    assert ("maintenance.garbage.size",) not in found


# -- Looks ----------------------------------------------------------------------------------------------


def test_a_look_is_made_once_in_its_time():
    now, calls = Time(), []
    periodic = Periodic(lambda: calls.append(1) or len(calls), 5.0, now)
    assert (periodic.get(None), periodic.latest) == (True, 1)
    now.now_s += 4.9
    assert (periodic.get(None), periodic.latest) == (True, 1)
    now.now_s += 0.1
    assert (periodic.get(None), periodic.latest) == (True, 2)


def test_who_does_not_wait_gets_what_there_is():
    now, go = Time(), threading.Event()
    periodic = Periodic(lambda: go.wait(60) and "found", 5.0, now)
    assert (periodic.get(0.0), periodic.latest) == (False, None)
    assert periodic.get(0.0) is False
    go.set()
    assert (periodic.get(None), periodic.latest) == (True, "found")


def test_the_time_that_a_look_has_hung_before_counts(monkeypatch):
    now, go, waits = Time(), threading.Event(), []
    periodic = Periodic(lambda: go.wait(60), 5.0, now)
    periodic.get(0.0)
    monkeypatch.setattr(periodic._run.ended, "wait", waits.append)
    for _ in range(3):
        now.now_s += 2
        periodic.get(5.0)
    assert waits == [3.0, 1.0, 0.0]
    go.set()


def test_a_process_that_can_start_no_thread_looks_again_later(monkeypatch):
    periodic = Periodic(lambda: "found", 5.0, Time())

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert (periodic.get(None), periodic.latest) == (False, None)
    assert (periodic.get(None), periodic.latest) == (True, "found")


# -- A bucket -------------------------------------------------------------------------------------------


def test_a_log_in_a_bucket(minio_server):
    settings = minio_server.settings
    url = f"{minio_server.url}/watched"
    log = Log.create(url, settings=settings)
    send(log, "t", 3)
    now = Time()
    watch = LogWatch(url, settings, now=now)
    registry = CollectorRegistry()
    register(watch, registry=registry)
    watch.points(wait=True)
    name = "db_client_operation_duration_seconds_count"
    before = scraped(registry)[0]
    for _ in range(20):
        samples, _, text = scraped(registry)
    assert samples == before
    now.now_s += 1.0
    samples, _, text = scraped(registry)
    reads = {"operation": "read", "error": "OBJECT_NOT_FOUND", "system": "s3"}
    assert value(samples, name, **reads) == value(before, name, **reads) + 1
    assert value(samples, "eoslog_topic_offsets", log=url, topic="t") == 3
    secrets = [settings["s3.access-key-id"], settings["s3.secret-access-key"], SECRET]
    assert not any(secret in text for secret in secrets)


def test_a_bucket_that_is_not_there_any_more(minio_server):
    settings = {**minio_server.settings, "s3.endpoint": "http://127.0.0.1:9"}
    watch = LogWatch(f"{minio_server.url}/watched", Settings(settings), timeout_s=0.05)
    (up, *_) = watch.points()
    assert (up.metric.name, up.value) == ("eoslog.up", 0)
