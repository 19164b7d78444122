"""One seed, one run: which actors, which faults, and what must hold at the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple
from unittest import mock

from spark_eos.clients.admin import Admin
from spark_eos.clients.producer.producer import Producer
from spark_eos.log.commit import tail
from spark_eos.log.data.parquet.reader import forget_footers
from spark_eos.log.log import Log
from spark_eos.protocol.rules import sealing
from spark_eos.protocol.state import State
from spark_eos.spark.version import TRIED
from spark_eos.testing.history import READ_COMMITTED, READ_UNCOMMITTED, Event
from verification.retiring import RETIRED_AT_ONCE
from verification.simulator.administrator import (
    administrator,
    expiration_task,
    feeder,
    maintainer,
    visitor,
)
from verification.simulator.children import child
from verification.simulator.clock import SimulatedClock
from verification.simulator.context import (
    COPIERS,
    DELETE_DELAY_MS,
    INPUT,
    PARTITIONS,
    RAW,
    SHARED,
    GivenUp,
    Stage,
)
from verification.simulator.copiers import copier
from verification.simulator.driver import Files
from verification.simulator.final_checks import judge
from verification.simulator.followers import follower, onlooker
from verification.simulator.foreign import foreign_query
from verification.simulator.log_checker import LogChecker
from verification.simulator.pairs import finish_pairs, helper, pair
from verification.simulator.producers import idempotent, transactional
from verification.simulator.queries import query, surroundings
from verification.simulator.readers import reader
from verification.simulator.rogue_clients import impersonator, rogue_producer
from verification.simulator.store import SimulatedObjectStore, SimulatedStore
from verification.simulator.tables import publisher, table_reader
from verification.simulator.tills import complete, till
from verification.simulator.world import FaultProfile, Process, World

__all__ = ["Outcome", "Plan", "simulate"]

RECORDS = 30
"""What is there to be copied from the beginning."""

FORGET_S = 8.0
"""After how long names of retired entries are deleted where they are: worlds are short."""

UNSEALED = 1000
"""Entries between snapshots where no run comes so far. Others do not share what they have read: each process drops
the pages of indexes that are stored, for itself."""

FINISHING = 3000
"""Calls of the store in which the last copier, without faults, finishes the work: at most."""

MIXED = '{"input": {"0": -1, "1": -2}}'
"""A query begins at the end of one partition, and at the start of the other."""

OTHERS = (
    *(
        "zombie",
        "idempotent",
        "administrator",
        "expirer",
        "follower",
        "onlooker",
        "foreign-query",
        "impersonator",
    ),
    *("rogue", "rogue", "feeder", "feeder", "maintainer", "maintainer", "visitor"),
)
"""Of these some are drawn, now and then two of one kind."""


@dataclass(frozen=True)
class Plan:
    """All that a run depends on. ``settings`` are those of the whole log."""

    seed: int
    fault_profile: FaultProfile
    cast: tuple[str, ...]
    operations: int = 1000
    """Calls of the store with faults; afterwards there are none, and every process comes to its end."""
    settings: tuple[tuple[str, str], ...] = ()
    interval: int = UNSEALED
    """Entries between snapshots. Where there are few, pages of indexes and folders of entries are small too."""
    memory: bool = True
    """Whether processes share what they have read of the log (`verification.simulator.memory`)."""
    forget: bool = False
    """Whether maintainers delete the names of retired entries."""
    remote: bool = False
    """Whether the store is an object store behind a library that tries again (`SimulatedObjectStore`)."""
    start: str = "earliest"
    """Where queries begin (``startingOffsets``). Where that moves, producers write all the time."""
    spark: str = TRIED[-1]
    """The minor version of Spark that runs queries."""

    @staticmethod
    def of(seed: int) -> Plan:
        """A plan drawn by the seed."""
        chance = random.Random(f"plan {seed}")
        cast = [f"producer-{number}" for number in range(chance.choice([0, 1, 1, 2, 3]))]
        others = chance.sample(OTHERS, chance.randint(2, 5))
        cast += [f"{role}-{number}" for number, role in enumerate(others)]
        cast += chance.sample(["committed-reader", "uncommitted-reader"], chance.choice([0, 1, 2]))
        copying = chance.choice(["members", "members", "copier", "query", "query"])
        if copying == "members":
            cast += [f"members-{number}" for number in range(chance.randint(1, 3))]
        else:
            cast.append(f"{copying}-0")
        if copying == "query" and chance.random() < 0.5:
            cast.append("query-zombie")
        if copying == "query" and chance.random() < 0.5:
            cast.append(chance.choice(["query-amnesiac", "query-restored", "query-restored"]))
        if copying == "copier" and chance.random() < 0.5:
            cast.append("copier-zombie")
        settings = _settings(chance, copying)
        if settings:
            cast.append("expirer-of-all")
        if len(settings) > 2:
            cast.append("administrator-of-all")
        fault_profile, memory = FaultProfile.of(chance), chance.random() < 0.9
        interval = chance.choice([2, 3, 5, 8, *[UNSEALED] * 4])
        # That rests on clocks, so they are not set back and forth then.
        forget = interval != UNSEALED and not fault_profile.jump and chance.random() < 0.5
        remote = chance.random() < 0.5
        if remote and fault_profile != FaultProfile() and chance.random() < 0.5:
            fault_profile = replace(fault_profile, conflict=chance.choice([0.02, 0.1, 0.4]))
        start = "earliest"
        if copying == "query" and "query-amnesiac" not in cast:
            start = chance.choice(["earliest", "latest", "latest", MIXED])
        # Drawn apart, so that what a seed draws besides is what it was.
        forks = random.Random(f"forks {seed}")
        if forks.random() < 0.3:
            cast += [f"child-{number}" for number in range(forks.choice([1, 1, 2]))]
        tables = random.Random(f"tables {seed}")
        if tables.random() < 0.2:
            roles = ["publisher-0", "slow-0", tables.choice(["publisher-1", "publisher-zombie", "slow-1"])]
            cast += [*roles, "eager-0"]
        cast += _tills(seed)
        cast += _pairs(seed)
        if start != "earliest":
            cast += [f"live-{number}" for number in range(chance.choice([1, 1, 2]))]
        is_oldest = random.Random(f"spark {seed}").random() < 0.3
        return Plan(
            seed,
            fault_profile,
            tuple(cast),
            settings=settings,
            interval=interval,
            memory=memory,
            forget=forget,
            remote=remote,
            start=start,
            spark=TRIED[0] if is_oldest else TRIED[-1],
        )


def _tills(seed: int) -> list[str]:
    """Now and then there are programs that write to a database as well."""
    chance = random.Random(f"tills {seed}")
    return ["till-0", *chance.choice([(), ("till-0-zombie",), ("till-1",)])] if chance.random() < 0.25 else []


def _pairs(seed: int) -> list[str]:
    """Now and then there are programs that write to a second log as well."""
    chance = random.Random(f"pairs {seed}")
    pairs = ["pair-0", *chance.choice([(), ("pair-0-zombie",), ("pair-1",), ("pair-1",)]), "helper-0"]
    return pairs if chance.random() < 0.25 else []


def _settings(chance: random.Random, copying: str) -> tuple[tuple[str, str], ...]:
    """Now and then things expire within a run. Offsets only if no process relies on them."""
    if chance.random() < 0.6:
        return ()
    chosen = [
        ("producer.id.expiration.ms", str(chance.choice([1, 1000, 60_000]))),
        ("transactional.id.expiration.ms", str(chance.choice([1, 5000, 100_000]))),
    ]
    if copying == "query":
        chosen.append(("offsets.retention.minutes", "1"))
    return tuple(sorted(chosen))


class Outcome(NamedTuple):
    """What came of a run; no ``problems`` if all that was promised held.

    ``events`` is what is in the log, by kind, ``answers`` what was refused or stayed unknown, by error.
    """

    plan: Plan
    problems: list[str]
    trace: list[str]
    history: list[Event]
    operations: int
    entries: int
    faults: dict[str, int]
    events: dict[str, int]
    answers: dict[str, int]
    state: State


@dataclass
class _Run:
    plan: Plan
    world: World
    stage: Stage
    files: Files
    copies: list[Files] = field(default_factory=list)

    @property
    def copying(self) -> str | None:
        """The role that finishes what is to be copied, if there is a copier."""
        copiers = (role for role in self.plan.cast if role.startswith(("members", "copier", "query-0")))
        return next(copiers, None)


def simulate(plan: Plan) -> Outcome:
    """Run the plan. The same plan gives the same outcome, byte for byte."""
    forget_footers()
    world = World(plan.seed, plan.fault_profile)
    store = (SimulatedObjectStore if plan.remote else SimulatedStore)(world)
    stage = Stage(
        world,
        store,
        plan.operations,
        memory=plan.memory and plan.interval == UNSEALED,
        forget_s=FORGET_S if plan.forget else None,
        spark=plan.spark,
    )
    run = _Run(plan, world, stage, Files("query-id"))
    with ExitStack() as stack:
        stack.enter_context(surroundings(world))
        if plan.interval != UNSEALED:
            stack.enter_context(mock.patch.multiple(sealing, PAGE_ROWS=3, FAN_OUT=2))
        world.calm = True
        world.start("setup", lambda process: _set_up(process, run))
        world.run(1e9)
        world.calm = False
        for role in plan.cast:
            _employ(run, role)
        problems = _play(run)
        log_checker = LogChecker(store, stage.begins)
        log_checker.replay()
        problems += log_checker.problems
        answers: Counter[str] = Counter()
        if log_checker.entries:
            answers = judge(stage, log_checker, problems, copying=run.copying is not None)
    events = log_checker.book.events + Counter({"rejected requests in entries": log_checker.rejected})
    return Outcome(
        plan,
        problems,
        world.trace,
        stage.recorder.history,
        world.operations,
        log_checker.entries,
        world.faults,
        {name: count for name, count in sorted(events.items()) if count},
        dict(sorted(answers.items())),
        log_checker.state,
    )


def _set_up(process: Process, run: _Run) -> None:
    folder = 4 * run.plan.interval
    log = Log.create(
        run.stage.store,
        SimulatedClock(process),
        snapshot_interval=run.plan.interval,
        entries_per_folder=folder,
        config=RETIRED_AT_ONCE,
        environment=run.stage.environment,
    )
    admin = Admin(log)
    published = any(role.startswith("publisher") for role in run.plan.cast)
    for topic, partitions in PARTITIONS.items():
        # Clocks that jump would make old records of new ones.
        kept = {"file.delete.delay.ms": str(DELETE_DELAY_MS)}
        if topic != RAW:
            kept["retention.ms"] = "-1"
        if published and topic in {INPUT, SHARED}:
            kept["segment.format"] = "parquet"
        admin.create_topic(topic, partitions, kept)
    if run.plan.settings:
        admin.alter_log(dict(run.plan.settings))
    producer = Producer(log)
    for number in range(RECORDS):
        producer.send(INPUT, f"record {number}", partition=number % PARTITIONS[INPUT])
    producer.flush()


def _employ(run: _Run, role: str) -> None:
    """An actor that is replaced when it dies or gives up, for as long as the world goes on."""
    world, chance = run.world, run.world.random
    lives = 0

    def live() -> None:
        nonlocal lives
        if lives and not run.stage.goes_on:
            return
        lives += 1
        body = _part(run, role, until=lambda: run.stage.goes_on)
        process = world.start(f"{role}#{lives}", body, chance.choice([0.01, 1, 5]))
        process.on_end = live

    live()
    if "zombie" in role or chance.random() < 0.2:
        live()  # Two at once: the one who comes second does not know of the first.


def _part(run: _Run, role: str, until: Callable[[], bool]) -> Callable[[Process], None]:
    stage, chance = run.stage, run.world.random
    kind, _, number = role.partition("-")
    if kind in {"producer", "zombie"}:
        name = f"tx-{number if kind == 'producer' else 0}"
        return transactional(stage, name, streams=chance.random() < 0.5)
    if kind == "members":
        return copier(stage, f"copier-{number}", group=COPIERS, subscribes=True, until=until)
    if kind == "copier":
        return copier(stage, "copier", group=COPIERS, subscribes=False, until=until)
    if kind == "query":
        return query(
            stage, partial(_checkpoint, run, number), group=COPIERS, start=run.plan.start, until=until
        )
    parts: dict[str, Callable[[], Callable[[Process], None]]] = {
        "idempotent": lambda: idempotent(stage),
        "child": lambda: child(stage),
        "administrator": lambda: administrator(stage),
        "maintainer": lambda: maintainer(stage, FORGET_S if run.plan.forget else None),
        "expirer": lambda: expiration_task(stage),
        "visitor": lambda: visitor(stage),
        "feeder": lambda: feeder(stage),
        "live": lambda: feeder(stage, (0.0, 0.02, 0.3)),
        "committed": lambda: reader(stage, READ_COMMITTED),
        "uncommitted": lambda: reader(stage, READ_UNCOMMITTED),
        "follower": lambda: follower(stage, role),
        "onlooker": lambda: onlooker(stage),
        "rogue": lambda: rogue_producer(stage, "forged"),
        "impersonator": lambda: impersonator(stage),
        "foreign": lambda: foreign_query(stage),
        "eager": lambda: maintainer(stage, None, is_eager=True),
        "publisher": lambda: publisher(stage),
        "slow": lambda: table_reader(stage),
        "pair": lambda: pair(stage, f"pair-{number[0]}"),
        "helper": lambda: helper(stage),
        "till": lambda: till(stage, f"till-{number[0]}", stage.databases[f"till-{number[0]}"]),
    }
    return parts[kind]()


def _checkpoint(run: _Run, how: str) -> Files | None:
    """The query's own checkpoint, or what an operator takes for it: once there is a candidate."""
    if how in {"amnesiac", "restored"} and run.files.newest("commits") < 0:
        return None
    if how == "amnesiac":
        return Files("another-query-id")  # It was lost, and the query began again.
    if how == "restored":
        newest, chance = run.files.newest("commits"), run.world.random
        run.copies.append(
            run.files.put_back(chance.choice([newest, newest, newest + 1, chance.randint(0, newest)]))
        )
        return run.copies[-1]
    # A copy that is not behind may have gone on in its place: the next run takes the newest.
    return max([run.files, *run.copies], key=lambda files: files.newest("commits"))


