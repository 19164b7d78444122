"""Which records of Kafka a mirror has not sent, by its offset map: against a look at each record."""

from __future__ import annotations

import random
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from spark_eos import Admin, TopicPartition
from spark_eos.errors import (
    ConfigError,
    GroupNotEmptyError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
)
from spark_eos.extensions.mirror.moving import return_to_kafka
from spark_eos.extensions.mirror.moving.return_to_kafka import WayBack
from spark_eos.extensions.mirror.out import out_map
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.out_map import OutMap
from spark_eos.extensions.mirror.out.position import map_topic
from spark_eos.extensions.mirror.runs import MapRow, Run
from spark_eos.log.log import Log
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

TOPIC, MAP = "orders", map_topic("m", "orders")


class Target:
    """Two topics of one partition: the committed records by offset, where markers leave gaps."""

    def __init__(self, mirrored, rows):
        self.topics = {TOPIC: dict.fromkeys(mirrored, b""), MAP: rows}
        self.read = 0

    def bounds(self, name, _):
        return min(self.topics[name], default=0), self.ends(name, 1)[0]

    def ends(self, name, _):
        return [max(self.topics[name], default=-1) + 1]

    def record_at(self, name, partition, offset):
        return next(self.records(name, partition, offset), None)

    def records(self, name, _, first, end=None):
        self.read += 1
        for offset, value in sorted(self.topics[name].items()):
            if offset >= first and (end is None or offset < end):
                yield offset, value


def made(chance):
    """Transactions of the mirror, of producers in Kafka and markers, in some order: the target, and what was sent."""
    at = log = 0
    mirrored, others, rows, runs, end = [], [], {}, [], None
    for _ in range(chance.randint(0, 12)):
        count = chance.randint(1, 3)
        if chance.random() < 0.15:
            others += range(at, at + count)
        else:
            mirrored += range(at, at + count)
            runs.append(Run(at, log, count))
            log += count
        at += count + chance.randint(0, 2)
        if runs and chance.random() < 0.5:
            rows[2 * len(rows)] = MapRow(end, tuple(runs)).data
            end, runs = runs[-1].end, []
    if runs:
        rows[2 * len(rows)] = MapRow(end, tuple(runs)).data
    return Target([*mirrored, *others], rows), others, at


@pytest.mark.parametrize("at_a_time", [1, 2, 100_000])
def test_the_first_record_that_was_not_sent(monkeypatch, at_a_time):
    monkeypatch.setattr(out_map, "_RUNS", at_a_time)
    met = set()
    for seed in range(400):
        chance = random.Random(seed)
        target, others, length = made(chance)
        back = WayBack.__new__(WayBack)
        back._target = target
        first = chance.randint(0, length)
        end = chance.randint(first, length)
        offsets = OutMap(target, "m", TOPIC, 0, (length if target.topics[MAP] else -1, length))
        wanted = min((one for one in others if first <= one < end), default=None)
        assert back._first_foreign(TOPIC, 0, offsets, first, end) == wanted, seed
        met.add(wanted is None)
    assert met == {True, False}


def test_a_thousand_transactions_are_read_in_one_pass():
    """A look at each of them would take minutes."""
    rows = {at: MapRow((2 * at, at) if at else None, (Run(2 * at, at, 1),)).data for at in range(1000)}
    target = Target(range(0, 2000, 2), rows)
    back = WayBack.__new__(WayBack)
    back._target = target
    assert back._first_foreign(TOPIC, 0, OutMap(target, "m", TOPIC, 0, (2000, 1000)), 0, 2000) is None
    assert target.read < 30


def test_a_group_goes_on_in_kafka_after_the_last_record_that_was_sent():
    """Runs may have gaps on both sides, and rows may end between two runs."""
    rows = {
        0: MapRow(None, (Run(10, 0, 3), Run(20, 5, 2))).data,
        2: MapRow((22, 7), (Run(30, 7, 1),)).data,
    }
    offsets = OutMap(Target([], rows), "m", TOPIC, 0, (31, 8))
    last = [-1, 10, 11, 12, 12, 12, 20, 21, 30, 30]
    assert [offsets.last_before(offset) for offset in range(10)] == last


ROWS = {
    0: MapRow(None, (Run(10, 0, 3),)).data,
    2: MapRow((13, 3), (Run(30, 7, 1),)).data,
}


@pytest.mark.parametrize("rows", [{}, {2: ROWS[2]}, {0: ROWS[0]}], ids=["all", "the first", "the last"])
def test_a_reader_passes_over_nothing_where_the_map_lacks_rows(monkeypatch, rows):
    """What the map does not have would be before the end of all that was sent."""
    monkeypatch.setattr(out_map, "_VISIBLE_S", 0.0)
    offsets = OutMap(Target([], rows), "m", TOPIC, 0, (31, 8))
    looks = [lambda: offsets.to_kafka(4), lambda: offsets.to_log(20)]
    looks += [lambda: offsets.last_before(4), lambda: offsets.last_before(8)]
    if 0 not in rows:
        looks += [lambda: offsets.sent(0, 31)]
    for look in looks:
        with pytest.raises(OffsetOutOfRangeError, match="is not whole any more"):
            look()
    whole = OutMap(Target([], ROWS), "m", TOPIC, 0, (31, 8))
    assert (whole.to_kafka(4), whole.to_kafka(8)) == ((30, False), (31, False))
    assert OutMap(Target([], {}), "m", TOPIC, 0, (-1, 8)).to_kafka(4) == (0, False), "nothing was sent"


