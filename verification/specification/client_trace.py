"""What a log says that clients have written, as steps of `specs/Transactions.tla`.

A request may have several actions: rows, positions and the end of a transaction. Each is a step. No process sees the
log between them, so the specification allows more there than the code does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def trace(
    read: Callable[[str], bytes | None], refused: Iterable[Refused] = (), *, topic: str = TOPIC
) -> list[Step]:
    """The steps of all entries of a log, and what was refused between them.

    Parameters
    ----------
    read
        The entry of that name, if there is one.
    refused
        Requests that the rules have refused.
    topic
        To which the clients write, one record of a partition in one request.

    Raises
    ------
    ValueError
        An entry holds what the specification has no room for, or what the rules refuse.
    """
    return _Trace(read, refused, topic).steps


class _Trace:
    def __init__(self, read: Callable[[str], bytes | None], refused: Iterable[Refused], topic: str) -> None:
        self.steps: list[Step] = []
        self._topic = topic
        self._state = EMPTY
        self._names: list[str] = []
        """Transactional ids, in the order of the specification's."""
        self._groups: list[str] = []
        self._tags: dict[str, tuple[int, int]] = {}
        """Of each position, by its metadata: producer id and number of the transaction that gave it."""
        said: dict[int, list[Refused]] = {}
        for one in refused:
            said.setdefault(one.seq, []).append(one)
        seq = 0
        while (data := read(name := paths.entry(seq, self._state.entries_per_folder))) is not None:
            self._add(decode_entry(data, seq, name))
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
                name = _known_as(action.transactional_id or "", self._names, NAMES)
                return [_Wanted("Take", name, stamp, flag=action.keep_prepared)]
            case a.AppendBatches():
                batches = [batch for file in action.files for batch in file.batches]
                if any(batch.count != 1 for batch in batches):
                    raise ValueError(f"the specification has batches of one record: {action}")
                numbers = tuple(batch.partition for batch in batches)
                kind = "Alone" if action.producer == NO_PRODUCER else "Write"
                return [_Wanted(kind, "", action.producer, numbers)]
            case a.CommitOffsets():
                stamp = action.producer or NO_PRODUCER
                alone = stamp == NO_PRODUCER
                tag = (0, 0) if alone else (stamp.producer_id + 1, stamp.number)
                self._tags.update({one.metadata: tag for one in action.offsets})
                group = _known_as(action.group, self._groups, GROUPS)
                return [_Wanted("OffsetAlone" if alone else "Offset", group, stamp)]
            case PrepareTransaction():
                return [_Wanted("Prepare", "", action.producer)]
            case a.EndTransaction():
                return [_Wanted("End", "", action.producer, flag=action.commit)]
            case a.ExpireTransaction():
                return [_Wanted("Expire", "", action.producer)]
        return []

    def _step(self, state: State, wanted: _Wanted, *, accepted: bool) -> Step:
        seen = [self._seen(state, number) for number in range(PARTITIONS)]
        known = [state.offset_of(group, self._topic, 0) for group in self._groups]
        positions = [() if one is None else self._tags[one.metadata] for one in known]
        positions += [()] * (len(GROUPS) - len(positions))
        stable, visible = zip(*seen, strict=True)
        return Step(*wanted, accepted, stable, visible, tuple(positions))

    def _seen(self, state: State, number: int) -> tuple[int, int]:
        """The LSO, and how many records a reader of committed ones sees."""
        at = TopicPartition(self._topic, number)
        partition = state.partitions.get((state.topics[self._topic].topic_id, number))
        if partition is None:
            return 0, 0
        end = end_offset(partition, Isolation.READ_COMMITTED)
        return end, sum(one.records for one in plan(state, at, 0, end, Isolation.READ_COMMITTED))


def _known_as(name: str, known: list[str], names: tuple[str, ...]) -> str:
    """What the specification calls it. Raises `ValueError` for one too many, or none."""
    if not name or (name not in known and len(known) == len(names)):
        raise ValueError(f"the specification knows {', '.join(names)}, so there is no place for {name!r}")
    if name not in known:
        known.append(name)
    return names[known.index(name)]
