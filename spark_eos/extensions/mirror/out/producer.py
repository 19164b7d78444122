"""The transactional producer of a mirror to Kafka. What its errors mean is decided here, by their class."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    EosLogError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from spark_eos.extensions.mirror.callbacks import Quiet
from spark_eos.extensions.mirror.kafka_source import GONE
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget

_STEP_S = 10.0
"""For one call; it is repeated for as long as the class of the error says that it may."""
_PATIENCE_S = 60.0

OWN = ("transactional.id", "enable.idempotence", "acks")
_DEFAULTS = {
    "compression.type": "lz4",
    "linger.ms": "20",
    "message.max.bytes": "1000000000",
    "queue.buffering.max.messages": "200000",
    "reconnect.backoff.max.ms": "1000",
    "transaction.timeout.ms": "300000",
}
"""The topic's own max.message.bytes says how large a record may be. A transaction that is left open by a process that
was frozen, and that no successor has aborted, ends after the timeout: until then readers of committed records wait."""

_FENCED = {
    *("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"),
    *("INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID"),
}


class AbortedError(EosLogError):
    """The Kafka transaction was aborted: nothing of it is in Kafka. The same is sent again."""


class TransactionalProducer:
    """A producer under the mirror's transactional id; `start` fences all earlier ones."""

    def __init__(
        self,
        target: KafkaTarget,
        transactional_id: str,
        is_stopped: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        for name in OWN:
            if name in target.settings:
                raise ConfigError(f"--kafka-config: {name} is set by the mirror itself: leave it out")
        self._target = target
        self.is_stopped = is_stopped
        self._tell = tell
        self.kafka = target.kafka
        self._id = transactional_id
        own_config = {"transactional.id": transactional_id, "error_cb": lambda _: None, "logger": Quiet()}
        try:
            self._producer: Any = self.kafka.Producer(
                {**_DEFAULTS, **_of_producers(target.settings), **own_config}
            )
        except (self.kafka.KafkaException, ValueError) as error:
            raise ConfigError(f"--kafka-config: the settings are refused: {error}") from error

    def is_away(self, cause: Any) -> bool:
        """Whether an error only says that the cluster does not answer now."""
        return self._target.is_away(cause)

    def start(self) -> None:
        """Fence all earlier processes. Their open transactions are aborted; those that were decided are complete."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._producer.init_transactions(_STEP_S)
            except self.kafka.KafkaException as error:
                self._wait_or_raise(error, deadline, "init_transactions")
            else:
                return

    def begin(self) -> KafkaTransaction:
        """A transaction."""
        try:
            self._producer.begin_transaction()
        except self.kafka.KafkaException as error:
            self._raise(error)
        return KafkaTransaction(self, self._producer)

    def commit(self) -> None:
        """Commit. A lost reply is asked for again, for as long as it takes; the broker answers each time the same.

        Raises `AbortedError`: it can certainly not be committed any more. `CommitOutcomeUnknownError`, once the process
        has to end: the next one finds out by the position. After any other error as well nothing may be sent.
        """
        while True:
            try:
                self._producer.commit_transaction(_STEP_S)
            except self.kafka.KafkaException as error:
                cause = error.args[0]
                if cause.txn_requires_abort():
                    self.abort()
                    raise AbortedError(f"Kafka has not committed: {cause.str()}") from error
                if cause.fatal() or not (cause.retriable() or self.is_away(cause)):
                    self._raise(error)
                if self.is_stopped():
                    raise CommitOutcomeUnknownError(
                        f"Kafka has not said whether the last transaction is committed ({cause.str()}). It is sent "
                        "once, whichever it is: start the mirror again, which finds out by the position"
                    ) from error
                self._tell(
                    f"Kafka: the outcome of a commit is not known yet: {cause.str()}; it is asked for again"
                )
            else:
                return

    def abort(self) -> None:
        """Abort the transaction, for as long as it takes. The successor of a process that has to end does it."""
        while True:
            try:
                self._producer.abort_transaction(_STEP_S)
            except self.kafka.KafkaException as error:
                if error.args[0].name() == "_STATE" or self.is_stopped():  # There is none.
                    return
                self._wait_or_raise(error, math.inf, "abort_transaction")
            else:
                return

    def _wait_or_raise(self, error: Any, deadline: float, action: str) -> None:
        cause = error.args[0]
        away = cause.retriable() or self.is_away(cause)
        if cause.fatal() or not away or time.monotonic() > deadline:
            self._raise(error)
        self._tell(f"Kafka: {action}: {cause.str()}; it is tried again")
        time.sleep(0.2)

    def _raise(self, error: Any) -> NoReturn:
        raise self.translated(error.args[0]) from error

    def translated(self, cause: Any) -> EosLogError:
        """The error of the client as one of ours."""
        if cause.name() in _FENCED:
            return ProducerFencedError(
                f"another process mirrors under this --name ({self._id} is fenced in Kafka), or this one took longer "
                "for a transaction than transaction.timeout.ms: this one stops. Its last transaction is in Kafka as a "
                f"whole or not at all; the next process finds out by the position ({cause.name()})"
            )
        if cause.retriable() or self.is_away(cause):
            return KafkaTimeoutError(f"Kafka at {self._target.address} does not answer: {cause.str()}")
        return ConfigError(
            f"Kafka at {self._target.address} refuses the mirror: {cause.str()} ({cause.name()}). Look at "
            "--kafka-config, and at the rights of its user (for its transactional id and its topics)"
        )

    def close(self) -> None:
        """Forget what was not sent."""
        for end in (self._producer.purge, self._producer.close):
            with suppress(self.kafka.KafkaException):  # It was fenced, which has been said.
                end()


class KafkaTransaction:
    """The records of one transaction. ``offsets`` are those they got in Kafka, by topic and partition, in order."""

    def __init__(self, owner: TransactionalProducer, producer: Any) -> None:
        self._owner = owner
        self._producer = producer
        self._failed: tuple[str, Any] | None = None
        self._patience = 10
        self.offsets: dict[tuple[str, int], list[int]] = {}

    def send(self, topic: str, partition: int, rows: list[tuple[Any, Any, Any, int]]) -> None:
        """Send (key, value, headers, timestamp) to a partition."""
        noted = self.offsets.setdefault((topic, partition), []).append

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                noted(message.offset())
            elif self._failed is None:
                self._failed = (topic, error)

        for key, value, headers, timestamp in rows:
            self._produce(
                topic, value, key, partition, on_delivery=delivered, timestamp=timestamp, headers=headers
            )
        self._producer.poll(0)

    def note(self, topic: str, partition: int, key: bytes | None, value: bytes) -> None:
        """Send a record of the mirror's own, whose offset does not matter."""

        def delivered(error: Any, _: Any) -> None:
            if error is not None and self._failed is None:
                self._failed = (topic, error)

        self._produce(topic, value, key, partition, on_delivery=delivered)

    def _produce(self, topic: str, *record: Any, **more: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, *record, **more)
            except BufferError:
                self._producer.poll(0.1)
            except self._owner.kafka.KafkaException as error:
                raise self._error(topic, error.args[0]) from error
            else:
                return

    def flush(self) -> None:
        """Wait until all that was sent has its offsets. The client sends again by itself until the transaction ends."""
        while self._producer.flush(1.0):
            if self._owner.is_stopped() and self._failed is None:
                self._patience -= 1
                if not self._patience:
                    raise AbortedError("the mirror ends, and Kafka does not answer")
        if self._failed is not None:
            raise self._error(*self._failed)

    def _error(self, topic: str, cause: Any) -> EosLogError:
        if cause.name() in {*GONE, "_UNKNOWN_PARTITION"}:
            # A partition, or a broker, that is new: the client looks for it now, and not after minutes.
            with suppress(self._owner.kafka.KafkaException):
                self._producer.list_topics(topic, timeout=_STEP_S)
            return AbortedError(f"Kafka does not know all partitions of {topic} yet: {cause.str()}")
        if cause.name() in {"_STATE", "_PURGE_QUEUE", "_PURGE_INFLIGHT"} or cause.txn_requires_abort():
            return AbortedError(f"Kafka aborts the transaction: {cause.str()}")
        if cause.name() == "MSG_SIZE_TOO_LARGE":
            return ConfigError(
                "a record of the log is larger than Kafka's topic takes: raise its max.message.bytes. Nothing of the "
                "transaction is in Kafka"
            )
        if cause.name() == "INVALID_RECORD":
            return ConfigError(
                f"Kafka refuses a record of topic {topic} ({cause.str()}): if the topic is compacted there, one "
                "without a key. Set its cleanup.policy in Kafka to delete, or delete the records up to it (eoslog "
                "delete-records) and start the mirror with --accept-loss. Nothing of the transaction is in Kafka"
            )
        if not cause.fatal() and (cause.retriable() or self._owner.is_away(cause)):
            return AbortedError(f"Kafka did not take all records: {cause.str()}")
        return self._owner.translated(cause)


def _of_producers(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a producer knows as well."""
    of_consumers = ("group.", "session.", "heartbeat.", "max.poll.", "fetch.", "queued.", "check.crcs")
    return {name: value for name, value in settings.items() if not name.startswith(of_consumers)}
