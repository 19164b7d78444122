"""Several processes that write at once: a request that is handed over is in once, or not, and its owner knows."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    IllegalStateError,
    InvalidRequestError,
    ProducerFencedError,
    StoreFullError,
    TopicExistsError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit import group
from spark_eos.log.commit.entry_builder import EntryBuilder, PendingCommit
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.tail import ClockReading
from spark_eos.log.log import Log
from spark_eos.log.topics import schema_of
from spark_eos.maintenance.compaction import Compactor
from spark_eos.protocol.actions import (
    AlterTopic,
    CommitOffsets,
    CreateTopic,
    DeleteTopic,
    EndTransaction,
    Entry,
    InitProducer,
    PartitionOffset,
    Request,
)
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.rules.fate import Fate
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import ProducerStamp
from spark_eos.spark.merging import merge_columns
from spark_eos.storage import PosixStore
from spark_eos.storage.group_channel import FileGroupChannel
from spark_eos.testing import FaultyStore
from tests.maintenance.sparse_world import World, seen, small_pages

from .fakes import FakeClock, create

pytestmark = pytest.mark.usefixtures("timeless_folders")


class Clock(FakeClock):
    """A process's own: no other process has its ids."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def unique(self):
        return self.name + super().unique()[1:]


class Process:
    """A log of its own, under contention, on the store that all share."""

    in_folder = PosixStore

    def __init__(self, folder, name):
        self.store = FaultyStore(self.in_folder(folder))
        self.clock = Clock(name)
        self.log = Log.open_or_create(self.store, self.clock, Retry(deadline_s=10))
        self.log.does_maintenance = False
        self.group = self.log._committer._group
        self.waits = []
        self.clock.on_sleep = self.wait

    def wait(self):
        """At its first wait the first thing happens, and so on; then it would wait for ever."""
        assert self.waits, "it waits for nobody"
        self.waits.pop(0)()

    def join(self):
        self.group.note_contention()
        assert self.group.is_contended
        return self

    def lead(self):
        self.join()
        assert self.group.try_lead()
        return self

    def does(self, *proposals):
        """To be done while another one waits; it leads all the time."""
        return lambda: [self.log.commit(one) and self.lead() for one in proposals]

    @property
    def created(self):
        return [call.name for call in self.store.journal if call.operation == "create"]


@pytest.fixture
def start(tmp_path):
    return lambda name: Process(tmp_path / "log", name)


def entries(process):
    store = process.store.inner
    log = Log.open(store)
    found = [decode_entry(store.read(paths.entry(n, 100_000)), n, "entry") for n in range(log.state.seq + 1)]
    return found[1:]


def writers(process):
    return ["".join(chr(one.request_id[0]) for one in entry.requests) for entry in entries(process)]


def test_requests_of_two_processes_in_one_entry(leader, other):
    other.waits = [leader.does(create("x"))]
    done = other.log.commit(create("y"))
    assert writers(leader) == ["ab"]
    assert done.seq == 1
    assert done.results == (None,)
    assert "x" in done.state.topics
    assert "y" in done.state.topics
    assert not other.created, "it has written nothing but what it handed over"


def test_alone_nothing_of_it_is_used(start, tmp_path):
    alone = start(b"a")
    alone.log.commit(create("x"))
    assert not list((tmp_path / "log" / "_tmp").iterdir())


def test_whoever_loses_a_slot_has_group(start):
    one, other = start(b"a"), start(b"b")
    one.log.commit(create("x"))
    assert not other.group.is_contended
    other.log.commit(create("y"))
    assert other.group.is_contended
    other.clock.now += 2
    assert not other.group.is_contended


def test_whoever_wins_every_slot_hears_of_those_who_lose_them(leader, start):
    """It sees no entries of others: they would lose for ever if it did not come to meet them."""
    winner = start(b"c")
    winner.waits = [leader.does(create("x"))]
    winner.log.commit(create("y"))
    assert writers(leader) == ["ac"]


def commits(process, letter, count):
    for number in range(count):
        process.log.commit(create(f"{letter}{number}"))


def test_a_leader_that_is_of_no_use_to_others_commits_alone_again(leader):
    commits(leader, "a", group.QUIET_ENTRIES - 1)
    assert leader.group.is_contended
    commits(leader, "b", 1)
    assert not leader.group.is_contended
    before = leader.store.inner.group_channel(leader.log.state.log_id).published(leader.log.state.seq)
    assert before is not None, "as a leader it announces its entries"
    commits(leader, "c", 1)
    assert leader.group._channel.published(leader.log.state.seq) is None


