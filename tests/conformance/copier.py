"""What each process of test_copier.py does, after Kafka's TransactionalMessageCopier."""

from __future__ import annotations

import random
import signal

from spark_eos import Consumer, Producer, TopicPartition

AT_MOST = 300


def copy(url, number, mode, seed, ready, bound):
    """Copy input partition ``number``, or what the group assigns, in transactions of random size.

    Some of them are aborted. It stops cleanly when it is asked to (SIGTERM). ``mode``: "group id" or "group
    metadata". At ``bound`` in a partition it reads no further.
    """
    rng = random.Random(f"{seed} {number}")
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    ready.set()
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
            reader.assign([TopicPartition("in", number)])
        while not stopping:
            for at in reader.assignment():  # It goes on to poll: that is what keeps it in its group.
                (reader.pause if reader.position(at) >= bound.value else reader.resume)([at])
            found = reader.poll(timeout_ms=100, max_records=rng.randint(1, AT_MOST))
            if not found:
                continue
            producer.begin_transaction()
            for record in found:
                producer.send("out", record.value, key=record.value)
                if not rng.randrange(100):
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
