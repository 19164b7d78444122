"""The delivery recipes under the same faults: who loses, who doubles, and who does neither."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import sqlite3
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from importlib import import_module
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import (
    AbortableError,
    EosLogError,
    FatalError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    ProducerFencedError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock
from verification.processes import Process

FOLDER = Path(__file__).resolve().parents[2] / "jobs" / "delivery"
sys.path.append(str(FOLDER))

RECIPES = [
    "at_most_once",
    "at_least_once",
    "exactly_once",
    "offsets_in_database",
    "application_transaction_id",
]
EXACT = RECIPES[2:]
WITH_DATABASE = RECIPES[3:]
common = import_module("common")


class Clock(FakeClock):
    """Waits take no time; names are never the same in two processes."""

    def unique(self):
        return os.urandom(16)


class CrashError(BaseException):
    """The end of a process: nothing that it holds can do anything any more."""


class Faults:
    """Counts what a process does to store and database, and spoils operation number ``at``.

    `before` and `after` are called around each operation; ``when`` says at which of the two it happens:
    the end of the process, or ``spoil``, an error in place of the reply.
    """

    def __init__(self, at=None, *, when="before", spoil=None):
        self.count = 0
        self.fired = self.dead = False
        self._at, self._when, self._spoil = at, when, spoil

    def before(self, *_):
        if self.dead:
            raise CrashError
        self.count += 1
        self._strike("before")

    def after(self, *_):
        self._strike("after")

    def kill(self):
        self.fired = self.dead = True
        raise CrashError

    def _strike(self, when):
        if when == self._when and self._at == self.count - 1 and not self.fired:
            self.fired = True
            if self._spoil is None:
                self.kill()
            raise self._spoil("spoilt on purpose")


class Connection(sqlite3.Connection):
    """A connection whose every statement passes by the faults."""

    faults: Faults

    def execute(self, *arguments):
        return self._pass(super().execute, arguments)

    def executemany(self, *arguments):
        return self._pass(super().executemany, arguments)

    def _pass(self, call, arguments):
        self.faults.before()
        result = call(*arguments)
        self.faults.after()
        return result


class World:
    """What outlives a process: the objects of the store, and the file of the database."""

    def __init__(self, recipe, objects, database):
        self.recipe = recipe
        self.objects = objects
        self.database = database
        self.store = None

    def process(self, faults=None, *, of_database=None, inject=(), retry=None, clock=None, transform=None):
        """A new process that runs the recipe until all is read, or until its own end."""
        faults = faults or Faults()
        self.store = FaultyStore(self.objects)
        log = Log.open(self.store, clock or Clock(), retry)
        self.store.before, self.store.after = faults.before, faults.after
        for fault, operation, skip in inject:
            self.store.inject(fault, operation, skip=skip)
        target, more = "departures", {}
        if self.recipe in WITH_DATABASE:
            target, more = str(self.database), {"connect": self._connector(of_database or faults)}
        return import_module(self.recipe).run(
            log, "flights", target, "g", transform or common.departure, max_records=4, until_end=True, **more
        )

    def finish(self):
        """Start processes until one has read all."""
        for _ in range(3):
            with suppress(EosLogError, sqlite3.Error):
                return self.process()
        return self.process()

    def add(self, *numbers):
        add(self.objects, *numbers)

    def _connector(self, faults):
        def connect(path, **options):
            connection = sqlite3.connect(path, factory=Connection, **options)
            connection.faults = Faults()
            # Processes die here, machines do not: the disk need not be waited for.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.faults = faults
            return connection

        return connect

    def results(self):
        if self.recipe in WITH_DATABASE:
            return Counter(in_database(self.database))
        return Counter(in_topic(self.objects, "departures"))

    def check(self, wanted):
        """What each recipe promises, and nothing that is aborted or made up."""
        check(self.recipe, self.results(), wanted)


def check(recipe, results, wanted):
    assert set(results) <= set(wanted), "made up"
    if recipe != "at_most_once":
        assert not wanted - results, f"{recipe} has lost"
    if recipe != "at_least_once":
        assert not results - wanted, f"{recipe} has doubled"


def in_topic(url, topic):
    log = Log.open(url)
    if topic not in log.state.topics:
        return []
    consumer = Consumer(log, {"isolation.level": "read_committed"})
    consumer.assign(
        [TopicPartition(topic, one.partition) for one in Admin(log).describe_topic(topic).partitions]
    )
    consumer.seek_to_beginning()
    found = []
    while records := consumer.poll():
        found += [record.value for record in records]
    return found


def in_database(path):
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return (
            [row for (row,) in database.execute("SELECT value FROM results")] if "results" in tables else []
        )


def flight(number):
    """Every fifth is cancelled."""
    left = {} if number % 5 == 4 else {"dep_time": 517, "dep_delay": 2}
    return json.dumps({"carrier": "UA", "flight": number, "time_hour": "2013-01-01T10:00:00Z", **left})


def expected(*numbers):
    records = [json.loads(flight(number)) for number in numbers]
    return Counter(
        json.dumps({"scheduled": one["time_hour"], "flight": f"UA{one['flight']}", "dep_delay": 2}).encode()
        for one in records
        if "dep_time" in one
    )


def add(url, *numbers, log=None):
    with Producer(log or Log.open(url, Clock()), {"transactional.id": "airport"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in numbers:
            producer.send("flights", flight(number), partition=number % 3 % 2)
        producer.commit_transaction()


def copy(store):
    new = MemoryStore()
    for info in store.list(""):
        new.create(info.name, store.read(info.name))
    return new


# The last batch of both partitions is not a full one.
ALL = expected(*range(19))
MORE = (19, 20, 21)
ALL_AND_MORE = expected(*range(22))


@pytest.fixture(scope="module")
def flights():
    """Flights 0 to 18 in two partitions, with an aborted transaction and control batches among them."""
    store = MemoryStore()
    log = Log.open_or_create(store, Clock())
    Admin(log).create_topic("flights", partitions=2)
    producer = Producer(log, {"transactional.id": "airport"})
    producer.init_transactions()
    for numbers, commit in ((range(6), True), (range(100, 103), False), (range(6, 19), True)):
        producer.begin_transaction()
        for number in numbers:
            producer.send("flights", flight(number), partition=number % 3 % 2)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    return store


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Recipes do not wait, and a thread that dies with its process says nothing."""
    monkeypatch.setattr(common, "WAIT_S", 0)
    told = threading.excepthook
    monkeypatch.setattr(
        threading, "excepthook", lambda args: None if args.exc_type is CrashError else told(args)
    )


