"""Group commit over a channel that withdraws nothing for certain, and whose word is only a reason to read the log."""

from __future__ import annotations

import pytest

from spark_eos.errors import IllegalStateError
from spark_eos.log import paths
from spark_eos.log.commit.entry_builder import PendingCommit
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.protocol.actions import AppendBatches, CommitOffsets, CreateTopic, DeleteTopic, Entry, Request
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.rules.fate import Fate
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, PartitionOffset, StagedFile
from spark_eos.storage import PosixStore
from spark_eos.storage.group_channel import FileGroupChannel

from .fakes import create
from .test_group_commit import Process, entries, handed_over_anew, once, writers

pytestmark = pytest.mark.usefixtures("timeless_folders")

REACH = 4


class Channel(FileGroupChannel):
    reach = REACH
    is_trusted = False

    def __init__(self, folder):
        super().__init__(folder)
        self.distrusted, self.relayed = 0, []

    def distrust(self):
        self.distrusted += 1

    def relay(self, seq, data):
        self.relayed.append(seq)


class ReachStore(PosixStore):
    requests_are_free = False

    def group_channel(self, name):
        return Channel(f"{self.folder}-channel")

    def __init__(self, folder):
        super().__init__(folder)
        self.folder = folder


class Machine(Process):
    in_folder = ReachStore


@pytest.fixture
def start(tmp_path):
    return lambda name: Machine(tmp_path / "log", name)


def test_requests_of_two_processes_in_one_entry(leader, other):
    other.waits = [leader.does(create("x"))]
    assert other.log.commit(create("y")).seq == 1
    assert writers(leader) == ["ab"]


def test_what_waits_is_handed_over_anew_before_it_is_too_late(other):
    assert handed_over_anew(other) == REACH // 2


OFFSETS = CommitOffsets("g", (PartitionOffset("t", "id-of-t", 0, 0),))
FILE = StagedFile("t", FileRef("data/t/0-f.arrow", 14, 0), (BatchRef(0, 3, 0, 14, 7, 1, 2),))
ROWS = AppendBatches(NO_PRODUCER, (("t", "id-of-t"),), (FILE,))


@pytest.mark.parametrize(("action", "rows"), [(OFFSETS, 0), (ROWS, 3)], ids=["offsets", "rows"])
def test_what_comes_back_to_its_owner_is_in_the_entry_once(leader, other, action, rows):
    """Another process of its machine hands it over to the leader of all machines, which its owner is by now."""
    leader.log.commit(create("t"))
    other.log.follow()

    def come_back():
        found = [*leader.group._channel.submissions()]
        assert len(found) == 1
        other.group._channel.submissions = lambda: iter(found)
        leader.group.release_lead()

    leader.lead()
    other.join().waits = [come_back]
    done = other.log.commit(lambda _: (action,))
    assert done.seq == 2
    assert done.state.partitions["id-of-t", 0].end == rows
    assert writers(leader) == ["a", "b"]


@pytest.mark.parametrize("late", [0, 1])
def test_no_leader_takes_along_what_is_too_old(leader, start, late):
    """It was submitted for slot 1: it may be in slots 1 to 4."""
    other = start(b"b").join()
    assert other.group.submit([Request(b"b" * 16, 0, (CreateTopic("y", "id", 1),))])
    for seq in range(1, REACH + late):
        request = Request(b"c" + bytes([seq] * 15), 0, create(f"{seq}")(None))
        leader.store.inner.create(paths.entry(seq, 100_000), encode_entry(Entry(seq, (request,))))
    leader.log.follow()
    leader.lead().log.commit(create("x"))
    assert writers(leader)[-1] == ("a" if late else "ab")


