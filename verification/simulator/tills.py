"""Tills: each sale is in a database and in the log, in prepared transactions that the database decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import AbortableError, FatalError, RetriableError
from spark_eos.testing.history import Send
from verification.simulator.context import GivenUp, Stage
from verification.simulator.database import Database
from verification.simulator.world import Process

__all__ = ["check_databases", "till"]


def till(stage: Stage, transactional_id: str, database: Database) -> Callable[[Process], None]:
    """A program that writes to a database and to the log, as the guide shows it."""

    def body(process: Process) -> None:
        try:
            producer = _begun(stage, process, transactional_id, database)
            while stage.goes_on:
                _sale(stage, process, producer, database)
                stage.dawdle(process)
        except (FatalError, GivenUp) as error:
            stage.world.note(f"gives up: {error}")

    return body


def _begun(stage: Stage, process: Process, transactional_id: str, database: Database) -> Producer:
    """A producer that has completed what the process before has left."""
    settings = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": stage.chance.choice([1000, 60_000]),
        "transaction.two.phase.commit.enable": True,
    }
    producer = stage.producer(process, stage.open(process), settings)
    stage.patiently(process, lambda: producer.init_transactions(keep_prepared_transaction=True))
    token = database.take_over(process.name)
    stage.patiently(process, lambda: producer.complete_transaction(token))
    return producer


def _sale(stage: Stage, process: Process, producer: Producer, database: Database) -> None:
    sends = [Send(stage.partition(), stage.value(process)) for _ in range(stage.chance.randint(1, 3))]
    values = tuple(send.value for send in sends)
    asked = stage.recorder.invoke(process.name, "transaction", sends, transaction=process.name, streamed=True)
    database.offered.update(values)
    try:
        producer.begin_transaction()
        for send in sends:
            producer.send(send.partition.topic, send.value, partition=send.partition.partition)
            if stage.chance.random() < 0.3:
                producer.flush()
        token = str(stage.patiently(process, producer.prepare_transaction))
    except (AbortableError, RetriableError) as error:
        stage.world.note(f"aborts: {error}")
        stage.patiently(process, producer.abort_transaction)
        stage.recorder.fail(asked)
        return
    except (FatalError, GivenUp):
        stage.recorder.info(asked)
        raise
    stage.dawdle(process)
    sold = stage.chance.random() < 0.7 and database.commit(process.name, token, values)
    stage.dawdle(process)
    try:
        stage.patiently(process, lambda: producer.complete_transaction(token if sold else database.token))
    except (FatalError, GivenUp):
        stage.recorder.info(asked)
        raise
    (stage.recorder.ok if sold else stage.recorder.fail)(asked)


def complete(stage: Stage, process: Process, name: str, database: Database) -> None:
    """The next process of a till, which begins as the guide shows it and then has nothing to sell."""
    producer = _begun(stage, process, name, database)
    producer.close()


def check_databases(databases: dict[str, Database], rows: Counter[str]) -> list[str]:
    """Each database and the log agree. ``rows`` are the committed ones."""
    problems = []
    for name, database in databases.items():
        sold = {value for values in database.sales.values() for value in values}
        there = {value for value in database.offered if rows[value]}
        if sold != there:
            problems.append(
                f"{name}: in the database and not in the log {sorted(sold - there)}, "
                f"in the log and not in the database {sorted(there - sold)}"
            )
    return problems
