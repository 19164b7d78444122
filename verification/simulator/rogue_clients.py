"""Those who keep no rules: they build their requests themselves, late, twice, from old states, or wrong.

The product's own clients look before they ask, so that many rules of the log are a second guard behind
theirs. Another client need not look. None of what these do is expected to be refused here: the log checker reads
afterwards what the log has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from spark_eos.errors import EosLogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.rules.apply import Rejected, apply, judged_by
from spark_eos.protocol.state import Member, Producer, State
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp
from verification.requests import RandomRequests
from verification.simulator.context import COPIERS, INPUT, RAW, GivenUp, Stage
from verification.simulator.world import Process

__all__ = ["Actions", "impersonator", "play", "rogue_producer"]

Actions = tuple[a.Action, ...]

_HELD = 12
"""Requests that a rogue producer keeps to send again."""


def rogue_producer(stage: Stage, name: str) -> Callable[[Process], None]:
    """One of several that share a transactional id, each with its own view of the log."""

    def body(process: Process) -> None:
        try:
            rogue_producer = _RogueProducer(stage, process, name)
            play(stage, process, rogue_producer.verbs())
        except GivenUp:
            return

    return body


def impersonator(stage: Stage) -> Callable[[Process], None]:
    """Speaks for others only: members of groups, and producers with an open transaction."""

    def body(process: Process) -> None:
        try:
            rogue_producer = _RogueProducer(stage, process, "impersonator")
            play(
                stage,
                process,
                [
                    *[rogue_producer.impersonate] * 4,
                    rogue_producer.hurry,
                    rogue_producer.echo,
                    rogue_producer.forget,
                ],
            )
        except GivenUp:
            return

    return body


def play(stage: Stage, process: Process, verbs: Sequence[Callable[[], None]]) -> None:
    """One of the verbs after the other, for as long as the world goes on; what is refused is noted."""
    while stage.goes_on:
        process.wait(stage.chance.choice([0.01, 0.2, 2.0, 20.0]))
        try:
            stage.chance.choice(verbs)()
        except EosLogError as error:
            stage.world.note(f"was refused: {type(error).__name__}: {error}")


class _RogueProducer:
    def __init__(self, stage: Stage, process: Process, name: str) -> None:
        self.stage, self.process, self.name = stage, process, name
        self.chance = stage.chance
        self.log = stage.open(process)
        self.held: list[Actions] = []
        self.epoch: int | None = None
        """The epoch that it once took, and keeps, even if another producer has taken the id since."""

    def verbs(self) -> list[Callable[[], None]]:
        """What it does, as often as it stands here."""
        often = [self.transact, self.transact, self.transact, self.again, self.again, self.take]
        often += [self.relapse, self.relapse, self.recant, self.overlap, self.overlap, self.forget]
        return [
            *often,
            self.scribble,
            self.echo,
            self.echo,
            self.half,
            self.hurry,
            self.other_timeout,
            self.impersonate,
            self.look,
        ]

    # -- Its own transactions -------------------------------------------------------------------------

    def look(self) -> None:
        self.log.follow()

    def take(self) -> None:
        """The next epoch of its id, as far as it knows."""
        known = self.log.state.producer_of(self.name)
        timeout_ms = self.chance.choice([500, 5000, 60_000])
        if known is None:
            action = a.InitProducer(self.log.state.next_producer_id, 0, self.name, timeout_ms)
        else:
            action = a.InitProducer(known.producer_id, known.epoch + 1, self.name, timeout_ms)
        self._send((action,))
        self.epoch = action.epoch

    def transact(self) -> None:
        """Some part of a transaction: the next, this one, one too early or too late."""
        known = self._own()
        if known is None:
            self.take()
            return
        number = known.number + self.chance.choice([0, 0, 1, 1, 1, -1, 2])
        epoch = known.epoch if self.epoch is None or self.chance.random() < 0.5 else self.epoch
        stamp = ProducerStamp(known.producer_id, epoch, number)
        parts: list[a.Action] = []
        if self.chance.random() < 0.6:
            parts.append(self._append(known, stamp))
        if self.chance.random() < 0.3:
            parts.append(self._offsets(stamp))
        if not parts or self.chance.random() < 0.5:
            parts.append(a.EndTransaction(stamp, commit=self.chance.random() < 0.5))
        if self.chance.random() < 0.2:
            self._hold(tuple(parts))
        else:
            self._send(tuple(parts))

    def again(self) -> None:
        """A request from before, as it was, or as if it belonged to another transaction or epoch."""
        if not self.held:
            return
        actions, known = self.chance.choice(self.held), self._own()
        how = self.chance.choice(["same", "next", "opposite", "epoch", "end", "bare"])
        if how == "bare":
            actions = tuple(one for one in actions if isinstance(one, a.EndTransaction)) or actions
        elif how == "end":
            actions = (*actions[:1], a.EndTransaction(_stamp(actions[0]) or NO_PRODUCER, commit=True))
        elif how == "opposite":
            actions = tuple(
                one._replace(commit=not one.commit) if isinstance(one, a.EndTransaction) else one
                for one in actions
            )
        elif known is not None:
            if how == "next":
                actions = tuple(_as_of(one, known.epoch, known.number + 1) for one in actions)
            elif how == "epoch":
                actions = tuple(_as_of(one, known.epoch, None) for one in actions)
        self._send(actions)

    def relapse(self) -> None:
        """Rows of a transaction that is over, with their old sequence numbers, in the next one."""
        known = self._own()
        if known is None:
            return
        rows = [
            one
            for actions in self.held
            for one in actions[:1]
            if isinstance(one, a.AppendBatches) and one.producer.epoch == known.epoch
        ]
        if rows:
            self._offer(lambda _state: (_as_of(rows[-1], known.epoch, known.number + 1),))

    def recant(self) -> None:
        """The newest transaction is decided once more, this way or the other."""
        if (known := self._own()) is not None and known.number >= 0:
            end = a.EndTransaction(known.stamp, commit=self.chance.random() < 0.5)
            self._offer(lambda _state: (end,))

    def overlap(self) -> None:
        """The next transaction begins, whether the last one has ended or not."""
        if (known := self._own()) is not None:
            offsets = self._offsets(known.stamp._replace(number=known.number + 1))
            self._offer(lambda _state: (offsets,))

    def half(self) -> None:
        """A request that begins well and ends badly."""
        known = self._own()
        if known is None:
            return
        begin: a.Action = a.InitProducer(known.producer_id, known.epoch + 1, self.name, 5000)
        stamp = ProducerStamp(known.producer_id, known.epoch + 1, known.number + 3)
        if self.chance.random() < 0.5:
            topic = self.log.state.topics[INPUT]
            begin = a.CommitOffsets(self.name, (a.PartitionOffset(INPUT, topic.topic_id, 0, 7),))
        self._put([(begin, a.EndTransaction(stamp, commit=True))])

    def _offsets(self, stamp: ProducerStamp) -> a.CommitOffsets:
        at, topic = self.stage.partition(INPUT), self.log.state.topics[INPUT]
        offset = a.PartitionOffset(INPUT, topic.topic_id, at.partition, self.chance.randrange(50))
        return a.CommitOffsets(self.name, (offset,), stamp)

    def _append(self, known: Producer, stamp: ProducerStamp) -> a.AppendBatches:
        topic = self.log.topic(RAW)
        partition = self.chance.randrange(topic.partitions)
        with self.log.stage(topic) as writer:
            values = [self.stage.value(self.process).encode() for _ in range(self.chance.randint(1, 3))]
            nothing = [None] * len(values)
            rows = {
                "key": pa.array(nothing, pa.binary()),
                "value": pa.array(values, pa.binary()),
                "timestamp": pa.array(nothing, pa.timestamp("ms", "UTC")),
            }
            writer.append(pa.record_batch(rows), partition)
            files = writer.finish()
        window = known.window((topic.topic_id, partition))
        first = window[-1].last + 1 if window and window[-1].epoch == stamp.epoch else 0
        first = self.chance.choice([first, first, first, 0])
        numbered = tuple(
            staged._replace(batches=tuple(one._replace(base_sequence=first) for one in staged.batches))
            for staged in files
        )
        return a.AppendBatches(stamp, ((RAW, topic.topic_id),), numbered)

    # -- Others' ---------------------------------------------------------------------------------------

    def echo(self) -> None:
        """An earlier request of any process, once more, as a new request."""
        log = self.log
        if log.state.seq < 1:
            return
        seq = self.chance.randint(1, log.state.seq)
        name = paths.entry(seq, log.state.entries_per_folder)
        try:
            data = log.store.read(name)
        except ObjectNotFoundError:
            return
        if not data.size:
            return  # It was retired.
        entry = decode_entry(data, seq, name)
        actions = self.chance.choice(entry.requests).actions
        self._offer(lambda state: actions if all(_may_come_again(state, one) for one in actions) else ())

    def hurry(self) -> None:
        """Claims that an open transaction of another producer is past its timeout. It is not."""

        def propose(state: State) -> Actions:
            opened = [state.producers[one] for one in sorted(state.open_transactions)]
            return tuple(a.ExpireTransaction(one.stamp, one.timeout_ms - 1) for one in opened[:1])

        self._offer(propose)

    def other_timeout(self) -> None:
        """The time of an older transaction, for the one that is open now."""

        def propose(state: State) -> Actions:
            opened = [state.producers[one] for one in sorted(state.open_transactions)]
            return tuple(
                a.ExpireTransaction(one.stamp._replace(number=one.number - 1), 10**6)
                for one in opened[:1]
                if one.number > 0
            )

        self._offer(propose)

    def forget(self) -> None:
        """Something is said to be old that may be quite new."""
        ids, names_ = sorted(self.log.state.producers), sorted(self.log.state.transactional_ids)
        if ids and self.chance.random() < 0.5:
            old: a.Action = a.ExpireProducers((self.chance.choice(ids),))
        elif names_:
            old = a.ExpireTransactionalIds((self.chance.choice(names_),))
        else:
            return
        self._offer(lambda _state: (old,))

    def impersonate(self) -> None:
        """Offsets in the name of a group: by a stranger, of an old generation, for what others read."""
        how = self.chance.choice(
            ["stranger", "old", "foreign", "foreign", "early", "old sync", "early leave"]
        )
        self._offer(lambda state: _impersonateed(state, how))

    def scribble(self) -> None:
        """Requests of random structure that no state, or not this one, allows: every reader must refuse them."""
        state, clock = self.log.follow(), self.log.clock
        draw = RandomRequests(self.chance, wild=0.7)
        drawn = [draw.actions(state) for _ in range(3)]
        requests = (
            a.Request(clock.unique(), clock.now_ms(), actions, self.process.name) for actions in drawn
        )
        refused = [one for one in requests if isinstance(apply(judged_by(state), one)[1], Rejected)]
        entry = a.Entry(state.seq + 1, tuple(refused), state.lineage)
        data = encode_entry(entry)
        self.log.store.create(paths.entry(entry.seq, state.entries_per_folder), data)

    # -- Sending --------------------------------------------------------------------------------------

    def _own(self) -> Producer | None:
        if self.chance.random() < 0.7:
            self.log.follow()
        return self.log.state.producer_of(self.name)

    def _hold(self, actions: Actions) -> None:
        self.held = [*self.held, actions][-_HELD:]

    def _send(self, actions: Actions) -> None:
        self._hold(actions)
        if self.chance.random() < 0.3:
            more = [self.chance.choice(self.held)] if self.chance.random() < 0.4 else []
            self._put([actions, *more])
        else:
            self._offer(lambda _state: actions)

    def _offer(self, propose: Callable[[State], Actions]) -> None:
        self.log.commit(propose, writer=self.process.name)

    def _put(self, requests: Sequence[Actions]) -> None:
        """An entry made by hand: its requests are not checked before, so some are rejected."""
        state, clock = self.log.follow(), self.log.clock
        entry = a.Entry(
            state.seq + 1,
            tuple(
                a.Request(clock.unique(), clock.now_ms(), actions, self.process.name) for actions in requests
            ),
        )
        self.log.store.create(paths.entry(entry.seq, self.log.state.entries_per_folder), encode_entry(entry))


def _stamp(action: a.Action) -> ProducerStamp | None:
    if isinstance(action, a.AppendBatches | a.CommitOffsets | a.EndTransaction | a.ExpireTransaction):
        return action.producer
    return None


def _as_of(action: a.Action, epoch: int, number: int | None) -> a.Action:
    """The same action by another epoch, or in another transaction."""
    stamp = _stamp(action)
    if stamp is None or not isinstance(action, a.AppendBatches | a.CommitOffsets | a.EndTransaction):
        return action
    return action._replace(
        producer=stamp._replace(epoch=epoch, number=stamp.number if number is None else number)
    )


def _may_come_again(state: State, action: a.Action) -> bool:
    """Whether no honest client is harmed if the log takes this once more, where it may.

    Rows without a producer cannot be recognised, and offsets may go back as long as it is
    allowed to commit them at all: the copiers' own are only sent again when their transaction is over.
    """
    if isinstance(action, a.AppendBatches):
        return action.producer != NO_PRODUCER
    if isinstance(action, a.CommitOffsets):
        if action.producer is None:
            return action.group != COPIERS
        known = state.producers.get(action.producer.producer_id)
        return known is None or known.stamp != action.producer or known.started_ms < 0
    return isinstance(
        action,
        a.InitProducer
        | a.EndTransaction
        | a.ExpireTransaction
        | a.ExpireProducers
        | a.ExpireTransactionalIds
        | a.CommitMicroBatch
        | a.LeaveGroup
        | a.SyncGroup,
    )


def _impersonateed(state: State, how: str) -> Actions:
    """What must be refused in this very state; nothing if the state has no client to be harmed."""
    groups = [(name, group) for name, group in sorted(state.groups.items()) if group.members]
    if how == "foreign":
        groups = [(name, group) for name, group in groups if len(group.members) > 1]
    for name, group in groups:
        members = [group.members[one] for one in sorted(group.members)]
        for member in members:
            key = member.held[0] if member.held else None
            if how == "early leave":
                return (a.LeaveGroup(name, (member.member_id,), member.session_timeout_ms - 1),)
            if how == "old sync" and group.generation > 0:
                return (a.SyncGroup(name, member.member_id, group.generation - 1),)
            if key is None:
                continue
            offset = _nowhere(state, key)
            if how == "stranger":
                return (a.CommitOffsets(name, (offset,)),)
            if how in {"old", "early"}:
                generation = member.generation + (1 if how == "early" else -1)
                return (a.CommitOffsets(name, (offset,), None, _membership(member, generation)),)
            others = [other for other in members if other is not member]
            if how == "foreign" and others:
                return (a.CommitOffsets(name, (offset,), None, _membership(others[0], others[0].generation)),)
    return ()


def _nowhere(state: State, key: tuple[str, int]) -> a.PartitionOffset:
    topic = next(name for name, topic in state.topics.items() if topic.topic_id == key[0])
    return a.PartitionOffset(topic, key[0], key[1], 1)


def _membership(member: Member, generation: int) -> a.Membership:
    return a.Membership(member.member_id, generation, member.instance_id)
