"""At most once: commit the positions, then work. What a crash interrupts is lost; nothing comes twice.

    python jobs/delivery/at_most_once.py LOG --from flights --to departures --group sampler

For what is worthless when it is late, or must never be repeated: alarms, samples, one-time passwords.
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
            # Certain before the first record is touched: a commit in doubt is repeated, not passed over.
            again(lambda: consumer.commit(positions(consumer)))
            sent = produce(producer, target, transform, records)
            producer.flush()
            for future in sent:
                future.result()  # An error ends the run: what failed is lost, but not in silence.
            count += len(records)
    return count


if __name__ == "__main__":
    program(run, "at_most_once", "the topic to write")