def test_a_leader_that_others_wait_for_goes_on(leader, other):
    """What it cannot take along, because the rules say no, waits too."""
    other.waits = [lambda: commits(leader, "a", group.QUIET_ENTRIES + 1)]
    taken = CreateTopic("a0", "other", 1)
    with pytest.raises(TopicExistsError):
        other.log.commit(lambda _: (taken,))
    leader.lead()
    assert other.group.submit([Request(b"b" * 16, 0, (taken,))])
    commits(leader, "b", 2 * group.QUIET_ENTRIES)
    assert leader.group.is_contended


def test_another_that_takes_the_lead_is_met_again(leader, start):
    alone = start(b"c")
    leader.group.release_lead()
    commits(alone, "a", group.QUIET_ENTRIES + 1)
    assert not alone.group.is_contended, "it has led itself since"
    leader.lead()
    led = leader.group._channel._led_ns + 10_000_000  # The file system's clock may be a slow one.
    os.utime(leader.group._channel._lead_path, ns=(led, led))
    assert alone.group.is_contended


def test_while_a_leader_sleeps_no_new_wait_for_it_begins(other):
    other.waits = [lambda: None] * 1000
    commits(other, "a", 1)
    began = other.clock.now
    other.group.note_contention()
    commits(other, "b", 2 * group.QUIET_ENTRIES)
    other.group.note_contention()  # It loses a slot to another that goes without the leader.
    commits(other, "c", 1)
    assert other.clock.now == began


def test_nobody_loses_patience_with_a_leader_who_loses(leader, other):
    """A faster process does not announce anything; but the leader tries once more, and is heard."""

    def in_vain():
        other.clock.now += 0.9 * group.LEADER_TIMEOUT_S
        leader.group.release_lead()
        leader.lead()
        led = other.group._led + 10_000_000  # The file system's clock may be a slow one.
        os.utime(leader.group._channel._lead_path, ns=(led, led))

    other.waits = [in_vain, in_vain, in_vain, leader.does(create("x"))]
    other.log.commit(create("y"))
    assert writers(leader) == ["ab"]


def handed_over_anew(process):
    """After how many slots that others took it hands over again what it has handed over, and waits for."""
    waiting, handed = Request(b"b" * 16, 0, (CreateTopic("y", "id-of-y", 1),)), []
    channel = process.group._channel
    submit = channel.submit
    channel.submit = lambda data: handed.append(data) or submit(data)
    for slots in range(100):
        assert process.group.submit([waiting], process.log.state.seq + slots)
        if len(handed) == 2:
            return slots
    return None


def test_what_waits_is_not_handed_over_anew_for_each_slot(other):
    assert handed_over_anew(other) == group.REMEMBERED // 2


def test_it_leads_when_the_leader_goes(leader, other):
    other.waits = [leader.group.release_lead]
    other.log.commit(create("y"))
    assert writers(leader) == ["b"]


def test_it_leads_when_the_leader_left_it_out(leader, other):
    """Who leads may have looked before it was handed over."""

    def too_early():
        handed = leader.group._channel.submissions
        leader.group._channel.submissions = lambda: iter(())
        leader.log.commit(create("x"))
        leader.group._channel.submissions = handed

    other.waits = [too_early]
    other.log.commit(create("y"))
    assert writers(leader) == ["a", "b"]


def test_nothing_is_taken_along_twice(leader, other):
    other.waits = [
        leader.does(create("x"), lambda s: (DeleteTopic("y", s.topics["y"].topic_id),), create("z"))
    ]
    other.log.commit(create("y"))
    assert writers(leader) == ["ab", "a", "a"]


def test_nothing_is_taken_along_by_who_has_forgotten_what_was_written(leader, other, monkeypatch, start):
    monkeypatch.setattr("spark_eos.log.commit.tail.REMEMBERED", 1)
    forgetful = start(b"c")
    forgotten = [create("x"), lambda s: (DeleteTopic("y", s.topics["y"].topic_id),)]

    def later():
        leader.group.release_lead()
        forgetful.lead().does(create("z"))()

    other.waits = [lambda: (leader.does(*forgotten)(), later())]
    other.log.commit(create("y"))
    assert writers(leader) == ["ab", "a", "c"]


