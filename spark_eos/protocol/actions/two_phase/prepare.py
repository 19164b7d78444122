"""Prepared transactions: the first phase of a commit that another system decides (KIP-939, docs/design/0011).

A prepared transaction takes no more records and has no timeout. `EndTransaction` ends it, and so does `InitProducer`
unless it says ``keep_prepared``. The epoch rises when a transaction is prepared. So its token, producer id and epoch,
is never that of another transaction of the producer; and a request that was under way since before is fenced, and
cannot add to what the other system has been told of.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.errors import InvalidRequestError, InvalidTxnStateError
from spark_eos.protocol.actions.declaration import Effects, Fate, Field, declare
from spark_eos.protocol.actions.producers import require_transaction
from spark_eos.protocol.encoding.avro import optional_of
from spark_eos.protocol.encoding.values import DECIDER, STAMP
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import PreparedTransaction, State, TransactionState
from spark_eos.protocol.types import Decider, ProducerStamp


class PrepareTransaction(NamedTuple):
    """The transaction that ``producer`` names is complete, and waits for COMMIT or ABORT. The epoch rises by one.

    With ``decider`` it follows a transaction of another log (docs/design/0014).
    """

    producer: ProducerStamp
    decider: Decider | None = None


def prepare(state: State, action: PrepareTransaction) -> tuple[State, ProducerStamp]:
    """Prepare the open transaction. One that wrote nothing begins here; its token counts all the same."""
    state, producer = require_transaction(state, action.producer)
    if producer.decision is not None and producer.decision.committed is None:
        raise InvalidTxnStateError(
            f"transaction {producer.number} of transactional.id {producer.transactional_id!r} decides for other logs: "
            "it cannot wait for a decision itself"
        )
    if action.decider is not None and action.decider.log_id == state.log_id:
        raise InvalidRequestError(
            f"log {state.log_id} cannot follow a transaction of its own: {action.decider}"
        )
    epoch = producer.epoch + 1
    producer = replace(
        producer,
        epoch=epoch,
        transaction=TransactionState.PREPARED,
        prepared=PreparedTransaction(epoch, None, action.decider),
        last_ms=state.timestamp_ms,
    )
    return replace(state, producers=state.producers.set(producer.producer_id, producer)), producer.stamp


def _fate(state: State, action: PrepareTransaction) -> Fate:
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    if producer is None:
        return Fate.UNKNOWN
    prepared = -1 if producer.prepared is None else producer.prepared.epoch
    if prepared == stamp.epoch + 1:
        return Fate.APPLIED  # Only the producer at the epoch before prepares at this one.
    return Fate.UNKNOWN if prepared > stamp.epoch + 1 else Fate.NOT_APPLIED


declare(
    PrepareTransaction,
    number=29,
    fields=(Field("producer", STAMP), Field("decider", optional_of(DECIDER))),
    rule=prepare,
    fate=_fate,
    fate_decides=True,
    effects=lambda action: Effects(producer=action.producer.producer_id),
)
