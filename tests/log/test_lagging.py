"""A process that waits for its own requests alone reads no entries: it takes the outcomes from the leader's reports."""

from __future__ import annotations

import dataclasses

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import (
    CommitOutcomeLostError,
    DivergedLogError,
    ProducerFencedError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit.lagging import LaggingWriter
from spark_eos.log.commit.outcomes import (
    KEPT,
    FoundRequest,
    Report,
    are_reportable,
    mean_requests,
    read_newest,
    read_results,
    with_entry,
)
from spark_eos.log.environment import PROCESS, Lag
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches, CreateTopic, EndTransaction, Entry, Request
from spark_eos.protocol.actions.appends import Appended
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage import PosixStore
from spark_eos.testing import FaultyStore
from tests.log.fakes import create, grow
from tests.log.test_group_commit import Clock, Process
from verification.retiring import RETIRED_AT_ONCE

pytestmark = pytest.mark.usefixtures("timeless_folders", "_on")


@pytest.fixture
def _on(monkeypatch):
    monkeypatch.setattr(PosixStore, "reports_outcomes", True)


SKIPS = 8
AT_ONCE = dataclasses.replace(PROCESS, lag=Lag(after=0, requests=0.0, skips=SKIPS))


class Writer(Process):
    """A process with a producer; "b" lags as soon as another one leads."""

    def __init__(self, folder, name):
        self.store = FaultyStore(PosixStore(folder))
        self.clock = Clock(name)
        if not (folder / "_log").exists():
            Log.create(self.store, self.clock, snapshot_interval=4, config=RETIRED_AT_ONCE)
        self.log = Log.open(
            self.store, self.clock, Retry(deadline_s=10), environment=AT_ONCE if name == b"b" else PROCESS
        )
        self.log.does_maintenance = False
        self.group = self.log._committer._group
        self.waits = []
        self.log.ensure_topic("t")
        self.producer = Producer(self.log, {"transactional.id": name.decode()})
        self.producer.init_transactions()
        self.clock.on_sleep = self.wait

    def sends(self, value=b"value"):
        """A transaction of one record; its offset."""
        self.producer.begin_transaction()
        sent = self.producer.send("t", value, partition=0)
        self.producer.commit_transaction()
        return sent.result(0).offset

    def sends_and_leads(self):
        self.sends()
        self.lead()

    @property
    def read(self):
        return [call.name for call in self.store.journal if call.operation == "read"]


@pytest.fixture
def start(tmp_path):
    return lambda name: Writer(tmp_path / "log", name)


@pytest.fixture
def leader(start):
    return start(b"a").lead()


@pytest.fixture
def other(leader, start):
    return lagging(leader, start)


def lagging(leader, start):
    """It has read all, and others have led since."""
    leader.group.release_lead()
    other = start(b"b")
    leader.lead().log.commit(create("x"))
    other.log.follow()
    other.join()
    other.store.journal.clear()
    return other


def seqs(*processes):
    return [one.log.state.seq for one in processes]


def test_it_reads_nothing_and_is_told_its_offsets(leader, other):
    before = other.log.state.seq
    other.waits = [leader.does(create("one"))]
    assert other.sends(b"first") == 0
    other.waits = [leader.does(create("two"))]
    assert other.sends(b"second") == 2, "the marker of the first one is at 1"
    other.waits = [leader.sends_and_leads]
    assert other.sends(b"third") == 6, "the leader's record and marker are before it"
    assert seqs(leader, other) == [before + 3, before]
    assert [name for name in other.read if name.startswith(paths.LOG)] == []
    assert not [name for name in other.created if name.startswith(paths.LOG)]
    assert other.log.follow() == leader.log.follow()
    found = Consumer(leader.log, {"auto.offset.reset": "earliest"})
    found.assign([TopicPartition("t", 0)])
    assert [record.offset for record in found.poll(0) if record.value != b"value"] == [0, 2, 6]


def test_after_it_has_read_it_goes_on_from_there(leader, other):
    other.waits = [leader.sends_and_leads]
    assert other.sends() == 2
    other.log.follow()
    other.waits = [leader.sends_and_leads]
    assert other.sends() == 6
    assert other.log.follow() == leader.log.follow()


def test_after_it_has_led_it_goes_on_from_there(leader, other):
    other.waits = [leader.sends_and_leads]
    assert other.sends() == 2
    leader.group.release_lead()
    other.waits = [lambda: None] * 100
    assert other.sends() == 4
    leader.lead().log.commit(create("one"))
    other.log.follow()
    other.store.journal.clear()
    other.waits = [leader.sends_and_leads]
    assert other.sends() == 8
    assert [name for name in other.read if name.startswith(paths.LOG)] == []


def test_a_leader_that_remembers_little_takes_it_along(start, monkeypatch):
    monkeypatch.setattr("spark_eos.log.commit.tail.REMEMBERED", 2)
    leader = start(b"a").lead()
    other = lagging(leader, start)
    before = other.log.state.seq
    for number in range(4):
        other.waits = [leader.does(create(f"t{number}"))]
        other.sends()
    assert other.log.state.seq == before


def test_a_no_is_said_after_the_log_was_read(leader, other):
    """The leader leaves out what breaks a rule; the process finds out which one."""
    leader.group.release_lead()
    leader.clock.on_sleep = lambda: None
    newer = Producer(leader.log, {"transactional.id": "b"})
    newer.init_transactions()
    leader.lead()
    other.join()
    other.waits = [leader.does(create("one"), create("two"), create("three")), lambda: None]
    with pytest.raises(ProducerFencedError):
        other.sends()
    assert other.log.state == leader.log.follow()


def test_it_reads_on_when_the_leader_is_gone(leader, other):
    other.waits = [leader.group.release_lead] + [lambda: None] * 100
    assert other.sends() == 0
    assert other.log.follow() == leader.log.follow()


def test_the_longer_it_lags_the_longer_it_leaves_the_lead_to_others(leader, other):
    for number in range(4):
        other.waits = [leader.does(create(f"t{number}"))]
        other.sends()
    began = other.clock.now
    other.waits = [leader.group.release_lead] + [lambda: None] * 1000
    other.sends()
    waits = other.clock.now - began
    for_each = PROCESS.lag.each_s
    assert waits > 4 * for_each


def test_where_entries_hold_little_no_process_lags(leader, start, monkeypatch):
    monkeypatch.setattr(
        "tests.log.test_lagging.AT_ONCE", dataclasses.replace(PROCESS, lag=Lag(after=0, requests=2.5))
    )
    other = lagging(leader, start)
    other.waits = [leader.does(create("one"))]
    other.sends()
    assert other.log.state.seq == leader.log.follow().seq


def test_what_is_in_doubt_is_looked_for_in_the_log(leader, other, monkeypatch):
    """A leader had it in an entry, and told nothing of it."""
    monkeypatch.setattr(leader.group._channel, "report_outcomes", lambda _: None)
    other.waits = [leader.sends_and_leads, leader.group.release_lead] + [lambda: None] * 1000
    assert other.sends() == 2
    assert other.log.follow() == leader.log.follow()
    assert [len(entry.requests) for entry in written(other)[-1:]] == [2], "it was written once"


def test_what_an_earlier_call_left_in_doubt_is_no_new_request(leader, other, monkeypatch):
    attempts = []
    lags = LaggingWriter._lags
    monkeypatch.setattr(LaggingWriter, "_lags", lambda self, tickets: attempts.append(lags(self, tickets)))
    other.log._committer._in_doubt.record_attempt([Request(b"i" * 16, 0, ())], other.log.state.seq + 1)
    other.waits = [leader.does(create("one"))] + [leader.group.release_lead] * 100
    other.log.commit(create("y"), request_id=b"i" * 16)
    assert attempts == [False]


def written(process):
    store, last = process.store.inner, process.log.follow().seq
    names = [paths.entry(seq, 100_000) for seq in range(last + 1)]
    return [decode_entry(store.read(name), seq, "entry") for seq, name in enumerate(names)]


# -- What leaders take along ----------------------------------------------------------------------------------------


def test_what_names_a_later_slot_is_not_taken_along(leader, other):
    """After the log was put back from a copy: in an entry before that slot no leader would look for it."""
    assert other.group.submit(
        [Request(b"b" * 16, 0, (CreateTopic("y", "id-of-y", 1),))], leader.log.state.seq + 1
    )
    leader.log.commit(create("one"))
    assert "y" not in leader.log.state.topics
    leader.lead().log.commit(create("two"))
    assert "y" in leader.log.state.topics


def test_what_was_submitted_in_another_history_is_not_taken_along(leader, other):
    """Its owner finds out that its history is gone, and deletes the files to which the request refers."""
    tail, request = other.log._committer._tail, Request(b"b" * 16, 0, (CreateTopic("y", "id-of-y", 1),))
    known = other.log.follow()
    tail._state = known._replace(lineage=b"of another history")
    assert other.group.submit([request])
    leader.log.commit(create("one"))
    assert "y" not in leader.log.state.topics
    other.group.withdraw()
    tail._state = known
    assert other.group.submit([request])
    leader.lead().log.commit(create("two"))
    assert "y" in leader.log.state.topics


def test_a_leader_that_reads_for_long_gives_signs(leader, other, monkeypatch):
    monkeypatch.setattr("spark_eos.log.commit.group._SIGN_ENTRIES", 2)
    grow(leader.log, "t", 5)
    leader.group.release_lead()
    assert other.group.try_lead()
    signs = []
    monkeypatch.setattr(other.group._channel, "keep_lead", lambda: signs.append(other.log.state.seq))
    other.group.catch_up()
    assert len(signs) >= 2


def test_other_actions_are_read_of(leader, other):
    """Their results cannot be told."""
    other.waits = [leader.does(create("one"))]
    assert other.log.commit(create("y")).is_lagging is False
    assert other.log.state == leader.log.follow()


def test_what_is_to_follow_the_state_it_saw_is_not_handed_over(leader, other, monkeypatch):
    monkeypatch.setattr(other.group, "submit", lambda *_: pytest.fail("it was"))
    known = other.log.state.producer_of("b").stamp
    stamp = known._replace(number=known.number + 1)
    leader.group.release_lead()
    other.waits = [lambda: None] * 100
    committed = other.log.commit(lambda _: (EndTransaction(stamp, commit=False),), alone=True)
    assert not committed.is_lagging


def test_no_maintenance_is_done_with_what_it_drafted(leader, other, monkeypatch):
    other.log.does_maintenance = True
    monkeypatch.setattr(other.log.maintenance, "run_slice", lambda state: pytest.fail(f"with {state.seq}"))
    other.waits = [leader.does(create("one"))]
    other.sends()


# -- Snapshots ------------------------------------------------------------------------------------------------------


def far_behind(leader, other):
    for number in range(SKIPS):
        other.waits = [leader.does(create(f"t{number}"))]
        other.sends()
    leader.log.maintenance.snapshot()
    return other.log.state.seq


def test_far_behind_it_goes_on_from_a_snapshot(leader, other):
    before = far_behind(leader, other)
    other.waits = [leader.sends_and_leads]
    assert other.sends() == 2 * SKIPS + 2
    assert before + SKIPS - 4 <= other.log.state.seq < leader.log.state.seq
    read = {name for name in other.read if name.startswith(paths.LOG) and "snapshots" not in name}
    assert read <= {paths.entry(other.log.state.seq)}, "the one after which the snapshot is"
    other.waits = [leader.sends_and_leads]
    assert other.sends() == 2 * SKIPS + 6
    assert other.log.follow() == leader.log.follow()


def test_its_own_records_behind_the_snapshot_are_remembered(leader, other):
    """Else a client takes the numbers of its next batches from a state without them, and they count as repetitions."""
    for number in range(SKIPS):
        other.waits = [leader.does(create(f"t{number}"))]
        other.sends()
        if number == SKIPS - 4:
            leader.log.maintenance.snapshot()
    other.waits = [leader.sends_and_leads]
    other.sends()
    number = leader.log.follow().producer_of("b").number
    assert other.log.state.producer_of("b").number < number - 1, "it goes on from a snapshot that lacks some"
    drafted = other.log._committer._lagging._with_own(other.log.state)
    assert drafted.producer_of("b").number == number


def test_it_skips_nothing_while_something_is_in_doubt(leader, other):
    before = far_behind(leader, other)
    other.log._committer._in_doubt.record_attempt([Request(b"i" * 16, 0, ())], before + 1)
    other.waits = [leader.sends_and_leads]
    other.sends()
    assert other.log.state.seq == before


def test_it_lags_no_further_without_snapshots(leader, other):
    before = other.log.state.seq
    for number in range(4 * SKIPS):
        other.waits = [leader.does(create(f"t{number}"))]
        other.sends()
        assert other.log.state.seq == before
    other.waits = [leader.does(create("last"))]
    other.sends()
    assert other.log.state == leader.log.state


def names_are_deleted(leader, other):
    """Others write, and a day after its entries were retired a snapshot stands for them: ``other`` has slept."""
    for number in range(4):
        leader.log.commit(create(f"slept-{number}"))
    newest = leader.log.maintenance.snapshot()
    for seq in range(newest):
        leader.store.delete(paths.entry(seq))
    leader.log.commit(create("after-the-snapshot"))
    other.clock.now += 86_400
    other.join()


@pytest.mark.parametrize("is_told", [False, True], ids=["all read", "told of more"])
def test_after_a_long_sleep_it_reads_on(leader, other, is_told):
    """The name of the entry that it has read last, or that it was told of last, is deleted. Nothing has diverged."""
    if is_told:
        other.waits = [leader.sends_and_leads]
        other.sends()
    names_are_deleted(leader, other)
    other.waits = [leader.group.release_lead]
    other.sends()
    assert leader.log.follow() == other.log.follow()


@pytest.mark.parametrize("is_told", [False, True], ids=["all read", "told of more"])
def test_after_a_long_sleep_while_it_waited_it_reads_on(leader, other, is_told):
    if is_told:
        other.waits = [leader.sends_and_leads]
        other.sends()

    def sleeps():
        leader.sends_and_leads()
        names_are_deleted(leader, other)

    other.waits = [sleeps, leader.group.release_lead]
    other.sends()
    assert leader.log.follow() == other.log.follow()


# -- Another history ------------------------------------------------------------------------------------------------


def put_back(process, last):
    for seq in range(last + 1, process.log.state.seq + 1):
        process.store.inner.delete(paths.entry(seq, 100_000))


def told(leader, other):
    """``other`` was told of an entry that it has not read; the log is put back to where it has read."""
    last = other.log.state.seq
    other.waits = [leader.sends_and_leads]
    other.sends()
    leader.group.release_lead()
    put_back(leader, last)
    return last


def test_what_it_was_told_of_is_gone(leader, other):
    last = told(leader, other)
    with pytest.raises(DivergedLogError, match=f"entry {last + 1} is not there any more"):
        other.log.follow()
    other.waits = [lambda: None] * 1000
    with pytest.raises(DivergedLogError):
        other.sends()


def test_another_entry_stands_in_its_place(leader, other, tmp_path):
    last = told(leader, other)
    Log.open(tmp_path / "log").ensure_topic("other")
    with pytest.raises(DivergedLogError, match=f"entry {last + 1} is another one now"):
        other.log.follow()


def test_after_a_restore_it_says_no_yes(leader, other, start):
    """Another producer of the process has lost nothing, and the new history would take its records."""
    second = Producer(other.log, {"transactional.id": "second"})
    other.waits = [leader.sends_and_leads] * 2
    second.init_transactions()
    other.log.follow()
    last = told(leader, other)
    successor = start(b"c").lead()
    while successor.log.state.seq < last + 4:
        successor.sends_and_leads()
    other.producer, other.waits = second, [successor.sends_and_leads, successor.group.release_lead] * 3
    with pytest.raises(DivergedLogError):
        other.sends(b"of another history")
    assert b"of another history" not in values(successor)


def test_the_log_is_put_back_while_it_waits(leader, other, start, monkeypatch):
    """The new leader does not compare histories: then the look at the file before the answer is left."""
    monkeypatch.setattr("spark_eos.log.commit.group.is_in_history", lambda *_: True)
    second = Producer(other.log, {"transactional.id": "second"})
    other.waits = [leader.sends_and_leads] * 2
    second.init_transactions()
    other.log.follow()
    last = other.log.state.seq
    other.waits = [leader.sends_and_leads]
    other.sends()

    def restore():
        leader.group.release_lead()
        put_back(leader, last)
        successor = start(b"c").lead()
        while successor.log.state.seq < last + 8:
            successor.sends_and_leads()
        successor.group.release_lead()

    other.producer, other.waits = second, [restore, *[lambda: None] * 1000]
    with pytest.raises(CommitOutcomeLostError, match="were exchanged under this process"):
        other.sends()


def test_what_is_reported_is_not_there_any_more(leader, other):
    """The log is put back between the report and the answer: the request is made again, and is in the log."""
    last = other.log.state.seq

    def lost():
        leader.sends_and_leads()
        leader.group.release_lead()
        put_back(leader, last)

    other.waits = [lost, *[lambda: None] * 1000]
    other.sends(b"once more")
    assert b"once more" in values(other)


def values(process):
    consumer = Consumer(Log.open(process.store.inner), {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("t", 0)])
    found = []
    while records := consumer.poll():
        found += [record.value for record in records]
    consumer.close()
    return found


def test_a_snapshot_stands_for_another_entry(leader, other, tmp_path):
    told(leader, other)
    fresh = Log.open(tmp_path / "log")
    for number in range(12):
        fresh.ensure_topic(f"t{number}")
    fresh.maintenance.snapshot()
    assert (
        fresh.maintenance.retire(fresh.state, 100) + fresh.maintenance.retired(fresh.state)
        > other.log.state.seq
    )
    with pytest.raises(DivergedLogError):
        other.log.follow()


def test_a_store_that_does_not_show_what_is_there(leader, other, monkeypatch):
    other.waits = [leader.sends_and_leads]
    other.sends()
    hidden = paths.entry(other.log.state.seq + 1, 100_000)
    name = paths.entry(10**6, 100_000)
    monkeypatch.setattr(paths, "entry", _hiding(paths.entry, hidden, name, other.log.state.seq + 1))
    other.waits = [lambda: None] * 1000
    with pytest.raises((StoreUnavailableError, DivergedLogError)) as caught:
        other.log.follow()
    assert isinstance(caught.value, StoreUnavailableError)


def _hiding(entry, hidden, missing, seq):
    """The first look at the entry does not find it."""
    looks = iter([missing])
    return lambda at, per_folder=0: next(looks, hidden) if at == seq else entry(at, per_folder)


def test_what_it_was_told_of_is_read_at_last(leader, other):
    other.waits = [leader.sends_and_leads]
    other.sends()
    other.log.follow()
    leader.lead().log.commit(create("y"))
    assert other.log.follow() == leader.log.state
    assert "b" in {one.transactional_id for one in Admin(other.log).list_transactions()}


# -- Reports of outcomes -----------------------------------------------------------------------------------------------

STAMP = ProducerStamp(1, 0, 1)
ACTIONS = (AppendBatches(STAMP, (), ()), EndTransaction(STAMP, commit=True))
RESULTS = ((Appended('t\n"é\ud800', 3, 7, 2, 1000), Appended("t", 0, 1, 1, 5, duplicate=True)), None)


def ids(count):
    return [bytes([number]) * 16 for number in range(count)]


def test_results_are_reportable_as_they_are():
    one, two = ids(2)
    text = with_entry(b"", 5, b"lineage", [Report(one, ACTIONS, RESULTS), Report(two, ACTIONS[1:], (None,))])
    assert read_newest(text) == (5, b"lineage")
    assert read_results(text, one, ACTIONS) == FoundRequest(5, b"lineage", RESULTS)
    assert read_results(text, two, ACTIONS[1:]) == FoundRequest(5, b"lineage", (None,))
    assert read_results(text, b"x" * 16, ACTIONS) is None
    assert mean_requests(with_entry(text, 6, b"", [], own=4)) == 3


def test_the_newest_entries_are_reportable():
    text = b""
    for seq, one in enumerate(ids(KEPT + 5)):
        text = with_entry(text, seq, b"", [Report(one, ACTIONS, RESULTS)])
        assert read_newest(text) == (seq, b"")
    known = [read_results(text, one, ACTIONS) for one in ids(KEPT + 5)]
    assert [found.seq for found in known if found is not None] == [*range(5, KEPT + 5)]


def test_what_is_of_another_history_is_forgotten():
    """A leader in the log that was put back writes entry 3 once more."""
    one, two, three = ids(3)
    text = with_entry(
        with_entry(b"", 3, b"", [Report(one, ACTIONS, RESULTS)]), 4, b"", [Report(two, ACTIONS, RESULTS)]
    )
    text = with_entry(text, 3, b"", [Report(three, ACTIONS, RESULTS)])
    assert read_newest(text) == (3, b"")
    assert read_results(text, one, ACTIONS) is None
    assert read_results(text, two, ACTIONS) is None


def test_what_cannot_be_told_is_left_out():
    topic = CreateTopic("t", "id", 1)
    assert not are_reportable([*ACTIONS, topic])
    text = with_entry(b"", 5, b"", [Report(b"i" * 16, (topic,), (None,))])
    assert read_results(text, b"i" * 16, (topic,)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"null]}", b"nu"),
        (b"[", b"{"),
        (b"null", b"null, null"),
        (b"5 ", b"five "),
        (b" ", b""),
        (b"7, 2", b"7, 2, 1, 1, 1"),
    ],
)
def test_what_is_damaged_tells_nothing(before, after):
    text = with_entry(b"", 5, b"l", [Report(b"i" * 16, ACTIONS, RESULTS)])
    assert before in text
    text = text.replace(before, after)
    assert read_results(text, b"i" * 16, ACTIONS) is None


def test_a_submission_says_for_which_slot_it_is(leader, other):
    assert other.group.submit([Request(b"b" * 16, 0, ())], 70)
    (data,) = leader.group._channel.submissions()
    assert int.from_bytes(data[:8], "big") == 71
    assert (
        decode_entry(data[8:], 71, "a submission").requests
        == decode_entry(encode_entry(Entry(71, (Request(b"b" * 16, 0, ()),))), 71, "an entry").requests
    )
