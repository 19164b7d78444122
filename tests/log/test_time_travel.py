"""A log as it was: states after earlier entries, transactions that ended, what changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import InvalidRequestError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from spark_eos.log import paths, time_travel
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.history import changes, transactions
from spark_eos.log.log import Log
from spark_eos.log.time_travel import as_of, earliest, entry_at_time, iso, plan_as_of, state_at, time_ms
from spark_eos.protocol.actions import (
    AdvanceLogStart,
    AlterLog,
    AppendBatches,
    CommitMicroBatch,
    CommitOffsets,
    DeleteTopic,
    EndTransaction,
    Entry,
    ExpireTransaction,
    InitProducer,
    PartitionOffset,
    ReplaceSegments,
    Request,
    SourceProgress,
)
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import Kind
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage.memory import MemoryStore
from verification.retiring import RETIRED_AT_ONCE

from .fakes import FakeClock

pytestmark = pytest.mark.usefixtures("small_pages")

AT = TopicPartition("t", 0)


class Clock(FakeClock):
    """A second passes with every look at it, so that there is time for maintenance."""

    def now_ms(self):
        self.now += 1
        return super().now_ms()


@pytest.fixture
def log():
    log = Log.create(
        MemoryStore(),
        Clock(),
        Retry(deadline_s=10),
        snapshot_interval=5,
        config=RETIRED_AT_ONCE,
        entries_per_folder=7,
    )
    log.ensure_topic("t", 2)
    return log


@pytest.fixture
def whole(log):
    """Nothing is ever retired."""
    log.maintenance._retirer.step = lambda *_: None
    return log


def rows(log, *numbers, topic="t", partition=0, stamp=NO_PRODUCER):
    known = log.topic(topic)
    with log.stage(known) as writer:
        writer.append(pa.table({"value": [b"%d" % number for number in numbers]}), partition)
        files = writer.finish()
    return AppendBatches(stamp, ((known.name, known.topic_id),), files)


def append(log, *numbers, **options):
    for number in numbers:
        action = rows(log, number, **options)
        log.commit(lambda _, action=action: (action,), writer="app")


def states(log, count):
    """Append, and keep the state behind every entry."""
    found = {log.state.seq: log.state}
    for number in range(count):
        append(log, number)
        found[log.state.seq] = log.state
    return found


def values(log, fetches):
    topic = log.topic("t")
    return [int(v) for fetch in fetches for v in log.read(topic, fetch).column("value").to_pylist()]


# -- States ----------------------------------------------------------------------------------------------


def test_every_state_of_a_whole_log(whole):
    found = states(whole, 23)
    assert earliest(whole).seq == 0
    for seq, state in found.items():
        assert state_at(whole, seq) == state


def test_states_are_found_from_the_nearest_snapshot(whole):
    found = states(whole, 23)
    reads = []
    read = whole.store.read
    whole.store.read = lambda name, *args: reads.append(name) or read(name, *args)
    assert state_at(whole, 22) == found[22]
    assert reads == [paths.snapshot(20), paths.entry(21, 7), paths.entry(22, 7)]


def test_a_damaged_snapshot_is_passed_over(whole):
    found = states(whole, 23)
    whole.store.overwrite(paths.snapshot(20), b"x")
    assert state_at(whole, 22) == found[22]


def test_what_is_retired_cannot_be_had(log):
    found = states(log, 40)
    oldest = earliest(log)
    assert 20 < oldest.seq < 40
    assert oldest == found[oldest.seq]
    for seq, state in found.items():
        if seq >= oldest.seq:
            assert state_at(log, seq) == state
        else:
            with pytest.raises(
                InvalidRequestError, match=f"retired.*earliest is entry {oldest.seq}, of 1970-01-01T"
            ):
                state_at(log, seq)


def test_names_that_were_deleted_for_good_are_retired(log):
    states(log, 40)
    oldest = earliest(log)
    for seq in range(1, oldest.seq - 5):
        log.store.delete(paths.entry(seq, 7))
    assert earliest(log) == oldest
    with pytest.raises(InvalidRequestError, match="is retired"):
        state_at(log, 3)


@pytest.mark.parametrize("seq", [-1, 7, 1000])
def test_no_such_entry(log, seq):
    append(log, *range(5))
    with pytest.raises(InvalidRequestError, match=f"no entry {seq}: its entries are 0 to 6"):
        state_at(log, seq)


def test_it_looks_for_news(log):
    other = Log.open(log.store, Clock())
    append(log, 1)
    assert state_at(other, 2) == log.state


# -- Times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retired", [True, False])
def test_the_entry_of_a_time(log, retired):
    if not retired:
        log.maintenance._retirer.step = lambda *_: None
    found = states(log, 40)
    first = earliest(log)
    assert (first.seq > 0) is retired
    for seq in range(max(first.seq, 1), 41):
        assert entry_at_time(log, found[seq].timestamp_ms) == seq
        assert entry_at_time(log, found[seq].timestamp_ms + 1) == seq
        assert entry_at_time(log, found[seq + 1].timestamp_ms - 1) == seq
    with pytest.raises(InvalidRequestError, match=f"the earliest is entry {first.seq}, of "):
        entry_at_time(log, first.timestamp_ms - 1)


def test_a_time_after_the_newest_entry(log):
    append(log, 1)
    log.clock.now += 100
    assert entry_at_time(log, log.clock.now_ms() - 1) == 2


def test_a_time_that_is_yet_to_come(log):
    with pytest.raises(InvalidRequestError, match="is yet to come"):
        entry_at_time(log, log.clock.now_ms() + 60_000)


def test_clocks_that_differ(log):
    """An entry is never older than the one before it, whatever its writer's clock says."""
    append(log, 1)
    slow = Log.open(log.store, Clock())
    slow.clock.now = 5
    append(slow, 2)
    newest = log.follow()
    assert newest.timestamp_ms == state_at(log, 2).timestamp_ms
    assert entry_at_time(log, newest.timestamp_ms) == newest.seq


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01 00:00:01.250", 1250),
        ("1970-01-01T00:00:01.250Z", 1250),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times(text, ms):
    assert time_ms(text) == ms
    assert time_ms(iso(ms)) == ms


