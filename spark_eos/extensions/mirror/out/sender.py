"""Sends cuts of the log: records, map and position in one Kafka transaction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_eos.config.isolation import Isolation
from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.extensions.mirror.out.covered import Covered
from spark_eos.extensions.mirror.out.opening import Opening
from spark_eos.extensions.mirror.out.position import Head, Sent
from spark_eos.extensions.mirror.out.producer import AbortedError, KafkaTransaction, TransactionalProducer
from spark_eos.extensions.mirror.out.sending import Offsets, map_rows, rows_of, runs_between
from spark_eos.extensions.mirror.out.topics import OutTopic, OutTopics
from spark_eos.log.data.planner import Fetch, plan
from spark_eos.log.data.records import Records
from spark_eos.log.handle.missing import error_of_missing
from spark_eos.log.log import Log
from spark_eos.log.selection.whole_transactions import Cut
from spark_eos.protocol.state import PartitionKey, Topic
from spark_eos.protocol.types import TopicPartition


class Sender:
    """Sends for one mirror. ``topics`` are by the log's topic id, ``ends`` Kafka's offsets after the last record."""

    def __init__(
        self,
        log: Log,
        producer: TransactionalProducer,
        opening: Opening,
        kafka_topics: OutTopics,
    ) -> None:
        self._log = log
        self._producer = producer
        self._opening = opening
        self._kafka_topics = kafka_topics
        self.topics: dict[str, OutTopic] = {}
        self.ends: dict[PartitionKey, int] = {}

    def fetches(self, before: Cut, cut: Cut, covered: Covered) -> list[tuple[PartitionKey, Fetch]]:
        """What has to be read for the records between two cuts."""
        all_fetches = []
        for key in sorted(cut):
            at = TopicPartition(self.topics[key[0]].topic, key[1])
            for first, end in covered.rest(key, before[key], cut[key]):
                fetches = plan(self._log.state, at, first, end, Isolation.READ_COMMITTED, self._log.load)
                all_fetches += [(key, fetch) for fetch in fetches]
        return all_fetches

    def begin(self, head: Head, cut: Cut) -> None:
        """Write down where all topics begin."""
        transaction = self._producer.begin()
        try:
            self._write_positions(transaction, head, cut, {*self.topics}, self.ends)
            transaction.flush()
        except BaseException:
            self._producer.abort()
            raise
        self._producer.commit()

    def send(self, head: Head, before: Cut, cut: Cut, fetches: list[tuple[PartitionKey, Fetch]]) -> int:
        """Send what is between two cuts. Returns how many records.

        After `AbortedError` and other errors that may be retried, nothing of it is in Kafka. After
        `CommitOutcomeUnknownError` and `ProducerFencedError` that is not known, and the process has to end.
        """
        moved = {key[0] for key in cut if cut[key] != before[key]}
        ends = dict(self.ends)
        count = 0
        transaction = self._producer.begin()
        try:
            for key, offsets in self._send_records(transaction, fetches).items():
                self._write_map(transaction, key, offsets, before[key], ends)
                count += len(offsets)
            self._write_positions(transaction, head, cut, moved, ends)
            transaction.flush()
            self.check_kafka(moved)
        except BaseException:
            self._producer.abort()
            raise
        self._producer.commit()
        self.ends = ends
        return count

    def _send_records(
        self, transaction: KafkaTransaction, fetches: list[tuple[PartitionKey, Fetch]]
    ) -> dict[PartitionKey, Offsets]:
        """The log's offsets of the records, once these have offsets in Kafka."""
        offset_parts: dict[PartitionKey, list[Offsets]] = {}
        state = self._log.state
        for key, fetch in fetches:
            topic = self.topics[key[0]]
            records = self._read(state.topics[topic.topic], fetch)
            offset_parts.setdefault(key, []).append(records.offsets)
            transaction.send(topic.kafka, key[1], rows_of(records, f"{topic.topic}-{key[1]}"))
        transaction.flush()
        return {key: np.concatenate(parts) for key, parts in offset_parts.items()}

    def _read(self, topic: Topic, fetch: Fetch) -> Records:
        """Raises `AbortedError` for a file that was replaced since: the newest state names others."""
        try:
            return self._log.read(topic, fetch)
        except ObjectNotFoundError as error:
            reason = error_of_missing(self._log, fetch, error, "Its records were rewritten since")
            if isinstance(reason, CorruptRecordError):
                raise reason from error
            raise AbortedError(str(reason)) from error

    def _write_map(
        self,
        transaction: KafkaTransaction,
        key: PartitionKey,
        log: Offsets,
        before: int,
        ends: dict[PartitionKey, int],
    ) -> None:
        topic = self.topics[key[0]]
        kafka = np.array(transaction.offsets.get((topic.kafka, key[1]), ()), np.int64)
        if len(kafka) != len(log):
            raise AbortedError(f"{len(kafka)} of {len(log)} records of {topic.kafka}-{key[1]} have an offset")
        runs = runs_between(kafka, log)
        end = None if ends.get(key, -1) < 0 else (ends[key], before)
        for row in map_rows(end, runs):
            transaction.note(topic.map, key[1], None, row.data)
        if runs:
            ends[key] = runs[-1].end[0]

    def _write_positions(
        self,
        transaction: KafkaTransaction,
        head: Head,
        cut: Cut,
        topics: set[str],
        ends: Mapping[PartitionKey, int],
    ) -> None:
        transaction.note(self._opening.topic, 0, *head.record)
        for topic_id in sorted(topics):
            transaction.note(self._opening.topic, 0, *self.sent(topic_id, cut, ends).record)

    def sent(self, topic_id: str, cut: Cut, ends: Mapping[PartitionKey, int]) -> Sent:
        """Up to where a topic is sent, at a cut."""
        topic = self.topics[topic_id]
        keys = sorted(key for key in cut if key[0] == topic_id)
        return Sent(
            topic.topic,
            topic_id,
            topic.kafka,
            topic.kafka_id,
            tuple(cut[key] for key in keys),
            tuple(ends.get(key, -1) for key in keys),
        )

    def check_kafka(self, topic_ids: set[str]) -> None:
        """Raise if a topic of Kafka is another one now."""
        kafka_ids = {self._opening.topic: self._opening.positions_id}
        for topic_id in topic_ids:
            topic = self.topics[topic_id]
            kafka_ids |= {topic.kafka: topic.kafka_id, topic.map: topic.map_id}
        self._kafka_topics.check_ids(kafka_ids, self._log.clock)
