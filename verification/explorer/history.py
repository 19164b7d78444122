"""The entries of an explored log, judged by what they say themselves, and by what actors were told of them.

The rules are not asked here: fences, decisions and batches are counted again from the accepted requests, so that
a rule that forgets one of them is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError
from spark_eos.log import paths
from spark_eos.log.commit.closing import CLOSED
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.data.records import read
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.invariants import InvariantError, apply_checked
from spark_eos.protocol.rules.apply import Accepted, apply
from spark_eos.protocol.state import EMPTY, State, TransactionState
from spark_eos.protocol.types import ProducerStamp, TopicPartition
from verification.explorer.actor import COMMITTED, REFUSED
from verification.explorer.state_fingerprint import Position
from verification.explorer.store import ExploredStore, Object

__all__ = ["ROWS", "Chain", "Chains", "contradictions"]


@dataclass
class Chain:
    """All entries of a log, and what came of them. Does not change, but for what it remembers."""

    state: State = EMPTY
    requests: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The slots in which each request was accepted, by its id."""
    problems: tuple[str, ...] = ()
    is_closed: bool = False
    """Whether the next slot has the mark of a closed log."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    decisions: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    """Whether a transaction (producer id, number) was committed, where it was decided."""
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    batches: tuple[a.CommitMicroBatch, ...] = ()
    files: frozenset[str] = frozenset()
    """The data files that are listed."""
    ever: frozenset[str] = frozenset()
    """The data files that are or were listed."""
    values: Counter[str] | None = None
    """The committed values, computed when they are asked for first."""
    judged: dict[Position, tuple[str, ...]] = field(default_factory=dict)
    """What is wrong with this log for an actor at that position, computed when it is asked for first."""
    before: Chain | None = None
    """The same without its last entry."""
    entry: Object | None = None
    """Its last entry."""
    kept: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What is wrong with its snapshots, pages and retired entries, by the sum of all objects."""

    def after(self, data: Object) -> Chain:
        """This chain, and one entry more."""
        seq = self.state.seq + 1
        if data.body == CLOSED:
            return replace(self, is_closed=True, judged={}, kept={})
        new = Chain(
            requests=dict(self.requests),
            epochs=dict(self.epochs),
            decisions=dict(self.decisions),
            runs=dict(self.runs),
            batches=self.batches,
            before=self,
            entry=data,
        )
        problems = list(self.problems)
        try:
            entry = decode_entry(data.body, seq, paths.entry(seq))
            new.state, outcomes = apply_checked(self.state, entry)
        except (EosLogError, InvariantError) as error:
            new.problems = (*problems, f"entry {seq}: {error}")
            return new
        for request, outcome in zip(entry.requests, outcomes, strict=True):
            key = request.request_id.hex()
            if not isinstance(outcome, Accepted):
                problems.append(f"entry {seq}: request {key[:6]} is refused: {outcome.error}")
                continue
            assert isinstance(new.requests, dict)
            new.requests[key] = (*new.requests.get(key, ()), seq)
            if len(new.requests[key]) > 1:
                problems.append(f"request {key[:6]} is in the log at {new.requests[key]}")
            problems += [f"entry {seq}: {text}" for text in _Reader(self.state, new).read(request)]
        new.files = frozenset(
            row.file.name
            for one in new.state.partitions.values()
            for row in one.index.scan(0)
            if row.file is not None
        )
        new.ever = self.ever | new.files
        new.problems = tuple(problems)
        return new

    def at(self, seq: int) -> Chain | None:
        """This chain as it was behind entry ``seq``; None if it is not as long."""
        chain: Chain | None = self
        while chain is not None and chain.state.seq > seq:
            chain = chain.before
        return chain if chain is not None and chain.state.seq == seq else None

    def committed(self, objects: Mapping[str, Object]) -> Counter[str]:
        """Every value that a reader of committed records gets, and how often, once nothing is open any more."""
        if self.values is None:
            self.values = Counter(_values(_expired(self.state), ExploredStore(dict(objects))))
        return self.values


