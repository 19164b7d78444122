"""Exactly once: results and positions in one transaction, which is there as a whole or not at all.

    python jobs/delivery/exactly_once.py LOG --from flights --to departures --group billing

From one log into the same log. Readers of the results set ``isolation.level=read_committed``. The group's name
is also the ``transactional.id``: a second run fences the first one.
"""

from __future__ import annotations

from common import Transform, again, batches, open_consumer, positions, produce, program, seek_to_committed

from spark_eos import Consumer, ConsumerRecord, Log, Producer, TopicPartition
from spark_eos.errors import AbortableError

ABORTS = 3
"""Attempts for each record. What still fails then is permanent, such as a record that is too large."""


def run(
    log: str | Log,
    source: str,
    target: str,
    group: str,
    transform: Transform,
    *,
    max_records: int = 500,
    until_end: bool = False,
) -> int:
    """Read topic ``source``, write topic ``target``; how many records were read."""
    count = aborts = 0
    behind: dict[TopicPartition, int] = {}
    with (
        Producer(log, {"transactional.id": group}) as producer,
        open_consumer(log, source, group) as consumer,
    ):
        # Before the positions are asked for: from here on no earlier run can move them any more.
        again(producer.init_transactions)
        seek_to_committed(consumer)
        for records in batches(consumer, max_records, until_end=until_end):
            try:
                _transact(producer, consumer, records, target, transform)
            except AbortableError:
                aborts, behind = aborts + 1, positions(consumer)
                if aborts == ABORTS:
                    raise
                again(producer.abort_transaction)
                # The consumer has moved on by itself: without this the batch would be left out.
                seek_to_committed(consumer)
            else:
                count += len(records)
                if all(offset >= behind.get(at, 0) for at, offset in positions(consumer).items()):
                    aborts = 0  # all that was aborted is done by now
    # Fatal errors (ProducerFencedError: a newer run has taken over) end up here and end the run.
    return count


def _transact(
    producer: Producer, consumer: Consumer, records: list[ConsumerRecord], target: str, transform: Transform
) -> None:
    producer.begin_transaction()
    produce(producer, target, transform, records)
    moved = positions(consumer)
    again(lambda: producer.send_offsets_to_transaction(moved, consumer.group_metadata()))
    # After CommitOutcomeUnknownError only the same verb is right: an abort could contradict what is done.
    again(producer.commit_transaction)


if __name__ == "__main__":
    program(run, "exactly_once", "the topic to write")
