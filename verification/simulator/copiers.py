"""Consume, transform, produce in a simulated world, alone or in a group."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from spark_eos.clients.admin import Admin
from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.records import ConsumerRecord
from spark_eos.errors import (
    AbortableError,
    CommitFailedError,
    EosLogError,
    FatalError,
    IllegalStateError,
    RetriableError,
)
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import Send
from verification.simulator.context import INPUT, OUTPUT, GivenUp, Stage
from verification.simulator.followers import beat
from verification.simulator.producers import commit
from verification.simulator.world import Process

__all__ = ["copier"]

_MARKS = "marks"
"""A group that is moved while transactions carry offsets of it."""


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
                **({"group.instance.id": name} if subscribes and chance.random() < 0.3 else {}),
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
        self.group, self.subscribes, self.admin = group, subscribes, Admin(log)
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
                beat(consumer)
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
            if chance.random() < 0.3:
                producer.send_offsets_to_transaction(after, _MARKS)
                producer.flush()  # With the offsets, which wait in the log now.
                self.admin.alter_group_offsets(_MARKS, dict.fromkeys(after, 0))
            stage.dawdle(self.process)
            if chance.random() < 0.15:
                stage.patiently(self.process, producer.abort_transaction)
                self._rewind()
                return
            commit(stage, self.process, producer)
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