def test_who_is_left_out_because_of_the_rules_is_told(leader, other):
    other.waits = [leader.does(lambda _: (CreateTopic("x", "first", 1),)), leader.group.release_lead]
    other.log.clock.now += 60
    with pytest.raises(TopicExistsError):
        other.log.commit(lambda _: (CreateTopic("x", "second", 1),))
    found = entries(leader)
    assert [one.actions for one in found[1].requests] == [()], "a slot is filled to know that it is in none"
    assert writers(leader) == ["a", "b"]
    assert other.log.state == Log.open(other.store.inner).state, (
        "who filled it has the state that readers have"
    )
    assert other.log.commit(create("y")).seq == 3


def found_and_slept(leader, other, meanwhile):
    """A leader who has found what was handed over, and writes it when ``other`` tries to fill the slot."""
    found = []

    def find():
        found.extend(leader.group._channel.submissions())
        handed = leader.group._channel.submissions
        leader.group._channel.submissions = lambda: iter(())
        meanwhile()
        leader.group._channel.submissions = handed
        leader.group.release_lead()

    create_ = other.store.create

    def create_after(name, data):
        if found:
            offered = found.pop()
            taken = decode_entry(offered[8:], int.from_bytes(offered[:8], "big"), "offer").requests
            seq = other.log.state.seq + 1
            leader.store.inner.create(paths.entry(seq, 100_000), encode_entry(Entry(seq, taken)))
        create_(name, data)

    other.store.create = create_after
    other.waits = [find]


def once(name):
    """A proposal that does not want to be the second one."""

    def propose(state):
        if "x" in state.topics:
            raise IllegalStateError("x is there")
        return (CreateTopic(name, f"id-of-{name}", 1),)

    return propose


def test_what_was_found_before_it_was_taken_back_is_known_to_be_in(leader, other):
    found_and_slept(leader, other, lambda: leader.log.commit(create("x")))
    done = other.log.commit(once("y"))
    assert writers(leader) == ["a", "b"]
    assert done.seq == 2
    assert "y" in done.state.topics


def test_what_others_can_find_is_looked_for_though_a_slot_was_lost(leader, other, start, monkeypatch):
    """It leads in the end, and loses its slot; and a leader that slept writes what it found in the one after."""
    outsider, found, looks = start(b"c"), [], []
    monkeypatch.setattr(FileGroupChannel, "leader_token", lambda _: 0)

    def go():
        found.extend(leader.group._channel.submissions())
        leader.group.release_lead()

    def before(operation, _name):
        if operation == "create" and outsider.log.state.seq == 0:
            outsider.log.commit(create("x"))

    def look(name):
        if name == paths.entry(2, 100_000):
            looks.append(name)
            if len(looks) == 2:
                taken = decode_entry(found[0][8:], 1, "offer").requests
                other.store.inner.create(name, encode_entry(Entry(2, taken)))
        return identity(name)

    identity = other.store.inner.identity
    other.store.inner.identity = look
    other.store.before = before
    other.waits = [go]
    other.log.commit(create("y"))
    assert writers(leader) == ["c", "b"]
    assert len(looks) > 1


def test_what_is_done_by_another_is_no_answer_while_ones_own_may_land(leader, other):
    found_and_slept(leader, other, lambda: leader.log.commit(create("x")))
    done = other.log.commit(lambda s: () if "x" in s.topics else once("y")(s))
    assert done.seq == 2
    assert done.results == (None,), "its own, not another's"


def test_in_doubt_if_the_slot_cannot_be_filled(leader, other):
    def full():
        leader.does(create("x"))()
        leader.group.release_lead()
        other.store.before = refuse

    def refuse(operation, name):
        if operation == "create":
            raise StoreFullError(f"{name}: no space left")

    other.waits = [full]
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        other.log.commit(lambda _: (CreateTopic("x", "second", 1),))
    assert isinstance(unknown.value.__cause__, TopicExistsError)
    other.store.before = lambda *_: None
    with pytest.raises(TopicExistsError):
        other.log.commit(lambda _: (CreateTopic("x", "second", 1),), request_id=unknown.value.request_id)


def test_what_could_not_be_taken_back_is_in_doubt(leader, other):
    other.waits = [leader.does(lambda _: (CreateTopic("x", "first", 1),)), leader.group.release_lead]
    other.group._channel.withdraw = lambda: False
    with pytest.raises(CommitOutcomeUnknownError):
        other.log.commit(lambda _: (CreateTopic("x", "second", 1),))


