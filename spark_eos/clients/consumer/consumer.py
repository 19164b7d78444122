"""The consumer: records of partitions, assigned by hand or by a group, in order, each once."""

from __future__ import annotations

import math
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from spark_eos.clients.config import check_open_log, consumer_config, store_settings
from spark_eos.clients.consumer.coordinator import ConsumerCoordinator
from spark_eos.clients.consumer.fetcher import NO_LIMIT, Fetcher
from spark_eos.clients.consumer.offset_manager import OffsetManager
from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.consumer.subscriptions import Listener, Subscription
from spark_eos.clients.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndTimestamp,
    to_arrow,
    to_records,
)
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    IllegalStateError,
    InvalidRequestError,
)
from spark_eos.log.data.planner import Isolation, end_offset, partition_of
from spark_eos.log.data.records import Records
from spark_eos.log.log import Log
from spark_eos.log.poll_backoff import PollBackoff
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition
from spark_eos.storage.forks import OfOneProcess

__all__ = ["Consumer"]

_EXPIRE_EVERY_S = 1.0
"""How often a consumer looks whether something in the log has expired."""

T = TypeVar("T")

OnPartitions = Callable[["Consumer", list[TopicPartition]], object]


class Consumer(OfOneProcess):
    """Reads the partitions that `assign` names, or those that its group gives it after `subscribe`.

    For one thread at a time, as Kafka's. ``config`` has Kafka's keys. ``isolation.level`` is
    ``read_uncommitted`` unless set, as in Kafka. Reading creates nothing: `NotALogError` if there is no log.
    ``url`` may also be an open `Log`. One that subscribed has a background thread until `close`.

    It belongs to the process that made it: a forked one gets `IllegalStateError`, and makes its own.
    """

    _instead = "make a Consumer of its own there, or start the process by spawn"

    def __init__(self, url: str | os.PathLike[str] | Log, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._settings = consumer_config(config)
        if isinstance(url, Log):
            check_open_log(config)
        self._log = url if isinstance(url, Log) else Log.shared(url, store_settings(config))
        if not self._settings["auto.maintenance.enable"]:
            self._log = self._log.without_maintenance()
        self._isolation = Isolation(self._settings["isolation.level"])
        self._assigned: OrderedDict[TopicPartition, PartitionState] = OrderedDict()
        """In the order in which they take their turns."""
        self._offsets = OffsetManager(self._log, self._settings, self._assigned)
        self._fetcher = Fetcher(self._log, self._offsets, self._assigned)
        self._rebalance: ConsumerCoordinator | None = None
        self._idle = PollBackoff(self._log.store)
        self._by_hand = False
        self._next_expire_overdue = -math.inf  # At once: this consumer may not stay for long.
        self._closed = False

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- Subscription, assignment and positions ---------------------------------------------------------

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
        """Share these topics with the other members of ``group.id``, instead of what was subscribed before.

        A name need not be there yet. A pattern, compiled or text that starts with ``^``, stands for all topics
        whose whole name it matches, also those to come. The group is joined by the next `poll`. Inside `poll`,
        `unsubscribe` and `close` the ``listener`` hears of partitions that come and go, by any of its methods
        ``on_partitions_assigned(partitions)``, ``on_partitions_revoked(partitions)`` and
        ``on_partitions_lost(partitions)`` (revoked, if it has none): Kafka's ConsumerRebalanceListener. Or pass
        functions of the consumer and the partitions, as confluent-kafka has them. No topics: `unsubscribe`.

        Raises `ConfigError` without ``group.id`` and `IllegalStateError` after `assign`.
        """
        self._need_group("subscribe")
        self._check_not_telling("subscribe")
        calls = (on_assign, on_revoke, on_lost)
        heard = Listener(*(None if call is None else partial(call, self) for call in calls))
        if listener is not None:
            if any(calls):
                raise InvalidRequestError("give subscribe a listener or functions, not both")
            heard = Listener.of(listener)
        wanted = Subscription(topics, pattern, heard)
        if not wanted:
            self.unsubscribe()
            return
        if self._by_hand:
            raise IllegalStateError(
                "this consumer assigns its partitions itself: call unsubscribe before subscribe"
            )
        if self._rebalance is None:
            self._rebalance = ConsumerCoordinator(self._log, self._settings, self._offsets, self._assigned)
        self._rebalance.subscription = wanted

    def subscription(self) -> set[str]:
        """The topics that are subscribed to; those that a pattern stands for as of the last `poll`."""
        return set() if self._rebalance is None else set(self._rebalance.subscription.topics(self._log.state))

    def unsubscribe(self) -> None:
        """Leave the group, after ``on_partitions_revoked``, and read nothing; also the end of `assign`.

        A static member does not leave: others take over when its session has timed out, or its successor
        at once (KIP-345).
        """
        self._check_open("unsubscribe")
        self._check_not_telling("unsubscribe")
        try:
            if self._rebalance is not None:
                self._rebalance.leave()
        finally:
            self._rebalance = None
            self._by_hand = False
            self._assigned.clear()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others. Those that were assigned before keep their positions.

        Raises `UnknownTopicOrPartitionError`, and `IllegalStateError` after `subscribe`.
        """
        self._check_open("assign")
        if self._rebalance is not None:
            raise IllegalStateError(
                "this consumer subscribes, its group assigns its partitions: call unsubscribe before assign"
            )
        wanted = [TopicPartition(*at) for at in partitions]
        state = self._log.follow()
        assigned = {}
        for at in wanted:
            topic = self._log.topic(at.topic)
            partition_of(state, at)
            known = self._assigned.get(at)
            same = known is not None and known.topic.topic_id == topic.topic_id
            if known is None or not same:
                known = PartitionState(self._log, at, topic, self._isolation)
            assigned[at] = known
        self._offsets.auto_commit(now=True)
        self._assigned.clear()
        self._assigned.update(assigned)
        self._by_hand = bool(assigned)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are assigned."""
        return set(self._assigned)

    def seek(self, at: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read on from ``offset``."""
        number = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if number < 0:
            raise InvalidRequestError(f"offset {number} cannot be sought in {at}: offsets start at 0")
        self._one(at).seek(number)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first record. Without arguments: of all assigned partitions."""
        for at, offset in self.beginning_offsets(partitions or list(self._assigned)).items():
            self._one(at).seek(offset)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the end; under read_committed that is the last stable offset."""
        for at, offset in self.end_offsets(partitions or list(self._assigned)).items():
            self._one(at).seek(offset)

    def position(self, at: TopicPartition) -> int:
        """The offset of the next record. Raises `NoOffsetForPartitionError` as `poll`."""
        assigned = self._one(at)
        if assigned.position is None:
            self._offsets.start(assigned, self._offsets.settled([assigned.at]))
        assert assigned.position is not None
        return assigned.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Leave these partitions out of `poll` until `resume`."""
        for at in partitions:
            self._one(at).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these partitions again."""
        for at in partitions:
            self._one(at).paused = False

    # -- Records ----------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, at most ``max_records`` (``max.poll.records``); none after the timeout.

        Partitions take turns. Control batches, and under read_committed aborted records, are passed over.
        Raises `UnknownTopicOrPartitionError` if an assigned topic is another one now, and with
        ``auto.offset.reset=none`` `OffsetOutOfRangeError` and `NoOffsetForPartitionError`;
        `CorruptRecordError`.
        """
        limit = self._settings["max.poll.records"] if max_records is None else max_records

        def gather(state: State) -> list[ConsumerRecord]:
            taken = [*self._fetcher.turns(state, limit)]
            try:
                return [
                    record
                    for assigned, found in taken
                    for record in to_records(assigned.topic, assigned.at.partition, found)
                ]
            except EosLogError:
                self._fetcher.give_back()
                raise

        return self._wait(timeout_ms, limit, gather) or []

    def poll_arrow(self, timeout_ms: int = 0, max_records: int | None = None) -> pa.Table:
        """The next records as a table, of topics with the same columns; others come with the next call.

        Columns: ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value``, ``headers``; of a
        topic with a schema ``_topic``, ``_partition``, ``_offset``, ``_timestamp`` and its own. Without
        ``max_records`` one stored batch of each partition at most. No rows after the timeout.
        """
        limit = NO_LIMIT if max_records is None else max_records

        def gather(state: State) -> list[pa.Table]:
            tables = [
                to_arrow(assigned.topic, assigned.at.partition, found)
                for assigned, found in self._fetcher.turns(state, limit, alike=True)
            ]
            return [pa.concat_tables(tables)] if tables else []

        return (self._wait(timeout_ms, limit, gather) or [self._no_rows()])[0]

    # -- Offsets ----------------------------------------------------------------------------------------

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed; None where nothing.

        Under read_committed it waits for open transactions that carry offsets of the group: raises
        `UnstableOffsetCommitError` after ``default.api.timeout.ms``.
        """
        self._need_group("committed")
        return self._offsets.committed(TopicPartition(*at) for at in partitions)

    def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group (the next ones to read), or the positions of all partitions.

        After `subscribe` that is done as a member of the group. Raises `CommitFailedError`, in one of its
        kinds, if the group has moved on, or has members and this consumer is none of them: `poll`, and go on
        with what is assigned then.
        """
        self._need_group("commit")
        self._offsets.commit(offsets)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group, and this member of it, for `Producer.send_offsets_to_transaction`."""
        group = self._need_group("group_metadata")
        return ConsumerGroupMetadata(group) if self._rebalance is None else self._rebalance.metadata

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        self._check_process("beginning_offsets")
        state = self._log.follow()
        wanted = [TopicPartition(*at) for at in partitions]
        return {at: partition_of(state, at).start for at in wanted}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record; under read_committed the last stable offset."""
        self._check_process("end_offsets")
        self._log.follow()
        state = self._log.end_overdue()
        wanted = [TopicPartition(*at) for at in partitions]
        return {at: end_offset(partition_of(state, at), self._isolation) for at in wanted}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (ms); None where there is none (yet)."""
        self._check_process("offsets_for_times")
        self._log.follow()
        self._log.end_overdue()
        found = {}
        for at, timestamp_ms in times.items():
            answer = self._log.offset_for_time(TopicPartition(*at), timestamp_ms, self._isolation)
            found[TopicPartition(*at)] = None if answer is None else OffsetAndTimestamp(*answer)
        return found

    def close(self) -> None:
        """Commit the positions if ``enable.auto.commit`` is on, leave the group, and read no more.

        Trouble with the log is only logged: the group finds out by itself that this member has gone. Does nothing in a
        forked process: the member is the parent.
        """
        if self._closed or self._is_foreign:
            return
        self._check_not_telling("close")
        try:
            if self._rebalance is None:
                self._offsets.auto_commit(now=True)
            else:
                self._rebalance.leave()
        finally:
            self._closed = True
            self._fetcher.close()

    # -- Inside -----------------------------------------------------------------------------------------

    def _wait(self, timeout_ms: int, limit: int, gather: Callable[[State], list[T]]) -> list[T]:
        self._check_open("poll")
        self._check_not_telling("poll")
        if limit < 1:
            raise ConfigError(f"max_records={limit}: at least one record has to be asked for")
        self._offsets.auto_commit()
        clock = self._log.clock
        deadline = clock.monotonic() + timeout_ms / 1000
        self._fetcher.begin()
        try:
            while True:
                self._log.follow()
                state = self._expire_overdue()
                if self._rebalance is not None:
                    state = self._rebalance.follow(state)
                found = gather(state)
                if found:
                    self._idle.over()
                    return found
                left = deadline - clock.monotonic()
                if left <= 0:
                    return found
                clock.sleep(min(self._idle.wait_s(), left))
                self._fetcher.begin()
        except (EosLogError, OSError):
            raise  # Nothing was taken.
        except BaseException:
            self._fetcher.give_back()  # Ctrl-C: else the positions would be past records that the caller has not got.
            raise

    def _no_rows(self) -> pa.Table:
        first = next(iter(self._assigned.values()), None)
        if first is None:
            return pa.table({})
        return to_arrow(first.topic, 0, Records(layout_of(first.topic).physical.empty_table(), 0))

    def _expire_overdue(self) -> State:
        now = self._log.clock.monotonic()
        if now >= self._next_expire_overdue:
            self._next_expire_overdue = now + _EXPIRE_EVERY_S
            return self._log.end_overdue()
        return self._log.state

    def _one(self, at: TopicPartition) -> PartitionState:
        self._check_open()
        assigned = self._assigned.get(TopicPartition(*at))
        if assigned is None:
            raise IllegalStateError(
                f"{TopicPartition(*at)} is not assigned to this consumer: call assign first, or subscribe and poll"
            )
        return assigned

    def _need_group(self, call: str) -> str:
        self._check_open(call)
        group: str | None = self._settings["group.id"]
        if group is None:
            raise ConfigError(f"{call} needs the setting group.id")
        return group

    def _check_open(self, call: str = "this call") -> None:
        self._check_process(call)
        if self._closed:
            raise IllegalStateError("the consumer is closed")

    def _check_not_telling(self, call: str) -> None:
        if self._rebalance is not None:
            self._rebalance.check_not_in_listener(call)
