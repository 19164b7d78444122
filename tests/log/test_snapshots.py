"""Snapshots, retired entries, and the share of maintenance that writers do."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    CorruptRecordError,
    InvalidTxnStateError,
    NotALogError,
    ObjectExistsError,
    StorePermissionError,
    StoreUnavailableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit.closing import close_after
from spark_eos.log.commit.tail import Tail
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.log.snapshots.index_store import IndexPageStore
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.protocol.actions import (
    AlterLog,
    AppendBatches,
    CommitMicroBatch,
    DeleteTopic,
    EndTransaction,
    InitProducer,
)
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, TopicPartition
from spark_eos.storage import PosixStore
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.maintenance.sparse_world import Clock
from tests.maintenance.world import Watched
from verification.retiring import RETIRED_AT_ONCE

from .fakes import FakeClock, create

pytestmark = pytest.mark.usefixtures("small_pages")

AT = TopicPartition("t", 0)


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    return created(store)


def created(store, name=b"a"):
    log = Log.create(
        store,
        Clock(name),
        Retry(deadline_s=10),
        snapshot_interval=5,
        config=RETIRED_AT_ONCE,
        entries_per_folder=7,
    )
    log.ensure_topic("t")
    return log


def another(store, name=b"b"):
    """Another process."""
    return Log.open(getattr(store, "inner", store), Clock(name), Retry(deadline_s=10))


def append(log, *numbers):
    topic = log.topic("t")
    for number in numbers:
        with log.stage(topic) as writer:
            writer.append(pa.table({"value": [b"%d" % number]}), 0)
            files = writer.finish()
        action = AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), files)
        log.commit(lambda _, action=action: (action,))


def values(log):
    state = log.state
    end = state.partitions[state.topics["t"].topic_id, 0].end
    fetches = plan(state, AT, 0, end, Isolation.READ_COMMITTED, log.load)
    topic = log.topic("t")
    return [int(v) for fetch in fetches for v in log.read(topic, fetch).column("value").to_pylist()]


def listed(store, prefix):
    return sorted(info.name for info in store.list(prefix))


def retired(store):
    return sorted(
        info.name
        for info in store.list(paths.LOG)
        if not info.size and not info.name.startswith(paths.SNAPSHOTS)
    )


def test_entries_lie_in_folders(log, store):
    log.does_maintenance = False
    append(log, *range(14))
    assert store.size("_log/00000000000000000006.avro")
    assert store.size("_log/000000000001/00000000000000000007.avro")
    assert store.size("_log/000000000002/00000000000000000014.avro")
    assert paths.entry(99_999_999) == "_log/00000000000099999999.avro", "as in the first logs"


def test_whoever_creates_the_boundary_stores_a_snapshot(log, store):
    append(log, *range(3))
    assert listed(store, paths.SNAPSHOTS) == []
    append(log, 3)
    assert (log.state.seq, listed(store, paths.SNAPSHOTS)) == (5, [paths.snapshot(5)])
    assert newest_snapshot(store).seq == 5


@pytest.mark.parametrize("name", [paths.SNAPSHOTS, paths.INDEX])
def test_what_was_refused_and_is_not_there_is_not_taken_for_stored(log, store, name):
    store.inject(ObjectExistsError("conflict"), "create", f"{name}*")
    append(log, *range(20))
    assert newest_snapshot(store).seq == 20
    assert values(another(store)) == [*range(20)]


@pytest.mark.parametrize("fault", [Fault.DUPLICATE, Fault.FAIL_AFTER])
def test_what_met_itself_is_stored(log, store, fault):
    store.inject(fault, "create", f"{paths.SNAPSHOTS}*")
    append(log, *range(6))
    assert [paths.snapshot_seq(name) for name in listed(store, paths.SNAPSHOTS)] == [5]
    assert values(another(store)) == [*range(6)]


def test_what_is_sealed_is_dropped_from_memory_and_read_again(log, store):
    append(log, *range(40))
    pages = log.state.partitions[log.topic("t").topic_id, 0].index.pages
    assert [page.content for page in pages] == [None] * len(pages)
    assert {page.level for page in pages} >= {1, 0}
    assert values(log) == [*range(40)]
    store.journal.clear()
    assert values(log) == [*range(40)]
    assert store.count("read", f"{paths.INDEX}*") == 0, "a second time from memory"


def test_of_pages_those_that_were_read_last_stay_in_memory(log, store):
    append(log, *range(40))
    first, second = log.state.partitions[log.topic("t").topic_id, 0].index.pages[:2]
    pages = IndexPageStore(store, cached_rows=1)
    for page in (first, second):
        pages.load(page)
    store.journal.clear()
    pages.load(second)
    assert store.count("read") == 0
    pages.load(first)
    assert store.count("read") == 1


def test_a_log_is_opened_from_its_snapshot(log, store):
    append(log, *range(21))
    opened = another(store)
    assert opened.state == log.state
    assert values(opened) == [*range(21)]
    counted = FaultyStore(store.inner)
    Log.open(counted)
    # The snapshot, its two entries behind it, the free slot.
    assert counted.count("read") <= 4
    assert counted.count("list") == 1


@pytest.mark.parametrize("count", [2, 200])
def test_opening_a_log_lists_its_snapshots_once(log, store, count):
    """With and without a snapshot; without one also the few entries (`spark_eos.log.commit.gaps`)."""
    append(log, *range(count))
    lists = []

    looking = Watched(store, lambda operation, name: lists.append(name) if operation == "list" else None)
    assert Log.open(looking, log.clock).state.seq == log.state.seq
    assert lists == [paths.SNAPSHOTS] + [paths.ENTRIES] * (log.state.seq < log.state.snapshot_interval)


def test_few_snapshots_stay(log, store):
    append(log, *range(40))
    assert len(listed(store, paths.SNAPSHOTS)) == 2


def test_entries_are_retired_behind_the_newest_snapshot_but_one(log, store):
    append(log, *range(40))
    newest = newest_snapshot(store).seq
    assert paths.entry(0, 7) not in retired(store), "it says what log this is"
    gone = retired(store)
    assert gone == sorted(paths.entry(seq, 7) for seq in range(1, len(gone) + 1))
    assert newest - 5 >= len(gone) > 20
    assert values(another(store)) == [*range(40)]


def test_a_reader_that_slept_goes_on(log, store):
    append(log, 0)
    sleeper = another(store)
    append(log, *range(1, 40))
    assert sleeper.state.seq == 2
    assert sleeper.follow() == log.state
    assert values(sleeper) == [*range(40)]


def test_what_is_in_entries_that_were_passed_over_is_not_known(log, store):
    """Else a leader would take along once more what is in one of them."""
    append(log, 0)
    tail = Tail(store)
    slot = tail.follow().seq + 1
    assert tail.ids_from(slot) == set()
    append(log, *range(1, 40))
    assert tail.follow() == log.state
    assert tail.ids_from(slot) is None


def test_a_writer_that_slept_goes_on(log, store):
    append(log, 0)
    sleeper = another(store)
    append(log, *range(1, 40))
    append(sleeper, 40)
    log.follow()
    assert values(log) == [*range(41)]
    assert sleeper.state == log.state


# -- In doubt about a slot that was retired --------------------------------------------------------------


@pytest.fixture
def doubtful(log, store):
    """Commits something without hearing of its fate, sleeps until the entry is retired, and asks again.

    ``for_hours``: until a snapshot covers the entry, which is not retired while an older transaction is open.
    """

    def doubt(request, fault=Fault.FAIL_AFTER, *, for_hours=False):
        ours = FaultyStore(store.inner)
        sleeper = Log.open(ours, Clock(b"c"), Retry(deadline_s=0))
        actions = request(sleeper)
        ours.inject(fault, "create", "_log/*")
        with pytest.raises(CommitOutcomeUnknownError) as unknown:
            sleeper.commit(lambda _: actions)
        slot = paths.entry(sleeper.state.seq + 1)
        append(log, *range(40))
        log.maintenance.snapshot()  # Not only what the thread in the background came to.
        log.maintenance.retire(log.state, 1000)
        if for_hours:
            sleeper.clock.now += 7200  # Longer than `Environment.away_s`.
        else:
            assert store.size(slot) == 0, "it is retired"
        return lambda: sleeper.commit(lambda _: actions, request_id=unknown.value.request_id)

    return doubt


class Refused:
    """Its ``action`` passes until it is called; it leaves no trace by which it could be told."""

    def __init__(self, log):
        self._log = log
        self.action = DeleteTopic("late", log.ensure_topic("late").topic_id)

    def __call__(self):
        self._log.commit(lambda _: (self.action,))


@pytest.fixture
def refused(log):
    return Refused(log)


def rows(log, producer=NO_PRODUCER, sequence=-1):
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"99"]}), 0)
        (staged,) = writer.finish()
    batches = tuple(batch._replace(base_sequence=sequence) for batch in staged.batches)
    return AppendBatches(producer, ((topic.name, topic.topic_id),), (staged._replace(batches=batches),))


BOTH = pytest.mark.parametrize(("fault", "landed"), [(Fault.FAIL_AFTER, True), (Fault.LOST, False)])


@BOTH
def test_rows_without_a_producer_stay_in_doubt(log, doubtful, fault, landed):
    again = doubtful(lambda sleeper: (rows(sleeper),), fault)
    for _ in range(2):
        with pytest.raises(CommitOutcomeUnknownError, match="retired"):
            again()
    log.follow()
    assert values(log).count(99) == landed


@BOTH
def test_sequences_tell(log, doubtful, fault, landed):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    again = doubtful(lambda sleeper: (rows(sleeper, stamp, 0),), fault)
    (appended,) = again().results[0]
    assert appended.duplicate is landed
    log.follow()
    assert values(log).count(99) == 1


@BOTH
@pytest.mark.parametrize("ahead", [False, True], ids=["the newest transaction", "an older one"])
def test_transaction_numbers_tell(log, doubtful, fault, landed, ahead):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),)).results
    stamp = stamp._replace(number=0)

    again = doubtful(lambda sleeper: (rows(sleeper, stamp), EndTransaction(stamp, commit=True)), fault)
    if ahead and landed:
        log.commit(lambda _: (EndTransaction(stamp._replace(number=1), commit=True),))
        with pytest.raises(CommitOutcomeUnknownError):
            again()
    else:
        assert bool(again().results) is not landed
    log.follow()
    assert values(log).count(99) == 1


@BOTH
def test_a_successor_s_transaction_of_the_same_number_tells_nothing(log, doubtful, fault, landed):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),)).results
    ours = stamp._replace(number=0)
    again = doubtful(lambda sleeper: (rows(sleeper, ours), EndTransaction(ours, commit=True)), fault)
    (heir,) = log.commit(lambda _: (InitProducer(0, 1, "tx", 1000),)).results
    theirs = heir._replace(number=int(landed))
    log.commit(lambda _: (EndTransaction(theirs, commit=True),))
    with pytest.raises(CommitOutcomeUnknownError):
        again()
    log.follow()
    assert values(log).count(99) == landed


def test_a_transaction_that_was_aborted_since_was_not_committed(log, doubtful):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),)).results
    ours = stamp._replace(number=0)
    again = doubtful(lambda sleeper: (rows(sleeper, ours), EndTransaction(ours, commit=True)), Fault.LOST)
    log.commit(lambda _: (EndTransaction(ours, commit=False),))
    with pytest.raises(InvalidTxnStateError, match="CompleteAbort"):
        again()
    log.follow()
    assert values(log).count(99) == 0


def test_a_transaction_that_is_still_open_was_not_committed(log, doubtful, refused):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),)).results
    ours = stamp._replace(number=0)
    log.commit(lambda _: (rows(log, ours),))
    again = doubtful(
        lambda _: (EndTransaction(ours, commit=True), refused.action), Fault.LOST, for_hours=True
    )
    refused()
    with pytest.raises(UnknownTopicOrPartitionError):
        again()


@BOTH
def test_a_successor_s_sequences_tell_nothing(log, doubtful, fault, landed):
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),)).results
    ours = stamp._replace(number=0)
    again = doubtful(lambda sleeper: (rows(sleeper, ours, 0),), fault, for_hours=True)
    (heir,) = log.commit(lambda _: (InitProducer(0, 1, "tx", 1000),)).results
    theirs = heir._replace(number=int(landed))
    log.commit(lambda _: (rows(log, theirs, 0),))
    with pytest.raises(CommitOutcomeUnknownError):
        again()


# -- Query runs ------------------------------------------------------------------------------------------


def run(name, epoch=0, batch_id=0, stage=None):
    """All that the first batch of a query run commits; ``stage`` is a log to write rows to, if there are some."""
    stamp = ProducerStamp(0, epoch, epoch)
    return (
        InitProducer(0, epoch, "q", 1000, name),
        *(() if stage is None else (rows(stage, stamp),)),
        *batch(name, stamp, batch_id),
    )


def batch(name, stamp, batch_id):
    return CommitMicroBatch("q", "query", name, batch_id, ()), EndTransaction(stamp, commit=True)


def count(log):
    log.follow()
    return values(log).count(99)


@BOTH
def test_a_run_tells_by_its_name(log, doubtful, fault, landed):
    again = doubtful(lambda sleeper: run("ours", stage=sleeper), fault)
    assert bool(again().results) is not landed
    assert count(log) == 1


def test_a_run_that_took_over_tells_by_its_name_after_its_successor(log, doubtful):
    again = doubtful(lambda sleeper: run("ours", stage=sleeper))
    log.commit(lambda _: run("theirs", 1, 1))
    assert not again().results
    assert count(log) == 1


@pytest.mark.parametrize("name", ["ours", None], ids=["a run", "a client"])
@pytest.mark.parametrize("theirs", ["theirs", None], ids=["by a run", "by a client"])
def test_an_epoch_that_others_have_taken_tells_nothing(log, doubtful, name, theirs):
    """Nor do the number and the batch, which are the same as well."""
    ours = InitProducer(0, 0, "q", 1000, name)
    end = EndTransaction(ProducerStamp(0, 0, 0), commit=True)
    again = doubtful(lambda _: (ours, end), Fault.LOST)
    log.commit(lambda _: (ours._replace(run_id=theirs), end))
    with pytest.raises(CommitOutcomeUnknownError):
        again()


def test_rows_of_a_run_whose_epoch_another_has_taken_are_not_in(log, doubtful):
    again = doubtful(lambda sleeper: run("ours", stage=sleeper), Fault.LOST)
    log.commit(lambda _: run("theirs"))
    with pytest.raises(CommitOutcomeUnknownError):
        again()
    assert count(log) == 0


def test_an_epoch_that_was_not_reached_was_not_taken(log, doubtful, refused):
    log.commit(lambda _: run("first"))
    again = doubtful(lambda _: (InitProducer(0, 1, "q", 1000, "ours"), refused.action), Fault.LOST)
    refused()
    with pytest.raises(UnknownTopicOrPartitionError):
        again()


@BOTH
def test_a_micro_batch_tells_while_its_run_is_the_current_one(log, doubtful, fault, landed):
    log.commit(lambda _: run("ours"))
    stamp = ProducerStamp(0, 0, 1)
    again = doubtful(lambda sleeper: (rows(sleeper, stamp), *batch("ours", stamp, 1)), fault)
    assert bool(again().results) is not landed
    assert count(log) == 1


@BOTH
def test_a_micro_batch_of_another_run_is_not_taken_for_ones_own(log, doubtful, fault, landed):
    log.commit(lambda _: run("ours"))
    stamp = ProducerStamp(0, 0, 1)
    again = doubtful(lambda sleeper: (rows(sleeper, stamp), *batch("ours", stamp, 1)), fault)
    number = 1 + landed
    heir = InitProducer(0, 1, "q", 1000, "theirs")
    log.commit(lambda _: (heir, *batch("theirs", ProducerStamp(0, 1, number), number)))
    with pytest.raises(CommitOutcomeUnknownError):
        again()
    assert count(log) == landed


def test_a_micro_batch_that_was_not_reached_was_not_committed(log, doubtful, refused):
    log.commit(lambda _: run("ours"))
    progress = CommitMicroBatch("q", "query", "ours", 1, ())
    again = doubtful(lambda _: (progress, refused.action), Fault.LOST)
    refused()
    with pytest.raises(UnknownTopicOrPartitionError):
        again()


def test_a_transaction_that_was_not_reached_was_not_committed(log, doubtful, refused):
    log.commit(lambda _: run("ours"))
    end = EndTransaction(ProducerStamp(0, 0, 1), commit=True)
    again = doubtful(lambda _: (end, refused.action), Fault.LOST)
    refused()
    with pytest.raises(UnknownTopicOrPartitionError):
        again()


def test_a_micro_batch_of_another_query_tells_nothing(log, doubtful, refused):
    log.commit(lambda _: run("ours"))
    progress = CommitMicroBatch("q", "another query", "ours", 0, ())
    again = doubtful(lambda _: (progress, refused.action), Fault.LOST)
    refused()
    with pytest.raises(CommitOutcomeUnknownError):
        again()


@BOTH
def test_a_topic_tells_by_its_id(log, doubtful, fault, landed):
    again = doubtful(create("u"), fault)
    assert bool(again().results) is not landed
    assert log.follow().topics["u"].topic_id == "id-of-u"


def test_a_topic_of_the_same_name_tells_nothing(log, doubtful):
    again = doubtful(create("u"), Fault.LOST)
    log.ensure_topic("u")
    with pytest.raises(CommitOutcomeUnknownError):
        again()


def test_what_may_be_done_twice_is_done_again(log, doubtful):
    settings = (("metadata.max.retention.ms", "1"), ("producer.id.expiration.ms", "5"))
    again = doubtful(lambda _: (AlterLog(settings),))
    again()
    assert dict(log.follow().config) == {"metadata.max.retention.ms": "1", "producer.id.expiration.ms": "5"}


def test_a_no_to_what_may_have_been_done_is_no_answer(log, doubtful):
    topic_id = log.ensure_topic("u").topic_id
    again = doubtful(lambda _: (DeleteTopic("u", topic_id),))
    with pytest.raises(CommitOutcomeUnknownError):
        again()


@BOTH
def test_what_may_be_in_a_log_that_was_closed_since_stays_in_doubt(log, store, doubtful, fault, landed):
    """In an open log it would be done again: "nothing of this call is in it" may be wrong."""
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    again = doubtful(lambda sleeper: (rows(sleeper, stamp, 0),), fault)
    assert values(log).count(99) == landed
    close_after(store.inner, log.state)
    with pytest.raises(CommitOutcomeUnknownError, match="closed") as unknown:
        again()
    assert unknown.value.is_final


@pytest.mark.parametrize("known", [True, False], ids=["with a number", "without a producer"])
def test_who_met_a_taken_slot_and_slept_does_not_take_it_for_anothers(log, store, known):
    """It was its own: the library below had sent the create twice."""
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    ours = FaultyStore(store.inner)
    sleeper = Log.open(ours, Clock(b"c"), Retry(deadline_s=10))
    action = rows(sleeper, stamp, 0) if known else rows(sleeper)
    slot = paths.entry(log.state.seq + 1, 7)

    tried = []

    def sleep(operation, name):
        tried.append((operation, name))
        if tried[-1] == ("read", slot) and ("create", slot) in tried:
            ours.before = lambda *_: None
            append(log, *range(40))

    ours.inject(Fault.DUPLICATE, "create", "_log/*")
    ours.before = sleep
    if known:
        (appended,) = sleeper.commit(lambda _: (action,)).results[0]
        assert appended.duplicate
    else:
        with pytest.raises(CommitOutcomeUnknownError, match="retired"):
            sleeper.commit(lambda _: (action,))
    log.follow()
    assert values(log).count(99) == 1


def test_a_store_that_goes_away_does_not_make_no_of_what_an_unread_entry_may_hold(log, store):
    """The first create was done; its entry was retired before it was read. The second one is never sent."""
    (stamp,) = log.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    ours = FaultyStore(store.inner)
    sleeper = Log.open(ours, Clock(b"c"), Retry(deadline_s=0))
    action = rows(sleeper, stamp, 0)
    slot = paths.entry(log.state.seq + 1, 7)

    tried = []

    def sleep(operation, name):
        tried.append((operation, name))
        if tried[-1] == ("read", slot) and ("create", slot) in tried:
            ours.before = lambda *_: None
            append(log, *range(40))
            ours.inject(Fault.FAIL_BEFORE, "create", "_log/*")

    ours.inject(Fault.DUPLICATE, "create", "_log/*")
    ours.before = sleep
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        sleeper.commit(lambda _: (action,))
    log.follow()
    assert values(log).count(99) == 1
    (appended,) = sleeper.commit(lambda _: (action,), request_id=unknown.value.request_id).results[0]
    assert appended.duplicate


def test_what_an_earlier_call_sent_is_not_another_s_though_the_store_says_so_of_this_one(log, store):
    ours = FaultyStore(store.inner)
    ours.has_exact_conflicts = True
    sleeper = Log.open(ours, Clock(b"c"), Retry(deadline_s=0))
    action = rows(sleeper)
    ours.inject(Fault.DELAYED, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        sleeper.commit(lambda _: (action,))
    ((_, slot),) = ours.delayed

    def sleep(operation, name):
        if (operation, name) == ("create", slot):
            ours.before = lambda *_: None
            ours.release()
            append(log, *range(40))

    ours.before = sleep
    with pytest.raises(CommitOutcomeUnknownError, match="retired"):
        sleeper.commit(lambda _: (action,), request_id=unknown.value.request_id)
    assert count(log) == 1


@pytest.mark.parametrize("is_older", [False, True])
def test_retired_entries_without_a_snapshot_are_damage(log, store, is_older):
    append(log, *range(10))
    older = paths.snapshot(10)
    body = store.inner.read(older)
    sleeper = another(store)
    append(log, *range(10, 40))
    for name in listed(store, paths.SNAPSHOTS):
        store.inner.delete(name)
    if is_older:
        store.inner.create(older, body)
    with pytest.raises(CorruptRecordError, match="is retired, but no snapshot stands for it"):
        sleeper.follow()
    with pytest.raises(CorruptRecordError, match="is retired, but no snapshot"):
        another(store)


def test_a_damaged_snapshot_is_passed_over(log, store, caplog):
    append(log, *range(21))
    name = listed(store, paths.SNAPSHOTS)[-1]
    data = bytearray(store.inner.read(name).to_pybytes())
    data[-1] ^= 1
    store.inner.overwrite(name, data)
    with caplog.at_level(logging.WARNING):
        assert another(store).state == log.state
    assert f"{name} is damaged" in caplog.text


def test_a_snapshot_of_another_entry_is_passed_over(log, store, caplog):
    append(log, *range(21))
    older, newest = listed(store, paths.SNAPSHOTS)[-2:]
    store.inner.overwrite(newest, store.inner.read(older))
    with caplog.at_level(logging.WARNING):
        assert another(store).state == log.state
    assert f"{newest} is the state after entry" in caplog.text


def test_a_damaged_page_is_named(log, store):
    append(log, *range(21))
    name = listed(store, paths.INDEX)[0]
    data = bytearray(store.inner.read(name).to_pybytes())
    data[30] ^= 1
    store.inner.overwrite(name, data)
    with pytest.raises(CorruptRecordError, match=name):
        values(another(store))


def test_maintenance_never_fails_a_commit(log, store, caplog):
    store.inject(StoreUnavailableError("away"), "create", f"{paths.SNAPSHOTS}*", times=None)
    with caplog.at_level(logging.WARNING):
        append(log, *range(12))
    assert "maintenance of the log failed" in caplog.text
    assert listed(store, paths.SNAPSHOTS) == []
    assert values(log) == [*range(12)]
    store.heal()
    append(log, *range(12, 60))
    assert listed(store, paths.SNAPSHOTS)
    assert values(another(store)) == [*range(60)]


def test_after_an_error_maintenance_rests(log, store):
    """Not every commit asks a store that has refused."""
    store.inject(StoreUnavailableError("away"), "create", f"{paths.SNAPSHOTS}*")
    append(log, *range(4))
    refused = log.clock.now
    append(log, *range(4))
    assert log.clock.now < refused + 30
    assert listed(store, paths.SNAPSHOTS) == []
    log.clock.now = refused + 30
    append(log, 9)
    assert listed(store, paths.SNAPSHOTS)


def test_a_writer_that_may_not_delete_stores_snapshots_all_the_same(log, store, caplog):
    store.inject(StorePermissionError("no right"), "delete", f"{paths.SNAPSHOTS}*", times=None)
    append(log, *range(40))
    assert listed(store, paths.SNAPSHOTS) == [paths.snapshot(seq) for seq in range(5, 45, 5)]
    assert retired(store)
    assert "maintenance of the log failed" not in caplog.text


@pytest.mark.parametrize("due", ["entries", "snapshot"])
def test_a_log_that_was_put_in_the_place_of_this_one_is_left_alone(log, store, due):
    """A process sleeps between its commit and its maintenance, and finds a folder in which another log is by now."""
    if due == "entries":
        append(log, *range(20))
        log.does_maintenance = False
        append(log, *range(6))
        log.maintenance.snapshot()
        assert log.maintenance.look(log.state)[1], "there is something to be retired"
    else:
        log.does_maintenance = False
        append(log, *range(20))
        assert log.maintenance.look(log.state)[0], "there is a snapshot to be stored"
    for info in list(store.inner.list("")):
        store.inner.delete(info.name)
    append(created(store.inner, b"z"), *range(40))
    before = {info.name: store.inner.read(info.name) for info in store.inner.list("")}
    log.clock.now += 2
    log.maintenance.run_slice(log.state)
    for asked in (log.maintenance.snapshot, lambda: log.maintenance.retire(log.state, 9)):
        with pytest.raises(NotALogError, match="not there any more: open it again"):
            asked()
    assert {info.name: store.inner.read(info.name) for info in store.inner.list("")} == before


def test_no_snapshot_before_its_pages(log, store):
    store.inject(StoreUnavailableError("away"), "create", f"{paths.INDEX}*", times=None)
    append(log, *range(12))
    assert listed(store, paths.SNAPSHOTS) == []


def test_the_entry_is_durable_before_the_snapshot_of_it(log, store):
    append(log, *range(4))
    done = [(call.operation, call.name) for call in store.journal]
    assert done.index(("ensure_durable", paths.entry(5, 7))) < done.index(("create", paths.snapshot(5)))


def test_who_finds_that_the_last_one_did_not_stores_the_next(log, store):
    log.does_maintenance = False
    reader = another(store)
    append(log, *range(5))
    reader.follow()
    append(log, *range(5, 10))
    reader.follow()
    assert listed(store, paths.SNAPSHOTS) == []
    append(reader, 10)
    assert listed(store, paths.SNAPSHOTS) == [paths.snapshot(10)]


def test_followers_drop_what_others_have_stored(log, store):
    reader = another(store)
    for number in range(40):
        append(log, number)
        reader.follow()
    pages = reader.state.partitions[log.topic("t").topic_id, 0].index.pages
    assert sum(page.content is not None for page in pages) <= 2
    assert values(reader) == [*range(40)]


def test_nothing_is_done_without_time_to_do_it(store):
    log = Log.create(store, FakeClock(), snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.ensure_topic("t")
    append(log, *range(20))
    assert listed(store, paths.SNAPSHOTS) == retired(store) == []


def test_it_can_be_switched_off(log, store):
    log.does_maintenance = False
    append(log, *range(20))
    assert listed(store, paths.SNAPSHOTS) == retired(store) == []


def test_retired_names_share_an_inode_in_a_folder(tmp_path):
    store = PosixStore(tmp_path / "log")
    log = created(store)
    append(log, *range(40))
    paths = [tmp_path / "log" / name for name in retired(store)]
    assert len(paths) > 10
    assert len({path.stat().st_ino for path in paths}) == 1
    assert values(another(store)) == [*range(40)]


def test_another_empty_file_before_one_has_too_many_names(tmp_path, monkeypatch):
    real = os.link

    def link(source, *args, **kwargs):
        if Path(source).stat().st_nlink >= 5:
            raise OSError(31, "too many links")
        return real(source, *args, **kwargs)

    monkeypatch.setattr(os, "link", link)
    store = PosixStore(tmp_path / "log")
    log = created(store)
    append(log, *range(40))
    inodes = [(tmp_path / "log" / name).stat() for name in retired(store)]
    assert len(inodes) > 10
    assert all(one.st_nlink <= 5 for one in inodes)
    assert values(another(store)) == [*range(40)]


def test_the_log_is_the_same_with_and_without():
    """Byte for byte: what was sealed and written down by one is what another gets from all entries."""
    stores = [MemoryStore(), MemoryStore()]
    states = []
    for number, store in enumerate(stores):
        log = created(store)
        log.does_maintenance = number == 0
        append(log, *range(33))
        states.append(log.state)
    assert states[0] == states[1]
    assert listed(stores[0], paths.SNAPSHOTS)
    assert not listed(stores[1], paths.SNAPSHOTS)
