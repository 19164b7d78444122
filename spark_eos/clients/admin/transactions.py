"""Transactions, for the admin client: all that ``kafka-transactions.sh`` can do (KIP-664, KIP-939)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from spark_eos.clients.admin.base import WRITER, AdminBase
from spark_eos.errors import InvalidRequestError
from spark_eos.log.data.planner import partition_of
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, InitProducer
from spark_eos.protocol.state import Partition, PartitionKey, SequenceRange, State, TransactionState
from spark_eos.protocol.state import Producer as ProducerState
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["HangingTransaction", "ProducerDescription", "TransactionAdmin", "TransactionDescription"]

_FENCE_TIMEOUT_MS = 60_000

_STATES = frozenset(state.value for state in TransactionState)
# Kafka's other states: here the decision and its markers are one entry, so nothing is ever in them. A script
# that asks Kafka for them may ask us as well, and is told that there are none.
_NEVER = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"})


@dataclass(frozen=True)
class TransactionDescription:
    """The last transaction of a transactional id. ``started_ms`` is -1 unless it is ongoing.

    ``partitions`` are those the open transaction wrote to, ``pending_offsets`` the offsets, by group, that
    wait for its end.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    number: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: list[TopicPartition]
    pending_offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=dict)

    def duration_ms(self, now_ms: int) -> int | None:
        """For how long it has been open at ``now_ms`` (milliseconds since the epoch); None if it is not."""
        return None if self.started_ms < 0 else max(0, now_ms - self.started_ms)


@dataclass(frozen=True)
class ProducerDescription:
    """A producer that wrote to a partition. ``transaction_start`` is the first offset of its open one.

    ``last_timestamp_ms`` is the newest timestamp in the last batch that it wrote here, as in Kafka.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start: int | None


@dataclass(frozen=True)
class HangingTransaction:
    """An open transaction that should have been ended by now.

    ``last_ms`` is the log's time when its producer did anything last, ``start_offsets`` the first offset of
    the transaction in each partition that it holds back.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    number: int
    started_ms: int
    duration_ms: int
    timeout_ms: int
    last_ms: int
    start_offsets: dict[TopicPartition, int]