def test_times_that_no_calendar_has():
    assert iso(2**62) == f"{2**62} ms"


# -- Reading as of an entry ------------------------------------------------------------------------------


def read(log, seq, isolation=Isolation.READ_COMMITTED):
    past = as_of(log, seq)
    partition = past.state.partitions[log.topic("t").topic_id, 0]
    fetches = plan_as_of(
        log, log.state, past, AT, partition.start, end_offset(partition, isolation), isolation
    )
    return values(log, fetches)


def test_a_topic_as_of_every_entry(log):
    append(log, *range(40))
    for seq in range(earliest(log).seq, 42):
        assert read(log, seq) == [*range(seq - 1)]


def test_what_was_open_then_and_aborted_later(whole):
    (stamp,) = whole.commit(lambda _: (InitProducer(0, 0, "tx", 1000),)).results
    stamp = stamp._replace(number=0)
    append(whole, 0)
    action = rows(whole, 1, stamp=stamp)
    then = whole.commit(lambda _: (action,)).seq
    append(whole, 2)
    whole.commit(lambda _: (EndTransaction(stamp, commit=False),))
    append(whole, *range(3, 10))
    assert read(whole, then) == [0]
    assert read(whole, then, Isolation.READ_UNCOMMITTED) == [0, 1]
    assert read(whole, whole.state.seq) == [0, *range(2, 10)]


def roll(log, keep=lambda _: True):
    """All sealed rows go into one file, or some of them; what was replaced is removed."""
    topic = log.topic("t")
    partition = log.state.partitions[topic.topic_id, 0]
    pages = partition.index.pages
    end = pages[-1].next_offset
    old = [row for row in partition.index.scan(0, log.load) if row.next_offset <= end]
    kept = [number for number in range(end) if keep(number)]
    (staged,) = rows(log, *kept).files
    first = old[0]._replace(count=len(kept), file=staged.file, batch=staged.batches[0])
    new = (first,)
    if len(kept) < end:
        new = (
            first,
            old[0]._replace(
                base_offset=len(kept), count=end - len(kept), kind=Kind.HOLE, file=None, batch=None
            ),
        )
    action = ReplaceSegments("t", topic.topic_id, 0, 0, end, checksum(pages), new)
    log.commit(lambda _: (action,))
    for row in old:
        log.store.delete(row.file.name)


def test_what_was_rolled_since_is_read_from_the_new_files(whole):
    append(whole, *range(20))
    roll(whole)
    for seq in range(2, 22):
        assert read(whole, seq) == [*range(seq - 1)]


