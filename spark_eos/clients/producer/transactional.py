"""Transactions of a producer: records in several topics, and offsets of a group, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from spark_eos.clients.producer.base import ProducerBase
from spark_eos.clients.producer.transaction_states import PreparedTxnState
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.clients.validation import as_offsets, check_group
from spark_eos.errors import ConfigError, InvalidRequestError
from spark_eos.protocol.actions import PartitionOffset
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition


class ProducerTransactions(ProducerBase):
    """The calls about transactions. They need ``transactional.id``."""

    @contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        begun = self._now()
        try:
            yield
        finally:
            self._metrics.took(call, self._now() - begun)

    def init_transactions(self, keep_prepared_transaction: bool = False) -> None:
        """Take over ``transactional.id``: fence older producers with that id, and abort their open transaction.

        Call it once, before all other calls. Call it again only after a `RetriableError`.

        Parameters
        ----------
        keep_prepared_transaction
            Keep a transaction that was prepared (`prepare_transaction`): `complete_transaction` comes next. Without it
            a prepared transaction is aborted as well. It needs ``transaction.two.phase.commit.enable``.

        Raises
        ------
        RetriableError
            The store did not answer. Call it again.
        IllegalStateError
            ``transactional.id`` is not set, this call was made before, the producer is closed, or
            ``keep_prepared_transaction`` is given without ``transaction.two.phase.commit.enable``.

        See Also
        --------
        begin_transaction : the next call.

        Notes
        -----
        Fencing by epochs: KIP-98; docs/design/0001-protocol.md. Prepared transactions: KIP-939.
        """
        with self._lock, self._timed("txn-init"):
            self._need("init_transactions").init(keep_prepared=keep_prepared_transaction)

    def begin_transaction(self) -> None:
        """Begin a transaction. The log hears of it with `flush` or `commit_transaction`.

        Raises
        ------
        IllegalStateError
            ``transactional.id`` is not set, `init_transactions` is missing, a transaction has begun already, or the
            producer is closed.
        ProducerFencedError
            The producer was fenced before. Close it.
        """
        with self._lock, self._timed("txn-begin"):
            self._need("begin_transaction").begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit offsets of a consumer group together with the transaction, or not at all.

        Parameters
        ----------
        offsets
            The next offset to read, by partition: the offset of the last processed record plus one.
        group_metadata
            `Consumer.group_metadata` of the consumer that read the records. The id of a group is enough if the group
            has no members.

        Raises
        ------
        ConfigError
            The id of the group is empty.
        InvalidRequestError
            The offsets or the group are given in another form.
        UnknownTopicOrPartitionError
            The log has no such topic or partition, or the topic was created again since the consumer read it. Call
            `abort_transaction`.
        CommitFailedError
            The group was rebalanced, and the consumer may have lost its partitions. Call `abort_transaction`, and go
            on with the partitions that the consumer is assigned then.
        ProducerFencedError
            A newer producer has taken over ``transactional.id``. Close this one.
        IllegalStateError
            No transaction has begun, or the producer is closed.

        Examples
        --------
        >>> from spark_eos import Consumer, Producer, TopicPartition
        >>> log = "memory://consume-transform-produce"
        >>> with Producer(log) as producer:
        ...     future = producer.send("orders", b"one")
        >>> settings = {"group.id": "copy", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        >>> consumer = Consumer(log, settings)
        >>> consumer.subscribe(["orders"])
        >>> producer = Producer(log, {"transactional.id": "copy-1"})
        >>> producer.init_transactions()
        >>> for record in consumer.poll(1000):
        ...     producer.begin_transaction()
        ...     copied = producer.send("copies", record.value)
        ...     after = {TopicPartition(record.topic, record.partition): record.offset + 1}
        ...     producer.send_offsets_to_transaction(after, consumer.group_metadata())
        ...     producer.commit_transaction()
        >>> copied.result().offset
        0

        Notes
        -----
        KIP-447. The offsets and the records are in one entry of the log.
        """
        if isinstance(group_metadata, str):
            group_metadata = ConsumerGroupMetadata(group_metadata)
        if not isinstance(group_metadata, ConsumerGroupMetadata):
            raise InvalidRequestError(
                f"send_offsets_to_transaction was given {group_metadata!r} as the group: give "
                "consumer.group_metadata(), or the text group.id"
            )
        check_group(group_metadata)
        positions = as_offsets(offsets)
        group = group_metadata.group_id
        if not group:
            raise ConfigError("send_offsets_to_transaction needs the id of a consumer group")
        with self._lock, self._timed("txn-send-offsets"):
            transactions = self._need("send_offsets_to_transaction")
            transactions.check("send_offsets_to_transaction")
            log = self._log()
            # The consumer's own: another topic may have the name by now, and would be read from these offsets on.
            ids = dict(group_metadata.topic_ids)
            places = []
            for at, offset in positions.items():
                topic_id = ids.get(at[0]) or log.topic(at[0]).topic_id
                places.append(PartitionOffset(at[0], topic_id, at[1], offset.offset, offset.metadata))
            transactions.add_offsets(group, group_metadata.membership, places)

    def prepare_transaction(self) -> PreparedTxnState:
        """Make everything of the transaction durable, and leave the decision to another system (KIP-939).

        After it only `complete_transaction`, `commit_transaction` and `abort_transaction` are possible. The
        transaction has no timeout any more: it waits until a producer with this ``transactional.id`` decides, or
        `Admin.force_terminate_transaction` ends it. Until then readers with ``read_committed`` see nothing from its
        first record on in its partitions. `close` leaves it as it is.

        Returns
        -------
        PreparedTxnState
            The token. Store ``str(token)`` in the other system with the commit that decides.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Call `prepare_transaction` again, or close the producer and make a new one.
        AbortableError
            Call `abort_transaction`.
        ProducerFencedError
            A newer producer has taken over, or the transaction was open for longer than
            ``transaction.timeout.ms``. Close the producer.
        IllegalStateError
            No transaction has begun, the producer is closed, or ``transaction.two.phase.commit.enable`` is not set.

        Examples
        --------
        >>> import sqlite3
        >>> from spark_eos import Producer
        >>> database = sqlite3.connect(":memory:")
        >>> _ = database.executescript("CREATE TABLE sales (item); CREATE TABLE tokens (token)")
        >>> settings = {"transactional.id": "till-1", "transaction.two.phase.commit.enable": True}
        >>> producer = Producer("memory://prepare-transaction", settings)
        >>> producer.init_transactions(keep_prepared_transaction=True)
        >>> producer.begin_transaction()
        >>> sold = producer.send("sales", b"apple")
        >>> token = producer.prepare_transaction()
        >>> with database:  # Both in one commit: it decides.
        ...     _ = database.execute("INSERT INTO sales VALUES ('apple')")
        ...     _ = database.execute("INSERT INTO tokens VALUES (?)", [str(token)])
        >>> producer.complete_transaction(token)

        Notes
        -----
        docs/guide/prepared-transactions.md has the whole program, and what a restart does.
        """
        with self._lock, self._timed("txn-prepare"):
            return self._need("prepare_transaction").prepare()

    def complete_transaction(self, prepared: PreparedTxnState | str | None) -> None:
        """Do what the other system has decided: commit if ``prepared`` is the prepared transaction, else abort it.

        It can be called again after every error and every crash: the same token leads to the same end. After a crash,
        call `init_transactions` with ``keep_prepared_transaction``, read the token of the other system, and hand it
        over. If nothing is prepared (any more), this call changes nothing.

        Parameters
        ----------
        prepared
            The newest token that the other system has committed. None or "": it has none.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Call it again, with the same token.
        ProducerFencedError
            A newer producer has taken over ``transactional.id``; it completes the transaction.
        InvalidTxnStateError
            The token is of a transaction that the log has aborted, since it was forced to; or of one that the log does
            not know, since it was restored from a backup. What the other system has committed is not in the log. Or the
            log has committed a newer transaction than that of the token: the other system was put back. Nothing was
            changed.
        ConfigError
            That is no token.
        IllegalStateError
            `init_transactions` is missing, a transaction is open that was not prepared, an end of the other kind is
            under way, or the producer is closed.

        See Also
        --------
        prepare_transaction : makes the token.
        """
        with self._lock, self._timed("txn-complete"):
            self._need("complete_transaction").complete(prepared)

    def commit_transaction(self) -> None:
        """Make the records and offsets of the transaction visible, all at once. Returns when they are durable.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Only `commit_transaction` is allowed next. It commits once, however often it is
            called.
        CommitOutcomeLostError
            It can no longer be found out whether an earlier call has committed. Close the producer.
        AbortableError
            Call `abort_transaction`. Every error with ``txn_requires_abort`` means that.
        ProducerFencedError
            A newer producer has taken over, or the transaction was open for longer than
            ``transaction.timeout.ms``. Every error with ``fatal`` means: close the producer.
        IllegalStateError
            No transaction has begun, or the producer is closed.

        Examples
        --------
        >>> from spark_eos import Producer
        >>> with Producer("memory://commit-transaction", {"transactional.id": "orders-1"}) as producer:
        ...     producer.init_transactions()
        ...     producer.begin_transaction()
        ...     first, second = producer.send("orders", b"one"), producer.send("payments", b"1 EUR")
        ...     producer.commit_transaction()
        >>> first.result().offset, second.result().offset
        (0, 0)

        Notes
        -----
        What happens when a reply is lost: docs/design/0001-protocol.md.
        """
        with self._lock:
            with self._timed("txn-commit"):
                self._need("commit_transaction").commit()
            self._log().expire_overdue()

    def abort_transaction(self) -> None:
        """End the transaction without its records and offsets: ``read_committed`` readers never see them.

        Raises
        ------
        CommitOutcomeUnknownError
            The store did not answer. Only `abort_transaction` is allowed next.
        ProducerFencedError
            A newer producer has taken over ``transactional.id``; it has ended the transaction.
        IllegalStateError
            No transaction has begun, or the producer is closed.
        """
        with self._lock, self._timed("txn-abort"):
            self._need("abort_transaction").abort()
