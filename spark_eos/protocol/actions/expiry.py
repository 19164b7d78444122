"""Expiry: transactions that are open for too long, and what was not used for a long time.

Any process may say that something is over, and each rule checks what it says. The time of a transaction is measured by
a process that watched it, on its own monotonic clock, so that no clock that jumps can abort one. Ids and offsets expire
by the log's time. Without expiry, one producer that died would hold up all readers of its partitions for ever, and the
state would only grow. Nothing that is forgotten here is needed to refuse a late writer: a producer id is never given
out twice, and one that is unknown is refused (KAFKA-9144, KIP-854).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from immutables import Map

from spark_eos.errors import InvalidRequestError, InvalidTxnStateError
from spark_eos.errors.counting import counted
from spark_eos.protocol.actions import groups
from spark_eos.protocol.actions.declaration import INT32, Clock, Effects, Field, declare
from spark_eos.protocol.actions.producers import complete, require_epoch
from spark_eos.protocol.encoding.avro import LONG, STRING, array_of
from spark_eos.protocol.encoding.values import NUMBERED_TOPICS, STAMP
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.rules.takeovers import timed_out
from spark_eos.protocol.state import CommittedOffset, Group, Producer, State, TransactionState
from spark_eos.protocol.types import ProducerStamp, TrailNote

_MINUTE_MS = 60_000
_NO_OFFSETS: Map[tuple[str, int], CommittedOffset] = Map()


class ExpireTransaction(NamedTuple):
    """The open transaction that ``producer`` names is aborted, after its producer was fenced (KAFKA-6119).

    ``waited_ms`` is for how long the process that says so has seen it open, by its own monotonic clock.
    """

    producer: ProducerStamp
    waited_ms: int


def is_open(state: State, action: ExpireTransaction) -> bool:
    """Whether the transaction that ``action`` names is still open. A prepared one has no timeout (KIP-939)."""
    producer = state.producers.get(action.producer.producer_id)
    return (
        producer is not None
        and producer.stamp == action.producer
        and producer.transaction is TransactionState.ONGOING
    )


def expire_transaction(state: State, action: ExpireTransaction) -> tuple[State, None]:
    """Fence the producer, then abort. Unfenced, it would go on writing into a transaction that is over (KAFKA-6119)."""
    producer = require_epoch(state, action.producer)
    if not is_open(state, action):
        raise InvalidTxnStateError(
            f"transaction {action.producer.number} of transactional.id {producer.transactional_id!r} is not open: "
            f"transaction {producer.number} is {producer.transaction.value}"
        )
    if action.waited_ms < producer.timeout_ms:
        raise InvalidRequestError(
            f"transaction {producer.number} of transactional.id {producer.transactional_id!r} was watched for "
            f"{action.waited_ms} ms: it only expires after its transaction.timeout.ms of {producer.timeout_ms}"
        )
    return complete(state, replace(producer, epoch=producer.epoch + 1), commit=False), None


declare(
    ExpireTransaction,
    number=15,
    fields=(Field("producer", STAMP), Field("waited_ms", LONG)),
    rule=expire_transaction,
    tell=lambda before, _after, action, _writer: timed_out(before, action.producer),
    effects=lambda action: Effects(producer=action.producer.producer_id),
)


class ExpireProducers(NamedTuple):
    """Sequence numbers of producers that wrote nothing for ``producer.id.expiration.ms`` are forgotten."""

    producers: tuple[int, ...]


def expire_producers(state: State, action: ExpireProducers) -> tuple[State, None]:
    """Forget sequence numbers. A producer without transactional.id is forgotten as a whole."""
    producers = state.producers
    for producer_id in action.producers:
        producer = producers.get(producer_id)
        if producer is None:
            continue
        _require_idle(state, producer, "producer.id.expiration.ms")
        if producer.transactional_id is None:
            producers = producers.delete(producer_id)
        else:
            producers = producers.set(producer_id, replace(producer, sequences=Map()))
    return replace(state, producers=producers), None


declare(
    ExpireProducers,
    number=16,
    fields=(Field("producers", array_of(LONG)),),
    rule=expire_producers,
    clock=Clock.IDLE,
)


class ExpireTransactionalIds(NamedTuple):
    """Ids that were not used for ``transactional.id.expiration.ms`` are forgotten."""

    transactional_ids: tuple[str, ...]


def expire_transactional_ids(state: State, action: ExpireTransactionalIds) -> tuple[State, None]:
    """Forget ids that were not used; never those of Spark queries, which say where a query stands."""
    producers, ids = state.producers, state.transactional_ids
    for name in action.transactional_ids:
        if name not in ids:
            continue
        producer = producers[ids[name]]
        _require_idle(state, producer, "transactional.id.expiration.ms")
        if producer.is_awaited:
            raise InvalidRequestError(
                f"other logs follow what transactional.id {name!r} decided: it does not expire"
            )
        if name in state.queries:
            raise InvalidRequestError(f"transactional.id {name!r} holds the progress of a Spark query")
        producers, ids = producers.delete(producer.producer_id), ids.delete(name)
    return replace(state, producers=producers, transactional_ids=ids), None


declare(
    ExpireTransactionalIds,
    number=17,
    fields=(Field("transactional_ids", array_of(STRING)),),
    rule=expire_transactional_ids,
    clock=Clock.IDLE,
    tell=lambda before, after, action, _writer: [
        TrailNote("transactional.id expired", name)
        for name in dict.fromkeys(action.transactional_ids)
        if name in before.transactional_ids and name not in after.transactional_ids
    ],
)


class ExpireOffsets(NamedTuple):
    """Offsets (topic, number) of a group without members, older than ``offsets.retention.minutes``, go."""

    group: str
    partitions: tuple[tuple[str, int], ...]


def expire_offsets(state: State, action: ExpireOffsets) -> tuple[State, None]:
    """Forget old offsets of a group without readers; with the last of them, the group."""
    group = state.groups.get(action.group, Group())
    offsets = state.offsets.get(action.group, _NO_OFFSETS)
    if group.members or action.group in _kept_groups(state):
        raise InvalidRequestError(
            f"offsets of group {action.group!r} do not expire: it has members, an open transaction carries "
            "offsets of it, or a Spark query reads for it"
        )
    for at in action.partitions:
        committed = offsets.get(at)
        if committed is None:
            continue
        if not _is_old(state, group, committed, state.timestamp_ms):
            raise InvalidRequestError(
                f"the offset of group {action.group!r} for {at[0]}-{at[1]} is not as old as "
                f"offsets.retention.minutes, {setting(state, 'offsets.retention.minutes')}"
            )
        offsets = offsets.delete(at)
    if offsets or not _is_long_empty(state, group, state.timestamp_ms):
        return replace(state, offsets=state.offsets.set(action.group, offsets)), None
    return groups.forgotten(state, action.group), None


def _tell_offsets(before: State, after: State, action: ExpireOffsets, _writer: str) -> Iterator[TrailNote]:
    gone = groups.offsets_gone(before, after, action.group)
    if groups.is_gone(before, after, action.group):
        yield TrailNote("group expired", action.group, f"offsets of {counted(len(gone), 'partition')}")
    elif gone:
        yield TrailNote("offsets of a group expired", action.group, ", ".join(gone))


declare(
    ExpireOffsets,
    number=18,
    fields=(Field("group", STRING), Field("partitions", NUMBERED_TOPICS, bounds=INT32)),
    rule=expire_offsets,
    clock=Clock.IDLE,
    tell=_tell_offsets,
)


def due(state: State, now_ms: int) -> Iterator[ExpireProducers | ExpireTransactionalIds | ExpireOffsets]:
    """What may be forgotten at ``now_ms``, by the clock of the caller."""
    producers: list[int] = []
    transactional_ids: list[str] = []
    for producer_id, producer in sorted(state.producers.items()):
        if producer.is_open:
            continue
        idle_ms, name = now_ms - producer.last_ms, producer.transactional_id
        if (
            name is not None
            and name not in state.queries
            and not producer.is_awaited
            and idle_ms >= setting(state, "transactional.id.expiration.ms")
        ):
            transactional_ids.append(name)
        elif idle_ms >= setting(state, "producer.id.expiration.ms") and (name is None or producer.sequences):
            producers.append(producer_id)
    if producers:
        yield ExpireProducers(tuple(producers))
    if transactional_ids:
        yield ExpireTransactionalIds(tuple(sorted(transactional_ids)))
    kept = _kept_groups(state)
    for name in sorted({*state.offsets, *state.groups} - kept):
        group, offsets = state.groups.get(name, Group()), state.offsets.get(name, _NO_OFFSETS)
        if group.members:
            continue
        old = tuple(
            sorted(at for at, committed in offsets.items() if _is_old(state, group, committed, now_ms))
        )
        if old or (not offsets and _is_long_empty(state, group, now_ms)):
            yield ExpireOffsets(name, old)


def _require_idle(state: State, producer: Producer, name: str) -> None:
    if producer.is_open:
        raise InvalidRequestError(
            f"producer {producer.producer_id} has a transaction open: it does not expire"
        )
    idle_ms = state.timestamp_ms - producer.last_ms
    if idle_ms < setting(state, name):
        raise InvalidRequestError(
            f"producer {producer.producer_id} was idle for {idle_ms} ms: {name} is {setting(state, name)}"
        )


def _is_old(state: State, group: Group, committed: CommittedOffset, now_ms: int) -> bool:
    """As in Kafka (KIP-211): the time begins when the group became empty, or with a later commit."""
    since_ms = max(committed.timestamp_ms, group.empty_since_ms)
    return now_ms - since_ms >= setting(state, "offsets.retention.minutes") * _MINUTE_MS


def _is_long_empty(state: State, group: Group, now_ms: int) -> bool:
    return now_ms - group.empty_since_ms >= setting(state, "offsets.retention.minutes") * _MINUTE_MS


def _kept_groups(state: State) -> set[str]:
    """Groups whose offsets are in use: Spark queries, and open transactions that carry some."""
    reading = {
        source.group
        for query in state.queries.values()
        for source in query.sources
        if source.group is not None
    }
    return reading.union(
        group
        for producer_id in state.open_transactions
        for group, _, _ in state.producers[producer_id].pending
    )
