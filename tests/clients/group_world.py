"""A log with a clock of its own, and consumers on it whose heartbeats beat when a test says so."""

from __future__ import annotations

from spark_eos import Admin, Consumer, Producer
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from tests.log.fakes import FakeClock


class Heard:
    """A listener that writes down what it hears."""

    def __init__(self):
        self.calls = []

    def on_partitions_assigned(self, partitions):
        self.calls.append(("assigned", places(partitions)))

    def on_partitions_revoked(self, partitions):
        self.calls.append(("revoked", places(partitions)))

    def on_partitions_lost(self, partitions):
        self.calls.append(("lost", places(partitions)))

    def take(self):
        calls, self.calls = self.calls, []
        return calls


class World:
    """Consumers here have no threads: `beat` does what those would do, `pass_time` lets all of them beat."""

    def __init__(self, *topics, store=None):
        self.clock = FakeClock()
        self.log = Log.open_or_create(store or MemoryStore(), clock=self.clock)
        self.admin = Admin(self.log)
        self.producer = Producer(self.log, {"linger.ms": 60_000})  # `fill` is one batch.
        for name, partitions in topics:
            self.admin.create_topic(name, partitions)

    def member(self, *topics, listener=None, pattern=None, **settings):
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = {"group.id": "g", "auto.offset.reset": "earliest", **given}
        consumer = Consumer(self.log, config)
        consumer.subscribe(topics or (() if pattern else ("t",)), pattern=pattern, listener=listener)
        return consumer

    def fill(self, topic="t", partition=None, values=()):
        for value in values:
            self.producer.send(topic, str(value), partition=partition)
        self.producer.flush()

    @property
    def group(self):
        return self.log.follow().groups["g"]

    def pass_time(self, seconds, *alive, step=3.0):
        while seconds > 0:
            self.clock.now += min(step, seconds)
            seconds -= step
            for consumer in alive:
                beats(consumer).step()


def beats(consumer):
    return consumer._rebalance.beats


def member_id(consumer):
    return consumer.group_metadata().member_id


def places(partitions):
    """Partitions in short: ``t0 t1``."""
    return " ".join(f"{topic}{number}" for topic, number in sorted(partitions))


def held(consumer):
    return places(consumer.assignment())


def settle(*consumers, **options):
    """Poll all consumers until none gets anything new; the records by consumer."""
    found = [[] for _ in consumers]
    for _ in range(4):
        for number, consumer in enumerate(consumers):
            found[number] += consumer.poll(**options)
    return found


def values(records):
    return [int(record.value) for record in records]