@pytest.fixture
def worlds(flights, tmp_path):
    """New worlds, all with the same flights."""
    numbers = itertools.count()
    return lambda recipe: World(recipe, copy(flights), tmp_path / f"{next(numbers)}.sqlite")


@pytest.fixture
def world(worlds, recipe):
    return worlds(recipe)


# -- Crashes ------------------------------------------------------------------------------------------


@pytest.mark.deep(*(f"{recipe}-before" for recipe in RECIPES), "at_least_once-after", "at_most_once-after")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_crash_at_every_operation(worlds, recipe, when):
    lost, doubled = {}, {}
    for at in itertools.count():
        world, faults = worlds(recipe), Faults(at, when=when)
        with suppress(CrashError):
            world.process(faults)
        if faults.count <= at:
            break
        if faults.dead:
            with pytest.raises(CrashError):
                world.store.create("too-late", b"")
        # Whoever goes on sees more than the dead one saw: its batches must be cut as they were.
        world.add(*MORE)
        world.process()
        world.check(ALL_AND_MORE)
        results = world.results()
        if ALL_AND_MORE - results:
            lost[at] = ALL_AND_MORE - results
        if results - ALL_AND_MORE:
            doubled[at] = results - ALL_AND_MORE
    assert at > 20
    # The faults bite: one recipe does lose, and one does double.
    assert bool(lost) == (recipe == "at_most_once"), lost
    assert bool(doubled) == (recipe == "at_least_once"), doubled


@pytest.mark.deep(*(f"{recipe}-8" for recipe in RECIPES))
@pytest.mark.parametrize("seeds", [2, 8])
@pytest.mark.parametrize("recipe", RECIPES)
def test_one_crash_after_the_other(worlds, recipe, seeds):
    for seed in range(seeds):
        world, chance = worlds(recipe), random.Random(seed)
        wanted, crashes = list(range(19)), 0
        while crashes < 6:
            faults = Faults(chance.randrange(40), when=chance.choice(["before", "after"]))
            with suppress(CrashError):
                world.process(faults)
            crashes += 1
            new = range(len(wanted), len(wanted) + chance.randrange(6))
            world.add(*new)
            wanted += new
        world.process()
        world.check(expected(*wanted))


