"""The clients of kafka-python and aiokafka: their constructors, and the few results that differ."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from spark_eos.clients.admin import Admin
from spark_eos.clients.background import within
from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.consumer.subscriptions import Subscription
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.records import ConsumerRecord, OffsetAndTimestamp
from spark_eos.clients.validation import as_names, check_time
from spark_eos.errors import ConfigError
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage.forks import Lock
from spark_eos.storage.urls import SERVER

T = TypeVar("T")


def log_of(configs: dict[str, Any]) -> str | os.PathLike[str] | Log:
    """Where the log is, taken from the settings: ``bootstrap_servers``. Raises `ConfigError`."""
    location = configs.pop("bootstrap_servers", configs.pop("bootstrap.servers", None))
    if isinstance(location, (list, tuple)) and len(location) == 1:
        (location,) = location
    if isinstance(location, (Log, os.PathLike)):
        return location
    if not isinstance(location, str) or not location or SERVER.fullmatch(location):
        raise ConfigError(
            f"bootstrap_servers={location!r}: there is no server; give the log's folder or URL, such as "
            "bootstrap_servers='/data/log' or 's3://bucket/log'"
        )
    return location


def renamed(configs: dict[str, Any]) -> dict[str, Any]:
    """The settings, those that have another name here under that."""
    if "allow_auto_create_topics" in configs:
        configs["auto_create_topics_enable"] = configs.pop("allow_auto_create_topics")
    return configs


class KafkaProducer(Producer):
    """`spark_eos.Producer` with the constructor of kafka-python's.

    Parameters
    ----------
    **configs
        Settings of kafka-python. ``bootstrap_servers`` is the log's folder or URL.

    Examples
    --------
    >>> from spark_eos.kafka import KafkaProducer
    >>> producer = KafkaProducer(bootstrap_servers="memory://kafka-producer", value_serializer=str.encode)
    >>> producer.send("orders", "two apples", key=b"anna").get(timeout=10).offset
    0
    >>> producer.close()
    """

    def __init__(self, **configs: Any) -> None:
        url = log_of(configs)
        super().__init__(url, **renamed(configs))


class KafkaAdminClient(Admin):
    """`spark_eos.Admin` with the constructor of kafka-python's.

    Parameters
    ----------
    **configs
        ``bootstrap_servers`` is the log's folder or URL. ``client_id`` is allowed: entries of an admin client are
        recorded under ``admin``. Others are settings of an object store.
    """

    def __init__(self, **configs: Any) -> None:
        url = log_of(configs)
        configs.pop("client_id", None)
        super().__init__(url, **configs)

    list_partition_offsets = Admin.list_offsets
    """By kafka-python's name."""

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, one after the other. As `Admin.delete_group`.

        Parameters
        ----------
        group_ids
            Their ids.
        """
        for group in as_names(group_ids, "group"):
            self.delete_group(group)


class _Prefixes(Subscription):
    """As kafka-python and aiokafka have it: a pattern stands for the topics of which it matches the begin."""

    def _matches(self, pattern: re.Pattern[str], topic: str) -> bool:
        return pattern.match(topic) is not None


class KafkaConsumer(Consumer):
    """`spark_eos.Consumer` with the constructor and the results of kafka-python's.

    Without ``group_id`` it reads all partitions of the topics that it subscribes to. A pattern need not match the whole
    name of a topic, but its begin.

    Parameters
    ----------
    *topics
        Names of topics to subscribe to.
    **configs
        Settings of kafka-python. ``bootstrap_servers`` is the log's folder or URL.

    Examples
    --------
    >>> from spark_eos.kafka import KafkaConsumer, KafkaProducer
    >>> with KafkaProducer(bootstrap_servers="memory://kafka-consumer") as producer:
    ...     future = producer.send("orders", b"two apples")
    >>> consumer = KafkaConsumer(
    ...     "orders",
    ...     bootstrap_servers="memory://kafka-consumer",
    ...     auto_offset_reset="earliest",
    ...     consumer_timeout_ms=100,
    ... )
    >>> [record.value for record in consumer]
    [b'two apples']
    """

    _new_subscription = _Prefixes

    def __init__(self, *topics: str, **configs: Any) -> None:
        url = log_of(configs)
        configs.pop("allow_auto_create_topics", None)  # A consumer creates nothing.
        super().__init__(url, **configs)
        self._in_turn = Lock()
        if topics:
            self.subscribe(topics)

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None, **more: Any) -> None:
        if self._settings["group.id"] is not None:
            super().subscribe(topics, pattern=pattern, listener=listener, **more)
            return
        self._check_open("subscribe")
        if listener is not None or more:
            raise ConfigError(
                "subscribe with a listener needs group_id: without a group there is no rebalance"
            )
        subscription = self._new_subscription(topics, pattern)
        if subscription:
            self._check_not_by_hand()
        self.unsubscribe()
        self._all_of = subscription or None

    def subscription(self) -> set[str]:
        return super().subscription() if self._all_of is None else set(self._all_of.topics(self._log.state))

    def commit(self, offsets: Any = None, timeout_ms: float | None = None) -> None:
        call = super().commit
        self._bounded(timeout_ms, "commit", lambda: call(offsets))

    def committed(self, partitions: Any, metadata: bool = False, timeout_ms: float | None = None) -> Any:
        call = super().committed
        return self._bounded(timeout_ms, "committed", lambda: call(partitions, metadata))

    def position(self, at: TopicPartition, timeout_ms: float | None = None) -> int:
        call = super().position
        return self._bounded(timeout_ms, "position", lambda: call(at))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        call = super().beginning_offsets
        return self._bounded(timeout_ms, "beginning_offsets", lambda: call(partitions))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        call = super().end_offsets
        return self._bounded(timeout_ms, "end_offsets", lambda: call(partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        call = super().offsets_for_times
        return self._bounded(timeout_ms, "offsets_for_times", lambda: call(times))

    def _bounded(self, timeout_ms: float | None, name: str, call: Callable[[], T]) -> T:
        """The result of the call, waited for no longer than asked. A listener's own calls are not bounded.

        It comes after one that was waited for in vain, and goes on in the background.
        """
        if timeout_ms is None or self._is_calling():
            return call()
        check_time(timeout_ms, "timeout_ms")
        results: list[T] = []

        def in_turn() -> None:
            with self._in_turn:
                results.append(call())

        within(self._log.environment, timeout_ms / 1000, in_turn, name)
        return results[0]

    def poll(  # type: ignore[override]
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        records = super().poll(timeout_ms, max_records)
        try:
            return records.by_partition()
        except BaseException:
            self._fetcher.rewind()  # Ctrl-C: the next poll returns them, and no commit passes over them.
            raise
