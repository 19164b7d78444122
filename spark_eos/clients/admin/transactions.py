"""Transactions, for the admin client: what ``kafka-transactions.sh`` lists and describes (KIP-664)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from spark_eos.clients.admin.base import AdminBase
from spark_eos.clients.admin.descriptions import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
)
from spark_eos.clients.validation import as_names
from spark_eos.config.nearest import suggestion
from spark_eos.errors import InvalidRequestError
from spark_eos.log.data.planner import partition_of
from spark_eos.log.log import Log
from spark_eos.log.topics import topic_of
from spark_eos.protocol.state import Partition, PartitionKey, SequenceRange, State, TransactionState
from spark_eos.protocol.state import Producer as ProducerState
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

_STATES = frozenset(state.value for state in TransactionState)
# Kafka's other states. Here the decision and its markers are one entry, so no transaction is ever in them. A script
# that asks Kafka for them gets an empty answer here.
_NEVER = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"})


class TransactionAdmin(AdminBase):
    """The calls about transactions and producers. Each looks at every producer at most once."""

    def list_transactions(
        self,
        states: Iterable[str] | None = None,
        producer_ids: Iterable[int] | None = None,
        duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionDescription]:
        """List the last transaction of every transactional id that passes all given filters.

        Parameters
        ----------
        states
            Kafka's names: ``Empty``, ``Ongoing``, ``CompleteCommit``, ``CompleteAbort``; Kafka's others never occur
            here. ``Prepared``: it waits for the decision of another system.
        producer_ids
            Ids of producers.
        duration_ms
            Only transactions that have been open for longer than this many milliseconds, by this machine's clock
            (KIP-994).
        transactional_id_pattern
            A regular expression that the whole id has to match (KIP-1152).

        Returns
        -------
        list of TransactionDescription
            Sorted by transactional id.

        Raises
        ------
        InvalidRequestError
            Kafka knows no such state, the duration is negative, or the pattern is not a regular expression.

        Examples
        --------
        >>> from spark_eos import Admin, Producer
        >>> with Producer("memory://transactions", {"transactional.id": "copy-1"}) as producer:
        ...     producer.init_transactions()
        >>> [(one.transactional_id, one.state) for one in Admin("memory://transactions").list_transactions()]
        [('copy-1', 'Empty')]
        """
        wanted_states = None if states is None else _check_states(states)
        wanted_ids = None if producer_ids is None else frozenset(producer_ids)
        if duration_ms is not None and duration_ms < 0:
            raise InvalidRequestError(f"duration_ms must be at least 0, not {duration_ms}")
        pattern = None if transactional_id_pattern is None else _compile(transactional_id_pattern)
        log = self._log()
        state = log.follow()
        now_ms = log.time.record_ms(state)

        def passes(producer: ProducerState) -> bool:
            return (
                (wanted_states is None or producer.transaction.value in wanted_states)
                and (wanted_ids is None or producer.producer_id in wanted_ids)
                and (duration_ms is None or 0 <= producer.started_ms < now_ms - duration_ms)
                and (pattern is None or pattern.fullmatch(producer.transactional_id or "") is not None)
            )

        names = topic_names(state)
        producers = (
            state.producers[producer_id] for _, producer_id in sorted(state.transactional_ids.items())
        )
        return [transaction_description(names, producer) for producer in producers if passes(producer)]

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Describe the last transaction of a transactional id.

        Parameters
        ----------
        transactional_id
            The setting ``transactional.id`` of the producer.

        Returns
        -------
        TransactionDescription
            The transaction as it is now.

        Raises
        ------
        InvalidRequestError
            The log knows no such id.
        """
        state = self._log().follow()
        return transaction_description(topic_names(state), known_producer(state, transactional_id))

    def resolve_transactions(self, decider: str | os.PathLike[str] | Log | None = None) -> dict[str, str]:
        """Ask now the logs that decide prepared transactions of this one, and end those that are decided.

        Readers do so by themselves, as long as they can read the deciding log.

        Parameters
        ----------
        decider
            The deciding log, if it has moved, or needs other settings than this process has: a URL or an open `Log`.
            Never a copy or a restored backup.

        Returns
        -------
        dict of str to str
            Why a transaction has not ended, by transactional id. Empty: nothing waits.

        Examples
        --------
        >>> from spark_eos import Admin, Log
        >>> log = Log.open_or_create("memory://resolve-transactions")
        >>> Admin(log).resolve_transactions()
        {}

        Notes
        -----
        docs/extensions/several-logs.md.
        """
        log = self._log()
        if decider is not None:
            log.register_decider(decider if isinstance(decider, Log) else Log.open(decider))
        waiting = log.resolve_followers()
        producers = log.state.producers
        return {
            producers[producer_id].transactional_id or "": why for producer_id, why in sorted(waiting.items())
        }

    def describe_producers(self, topic: str, partition: int) -> list[ProducerDescription]:
        """Describe the producers of a partition: those with sequence numbers there, or with an open transaction.

        Parameters
        ----------
        topic
            The name of the topic.
        partition
            The number of the partition, from 0.

        Returns
        -------
        list of ProducerDescription
            Sorted by producer id.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        """
        log = self._log()
        state = log.follow()
        key = (topic_of(state, topic, log.url).topic_id, partition)
        part = partition_of(state, TopicPartition(topic, partition))
        descriptions = []
        for producer_id, producer in sorted(state.producers.items()):
            window = producer.window(key)
            if window or producer_id in part.open:
                descriptions.append(
                    ProducerDescription(
                        producer_id,
                        producer.epoch,
                        window[-1].last if window else -1,
                        _last_timestamp_ms(part, producer, window),
                        part.open.get(producer_id),
                    )
                )
        return descriptions

    def find_hanging_transactions(
        self,
        topic: str | None = None,
        partition: int | None = None,
        max_transaction_timeout_ms: int = 900_000,
    ) -> list[HangingTransaction]:
        """Find open transactions that should have ended (KIP-664).

        They have not timed out, because no long-lived client follows the log. `abort_transaction` ends one. A prepared
        transaction has no timeout, and is not among them: ``list_transactions(["Prepared"])`` finds it.

        Parameters
        ----------
        topic
            Only transactions that hold back readers of this topic.
        partition
            Only transactions that hold back readers of this partition of ``topic``.
        max_transaction_timeout_ms
            Only transactions that have been open for longer than this and than their own timeout, by this machine's
            clock. The default is Kafka's 15 minutes, the longest timeout that a transaction can have.

        Returns
        -------
        list of HangingTransaction
            The longest open first.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        InvalidRequestError
            A partition is given without its topic.
        """
        if partition is not None and topic is None:
            raise InvalidRequestError(f"partition {partition} of which topic? Name the topic as well")
        log = self._log()
        state = log.follow()
        topic_id = None if topic is None else topic_of(state, topic, log.url).topic_id
        if topic is not None and partition is not None:
            partition_of(state, TopicPartition(topic, partition))
        names, now_ms = topic_names(state), log.time.record_ms(state)
        transactions = []
        for producer_id in state.open_transactions:
            producer = state.producers[producer_id]
            age_ms = now_ms - producer.started_ms
            if not producer.has_timeout or age_ms <= max(producer.timeout_ms, max_transaction_timeout_ms):
                continue
            keys = [
                key for key in producer.touched if topic_id in {None, key[0]} and partition in {None, key[1]}
            ]
            if keys or topic is None:
                transactions.append(_hanging(state, names, producer, keys, age_ms))
        return sorted(transactions, key=lambda hanging: (-hanging.duration_ms, hanging.producer_id))


