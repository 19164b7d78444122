"""Producers of a simulated world: they write down what they asked for and what they were told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    RetriableError,
)
from spark_eos.log.log import Log
from spark_eos.testing.history import Send, Token
from verification.simulator.context import SHARED, GivenUp, Stage
from verification.simulator.world import Process

__all__ = ["commit", "idempotent", "transactional"]


def transactional(stage: Stage, transactional_id: str, *, streams: bool) -> Callable[[Process], None]:
    """A producer of transactions, committed or aborted; with ``streams`` it flushes inside of them."""

    def body(process: Process) -> None:
        chance = stage.chance
        timeout_ms = chance.choice([1000, 60_000])
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        producer = stage.producer(process, stage.open(process), settings)
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
        commit(stage, process, producer)
    except CommitOutcomeLostError:
        raise  # It is not known.
    except FatalError:
        # Before its end was asked for, or refused for certain: whatever it appended is aborted by its fencer.
        recorder.fail(token)
        raise
    except (AbortableError, RetriableError) as error:
        stage.world.note(f"aborts: {error}")
        _give_back(stage, process, producer, token)
    else:
        recorder.ok(token, _acknowledged(sends, futures))


def commit(stage: Stage, process: Process, producer: Producer) -> None:
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


def idempotent(stage: Stage, opened: Callable[[Process], Log] | None = None) -> Callable[[Process], None]:
    """A producer without transactions. What it sends together is one request and one event."""

    def body(process: Process) -> None:
        chance, recorder = stage.chance, stage.recorder
        settings = {"delivery.timeout.ms": chance.choice([100, 120_000])}
        producer = stage.producer(process, (opened or stage.open)(process), settings)
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
