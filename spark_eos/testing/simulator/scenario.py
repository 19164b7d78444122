"""One seed, one run: who acts, in which weather, and what must hold when all is over."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from spark_eos.clients.admin import Admin
from spark_eos.clients.producer import Producer
from spark_eos.errors import EosLogError, ObjectNotFoundError
from spark_eos.log import names
from spark_eos.log.log import Log
from spark_eos.log.plan import Isolation, end_offset, plan
from spark_eos.log.read import read
from spark_eos.log.tail import Tail
from spark_eos.protocol.codec import decode_entry
from spark_eos.protocol.invariants import InvariantError, check_step
from spark_eos.protocol.rules import apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history import READ_COMMITTED, READ_UNCOMMITTED, Event, check
from spark_eos.testing.simulator.administrator import administrator
from spark_eos.testing.simulator.clock import SimulatedClock
from spark_eos.testing.simulator.copiers import copier
from spark_eos.testing.simulator.producers import idempotent, transactional
from spark_eos.testing.simulator.queries import Files, query, surroundings
from spark_eos.testing.simulator.readers import reader
from spark_eos.testing.simulator.stage import INPUT, OUTPUT, SHARED, GivenUp, Stage
from spark_eos.testing.simulator.store import SimulatedStore
from spark_eos.testing.simulator.world import Process, Weather, World

__all__ = ["Outcome", "Plan", "simulate"]

RECORDS = 40
LIVES = 6
FINISHING = 3000
"""Calls of the store in which whoever comes last, in calm weather, finishes what was to be copied: at most."""


@dataclass(frozen=True)
class Plan:
    """All that a run depends on."""

    seed: int
    weather: Weather
    cast: tuple[str, ...]
    operations: int = 1000
    """Calls of the store in bad weather; afterwards it is calm, and everybody comes to an end."""

    @staticmethod
    def of(seed: int) -> Plan:
        """A plan drawn by the seed."""
        chance = random.Random(f"plan {seed}")
        cast = [f"producer-{number}" for number in range(chance.randint(1, 3))]
        cast += chance.sample(["zombie", "idempotent", "administrator"], chance.randint(0, 3))
        cast += ["committed-reader", "uncommitted-reader"]
        copying = chance.choice(["members", "members", "copier", "query", "query"])
        cast += [
            f"{copying}-{number}" for number in range(1 if copying != "members" else chance.randint(1, 3))
        ]
        if copying == "query" and chance.random() < 0.5:
            cast.append("query-zombie")
        if copying == "query" and chance.random() < 0.5:
            cast.append(chance.choice(["query-amnesiac", "query-restored"]))
        if copying == "copier" and chance.random() < 0.5:
            cast.append("copier-zombie")
        return Plan(seed, Weather.of(chance), tuple(cast))


class Outcome(NamedTuple):
    """What came of a run; no ``problems`` if all that was promised held."""

    plan: Plan
    problems: list[str]
    trace: list[str]
    history: list[Event]
    operations: int
    entries: int
    faults: dict[str, int]
    state: State


@dataclass
class _Run:
    plan: Plan
    world: World
    stage: Stage
    files: Files
    copies: list[Files] = field(default_factory=list)


def simulate(plan_: Plan) -> Outcome:
    """Run the plan. The same plan gives the same outcome, byte for byte."""
    world = World(plan_.seed, plan_.weather)
    store = SimulatedStore(world)
    stage = Stage(world, store, plan_.operations)
    run = _Run(plan_, world, stage, Files("query-id"))
    with surroundings(world):
        world.calm = True
        world.start("setup", lambda process: _set_up(process, stage))
        world.run(1e9)
        world.calm = False
        for role in plan_.cast:
            _employ(run, role)
        problems = _play(run)
    state, entries = _replay(store, problems)
    if entries:
        _judge(run, state, problems)
    return Outcome(
        plan_, problems, world.trace, stage.recorder.history, world.operations, entries, world.faults, state
    )


def _set_up(process: Process, stage: Stage) -> None:
    log = Log.create(stage.store, SimulatedClock(process))
    admin = Admin(log)
    for topic, partitions in ((INPUT, 2), (OUTPUT, 3), (SHARED, 2)):
        admin.create_topic(topic, partitions)
    producer = Producer(log)
    for number in range(RECORDS):
        producer.send(INPUT, f"record {number}", partition=number % 2)
    producer.flush()


def _employ(run: _Run, role: str) -> None:
    """An actor who is replaced when he dies, a few times."""
    world, chance = run.world, run.world.random
    lives = 0

    def live() -> None:
        nonlocal lives
        lives += 1
        if lives <= LIVES:
            process = world.start(
                f"{role}#{lives}",
                _part(run, role, until=lambda: run.stage.goes_on),
                chance.choice([0.01, 1, 5]),
            )
            process.on_death = live

    live()
    if role.endswith("zombie") or chance.random() < 0.2:
        live()  # Two at once: the one who comes second does not know of the first.


def _part(run: _Run, role: str, until: Callable[[], bool]) -> Callable[[Process], None]:
    stage, chance = run.stage, run.world.random
    kind, _, number = role.partition("-")
    if kind in {"producer", "zombie"}:
        return transactional(stage, f"tx-{number or 0}", streams=chance.random() < 0.5)
    if kind == "idempotent":
        return idempotent(stage)
    if kind == "administrator":
        return administrator(stage)
    if kind == "committed":
        return reader(stage, READ_COMMITTED)
    if kind == "uncommitted":
        return reader(stage, READ_UNCOMMITTED)
    if kind == "members":
        return copier(stage, f"copier-{number}", group="group", subscribes=True, until=until)
    if kind == "copier":
        return copier(stage, "copier", group="group", subscribes=False, until=until)
    assert kind == "query", role
    return query(stage, partial(_checkpoint, run, number), group="group", until=until)


def _checkpoint(run: _Run, how: str) -> Files | None:
    """The query's own checkpoint, or what somebody takes for it: once there is something to take it for."""
    if how in {"amnesiac", "restored"} and run.files.newest("commits") < 0:
        return None
    if how == "amnesiac":
        return Files("another-query-id")  # It was lost, and the query began anew.
    if how == "restored":
        run.copies.append(run.files.put_back(run.world.random.randint(0, run.files.newest("offsets") + 1)))
        return run.copies[-1]
    # A copy that is not behind may have gone on in its place: whoever comes next takes the newest.
    return max([run.files, *run.copies], key=lambda files: files.newest("commits"))


