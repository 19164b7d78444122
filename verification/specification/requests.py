"""Requests of producers, applied by the code's rules one after the other, as steps of `specs/Transactions.tla`.

`record` draws them for a log in memory: requests of producers that live, requests of those that were fenced long ago,
and repeated ones. What the rules refuse is recorded, too: the specification must refuse it as well.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    EosLogError,
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.two_phase.prepare import PrepareTransaction
from spark_eos.protocol.rules.apply import Rejected, apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import (
    NO_PRODUCER,
    BatchRef,
    FileRef,
    PartitionOffset,
    ProducerStamp,
    StagedFile,
    TopicPartition,
)

__all__ = ["GROUPS", "NAMES", "PARTITIONS", "REFUSALS", "Step", "record"]

NAMES = ("x", "y")
GROUPS = ("g", "h")
PARTITIONS = 2

_STEPS = 25
_TOPIC = "t"
_LONG_MS = 10**6
"""For so long a transaction was watched that is said to be too old."""

_IDLE_MS = 10**10
"""An id that was not used for so long is forgotten."""

REFUSALS = (InvalidPidMappingError, InvalidTxnStateError, ProducerFencedError, InvalidRequestError)
"""Errors of what the specification knows of."""


class Step(NamedTuple):
    """One request: its kind and what it names; whether the rules accepted it, and what the log says after it."""

    kind: str
    name: str
    stamp: ProducerStamp
    partitions: tuple[int, ...]
    flag: bool
    accepted: bool
    stable: tuple[int, ...]
    visible: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        said = "accepted" if self.accepted else "refused"
        return (
            f"{self.kind} {self.name} {tuple(self.stamp)} {self.partitions} {self.flag} {said}; LSO {self.stable}, "
            f"visible {self.visible}, positions {self.positions}"
        )


class _Wanted(NamedTuple):
    kind: str
    action: a.Action
    name: str = ""
    stamp: ProducerStamp = NO_PRODUCER
    partitions: tuple[int, ...] = ()
    flag: bool = False


def record(seed: int) -> list[Step]:
    """The steps of the log of a seed."""
    return _Run(random.Random(f"transactions {seed}")).steps()


class _Run:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._state = EMPTY
        self._now = 1000
        self._sent: list[_Wanted] = []
        self._ask(a.CreateLog("log"), a.CreateTopic(_TOPIC, "t-id", PARTITIONS))

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        while len(steps) < _STEPS:
            wanted = self._draw()
            before = self._state
            outcome = self._ask(wanted.action)
            if isinstance(outcome, EosLogError) and not isinstance(outcome, REFUSALS):
                continue  # A sequence number that is out of order: of that the specification says nothing.
            self._sent.append(wanted)
            steps.append(self._step(wanted, before, outcome))
        return steps

    def _ask(self, *actions: a.Action) -> Any:
        request = a.Request(self._chance.randbytes(16), self._now, actions, "w", clock_checked=True)
        entry = a.Entry(self._state.seq + 1, (request,), self._state.lineage)
        self._state, (outcome,) = apply_entry(self._state, entry)
        return outcome.error if isinstance(outcome, Rejected) else outcome.results[0]

    def _step(self, wanted: _Wanted, before: State, outcome: Any) -> Step:
        accepted, stamp = not isinstance(outcome, EosLogError), wanted.stamp
        kind = wanted.kind
        if accepted and kind == "Write" and outcome[0].duplicate:
            kind = "Again"
        if isinstance(wanted.action, a.InitProducer):
            stamp = ProducerStamp(wanted.action.producer_id, wanted.action.epoch, 0)
        stable, visible = zip(*map(self._seen, range(PARTITIONS)), strict=True)
        return Step(
            kind,
            wanted.name,
            stamp,
            wanted.partitions,
            wanted.flag,
            accepted,
            stable,
            visible,
            self._positions(),
        )

    def _seen(self, number: int) -> tuple[int, int]:
        """The LSO, and how many records a reader of committed ones sees."""
        at = TopicPartition(_TOPIC, number)
        partition = self._state.partitions["t-id", number]
        end = end_offset(partition, Isolation.READ_COMMITTED)
        return end, sum(one.records for one in plan(self._state, at, 0, end, Isolation.READ_COMMITTED))

    def _positions(self) -> tuple[tuple[int, ...], ...]:
        """Of each group: producer id and number of the transaction that gave it its position."""
        known = [self._state.offset_of(group, _TOPIC, 0) for group in GROUPS]
        return tuple(() if one is None else tuple(map(int, one.metadata.split(":"))) for one in known)

    # -- What is asked --------------------------------------------------------------------------------

    def _draw(self) -> _Wanted:
        chance = self._chance
        self._now += chance.choice([0, 1, 1000])
        if self._sent and chance.random() < 0.12:
            again = chance.choice(self._sent)  # It was under way for long, or its reply was lost.
            if again.kind == "Forget":
                self._now += _IDLE_MS
            if again.kind == "End" and chance.random() < 0.5:
                again = again._replace(
                    action=a.EndTransaction(again.stamp, not again.flag), flag=not again.flag
                )
            return again
        kind = chance.random()
        if not self._state.producers or kind < 0.12:
            return self._take()
        if kind < 0.16:
            return self._alone()
        if kind < 0.18:
            self._now += _IDLE_MS
            name = chance.choice(NAMES)
            return _Wanted("Forget", a.ExpireTransactionalIds((name,)), name)
        return self._inside()

    def _take(self) -> _Wanted:
        chance, name = self._chance, self._chance.choice(NAMES)
        known = self._state.producer_of(name)
        place = (self._state.next_producer_id, 0) if known is None else (known.producer_id, known.epoch + 1)
        if known is not None and chance.random() < 0.2:
            place = (known.producer_id, max(0, known.epoch + chance.choice([-1, 0, 2])))
        keep = chance.random() < 0.5
        return _Wanted("Take", a.InitProducer(*place, name, 1000, None, keep), name, flag=keep)

    def _alone(self) -> _Wanted:
        number = self._chance.randrange(PARTITIONS)
        if self._chance.random() < 0.5:
            return _Wanted("Alone", self._append(NO_PRODUCER, (number,)), partitions=(number,))
        group = self._chance.choice(GROUPS)
        return _Wanted("OffsetAlone", a.CommitOffsets(group, (self._position("0:0"),)), group)

    def _inside(self) -> _Wanted:
        chance = self._chance
        producer = self._state.producers[chance.choice(sorted(self._state.producers))]
        number = producer.number if producer.is_open else producer.number + 1
        stamp = ProducerStamp(producer.producer_id, producer.epoch, max(number, 0))
        if chance.random() < 0.2:  # Of a process that slept, or of none.
            stamp = stamp._replace(
                epoch=max(0, stamp.epoch + chance.choice([-1, 0, 0, 1])),
                number=max(0, stamp.number + chance.choice([-1, 0, 1])),
            )
        kind = chance.random()
        if kind < 0.4:
            numbers = chance.choice([(0,), (1,), (0, 1)])
            return _Wanted("Write", self._append(stamp, numbers), "", stamp, numbers)
        if kind < 0.55:
            group, tag = chance.choice(GROUPS), f"{stamp.producer_id + 1}:{stamp.number}"
            return _Wanted("Offset", a.CommitOffsets(group, (self._position(tag),), stamp), group, stamp)
        if kind < 0.67:
            return _Wanted("Prepare", PrepareTransaction(stamp), "", stamp)
        if kind < 0.75:
            return _Wanted("Expire", a.ExpireTransaction(stamp, _LONG_MS), "", stamp)
        commit = chance.random() < 0.6
        return _Wanted("End", a.EndTransaction(stamp, commit), "", stamp, flag=commit)

    def _position(self, tag: str) -> PartitionOffset:
        return PartitionOffset(_TOPIC, "t-id", 0, self._state.seq, tag)

    def _append(self, stamp: ProducerStamp, numbers: tuple[int, ...]) -> a.AppendBatches:
        """One record for each of the partitions, with the next sequence number of its producer."""
        known = self._state.producers.get(stamp.producer_id)
        batches = []
        for number in numbers:
            window = () if known is None else known.window(("t-id", number))
            follows = bool(window) and known is not None and window[-1].epoch == known.epoch
            sequence = (window[-1].last + 1,) if follows else (0,)
            batches.append(BatchRef(number, 1, 0, 100, 7, 1, 2, *(() if stamp == NO_PRODUCER else sequence)))
        file = StagedFile(_TOPIC, FileRef(f"data/t/{self._state.seq}-x.arrow", 10_000, 0), tuple(batches))
        return a.AppendBatches(stamp, ((_TOPIC, "t-id"),), (file,))