def test_what_was_submitted_is_in_doubt_when_the_log_was_put_back(leader, other, start):
    """A leader of the history that is there now has taken it along, though this process saw that it was left out."""

    def left_out():
        submissions = leader.group._channel.submissions
        leader.group._channel.submissions = lambda: iter(())
        leader.does(create("x"))()
        leader.group._channel.submissions = submissions

    def put_back():
        leader.group.release_lead()
        leader.store.inner.delete(paths.entry(1, 100_000))
        successor = start(b"c").lead()
        successor.log.commit(create("z"))
        successor.group.release_lead()

    other.waits = [left_out, put_back]
    with pytest.raises(CommitOutcomeUnknownError, match="were exchanged under this process"):
        other.log.commit(create("y"))
    assert writers(leader) == ["cb"]


def test_what_was_being_handed_over_when_somebody_interrupted_is_taken_back(leader, other):
    hand_over = other.group._channel.submit

    def interrupted(data):
        hand_over(data)
        raise KeyboardInterrupt

    other.group._channel.submit = interrupted
    with pytest.raises(KeyboardInterrupt):
        other.log.commit(create("y"))
    assert not list(leader.group._channel.submissions()), "nobody would wait for the answer"


def test_a_leader_that_sleeps_is_waited_for_once(leader, other):
    other.waits = [lambda: None] * 1000
    began = other.clock.now
    other.log.commit(create("x"))
    assert group.LEADER_TIMEOUT_S < other.clock.now - began < 1.1 * group.LEADER_TIMEOUT_S
    began = other.clock.now
    for name in "yz":
        other.join().log.commit(create(name))
    assert other.clock.now == began
    leader.group.release_lead()
    other.join().log.commit(create("u"))
    assert leader.group.try_lead()


def test_who_went_without_a_leader_meets_the_others_again_when_one_is_heard_of(leader, other):
    """It is never free where many write: a process that has lost patience once would lose every slot from then on."""
    other.waits = [lambda: None] * 1000
    other.log.commit(create("x"))
    leader.log.commit(create("y"))
    leader.lead()
    other.waits = [leader.does(create("z")), leader.group.release_lead]
    other.join().log.commit(create("u"))
    assert writers(leader) == ["b", "a", "ab"]


def test_of_a_leader_that_sleeps_the_others_say_nothing(other, start):
    """The one that the fixture has made leads all the time."""
    third = start(b"c").join()
    third.waits = [lambda: None] * 1000
    other.waits = [lambda: third.log.commit(create("u"))] + [lambda: None] * 1000
    began = other.clock.now
    other.log.commit(create("x"))
    assert other.clock.now - began < 1.1 * group.LEADER_TIMEOUT_S
    assert "".join(writers(other)) == "cb"


def test_an_entry_that_was_announced_is_not_read_where_reading_is_slow(leader, other, monkeypatch):
    for one in (leader, other):
        monkeypatch.setattr(one.store, "requests_are_free", False)
    other.waits = [leader.does(create("x"))]
    other.store.journal.clear()
    other.log.commit(create("y"))
    assert [call.operation for call in other.store.journal] == []


def test_an_announcement_that_is_damaged_is_no_news(leader, other, monkeypatch):
    for one in (leader, other):
        monkeypatch.setattr(one.store, "requests_are_free", False)
    monkeypatch.setattr(leader.group._channel, "published", lambda seq: b"nonsense" if seq == 1 else None)
    assert leader.group.catch_up() == -1


def test_who_was_beaten_reads_no_further_than_to_where_others_announce(leader, start, monkeypatch):
    """Where a read takes as long as a create it would never get to the end."""
    late = start(b"c")
    monkeypatch.setattr(FileGroupChannel, "leader_token", lambda _: 0)
    for one in (leader, late):
        monkeypatch.setattr(one.store, "requests_are_free", False)
    for name in "xyz":
        leader.lead().log.commit(create(name))
    leader.group.release_lead()
    late.store.journal.clear()
    late.log.commit(create("c"))
    read = [call.name for call in late.store.journal if call.operation == "read"]
    looked_at, beaten_by = paths.entry(0, 100_000), paths.entry(1, 100_000)
    assert read == [looked_at, beaten_by], "the rest was announced"
    assert writers(leader) == ["a", "a", "a", "c"]


