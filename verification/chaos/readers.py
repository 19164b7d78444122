"""Readers beside the queries and after them: in every state they meet, everything has to fit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_eos import Consumer, TopicPartition
from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import Fetch, plan
from spark_eos.log.log import Log
from spark_eos.protocol.state import Partition, State
from spark_eos.testing.history import Event, Poll, Recorder
from verification.chaos.checker import holes, torn
from verification.chaos.workloads import INPUTS, Query

__all__ = ["Record", "Visible", "Watcher", "consumed", "final", "partition", "places", "read_topic"]

_PAUSE_S = 0.1
_MANY = 20
"""Problems that are kept; more of the same say nothing new."""


class Record(NamedTuple):
    """A record that a committed reader sees."""

    partition: int
    offset: int
    key: str
    value: str


def places(state: State, topic: str) -> list[TopicPartition]:
    """The topic's partitions; none if it is not there yet."""
    known = state.topics.get(topic)
    return [TopicPartition(topic, number) for number in range(known.partitions if known else 0)]


def partition(state: State, at: TopicPartition) -> Partition:
    """Its state."""
    return state.partitions[state.topics[at.topic].topic_id, at.partition]


class Visible:
    """How many records of a partition a committed reader sees below an offset.

    What lies below the last stable offset is decided for good, so it is counted once.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[TopicPartition, tuple[int, int]] = {}

    def below(self, state: State, at: TopicPartition, offset: int) -> int:
        """Records from the start of the partition to before ``offset``."""
        start, count = self._known.get(at, (partition(state, at).start, 0))
        if offset < start:
            start, count = partition(state, at).start, 0
        fetches = plan(state, at, start, offset, Isolation.READ_COMMITTED, self._log.load)
        count += sum(self._records(state, fetch) for fetch in fetches)
        self._known[at] = (offset, count)
        return count

    def _records(self, state: State, fetch: Fetch) -> int:
        """How many they are. Where a part of a rolled batch has holes, only those who read it know."""
        if fetch.file.offsets:
            return self._log.read(state.topics[fetch.topic], fetch).num_rows
        return fetch.records

    def topic(self, state: State, topic: str) -> int:
        """All records of a topic."""
        return sum(
            self.below(state, at, partition(state, at).last_stable_offset) for at in places(state, topic)
        )


def consumed(state: State, group: str, reading: Visible) -> int:
    """Records of the inputs that lie after the group's committed offsets."""
    return sum(
        reading.below(state, TopicPartition(topic, number), known.offset)
        for (topic, number), known in state.offsets.get(group, {}).items()
        if topic in INPUTS
    )


def read_topic(log: Log, state: State, topic: str) -> list[Record]:
    """All that a committed reader sees of a topic in ``state``, read from the store."""
    found = []
    for at in places(state, topic):
        known = partition(state, at)
        for fetch in plan(
            state, at, known.start, known.last_stable_offset, Isolation.READ_COMMITTED, log.load
        ):
            rows = log.read(state.topics[topic], fetch)
            keys, values = (rows.column(name).to_pylist() for name in ("key", "value"))
            found += [
                Record(at.partition, rows.offset(number), (key or b"").decode(), value.decode())
                for number, (key, value) in enumerate(zip(keys, values, strict=True))
            ]
    return found


