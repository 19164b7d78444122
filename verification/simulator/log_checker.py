"""The log of a simulated world once more, entry by entry, when all is over: what it says, and what it must not.

Each request is applied by the rules, held against the invariants and the second book, and every step of the
copying group against the rows that became visible in the same step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from immutables import Map

from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.data.planner import Fetch, end_offset, plan
from spark_eos.log.data.records import read
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.invariants import InvariantError, apply_checked
from spark_eos.protocol.rules.apply import Rejected, apply, judged_by, state_after
from spark_eos.protocol.rules.fate import is_repeatable
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import EMPTY, Partition, PartitionKey, State
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import Store
from verification.simulator.clock import EPOCH_MS
from verification.simulator.context import COPIERS, INPUT, OUTPUT
from verification.simulator.outcomes import Outcomes
from verification.simulator.producer_model import Rows
from verification.simulator.reference_model import ReferenceModel
from verification.simulator.store import SimulatedStore

__all__ = ["LogChecker"]

_ROUNDED_MS = 2000
"""What times in whole seconds may differ."""

_ENOUGH = 5
"""Problems after which a log is not read on: one mistake brings many."""


class LogChecker:
    """Reads the whole log of a world. ``state`` is its end, ``accepted`` where each request went."""

    def __init__(self, store: SimulatedStore, begins: Mapping[int, int] | None = None) -> None:
        """``begins`` is where the copiers began in the partitions of the input, if not at their start."""
        self._begins = {(INPUT, number): offset for number, offset in (begins or {}).items()}
        self.state: State = EMPTY
        self.entries = 0
        self.problems: list[str] = []
        self.accepted: dict[bytes, tuple[int, tuple[Any, ...]]] = {}
        self.book = ReferenceModel(self._say)
        self.rejected = 0
        self._unchecked = 0
        self._store = store
        self.places: list[Map[PartitionKey, Partition]] = []
        """The partitions after each entry."""
        self._values: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self._seq = -1

    def replay(self) -> None:
        """All entries, until the end or until too much is wrong."""
        while len(self.problems) < _ENOUGH:
            self._seq = self.state.seq + 1
            name = paths.entry(self._seq, self.state.entries_per_folder)
            data = self._store.written.get(name)
            if data is None:
                return
            before = self.state
            try:
                entry = decode_entry(data, self._seq, name)
                after, _ = apply_checked(before, entry)
            except (EosLogError, InvariantError) as error:
                self._say(repr(error))
                return
            stepwise = judged_by(before, entry.rules)
            for request in entry.requests:
                stepwise = self._request(stepwise, request, self._landed(self._seq))
            if state_after(stepwise, entry) != after:
                self._say("its requests one by one come to something else")
            self._check_time(after)
            self.state, self.entries = after, self.entries + 1
            self.places.append(after.partitions)

    def _request(self, before: State, request: a.Request, now: float) -> State:
        after, outcome = apply(before, request)
        if isinstance(outcome, Rejected):
            self.rejected += 1
            if after is not before and after != before:
                self._say(f"a rejected request changed something: {request.actions}")
            return after
        if request.request_id in self.accepted and not self._may_repeat(request):
            self._say(f"request {request.request_id.hex()} of {request.writer} is in the log twice")
        self.accepted[request.request_id] = (self._seq, outcome.results)
        self._unchecked += not request.clock_checked
        stood = {at: offset for at, offset in self.book.offsets.get(COPIERS, {}).items() if at[0] == INPUT}
        self.book.enter(before, request, outcome.results, after, now)
        self._check_copies(stood, after)
        return after

    def _check_time(self, state: State) -> None:
        """The log's time is ahead of the world's by no more than what each request may add that was not checked.

        A process goes by what it has seen of the log's time: one that is ahead by less than the limit is believed.
        """
        limit_ms = setting(state, "entry.timestamp.after.max.ms") * (1 + self._unchecked)
        ahead_ms = state.timestamp_ms - EPOCH_MS - self._landed(self._seq) * 1000
        if ahead_ms > limit_ms + _ROUNDED_MS:
            self._say(f"the log's time is {ahead_ms / 1000:.0f} s ahead")

    def _may_repeat(self, request: a.Request) -> bool:
        """Who could not see any more whether it is in asks again, if that does no harm.

        It was retired, or a snapshot covers it, and a process that was away for an hour goes on from there.
        """
        if not is_repeatable(request.actions):
            return False
        seq = self.accepted[request.request_id][0]
        newest = newest_snapshot(self._store.inner)
        return newest is not None and newest.seq >= seq

    def _check_copies(self, stood: dict[tuple[str, int], int], state: State) -> None:
        """What the copying group has moved over is what became visible in the output, in the same request."""
        if INPUT not in state.topics or OUTPUT not in state.topics:
            return
        stands = {at: to for at, to in self.book.offsets.get(COPIERS, {}).items() if at[0] == INPUT}
        output_id = state.topics[OUTPUT].topic_id
        shown = [rows for rows in self.book.visible if rows[0] == output_id]
        if stands == stood and not shown:
            return
        read_: Counter[str] = Counter()
        for at, offset in stands.items():
            since = stood.get(at, self._begins.get(at, 0))
            if offset < since:
                self._say(f"the copiers' group went back from {since} to {offset} of {at}")
            read_.update(self._between(state, at, since, offset))
        written = Counter(value for rows in shown for value in self._rows(state, OUTPUT, rows))
        if read_ != written:
            self._say(
                f"the copiers' group went from {stood} to {stands}; not copied: {sorted(read_ - written)}; "
                f"copied besides: {sorted(written - read_)}"
            )

    def _between(self, state: State, at: tuple[str, int], first: int, end: int) -> Iterable[str]:
        topic_id = state.topics[at[0]].topic_id
        for row in state.partitions[topic_id, at[1]].index.scan(first):
            if row.base_offset >= end:
                return
            if row.kind is Kind.DATA:
                records = self._records(state, at, row)
                yield from (value for offset, value in records if first <= offset < end)

    def _rows(self, state: State, topic: str, rows: Rows) -> list[str]:
        row = state.partitions[rows[:2]].index.find(rows[2])
        assert row is not None
        return [value for _, value in self._records(state, (topic, rows[1]), row)]

    def _records(self, state: State, at: tuple[str, int], row: IndexRow) -> list[tuple[int, str]]:
        """Offset and value of each record of a batch, also if its file was deleted since."""
        assert row.file is not None
        assert row.batch is not None
        key = (row.file.name, row.batch.position)
        if key not in self._values:
            fetch = Fetch(*at, row.base_offset, row.count, 0, row.file, row.batch)
            try:
                self._values[key] = _texts(self._store.inner, state, fetch)
            except ObjectNotFoundError:
                self._values[key] = _texts(self._store.archive, state, fetch)
        return self._values[key]

    def everything(self, topic: str) -> dict[int, list[tuple[int, str]]]:
        """(offset, value) of all that can be read in the end under read_committed, by partition."""
        known = self.state.topics[topic]
        found: dict[int, list[tuple[int, str]]] = {}
        for number in range(known.partitions):
            partition = self.state.partitions[known.topic_id, number]
            end = end_offset(partition, Isolation.READ_COMMITTED)
            at, rows = TopicPartition(topic, number), found.setdefault(number, [])
            for fetch in plan(self.state, at, partition.start, end, Isolation.READ_COMMITTED):
                try:
                    rows += _texts(self._store.inner, self.state, fetch)
                except ObjectNotFoundError as error:
                    self._complain(f"records of {at} are in the log, and their file is not there: {error}")
        return found

    def compare(self, answers: Sequence[Outcomes]) -> Counter[str]:
        """Compare all answers with what is in the log; what unknown outcomes turned out to be."""
        outcomes: Counter[str] = Counter()
        last = {told.request_id: told for told in answers}
        for told in answers:
            found = self.accepted.get(told.request_id)
            if told.unknown and (told.error or last[told.request_id] is told):
                kind = "unknown" if told.error else "killed before the answer"
                outcomes[f"{kind}, {'not in' if found is None else 'in'}"] += 1
            elif told.error and not told.unknown:
                outcomes[told.error] += 1
                # The same request may be asked again, and get in then.
                if found is not None and (last[told.request_id] is told or self._landed(found[0]) <= told.at):
                    self._complain(f"{told.writer!r} was told {told.error}, and entry {found[0]} has it")
            elif told.results and found != (told.seq, told.results):
                self._complain(
                    f"{told.writer!r} was told {told.results} in entry {told.seq}; there is {found}"
                )
        return outcomes

    def _landed(self, seq: int) -> float:
        return self._store.landed.get(paths.entry(seq, self.state.entries_per_folder), 0.0)

    def _say(self, what: str) -> None:
        self.problems.append(f"entry {self._seq}: {what}")

    def _complain(self, what: str) -> None:
        if len(self.problems) < _ENOUGH:
            self.problems.append(what)


def _texts(store: Store, state: State, fetch: Fetch) -> list[tuple[int, str]]:
    records = read(store, state.topics[fetch.topic], fetch)
    values = records.column("value").to_pylist()
    return [(records.offset(place), value.decode()) for place, value in enumerate(values)]