@pytest.mark.deep
@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "offsets_in_database"])
def test_a_request_of_the_dead_process_arrives_late(worlds, recipe):
    """The process dies while a create is under way; it arrives before its successor's n-th operation."""
    for skip in itertools.count():
        for arrival in range(0, 14, 1 if recipe in EXACT else 6):
            world, faults, clock = worlds(recipe), Faults(), Clock()
            clock.on_sleep = faults.kill  # it sleeps after the reply that did not come
            with suppress(CrashError):
                world.process(faults, inject=[(Fault.DELAYED, "create", skip)], clock=clock)
            if not faults.dead:
                assert skip > 4
                return
            # Nobody else writes before the successor: its own first entry would take the slot.
            successor = Faults()
            successor.before = release_at(world.store, arrival)
            world.process(successor)
            world.check(ALL)


def release_at(store, number):
    count = itertools.count()
    store.before = store.after = lambda *_: None  # what is under way does not die with its sender

    def before(*_):
        if next(count) == number:
            store.release()

    return before


# -- Lost replies ---------------------------------------------------------------------------------------

LIES = [
    (Fault.FAIL_BEFORE, "*"),
    *itertools.product((Fault.FAIL_AFTER, Fault.LOST, Fault.DUPLICATE), ("create", "upload")),
]


@pytest.mark.deep
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_store_that_lies(worlds, recipe):
    """The clients have no patience to find out by themselves: the recipe gets each error."""
    for fault, operation in LIES:
        for skip in itertools.count():
            world = worlds(recipe)
            # A commit in doubt is repeated, and ends no run; a file that cannot be written may.
            with suppress(*([] if operation == "create" else [EosLogError])):
                world.process(inject=[(fault, operation, skip)], retry=Retry(deadline_s=0))
            if world.store.count(operation) <= skip:
                break
            world.add(*MORE)
            world.finish()
            world.check(ALL_AND_MORE)


@pytest.mark.deep(*(f"{recipe}-before" for recipe in WITH_DATABASE))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("recipe", WITH_DATABASE)
def test_a_database_that_lies(worlds, recipe, when):
    for at in itertools.count():
        world = worlds(recipe)
        lies = Faults(at, when=when, spoil=sqlite3.OperationalError)
        with suppress(sqlite3.OperationalError):
            world.process(of_database=lies)
        if not lies.fired:
            break
        world.add(*MORE)
        world.finish()
        world.check(ALL_AND_MORE)
    assert at > 15


# -- Two at once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", EXACT)
def test_a_second_run_puts_an_end_to_the_first(worlds, recipe):
    for stop in range(10):
        world, seen = worlds(recipe), itertools.count()

        def overtaken(record, world=world, seen=seen, stop=stop):
            if next(seen) == stop:
                world.add(*MORE)
                world.process()
            return common.departure(record)

        with pytest.raises(FatalError) as refused:
            world.process(transform=overtaken)
        assert recipe == "offsets_in_database" or isinstance(refused.value, ProducerFencedError)
        world.process()
        assert world.results() == ALL_AND_MORE


@pytest.mark.parametrize("recipe", EXACT)
def test_another_run_between_any_two_operations(worlds, recipe):
    for at in itertools.count():
        world, count = worlds(recipe), itertools.count()
        outer = Faults()

        def before(*_, world=world, count=count, at=at):
            if next(count) == at:
                world.process()
                world.add(*MORE)  # the other one's last batch was short, the next one need not be

        outer.before = before
        with suppress(FatalError):
            world.process(outer, of_database=Faults())
        if next(count) <= at:
            break
        world.process()
        assert world.results() == ALL_AND_MORE, at
    assert at > 3


@pytest.mark.parametrize("recipe", RECIPES[:2])
def test_two_runs_at_once_double_where_nothing_fences(world, recipe):
    """A limit that docs/guide/delivery.md states."""
    seen = itertools.count()

    def overtaken(record):
        if next(seen) == 0:
            world.process()
        return common.departure(record)

    world.process(transform=overtaken)
    assert not ALL - world.results(), recipe
    assert world.results() - ALL


