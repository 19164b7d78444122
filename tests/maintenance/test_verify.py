"""Verification: each kind of damage is found and named, caches are mended, and nothing is wrong beside writers."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from spark_eos.errors import (
    NotALogError,
    ObjectNotFoundError,
    StorePermissionError,
    UnsupportedVersionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.maintenance.reachability import page_names
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.verify import chain
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.actions import (
    AdvanceLogStart,
    AppendBatches,
    CommitOffsets,
    DeleteTopic,
    EndTransaction,
    Entry,
    ExpireOffsets,
    ExpireTransactionalIds,
    InitProducer,
    JoinGroup,
    LeaveGroup,
    PartitionOffset,
    ReplaceSegments,
    SyncGroup,
)
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.index_pages import checksum, decode_page, encode_page, seal_rows
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.index import Index, IndexPage, Measures
from spark_eos.protocol.invariants import InvariantError
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import Partition
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing.wrapped_store import WrappedStore
from tests.log.test_time_travel import Clock
from tests.maintenance.world import Watched
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def store(small_pages):  # noqa: ARG001  (all logs have them from the beginning)
    return MemoryStore()


@pytest.fixture(params=[True, False], ids=["retired", "whole"])
def log(store, request):
    """A log of 44 entries with snapshots after each fifth; all of them stand or none but entries are there."""
    log = created(store)
    if not request.param:
        log.maintenance._retirer.step = lambda *_: None
    append(log, *range(43))
    return log


@pytest.fixture
def whole(store):
    """The same with nothing retired, so that all of it can be replayed."""
    log = created(store)
    log.maintenance._retirer.step = lambda *_: None
    append(log, *range(43))
    return log


@pytest.fixture
def retired(store):
    """The same with old entries retired."""
    log = created(store)
    append(log, *range(43))
    assert not store.size(paths.entry(20, 7))
    return log


def created(store):
    log = Log.create(
        store,
        Clock(),
        Retry(deadline_s=10),
        snapshot_interval=5,
        config=RETIRED_AT_ONCE,
        entries_per_folder=7,
    )
    log.ensure_topic("t")
    return log


def append(log, *numbers, topic="t", stamp=NO_PRODUCER):
    topic = log.ensure_topic(topic)
    for number in numbers:
        with log.stage(topic) as writer:
            writer.append(pa.table({"value": [b"%d" % number]}), 0)
            files = writer.finish()
        action = AppendBatches(stamp, ((topic.name, topic.topic_id),), files)
        log.commit(lambda _, action=action: (action,))


def look(store, **options):
    """The findings as (verdict, name, text), and the summary."""
    found = []
    summary = verify(store, found.append, **options)
    assert {one.verdict for one in found} == {verdict for verdict, count in summary.found.items() if count}
    return [(one.verdict, one.name, one.text) for one in found], summary


def only(store, **options):
    """The one finding there is."""
    found, _ = look(store, **options)
    assert len(found) == 1, found
    return found[0]


def listed(store, prefix):
    return sorted(info.name for info in store.list(prefix))


def everything(store):
    return {info.name: store.read(info.name).to_pybytes() for info in store.list("")}


def flip(store, name, at=-1):
    data = bytearray(store.read(name).to_pybytes())
    data[at] ^= 1
    store.overwrite(name, data)


def newest(store):
    return listed(store, paths.SNAPSHOTS)[-1]


# -- Nothing is wrong ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("quick", [False, True])
def test_a_sound_log(store, quick):
    before = everything(store)
    found, summary = look(store, quick=quick, repair=True)
    assert (found, summary.is_sound, summary.last_entry) == ([], True, 44)
    assert (summary.records, summary.files, summary.partitions) == (43, 43, 1)
    assert summary.bytes == sum(info.size for info in store.list(paths.DATA))
    assert summary.snapshots == 2
    assert (summary.unreferenced_files, summary.unreferenced_index_pages) == (0, 0)
    assert everything(store) == before, "and nothing was changed"


@pytest.mark.usefixtures("retired")
def test_what_is_counted(store):
    _, summary = look(store)
    empty = [info.name for info in store.list(paths.LOG) if not info.size]
    assert summary.retired == len(empty) > 20
    assert summary.entries + summary.retired == 45
    assert summary.index_pages == len(listed(store, paths.INDEX))


def test_no_log(store):
    with pytest.raises(NotALogError, match="is not a log"):
        look(store)


@pytest.mark.usefixtures("whole")
def test_what_a_newer_version_wrote(store):
    data = bytearray(store.read(paths.entry(30, 7)).to_pybytes())
    data[7] = 99
    store.overwrite(paths.entry(30, 7), data)
    with pytest.raises(UnsupportedVersionError, match=r"00030\.avro has format version 99"):
        look(store)


def test_files_that_nobody_refers_to_are_counted(log, store):
    topic = log.topic("t")
    for name, body in (
        (paths.data_file("t", topic.topic_id, 3, "left"), b"12345"),
        ("data/other-id/00000000000000000001-x.arrow", b"1"),
        (f"{paths.INDEX}{topic.topic_id}/0/0-x.avro", b"1"),
    ):
        store.create(name, body)
    found, summary = look(store)
    assert found == []
    assert (summary.unreferenced_files, summary.unreferenced_bytes) == (2, 6)
    assert summary.unreferenced_index_pages == 1


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("lost", [1, 3])
def test_the_last_entries_are_missing(store, lost):
    """Files that were begun when the log was longer say that it was, or that it may have been."""
    for seq in range(44 - lost + 1, 45):
        store.delete(paths.entry(seq, 7))
    found, summary = look(store)
    (text,) = [text for verdict, _, text in found if verdict is Verdict.NOTE and "data file" in text]
    assert summary.is_sound
    if lost == 1:
        assert "1 data files were begun after it, and no entry refers to them" in text
    else:
        assert "the entries from 42 to 43 are missing" in text


def test_a_snapshot_that_is_not_there_yet(store):
    log = created(store)
    log.does_maintenance = False
    append(log, *range(10))
    assert only(store)[:2] == (Verdict.NOTE, paths.snapshot(10))
    done = []
    watched = Watched(store, lambda *call: done.append(call))
    assert only(watched, repair=True)[0] is Verdict.REPAIRED
    assert done.index(("ensure_durable", paths.entry(10, 7))) < done.index(("create", paths.snapshot(10)))
    assert look(store)[0] == []
    assert Log.open(store).state == log.state
    assert look(store)[1].snapshots == 1


def test_rows_before_the_start_have_no_files_any_more(retired, store):
    files = listed(store, paths.DATA)
    topic = retired.topic("t")
    retired.commit(lambda _: (AdvanceLogStart((PartitionOffset("t", topic.topic_id, 0, 2),)),))
    assert look(store)[1].is_sound
    for name in files:
        if int(name.rpartition("/")[2][:20]) <= 3:
            store.delete(name)
    found, summary = look(store)
    assert (found, summary.records) == ([], 41)


def test_offsets_behind_the_end_are_worth_a_note(log, store):
    topic = log.topic("t")
    for group, offset in (("at the end", 43), ("g", 44)):
        at = (PartitionOffset("t", topic.topic_id, 0, offset),)
        log.commit(lambda _, group=group, at=at: (CommitOffsets(group, at),))
    assert only(store) == (Verdict.NOTE, "group g", "has committed offset 44 for t-0, which ends at 43")


# -- Entries ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("seq", [1, 33, 40, 43, 44])
def test_a_damaged_entry(store, seq):
    flip(store, paths.entry(seq, 7))
    found, _ = look(store, repair=True)
    wrong = [one for one in found if one[0] is Verdict.WRONG]
    assert [(name, "is damaged" in text) for _, name, text in wrong] == [(paths.entry(seq, 7), True)]
    assert ("only looked at" in wrong[0][2]) is (seq > 40), "no snapshot stands for it"


@pytest.mark.usefixtures("retired")
def test_an_entry_that_a_snapshot_stands_for(store):
    flip(store, paths.entry(39, 7))
    verdict, name, text = only(store, repair=True)
    assert (verdict, name) == (Verdict.WRONG, paths.entry(39, 7))
    assert "is damaged" in text


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("seq", [9, 36, 42])
def test_a_missing_entry(store, seq):
    store.delete(paths.entry(seq, 7))
    verdict, name, text = only(store, repair=True)
    assert (verdict, name) == (Verdict.WRONG, paths.entry(seq, 7))
    assert "is missing" in text


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("gone", [(41, 42), (42, 43)])
def test_several_missing_entries(store, gone):
    for seq in gone:
        store.delete(paths.entry(seq, 7))
    found, _ = look(store)
    assert [name for _, name, _ in found] == [paths.entry(seq, 7) for seq in gone]


@pytest.mark.usefixtures("whole")
def test_a_missing_entry_next_to_the_last_one(store):
    """No entry is put after one that is not durable: it was removed."""
    store.delete(paths.entry(43, 7))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.WRONG, paths.entry(43, 7))
    assert "is missing; what comes after it cannot be applied" in text


@pytest.mark.usefixtures("whole")
def test_damage_behind_damage(store):
    for seq in (41, 43):
        flip(store, paths.entry(seq, 7))
    found, _ = look(store)
    assert [name for _, name, _ in found] == [paths.entry(41, 7), paths.entry(43, 7)]


@pytest.mark.usefixtures("retired")
@pytest.mark.parametrize("gone", [True, False])
def test_the_first_entry(store, gone):
    if gone:
        store.delete(paths.entry(0))
    else:
        flip(store, paths.entry(0))
    found, _ = look(store)
    assert [(verdict, name) for verdict, name, _ in found] == [(Verdict.WRONG, paths.entry(0))]


@pytest.mark.usefixtures("whole")
def test_an_entry_that_is_empty_before_its_time(store):
    store.retire(paths.entry(20, 7))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.WRONG, paths.entry(20, 7))
    assert "from the oldest on" in text


@pytest.mark.usefixtures("whole")
def test_entries_that_are_back_before_retired_ones(store):
    for seq in (20, 21, 22):
        store.retire(paths.entry(seq, 7))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.NOTE, paths.entry(19, 7))
    assert "a power cut or a copy" in text


@pytest.mark.usefixtures("retired")
def test_an_empty_entry_that_no_snapshot_stands_for(store):
    store.retire(paths.entry(42, 7))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.WRONG, paths.entry(42, 7))
    assert "no good snapshot stands for it" in text


@pytest.mark.usefixtures("retired")
def test_a_retired_name_that_is_free_again(store):
    store.delete(paths.entry(20, 7))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.WRONG, paths.entry(20, 7))
    assert "its name is free" in text


@pytest.mark.usefixtures("retired")
def test_the_oldest_names_may_be_deleted_for_good(store):
    for seq in range(1, 21):
        store.delete(paths.entry(seq, 7))
    assert look(store)[0] == []


@pytest.mark.usefixtures("retired")
def test_what_a_power_cut_brought_back(store):
    append(other := created(MemoryStore()), 0)
    for seq in (15, 16):
        body = other.store.read(paths.entry(1)).to_pybytes()
        entry = Entry(seq, chain.decode_entry(body, 1, "").requests)
        store.overwrite(paths.entry(seq, 7), encode_entry(entry))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.NOTE, paths.entry(15, 7))
    assert "and 1 others are not retired" in text


@pytest.mark.usefixtures("whole")
def test_an_entry_of_another_history(store):
    """A process has written it that slept while the log was put back. What lies behind it is looked at."""
    name = paths.entry(37, 7)
    entry = decode_entry(store.read(name), 37, name)
    store.overwrite(name, encode_entry(entry._replace(previous=bytes(16))))
    flip(store, paths.snapshot(40))
    found = [(verdict, at, text.split(":")[0]) for verdict, at, text in look(store)[0]]
    assert (Verdict.WRONG, name, "is of another history") in found
    assert [at for verdict, at, _ in found if verdict is Verdict.WRONG] == [name, paths.snapshot(40)]


@pytest.mark.usefixtures("log")
def test_a_step_that_breaks_a_rule(store, monkeypatch):
    """Each entry is checked by itself, from the first one on that is not retired."""
    checked = []

    def apply_checked(state, entry):
        checked.append(entry.seq)
        if entry.seq == 42:
            raise InvariantError("the moon fell down")
        return apply_entry(state, entry)

    monkeypatch.setattr(chain, "apply_checked", apply_checked)
    assert only(store) == (
        Verdict.WRONG,
        paths.entry(42, 7),
        "leads to an impossible state: the moon fell down",
    )
    assert checked[-5:] == [40, 41, 42, 43, 44]


@pytest.mark.usefixtures("log")
def test_a_quick_look_checks_from_boundary_to_boundary(store, monkeypatch):
    steps = []

    def check_later(before, after):
        steps.append((before.seq, after.seq))
        if before.seq < 42 <= after.seq:
            raise InvariantError("the moon fell down")

    monkeypatch.setattr(chain, "check_later", check_later)
    _, name, text = only(store, quick=True)
    assert (name, text) == (paths.entry(44, 7), "leads to an impossible state: the moon fell down")
    assert all(a in {b, end} for (_, end), (a, b) in pairwise(steps)), "none is left out"
    assert steps[-1] == (40, 44)


def written_anew(log, transaction):
    log.commit(lambda _: (EndTransaction(transaction, True),))
    assert list(Roller(log, tail_rows=1).run())


def deleted(log, transaction):
    log.commit(lambda _: (EndTransaction(transaction, True),))
    topic = log.topic("t")
    log.commit(lambda _: (DeleteTopic("t", topic.topic_id),))


def forgotten(log, transaction):
    log.commit(lambda _: (EndTransaction(transaction, False), LeaveGroup("g", ("m",))))
    log.clock.now += 10 * 24 * 3_600_000
    log.commit(lambda _: (ExpireTransactionalIds(("tx",)), ExpireOffsets("g", ())))
    log.commit(lambda _: (JoinGroup("g", "n", ("t",), ("range",), 50),))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("what", [written_anew, deleted, forgotten])
def test_what_was_open_at_a_boundary_and_is_gone_at_the_next(store, quick, what):
    """A quick look sees an open transaction go, or a group with its members: all between is not there for it."""
    log = created(store)
    log.maintenance._retirer.step = lambda *_: None
    append(log, 0, 1)
    log.commit(lambda state: (InitProducer(state.next_producer_id, 0, "tx", 60_000),))
    log.commit(lambda _: (JoinGroup("g", "m", ("t",), ("range",), 50), SyncGroup("g", "m", 1)))
    producer = log.state.producer_of("tx").stamp
    transaction = producer._replace(number=producer.number + 1)
    append(log, 2, 3, stamp=transaction)
    append(log, *range(9))
    what(log, transaction)
    append(log, *range(6), topic="u")
    found, summary = look(store, quick=quick)
    assert found == []
    assert summary.entries == log.state.seq + 1, "nothing is left out"


# -- Snapshots -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("log")
def test_a_damaged_snapshot_is_written_anew(store):
    before = everything(store)
    flip(store, newest(store))
    verdict, name, text = only(store)
    assert (verdict, name) == (Verdict.WRONG, newest(store))
    assert "is damaged" in text
    assert only(store, repair=True)[:2] == (Verdict.REPAIRED, name)
    assert everything(store) == before


@pytest.mark.usefixtures("log")
def test_a_snapshot_that_says_something_else(store):
    before = everything(store)
    state = decode_snapshot(store.read(newest(store)), 40, "")
    store.overwrite(newest(store), encode_snapshot(state._replace(next_producer_id=7)))
    verdict, name, text = only(store)
    assert (verdict, name, text) == (
        Verdict.WRONG,
        newest(store),
        "holds another state than the one that its entries lead to",
    )
    only(store, repair=True)
    assert everything(store) == before


@pytest.mark.usefixtures("retired")
def test_a_missing_snapshot_is_written_anew(store):
    before = everything(store)
    store.delete(newest(store))
    assert only(store)[0] is Verdict.NOTE, "the one before it is as good"
    assert only(store, repair=True)[:2] == (Verdict.REPAIRED, paths.snapshot(40))
    assert everything(store) == before


@pytest.mark.usefixtures("retired")
def test_a_damaged_snapshot_whose_entries_are_retired(store):
    before = everything(store)
    oldest = listed(store, paths.SNAPSHOTS)[0]
    flip(store, oldest)
    found, summary = look(store, repair=True)
    assert [(verdict, name) for verdict, name, _ in found] == [(Verdict.WRONG, oldest)]
    assert summary.last_entry == 44
    flip(store, oldest)
    assert everything(store) == before


@pytest.mark.usefixtures("retired")
def test_no_good_snapshot(store):
    for name in listed(store, paths.SNAPSHOTS):
        flip(store, name)
    found, summary = look(store, repair=True)
    assert [name for _, name, _ in found][:3] == [*listed(store, paths.SNAPSHOTS), paths.entry(1)]
    assert "no good snapshot stands for it" in found[2][2]
    assert summary.entries == 45 - sum(not info.size for info in store.list(paths.LOG)), "all others decode"
    remedies = []
    verify(store, lambda finding: remedies.append(finding.remedy))
    assert all(remedy.startswith("put it back from a copy") for remedy in remedies[:2]), (
        "none stands for another"
    )


# -- Pages ----------------------------------------------------------------------------------------------


@pytest.mark.deep("retired-missing", "whole-damaged")
@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("gone", [True, False], ids=["missing", "damaged"])
def test_every_page(store, gone):
    """Each one is missed; and rewritten, byte for byte, if its entries are there."""
    before = everything(store)
    anew = 0
    for name in listed(store, paths.INDEX):
        if gone:
            store.delete(name)
        else:
            flip(store, name, 30)
        found, _ = look(store)
        assert [(verdict, at) for verdict, at, _ in found] == [(Verdict.WRONG, name)], name
        assert "is missing" in found[0][2] if gone else "is damaged" in found[0][2]
        verdict, at, _ = only(store, repair=True)
        if verdict is Verdict.REPAIRED:
            anew += 1
        else:
            assert (verdict, at) == (Verdict.WRONG, name)
            store.overwrite(name, before[name])
        assert everything(store) == before
    retired = not store.size(paths.entry(1))
    assert 0 < anew < len(listed(store, paths.INDEX)) if retired else anew == len(listed(store, paths.INDEX))


def test_pages_that_were_joined_since(whole, store):
    """The newest snapshot refers to them, and the log by now only to the page that they are in."""
    whole.does_maintenance = False
    append(whole, *range(43, 80))
    (then,) = decode_snapshot(store.read(newest(store)), 40, "").partitions.values()
    (now,) = whole.state.partitions.values()
    joined = [page for page in then.index.pages if page not in now.index.pages]
    assert joined
    for page in joined:
        body = store.read(paths.page(page)).to_pybytes()
        store.delete(paths.page(page))
        assert (Verdict.WRONG, paths.page(page), "is missing") in look(store)[0]
        store.create(paths.page(page), body)


@pytest.mark.usefixtures("whole")
def test_a_page_with_other_rows(store):
    """Its bytes are whole, but they are not those of this page."""
    first, second = listed(store, paths.INDEX)[:2]
    before = everything(store)
    store.overwrite(first, before[second])
    assert "holds another page" in only(store)[2]
    only(store, repair=True)
    assert everything(store) == before


@pytest.mark.usefixtures("retired")
@pytest.mark.parametrize("field", ["rows", "bytes", "time"])
def test_sums_that_are_wrong(store, field):
    """What a state says of a page that it does not hold itself."""
    name = listed(store, paths.SNAPSHOTS)[0]
    store.delete(newest(store))
    seq = paths.snapshot_seq(name)
    state = decode_snapshot(store.read(name), seq, "")
    ((key, partition),) = state.partitions.items()
    *head, rows, size, newest_ms, crc = partition.index.pages[0].identity
    rows, size, newest_ms = rows + (field == "rows"), size + (field == "bytes"), newest_ms + (field == "time")
    page = IndexPage(*head, rows, Measures(size, newest_ms, crc))
    index = Index((page, *partition.index.pages[1:]), partition.index.tail)
    changed = state._replace(partitions=state.partitions.set(key, Partition(0, partition.end, index)))
    store.overwrite(name, encode_snapshot(changed))
    wrong = [one for one in look(store)[0] if one[0] is Verdict.WRONG]
    assert [(at, "but the log says" in text) for _, at, text in wrong] == [(paths.page(page), True)]


@pytest.mark.usefixtures("retired")
def test_a_page_with_a_hole(store):
    """All sums are right, and an offset in the middle is in none of its rows."""
    name = listed(store, paths.SNAPSHOTS)[0]
    store.delete(newest(store))
    seq = paths.snapshot_seq(name)
    state = decode_snapshot(store.read(name), seq, "")
    ((key, partition),) = state.partitions.items()
    *pages, page = partition.index.pages
    first, second, *others = decode_page(store.read(paths.page(page)), page, "")
    rows = first, second._replace(base_offset=second.base_offset + 1, count=0), *others
    holed = seal_rows(key, rows)
    store.create(paths.page(holed), encode_page(rows))
    index = Index((*pages, holed), partition.index.tail)
    changed = state._replace(partitions=state.partitions.set(key, Partition(0, partition.end, index)))
    store.overwrite(name, encode_snapshot(changed))
    texts = [
        text for verdict, at, text in look(store)[0] if (verdict, at) == (Verdict.WRONG, paths.page(holed))
    ]
    assert texts == [f"has a hole at offset {second.base_offset}"]


# -- Data ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("log")
def test_a_missing_file(store):
    name = listed(store, paths.DATA)[7]
    store.delete(name)
    for quick in (False, True):
        verdict, at, text = only(store, repair=True, quick=quick)
        assert (verdict, at, text) == (Verdict.WRONG, name, "is missing (t-0, offset 7)")


@pytest.mark.usefixtures("log")
def test_a_file_that_is_cut_off(store):
    name = listed(store, paths.DATA)[7]
    data = store.read(name).to_pybytes()
    store.overwrite(name, data[:-1])
    for quick in (False, True):
        assert only(store, quick=quick)[1:] == (
            name,
            f"has {len(data) - 1} bytes, not {len(data)} (t-0, offset 7)",
        )


def test_a_damaged_batch(log, store):
    name = listed(store, paths.DATA)[42]
    row = log.state.partitions[log.topic("t").topic_id, 0].index.tail[-1]
    assert row.file.name == name
    flip(store, name, row.batch.position + 20)
    verdict, at, text = only(store, repair=True)
    assert (verdict, at) == (Verdict.WRONG, name)
    assert "CRC32C is" in text
    assert "offset 42" in text
    assert look(store, quick=True)[0] == []


@pytest.mark.usefixtures("whole")
def test_a_file_that_may_not_be_read_does_not_end_it(store):
    name = listed(store, paths.DATA)[0]

    def deny(operation, at):
        if (operation, at) == ("read", name):
            raise StorePermissionError(f"{at}: cannot read")

    found, summary = look(Watched(store, deny))
    assert [(verdict, at) for verdict, at, _ in found] == [(Verdict.UNREAD, name)]
    assert (summary.unread_files, summary.files) == (1, 43)
    assert not summary.is_sound


def test_a_file_of_many_batches_is_told_once(store):
    log = created(store)
    log.ensure_topic("many", 3)
    topic = log.topic("many")
    with log.stage(topic) as writer:
        for partition in range(3):
            writer.append(pa.table({"value": [b"x"]}), partition)
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, (("many", topic.topic_id),), files),))
    assert look(store)[1].files == 1

    def deny(operation, at):
        if (operation, at) == ("read", files[0].file.name):
            raise StorePermissionError(f"{at}: cannot read")

    assert [verdict for verdict, *_ in look(Watched(store, deny))[0]] == [Verdict.UNREAD]
    store.delete(files[0].file.name)
    assert "many-0, offset 0" in only(store)[2]


# -- Beside others ---------------------------------------------------------------------------------------


class Meanwhile(WrappedStore):
    """Does something, once, right before a name with this beginning is read."""

    def __init__(self, inner, prefix, act, on="read"):
        super().__init__(inner)
        self.prefix, self.act, self.on = prefix, act, on

    def _call(self, operation, name, effect):
        if self.act is not None and operation == self.on and name.startswith(self.prefix):
            act, self.act = self.act, None
            act()
        return effect()


SEQS = [*range(1, 36, 3), *range(36, 45)]


@pytest.mark.deep(
    *[f"{call}-{seq}" for call in ("read", "size") for seq in SEQS if seq % 3 != 1 or 1 < seq < 31]
)
@pytest.mark.parametrize("seq", SEQS)
@pytest.mark.parametrize("call", ["read", "size"])
def test_beside_a_writer_that_retires(store, seq, call):
    """Wherever verification is, a writer adds entries, drops snapshots and retires entries up to far behind it."""
    log = created(store)
    append(log, *range(43))
    meanwhile = Meanwhile(store, paths.entry(seq, 7), lambda: append(log, *range(43, 70)), call)
    found, summary = look(meanwhile)
    assert [one for one in found if one[0] is Verdict.WRONG] == []
    assert summary.records + summary.retired >= 40


def test_beside_a_writer_that_stores_the_next_snapshot(whole, store):
    def go_on():
        append(whole, *range(43, 46))
        for name in listed(store, paths.SNAPSHOTS)[:-1]:
            store.delete(name)

    assert look(Meanwhile(store, paths.entry(44, 7), go_on))[0] == []
    assert listed(store, paths.SNAPSHOTS) == [paths.snapshot(45)]


@pytest.mark.usefixtures("retired")
def test_beside_one_that_deletes_the_names_of_retired_entries(store):
    def delete():
        for seq in range(1, 6):
            store.delete(paths.entry(seq, 7))

    assert look(Meanwhile(store, paths.entry(5, 7), delete, "size"))[0] == []
    assert paths.entry(5, 7) not in listed(store, paths.ENTRIES)


@pytest.mark.parametrize("prefix", [paths.DATA, paths.INDEX, paths.SNAPSHOTS])
def test_beside_a_topic_that_is_deleted_and_vacuumed(log, store, prefix):
    def vanish():
        topic = log.topic("t")
        log.commit(lambda _: (DeleteTopic("t", topic.topic_id),))
        for name in (*listed(store, paths.DATA), *listed(store, paths.INDEX)):
            store.delete(name)

    found, summary = look(Meanwhile(store, prefix, vanish))
    if prefix == paths.SNAPSHOTS:
        return  # A vacuum looks at what snapshots refer to, too.
    assert [one for one in found if one[0] is Verdict.WRONG] == []
    assert summary.is_sound


@pytest.mark.parametrize("prefix", [paths.DATA, paths.INDEX])
def test_beside_segments_that_are_written_anew(retired, store, prefix):
    """All sealed rows go into one file, and the old files and pages are vacuumed."""

    def roll():
        topic = retired.topic("t")
        partition = retired.state.partitions[topic.topic_id, 0]
        pages = partition.index.pages
        end = pages[-1].next_offset
        old = [row for row in partition.index.scan(0, retired.load) if row.next_offset <= end]
        with retired.stage(topic) as writer:
            writer.append(pa.table({"value": [b"%d" % n for n in range(end)]}), 0)
            (staged,) = writer.finish()
        row = old[0]._replace(
            count=end, file=staged.file, batch=staged.batches[0], max_timestamp_ms=old[-1].max_timestamp_ms
        )
        action = ReplaceSegments("t", topic.topic_id, 0, 0, end, checksum(pages), (row,))
        retired.commit(lambda _: (action,))
        for one in old:
            store.delete(one.file.name)
        append(retired, *range(43, 60))
        needed = set(page_names(retired.state, retired.load))
        for name in listed(store, paths.INDEX):
            if name not in needed:
                store.delete(name)

    found, _ = look(Meanwhile(store, prefix, roll))
    assert found == []
    found, summary = look(store)
    assert (found, summary.records) == ([], 60)
    assert summary.files < 30


def test_a_file_that_is_gone_for_good_beside_a_writer(log, store):
    name = listed(store, paths.DATA)[3]
    store.delete(name)
    meanwhile = Meanwhile(store, paths.DATA, lambda: append(log, *range(43, 60)))
    assert [at for _, at, _ in look(meanwhile)[0]] == [name]


@pytest.mark.usefixtures("log")
def test_progress(store):
    told = []
    look(store, progress=lambda what, done, of: told.append((what, done, of)))
    batches = [(done, of) for what, done, of in told if what == "batches"]
    assert batches == [(number, 43) for number in range(1, 44)]
    assert ("entries", 44, 44) in told


def test_it_reads_what_is_there_and_nothing_else(store):
    with pytest.raises(ObjectNotFoundError):
        store.read(paths.entry(0))
    with pytest.raises(NotALogError):
        verify(store, print)
    assert listed(store, "") == []
