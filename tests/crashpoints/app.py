"""An application on a log that may die anywhere: what it does about errors, and what must be true of it afterwards."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from spark_eos import Consumer
from spark_eos.config.isolation import Isolation
from spark_eos.errors import CommitOutcomeUnknownError, EosLogError, RetriableError
from spark_eos.log.clock import Retry
from spark_eos.log.data import prefetch
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.data.records import read
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import MemoryStore
from spark_eos.testing import CrashStore, Trouble, check_log, crash_points
from tests.log.fakes import FakeClock
from verification.inline_executor import InlineExecutor
from verification.no_threads import NO_THREADS

HOURS = 3600.0

WORDS = {"trying", "sent", "refused"}
"""What a note says first of a record: who tries again has not heard yet."""

IN_DOUBT = (Trouble.REPLY_LOST, Trouble.REQUEST_LOST)


class Clock(FakeClock):
    """Time passes when a process sleeps; a later process starts hours later. Nothing is drawn by chance."""

    def __init__(self, process):
        super().__init__()
        self.now = 1_000.0 + 2 * HOURS * (process + 1)
        self._unique = itertools.count((process + 2) << 32)


class App:
    """One process. Impatient ones hear of all trouble at once; patient ones leave it to the log to try again."""

    def __init__(self, store, *, patient=True):
        self.store = store
        self.patient = patient
        self.clock = Clock(store.process)
        self._log = None

    @property
    def log(self):
        if self._log is None:
            retry = Retry(deadline_s=30 if self.patient else 0)
            self._log = self.patiently(
                lambda: Log.open_or_create(self.store, self.clock, retry, environment=NO_THREADS)
            )
        return self._log

    def patiently(self, call, *, done=()):
        """Call again after a `RetriableError`. After an unknown outcome, errors in ``done`` say it was done."""
        accepted = ()
        for _ in range(20):
            try:
                return call()
            except accepted:
                return None
            except CommitOutcomeUnknownError:
                accepted = done
            except RetriableError:
                pass
            self.clock.sleep(0.1)
        raise AssertionError("the store is well, and the call does not come to an end")

    def consumer(self, **settings):
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return Consumer(
            self.log,
            {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "group.id": "g", **named},
        )

    def values(self, topic):
        """What is committed in the topic, by partition."""
        return self.patiently(lambda: committed(self.store, self.log.follow(), topic))


@dataclass(frozen=True)
class Scenario:
    """``run`` goes on from whatever it finds, so that it is its own recovery."""

    run: object
    prepare: object = None
    check: object = None
    """More than what holds everywhere, in a process of its own."""
    repeats: bool = False
    """Whether records may come more than once, by design."""
    gives_up: bool = False
    """Whether trouble may end it: Spark ends a query whose commit failed. All others try again and get there."""
    same: bool = True
    """Whether the end is the same whatever happened on the way."""


def points(scenario, *, patient, troubles, only=None, factory=MemoryStore):
    """All crash points of a scenario, with what holds everywhere: checked after a crash, and at the end."""
    base = factory()
    if scenario.prepare is not None:
        scenario.prepare(App(CrashStore(base, process=-1)))
    objects = {info.name: base.read(info.name) for info in base.list("")}
    undisturbed = []

    def prepared():
        if not objects:
            return factory()
        store = factory()
        for name, body in objects.items():
            store.create(name, body)
        return store

    def run(store):
        try:
            scenario.run(App(store, patient=patient))
        except EosLogError as error:
            if scenario.gives_up or store.is_dead:
                raise
            raise AssertionError(f"it should not have given up: {error!r}") from error

    def recover(store):
        found = contents(store.inner, check_log(store.inner))
        check_promises(found, store.notes, repeats=scenario.repeats)
        scenario.run(App(store))

    def check(store):
        found = contents(store.inner, check_log(store.inner))
        check_promises(found, store.notes, repeats=scenario.repeats)
        if scenario.same:
            undisturbed.append(found)
            assert found == undisturbed[0], f"not as undisturbed: {found}, not {undisturbed[0]}"
        if scenario.check is not None:
            scenario.check(App(store))

    return crash_points(
        run,
        recover,
        check,
        prepared,
        troubles=troubles,
        only=only,
    )


def every_point(scenario, *, factory=MemoryStore):
    """Run them all: impatient with every trouble, patient with lost replies and requests."""
    only = os.environ.get("CRASH_POINT")
    found = [
        *points(scenario, patient=False, troubles=tuple(Trouble), only=only, factory=factory),
    ]
    if only is None:
        found += points(scenario, patient=True, troubles=IN_DOUBT, factory=factory)
    return found


def contents(store, state):
    """What users see of a log: committed records, offsets of groups, settings, open transactions."""
    offsets = {
        group: {at: position.offset for at, position in known.items()}
        for group, known in state.offsets.items()
        if known
    }
    return {
        "topics": {name: committed(store, state, name) for name in state.topics},
        "settings": {name: dict(topic.config) for name, topic in state.topics.items()},
        "log": dict(state.config),
        "offsets": offsets,
        "open": len(state.open_transactions),
        "transactional ids": sorted(state.transactional_ids),
    }


def committed(store, state, name):
    """The committed values of a topic, by partition; nothing if there is none of that name."""
    topic = state.topics.get(name)
    found = {}
    for number in range(topic.partitions if topic else 0):
        at = TopicPartition(name, number)
        partition = state.partitions[topic.topic_id, number]
        stop = end_offset(partition, Isolation.READ_COMMITTED)
        fetches = plan(state, at, partition.start, stop, Isolation.READ_COMMITTED)
        rows = [row for fetch in fetches for row in read(store, topic, fetch).column("value").to_pylist()]
        found[number] = [row.decode() for row in rows]
    return found


def check_promises(found, notes, *, repeats):
    """What was acknowledged is there, what was refused is not, and everything is there once."""
    counts = Counter(
        (topic, value)
        for topic, parts in found["topics"].items()
        for rows in parts.values()
        for value in rows
    )
    if not repeats:
        assert not {key: count for key, count in counts.items() if count > 1}, "more than once"
    last = {tuple(note[1:]): note[0] for note in notes if isinstance(note, tuple) and note[0] in WORDS}
    lost = {key for key, word in last.items() if word == "sent" and not counts[key]}
    assert not lost, f"acknowledged, and not there: {lost}"
    undead = {key for key, word in last.items() if word == "refused" and counts[key]}
    assert not undead, f"refused, and there: {undead}"


@contextmanager
def no_threads():
    """Tasks of Spark start none, as clients (`NO_THREADS`): each run is the same."""
    with mock.patch.object(prefetch, "ThreadPoolExecutor", InlineExecutor):
        yield


__all__ = ["App", "EosLogError", "Scenario", "every_point", "no_threads", "points"]