# -- What else can happen -------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES)
def test_records_that_are_gone_are_an_error_and_no_jump(world):
    world.process()
    world.add(*range(19, 40))
    log = Log.open(world.objects, Clock())
    admin = Admin(log)
    ends = {
        TopicPartition("flights", one.partition): one.end
        for one in admin.describe_topic("flights").partitions
    }
    admin.delete_records({at: end - 2 for at, end in ends.items()})
    with pytest.raises(OffsetOutOfRangeError, match="flights"):
        world.process()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_topic_that_was_created_again_is_read_from_its_beginning(world):
    world.process()
    admin = Admin(Log.open(world.objects, Clock()))
    admin.delete_topic("flights")
    admin.create_topic("flights", partitions=2)
    world.add(*range(19, 22))
    world.process()
    assert world.results() == expected(*range(22))


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_no_flight_is_named_and_not_left_out(world):
    with Producer(Log.open(world.objects, Clock())) as producer:
        producer.send("flights", "a bird", partition=1)
    with pytest.raises(ValueError, match=r"flights-1, offset \d+: the value is no flight"):
        world.process()


@pytest.mark.parametrize("recipe", ["exactly_once"])
def test_a_batch_that_cannot_be_committed_is_given_up(world):
    calls = itertools.count()

    def too_large(record):
        if record.offset == 0 and record.partition == 0:
            next(calls)
            return common.Result(None, b"x" * 2_000_000)
        return common.departure(record)

    with pytest.raises(AbortableError, match="2000000 bytes"):
        world.process(transform=too_large)
    assert next(calls) == import_module("exactly_once").ABORTS
    results = world.results()
    assert results, "the other partition goes on meanwhile"
    assert not results - (ALL - expected(0))


@pytest.mark.parametrize("recipe", ["application_transaction_id"])
def test_offsets_of_another_program_are_no_plan(world):
    with Consumer(
        Log.open(world.objects, Clock()), {"group.id": "g", "enable.auto.commit": False}
    ) as consumer:
        consumer.commit({TopicPartition("flights", 0): OffsetAndMetadata(2, "seen by Ann")})
    with pytest.raises(InvalidRequestError, match="'seen by Ann'"):
        world.process()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_wrong_log_or_topic_is_told_in_one_line(recipe, log_url, tmp_path):
    run = import_module(recipe).run
    arguments = [log_url, "--from", "fights", "--to", str(tmp_path / "d"), "--group", "g", "--until-end"]
    with pytest.raises(SystemExit, match=r"^error: .* is not a log"):
        common.program(run, recipe, "there", arguments)
    Admin(log_url).create_topic("flights")
    with pytest.raises(SystemExit, match=r"^error: .*fights"):
        common.program(run, recipe, "there", arguments)


# -- Real processes -------------------------------------------------------------------------------------


@pytest.mark.deep
def test_real_processes_killed_at_random(log_url, tmp_path):
    """All recipes at work on one log, with flights coming in; each is killed twice."""
    numbers, chance = itertools.count(), random.Random()
    log = Log.open_or_create(log_url)
    Admin(log).create_topic("flights", partitions=2)

    def feed():
        add(log_url, *itertools.islice(numbers, 20), log=log)

    def target(recipe):
        return str(tmp_path / f"{recipe}.sqlite") if recipe in WITH_DATABASE else f"{recipe}-results"

    def results(recipe):
        return in_database(target(recipe)) if recipe in WITH_DATABASE else in_topic(log_url, target(recipe))

    def start(*more):
        for recipe in RECIPES:
            arguments = ["--to", target(recipe), "--group", recipe, "--max-records", "5", *more]
            command = [sys.executable, str(FOLDER / f"{recipe}.py"), log_url, *arguments]
            process = Process(command, tmp_path / f"{recipe}.out")
            cleanup.callback(process.kill)
            yield recipe, process

    with ExitStack() as cleanup:
        for _ in range(2):
            processes = list(start())
            for recipe, process in processes:
                before = len(results(recipe))
                feed()
                process.until(lambda r=recipe, n=before: len(results(r)) > n, "a result")
            for _, process in chance.sample(processes, len(processes)):
                for _ in range(chance.randrange(3)):
                    feed()
                time.sleep(chance.random() / 20)
                process.kill()
        for recipe, process in list(start("--until-end")):
            assert re.search(rf"^{recipe}: \d+ records read$", process.succeed(), re.MULTILINE)
    wanted = expected(*range(next(numbers)))
    for recipe in RECIPES:
        check(recipe, Counter(results(recipe)), wanted)