def _play(run: _Run) -> list[str]:
    """Faults, then none; then the work is finished, and no process may still be under way."""
    world, stage = run.world, run.stage
    while stage.goes_on and world.run(600):
        pass
    world.calm = True
    world.run(1e6)
    problems = [f"{process.name} never came to an end" for process in world.processes if not process.ended]
    if world.operations < stage.operations:
        problems.append(f"the world stood still after {world.operations} operations")
    end = world.operations + FINISHING
    newest = tail.Tail(stage.store.inner)
    world.start(
        "finish",
        lambda process: _finish(
            run, process, lambda: world.operations < end and not _is_copied(newest.follow())
        ),
    )
    world.run(1e7)
    return problems + world.failures(GivenUp)


def _is_copied(state: State) -> bool:
    """Whether the group has committed the ends of its input."""
    topic = state.topics[INPUT]
    for number in range(topic.partitions):
        known, end = state.offset_of(COPIERS, INPUT, number), state.partitions[topic.topic_id, number].end
        if end and (known is None or known.offset < end):
            return False
    return True


def _finish(run: _Run, process: Process, until: Callable[[], bool]) -> None:
    process.wait(903)  # Longer than any transaction may be open, and what a store's times are rounded by.
    log = run.stage.open(process)
    log.overdue()  # The store's clock is asked, whatever this process's wall clock makes of it.
    log.expire_overdue()
    for name, database in run.stage.databases.items():
        complete(run.stage, process, name, database)
    finish_pairs(run.stage, process)
    if run.copying is None:
        return
    if not run.copying.startswith("query"):
        while until():  # Who is late with its own transaction has to come again.
            _part(run, run.copying, until)(process)
        return
    # Two copies may be level, and one of them have got its next batch in before it was killed: the log takes that
    # one alone, and people find out which by trying.
    for files in sorted([run.files, *run.copies], key=lambda one: -one.newest("commits")):
        body = query(run.stage, lambda files=files: files, group=COPIERS, start=run.plan.start, until=until)  # type: ignore[misc]
        body(process)
        if run.plan.spark == "4.1":  # A run that repeats a micro-batch ends with it.
            body(process)