def known_producer(state: State, transactional_id: str) -> ProducerState:
    """The producer of a transactional id. Raises `InvalidRequestError` for an unknown id."""
    producer = state.producer_of(transactional_id)
    if producer is None:
        raise InvalidRequestError(
            f"the log knows no transactional.id {transactional_id!r}; "
            f"{suggestion(str(transactional_id), sorted(state.transactional_ids))}"
        )
    return producer


def topic_names(state: State) -> dict[str, str]:
    """Topic names by topic id: made once for a whole listing."""
    return {topic.topic_id: name for name, topic in state.topics.items()}


def transaction_description(names: dict[str, str], producer: ProducerState) -> TransactionDescription:
    """The last transaction of a producer. ``names`` are those of the topics by id."""
    prepared = producer.prepared
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
        ""
        if prepared is None or prepared.committed is not None
        else f"{producer.producer_id}:{prepared.epoch}",
        "" if producer.follows is None else str(producer.follows),
        []
        if producer.decision is None
        else [
            follower.url
            for follower in producer.decision.followers
            if follower.log_id in producer.decision.waiting
        ],
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
    state_names = frozenset(as_names(states, "transaction state"))
    if unknown := sorted(state_names - _STATES - _NEVER):
        raise InvalidRequestError(
            f"{', '.join(map(repr, unknown))}: no such transaction state; there are {', '.join(sorted(_STATES))}"
        )
    return state_names


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRequestError(
            f"transactional_id_pattern {pattern!r} is not a regular expression: {error}"
        ) from None
