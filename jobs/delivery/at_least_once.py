"""At least once: work, then commit the positions. Nothing is lost; what a crash interrupts comes twice.

    python jobs/delivery/at_least_once.py LOG --from flights --to departures --group loader

For results that may be repeated: their readers overwrite by key, or take the maximum, or do not mind.
"""

from __future__ import annotations

from common import Transform, again, batches, open_consumer, positions, produce, program, seek_to_committed

from spark_eos import Log, Producer


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
    count = 0
    # flush() sends a batch as a whole; the timer would only cut it into more entries.
    with Producer(log, {"linger.ms": 1000}) as producer, open_consumer(log, source, group) as consumer:
        seek_to_committed(consumer)
        for records in batches(consumer, max_records, until_end=until_end):
            sent = produce(producer, target, transform, records)
            producer.flush()
            for future in sent:
                future.result()  # An error ends the run before the commit: the next one makes the batch again.
            again(lambda: consumer.commit(positions(consumer)))
            count += len(records)
    return count


if __name__ == "__main__":
    program(run, "at_least_once", "the topic to write")
