"""Consumers of a simulated world, of both isolation levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.records import ConsumerRecord
from spark_eos.errors import RetriableError
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import Isolation as Level
from spark_eos.testing.history import Poll
from verification.simulator.context import SHARED, Stage
from verification.simulator.world import Process

__all__ = ["reader"]


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
    isolation = consumer._settings["isolation.level"]  # noqa: SLF001
    polls = []
    for at in sorted(consumer.assignment()):
        position = consumer._assigned[at].position  # noqa: SLF001  (to ask for it would look at the log again)
        end = end_offset(partition_of(state, at), isolation)
        caught_up = position is not None and position >= end
        polls.append(Poll(at, tuple(found.get(at, ())), reassigned, caught_up, position))
    return polls
