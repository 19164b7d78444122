"""Plain consumers in a simulated world: groups with auto-commit, and readers of a topic that comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.errors import CommitFailedError, EosLogError, FatalError, InvalidRequestError, RetriableError
from verification.simulator.context import AUTO, RAW, SHARED, GivenUp, Stage
from verification.simulator.world import Process

__all__ = ["beat", "follower", "onlooker"]


def follower(stage: Stage, name: str) -> Callable[[Process], None]:
    """A member of a group with auto-commit: whatever the group has passed was given to one of its members."""

    def body(process: Process) -> None:
        chance = stage.chance
        settings = {
            **({"group.instance.id": name} if chance.random() < 0.3 else {}),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "group.id": AUTO,
            "enable.auto.commit": True,
            "auto.commit.interval.ms": chance.choice([0, 1000]),
            "max.poll.records": chance.choice([2, 500]),
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
            "max.poll.interval.ms": 20_000,
            "default.api.timeout.ms": 2000,
        }
        consumer = Consumer(stage.open(process), settings)
        consumer.subscribe([SHARED])
        while stage.goes_on:
            beat(consumer)
            try:
                records = consumer.poll(chance.choice([0, 100]))
            except (RetriableError, CommitFailedError):
                process.wait(0.1)
                continue
            except (FatalError, GivenUp) as error:
                stage.world.note(f"gives up: {error}")
                break
            stage.delivered |= {(record.partition, record.offset) for record in records}
            stage.dawdle(process)
        with suppress(EosLogError):
            consumer.close()

    return body


def onlooker(stage: Stage) -> Callable[[Process], None]:
    """Reads a topic that is deleted, created again, and loses its first records. It must only not break."""

    def body(process: Process) -> None:
        chance = stage.chance
        settings = {
            "isolation.level": chance.choice(["read_committed", "read_uncommitted"]),
            "auto.offset.reset": chance.choice(["earliest", "latest"]),
            "group.id": "onlookers",
            "enable.auto.commit": chance.random() < 0.5,
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
        }
        consumer = Consumer(stage.open(process), settings)
        consumer.subscribe([RAW])
        while stage.goes_on:
            beat(consumer)
            try:
                consumer.poll(chance.choice([0, 100]))
                if chance.random() < 0.2:
                    consumer.commit()
            except (RetriableError, CommitFailedError, InvalidRequestError) as error:
                stage.world.note(f"was refused: {error}")
                process.wait(0.1)
            stage.dawdle(process)
        with suppress(EosLogError):
            consumer.close()

    return body


def beat(consumer: Consumer) -> None:
    """What a thread of the consumer does between its polls."""
    rebalance = consumer._rebalance  # noqa: SLF001  (threads do not run in a simulated world)
    if rebalance is not None:
        rebalance.beats.step()