def test_what_was_compacted_since_is_read_from_the_old_files(whole):
    append(whole, *range(20))
    past = as_of(whole, 15)
    fetches = plan(past.state, AT, 0, 14, Isolation.READ_COMMITTED, past.load)
    whole.store.delete = lambda _: None
    roll(whole, lambda number: number < 3)
    assert read(whole, 15) == values(whole, fetches) == [*range(14)]
    assert read(whole, whole.state.seq) == [0, 1, 2, *range(read(whole, whole.state.seq)[3], 20)]


def test_what_was_compacted_and_vacuumed_is_gone(whole):
    append(whole, *range(20))
    roll(whole, lambda number: number < 3)
    with pytest.raises(
        OffsetOutOfRangeError, match=r"t-0 was compacted after entry 15.*Read as of a later entry"
    ):
        read(whole, 15)


def delete_before(log, offset):
    topic = log.topic("t")
    log.commit(lambda _: (AdvanceLogStart((PartitionOffset("t", topic.topic_id, 0, offset),)),))


@pytest.mark.parametrize("offset", [7, 14, 20])
def test_what_was_deleted_since_is_read_from_the_old_files(whole, offset):
    append(whole, *range(20))
    delete_before(whole, offset)
    for seq in range(2, 22):
        assert read(whole, seq) == [*range(seq - 1)]
    assert read(whole, whole.state.seq) == [*range(offset, 20)]


def test_what_was_deleted_since_and_the_rest_rolled_is_read_from_both(whole):
    append(whole, *range(20))
    delete_before(whole, 3)
    keep, whole.store.delete = whole.store.delete, lambda _: None
    roll(whole)
    whole.store.delete = keep
    assert read(whole, 15) == [*range(14)]


def test_what_was_deleted_and_vacuumed_is_gone(whole):
    append(whole, *range(20))
    past = as_of(whole, 15)
    old = plan(past.state, AT, 0, 7, Isolation.READ_COMMITTED, past.load)
    delete_before(whole, 7)
    for name in {fetch.file.name for fetch in old}:
        whole.store.delete(name)
    with pytest.raises(
        OffsetOutOfRangeError,
        match=r"offsets 0 to 14 at entry 15; those before 7 were deleted since.*a vacuum has removed their files",
    ):
        read(whole, 15)
    assert values(whole, plan_as_of(whole, whole.state, past, AT, 7, 14, Isolation.READ_COMMITTED)) == [
        *range(7, 14)
    ]


def test_what_is_compacted_while_it_is_planned_is_not_left_out(whole, monkeypatch):
    """Another thread that shares the handle may follow the log between a look at the index and the plan."""
    append(whole, *range(20))
    past, has_all = as_of(whole, 15), time_travel._has_all
    monkeypatch.setattr(whole.store, "delete", lambda _: None)

    def looked(*place):
        had_all = has_all(*place)
        roll(whole, lambda number: number < 3)
        return had_all

    monkeypatch.setattr(time_travel, "_has_all", looked)
    fetches = plan_as_of(whole, whole.state, past, AT, 0, 14, Isolation.READ_COMMITTED)
    assert values(whole, fetches) == [*range(14)]


@pytest.mark.parametrize("looks", range(6))
def test_a_state_is_that_of_its_entry_though_another_thread_moves_the_handle_on(whole, looks):
    class Moved(Log):
        left = looks

        @property
        def state(self):
            seen = then if self.left > 0 else whole.state
            self.left -= 1
            return seen

    append(whole, 1)
    then = whole.state
    moved = Moved(whole.store, Clock())
    moved.follow()
    append(whole, 2)
    assert state_at(moved, then.seq) == then


def test_a_range_without_offsets_before_what_was_deleted(whole):
    append(whole, *range(3))
    delete_before(whole, 3)
    assert read(whole, 1) == []


@pytest.mark.parametrize("again", [True, False])
def test_a_topic_that_is_gone(whole, again):
    append(whole, *range(3))
    topic = whole.topic("t")
    whole.commit(lambda _: (DeleteTopic("t", topic.topic_id),))
    if again:
        whole.ensure_topic("t")
    past = as_of(whole, 3)
    with pytest.raises(UnknownTopicOrPartitionError, match="created again" if again else "was deleted since"):
        plan_as_of(whole, whole.state, past, AT, 0, 1, Isolation.READ_COMMITTED)