def test_no_is_said_when_no_slot_can_hold_it_any_more(leader, other):
    """A leader on another machine writes, in the last slot that it may, what was withdrawn long ago."""
    found = []

    def find():
        found.extend(leader.group._channel.submissions())
        leader.group._channel.submissions = lambda: iter(())
        leader.log.commit(create("x"))
        leader.group.release_lead()

    create_ = other.store.create

    def create_in_last_slot(name, data):
        if found and name == paths.entry(REACH, 100_000):
            taken = decode_entry(found.pop()[8:], 1, "offer").requests
            leader.store.inner.create(name, encode_entry(Entry(REACH, taken)))
        create_(name, data)

    other.store.create = create_in_last_slot
    other.waits = [find]
    done = other.log.commit(once("y"))
    assert done.seq == REACH
    assert "y" in done.state.topics
    assert writers(leader) == ["a", "b", "b", "b"]


def test_no_is_said_after_so_many_slots(leader, other):
    other.waits = [leader.does(create("x")), leader.group.release_lead]
    leader.group._channel.submissions = lambda: iter(())
    with pytest.raises(IllegalStateError):
        other.log.commit(once("y"))
    assert len(entries(leader)) == REACH, "all slots that it may be in are filled"


def test_a_slot_lost_to_others_settles_nothing_that_may_come_later():
    """It was withdrawn, and may be in slots up to 4; the process loses slot 2 with it."""
    in_doubt = InDoubtRequests()
    one, two = (Request(b"id", 0, create(name)(None)) for name in "xy")
    in_doubt.record_submission([one], 1)
    in_doubt.record_withdrawal([b"id"], 4)
    in_doubt.record_read(EMPTY._replace(seq=1))
    in_doubt.record_attempt([two], 2)
    assert in_doubt.is_unanswered(b"id")
    assert in_doubt._open[b"id"].variants == (one.actions, two.actions)
    for seq in (2, 3):
        state = EMPTY._replace(seq=seq)
        assert in_doubt.may_be_taken_along(b"id", state)
        assert in_doubt.may_come_after(state, b"id")
        assert in_doubt.is_settled_by_filling(b"id", state)
        assert in_doubt.fate(state, b"id") is Fate.UNKNOWN
    end = EMPTY._replace(seq=4)
    assert not in_doubt.may_be_taken_along(b"id", end)
    assert not in_doubt.is_settled_by_filling(b"id", end)
    assert in_doubt.fate(end, b"id") is Fate.NOT_APPLIED


def test_a_lost_slot_keeps_in_doubt_what_may_come_later(other):
    ticket = PendingCommit(create("y"), b"id", "", alone=False)
    in_doubt = other.log._committer._in_doubt
    request = Request(b"id", 0, create("y")(None))
    in_doubt.record_submission([request], 1)
    in_doubt.record_withdrawal([b"id"], 4)
    in_doubt.record_attempt([request], 1)
    other.log._committer._answers.slot_taken([ticket])
    assert b"id" in in_doubt


def test_an_entry_is_read_before_it_is_believed(other):
    """A liar says that entry 1 is there, and sends bytes of its own in none; the entry is not there."""
    said = other.group._channel.published
    other.group._channel.published = lambda seq: b"" if seq == 1 else said(seq)
    assert other.group.catch_up() == -1
    assert other.group._channel.distrusted == 1
    assert other.log.state.seq == 0


def test_an_entry_that_was_read_goes_round_the_machine(leader, other):
    leader.log.commit(create("x"))
    other.group._channel.published = lambda seq: b"" if seq == 1 else None
    assert other.group.catch_up() == 1
    assert other.group._channel.relayed == [1]
    assert "x" in other.log.state.topics


def test_what_a_stranger_says_is_there_is_not_taken_for_durable(leader, other):
    leader.log.commit(create("x"))
    other.group._channel.published = lambda seq: b"" if seq == 1 else None
    slots = other.log._committer._slots
    assert slots.catch_up_with_group()
    assert slots._durable < 1


def test_what_was_deleted_since_is_not_written_again(leader, other):
    other.waits = [
        leader.does(create("x"), lambda s: (DeleteTopic("y", s.topics["y"].topic_id),), create("z"))
    ]
    other.log.commit(create("y"))
    assert writers(leader) == ["ab", "a", "a"]
