"""Producers: ids, epochs, sequence numbers, and the end of transactions (KIP-98, KIP-360, KIP-890).

An id is at one epoch at a time. `InitProducer` takes the next one, and with it every older epoch is fenced: without
that a producer that was replaced (a zombie) would go on writing beside its successor. Epochs are 64 bits wide and never
wrap (KAFKA-19367). A transaction has its own number, which never goes back for a producer id, so that a late end cannot
decide a later transaction (KAFKA-17754).
"""

from __future__ import annotations

from typing import NamedTuple

from immutables import Map

from spark_eos.errors import (
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from spark_eos.protocol.actions.declaration import INT32, Answer, Effects, Fate, Field, declare
from spark_eos.protocol.encoding.avro import BOOLEAN, LONG, STRING, optional_of
from spark_eos.protocol.encoding.values import STAMP
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.takeovers import taken_over
from spark_eos.protocol.state import (
    NO_OPEN,
    CommittedOffset,
    Partition,
    PartitionKey,
    Producer,
    SequenceRange,
    State,
    TransactionState,
)
from spark_eos.protocol.types import BatchRef, ProducerStamp

TRANSACTION_MAX_TIMEOUT_MS = 900_000
"""Longest transaction.timeout.ms (Kafka's transaction.max.timeout.ms)."""

SEQUENCE_WINDOW = 5
"""Batches remembered for each producer and partition (Kafka's NUM_BATCHES_TO_RETAIN)."""

RUNS_REMEMBERED = 100
"""Query runs that are remembered as fenced. An older run is stopped by its batch id, which was committed long ago."""

_SEQUENCES = 2**31

_WIDTH = len(SequenceRange._fields)
_EPOCH, _LAST = (SequenceRange._fields.index(name) - _WIDTH for name in ("epoch", "last"))
"""The places of these numbers in a window, from its end."""


class InitProducer(NamedTuple):
    """A producer, or a new run of one, takes its id at this epoch and fences every older epoch (KIP-98).

    ``run_id`` registers a Spark query run; a run that was registered once and is no longer the current one
    can never come back. With ``keep_prepared`` a prepared transaction stays, for the new epoch to complete (KIP-939).
    """

    producer_id: int
    epoch: int
    transactional_id: str | None
    timeout_ms: int
    run_id: str | None = None
    keep_prepared: bool = False


def init(state: State, action: InitProducer) -> tuple[State, ProducerStamp]:
    """Take a producer id at the next epoch. A transaction that the epoch before left open is aborted.

    Without ``keep_prepared`` that is so for a prepared one as well, as in Kafka.
    """
    if action.transactional_id is not None and not 1 <= action.timeout_ms <= TRANSACTION_MAX_TIMEOUT_MS:
        raise InvalidTransactionTimeoutError(
            f"transaction.timeout.ms is {action.timeout_ms}; it must be from 1 to "
            f"{TRANSACTION_MAX_TIMEOUT_MS}"
        )
    current = None if action.transactional_id is None else state.producer_of(action.transactional_id)
    if current is None:
        if action.producer_id != state.next_producer_id or action.epoch != 0:
            raise InvalidPidMappingError(
                f"transactional.id {action.transactional_id!r} has no producer id {action.producer_id} at "
                f"epoch {action.epoch}; the next new one is {state.next_producer_id} at epoch 0"
            )
        producer = Producer(action.producer_id, 0, action.transactional_id, action.timeout_ms)
        state = replace(state, next_producer_id=state.next_producer_id + 1)
        if action.transactional_id is not None:
            ids = state.transactional_ids.set(action.transactional_id, action.producer_id)
            state = replace(state, transactional_ids=ids)
    else:
        if current.producer_id != action.producer_id:
            raise InvalidPidMappingError(
                f"transactional.id {action.transactional_id!r} has producer id {current.producer_id}, "
                f"not {action.producer_id}"
            )
        if action.epoch != current.epoch + 1:
            raise ProducerFencedError(
                f"transactional.id {action.transactional_id!r} is at epoch {current.epoch}: "
                f"its next epoch is {current.epoch + 1}, not {action.epoch}"
            )
        if action.run_id is not None and action.run_id in current.runs:
            raise ProducerFencedError(
                f"query run {action.run_id} of transactional.id {action.transactional_id!r} was replaced by "
                f"{current.run_id or 'another client'}: a run does not come back. Stop this query; the "
                "newer one goes on"
            )
        keeps_prepared = action.keep_prepared and current.transaction is TransactionState.PREPARED
        if not keeps_prepared:
            refuse_follower(current)
        if current.is_open and not keeps_prepared:
            state = complete(state, current, commit=False)
            current = state.producers[current.producer_id]
        producer = replace(current, epoch=action.epoch, timeout_ms=action.timeout_ms)
    if action.run_id is not None or producer.run_id is not None:
        # A client that is no query run fences the current run as a newer run would.
        producer = replace(producer, runs=(*producer.runs, action.run_id or "")[-RUNS_REMEMBERED:])
    producer = replace(producer, last_ms=state.timestamp_ms)
    return replace(state, producers=state.producers.set(producer.producer_id, producer)), producer.stamp


def _fate_of_init(state: State, action: InitProducer) -> Fate:
    """Another producer may have taken the same epoch meanwhile: only the name of a query run is evidence."""
    producer = state.producers.get(action.producer_id)
    if producer is None:
        return Fate.UNKNOWN
    if producer.epoch < action.epoch:
        return Fate.NOT_APPLIED
    has_run = action.run_id is not None and action.run_id in producer.runs
    return Fate.APPLIED if has_run else Fate.UNKNOWN


declare(
    InitProducer,
    number=4,
    fields=(
        Field("producer_id", LONG),
        Field("epoch", LONG),
        Field("transactional_id", optional_of(STRING)),
        Field("timeout_ms", LONG, bounds=INT32),
        Field("run_id", optional_of(STRING)),
        Field("keep_prepared", BOOLEAN),
    ),
    rule=init,
    fate=_fate_of_init,
    fate_decides=True,
    effects=lambda action: Effects(producer=action.producer_id),
    tell=taken_over,
)


class EndTransaction(NamedTuple):
    """COMMIT or ABORT of exactly the transaction that ``producer`` names.

    Each of the partitions it touched gets a control batch.
    """

    producer: ProducerStamp
    commit: bool


def end_transaction(state: State, action: EndTransaction) -> tuple[State, None]:
    """COMMIT or ABORT. The same decision again is success, the opposite one is refused (KAFKA-19999)."""
    stamp = action.producer
    producer = require_epoch(state, stamp)
    if stamp.number == producer.number and not producer.is_open:
        if producer.transaction is _completed(commit=action.commit):
            return state, None
        raise InvalidTxnStateError(
            f"transaction {stamp.number} of transactional.id {producer.transactional_id!r} is "
            f"{producer.transaction.value}: it cannot {'commit' if action.commit else 'abort'} any more"
        )
    refuse_follower(producer)
    if producer.transaction is not TransactionState.PREPARED or stamp.number != producer.number:
        # A transaction that wrote nothing begins and ends here; it leaves no trace in any partition.
        state, producer = require_transaction(state, stamp)
    return complete(state, producer, commit=action.commit), None


def _fate_of_end(state: State, action: EndTransaction) -> Fate:
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    if producer is None or producer.number > stamp.number:
        return Fate.UNKNOWN
    if producer.number < stamp.number:
        return Fate.NOT_APPLIED
    if producer.epoch != stamp.epoch:
        return Fate.UNKNOWN  # A successor may have used the number for a transaction of its own.
    if producer.is_open:
        return Fate.NOT_APPLIED
    committed = producer.transaction is TransactionState.COMPLETE_COMMIT
    if committed is action.commit:
        # No other client commits it; an abort may come from fencing, with the same result.
        return Fate.APPLIED
    return Fate.NOT_APPLIED


declare(
    EndTransaction,
    number=8,
    fields=(Field("producer", STAMP), Field("commit", BOOLEAN)),
    rule=end_transaction,
    fate=_fate_of_end,
    effects=lambda action: Effects(
        producer=action.producer.producer_id, ended=(action.producer, action.commit)
    ),
    answer=Answer(lambda _: None, lambda _: None),
)


def require_transaction(state: State, stamp: ProducerStamp) -> tuple[State, Producer]:
    """The producer with the transaction ``stamp`` open: it begins here if it is the producer's next one."""
    producer = require_epoch(state, stamp)
    if producer.transactional_id is None:
        raise InvalidTxnStateError(
            f"producer {stamp.producer_id} has no transactional.id and so no transactions"
        )
    ongoing = producer.transaction is TransactionState.ONGOING
    if ongoing and stamp.number == producer.number:
        return state, producer
    if producer.is_open or stamp.number != producer.number + 1:
        only = (
            ", and can only be committed or aborted"
            if producer.transaction is TransactionState.PREPARED
            else ""
        )
        raise InvalidTxnStateError(
            f"transaction {stamp.number} of transactional.id {producer.transactional_id!r} cannot go on: "
            f"transaction {producer.number} is {producer.transaction.value}{only}"
        )
    producer = replace(
        producer,
        number=stamp.number,
        transaction=TransactionState.ONGOING,
        started_ms=state.timestamp_ms,
        started_seq=state.seq + 1,
    )
    return (
        replace(
            state,
            producers=state.producers.set(stamp.producer_id, producer),
            open_transactions=state.open_transactions.set(stamp.producer_id, True),
        ),
        producer,
    )


def refuse_follower(producer: Producer) -> None:
    """Raise if another log decides the open transaction: only `FollowDecision` ends it (docs/design/0014)."""
    if producer.follows is not None:
        raise InvalidTxnStateError(
            f"transaction {producer.number} of transactional.id {producer.transactional_id!r} is prepared and follows "
            f"{producer.follows}: it ends as that one does (eoslog transactions resolve looks there)"
        )


def require_idempotent(state: State, stamp: ProducerStamp) -> Producer:
    """The producer of a batch outside of any transaction."""
    producer = require_epoch(state, stamp)
    if producer.transactional_id is not None:
        raise InvalidTxnStateError(
            f"transactional.id {producer.transactional_id!r} can only append inside a transaction"
        )
    return producer


def find_duplicate(
    producer: Producer, key: PartitionKey, number: int, batch: BatchRef
) -> SequenceRange | None:
    """The batch that this one repeats.

    An aborted or older transaction's batch is never taken for it (Redpanda #5026).
    """
    first = batch.base_sequence
    if first not in producer.sequences.get(key, ()):
        return None
    last = (first + batch.count - 1) % _SEQUENCES
    for old in producer.window(key):
        if (old.epoch, old.number, old.first, old.last) == (producer.epoch, number, first, last):
            return old
    return None


def next_sequence(window: tuple[int, ...], epoch: int) -> int:
    """What follows the last batch of a producer's window: 0 in a new epoch, and after 2147483647."""
    return (window[_LAST] + 1) % _SEQUENCES if window and window[_EPOCH] == epoch else 0


def next_window(
    producer: Producer, topic: str, window: tuple[int, ...], number: int, batch: BatchRef, base_offset: int
) -> tuple[int, ...]:
    """A partition's window (`Producer.sequences`) with this batch at its end, which must follow the last one."""
    first = batch.base_sequence
    expected = next_sequence(window, producer.epoch)
    if first != expected:
        raise OutOfOrderSequenceError(
            f"producer {producer.producer_id} (epoch {producer.epoch}) sent sequence {first} to "
            f"{topic}-{batch.partition}; the next one is {expected}"
        )
    last = (first + batch.count - 1) % _SEQUENCES
    # Plain numbers, which the garbage collector need not look at.
    return (*window, producer.epoch, number, first, last, base_offset)[-SEQUENCE_WINDOW * _WIDTH :]


def require_epoch(state: State, stamp: ProducerStamp) -> Producer:
    """The producer, which must be at the epoch that ``stamp`` names."""
    producer = state.producers.get(stamp.producer_id)
    if producer is None:
        raise InvalidPidMappingError(
            f"the log knows no producer id {stamp.producer_id} (any more): it expires when it is not used for "
            "producer.id.expiration.ms or transactional.id.expiration.ms. Close this producer and make a new one"
        )
    if stamp.epoch < producer.epoch:
        raise ProducerFencedError(
            f"producer {stamp.producer_id} (transactional.id {producer.transactional_id!r}) is at epoch "
            f"{producer.epoch}; epoch {stamp.epoch} was fenced: a newer producer took over, its transaction timed "
            "out, or an administrator aborted it. Close this one"
        )
    if stamp.epoch > producer.epoch:
        raise InvalidRequestError(
            f"producer {stamp.producer_id} is at epoch {producer.epoch}: epoch {stamp.epoch} was never given "
            "out"
        )
    return producer


def _completed(*, commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT


def complete(state: State, producer: Producer, *, commit: bool) -> State:
    """Control batches, pending offsets and the LSO, all at once."""
    kind, stamp, producer_id = Kind.COMMIT if commit else Kind.ABORT, producer.stamp, producer.producer_id
    mark = (producer_id, producer.number)
    only: Map[tuple[int, int], bool] = Map({mark: True})
    with state.partitions.mutate() as partitions:
        # In any order: what one partition becomes has nothing to do with the others.
        for key in producer.touched:
            start, end, index, opened, aborted = partitions[key]
            if not commit and producer_id in opened:
                aborted = aborted.set(mark, True) if aborted else only
            index = index.append(IndexRow(end, 1, kind, stamp, state.timestamp_ms))
            # `NO_OPEN`, which is shared: thousands of empty maps would be objects of their own.
            opened = opened.delete(producer_id) or NO_OPEN
            partitions[key] = Partition(start, end + 1, index, opened, aborted)
        new_partitions = partitions.finish()
    if commit:
        state = with_offsets(state, producer)
    prepared = producer.prepared
    if producer.transaction is TransactionState.PREPARED and prepared is not None:
        prepared = replace(prepared, committed=commit)
    decision = producer.decision
    if decision is not None and decision.committed is None:
        decision = replace(decision, committed=commit)
    producer = replace(
        producer,
        transaction=_completed(commit=commit),
        prepared=prepared,
        decision=decision,
        touched=Map(),
        pending=Map(),
        started_ms=-1,
        started_seq=-1,
        last_ms=state.timestamp_ms,
    )
    return replace(
        state,
        partitions=new_partitions,
        producers=state.producers.set(producer.producer_id, producer),
        open_transactions=state.open_transactions.delete(producer.producer_id),
    )


def with_offsets(state: State, producer: Producer) -> State:
    """The positions that a transaction carries, where no later commit stands, as in Kafka.

    Else a group would go back, and read records again. OffsetMetadataManager.replayEndTransactionMarker: "We always
    keep the most recent committed offset when we have a mix of transactional and regular offset commits",
    ``if (existingOffsetAndMetadata == null || offsetAndMetadata.recordOffset >
    existingOffsetAndMetadata.recordOffset)``.
    """
    offsets = state.offsets
    for (group, topic, number), offset in producer.pending.items():
        of_group = offsets.get(group, _NO_OFFSETS)
        current = of_group.get((topic, number))
        if current is None or current.number < offset.number:
            offsets = offsets.set(group, of_group.set((topic, number), offset))
    return replace(state, offsets=offsets)


_NO_OFFSETS: Map[tuple[str, int], CommittedOffset] = Map()
