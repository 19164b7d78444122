"""Lag of groups, queries and publications: what the state says, in offsets, records, bytes and time."""

from __future__ import annotations

import random
from contextlib import ExitStack

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import plan
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.monitoring import lag as lag_module
from spark_eos.monitoring import lags, totals
from spark_eos.monitoring.lag import lags_at, lags_of
from spark_eos.protocol.actions import AdvanceLogStart, AppendBatches, JoinGroup, SyncGroup
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import NO_PRODUCER, PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from tests.needing import needs
from verification.retiring import RETIRED_AT_ONCE

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = 1_000_000
"""Milliseconds: the time of these tests. Record ``n`` is written at ``n`` seconds."""


@pytest.fixture
def log():
    log = Log.create(MemoryStore(), snapshot_interval=4, config=RETIRED_AT_ONCE)
    Admin(log).create_topic("t", 2)
    return log


def write(log, count, first=0, topic="t", partition=0, key=None):
    """So many records, each in an entry and a batch of its own."""
    with Producer(log) as producer:
        for number in range(first, first + count):
            keyed = key(number) if key else None
            producer.send(
                topic, b"x" * 100, key=keyed, partition=partition, timestamp_ms=number * 1000
            ).result()


def commit_offset(log, group, at, offset):
    Admin(log).alter_group_offsets(group, {at: offset})


def one(log, **wanted):
    """The only lag of that kind, now."""
    found = [
        lag for lag in lags_of(log.follow(), NOW) if all(getattr(lag, k) == v for k, v in wanted.items())
    ]
    (lag,) = found
    return lag


def sizes(log, at, start):
    state = log.state
    return [fetch.size for fetch in plan(
        state, at, start, state.partitions[state.topics[at.topic].topic_id, at.partition].end,
        Isolation.READ_UNCOMMITTED, log.load,
    )]  # fmt: skip


def behind(lag):
    return lag.offsets, lag.records, lag.bytes, lag.time_ms, lag.lost, lag.is_exact


def test_a_log_without_readers(log):
    assert lags(log) == []
    assert totals([]) == []
    write(log, 3)
    assert lags_of(log.state, NOW) == []


def test_a_group_is_behind_by_what_it_has_not_read(log):
    write(log, 10)
    commit_offset(log, "g", T0, 6)
    lag = one(log)
    assert (lag.kind, lag.name, lag.group, lag.topic, lag.partition) == ("group", "g", "g", "t", 0)
    assert (lag.committed, lag.start, lag.last_stable_offset, lag.end, lag.held_back) == (6, 0, 10, 10, 0)
    assert behind(lag) == (4, 4, sum(sizes(log, T0, 6)), NOW - 6000, 0, True)


def test_a_group_that_has_read_all_has_no_lag_however_old_the_records_are(log):
    write(log, 10)
    commit_offset(log, "g", T0, 10)
    assert behind(one(log)) == (0, 0, 0, 0, 0, True)
    commit_offset(log, "g", T0, 99)
    assert behind(one(log)) == (0, 0, 0, 0, 0, True)


def test_records_of_the_future_are_not_negative_in_age(log):
    write(log, 1, first=2000)
    commit_offset(log, "g", T0, 0)
    assert behind(one(log))[3] == 0