def test_who_was_told_of_an_entry_does_not_sync_it(leader, other):
    other.waits = [leader.does(create("x"))]
    other.log.commit(create("y"))
    assert not [call for call in other.store.journal if call.operation == "ensure_durable"]


def test_what_does_not_fit_any_more_is_asked_for_again(leader, other):
    """The proposal depends on the state: the leader leaves out what was proposed on an older one."""

    def propose(state):
        wanted = max(int(name[1:]) for name in state.topics) + 1 if state.topics else 0
        return (CreateTopic(f"n{wanted}", f"id-{wanted}-b", 1),)

    leader.group.release_lead()
    leader.lead().log.commit(lambda _: (CreateTopic("n0", "id-0-a", 1),))
    leader.lead()
    other.waits = [
        leader.does(lambda _: (CreateTopic("n1", "id-1-a", 1),)),
        leader.does(lambda s: (AlterTopic("n0", s.topics["n0"].topic_id, 2),)),
        leader.does(lambda s: (AlterTopic("n0", s.topics["n0"].topic_id, 3),)),
    ]
    other.log.commit(propose)
    assert writers(leader) == ["a", "a", "a", "ab"]
    assert other.log.state.topics["n2"].topic_id == "id-2-b"


def test_what_is_to_follow_the_state_it_saw_is_never_handed_over(leader, other):
    """A leader would add it to a state on which the proposal was not called."""
    seen = []

    def propose(state):
        seen.append({*state.topics})
        return create("y")(state)

    leader.log.commit(create("x"))
    leader.lead()
    done = other.log.commit(propose, alone=True)
    assert seen[-1] == {"x"}, "the state before its entry"
    assert {*done.state.topics} == {"x", "y"}
    assert writers(leader) == ["a", "b"], "an entry of its own"
    assert not other.log._parts.in_doubt.ids


def test_what_is_to_follow_the_state_it_saw_keeps_what_another_thread_writes_with_it():
    tickets = [PendingCommit(create("x"), bytes(16), "", is_alone) for is_alone in (True, False)]
    drafts = [EntryBuilder(EMPTY, ClockReading(0, 0), some) for some in (tickets, tickets[1:])]
    assert [draft.is_alone for draft in drafts] == [True, False]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda admin, name: admin.alter_topic("t", config={name: 5}), ("retention.ms", "segment.ms")),
        (
            lambda admin, name: admin.alter_log({name: 5}),
            ("producer.id.expiration.ms", "transactional.id.expiration.ms"),
        ),
    ],
)
def test_of_settings_that_two_change_at_once_none_is_lost(leader, other, change, names):
    """An entry has all settings: of those that were read before it, another process may have changed some."""
    leader.log.commit(create("t"))
    other.log.follow()
    leader.lead()
    other.waits = [lambda: (change(Admin(leader.log), names[0]), leader.lead())]
    change(Admin(other.log), names[1])
    for wait in other.waits:
        wait()
    state = other.log.follow()
    changed = {**state.config, **state.topics["t"].config}
    assert {name: changed.get(name) for name in names} == dict.fromkeys(names, "5")


@pytest.mark.parametrize("call", ["shift", "delete"])
def test_a_group_is_changed_from_where_it_stands_by_then(leader, other, call):
    """A shift begins there, and a deletion says what it has deleted: no leader adds them to another state."""
    Admin(leader.log).create_topic("t", 2)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    Admin(leader.log).alter_group_offsets("g", {first: 0})
    with Producer(leader.log) as producer:
        producer.send("t", b"x", partition=0).result()
    other.log.follow()
    leader.lead()

    def commit():
        Admin(leader.log).alter_group_offsets("g", {first: 1, second: 0})
        leader.lead()

    other.waits = [commit]
    if call == "shift":
        assert Admin(other.log).reset_group_offsets("g", [first], shift_by=0) == {first: 0}
    else:
        assert Admin(other.log).delete_group_offsets("g", ["t"]) == [first]
    for wait in other.waits:
        wait()
    stands = Admin(other.log).list_group_offsets("g")
    assert {at: committed.offset for at, committed in stands.items()} == {first: 1, second: 0}


