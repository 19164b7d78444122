"""Which partitions a consumer reads: subscribed to with its group, or assigned by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeAlias

from spark_eos.clients.consumer.base import ConsumerBase, listed_partitions
from spark_eos.clients.consumer.coordinator import ConsumerCoordinator
from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.consumer.subscriptions import Listener, Subscription
from spark_eos.clients.one_thread import one_at_a_time
from spark_eos.clients.validation import as_partitions, check_callback
from spark_eos.errors import IllegalStateError, InvalidRequestError
from spark_eos.log.data.planner import partition_of
from spark_eos.log.topics import topic_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

OnPartitions: TypeAlias = Callable[[Any, list[TopicPartition]], object]
"""A function of the consumer and the partitions."""


class ConsumerAssignment(ConsumerBase):
    """The calls that choose partitions."""

    _new_subscription = Subscription

    @one_at_a_time
    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object = None,
        on_assign: OnPartitions | None = None,
        on_revoke: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Share topics with the other members of ``group.id``. Replaces the previous subscription.

        The next `poll` joins the group. ``poll``, `unsubscribe` and ``close`` call the listener. Without topics and
        pattern, this call is `unsubscribe`.

        Parameters
        ----------
        topics
            Names of topics, which need not exist yet. A compiled pattern, or text that starts with ``^``, stands
            for all topics whose whole name it matches, including topics created later.
        pattern
            One more pattern.
        listener
            An object with any of the methods ``on_partitions_assigned(partitions)``,
            ``on_partitions_revoked(partitions)`` and ``on_partitions_lost(partitions)``: Kafka's
            ConsumerRebalanceListener. Without the last one, lost partitions are reported as revoked.
        on_assign, on_revoke, on_lost
            Functions of the consumer and the list of partitions, as in confluent-kafka. Not together with
            ``listener``.

        Raises
        ------
        ConfigError
            ``group.id`` is not set.
        IllegalStateError
            Partitions were assigned by `assign`, the consumer is closed, or a listener made this call.
        InvalidRequestError
            A pattern is not a regular expression, no topic can have a name, or both a listener and functions are given.

        Examples
        --------
        >>> from spark_eos import Admin, Consumer
        >>> Admin("memory://subscribe").create_topic("orders", partitions=2)
        >>> with Consumer("memory://subscribe", {"group.id": "billing"}) as consumer:
        ...     consumer.subscribe(["orders"])
        ...     records = consumer.poll()
        ...     sorted(str(at) for at in consumer.assignment())
        ['orders-0', 'orders-1']

        Notes
        -----
        The rebalance protocol: docs/design/0004-groups-and-expiry.md; KIP-429 (cooperative), KIP-345 (static members).
        """
        self._need_group("subscribe")
        self._check_not_telling("subscribe")
        calls = (on_assign, on_revoke, on_lost)
        for call, name in zip(calls, ("on_assign", "on_revoke", "on_lost"), strict=True):
            check_callback(call, name)
        callbacks = Listener(*(None if call is None else partial(call, self) for call in calls))
        if listener is not None:
            if any(calls):
                raise InvalidRequestError("give subscribe a listener or functions, not both")
            callbacks = Listener.of(listener)
        subscription = self._new_subscription(topics, pattern, callbacks)
        if not subscription:
            self.unsubscribe()
            return
        self._check_not_by_hand()
        if self._rebalance is None:
            self._rebalance = ConsumerCoordinator(self._log, self._settings, self._offsets, self._assigned)
        self._rebalance.subscription = self._offsets.subscription = subscription

    @one_at_a_time
    def subscription(self) -> set[str]:
        """Return the subscribed topics.

        Returns
        -------
        set of str
            The names; for a pattern, the topics that matched at the last `poll`. Empty without a subscription.
        """
        return set() if self._rebalance is None else set(self._rebalance.subscription.topics(self._log.state))

    @one_at_a_time
    def unsubscribe(self) -> None:
        """Leave the group and read nothing. Also ends `assign`.

        ``on_partitions_revoked`` is called before. A static member (``group.instance.id``) stays in the group: its
        partitions go to others when its session has timed out, or to its successor at once (KIP-345).

        Raises
        ------
        IllegalStateError
            The consumer is closed, or a listener made this call.
        """
        self._check_open("unsubscribe")
        self._check_not_telling("unsubscribe")
        try:
            if self._rebalance is not None:
                self._rebalance.leave()
        finally:
            self._rebalance = None
            self._by_hand = False
            self._all_of = None
            self._assigned.clear()

    @one_at_a_time
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, without a group's rebalancing.

        Partitions that were assigned before keep their positions.

        Parameters
        ----------
        partitions
            The partitions to read. An empty list ends the assignment.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic or partition.
        IllegalStateError
            The consumer has subscribed, or is closed.

        Examples
        --------
        >>> from spark_eos import Admin, Consumer, TopicPartition
        >>> Admin("memory://assign").create_topic("orders")
        >>> consumer = Consumer("memory://assign")
        >>> consumer.assign([TopicPartition("orders", 0)])
        >>> consumer.assignment()
        {TopicPartition(topic='orders', partition=0)}
        """
        self._check_open("assign")
        if self._rebalance is not None or self._all_of is not None:
            raise IllegalStateError(
                "this consumer subscribes, which assigns its partitions: call unsubscribe before assign"
            )
        targets = as_partitions(partitions)
        state = self._log.follow()
        self._offsets.begin(state)
        assigned = {}
        for at in targets:
            topic = topic_of(state, at.topic, self._log.url)
            partition_of(state, at)
            partition_state = self._assigned.get(at)
            is_same = partition_state is not None and partition_state.topic.topic_id == topic.topic_id
            if partition_state is None or not is_same:
                partition_state = PartitionState(self._log, at, topic, self._isolation)
            assigned[at] = partition_state
        self._offsets.auto_commit(now=True)
        self._ahead.give_back()
        self._assigned.clear()
        self._assigned.update(assigned)
        self._by_hand = bool(assigned)

    @one_at_a_time
    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer reads now.

        Returns
        -------
        set of TopicPartition
            Assigned by hand, or by the group in the last `poll`.
        """
        return set(self._assigned)

    @one_at_a_time
    def pause(self, *partitions: TopicPartition | Collection[TopicPartition]) -> None:
        """Leave partitions out of `poll` until `resume`. They stay assigned.

        Parameters
        ----------
        *partitions
            Assigned partitions, or one list of them.

        Raises
        ------
        IllegalStateError
            A partition is not assigned to this consumer, or the consumer is closed.
        """
        for assigned in [self._assigned_at(at) for at in listed_partitions(partitions)]:
            assigned.paused = True

    @one_at_a_time
    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused.

        Returns
        -------
        set of TopicPartition
            Those of `pause` that were not resumed, and are still assigned.
        """
        return {at for at, assigned in self._assigned.items() if assigned.paused}

    @one_at_a_time
    def resume(self, *partitions: TopicPartition | Collection[TopicPartition]) -> None:
        """Read paused partitions again. As `Consumer.pause`."""
        for assigned in [self._assigned_at(at) for at in listed_partitions(partitions)]:
            assigned.paused = False

    def _check_not_by_hand(self) -> None:
        if self._by_hand:
            raise IllegalStateError(
                "this consumer assigns its partitions itself: call unsubscribe before subscribe"
            )

    def _assign_all(self, state: State) -> None:
        """Read all partitions of the topics of a subscription without a group, new ones too."""
        assert self._all_of is not None
        topics = {
            TopicPartition(name, number): topic
            for name in self._all_of.topics(state)
            if (topic := state.topics.get(name)) is not None
            for number in range(topic.partitions)
        }
        for at in [*self._assigned]:
            current = topics.get(at)
            if current is None or current.topic_id != self._assigned[at].topic.topic_id:
                del self._assigned[at]
        for at, topic in topics.items():
            if at not in self._assigned:
                self._assigned[at] = PartitionState(self._log, at, topic, self._isolation)
