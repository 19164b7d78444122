"""What all parts of the producer share: the log, the settings, and the buffers in which records gather."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spark_eos.clients.at_exit import say, watch
from spark_eos.clients.keywords import given_settings
from spark_eos.clients.metrics import ProducerMetrics
from spark_eos.clients.opening import check_open_log, check_place, store_settings
from spark_eos.clients.other_names import PRODUCER_CALLS, KafkasCalls
from spark_eos.clients.producer.accumulator import Accumulator, TopicBuffer
from spark_eos.clients.producer.member import MemberTransactions
from spark_eos.clients.producer.record_buffer import Meter
from spark_eos.clients.producer.sender import Sender
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.clients.producer.two_phase import no_transactions
from spark_eos.clients.records import Header
from spark_eos.clients.serialization import Serializers
from spark_eos.clients.validation import as_bytes, check_headers
from spark_eos.config.compression import Compression
from spark_eos.config.producer import PRODUCER, producer_config
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    IllegalStateError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.clock import SYSTEM, Retry
from spark_eos.log.data.partitioners import DefaultPartitioner, Partitioner, Sticky, load_partitioner
from spark_eos.log.encryption import check_writable
from spark_eos.log.log import Log
from spark_eos.log.topics import codec_of, has_columns, key_columns
from spark_eos.log.warmup import ready_for_columns, ready_to_commit
from spark_eos.protocol.actions.topics import check_name
from spark_eos.protocol.state import Topic
from spark_eos.storage.forks import OfOneProcess, tell_in_child
from spark_eos.storage.urls import absolute

_KAFKA_COLUMNS = {"key", "value", "headers", "timestamp", "partition"}


class _Waiting:
    """Where records gather that are in no transaction: as in one that is open until the producer is closed."""

    def __init__(self) -> None:
        self.state = ClientState.IN_TRANSACTION
        self.pending = Accumulator()


class ProducerBase(OfOneProcess, KafkasCalls):
    """The state of one producer, and what finds the buffer for a record."""

    _other_names = PRODUCER_CALLS

    _instead = (
        "make a Producer of its own there (with a transactional.id of its own), or start the process by spawn"
    )

    def __init__(
        self,
        url: str | os.PathLike[str] | Log = "",
        config: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        super().__init__()
        check_place(type(self).__name__, url, config)
        ready_to_commit()
        ready_for_columns()
        all_settings = given_settings(PRODUCER, config, settings)
        self._settings = producer_config(all_settings)
        self._store_settings = store_settings(all_settings)
        if isinstance(url, Log):
            check_open_log(all_settings)
        self._serializers = Serializers(self._settings["key.serializer"], self._settings["value.serializer"])
        self._serializes = bool(self._serializers)
        self._url = url if isinstance(url, Log) else absolute(url)
        self._opened: Log | None = url if isinstance(url, Log) else None
        self._opening = threading.Lock()
        self._lock = threading.RLock()
        self._closed = self._closing = self._ends = False
        self._waiting = _Waiting()
        self._batch_bytes: int = self._settings["batch.size"]
        self._compression = Compression.chosen(self._settings["compression.type"], self._settings)
        self._memory_bytes: int = self._settings["buffer.memory"]
        self._partitioners: dict[tuple[str, int], Partitioner] = {}
        spec = self._settings["partitioner.class"]
        self._custom = None if spec is None else load_partitioner(spec)
        self._metrics = ProducerMetrics(self._now)
        self._transactions = (
            MemberTransactions(self._log, self._settings) if self._settings["transactional.id"] else None
        )
        self._gather_in(self._transactions or self._waiting)
        self._sender = Sender(self._log, self._drain, self._settings, self._metrics)
        tell_in_child(self)
        watch(self, ProducerBase._end_of_process)

    def __del__(self) -> None:
        """The last reference goes. Records that wait have a thread, which has a reference; a transaction has none."""
        transactions = vars(self).get("_transactions")
        if (
            transactions is not None
            and not sys.is_finalizing()
            and not self._is_foreign
            and transactions.left_open
        ):
            say(f"a producer of {self._where} is gone without close, and {transactions.left_open}")

    @property
    def _where(self) -> str:
        return self._url.url if isinstance(self._url, Log) else str(self._url)

    def _end_of_process(self, deadline: float) -> str:
        """See `spark_eos.clients.at_exit.End`."""
        if self._is_foreign:
            return ""
        if self._transactions is not None:
            left_open = self._transactions.left_open
            return (
                left_open
                and f"the process ends without close of a producer of {self._where}, and {left_open}"
            )
        # From here on each send waits until its record is in the log.
        self._ends, self._memory_bytes = True, 0
        self._waiting.pending.meter.limit = 0
        failed = self._sender.end_of_process(lambda: self._waiting.pending, deadline)
        return "; ".join(f"the process ends, and {error}" for error in failed)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`: what waits, and the transaction, are the parent's."""
        self._opening = threading.Lock()
        self._lock = threading.RLock()
        self._refuse_calls()

    def _gather_in(self, place: _Waiting | MemberTransactions) -> None:
        """Records go there. What `Producer.send` needs of the producer is in one place, which is one look for all."""
        self._sending = (self._lock, place, self._serializes)

    def _refuse_calls(self) -> None:
        """From now on all are, but for `close`."""
        self._closed = True
        self._waiting.state = ClientState.READY
        self._gather_in(self._waiting)

    def _log(self) -> Log:
        with self._opening:
            if self._opened is None:
                assert not isinstance(self._url, Log)
                block_ms = self._settings["max.block.ms"]
                create = self._settings["auto.create.topics.enable"]
                if block_ms == PRODUCER["max.block.ms"].default:
                    self._opened = Log.shared(self._url, self._store_settings, create=create)
                else:
                    open_ = Log.open_or_create if create else Log.open
                    self._opened = open_(
                        self._url, retry=Retry(deadline_s=block_ms / 1000), settings=self._store_settings
                    )
                check_writable(self._opened.store, self._opened.state)
            if self._opened.does_maintenance and not self._settings["auto.maintenance.enable"]:
                self._opened = self._opened.without_maintenance()
            return self._opened

    def _now(self) -> float:
        """The monotonic clock of the log; before it is open, that of this process."""
        return SYSTEM.monotonic() if self._opened is None else self._opened.clock.monotonic()

    def _need(self, call: str) -> MemberTransactions:
        if self._transactions is None:
            no_transactions(call)
        if self._closed:
            self._check_process(call)
            raise IllegalStateError(f"{call}: the producer is closed")
        return self._transactions

    def _as_member(self, group: str) -> MemberTransactions:
        transactions = self._need(group)
        if transactions.state is not ClientState.UNINITIALIZED or transactions.group:
            raise ConfigError(
                f"the producer {transactions.transactional_id!r} is in use: a {group} needs new ones, and calls their "
                "init_transactions itself"
            )
        transactions.join(group, self._entered)
        return transactions

    @contextmanager
    def _entered(self, call: str) -> Iterator[None]:
        with self._lock:
            self._need(call)
            yield

    def _gathered(self, call: str) -> Accumulator:
        """What records are added to, if the call is allowed now."""
        if self._closed:
            self._check_process(call)
            raise IllegalStateError(f"{call}: the producer is closed")
        if self._transactions is None:
            return self._waiting.pending
        self._transactions.check(call)
        return self._transactions.pending

    def _buffer(
        self, gathered: Accumulator, name: str, partition: int | None, columns: set[str] | None = None
    ) -> TopicBuffer:
        """Where records of the topic gather; the topic is created if it is missing."""
        if not isinstance(name, str):
            check_name(name)
        buffer = gathered.buffers.get(name)
        if buffer is None:
            buffer = TopicBuffer(
                self._log(),
                self._topic(name, columns),
                self._partitioner(name),
                compression=self._compression,
                buffer_bytes=self._settings["buffer.memory"],
                request_bytes=self._settings["max.request.size"],
                keep=self._transactions is None,
                is_stuck=self._is_stuck,
                meter=gathered.meter if self._transactions is None else None,
                metrics=self._metrics,
            )
            gathered.buffers[name] = buffer
        if partition is not None and not 0 <= partition < buffer.topic.partitions:
            newer = self._log().follow().topics.get(name)
            is_same = newer is not None and newer.topic_id == buffer.topic.topic_id
            if newer is None or not is_same or not 0 <= partition < newer.partitions:
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} has no partition {partition}: its partitions are 0 to "
                    f"{buffer.topic.partitions - 1}"
                )
            try:
                buffer.grow(newer, self._partitioner(name))
            except EosLogError as error:
                if self._transactions is not None:
                    raise self._transactions.cannot_stage(error) from error
                raise
        return buffer

    def _learn_columns(self, buffer: TopicBuffer) -> bool:
        """Whether the topic has got other columns since its buffer was made, which the buffer has now."""
        name = buffer.topic.name
        newer = self._log().follow().topics.get(name)
        if newer is None or newer.topic_id != buffer.topic.topic_id:
            return False
        if len(newer.schemas) == len(buffer.topic.schemas):
            return False
        buffer.grow(newer, self._partitioner(name))
        return True

    def _topic(self, name: str, columns: set[str] | None) -> Topic:
        create = self._settings["auto.create.topics.enable"]
        foreign = (columns or set()) - _KAFKA_COLUMNS
        if create and foreign and name not in self._log().follow().topics:
            raise UnknownTopicOrPartitionError(
                f"the log {self._log().url} has no topic {name!r}, and rows with the column {min(foreign)!r} "
                "need one with a schema: create it with Admin.create_topic(name, schema=...)"
            )
        return self._log().ensure_topic(name, self._settings["num.partitions"], auto_create=create)

    def _as_stored(
        self, topic: str, key: Any, value: Any, headers: Sequence[Header] | None, headers_bytes: int
    ) -> tuple[bytes | None, bytes | None, Sequence[Header] | None, int]:
        """Key, value and headers of a record as bytes, and what the headers take. ``headers`` were checked."""
        if self._serializes:
            key, value, headers = self._serializers.serialize(topic, key, value, headers)
            # A serializer may have added some.
            headers_bytes = 0 if headers is None else check_headers(headers)
        if value is not None and not isinstance(value, bytes):
            value = self._as_value(topic, value)
        if key is not None:
            key = as_bytes(key, "key")
        return key, value, headers, headers_bytes

    def _as_value(self, name: str, value: object) -> bytes:
        """A value that is not bytes: text as UTF-8, or what the topic's ``value.format`` makes of it."""
        log = self._opened or self._log()
        topic = log.state.topics.get(name) or log.follow().topics.get(name)
        if topic is not None and topic.schemas:
            raise has_columns(topic)
        if topic is None or "value.format" not in topic.config:
            return as_bytes(value, "value")
        codec = codec_of(topic)
        if codec is None or isinstance(value, (bytearray, memoryview)):
            return as_bytes(value, "value")
        try:
            return codec.encode(value)
        except ValueError as error:
            raise SerializationError(
                f"the value of a record of topic {name!r} cannot be sent: {error}. Nothing was sent; change the value"
            ) from error

    def _partitioner(self, name: str) -> Partitioner:
        if self._custom is not None:
            return self._custom
        topic = self._log().topic(name)
        partitioner = self._partitioners.get((topic.topic_id, len(topic.schemas)))
        if partitioner is None:
            partitioner = DefaultPartitioner(
                Sticky(int(self._log().clock.jitter() * (1 << 16)), self._settings["batch.size"]),
                key_columns(topic),
                None,
            )
            self._partitioners[topic.topic_id, len(topic.schemas)] = partitioner
        return partitioner

    def _count(self, meter: Meter, size: int) -> None:
        """With what is about to be added there are ``size`` bytes: wake the sender for the first, and for a batch.

        The sender is woken before they are added, so that an interrupt leaves no records of which it knows nothing. It
        cannot take them too early: that needs the lock, which the caller holds.
        """
        if not meter.bytes or meter.bytes < self._batch_bytes <= size:
            threaded = self._sender.wake(urgent=size >= self._batch_bytes)
            # Without a thread that sends, each send waits until its record is in the log; at the end they all do.
            self._memory_bytes = self._settings["buffer.memory"] if threaded and not self._ends else 0
        meter.bytes = size
        if size >= self._memory_bytes:
            meter.limit = 0  # Each thread that adds more has to wait.
        elif size >= self._batch_bytes:
            meter.limit = self._memory_bytes
        else:
            meter.limit = min(self._batch_bytes, self._memory_bytes)

    def _drain(self) -> None:
        with self._lock:
            self._sender.taken, self._waiting.pending = self._waiting.pending, Accumulator()

    def _is_stuck(self) -> bool:
        """Whether a future can only be done by the caller's own commit or flush, or not at all."""
        if self._is_foreign:
            return True
        transactions = self._transactions
        return transactions is not None and transactions.takes_records


def member_of(producer: ProducerBase, group: str) -> MemberTransactions:
    """The transactions of a new producer, which ``group`` begins and ends from now on."""
    return producer._as_member(group)  # noqa: SLF001  (nothing of it is for applications)
