"""Notes of mirrors to Kafka in the log, circles, positions in Kafka, and offsets of groups that move back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_eos import Admin, Producer
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRequestError,
    ObjectNotFoundError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from spark_eos.extensions.mirror.kafka_source import SourceTopic
from spark_eos.extensions.mirror.notes import (
    Note,
    Pair,
    check_no_loop,
    check_not_taken_over,
    note_of,
    notes,
    write_note,
)
from spark_eos.extensions.mirror.out.feed import Feed
from spark_eos.extensions.mirror.out.opening import Opening
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.out.position import Head, Sent, parsed
from spark_eos.extensions.mirror.out.translation import Brought, ahead, whole_offset
from spark_eos.extensions.mirror.plan import begin
from spark_eos.extensions.mirror.positions import Position
from spark_eos.log.log import Log
from spark_eos.log.selection.units import unknown
from spark_eos.log.selection.whole_transactions import Part
from spark_eos.log.time_travel import earliest
from spark_eos.protocol.rules import sealing
from spark_eos.storage.memory import MemoryStore
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def log():
    found = Log.create(MemoryStore())
    for name in ("a", "b"):
        Admin(found).create_topic(name, partitions=2)
    return found


def mirrored(log, mirror, source_id, target):
    """A mirror into the log has begun."""
    topic = log.follow().topics[target]
    first = [
        Position("cluster", f"kafka.{source_id}", source_id, target, topic.topic_id, number, 0)
        for number in (0, 1)
    ]
    log.commit(lambda state: begin(state, first, mirror, f"run of {mirror}"))


def noted(log, note, run_id="run"):
    return log.commit(lambda state: write_note(state, note, run_id)).state


def test_a_note_is_kept_and_goes_on(log):
    note = Note("out", "cluster", "positions")
    assert note_of(log.state, "out") is None
    noted(log, note)
    seq = log.state.seq
    noted(log, note)
    assert log.state.seq == seq, "once is enough"
    more = note._replace(pairs=(Pair("id", "kafka id", "a", "k"),))
    assert note_of(noted(log, more), "out") == more
    assert notes(log.state) == [more]
    noted(log, note, "another process")
    with pytest.raises(ProducerFencedError):
        noted(log, more, "run")


def test_records_do_not_go_round(log):
    mirrored(log, "in", "K1", "a")
    a, b = (log.follow().topics[name].topic_id for name in ("a", "b"))
    with pytest.raises(InvalidRequestError, match=r"of topic a would go round .* mirror in 'in' brings"):
        check_no_loop(log.state, out=[(a, "K1")])
    check_no_loop(log.state, out=[(a, "K2"), (b, "K1")])
    check_no_loop(log.state, out=[(a, "K1")], ended="in")
    state = noted(log, Note("out", "cluster", "positions", None, (Pair(a, "K2", "a", "k2"),)))
    with pytest.raises(InvalidRequestError, match="mirror out 'out'"):
        check_no_loop(state, into=[("K2", a)])
    with pytest.raises(InvalidRequestError, match="would go round"):
        check_no_loop(state, into=[("K2", b)], out=[(b, "K1")])
    check_no_loop(state, into=[("K2", b)])


def test_a_mirror_that_was_taken_over_from_never_writes_again(log):
    mirrored(log, "in", "K1", "a")
    noted(log, Note("first", "cluster", "others"))
    check_not_taken_over(log.state, "in")
    state = noted(log, Note("out", "cluster", "positions", "in"))
    check_not_taken_over(state, "another")
    with pytest.raises(ProducerFencedError, match="mirror out 'out' has taken over"):
        check_not_taken_over(state, "in")
    check_no_loop(state, out=[(state.topics["a"].topic_id, "K1")])  # So it brings nothing back.


def test_a_second_mirror_that_reverses_the_same_one_makes_no_topic(log):
    noted(log, Note("out", "cluster", "positions", "in"))
    created = []
    kafka = SimpleNamespace(
        address="kafka:9092",
        cluster_id=lambda: "cluster",
        found=lambda _: None,
        create=lambda *topic: created.append(topic),
    )
    with pytest.raises(InvalidRequestError, match="mirror out 'out' has taken over from mirror in 'in'"):
        Opening(log, kafka, OutOptions("second", reverses="in")).open(None)
    assert created == []


def test_a_mirror_goes_on_as_it_was_begun(log):
    """Or the records that it brings back would be sent a second time. Other mirrors are not asked."""
    noted(log, Note("plain", "cluster", "positions"))
    noted(log, Note("back", "cluster", "positions", "in"))
    kafka = SimpleNamespace(cluster_id=lambda: "another", address="kafka:9092")
    for name, reverses, begun in (
        ("plain", "others", "without --reverse"),
        ("back", None, "with --reverse in"),
        ("back", "others", "with --reverse in"),
    ):
        with pytest.raises(ConfigError, match=f"mirror out '{name}' was begun {begun}: start it so"):
            Opening(log, kafka, OutOptions(name, reverses=reverses)).open(None)
    for name, reverses in (("plain", None), ("back", "in")):
        with pytest.raises(InvalidRequestError, match="sends to the Kafka cluster cluster"):
            Opening(log, kafka, OutOptions(name, reverses=reverses)).open(None)


def test_the_position_is_read_once_nothing_can_change_it_any_more(log):
    """What is read before others are fenced says whose it is. The last transaction of theirs may still be ending."""
    done = []
    kafka = SimpleNamespace(
        cluster_id=lambda: "cluster",
        address="kafka:9092",
        found=lambda name: SourceTopic(name, "positions", 1),
        configs=lambda names: {name: {"cleanup.policy": "compact"} for name in names},
        committed=lambda _, *, waits: done.append(f"read, waits: {waits}") or [Head(log.log_id, 0).record],
    )
    producer = SimpleNamespace(start=lambda: done.append("fenced"))
    assert Opening(log, kafka, OutOptions("out")).open(producer) == (Head(log.log_id, 0), {})
    assert done == ["read, waits: False", "fenced", "read, waits: True"]


def test_positions_are_read_as_they_were_written():
    head, one = Head("log", 7), Sent("a", "id", "k", "kid", (3, 4), (5, -1))
    later = one._replace(next=(9, 4))
    records = [head.record, one.record, later.record]
    assert parsed(records, "there") == (head, {"a": later})
    assert parsed([], "there") == (None, {})
    with pytest.raises(CorruptRecordError, match="there has a record that is no position"):
        parsed([(b"x", b"{}")], "there")
    with pytest.raises(UnsupportedVersionError):
        parsed([(b"mirror", b'{"format":2}')], "there")


def test_offsets_of_a_group_that_moves_back():
    """Kafka: 10 records that were brought, and after them those of the log, from offset 20 on."""
    assert whole_offset(7, (25, 24), None) == 25
    brought = Brought(end=12, kafka_end=11, next=4)
    assert whole_offset(5, (20, -1), brought) == 4, "it has read none of the others"
    assert whole_offset(5, (21, 20), brought) is None, "20 would come twice, or 4 never"
    assert whole_offset(12, (21, 20), brought) == 21
    assert whole_offset(12, (0, -1), brought) == 11, "nothing was sent yet"


def test_offsets_of_groups_only_go_on():
    wanted = [("t", 0, 5, ""), ("t", 1, 5, ""), ("t", 2, 5, "")]
    assert ahead(wanted, {("t", 0): 5, ("t", 1): 4, ("t", 2): 6}) == wanted[1:2]
    assert ahead(wanted, {}) == wanted


# -- What the log has to send ----------------------------------------------------------------------------------------


def test_a_feed_follows_transactions_and_single_entries(log):
    ids = {name: topic.topic_id for name, topic in log.state.topics.items()}
    sent = {(ids[name], number): 0 for name in ids for number in (0, 1)}
    feed = Feed(log, -1, sent, lambda *_: 0)
    with Producer(log, {"transactional.id": "x"}) as producer, Producer(log, {"linger.ms": 10_000}) as alone:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("a", b"1", partition=0)
        producer.flush()
        for name in ("a", "b"):
            alone.send(name, b"2", partition=0)
        alone.flush()
        assert feed.advance(10**6)
        assert feed.stops[ids["a"], 0] == 0
        (unit,) = feed.units
        assert unit.parts == {(ids["a"], 0): Part(1, 2, 1), (ids["b"], 0): Part(0, 1, 1)}
        assert feed.seq_after(feed.sent) == unit.seq - 1
        producer.send("b", b"3", partition=1)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("b", b"4", partition=1)
        producer.abort_transaction()
    assert feed.advance(10**6)
    assert [set(one.parts) for one in feed.units] == [
        {(ids["a"], 0), (ids["b"], 0)},
        {(ids["a"], 0), (ids["b"], 1)},
    ]
    feed.move(feed.stops)
    assert feed.units == []
    assert feed.seq_after(feed.sent) == log.state.seq
    Admin(log).create_partitions({"a": 3})
    assert feed.advance(10**6)
    assert feed.sent[ids["a"], 2] == 0, "it begins before its first record"


def test_a_feed_that_fell_behind_goes_on_from_what_is_known():
    """As a new process does: the entries that it was to read next are retired."""
    log = Log.create(MemoryStore(), snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    Admin(log).create_topic("a", partitions=2)
    key = (log.state.topics["a"].topic_id, 0)
    said = []
    feed = Feed(
        log, -1, {key: 0, (key[0], 1): 0}, lambda *_: 0, lambda name: name.startswith("b"), said.append
    )
    with Producer(log, {"linger.ms": 0}) as producer:
        producer.send("a", b"1", partition=0).result()
        assert feed.advance(10**6)
        assert [unit.parts for unit in feed.units] == [{key: Part(0, 1, 1)}]
        Admin(log).create_topic("b")
        Admin(log).create_partitions({"a": 3})
        for _ in range(20):
            producer.send("a", b"2", partition=1).result()
            producer.send("b", b"2").result()
        log.maintenance.snapshot()
        log.maintenance.retire(log.follow(), 1000)
        known = earliest(log)
        assert not feed.advance(10**6)
        new = (known.topics["b"].topic_id, 0)
        (unit,) = feed.units
        assert unit.parts == {
            key: Part(0, 1, 1),
            (key[0], 1): Part(0, known.partitions[key[0], 1].end, known.partitions[key[0], 1].end),
            new: Part(0, known.partitions[new].end, known.partitions[new].end),
        }
        assert feed.sent == {key: 0, (key[0], 1): 0, (key[0], 2): 0, new: 0}
        (text,) = said
        assert f"were written before entry {known.seq}, the first one that the log still has" in text
        assert feed.advance(10**6)
        assert feed.stops == {key: 1, (key[0], 1): 20, (key[0], 2): 0, new: 20}
        feed.move(feed.stops)
        assert feed.units == []
        assert feed.seq_after(feed.sent) == log.state.seq


def test_what_is_not_known_though_its_index_was_rewritten_since():
    """The oldest state refers to pages that were rolled and deleted: they are not needed to know what is stable."""
    log = Log.create(MemoryStore(), snapshot_interval=5)
    Admin(log).create_topic("a")
    with pytest.MonkeyPatch.context() as patch, Producer(log) as producer:
        patch.setattr(sealing, "PAGE_ROWS", 4)
        for _ in range(20):
            producer.send("a", b"1", partition=0).result()
    key = (log.follow().topics["a"].topic_id, 0)
    assert log.state.partitions[key].index.pages

    def gone(_page):
        raise ObjectNotFoundError("it was deleted")

    unit = unknown(log.state, {key: 3}, lambda *_: 0, gone)
    assert unit.parts == {key: Part(3, 20, 17)}


def test_what_was_written_before_the_first_entry_that_is_known(log):
    with Producer(log, {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        for commits in (True, False):
            producer.begin_transaction()
            producer.send("a", b"1", partition=0)
            producer.flush()
            (producer.commit_transaction if commits else producer.abort_transaction)()
        producer.begin_transaction()
        producer.send("a", b"2", partition=1)
        producer.flush()
        with Producer(log) as alone:
            alone.send("a", b"3", partition=1).result()
        key = (log.follow().topics["a"].topic_id, 0)
        feed = Feed(log, log.state.seq, {key: 0, (key[0], 1): 0}, lambda *_: 0)
        assert feed.add_unknown() == 5, (
            "offsets up to the last stable one, and to the last record that is closed"
        )
        (unit,) = feed.units
        assert unit.parts == {key: Part(0, 4, 4), (key[0], 1): Part(1, 2, 1)}
        assert Feed(log, log.state.seq, {key: 2}, lambda *_: 0).add_unknown() == 0, (
            "aborted, and control batches"
        )
        producer.commit_transaction()
    assert feed.advance(10**6)
    assert [unit.parts for unit in feed.units[1:]] == [{(key[0], 1): Part(0, 1, 1)}]
