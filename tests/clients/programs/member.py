"""A member of a group, as a program: handles topic "in" until a file called "stop" appears next to the log.

``print`` prints each value and commits afterwards: at least once. ``copy`` copies to topic "out" in
transactions that carry the offsets: exactly once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import AbortableError, CommitFailedError

url, how, strategy = sys.argv[1:]
SETTINGS = {
    "group.id": "workers",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "max.poll.records": 20,
    "partition.assignment.strategy": strategy,
    "session.timeout.ms": 3_000,
    "heartbeat.interval.ms": 200,
}


def say(word, records):
    for record in records:
        print(word, record.partition, record.offset, record.value.decode(), flush=True)


def rewind(consumer):
    for at, committed in consumer.committed(consumer.assignment()).items():
        consumer.seek(at, 0 if committed is None else committed)


def copy(consumer, producer, records):
    producer.begin_transaction()
    for record in records:
        producer.send("out", record.value)
    try:
        ends = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        producer.commit_transaction()
    except AbortableError as error:
        print("aborted:", error, flush=True)
        producer.abort_transaction()
        rewind(consumer)
    else:
        say("did", records)


with (
    Producer(url, {"transactional.id": f"copy-{os.getpid()}"}) as producer,
    Consumer(url, SETTINGS) as consumer,
):
    producer.init_transactions()
    consumer.subscribe(["in"], on_assign=lambda _, got: print("assigned", len(got), flush=True))
    while not Path(url, "..", "stop").exists():
        records = consumer.poll(timeout_ms=200)
        if not records:
            continue
        if how == "copy":
            copy(consumer, producer, records)
            continue
        say("did", records)
        try:
            consumer.commit()
        except CommitFailedError as error:
            print("not committed:", error, flush=True)
