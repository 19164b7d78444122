"""The program of test_copier.py, after Kafka's TransactionalMessageCopier: one input partition into a topic.

    copier.py <url> <number> <group id | group metadata> <seed>

It copies what it is given in transactions of random size, aborts some of them, and stops cleanly when it is
asked to (SIGTERM) or when nothing is left.
"""

from __future__ import annotations

import random
import signal
import sys

from spark_eos import Consumer, Producer, TopicPartition

AT_MOST = 750


def main(url, number, mode, seed):
    rng = random.Random(f"{seed} {number}")
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    config = {
        "group.id": "copiers",
        "group.instance.id": f"copier-{number}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    producer = Producer(url, {"transactional.id": f"copier-{number}"})
    producer.init_transactions()
    with Consumer(url, config) as reader, producer:
        if mode == "group metadata":
            reader.subscribe(["in"])
        else:
            reader.assign([TopicPartition("in", int(number))])
        idle = 0
        while not stopping and idle < 10:
            found = reader.poll(timeout_ms=100, max_records=rng.randint(1, AT_MOST))
            idle = 0 if found else idle + 1
            if not found:
                continue
            producer.begin_transaction()
            for record in found:
                producer.send("out", record.value, key=record.value)
                if not rng.randrange(300):
                    producer.flush()
            positions = {at: reader.position(at) for at in reader.assignment()}
            producer.send_offsets_to_transaction(
                positions, reader.group_metadata() if mode == "group metadata" else "copiers"
            )
            if rng.randrange(4):
                producer.commit_transaction()
                continue
            producer.abort_transaction()
            for at, known in reader.committed(reader.assignment()).items():
                reader.seek(at, known.offset if known else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
