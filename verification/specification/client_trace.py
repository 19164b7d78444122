"""What a log says that client processes have written, as steps of `specs/Transactions.tla`.

A request may have several actions: rows, positions and the end of a transaction. Each is a step. No process sees the
log between them, so the specification allows more there than the code does.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.log import paths
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.two_phase.prepare import PrepareTransaction
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules import times
from spark_eos.protocol.rules.apply import Rejected, apply, apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, TopicPartition
from verification.specification.requests import GROUPS, NAMES, PARTITIONS, REFUSALS, Step

__all__ = ["GROUPS", "NAMES", "PARTITIONS", "TOPIC", "Refused", "trace"]

TOPIC = "t"


class Refused(NamedTuple):
    """What the rules refused, and the newest entry then."""

    seq: int
    actions: tuple[a.Action, ...]


class _Wanted(NamedTuple):
    kind: str
    name: str = ""
    stamp: ProducerStamp = NO_PRODUCER
    partitions: tuple[int, ...] = ()
    flag: bool = False


def trace(log: Path, refused: Iterable[Refused]) -> list[Step]:
    """The steps of all entries of a log, and what was refused between them.

    Raises `ValueError` if an entry holds a request that the rules refuse: such a process had other rules.
    """
    return _Trace(log, refused).steps


class _Trace:
    def __init__(self, log: Path, refused: Iterable[Refused]) -> None:
        self.steps: list[Step] = []
        self._state = EMPTY
        self._tags: dict[str, tuple[int, int]] = {}
        """Of each position, by its metadata: producer id and number of the transaction that gave it."""
        said: dict[int, list[Refused]] = {}
        for one in refused:
            said.setdefault(one.seq, []).append(one)
        seq = 0
        while (path := log / paths.entry(seq, self._state.entries_per_folder)).exists():
            self._add(decode_entry(path.read_bytes(), seq, str(path)))
            for one in said.get(seq, ()):
                self._add_refused(one)
            seq += 1

    def _add(self, entry: a.Entry) -> None:
        before = self._state
        for request in entry.requests:
            state = times.at(self._state, request)
            for action in request.actions:
                state, _ = times.judge(self._state, state, request, action)
                for wanted in self._wanted(action):
                    self.steps.append(self._step(state, wanted, accepted=True))
            self._state = state
        after, outcomes = apply_entry(before, entry)
        if any(isinstance(one, Rejected) for one in outcomes):
            raise ValueError(f"entry {entry.seq} has a request that the rules refuse: {outcomes}")
        self._state = after

    def _add_refused(self, refused: Refused) -> None:
        """The specification knows requests of one action: what was refused for its first one is refused there, too."""
        first, *_ = refused.actions
        request = a.Request(bytes(16), self._state.timestamp_ms, (first,), "", clock_checked=True)
        _, outcome = apply(self._state, request)
        if isinstance(outcome, Rejected) and isinstance(outcome.error, REFUSALS):
            for wanted in self._wanted(first):
                self.steps.append(self._step(self._state, wanted, accepted=False))

    def _wanted(self, action: a.Action) -> list[_Wanted]:
        match action:
            case a.InitProducer():
                stamp = ProducerStamp(action.producer_id, action.epoch, 0)
                return [_Wanted("Take", action.transactional_id or "", stamp, flag=action.keep_prepared)]
            case a.AppendBatches():
                numbers = tuple(batch.partition for file in action.files for batch in file.batches)
                kind = "Alone" if action.producer == NO_PRODUCER else "Write"
                return [_Wanted(kind, "", action.producer, numbers)]
            case a.CommitOffsets():
                stamp = action.producer or NO_PRODUCER
                alone = stamp == NO_PRODUCER
                tag = (0, 0) if alone else (stamp.producer_id + 1, stamp.number)
                self._tags.update({one.metadata: tag for one in action.offsets})
                return [_Wanted("OffsetAlone" if alone else "Offset", action.group, stamp)]
            case PrepareTransaction():
                return [_Wanted("Prepare", "", action.producer)]
            case a.EndTransaction():
                return [_Wanted("End", "", action.producer, flag=action.commit)]
            case a.ExpireTransaction():
                return [_Wanted("Expire", "", action.producer)]
        return []

    def _step(self, state: State, wanted: _Wanted, *, accepted: bool) -> Step:
        seen = [self._seen(state, number) for number in range(PARTITIONS)]
        known = [state.offset_of(group, TOPIC, 0) for group in GROUPS]
        positions = tuple(() if one is None else self._tags[one.metadata] for one in known)
        stable, visible = zip(*seen, strict=True) if seen[0] else ((0,) * PARTITIONS,) * 2
        return Step(*wanted, accepted, stable, visible, positions)

    def _seen(self, state: State, number: int) -> tuple[int, int]:
        """The LSO, and how many records a reader of committed ones sees."""
        at = TopicPartition(TOPIC, number)
        partition = state.partitions[state.topics[TOPIC].topic_id, number]
        end = end_offset(partition, Isolation.READ_COMMITTED)
        return end, sum(one.records for one in plan(state, at, 0, end, Isolation.READ_COMMITTED))