class Watcher(threading.Thread):
    """Follows a log and reads all its topics, all the time. ``problems`` says what did not fit."""

    def __init__(self, url: str, queries: Sequence[Query]) -> None:
        super().__init__(name=f"watcher of {url}", daemon=True)
        self.log = Log.open(url)
        self.problems: list[str] = []
        self.states = 0
        self.read = 0
        self._name = url.rpartition("/")[2]
        self._queries = queries
        self._recorder = Recorder()
        self._sources = {query.name: Visible(self.log) for query in queries}
        self._targets = Visible(self.log)
        self._consumer = Consumer(
            self.log,
            {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "max.poll.records": 2000},
        )
        self._values: dict[str, set[bytes]] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._indexed: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._last: tuple[int, int] = (-1, -1)
        self._over = threading.Event()

    @property
    def history(self) -> list[Event]:
        """What it read of the inputs."""
        return self._recorder.history

    def run(self) -> None:
        """Until `finish`."""
        try:
            while not self._over.is_set():
                self.look()
                time.sleep(_PAUSE_S)
            self.look()
        except Exception as error:  # noqa: BLE001  (whatever it is, a reader must not fail)
            self._add(f"a reader of {self._name} failed: {type(error).__name__}: {error}")

    def finish(self) -> None:
        """A last look, and the end."""
        self._over.set()
        self.join()

    def look(self) -> None:
        """All checks of the newest state, and of what is new to read."""
        state = self.log.follow()
        if state.seq != self._last[0]:
            self._last = (state.seq, 0)
            self.states += 1
            self._check_offsets(state)
            for target in sorted({query.target for query in self._queries}):
                self._check_state(state, target)
        self._read_on(state)

    def facts(self) -> list[str]:
        """How much it looked at, in a sentence."""
        states = self.log.state.seq + 1
        looked = f"the reader beside log {self._name} looked at {self.states:,} of {states:,} states"
        return [f"{looked} and read {self.read:,} rows"]

    # -- states -------------------------------------------------------------------------------------

    def _check_offsets(self, state: State) -> None:
        for topic in state.topics:
            for at in places(state, topic):
                known = partition(state, at)
                first = self._indexed.get(at, 0)
                if known.start != 0 and topic not in {q.target for q in self._queries if q.kind == "counts"}:
                    self._add(f"{self._name}: {at} starts at offset {known.start}; nobody deleted records")
                if known.start == 0:
                    batches = [
                        # A batch that was rewritten may reach across what was looked at before.
                        (max(row.base_offset, first), row.next_offset)
                        for row in known.index.scan(first, self.log.load)
                    ]
                    self._add(*holes(f"{self._name}, {at}", batches, first, known.end))
                    self._indexed[at] = known.end

    def _check_state(self, state: State, target: str) -> None:
        writers = [query for query in self._queries if query.target == target]
        if any(query.kind == "distinct" for query in writers):
            return  # how many rows it writes depends on what they hold: see `_read_on`
        if any(partition(state, at).open for at in places(state, target)):
            return  # what is behind an open transaction is not seen yet, though committed
        read = sum(consumed(state, query.name, self._sources[query.name]) for query in writers)
        counting = writers[0].kind == "counts"
        written = self._counted(state, target) if counting else self._targets.topic(state, target)
        self._add(*torn(f"{self._name}, topic {target}", state.seq, read, written))

    def _counted(self, state: State, target: str) -> int:
        """The sum of the newest result; each count of it may only have grown."""
        counts = {row.key: int(row.value) for row in read_topic(self.log, state, target)}
        for key, before in self._counts.items():
            if counts.get(key, 0) < before:
                self._add(
                    f"{self._name}, topic {target}: the count of {key} fell from {before} to {counts.get(key)}"
                )
        self._counts = counts
        return sum(counts.values())

    # -- records ------------------------------------------------------------------------------------

    def _read_on(self, state: State) -> None:
        replaced = {query.target for query in self._queries if query.kind == "counts"}
        wanted = [
            at for topic in sorted(state.topics) if topic not in replaced for at in places(state, topic)
        ]
        if set(wanted) != self._consumer.assignment():
            self._consumer.assign(wanted)
        token = self._recorder.invoke(f"reader of {self._name}", "poll")
        records = self._consumer.poll()
        self.read += len(records)
        found: dict[TopicPartition, list[tuple[int, bytes]]] = {}
        for one in records:
            assert one.value is not None
            at = TopicPartition(one.topic, one.partition)
            found.setdefault(at, []).append((one.offset, one.value))
            if one.offset < self._offsets.get(at, 0):
                self._add(f"{self._name}: {at} gave offset {one.offset} after {self._offsets[at] - 1}")
            self._offsets[at] = one.offset + 1
            values = self._values.setdefault(one.topic, set())
            if one.value in values:
                self._add(f"{self._name}: {one.value.decode()!r} is twice in topic {one.topic}")
            values.add(one.value)
        polls = [
            Poll(
                at,
                tuple((offset, value.decode()) for offset, value in pairs),
                position=self._consumer.position(at),
            )
            for at, pairs in sorted(found.items())
            if at.topic in INPUTS
        ]
        self._recorder.ok(token, polls)

    def _add(self, *problems: str) -> None:
        self.problems += [problem for problem in problems if len(self.problems) < _MANY]


def final(log: Log, state: State, topics: Iterable[str]) -> dict[TopicPartition, list[tuple[int, str]]]:
    """Offset and value of all records of these topics, by partition."""
    return {
        at: [(row.offset, row.value) for row in rows if row.partition == at.partition]
        for topic in topics
        for rows in [read_topic(log, state, topic)]
        for at in places(state, topic)
    }
