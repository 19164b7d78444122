"""Consume, transform, produce, as a member of a consumer group, in transactions that carry the offsets.

Arguments: log, group, transactional.id, topics (with commas), target, prefix of the copies, its notes, a seed.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from spark_eos import Consumer, ConsumerRecord, Producer, TopicPartition
from spark_eos.errors import (
    AbortableError,
    CommitFailedError,
    EosLogError,
    IllegalStateError,
    RetriableError,
)
from verification.chaos.journal import Notes
from verification.chaos.programs.producer import patiently

ABORTED, STREAMED = 0.1, 0.25
SESSION_MS, TRANSACTION_MS = 2_500, 2_500
PAUSE_S = 1.2
"""Inside a transaction: so most kills and freezes hit the middle of one."""


class Copier:
    """One member."""

    def __init__(self, arguments: list[str]) -> None:
        url, group, transactional_id, topics, self.target, self.prefix, notes, seed = arguments
        self.notes = Notes(Path(notes))
        self.chance = random.Random(seed)
        self.topics = topics.split(",")
        self.consumer = Consumer(
            url,
            {
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "max.poll.records": 100,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 400,
                "default.api.timeout.ms": 10_000,
                "partition.assignment.strategy": "range,cooperative-sticky",
            },
        )
        self.producer = Producer(
            url, {"transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_MS}
        )

    def run(self) -> None:
        """Until it is fenced or something fails that it does not get over."""
        patiently(self.producer.init_transactions)
        self.consumer.subscribe(self.topics)
        self.notes.add("ready")
        while True:
            try:
                records = self.consumer.poll(timeout_ms=200)
            except (RetriableError, CommitFailedError) as error:
                self.trouble(error)
                time.sleep(0.1)
                continue
            if records:
                self.copy(records)

    def copy(self, records: list[ConsumerRecord]) -> None:
        """All of them in one transaction."""
        producer, chance = self.producer, self.chance
        after = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
        streamed = chance.random() < STREAMED
        try:
            producer.begin_transaction()
            for number, one in enumerate(records):
                assert one.value is not None
                producer.send(self.target, self.prefix.encode() + one.value, key=one.key)
                if streamed and number == len(records) // 2:
                    producer.flush()
            producer.send_offsets_to_transaction(after, self.consumer.group_metadata())
            time.sleep(PAUSE_S * (0.3 + chance.random()))
            if chance.random() < ABORTED:
                patiently(producer.abort_transaction)
                self.rewind()
                return
            patiently(producer.commit_transaction)
        except (AbortableError, RetriableError) as error:
            self.trouble(error)
            patiently(producer.abort_transaction)
            self.rewind()

    def rewind(self) -> None:
        """Back to what the group has committed: the positions have moved on by themselves."""
        known = None
        while known is None:
            try:
                known = self.consumer.committed(self.consumer.assignment())
            except RetriableError:
                time.sleep(0.1)
        for at, committed in known.items():
            try:
                self.consumer.seek(at, 0 if committed is None else committed)
            except IllegalStateError:
                continue  # lost to another member meanwhile

    def trouble(self, error: EosLogError) -> None:
        """Note what went wrong without an end."""
        self.notes.add("error", error=type(error).__name__, text=str(error)[:400])


def main() -> int:
    """1 after an error: it has no other end."""
    copier = Copier(sys.argv[1:])
    try:
        copier.run()
    except EosLogError as error:
        copier.notes.add("ended", error=type(error).__name__, text=str(error)[:400])
    return 1


if __name__ == "__main__":
    sys.exit(main())