class Chains:
    """Every chain that came up, judged once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, bytes], Chain] = {}
        self._empty = Chain()

    def __len__(self) -> int:
        return len(self._known) + 1

    def logs(self) -> Iterator[list[bytes]]:
        """The entries of every log that came up, right or wrong, but those that are the beginning of another one."""
        begun = {id(chain.before) for chain in self._known.values()}
        for chain in self._known.values():
            if id(chain) in begun or chain.entry is None:
                continue
            entries = []
            at: Chain | None = chain
            while at is not None and at.entry is not None:
                entries.append(at.entry.body.to_pybytes())
                at = at.before
            yield entries[::-1]

    def of(self, objects: Mapping[str, Object]) -> Chain:
        """The chain of these objects."""
        chain = self._empty
        seq = 0
        while (data := objects.get(paths.entry(seq))) is not None:
            chain = self.after(chain, paths.entry(seq), data)
            seq += 1
        return chain

    def after(self, chain: Chain, name: str, data: Object) -> Chain:
        """The chain with one entry more."""
        if chain.problems:
            return chain
        key = (id(chain), name, data.digest)
        if (known := self._known.get(key)) is None:
            following = chain.state.seq + 1
            if name == paths.entry(following):
                known = chain.after(data)
            else:
                known = Chain(chain.state, problems=(f"slot {following} was left empty",))
            self._known[key] = known
        return known


class _Reader:
    """Goes through the actions of an accepted request."""

    def __init__(self, before: State, chain: Chain) -> None:
        self._before = before
        self._chain = chain

    def read(self, request: a.Request) -> Iterator[str]:
        for action in request.actions:
            if isinstance(action, a.InitProducer):
                yield from self._init(action)
            elif isinstance(action, (a.AppendBatches, a.CommitOffsets)):
                yield from self._fenced(action.producer, "wrote")
                if isinstance(action, a.CommitOffsets):
                    yield from self._group(action)
            elif isinstance(action, a.EndTransaction):
                yield from self._fenced(action.producer, "ended a transaction")
                yield from self._decided(action.producer, commit=action.commit)
            elif isinstance(action, a.FollowDecision):
                yield from self._decided(action.producer, commit=action.commit)
            elif isinstance(action, a.AddFollowers):
                yield from self._fenced(action.producer, "named followers")
            elif isinstance(action, a.PrepareTransaction):
                yield from self._fenced(action.producer, "prepared a transaction")
                assert isinstance(self._chain.epochs, dict)
                self._chain.epochs[action.producer.producer_id] = action.producer.epoch + 1
            elif isinstance(action, a.ExpireTransaction):
                yield from self._fenced(action.producer, "was expired")
                yield from self._decided(action.producer, commit=False)
                assert isinstance(self._chain.epochs, dict)
                self._chain.epochs[action.producer.producer_id] = action.producer.epoch + 1
            elif isinstance(action, a.CommitMicroBatch):
                yield from self._batch(action, request)
            elif isinstance(action, a.ReplaceSegments):
                yield from self._replaced(action)

    def _fenced(self, stamp: ProducerStamp | None, what: str) -> Iterator[str]:
        newest = None if stamp is None else self._chain.epochs.get(stamp.producer_id)
        if stamp is not None and newest is not None and stamp.epoch < newest:
            yield f"{stamp} {what} after epoch {newest} fenced it"

    def _decided(self, stamp: ProducerStamp, *, commit: bool) -> Iterator[str]:
        key = (stamp.producer_id, stamp.number)
        if self._chain.decisions.get(key, commit) is not commit:
            yield f"{stamp} was decided both ways"
        assert isinstance(self._chain.decisions, dict)
        self._chain.decisions[key] = commit

    def _init(self, action: a.InitProducer) -> Iterator[str]:
        chain, producer_id = self._chain, action.producer_id
        assert isinstance(chain.epochs, dict)
        assert isinstance(chain.decisions, dict)
        assert isinstance(chain.runs, dict)
        if action.epoch <= chain.epochs.get(producer_id, -1):
            yield f"epoch {action.epoch} of producer {producer_id} was given out twice"
        chain.epochs[producer_id] = action.epoch
        before = self._before.producers.get(producer_id)
        kept = action.keep_prepared and before is not None and before.transaction is TransactionState.PREPARED
        if kept:
            if producer_id not in chain.state.open_transactions:
                yield f"the prepared transaction of producer {producer_id} was ended by epoch {action.epoch}"
        elif producer_id in self._before.open_transactions:
            chain.decisions[producer_id, self._before.producers[producer_id].number] = False
            if producer_id in chain.state.open_transactions:
                yield f"the transaction of producer {producer_id} is still open after epoch {action.epoch}"
        if action.run_id is not None and action.transactional_id is not None:
            runs = chain.runs.get(action.transactional_id, ())
            if action.run_id in runs:
                yield f"run {action.run_id} came back"
            chain.runs[action.transactional_id] = (*runs, action.run_id)

    def _batch(self, action: a.CommitMicroBatch, request: a.Request) -> Iterator[str]:
        runs = self._chain.runs.get(action.transactional_id, ())
        if not runs or runs[-1] != action.run_id:
            yield f"run {action.run_id} committed batch {action.batch_id}, but {runs[-1:]} is the current one"
        same = [
            one
            for one in self._chain.batches
            if (one.query_id, one.batch_id) == (action.query_id, action.batch_id)
        ]
        if same:
            yield f"batch {action.batch_id} of query {action.query_id} was committed twice"
        kinds = [type(one) for one in request.actions]
        if a.AppendBatches not in kinds or a.EndTransaction not in kinds:
            yield f"batch {action.batch_id} was committed without its rows"
        self._chain.batches = (*self._chain.batches, action)
        for source in action.sources:
            for at in source.end_offsets:
                known = self._chain.state.offset_of(source.group or "", at.topic, at.partition)
                if known is None or known.offset != at.offset:
                    yield f"batch {action.batch_id} was committed without its offsets"

    def _replaced(self, action: a.ReplaceSegments) -> Iterator[str]:
        """Only the rows that the actor has read are replaced, not those that another one has put there since."""
        pages = self._before.partitions[action.topic_id, action.partition].index.pages
        there = [one for one in pages if action.base_offset <= one.base_offset < action.next_offset]
        if checksum(there) != action.replaced:
            where = f"offsets {action.base_offset} to {action.next_offset}"
            yield f"{where} of partition {action.partition} were replaced by who had not seen what was there"

    def _group(self, action: a.CommitOffsets) -> Iterator[str]:
        group, member = self._before.groups.get(action.group), action.member
        if group is None or member is None:
            return
        known = group.members.get(member.member_id)
        if known is None or known.generation != member.generation:
            yield f"{member} committed offsets, but it is {known and known.generation}"
        for at in action.offsets:
            for other in group.members.values():
                if other.member_id != member.member_id and (at.topic_id, at.partition) in other.held:
                    yield f"{member} committed an offset of partition {at.partition}, which {other.member_id} holds"


def contradictions(
    positions: Sequence[Position], chain: Chain, objects: Mapping[str, Object]
) -> Iterator[str]:
    """What is wrong with a moment: in the log itself, or between the log and what the actors were told."""
    if chain.problems:
        yield from chain.problems
        return
    if gone := sorted(name for name in chain.files if name not in objects):
        yield f"listed and not there: {', '.join(gone)}"
        return
    for position in positions:
        known = chain.judged.get(position)
        if known is None:
            known = chain.judged[position] = tuple(_broken(position, chain))
        yield from known
    if all(one.is_over for one in positions):
        yield from _promises(positions, chain, objects)


def _broken(position: Position, chain: Chain) -> Iterator[str]:
    """Answers to requests that the log does not keep, whatever comes."""
    if position.error is not None:
        yield f"{position.name} failed: {type(position.error).__name__}: {position.error}"
    for key, told in position.told.items():
        if key.startswith(ROWS):
            _, seq, *values = key.split()
            then = chain.at(int(seq))
            found = None if then is None or then.values is None else [*then.values.elements()]
            if found != values:
                yield f"{position.name} read {values} after entry {seq}; there were {found}"
        if key.startswith(_TOPIC) and key.removeprefix(_TOPIC) not in chain.state.topics:
            yield f"{position.name} was told that {key} is there"
        if len(key) != _REQUEST_ID:
            continue
        slots = chain.requests.get(key, ())
        if told == COMMITTED and slots != (position.slots[key],):
            slot = position.slots[key]
            yield f"{position.name} was told that request {key[:6]} is entry {slot}; it is at {slots}"
        if told == REFUSED and slots:
            yield f"{position.name} was told that request {key[:6]} is refused; it is entry {slots}"


_REQUEST_ID = 32
_TOPIC = "topic "
ROWS = "rows "
"""``rows 7 a b``: who read all that was committed after entry 7 got these values."""


def _promises(actors: Sequence[Position], chain: Chain, objects: Mapping[str, Object]) -> Iterator[str]:
    """At the end: every value is in as often as its writer was told."""
    found = chain.committed(objects)
    for actor in actors:
        for name, told in actor.told.items():
            if not name.startswith("value "):
                continue
            times = found[name.removeprefix("value ")]
            wanted = {COMMITTED: (1,), REFUSED: (0,)}.get(told, (0, 1))
            if times not in wanted:
                yield f"{actor.name} was told that {name} is {told}; it is {times} times in the log"


def _expired(state: State) -> State:
    """The state after the timeouts of all open transactions: readers wait for those."""
    expired = [
        a.ExpireTransaction(producer.stamp, producer.timeout_ms)
        for producer in (state.producers[producer_id] for producer_id in state.open_transactions)
    ]
    return apply(state, a.Request(bytes(16), 0, tuple(expired)))[0] if expired else state


def _values(state: State, store: ExploredStore) -> Iterator[str]:
    isolation = Isolation.READ_COMMITTED
    for topic in state.topics.values():
        for number in range(topic.partitions):
            partition = state.partitions[topic.topic_id, number]
            end = end_offset(partition, isolation)
            for fetch in plan(state, TopicPartition(topic.name, number), partition.start, end, isolation):
                for value in read(store, topic, fetch).column("value").to_pylist():
                    yield value.decode()