# -- Transactions ----------------------------------------------------------------------------------------


def begin(log, name):
    known = log.state.producer_of(name)
    producer = log.state.next_producer_id if known is None else known.producer_id
    epoch, number = (0, 0) if known is None else (known.epoch + 1, known.number + 1)
    (stamp,) = log.commit(lambda _: (InitProducer(producer, epoch, name, 1000),)).results
    return stamp._replace(number=number)


def spans(transaction):
    """Without the ids of topics."""
    return [span[:5] for span in transaction.spans]


def test_writes_without_a_producer(log):
    append(log, 1)
    action = rows(log, 2, 3, 4, partition=1)
    log.commit(lambda _: (action,), writer="loader")
    first, second = transactions(log)
    assert (first.seq, first.writer, first.producer, first.commit) == (2, "app", NO_PRODUCER, True)
    assert spans(first) == [("t", 0, 0, 0, 1)]
    assert spans(second) == [("t", 1, 0, 2, 3)]
    assert second.records == {"t": 3}
    assert second.timestamp_ms == log.state.timestamp_ms > first.timestamp_ms
    assert (second.transactional_id, second.query_id, second.groups) == (None, None, {})


def test_one_shot_transactions(log):
    log.ensure_topic("u")
    stamp = begin(log, "tx")
    actions = (
        rows(log, 1, 2, stamp=stamp),
        rows(log, 3, topic="u", stamp=stamp),
        CommitOffsets("g", (PartitionOffset("t", log.topic("t").topic_id, 1, 0),), stamp),
        EndTransaction(stamp, commit=True),
    )
    log.commit(lambda _: actions)
    (one,) = transactions(log)
    assert (one.producer, one.transactional_id, one.commit) == (stamp, "tx", True)
    assert spans(one) == [("t", 0, 0, 1, 2), ("u", 0, 0, 0, 1)]
    assert one.records == {"t": 2, "u": 1}
    assert one.groups == {"g": {TopicPartition("t", 1): 0}}


@pytest.mark.parametrize("commit", [True, False])
def test_streamed_transactions(whole, commit):
    """They are found by the entry that ends them, with all that was appended before, from among that of others."""
    stamp = begin(whole, "tx")
    for number in range(3):
        action = rows(whole, number, number, stamp=stamp)
        whole.commit(lambda _, action=action: (action,))
        append(whole, 10 + number)
    offsets = CommitOffsets("g", (PartitionOffset("t", whole.topic("t").topic_id, 1, 0),), stamp)
    whole.commit(lambda _: (offsets,))
    seq = whole.commit(lambda _: (EndTransaction(stamp, commit=commit),)).seq
    whole.commit(lambda _: (EndTransaction(stamp, commit=commit),))
    *others, one = transactions(whole)
    assert [other.producer for other in others] == [NO_PRODUCER] * 3
    assert (one.seq, one.commit, spans(one)) == (seq, commit, [("t", 0, 0, 7, 6)])
    assert one.groups == ({"g": {TopicPartition("t", 1): 0}} if commit else {})
    assert [found.seq for found in transactions(whole, seq)] == [seq]
    assert [found.seq for found in transactions(whole, seq + 1)] == []
    assert [found.seq for found in transactions(whole, 0, seq - 1)] == [other.seq for other in others]


def test_transactions_that_others_ended(log):
    """By a new epoch of its producer, and for its timeout."""
    for number in range(2):
        stamp = begin(log, "tx")
        action = rows(log, number, stamp=stamp)
        log.commit(lambda _, action=action: (action,))
    log.commit(lambda _: (ExpireTransaction(stamp, 5000),))
    first, second = transactions(log)
    assert (first.producer.number, first.commit, spans(first)) == (0, False, [("t", 0, 0, 0, 1)])
    assert (second.producer.number, second.commit, spans(second)) == (1, False, [("t", 0, 2, 2, 1)])


def test_what_was_refused_is_none(log):
    """A zombie's entry: its writer had not read yet that it was replaced."""
    zombie, stamp = begin(log, "tx"), begin(log, "tx")
    assert zombie.epoch < stamp.epoch
    late = Request(b"r" * 16, log.state.timestamp_ms, (EndTransaction(zombie, commit=True),), "zombie")
    seq = log.state.seq + 1
    name = paths.entry(seq, log.state.entries_per_folder)
    log.store.create(name, encode_entry(Entry(seq, (late,), log.state.lineage)))
    assert log.follow().seq == seq
    assert [*transactions(log)] == []