def test_a_batch_that_was_read_in_part(log):
    with Producer(log, {"linger.ms": 60_000}) as producer:
        for number in range(10):
            producer.send("t", b"x", partition=0, timestamp_ms=number * 1000)
    (size,) = sizes(log, T0, 0)
    commit_offset(log, "g", T0, 4)
    lag = one(log)
    assert (lag.records, lag.bytes, lag.is_exact) == (6, size - size * 4 // 10, True)
    assert lag.time_ms == NOW - 9000 * 4 // 10  # To within a batch.


def test_a_reader_in_the_middle_of_a_batch_that_rolling_has_joined_is_not_as_old_as_its_first_record():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t", 2)
    write(log, 600)  # Ten minutes of them.
    commit_offset(log, "g", T0, 595)
    assert one(log).time_ms == NOW - 595_000
    list(Maintainer(log, only=["roll"]).run())
    assert len(sizes(log, T0, 0)) == 1
    (exact,), (quick,) = lags_of(log.follow(), NOW, log.load), lags_at(log, log.state, NOW)
    assert exact.time_ms == quick.time_ms == pytest.approx(NOW - 595_000, abs=2000)


def test_control_batches_and_aborted_records_are_offsets_and_no_records(log):
    with Producer(log, {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        for ends in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.send("t", b"x", partition=0, timestamp_ms=5000)
            producer.flush()
            ends()
    commit_offset(log, "g", T0, 0)
    assert behind(one(log))[:2] == (4, 1)
    commit_offset(log, "g", T0, 3)
    assert behind(one(log)) == (1, 0, 0, 0, 0, True)


def test_an_open_transaction_holds_back_what_comes_after_it(log):
    write(log, 3)
    commit_offset(log, "g", T0, 1)
    commit_offset(log, "dirty", T0, 4)
    producer = Producer(log, {"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x", partition=0, timestamp_ms=3000)
    producer.flush()
    write(log, 2, first=4)
    lag = one(log, name="g")
    assert (lag.last_stable_offset, lag.end, lag.held_back) == (3, 6, 3)
    assert behind(lag)[:4] == (2, 2, sum(sizes(log, T0, 1)[:2]), NOW - 1000)
    # Beyond the last stable offset only a reader of uncommitted records can be.
    assert behind(one(log, name="dirty"))[:4] == (2, 2, sum(sizes(log, T0, 4)), NOW - 4000)
    producer.abort_transaction()
    lag = one(log, name="g")
    assert (lag.held_back, lag.records) == (0, 4)
    producer.close()


def test_offsets_before_the_start_of_the_log_are_lost(log):
    write(log, 10)
    commit_offset(log, "g", T0, 2)
    topic_id = log.state.topics["t"].topic_id
    log.commit(lambda _: (AdvanceLogStart((PartitionOffset("t", topic_id, 0, 5),)),))
    lag = one(log)
    assert lag.start == 5
    assert behind(lag) == (8, 5, sum(sizes(log, T0, 5)), NOW - 5000, 3, True)


def test_members_without_a_committed_offset_have_no_known_lag(log):
    write(log, 4)
    log.commit(lambda _: (JoinGroup("g", "a", ("t",), ("range",), 45_000, None, "app"),))
    log.commit(lambda _: (SyncGroup("g", "a", 1),))
    commit_offset(log, "other", T0, 1)
    rows = [lag for lag in lags(log) if lag.name == "g"]
    assert [(lag.partition, lag.committed, *behind(lag)) for lag in rows] == [
        (0, None, None, None, None, None, 0, True),
        (1, None, None, None, None, None, 0, True),
    ]
    total = totals(rows)[0]
    assert (total.partitions, total.unknown, total.offsets, total.time_ms) == (2, 1, 0, 0), "t-1 is empty"
    assert total.is_unknown
    commit_offset(log, "h", T0, 1)
    log.commit(lambda _: (JoinGroup("h", "a", ("t",), ("range",), 45_000, None, "app"),))
    log.commit(lambda _: (SyncGroup("h", "a", 1),))
    write(log, 2, partition=1)
    (total,) = totals(lag for lag in lags(log) if lag.name == "h")
    assert (total.unknown, total.offsets, total.is_unknown) == (1, 3, False)


def test_a_deleted_topic_and_one_of_the_same_name(log):
    write(log, 4)
    commit_offset(log, "g", T0, 1)
    Admin(log).delete_topic("t")
    assert lags(log) == []
    Admin(log).create_topic("t", 1)
    assert lags(log) == []


def test_names_of_any_kind(log):
    name = "gruppe ∑ " + "y" * 3000
    write(log, 4)
    commit_offset(log, name, T0, 1)
    assert one(log).name == name
    assert totals(lags(log))[0].name == name


# -- Index pages ------------------------------------------------------------------------------------


def paged(batches=1200, topic="t"):
    """A log of which all pages but the newest rows are in the store alone, and the log that wrote it."""
    store = MemoryStore()
    log = Log.create(store, snapshot_interval=4, config=RETIRED_AT_ONCE)
    log.ensure_topic(topic)
    made = log.topic(topic)
    files = []
    schema = pa.schema(
        [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC"))]
    )
    for at in range(0, batches, 50):
        for number in range(at, at + 50):
            with log.stage(made) as writer:
                rows = {"key": [b"k"], "value": [b"x" * 10], "timestamp": [number * 1_000_000]}
                columns = [pa.array(rows[field.name], field.type) for field in schema]
                writer.append(pa.RecordBatch.from_arrays(columns, schema=schema), 0)
                files += writer.finish()
        staged, files = tuple(files), []
        log.commit(lambda _, staged=staged: (AppendBatches(NO_PRODUCER, ((topic, made.topic_id),), staged),))
    for _ in range(5):  # Up to a boundary, where rows are sealed, and the snapshot that follows it.
        commit_offset(log, "end", T0, 0)
    list(Maintainer(log, only=["snapshot"]).run())
    return Log.open(store), log


@pytest.fixture(scope="module")
def paged_logs():
    return paged()


def test_in_index_pages_bytes_are_exact_and_nothing_is_read_by_the_pure_function(paged_logs):
    log, _ = paged_logs
    partition = log.state.partitions[log.state.topics["t"].topic_id, 0]
    assert len(partition.index.pages) == 2
    assert not any(page.is_held for page in partition.index.pages)
    lag = one(log, name="end")
    assert behind(lag) == (1200, 1200, sum(sizes(log, T0, 0)), lag.time_ms, 0, False)
    assert NOW - 511_000 <= lag.time_ms <= NOW


def test_with_a_loader_all_is_exact(paged_logs):
    log, _ = paged_logs
    for offset in (0, 1, 511, 512, 600, 1023, 1024, 1100):
        commit_offset(log, "g", T0, offset)
        (lag,) = [lag for lag in lags_of(log.follow(), NOW + 10**9, log.load) if lag.name == "g"]
        expected = (1200 - offset, 1200 - offset, sum(sizes(log, T0, offset)))
        assert behind(lag) == (*expected, NOW + 10**9 - offset * 1000, 0, True)
        before_ms = log.clock.now_ms()
        (same,) = [lag for lag in lags(log) if lag.name == "g"]
        assert abs(same.bytes - lag.bytes) <= 100
        assert (same.offsets, same.is_exact) == (lag.offsets, offset >= 1024)
        # The time of the first record is looked up, once.
        assert before_ms <= same.time_ms + offset * 1000 <= log.clock.now_ms()


def test_the_time_is_estimated_from_the_pages_around_it(paged_logs):
    log, _ = paged_logs
    for offset in (512, 700, 1023):
        commit_offset(log, "g", T0, offset)
        (lag,) = [lag for lag in lags_of(log.follow(), 2 * NOW) if lag.name == "g"]
        assert lag.time_ms == pytest.approx(2 * NOW - offset * 1000, abs=2000)


def test_pages_are_read_once_and_not_for_every_look(paged_logs, monkeypatch):
    _, writer = paged_logs
    for number in range(40):
        commit_offset(writer, f"g{number}", T0, number)
    log = Log.open(writer.store)
    reads = []
    read = log.store.read
    monkeypatch.setattr(log.store, "read", lambda name, *rest: reads.append(name) or read(name, *rest))
    first = lags(log)
    pages = [name for name in reads if "/index/" in name]
    assert pages[0].split("/")[-1].startswith("0-0000")
    assert len(pages) == len(set(pages)) <= 2
    reads.clear()
    assert [lag[:12] for lag in lags(log)] == [lag[:12] for lag in first]
    assert not any("/index/" in name for name in reads)


def test_a_look_reads_few_pages_and_a_later_one_goes_on(paged_logs, monkeypatch):
    _, writer = paged_logs
    for name, offset in (("early", 3), ("late", 600)):
        commit_offset(writer, name, T0, offset)
    monkeypatch.setattr(lag_module, "_LOADS", 1)
    log, loads = Log.open(writer.store), []
    load = log.load
    monkeypatch.setattr(log, "load", lambda page: loads.append(page) or load(page))
    for looks in range(1, 60):  # Groups of other tests are there, too.
        found = {lag.name: lag.time_ms for lag in lags(log)}
        assert len(loads) == min(looks, len({lag.committed for lag in lags_of(log.state, NOW)}))
    assert found["early"] - found["late"] == 597_000


def test_what_has_not_changed_is_not_summed_again(log, monkeypatch):
    write(log, 10)
    commit_offset(log, "g", T0, 1)
    commit_offset(log, "h", T1, 0)
    write(log, 2, partition=1)
    lags(log)
    made = []
    sums = lag_module.RowSums
    monkeypatch.setattr(lag_module, "RowSums", lambda *given: made.append(given) or sums(*given))
    assert len(lags(log)) == 2
    assert made == []
    write(log, 1, first=2, partition=1)
    assert [lag.offsets for lag in lags(log)] == [9, 3]
    assert len(made) == 1


def test_compacted_topics_have_fewer_records_than_offsets(log):
    Admin(log).create_topic("c", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    write(log, 40, topic="c", key=lambda number: b"k%d" % (number % 3))
    commit_offset(log, "g", TopicPartition("c", 0), 0)
    list(Maintainer(log, only=["compact"]).run())
    write(log, 1, topic="c", first=100, key=lambda _: b"new")
    (lag,) = [lag for lag in lags_of(log.follow(), NOW, log.load) if lag.topic == "c"]
    assert lag.offsets == 41
    assert 4 <= lag.records < 41
    assert lag.is_exact
    # Which offsets of a compacted batch have a record is in its file alone.
    commit_offset(log, "g", TopicPartition("c", 0), 20)
    (lag,) = [lag for lag in lags_of(log.follow(), NOW, log.load) if lag.topic == "c"]
    assert (lag.offsets, lag.is_exact) == (21, False)


def first_time_ms(fetch):
    """Of the records that are fetched: of a batch, the time has the same share as the offsets."""
    batch = fetch.batch
    span_ms = batch.max_timestamp_ms - batch.min_timestamp_ms
    return batch.min_timestamp_ms + span_ms * fetch.skip // batch.count


@pytest.mark.deep("1", "2", "3")
@pytest.mark.parametrize("seed", range(4))
def test_any_history_against_what_readers_would_read(seed):
    chance = random.Random(seed)
    log = Log.create(MemoryStore(), snapshot_interval=8, config=RETIRED_AT_ONCE)
    Admin(log).create_topic("t", 1)
    topic_id = log.state.topics["t"].topic_id
    settings = {"transaction.timeout.ms": 900_000}
    with ExitStack() as stack:
        producers = [
            stack.enter_context(Producer(log, settings | {"transactional.id": f"x{n}"})) for n in range(3)
        ]
        for producer in producers:
            producer.init_transactions()
        is_open = [False] * 3
        for step in range(700):
            number = chance.randrange(3)
            producer = producers[number]
            if not is_open[number]:
                producer.begin_transaction()
                is_open[number] = True
            for _ in range(chance.randrange(1, 4)):
                producer.send("t", b"x" * chance.randrange(50), timestamp_ms=step * 1000)
            producer.flush()
            if chance.random() < 0.6:
                chance.choice([producer.commit_transaction, producer.abort_transaction])()
                is_open[number] = False
            if step == 300:
                start = PartitionOffset(
                    "t", topic_id, 0, log.state.partitions[topic_id, 0].last_stable_offset // 2
                )
                log.commit(lambda _, start=start: (AdvanceLogStart((start,)),))
        state = log.follow()
        partition = state.partitions[topic_id, 0]
        stable = partition.last_stable_offset
        offsets = [0, partition.start, stable - 1, stable, *(chance.randrange(stable) for _ in range(20))]
        for number, offset in enumerate(offsets):
            commit_offset(log, f"g{number:02}", T0, offset)
        state = log.state
        exact, quick = lags_of(state, NOW, log.load), lags_at(log, state, NOW)
        assert any(page for page in partition.index.pages)
        for offset, one, other in zip(offsets, exact, quick, strict=True):
            start = max(offset, partition.start)
            fetches = plan(state, T0, start, stable, Isolation.READ_COMMITTED, log.load)
            parts = [fetch.size - fetch.size * fetch.skip // fetch.batch.count for fetch in fetches]
            first_ms = first_time_ms(fetches[0]) if fetches else NOW
            expected = (stable - offset, sum(fetch.records for fetch in fetches), sum(parts), NOW - first_ms)
            assert behind(one) == (*expected, start - offset, True)
            assert (other.offsets, other.lost, other.time_ms) == (one.offsets, one.lost, one.time_ms)
            if other.is_exact:
                assert other == one
            else:
                # A whole page has the bytes of aborted records, too.
                assert one.records <= other.records <= one.offsets - one.lost
        for producer, still_open in zip(producers, is_open, strict=True):
            if still_open:
                producer.abort_transaction()


# -- Queries and publications -----------------------------------------------------------------------


def micro_batch(log, number, sources, query="q-1", name="copy", run="r"):
    batch = MicroBatch(name, query, run, number, sources, (), ())
    log.commit(lambda state: propose(state, batch, finished=False))


def source(log, end, group="copy", start=0, topic="t", partition=0):
    topic_id = log.state.topics[topic].topic_id
    places = [(PartitionOffset(topic, topic_id, partition, offset),) for offset in (start, end)]
    return SourceProgress(f'{{"{start}": 0}}', f'{{"{end}": 0}}', group, *places)


def test_a_query_has_the_offsets_that_its_last_micro_batch_committed(log):
    write(log, 10)
    micro_batch(log, 0, (source(log, 4),))
    lag = one(log)
    assert (lag.kind, lag.name, lag.group, lag.committed, lag.records) == ("query", "copy", "copy", 4, 6)


def test_a_query_and_the_group_of_another_name(log):
    write(log, 10)
    micro_batch(log, 0, (source(log, 4, group="readers"),))
    lag = one(log)
    assert (lag.kind, lag.name, lag.group) == ("query", "copy", "readers")


def test_a_query_that_another_one_has_taken_over_from_is_not_shown_twice(log):
    write(log, 10)
    micro_batch(log, 0, (source(log, 4, group="readers"),), name="old")
    micro_batch(log, 0, (source(log, 7, group="readers", start=4),), query="q-2", name="new")
    lag = one(log)
    assert (lag.kind, lag.name, lag.committed) == ("query", "new", 7)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_queries_at_the_same_offset_the_later_one_is_shown(log, names):
    write(log, 10)
    micro_batch(log, 0, (source(log, 4, group="readers"),), name=names[0])
    micro_batch(log, 0, (source(log, 4, group="readers", start=4),), query="q-2", name=names[1])
    assert one(log).name == names[1]


def test_offsets_that_were_reset_are_the_groups(log):
    write(log, 10)
    micro_batch(log, 0, (source(log, 4),))
    Admin(log).reset_group_offsets("copy", ["t"], to_earliest=True)
    assert {(lag.kind, lag.partition, lag.committed) for lag in lags(log)} == {
        ("group", 0, 0),
        ("group", 1, 0),
    }


def test_a_query_that_reads_a_partition_twice_is_as_far_as_the_slower_source(log):
    write(log, 10)
    micro_batch(log, 0, (source(log, 4, group="a"), source(log, 7, group="b")))
    found = lags_of(log.state, NOW)
    assert [(lag.kind, lag.name, lag.committed) for lag in found] == [("group", "b", 7), ("query", "copy", 4)]


def test_a_query_of_other_sources_and_of_a_deleted_topic(log):
    micro_batch(log, 0, (SourceProgress(None, '{"rate": 7}'),))
    assert lags(log) == []
    write(log, 3)
    micro_batch(log, 0, (source(log, 2),), query="q-2", name="other")
    Admin(log).delete_topic("t")
    assert lags(log) == []


def test_a_query_that_reads_another_log_is_not_a_reader_of_this_one(log):
    """Its entries have topics and offsets without the log they are of: a topic here may have the same name."""
    write(log, 10)
    micro_batch(log, 0, (SourceProgress('{"t": {"0": 0}}', '{"t": {"0": 4}}'),))
    assert lags(log) == []


@needs("tables")
def test_a_publication_is_behind_by_what_its_tables_lack(tmp_path):
    from spark_eos.extensions.tables.tables import Tables

    log = Log.create(str(tmp_path / "log"))
    Admin(log).create_topic("t", 2)
    tables = Tables(log)
    write(log, 3)
    tables.create("hourly", ["t"])
    lag = one(log, partition=0)
    assert (lag.kind, lag.name, lag.group, lag.committed) == ("publication", "hourly", None, None)
    assert behind(lag) == (3, 3, sum(sizes(log, T0, 0)), NOW, 0, True)
    tables.publisher("hourly").publish()
    assert [(lag.committed, lag.offsets, lag.time_ms) for lag in lags(log)] == [(3, 0, 0), (0, 0, 0)]
    write(log, 2, first=3)
    lag = one(log, partition=0)
    assert (lag.committed, lag.records, lag.time_ms) == (3, 2, NOW - 3000)


def test_totals(log):
    write(log, 10)
    write(log, 5, first=2, partition=1)
    for at, offset in {T0: 7, T1: 1}.items():
        commit_offset(log, "g", at, offset)
    commit_offset(log, "h", T0, 10)
    g, h = totals(lags_of(log.state, NOW))
    parts = [lag for lag in lags_of(log.state, NOW) if lag.name == "g"]
    assert (g.partitions, g.unknown, g.offsets, g.records, g.lost) == (2, 0, 7, 7, 0)
    assert g.bytes == sum(lag.bytes for lag in parts)
    assert (g.time_ms, g.is_exact, g.held_back) == (NOW - 3000, True, 0)
    assert (h.name, h.offsets, h.time_ms) == ("h", 0, 0)