def test_rows_that_are_not_visible_yet_are_waited_for(monkeypatch):
    """Kafka says that a transaction is committed before each partition shows it."""

    class Late(Target):
        looks = 0

        def record_at(self, name, partition, offset):
            self.looks += 1
            return super().record_at(name, partition, offset) if offset == 0 or self.looks > 6 else None

    monkeypatch.setattr(out_map.time, "sleep", lambda _: None)
    target = Late([], ROWS)
    assert OutMap(target, "m", TOPIC, 0, (31, 8)).to_kafka(7) == (30, True)
    assert target.looks > 6


def test_what_is_not_in_kafka_yet_is_waited_for(monkeypatch):
    looks = iter(range(1000))
    monkeypatch.setattr(return_to_kafka, "WayBack", lambda *_: next(looks))
    log = Log.create(MemoryStore(), FakeClock())
    waited = return_to_kafka._waited

    def late(until):
        return lambda look: "t-0 up to offset 5" if look < until else None

    assert waited(log, None, "m", late(3), 60, "the query has read") == 3
    with pytest.raises(
        KafkaTimeoutError, match="the query has read t-0 up to offset 5, which is not in Kafka"
    ):
        waited(log, None, "m", late(1000), 5, "the query has read")
    assert next(looks) > 5


@pytest.mark.parametrize("error", [None, "UNKNOWN_TOPIC_OR_PART"])
def test_an_offset_of_a_group_that_kafka_refuses_is_an_error(error):
    kafka = pytest.importorskip("confluent_kafka")

    def alter(request, **_):
        (group,) = request
        for at in group.topic_partitions:
            answer = SimpleNamespace(topic=at.topic, partition=at.partition, error=None)
            if error is not None and at.partition == 1:
                answer.error = kafka.KafkaError(getattr(kafka.KafkaError, error))
            answers.append(answer)
        future = Future()
        future.set_result(SimpleNamespace(topic_partitions=answers))
        return {group.group_id: future}

    answers, target = [], KafkaTarget.__new__(KafkaTarget)
    target._kafka = kafka
    target._admin = SimpleNamespace(alter_consumer_group_offsets=alter)
    target._heard = SimpleNamespace(error_names=set())
    offsets = [("t", 0, 5, ""), ("t", 1, 7, "")]
    if error is None:
        target.move_group("g", offsets)
        assert [(at.topic, at.partition) for at in answers] == [("t", 0), ("t", 1)]
        return
    with pytest.raises(ConfigError, match="Kafka refuses the offset of t-1: "):
        target.move_group("g", offsets)


class MovedTo:
    """Kafka, where a group stands at ``offset`` of the topic ``k``; ``members``: whether it has any, look by look."""

    def __init__(self, offset, members=(), moves=lambda: None):
        self.offset, self.members, self.moves, self.moved = offset, [*members], moves, []

    def has_members(self, _):
        return bool(self.members) and self.members.pop(0)

    def offsets_of(self, _):
        return {("k", 0): (self.offset, "")}

    def move_group(self, _, moves):
        self.moved += moves
        self.moves()


def test_a_group_moves_back_once_and_only_forward(monkeypatch):
    log = Log.create(MemoryStore(), FakeClock())
    admin, at = Admin(log), TopicPartition("t", 0)
    admin.create_topic("t")
    topic_ids = {"t": log.topic("t").topic_id}
    admin.alter_group_offsets("g", {at: 0})

    def back(*_):
        """Kafka's offsets are larger by 10."""
        return SimpleNamespace(
            state=log.follow(),
            sent={"t": SimpleNamespace(topic_id=topic_ids["t"], kafka="k")},
            has_sent=lambda *_: True,
            place=lambda _topic, _number, offset, **_: offset + 10,
        )

    def move(target):
        return return_to_kafka.move_group_back(log, target, "m", "g", timeout_s=0)

    monkeypatch.setattr(return_to_kafka, "WayBack", back)
    for stands, moved in ((3, [("k", 0, 10, "")]), (20, [])):
        target = MovedTo(stands)
        assert move(target) == [("t", 0, 0, "k", max(stands, 10))]
        assert target.moved == moved
    for members in ([True], [False, True], [False, False, True]):
        with pytest.raises(GroupNotEmptyError, match="a consumer was started there too early"):
            move(MovedTo(3, members))
    with pytest.raises(IllegalStateError, match="has committed offsets in the log while it moved"):
        move(MovedTo(3, moves=lambda: admin.delete_group("g")))
    admin.alter_group_offsets("g", {at: 0})
    topic_ids["t"] = "of the topic before"
    with pytest.raises(ConfigError, match="has committed no offset in the log for a topic of mirror out 'm'"):
        move(MovedTo(3))