class TransactionAdmin(AdminBase):
    """The calls about transactions and producers. Each looks at every producer at most once."""

    def list_transactions(
        self,
        states: Iterable[str] | None = None,
        producer_ids: Iterable[int] | None = None,
        duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionDescription]:
        """The last transaction of every transactional id, by id; only those that pass all filters given.

        ``states`` are names of Kafka's (``Empty``, ``Ongoing``, ``CompleteCommit``, ``CompleteAbort``; its
        others never occur here). ``duration_ms`` leaves those that have been open for longer than that, by
        this machine's clock (KIP-994). ``transactional_id_pattern`` is a regular expression that the whole
        id has to match (KIP-1152).

        Raises `InvalidRequestError` for a state that Kafka does not know, a negative duration, or a pattern
        that is no regular expression.
        """
        wanted_states = None if states is None else _check_states(states)
        wanted_ids = None if producer_ids is None else frozenset(producer_ids)
        if duration_ms is not None and duration_ms < 0:
            raise InvalidRequestError(f"duration_ms must be at least 0, not {duration_ms}")
        pattern = None if transactional_id_pattern is None else _compile(transactional_id_pattern)
        log = self._log()
        state = log.follow()
        now_ms = log.clock.now_ms()

        def passes(producer: ProducerState) -> bool:
            return (
                (wanted_states is None or producer.transaction.value in wanted_states)
                and (wanted_ids is None or producer.producer_id in wanted_ids)
                and (duration_ms is None or 0 <= producer.started_ms < now_ms - duration_ms)
                and (pattern is None or pattern.fullmatch(producer.transactional_id or "") is not None)
            )

        names = _names(state)
        found = (state.producers[producer_id] for _, producer_id in sorted(state.transactional_ids.items()))
        return [_transaction(names, producer) for producer in found if passes(producer)]

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """The last transaction of a transactional id. Raises `InvalidRequestError` for an unknown one."""
        state = self._log().follow()
        return _transaction(_names(state), _known(state, transactional_id))

    def describe_producers(self, topic: str, partition: int) -> list[ProducerDescription]:
        """The producers that wrote to a partition with sequence numbers, or have a transaction open there."""
        log = self._log()
        state = log.follow()
        key = (log.topic(topic).topic_id, partition)
        part = partition_of(state, TopicPartition(topic, partition))
        found = []
        for producer_id, producer in sorted(state.producers.items()):
            window = producer.window(key)
            if window or producer_id in part.open:
                found.append(
                    ProducerDescription(
                        producer_id,
                        producer.epoch,
                        window[-1].last if window else -1,
                        _last_timestamp_ms(part, producer, window),
                        part.open.get(producer_id),
                    )
                )
        return found

    def find_hanging_transactions(
        self,
        topic: str | None = None,
        partition: int | None = None,
        max_transaction_timeout_ms: int = 900_000,
    ) -> list[HangingTransaction]:
        """Open transactions older than their own timeout and than ``max_transaction_timeout_ms`` (KIP-664).

        They have not expired: no long-lived client follows the log. `abort_transaction` ends one. ``topic``
        and ``partition`` leave those that hold back readers there. The default is Kafka's 15 minutes, the
        longest timeout a transaction can have. Age is judged by this machine's clock. Longest open first.

        Raises `UnknownTopicOrPartitionError`, and `InvalidRequestError` for a partition without its topic.
        """
        if partition is not None and topic is None:
            raise InvalidRequestError(f"partition {partition} of which topic? Name the topic as well")
        log = self._log()
        state = log.follow()
        topic_id = None if topic is None else log.topic(topic).topic_id
        if topic is not None and partition is not None:
            partition_of(state, TopicPartition(topic, partition))
        names, now_ms = _names(state), log.clock.now_ms()
        found = []
        for producer_id in state.open_transactions:
            producer = state.producers[producer_id]
            age_ms = now_ms - producer.started_ms
            if age_ms <= max(producer.timeout_ms, max_transaction_timeout_ms):
                continue
            keys = [
                key for key in producer.touched if topic_id in {None, key[0]} and partition in {None, key[1]}
            ]
            if keys or topic is None:
                found.append(_hanging(state, names, producer, keys, age_ms))
        return sorted(found, key=lambda hanging: (-hanging.duration_ms, hanging.producer_id))

    def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        """Fence the producers with these ids, all of them or none; their open transactions are aborted."""
        if not (ids := list(dict.fromkeys(transactional_ids))):
            return

        def propose(state: State) -> tuple[Action, ...]:
            actions = []
            unused = state.next_producer_id
            for transactional_id in ids:
                producer = state.producer_of(transactional_id)
                if producer is None:
                    actions.append(InitProducer(unused, 0, transactional_id, _FENCE_TIMEOUT_MS))
                    unused += 1
                else:
                    actions.append(_fence(producer))
            return tuple(actions)

        self._log().commit(propose, writer=WRITER)

    def abort_transaction(self, transactional_id: str) -> TransactionDescription:
        """End an open transaction: its producer is fenced first, so that it cannot go on by mistake.

        Gives what the id's last transaction is afterwards. It may have ended by itself in the meantime; a
        later one is never touched. Raises `InvalidRequestError` if none is open.
        """
        log = self._log()
        producer = _known(log.follow(), transactional_id)
        if producer.transaction is not TransactionState.ONGOING:
            raise InvalidRequestError(
                f"transactional.id {transactional_id!r} has no open transaction: the last one is "
                f"{producer.transaction.value}"
            )
        return _abort(log, producer)

    def abort_transaction_at(
        self,
        at: TopicPartition,
        start_offset: int | None = None,
        *,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
    ) -> TransactionDescription:
        """End an open transaction that holds back readers of a partition (KIP-664), as `abort_transaction` does.

        It is named by its first offset there, or by producer id and epoch: what `describe_producers` and
        `find_hanging_transactions` show. Raises `InvalidRequestError`, and changes nothing, if no open
        transaction is that one.
        """
        at = TopicPartition(*at)
        if (start_offset is None, producer_id is None, producer_epoch is None) not in {
            (False, True, True),
            (True, False, False),
        }:
            raise InvalidRequestError(
                f"name the transaction to abort in {at} by its start_offset, or by producer_id and producer_epoch"
            )
        log = self._log()
        state = log.follow()
        opened = partition_of(state, at).open
        for holder, first in opened.items():
            producer = state.producers[holder]
            if first == start_offset or (holder, producer.epoch) == (producer_id, producer_epoch):
                return _abort(log, producer)
        named = (
            f"at offset {start_offset}"
            if start_offset is not None
            else f"of producer {producer_id} at epoch {producer_epoch}"
        )
        there = ", ".join(
            f"offset {first} (producer {holder} at epoch {state.producers[holder].epoch})"
            for holder, first in sorted(opened.items(), key=lambda item: item[1])
        )
        raise InvalidRequestError(
            f"no open transaction {named} in {at}; open there: {there or 'none'}. Nothing was changed"
        )

    def force_terminate_transaction(self, transactional_id: str) -> TransactionDescription:
        """Fence the producer of an id and abort what it has open, if anything (KIP-939).

        Raises `InvalidRequestError` for an id that the log does not know.
        """
        log = self._log()
        _known(log.follow(), transactional_id)
        state = log.commit(lambda state: (_fence(_known(state, transactional_id)),), writer=WRITER).state
        return _transaction(_names(state), _known(state, transactional_id))


