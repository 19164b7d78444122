"""Exactly once into a system that cannot keep our offsets, but refuses a delivery that it has had.

    python jobs/delivery/application_transaction_id.py LOG --from flights --to inbox.sqlite --group courier

Each delivery has an id: a writer (group, topic, partition) and a version that only rises (the offset after its
last record), as Delta's ``txnAppId`` and ``txnVersion``. That is good for something only if a crash cannot cut
the records into other deliveries. So the cut is written down first: the group's offset says where the delivery
begins, its metadata (``until 1234``) where it ends; then it is made, and the next plan says that it is done. A
new run makes a planned delivery again, with the same records under the same id, before it plans another one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial

from common import Result, Transform, again, open_consumer, program, transaction, wait

from spark_eos import Admin, Consumer, ConsumerRecord, Log, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import InvalidRequestError

TABLES = """
    CREATE TABLE IF NOT EXISTS results (key BLOB, value BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS deliveries (writer TEXT PRIMARY KEY, version INTEGER NOT NULL);
"""

Plan = dict[TopicPartition, tuple[int, int]]
"""The next delivery of each partition: its first offset, and the one after its last."""


class Receiver:
    """The outside system, here in SQLite. It takes a delivery as a whole or not at all."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        for statement in TABLES.split(";")[:-1]:
            database.execute(statement)

    def deliver(self, writer: str, version: int, results: Iterable[Result]) -> bool:
        """Take the results; False, and nothing is taken, if the writer was at this version before."""
        with transaction(self._database):
            known = self._database.execute("SELECT version FROM deliveries WHERE writer = ?", (writer,))
            if version <= max(known.fetchall(), default=(-1,))[0]:
                return False
            self._database.executemany("INSERT INTO results VALUES (?, ?)", results)
            self._database.execute("INSERT OR REPLACE INTO deliveries VALUES (?, ?)", (writer, version))
            return True


def run(
    log: str | Log,
    source: str,
    target: str,
    group: str,
    transform: Transform,
    *,
    max_records: int = 500,
    until_end: bool = False,
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
) -> int:
    """Read topic ``source``, deliver to the receiver in ``target``; how many records were read.

    A delivery has at most ``max_records`` offsets of one partition.
    """
    count = 0
    # The producer writes plans and nothing else. It is transactional so that an older run is fenced: two runs
    # that plan for themselves would cut the records in two ways.
    with (
        closing(connect(target, isolation_level=None)) as database,
        Producer(log, {"transactional.id": group}) as producer,
        open_consumer(log, source, group) as consumer,
    ):
        receiver = Receiver(database)
        # By the topic's id: the versions of one that is created again start over.
        writer = f"{group}/{Admin(log).describe_topic(source).topic_id}"
        again(producer.init_transactions)
        places, plan = _resume(consumer)
        while True:
            for at, (start, until) in plan.items():
                records = _read(consumer, at, start, until)
                results = [result for result in map(transform, records) if result is not None]
                receiver.deliver(f"{writer}/{at.partition}", until, results)
                places[at] = until
                count += len(records)
            done, plan = plan, _next_plan(consumer, places, max_records)
            if done or plan:
                _write_down(producer, consumer, places, plan)
            elif until_end:
                return count
            else:
                wait()


def _resume(consumer: Consumer) -> tuple[dict[TopicPartition, int], Plan]:
    """Where the group is, and the deliveries that were planned there: they may have been made, or not."""
    partitions = sorted(consumer.assignment())
    places, plan = consumer.beginning_offsets(partitions), {}
    for at, committed in again(lambda: consumer.committed(partitions)).items():
        if committed is None:
            continue
        places[at] = committed.offset
        if committed.metadata:
            planned = re.fullmatch(r"until (\d+)", committed.metadata)
            if planned is None:
                raise InvalidRequestError(
                    f"the offset of {at} has the metadata {committed.metadata!r}: another program uses this group"
                )
            plan[at] = (committed.offset, int(planned[1]))
    return places, plan


def _next_plan(consumer: Consumer, places: dict[TopicPartition, int], max_records: int) -> Plan:
    ends = again(lambda: consumer.end_offsets(places))
    return {
        at: (start, min(start + max_records, ends[at])) for at, start in places.items() if start < ends[at]
    }


def _write_down(
    producer: Producer, consumer: Consumer, places: dict[TopicPartition, int], plan: Plan
) -> None:
    """Make the plan durable; it also says that the one before is done."""
    offsets = {
        at: OffsetAndMetadata(place, f"until {plan[at][1]}" if at in plan else "")
        for at, place in places.items()
    }
    producer.begin_transaction()
    again(lambda: producer.send_offsets_to_transaction(offsets, consumer.group_metadata()))
    again(producer.commit_transaction)


def _read(consumer: Consumer, at: TopicPartition, start: int, until: int) -> list[ConsumerRecord]:
    """The committed records from ``start`` to before ``until``: below the last stable offset, always the same."""
    consumer.pause(*consumer.assignment())
    consumer.resume(at)
    consumer.seek(at, start)
    records: list[ConsumerRecord] = []
    # Control batches and aborted records take offsets too, so the position says when it is the end.
    while (left := until - consumer.position(at)) > 0:
        found = again(partial(consumer.poll, 0, left))
        records += [record for record in found if record.offset < until]
    return records


if __name__ == "__main__":
    program(run, "application_transaction_id", "the receiver: a file of SQLite")
