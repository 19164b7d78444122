"""Fencing and aborting, for the admin client: what ``kafka-transactions.sh`` changes (KIP-664, KIP-939)."""

from __future__ import annotations

from collections.abc import Iterable

from spark_eos.clients.admin.base import WRITER, AdminBase
from spark_eos.clients.admin.descriptions import TransactionDescription
from spark_eos.clients.admin.transactions import known_producer, topic_names, transaction_description
from spark_eos.clients.validation import as_names, as_partition
from spark_eos.errors import InvalidRequestError
from spark_eos.log.data.planner import partition_of
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, FollowDecision, InitProducer
from spark_eos.protocol.state import Producer, State, TransactionState
from spark_eos.protocol.types import TopicPartition

_FENCE_TIMEOUT_MS = 60_000


class FencingAdmin(AdminBase):
    """The calls that fence producers and end their transactions."""

    def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        """Fence the producers with these ids, all of them or none, and abort their open transactions.

        Prepared transactions are aborted as well, as in Kafka, whatever the other system has decided.

        Parameters
        ----------
        transactional_ids
            Values of ``transactional.id``. Ids that the log does not know are fenced, too.
        """
        if not (ids := list(dict.fromkeys(as_names(transactional_ids, "transactional.id")))):
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
        """Abort the open transaction of a transactional id, and fence its producer.

        If the transaction ends by itself in the meantime, this call changes nothing; it never touches a later
        transaction, nor one that is prepared (KIP-939).

        Parameters
        ----------
        transactional_id
            The setting ``transactional.id`` of the producer.

        Returns
        -------
        TransactionDescription
            The last transaction of the id afterwards.

        Raises
        ------
        InvalidRequestError
            The log knows no such id, the id has no open transaction, or its transaction is prepared.
        """
        log = self._log()
        producer = known_producer(log.follow(), transactional_id)
        _refuse_prepared(producer)
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
        """Abort an open transaction that holds back the readers of a partition (KIP-664), and fence its producer.

        Name it by its first offset there, or by producer id and epoch: `describe_producers` and
        `find_hanging_transactions` show both.

        Parameters
        ----------
        at
            The partition.
        start_offset
            The first offset of the transaction in this partition.
        producer_id
            The id of its producer, together with ``producer_epoch``.
        producer_epoch
            The epoch of its producer.

        Returns
        -------
        TransactionDescription
            The last transaction of the producer afterwards.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        InvalidRequestError
            No open transaction is that one, it is prepared, or it is not named in exactly one of the two ways. Nothing
            was changed.
        """
        at = as_partition(at)
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
                _refuse_prepared(producer)
                return _abort(log, producer)
        description = (
            f"at offset {start_offset}"
            if start_offset is not None
            else f"of producer {producer_id} at epoch {producer_epoch}"
        )
        holders = ", ".join(
            f"offset {first} (producer {holder} at epoch {state.producers[holder].epoch})"
            for holder, first in sorted(opened.items(), key=lambda item: item[1])
        )
        raise InvalidRequestError(
            f"no open transaction {description} in {at}; open there: {holders or 'none'}. Nothing was changed"
        )

    def force_terminate_transaction(self, transactional_id: str) -> TransactionDescription:
        """Fence the producer of a transactional id, and abort its transaction if one is open or prepared (KIP-939).

        A prepared transaction may have been committed by the other system: look there before. `complete_transaction`
        with its token raises `InvalidTxnStateError` afterwards. Nor is one spared that another log decides
        (`TransactionDescription.decided_by`): if that log has committed, it is torn. Only do so if that log is lost.

        Parameters
        ----------
        transactional_id
            The setting ``transactional.id`` of the producer.

        Returns
        -------
        TransactionDescription
            The last transaction of the id afterwards.

        Raises
        ------
        InvalidRequestError
            The log knows no such id.
        """
        log = self._log()
        known_producer(log.follow(), transactional_id)
        state = log.commit(
            lambda state: _terminate(known_producer(state, transactional_id)), writer=WRITER
        ).state
        return transaction_description(topic_names(state), known_producer(state, transactional_id))


def _terminate(producer: Producer) -> tuple[Action, ...]:
    prepared, decider = producer.prepared, producer.follows
    if prepared is None or decider is None:
        return (_fence(producer),)
    stamp = producer.stamp._replace(epoch=prepared.epoch)
    return FollowDecision(stamp, decider, commit=False), _fence(producer)


def _refuse_prepared(producer: Producer) -> None:
    if producer.follows is not None:
        raise InvalidRequestError(
            f"the transaction of transactional.id {producer.transactional_id!r} is prepared, and another log decides: "
            f"{producer.follows}. resolve_transactions asks there (eoslog transactions resolve). If that log is lost, "
            "force_terminate_transaction aborts it (eoslog transactions force-terminate)"
        )
    if producer.transaction is TransactionState.PREPARED:
        raise InvalidRequestError(
            f"the transaction of transactional.id {producer.transactional_id!r} is prepared: another system decides "
            "on it. Start its producer again with keep_prepared_transaction, and it completes the transaction. If that "
            "will never happen, force_terminate_transaction aborts it (eoslog transactions force-terminate)"
        )


def _fence(producer: Producer) -> InitProducer:
    return InitProducer(
        producer.producer_id, producer.epoch + 1, producer.transactional_id, producer.timeout_ms
    )


def _abort(log: Log, target: Producer) -> TransactionDescription:
    """Abort the very transaction that was seen, unless it has ended since."""

    def propose(state: State) -> tuple[Action, ...]:
        producer = state.producers.get(target.producer_id)
        if (
            producer is None
            or producer.transaction is not TransactionState.ONGOING
            or producer.number != target.number
        ):
            return ()
        return (_fence(producer),)

    # In a later state the producer may have another transaction open.
    state = log.commit(propose, writer=WRITER, alone=True).state
    return transaction_description(topic_names(state), state.producers.get(target.producer_id, target))
