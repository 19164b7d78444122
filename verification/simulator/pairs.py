"""Pairs: each transaction is in the log and in a second one, of which one decides (docs/design/0014)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from spark_eos.clients.admin import Admin
from spark_eos.clients.producer.producer import Producer
from spark_eos.config.isolation import Isolation
from spark_eos.errors import AbortableError, FatalError, RetriableError, StorageError, TopicExistsError
from spark_eos.extensions.several_logs.producer import MultiLogProducer
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import partition_of, plan
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import Send
from verification.no_threads import NO_THREADS
from verification.part_store import PartStore
from verification.simulator.clock import SimulatedClock
from verification.simulator.context import GivenUp, Stage
from verification.simulator.database import Pairs
from verification.simulator.world import Process

__all__ = ["check_pairs", "finish_pairs", "helper", "pair"]

OTHER = "other"


def _opened(stage: Stage, process: Process) -> tuple[Log, Log]:
    first = stage.open(process)
    second = stage.patiently(
        process,
        lambda: Log.open_or_create(
            PartStore(stage.store),
            SimulatedClock(process),
            Retry(deadline_s=stage.chance.choice([0, 10])),
            environment=NO_THREADS,
        ),
    )
    if OTHER not in stage.patiently(process, second.follow).topics:
        try:
            stage.patiently(process, lambda: Admin(second).create_topic(OTHER, 1))
        except TopicExistsError:
            stage.patiently(process, second.follow)
    first.register_decider(second)
    second.register_decider(first)
    return first, second


def pair(stage: Stage, name: str) -> Callable[[Process], None]:
    """A program that writes to both logs. In pairs with an even number the world's log decides, else the other one."""

    def body(process: Process) -> None:
        try:
            logs = _opened(stage, process)
            settings = {
                "transactional.id": name,
                "transaction.timeout.ms": stage.chance.choice([1000, 60_000]),
            }
            # Forked processes begin with what is known of the first log alone.
            producers = [stage.producer(process, logs[0], settings), Producer(logs[1], settings)]
            turned = name.endswith("1")
            group = MultiLogProducer(*(reversed(producers) if turned else producers))
            stage.patiently(process, group.init_transactions)
            while stage.goes_on:
                _transaction(stage, process, group, producers)
                stage.dawdle(process)
        except (FatalError, StorageError, GivenUp) as error:
            stage.world.note(f"gives up: {error}")

    return body


def _transaction(stage: Stage, process: Process, group: MultiLogProducer, producers: list) -> None:  # type: ignore[type-arg]
    sends = [Send(stage.partition(), stage.value(process)) for _ in range(stage.chance.randint(1, 2))]
    asked = stage.recorder.invoke(process.name, "transaction", sends, transaction=process.name, streamed=True)
    told = stage.pairs.told
    told.update((send.value, None) for send in sends)
    commits = stage.chance.random() < 0.8
    try:
        group.begin_transaction()
        for send in sends:
            producers[0].send(send.partition.topic, send.value, partition=send.partition.partition)
            producers[1].send(OTHER, send.value, partition=0)
            if stage.chance.random() < 0.3:
                producers[stage.chance.randrange(2)].flush()
        stage.dawdle(process)
        stage.patiently(process, group.commit_transaction if commits else group.abort_transaction)
    except (AbortableError, RetriableError) as error:
        stage.world.note(f"aborts: {error}")
        try:
            stage.patiently(process, group.abort_transaction)
        except (FatalError, GivenUp):
            stage.recorder.info(asked)
            raise
        commits = False
    except (FatalError, StorageError, GivenUp):
        stage.recorder.info(asked)
        raise
    told.update((send.value, commits) for send in sends)
    (stage.recorder.ok if commits else stage.recorder.fail)(asked)


def helper(stage: Stage) -> Callable[[Process], None]:
    """A reader of both logs, which ends what it finds prepared there."""

    def body(process: Process) -> None:
        try:
            logs = _opened(stage, process)
            while stage.goes_on:
                log = stage.chance.choice(logs)
                stage.patiently(process, log.resolve_followers)
                stage.dawdle(process)
        except (FatalError, StorageError, GivenUp) as error:
            stage.world.note(f"gives up: {error}")

    return body


def finish_pairs(stage: Stage, process: Process) -> None:
    """Readers end what was left, and see what there is."""
    if not stage.pairs.told:
        return
    logs = _opened(stage, process)
    for log in (*logs, *logs):
        log.overdue()
        log.expire_overdue()
        log.resolve_followers()
        process.wait(903)
    if waiting := [log.resolve_followers() for log in logs if log.resolve_followers()]:
        stage.broken.append(f"followers wait though all can be read: {waiting}")
    if any(log.follow().open_transactions for log in logs[1:]):
        stage.broken.append(f"transactions of the second log stayed open: {logs[1].state.open_transactions}")
    state, at = logs[1].follow(), TopicPartition(OTHER, 0)
    end = partition_of(state, at).last_stable_offset
    for fetch in plan(state, at, 0, end, Isolation.READ_COMMITTED):
        rows = logs[1].read(state.topics[OTHER], fetch)
        stage.pairs.there.update(row.decode() for row in rows.column("value").to_pylist())


def check_pairs(pairs: Pairs, rows: Counter[str]) -> list[str]:
    """What is in one log is in the other one, once, and as its process was told. ``rows`` are those of the first."""
    problems = []
    for value, told in pairs.told.items():
        found = (rows[value], pairs.there[value])
        if found not in ({(1, 1)} if told else {(0, 0)} if told is False else {(0, 0), (1, 1)}):
            problems.append(f"{value} is in the two logs {found} times, and its process was told {told}")
    return problems