def test_micro_batches(log):
    def commit(batch_id):
        stamp = begin(log, "query")
        sources = (SourceProgress(f"{batch_id}" if batch_id else None, f"{batch_id + 1}"),)
        batch = CommitMicroBatch("query", "q-1", "run", batch_id, sources)
        actions = (
            InitProducer(stamp.producer_id, stamp.epoch + 1, "query", 1000, "run"),
            rows(log, batch_id, stamp=stamp._replace(epoch=stamp.epoch + 1)),
            batch,
            EndTransaction(stamp._replace(epoch=stamp.epoch + 1), commit=True),
        )
        log.commit(lambda _: actions)

    commit(0)
    (one,) = transactions(log)
    assert (one.transactional_id, one.query_id, one.batch_id, one.commit) == ("query", "q-1", 0, True)
    assert one.records == {"t": 1}


def test_repetitions_are_none(log):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    (staged,) = rows(log, 1).files
    staged = staged._replace(batches=tuple(one._replace(base_sequence=0) for one in staged.batches))
    topic = log.topic("t")
    action = AppendBatches(stamp, (("t", topic.topic_id),), (staged,))
    for _ in range(2):
        log.commit(lambda _: (action,))
    (one,) = transactions(log)
    assert (one.producer, one.transactional_id) == (stamp, None)


def test_what_is_no_transaction(log):
    offsets = CommitOffsets("g", (PartitionOffset("t", log.topic("t").topic_id, 0, 0),))
    log.commit(lambda _: (offsets,))
    log.commit(lambda _: (AlterLog((("producer.id.expiration.ms", "5"),)),))
    assert [*transactions(log)] == []


def test_transactions_of_a_topic_that_is_gone(whole):
    append(whole, 1)
    topic = whole.topic("t")
    whole.commit(lambda _: (DeleteTopic("t", topic.topic_id),))
    assert [one.records for one in transactions(whole)] == [{"t": 1}]


def test_only_what_is_retained_is_listed(log):
    append(log, *range(40))
    oldest = earliest(log).seq
    assert [one.seq for one in transactions(log)] == [*range(oldest + 1, 42)]
    assert [one.seq for one in transactions(log, 38, 39)] == [38, 39]
    assert [one.seq for one in transactions(log, 3, 1000)] == [*range(oldest + 1, 42)]


# -- What changed ----------------------------------------------------------------------------------------


def test_changes(log):
    first = log.state.seq
    topic = log.topic("t")
    append(log, 1, 2)
    stamp = begin(log, "tx")
    for commit, number in ((True, 0), (False, 1)):
        now = stamp._replace(number=number)
        actions = (
            rows(log, 5, stamp=now),
            CommitOffsets("g", (PartitionOffset("t", topic.topic_id, 1, 0),), now),
            EndTransaction(now, commit=commit),
        )
        log.commit(lambda _, actions=actions: actions)
    log.ensure_topic("u")
    found = changes(log, first, log.state.seq)
    assert [(one, pair[0]) for one, pair in found.topics.items()] == [("u", None)]
    assert [tuple(one) for one in found.partitions] == [
        ("t", 0, (0, 0, 0), (0, 6, 6), 3, 1),
        ("u", 0, None, (0, 0, 0), 0, 0),
    ]
    assert found.offsets == {("g", "t", 1): (None, 0)}
    assert found.producers == {0: (None, ("tx", 0, 1, "CompleteAbort"))}
    only = changes(log, first, log.state.seq, "u")
    assert ([*only.topics], len(only.partitions), only.offsets, only.producers) == (["u"], 1, {}, {})


def test_nothing_changed(log):
    append(log, 1)
    found = changes(log, 2, 2)
    assert (found.topics, found.partitions, found.offsets, found.producers) == ({}, [], {}, {})


def test_the_wrong_way_round(log):
    append(log, 1)
    with pytest.raises(InvalidRequestError, match="entry 2 comes after entry 1"):
        changes(log, 2, 1)


def test_changes_since_a_retired_entry(log):
    append(log, *range(40))
    with pytest.raises(InvalidRequestError, match="The earliest is entry"):
        changes(log, 3, 41)
