"""What goes on in a simulated world: clients doing what applications do, and writing down what they were told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from spark_eos.clients.admin import Admin
from spark_eos.clients.consumer import Consumer
from spark_eos.clients.producer import Producer
from spark_eos.clients.records import ConsumerRecord
from spark_eos.errors import (
    AbortableError,
    CommitFailedError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    IllegalStateError,
    RetriableError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.log.plan import Isolation, end_offset, partition_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import Isolation as Level
from spark_eos.testing.history import Poll, Recorder, Send, Token
from spark_eos.testing.simulator.clock import SimulatedClock
from spark_eos.testing.simulator.store import SimulatedStore
from spark_eos.testing.simulator.world import Process, World

__all__ = [
    "INPUT",
    "OUTPUT",
    "SHARED",
    "Stage",
    "administrator",
    "copier",
    "idempotent",
    "reader",
    "transactional",
]

T = TypeVar("T")

INPUT, OUTPUT, SHARED = "input", "output", "shared"
"""Copiers read the first and write the second; everybody writes to the third."""


DAYS_S = 200_000.0
"""How long a world lasts at most, in its own time."""


class GivenUp(Exception):  # noqa: N818  (the application's own end, not an error of the log)
    """The application has tried for long enough."""


class Stage:
    """What the actors of one world have in common."""

    def __init__(self, world: World, store: SimulatedStore, operations: int) -> None:
        self.world = world
        self.store = store
        self.recorder = Recorder(lambda: world.now)
        self.operations = operations
        self.chance = world.random
        self._values = 0

    @property
    def goes_on(self) -> bool:
        """Whether there is still time to begin something."""
        return self.world.operations < self.operations and self.world.now < DAYS_S

    def open(self, process: Process) -> Log:
        """The log, as this process sees it; tried for as long as it takes."""
        return self.patiently(
            process,
            lambda: Log.open(
                self.store, SimulatedClock(process), Retry(deadline_s=self.chance.choice([0, 10]))
            ),
        )

    def patiently(self, process: Process, call: Callable[[], T]) -> T:
        """Call again after a `RetriableError`, as applications do."""
        for _ in range(400):
            try:
                return call()
            except RetriableError:
                process.wait(self.chance.choice([0.05, 1.0]))
        raise GivenUp

    def value(self, process: Process) -> str:
        """Text that nobody else sends."""
        self._values += 1
        return f"{process.name}:{self._values}"

    def partition(self, topic: str = SHARED) -> TopicPartition:
        """One that is there from the beginning."""
        return TopicPartition(topic, self.chance.randrange({INPUT: 2, OUTPUT: 3, SHARED: 2}[topic]))

    def dawdle(self, process: Process) -> None:
        """Take some time, now and then more than any timeout allows."""
        if self.chance.random() < 0.3:
            process.wait(self.chance.choice([0.01, 0.3, 3.0, 80.0]))


def _end(stage: Stage, process: Process, call: Callable[[], None]) -> None:
    stage.patiently(process, call)


def transactional(stage: Stage, transactional_id: str, *, streams: bool) -> Callable[[Process], None]:
    """A producer of transactions, committed or aborted; with ``streams`` it flushes inside of them."""

    def body(process: Process) -> None:
        chance = stage.chance
        timeout_ms = chance.choice([1000, 60_000])
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        producer = Producer(stage.open(process), settings)
        try:
            stage.patiently(process, producer.init_transactions)
            while stage.goes_on:
                _transaction(stage, process, producer, transactional_id, streams=streams)
                stage.dawdle(process)
        except (FatalError, GivenUp) as error:
            stage.world.note(f"gives up: {error}")

    return body


def _transaction(stage: Stage, process: Process, producer: Producer, name: str, *, streams: bool) -> None:
    chance, recorder = stage.chance, stage.recorder
    sends = [Send(stage.partition(), stage.value(process)) for _ in range(chance.randint(1, 4))]
    flushes = [streams and chance.random() < 0.5 for _ in sends]
    token = recorder.invoke(process.name, "transaction", sends, transaction=name, streamed=any(flushes))
    futures: list[Any] = []
    try:
        producer.begin_transaction()
        for send, flush in zip(sends, flushes, strict=True):
            at = send.partition
            futures.append(producer.send(at.topic, send.value, partition=at.partition))
            if flush:
                producer.flush()
        stage.dawdle(process)
        if chance.random() < 0.25:
            stage.patiently(process, producer.abort_transaction)
            recorder.fail(token)
            return
        _commit(stage, process, producer)
    except FatalError:
        # Before its end was asked for, or refused for certain: whatever it appended is aborted by its fencer.
        recorder.fail(token)
        raise
    except (AbortableError, RetriableError) as error:
        stage.world.note(f"aborts: {error}")
        _give_back(stage, process, producer, token)
    else:
        recorder.ok(token, _acknowledged(sends, futures))


def _commit(stage: Stage, process: Process, producer: Producer) -> None:
    """After an unknown outcome, and after any other that may pass, the same verb again."""
    for _ in range(400):
        try:
            producer.commit_transaction()
        except RetriableError:
            process.wait(stage.chance.choice([0.05, 1.0]))
        else:
            return
    raise GivenUp


def _give_back(stage: Stage, process: Process, producer: Producer, token: Token) -> None:
    try:
        stage.patiently(process, producer.abort_transaction)
    except FatalError:
        stage.recorder.fail(token)
        raise
    stage.recorder.fail(token)


def _acknowledged(sends: Iterable[Send], futures: Iterable[Any]) -> list[Send]:
    return [
        Send(send.partition, send.value, future.result(0).offset)
        for send, future in zip(sends, futures, strict=True)
    ]


def idempotent(stage: Stage) -> Callable[[Process], None]:
    """A producer without transactions. What it sends together is one request and one event."""

    def body(process: Process) -> None:
        chance, recorder = stage.chance, stage.recorder
        settings = {"delivery.timeout.ms": chance.choice([100, 120_000])}
        producer = Producer(stage.open(process), settings)
        while stage.goes_on:
            sends = [Send(stage.partition(), stage.value(process)) for _ in range(chance.randint(1, 3))]
            token = recorder.invoke(process.name, "send", sends)
            try:
                futures = []
                for one in sends:
                    send = partial(producer.send, SHARED, one.value, partition=one.partition.partition)
                    futures.append(stage.patiently(process, send))
                producer.flush()
                answered = _acknowledged(sends, futures)
            except CommitOutcomeUnknownError:
                recorder.info(token)
            except EosLogError as error:
                stage.world.note(f"was refused: {error}")
                recorder.fail(token)
            else:
                recorder.ok(token, answered)
            stage.dawdle(process)

    return body


def reader(stage: Stage, isolation: Level) -> Callable[[Process], None]:
    """A consumer of all partitions of the shared topic."""

    def body(process: Process) -> None:
        chance, recorder = stage.chance, stage.recorder
        log = stage.open(process)
        consumer = Consumer(log, {"isolation.level": isolation, "auto.offset.reset": "earliest"})
        places = [TopicPartition(SHARED, number) for number in range(2)]
        stage.patiently(process, lambda: consumer.assign(places))
        first = True
        while stage.goes_on:
            token = recorder.invoke(process.name, "poll", isolation=isolation)
            try:
                records = consumer.poll(chance.choice([0, 50, 2000]), chance.choice([None, 1, 3]))
            except RetriableError:
                recorder.fail(token)
                process.wait(0.2)
                continue
            recorder.ok(token, _polls(records, consumer, log.state, reassigned=first))
            first = False
            stage.dawdle(process)

    return body


def _polls(
    records: list[ConsumerRecord], consumer: Consumer, state: State, *, reassigned: bool
) -> list[Poll]:
    """What a poll gave of each partition. ``state`` is the one that answered it: the last one followed."""
    found: dict[TopicPartition, list[tuple[int, Any]]] = {}
    for record in records:
        at = TopicPartition(record.topic, record.partition)
        found.setdefault(at, []).append((record.offset, record.value.decode()))
    isolation = Isolation(consumer._settings["isolation.level"])  # noqa: SLF001
    polls = []
    for at in sorted(consumer.assignment()):
        position = consumer._assigned[at].position  # noqa: SLF001  (to ask for it would look at the log anew)
        end = end_offset(partition_of(state, at), isolation)
        caught_up = position is not None and position >= end
        polls.append(Poll(at, tuple(found.get(at, ())), reassigned, caught_up, position))
    return polls


def copier(
    stage: Stage, name: str, *, group: str, subscribes: bool, until: Callable[[], bool]
) -> Callable[[Process], None]:
    """Consume, transform, produce, exactly once: fenced by its transactional id, or by the group (KIP-447)."""

    def body(process: Process) -> None:
        _Copier(stage, process, name, group, subscribes=subscribes).run(until)

    return body


class _Copier:
    def __init__(self, stage: Stage, process: Process, name: str, group: str, *, subscribes: bool) -> None:
        self.stage, self.process, self.name = stage, process, name
        chance, log = stage.chance, stage.open(process)
        self.consumer = Consumer(
            log,
            {
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.id": group,
                "max.poll.records": chance.choice([3, 10]),
                "session.timeout.ms": 3000,
                "heartbeat.interval.ms": 500,
                "max.poll.interval.ms": 20_000,
                "default.api.timeout.ms": 2000,
                "partition.assignment.strategy": chance.choice(
                    ["range,cooperative-sticky", "cooperative-sticky,range", "roundrobin,range"]
                ),
            },
        )
        self.group, self.subscribes = group, subscribes
        self.producer = Producer(log, {"transactional.id": name, "transaction.timeout.ms": 2000})

    def run(self, until: Callable[[], bool]) -> None:
        stage, consumer = self.stage, self.consumer
        try:
            stage.patiently(self.process, self.producer.init_transactions)
            if self.subscribes:
                consumer.subscribe([INPUT])
            else:
                places = [TopicPartition(INPUT, number) for number in range(2)]
                stage.patiently(self.process, lambda: consumer.assign(places))
            while until():
                self._beat()
                try:
                    records = consumer.poll(100)
                except (RetriableError, CommitFailedError):
                    self.process.wait(0.1)
                    continue
                if records:
                    self._copy(records)
                stage.dawdle(self.process)
        except (FatalError, GivenUp) as error:
            stage.world.note(f"gives up: {error}")
        with suppress(EosLogError):
            consumer.close()

    def _beat(self) -> None:
        """What a thread of the consumer does between its polls."""
        rebalance = self.consumer._rebalance  # noqa: SLF001  (threads do not run in a simulated world)
        if rebalance is not None:
            rebalance.beats.step()

    def _copy(self, records: list[ConsumerRecord]) -> None:
        stage, producer, chance = self.stage, self.producer, self.stage.chance
        sends = [Send(stage.partition(OUTPUT), record.value.decode()) for record in records]
        after = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        # Values come again after an abort, so copies are counted at the end and are no part of the history.
        try:
            producer.begin_transaction()
            for send in sends:
                producer.send(OUTPUT, send.value, partition=send.partition.partition)
            if chance.random() < 0.2:
                producer.flush()
            owner = self.consumer.group_metadata() if self.subscribes else self.group
            producer.send_offsets_to_transaction(after, owner)
            stage.dawdle(self.process)
            if chance.random() < 0.15:
                stage.patiently(self.process, producer.abort_transaction)
                self._rewind()
                return
            _commit(stage, self.process, producer)
            stage.world.note(f"copied {[send.value for send in sends]}")
        except (AbortableError, RetriableError) as error:
            stage.world.note(f"aborts: {error}")
            stage.patiently(self.process, producer.abort_transaction)
            self._rewind()

    def _rewind(self) -> None:
        """Positions come from committed state only (KAFKA-17582)."""
        for at in sorted(self.consumer.assignment()):
            known = self.stage.patiently(self.process, partial(self.consumer.committed, [at]))[at]
            with suppress(IllegalStateError):  # Lost to another member meanwhile.
                self.consumer.seek(at, 0 if known is None else known.offset)


def administrator(stage: Stage) -> Callable[[Process], None]:
    """Makes, changes and deletes topics, looks at transactions and ends some, sweeps."""

    def body(process: Process) -> None:
        admin = _Administrator(stage, process)
        verbs = [admin.create, admin.delete, admin.sweep, admin.end_transactions, admin.grow, admin.look]
        while stage.goes_on:
            process.wait(stage.chance.choice([0.5, 5.0, 60.0]))
            try:
                stage.chance.choice(verbs)()
            except EosLogError as error:
                stage.world.note(f"was refused: {error}")

    return body


class _Administrator:
    def __init__(self, stage: Stage, process: Process) -> None:
        self.chance = stage.chance
        self.log = stage.open(process)
        self.admin = Admin(self.log)
        self.name = process.name.replace("#", "-")
        self.made = 0

    def create(self) -> None:
        self.made += 1
        self.admin.create_topic(f"extra-{self.name}-{self.made}", self.chance.randint(1, 3))

    def delete(self) -> None:
        if extra := [name for name in self.admin.list_topics() if name.startswith("extra")]:
            self.admin.delete_topic(self.chance.choice(extra))

    def sweep(self) -> None:
        self.log.follow()
        self.log.sweep(everything=True)

    def end_transactions(self) -> None:
        for found in self.admin.list_transactions():
            if found.state == "Ongoing" and self.chance.random() < 0.3:
                self.admin.abort_transaction(found.transactional_id)

    def grow(self) -> None:
        count = len(self.admin.describe_topic(INPUT).partitions)
        if count < 4 and self.chance.random() < 0.2:
            self.admin.alter_topic(INPUT, partitions=count + 1)

    def look(self) -> None:
        self.admin.list_groups()
        self.admin.list_transactions()