def _play(run: _Run) -> list[str]:
    """Bad weather, then calm; then the work is finished, and nobody may still be under way."""
    world, stage = run.world, run.stage
    while stage.goes_on and world.run(600):
        pass
    world.calm = True
    world.run(1e6)
    problems = [f"{process.name} never came to an end" for process in world.processes if not process.ended]
    copying = next(
        (role for role in run.plan.cast if role.startswith(("members", "copier", "query-0"))), None
    )
    if copying is not None:
        end = world.operations + FINISHING
        tail = Tail(stage.store.inner)
        world.start(
            "finish",
            lambda process: _finish(
                run, process, copying, lambda: world.operations < end and not _is_copied(tail.follow())
            ),
        )
        world.run(1e7)
    problems += [
        f"{process.name} failed: {process.error!r}"
        for process in world.processes
        if process.error is not None and not isinstance(process.error, GivenUp)
    ]
    return problems


def _is_copied(state: State) -> bool:
    """Whether the group has committed the ends of its input."""
    topic = state.topics[INPUT]
    for number in range(topic.partitions):
        known, end = state.offset_of("group", INPUT, number), state.partitions[topic.topic_id, number].end
        if end and (known is None or known.offset < end):
            return False
    return True


def _finish(run: _Run, process: Process, copying: str, until: Callable[[], bool]) -> None:
    log = run.stage.open(process)
    log.sweep()
    process.wait(901)  # Longer than any transaction may be open.
    log.follow()
    log.sweep()
    _part(run, copying, until)(process)


def _replay(store: SimulatedStore, problems: list[str]) -> tuple[State, int]:
    """All entries once more, each step against the invariants."""
    state, seq = EMPTY, 0
    while True:
        try:
            data = store.inner.read(names.entry(seq))
        except ObjectNotFoundError:
            return state, seq
        before = state
        try:
            state, _ = apply_entry(before, decode_entry(data, seq, names.entry(seq)))
            check_step(before, state)
        except (EosLogError, InvariantError) as error:
            problems.append(f"entry {seq}: {error!r}")
            return state, seq
        seq += 1


def _judge(run: _Run, state: State, problems: list[str]) -> None:
    if state.open_transactions:
        problems.append(f"transactions of producers {sorted(state.open_transactions)} stayed open")
    copying = any(role.startswith(("members", "copier", "query")) for role in run.plan.cast)
    if copying:
        copies = Counter(value for _, value in _values(run, state, OUTPUT))
        wanted = {f"record {number}" for number in range(RECORDS)}
        if lost := wanted - set(copies):
            problems.append(f"not copied: {sorted(lost)}")
        if twice := {value: count for value, count in copies.items() if count > 1}:
            problems.append(f"copied more than once: {twice}")
    _check_promises(run, state, problems)


def _values(
    run: _Run, state: State, topic: str, isolation: Isolation = Isolation.READ_COMMITTED
) -> list[tuple[tuple[int, int], str]]:
    """((partition, offset), value) of everything that can be read."""
    known = state.topics[topic]
    found = []
    for number in range(known.partitions):
        at = TopicPartition(topic, number)
        partition = state.partitions[known.topic_id, number]
        for fetch in plan(state, at, partition.start, end_offset(partition, isolation), isolation):
            rows = read(run.stage.store.inner, known, fetch).column("value").to_pylist()
            found += [((number, fetch.offset + place), row.decode()) for place, row in enumerate(rows)]
    return found


def _check_promises(run: _Run, state: State, problems: list[str]) -> None:
    final: dict[TopicPartition, list[tuple[int, str]]] = {
        TopicPartition(SHARED, number): [] for number in range(2)
    }
    for (number, offset), value in _values(run, state, SHARED):
        final[TopicPartition(SHARED, number)].append((offset, value))
    report = check(run.stage.recorder.history, partitions_read_fully=final)
    problems += [str(anomaly) for anomaly in report.forbidden]
