"""A day of a log that is used as it should be: no look at it finds a trouble."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.monitoring.status import Space, status_of
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

MINUTE_S = 60
PLENTY = Space(500 << 30, 1000 << 30)
TOPICS = {"orders": 3, "payments": 2, "clicks": 4, "copies": 2}


class Day:
    """Producers, a group of consumers, a job that copies in transactions, a query of Spark, and maintenance."""

    def __init__(self):
        self.clock = FakeClock()
        self.clock.now = 1_800_000_000.0
        self.store = MemoryStore()
        self.log = Log.create(self.store, self.clock).without_maintenance()
        for name, partitions in TOPICS.items():
            Admin(self.log).create_topic(name, partitions, {"retention.ms": str(6 * 3600 * 1000)})
        self.producer = Producer(self.log, {"linger.ms": 60_000})
        self.start_job()
        self.members = [self.member() for _ in range(2)]
        self.maintainer = Maintainer(self.log, heartbeat_name=heartbeat_name)
        self.batch = 0
        self.read = dict.fromkeys(range(TOPICS["clicks"]), 0)

    def member(self):
        made = Consumer(
            self.log, {"group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        made.subscribe(["orders", "payments"])
        return made

    def start_job(self):
        self.job = Producer(self.log, {"transactional.id": "copy", "linger.ms": 60_000})
        self.job.init_transactions()

    def minute(self, number):
        """What is written and read in it. Readers come some seconds after writers."""
        for at in range(12):
            for topic in ("orders", "payments", "clicks"):
                self.producer.send(topic, b"x" * 100, partition=at % TOPICS[topic])
        self.producer.flush()
        self.clock.now += MINUTE_S / 2
        for member in self.members:
            member._rebalance.beats.step()  # Its thread does not see that time passes.
            if member.poll(0):
                member.commit()
        self.copy(number)
        self.query()
        self.clock.now += MINUTE_S / 2

    def copy(self, number):
        self.job.begin_transaction()
        for at in range(5):
            self.job.send("copies", b"y" * 100, partition=at % 2)
        offsets = {TopicPartition("orders", at): self.end("orders", at) for at in range(TOPICS["orders"])}
        self.job.send_offsets_to_transaction(offsets, "copying")
        if number % 50 == 49:
            self.job.abort_transaction()
        else:
            self.job.commit_transaction()

    def query(self):
        """A micro-batch of a query that reads clicks."""
        topic_id = self.log.state.topics["clicks"].topic_id
        ends = {at: self.end("clicks", at) for at in self.read}
        places = [
            tuple(PartitionOffset("clicks", topic_id, at, offset) for at, offset in offsets.items())
            for offsets in (self.read, ends)
        ]
        source = SourceProgress("{}", "{}", "sessions", *places)
        batch = MicroBatch("sessions", "q-1", "run-1", self.batch, (source,), (), ())
        self.log.commit(lambda state: propose(state, batch, finished=False))
        self.read, self.batch = ends, self.batch + 1

    def end(self, topic, partition):
        state = self.log.state
        return state.partitions[state.topics[topic].topic_id, partition].last_stable_offset

    def hour(self, number):
        """Maintenance; and now and then one is deployed again."""
        for done in self.maintainer.run(wait=False):  # As `eoslog maintain --watch`: a wait is hours here.
            assert done.error is None, done
        if number % 12 == 0:  # As a backup and a verification do when they end.
            self.log.commit(lambda state: (*note_actions(state, BACKUP), *note_actions(state, VERIFY, SOUND)))
        if number % 6 == 5:
            self.job.close()
            self.start_job()
            self.members.pop(0).close()
            self.members.append(self.member())

    def look(self):
        """As `eoslog status` tells it."""
        return status_of(self.store, clock=self.clock, space=lambda _: PLENTY).troubles

    def close(self):
        for one in (self.producer, self.job, *self.members):
            one.close()


@pytest.fixture
def day():
    made = Day()
    yield made
    made.close()


@pytest.mark.parametrize("hours", [1, pytest.param(24, marks=pytest.mark.deep)])
def test_a_healthy_log_has_no_trouble(day, hours):
    passes_without_trouble(day, hours)


def passes_without_trouble(day, hours):
    for hour in range(hours):
        for minute in range(60):
            day.minute(minute)
            if minute % 7 == 0:
                assert day.look() == [], (hour, minute)
        day.hour(hour)
        assert day.look() == [], hour