def _known(state: State, transactional_id: str) -> ProducerState:
    producer = state.producer_of(transactional_id)
    if producer is None:
        raise InvalidRequestError(
            f"the log knows no transactional.id {transactional_id!r}; list_transactions names those it knows"
        )
    return producer


def _fence(producer: ProducerState) -> InitProducer:
    return InitProducer(
        producer.producer_id, producer.epoch + 1, producer.transactional_id, producer.timeout_ms
    )


def _abort(log: Log, seen: ProducerState) -> TransactionDescription:
    """Abort the very transaction that was seen, unless it has ended since."""

    def propose(state: State) -> tuple[Action, ...]:
        producer = state.producers.get(seen.producer_id)
        if (
            producer is None
            or producer.transaction is not TransactionState.ONGOING
            or producer.number != seen.number
        ):
            return ()
        return (_fence(producer),)

    state = log.commit(propose, writer=WRITER).state
    return _transaction(_names(state), state.producers.get(seen.producer_id, seen))


def _names(state: State) -> dict[str, str]:
    """Topic names by topic id: made once for a whole listing."""
    return {topic.topic_id: name for name, topic in state.topics.items()}


def _transaction(names: dict[str, str], producer: ProducerState) -> TransactionDescription:
    pending: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for (group, topic, number), offset in sorted(producer.pending.items(), key=lambda item: item[0]):
        pending.setdefault(group, {})[TopicPartition(topic, number)] = offset.public
    return TransactionDescription(
        producer.transactional_id or "",
        producer.producer_id,
        producer.epoch,
        producer.number,
        producer.transaction.value,
        producer.timeout_ms,
        producer.started_ms,
        sorted(TopicPartition(names[topic_id], number) for topic_id, number in producer.touched),
        pending,
    )


def _hanging(
    state: State, names: dict[str, str], producer: ProducerState, keys: list[PartitionKey], age_ms: int
) -> HangingTransaction:
    starts = {
        TopicPartition(names[key[0]], key[1]): state.partitions[key].open[producer.producer_id]
        for key in keys
    }
    return HangingTransaction(
        producer.transactional_id or "",
        producer.producer_id,
        producer.epoch,
        producer.number,
        producer.started_ms,
        age_ms,
        producer.timeout_ms,
        producer.last_ms,
        dict(sorted(starts.items())),
    )


def _last_timestamp_ms(
    partition: Partition, producer: ProducerState, window: tuple[SequenceRange, ...]
) -> int:
    """The time in the producer's last batch; if that is not there any more, when it did anything last."""
    if window:
        tail = partition.index.tail
        at = tail.find(window[-1].base_offset)
        if at < len(tail) and tail[at].base_offset == window[-1].base_offset:
            return tail[at].max_timestamp_ms
    return producer.last_ms


def _check_states(states: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(states)
    if unknown := sorted(wanted - _STATES - _NEVER):
        raise InvalidRequestError(
            f"{', '.join(map(repr, unknown))}: no such transaction state; there are {', '.join(sorted(_STATES))}"
        )
    return wanted


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRequestError(
            f"transactional_id_pattern {pattern!r} is not a regular expression: {error}"
        ) from None
