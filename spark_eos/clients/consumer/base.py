"""What all parts of the consumer share: the log, the settings, and the assigned partitions."""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

from spark_eos.clients.consumer.coordinator import ConsumerCoordinator
from spark_eos.clients.consumer.fetcher import Fetcher
from spark_eos.clients.consumer.iteration import ReadAhead
from spark_eos.clients.consumer.offset_manager import OffsetManager
from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.consumer.subscriptions import Subscription
from spark_eos.clients.keywords import given_settings
from spark_eos.clients.metrics import ConsumerMetrics
from spark_eos.clients.one_thread import OfOneThread
from spark_eos.clients.opening import check_open_log, check_place, store_settings
from spark_eos.clients.other_names import CONSUMER_CALLS, KafkasCalls
from spark_eos.clients.serialization import Deserializers
from spark_eos.clients.validation import as_partition, as_partitions, check_poll
from spark_eos.config.consumer import CONSUMER, consumer_config
from spark_eos.config.isolation import Isolation
from spark_eos.errors import ConfigError, IllegalStateError, WakeupError
from spark_eos.log.log import Log
from spark_eos.log.poll_backoff import PollBackoff
from spark_eos.protocol.types import TopicPartition


def listed_partitions(
    partitions: Sequence[TopicPartition | Collection[TopicPartition]],
) -> list[TopicPartition]:
    """Partitions that were given one by one, as to kafka-python, or as a collection, as to confluent-kafka."""
    places: list[TopicPartition] = []
    for item in partitions:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
            places.append(as_partition(item))
        else:
            places += as_partitions(item)
    return places


class ConsumerBase(OfOneThread, KafkasCalls):
    """The state of one consumer, and the checks that each call begins with."""

    _other_names = CONSUMER_CALLS

    _instead = "make a Consumer of its own there, or start the process by spawn"

    def __init__(
        self,
        url: str | os.PathLike[str] | Log = "",
        config: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        super().__init__()
        check_place(type(self).__name__, url, config)
        all_settings = given_settings(CONSUMER, config, settings)
        self._settings = consumer_config(all_settings)
        if isinstance(url, Log):
            check_open_log(all_settings)
        self._log = url if isinstance(url, Log) else Log.shared(url, store_settings(all_settings))
        self._deserializers = Deserializers(
            self._settings["key.deserializer"], self._settings["value.deserializer"]
        )
        if not self._settings["auto.maintenance.enable"]:
            self._log = self._log.without_maintenance()
        self._isolation: Isolation = self._settings["isolation.level"]
        self._assigned: OrderedDict[TopicPartition, PartitionState] = OrderedDict()
        """In the order in which they take their turns."""
        self._metrics = ConsumerMetrics(self._log.clock.monotonic)
        self._offsets = OffsetManager(self._log, self._settings, self._assigned, self._metrics)
        self._ahead = ReadAhead(self._assigned)
        self._wanted_awake = threading.Event()
        self._fetcher = Fetcher(self._log, self._offsets, self._assigned)
        self._rebalance: ConsumerCoordinator | None = None
        self._idle = PollBackoff(self._log.store)
        self._all_of: Subscription | None = None
        """What is read without a group, all partitions of it (`spark_eos.kafka.KafkaConsumer`)."""
        self._by_hand = False
        self._next_expire_overdue = -math.inf  # At once: this consumer may not stay for long.
        self._closed = False
        self._close_later: tuple[bool, float | None] | None = None
        """What a signal's handler has asked for in the middle of a poll: the arguments of ``close``."""
        self._polling = threading.RLock()
        """Of the thread that polls. (`_users` may have a call of it that was interrupted at its end.)"""

    def _assigned_at(self, at: TopicPartition) -> PartitionState:
        self._check_open()
        at = as_partition(at)
        assigned = self._assigned.get(at)
        if assigned is None:
            raise IllegalStateError(
                f"{at} is not assigned to this consumer: call assign first, or subscribe and poll"
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

    def _check_poll(self, timeout_ms: float, limit: int) -> None:
        self._check_open("poll")
        self._check_not_telling("poll")
        check_poll(timeout_ms, limit)
        if not (self._assigned or self._rebalance or self._all_of):
            raise IllegalStateError(
                "the consumer reads nothing, and would wait for ever: call subscribe or assign"
            )

    def _check_awake(self) -> None:
        if self._wanted_awake.is_set():
            self._wanted_awake.clear()
            raise WakeupError("another thread called wakeup; no record was passed over")

    def _check_not_telling(self, call: str) -> None:
        if self._rebalance is not None:
            self._rebalance.check_not_in_listener(call)