def test_rows_that_were_compacted_by_other_keys_are_not_taken_along(start, tmp_path):
    """Rows of one key in the one column are of different keys in the other one."""
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "key.columns": "a"}
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with small_pages():
        world = World(PosixStore(tmp_path / "log"), config=config, schema=schema, maintenance=False)
        for number in range(10):
            world.append(pa.table({"a": [number % 3], "b": [number]}))
        leader, other = start(b"a").lead(), start(b"b").join()

        def alter():
            Admin(leader.log).alter_topic("t", config={"key.columns": "b"})
            leader.lead()

        other.waits = [alter, leader.does(create("x"))]
        Compactor(other.log).run()
        is_first = bool(other.waits)
        other.log.follow()
        left = [value for _, value in seen(other.log, column="b")]
        assert len(left) < 10 if is_first else left == [*range(10)]


def test_a_column_that_a_frame_has_more_does_not_take_the_place_of_another_one(leader, other):
    Admin(leader.log).create_topic("t", schema=pa.schema([("a", pa.int64())]))
    topic = other.log.follow().topics["t"]
    leader.lead()

    def merge(process, name):
        frame = t.StructType([t.StructField("a", t.LongType()), t.StructField(name, t.LongType())])
        merge_columns(process.log, topic, frame, by_column=False)

    other.waits = [
        lambda: (merge(leader, "x"), leader.lead()),
        leader.does(create("z")),  # It does not follow any more: the rules leave it out.
        leader.group.release_lead,
    ]
    merge(other, "y")
    assert {*schema_of(other.log.follow().topics["t"]).names} == {"a", "x", "y"}


def test_of_two_transactions_in_a_row_the_first_alone_is_aborted(leader, other):
    """Its number is looked at in a state, and the abort would be added to a later one."""

    def opened(number):
        offsets = (PartitionOffset("t", "id-t-a", 0, number),)
        return CommitOffsets("g", offsets, ProducerStamp(0, 0, number))

    leader.log.commit(lambda _: (CreateTopic("t", "id-t-a", 1), InitProducer(0, 0, "tx", 1000), opened(0)))
    other.log.follow()
    leader.lead()
    next_one = (EndTransaction(ProducerStamp(0, 0, 0), commit=True), opened(1))
    other.waits = [leader.does(lambda _: next_one)]
    Admin(other.log).abort_transaction("tx")
    if other.waits:  # The abort came first, in an entry of its own.
        with pytest.raises(ProducerFencedError):
            other.waits[0]()
    else:
        assert other.log.follow().producers[0].is_open


def test_large_requests_go_alone(leader, other, monkeypatch):
    monkeypatch.setattr(group, "MAX_SUBMISSION_BYTES", 10)
    other.log.commit(create("y"))
    assert writers(leader) == ["b"]


def test_what_others_hand_over_fills_an_entry_only_so_far(leader, other, start, monkeypatch):
    third = start(b"c").join()
    third.waits = [leader.does(create("x"), create("u"))]
    other.waits = [lambda: third.log.commit(create("z"))]
    one = encode_entry(Entry(1, (Request(bytes(16), 0, create("y")(None)),)))
    monkeypatch.setattr(group, "MAX_SUBMISSION_BYTES", int(1.5 * len(one)))
    other.log.commit(create("y"))
    assert sorted(map(len, writers(leader))) == [2, 2]


def test_what_an_entry_cannot_hold_is_its_own_trouble(leader, other):
    leader.log.commit(create("x"))
    leader.lead()
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        other.log.commit(create("y"), writer="\ud800")


def test_what_is_handed_over_no_more_can_be_refused(other):
    one, two = (Request(name.encode() * 16, 0, create(name)(None)) for name in "xy")
    assert other.group.submit([one])
    assert other.group.submit([two])
    in_doubt = other.log._committer._in_doubt
    assert [in_doubt.is_submitted(request.request_id) for request in (one, two)] == [False, True]


def test_in_doubt_remember_all_that_a_request_may_be():
    in_doubt = InDoubtRequests()
    one, two, three = (Request(b"id", 0, create(name)(None)) for name in "xyz")
    in_doubt.record_submission([one], 5)
    in_doubt.record_attempt([two], 7)
    assert in_doubt.is_unanswered(b"id")
    assert in_doubt.fate(EMPTY, b"id") is Fate.UNKNOWN
    assert in_doubt._open[b"id"].variants == (one.actions, two.actions)
    in_doubt.record_withdrawal([b"id"])
    in_doubt.record_read(EMPTY._replace(seq=7))
    in_doubt.record_attempt([three], 9)
    assert not in_doubt.is_unanswered(b"id"), "slot 8 was read"
    assert in_doubt._open[b"id"].variants == (three.actions,)
