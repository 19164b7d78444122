"""A transactional writer: each transaction has one row in each partition of each topic, or is aborted."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pyarrow as pa

from spark_eos import Admin, Producer

__all__ = ["BRIEF", "EVENTS", "KEYS", "NEWEST", "ORDERS", "PARTITIONS", "make_topics"]

EVENTS, ORDERS, BRIEF, NEWEST = "events", "orders", "brief", "newest"
"""Keys and values; columns of its own; kept for two seconds; one row for each key."""
PARTITIONS = 2
KEYS = 7
_TYPED = pa.schema([("tx", pa.int64()), ("name", pa.string())])


def make_topics(admin: Admin) -> None:
    """The topics, with the smallest ages that there are."""
    at_once = {"file.delete.delay.ms": 0}
    admin.create_topic(EVENTS, PARTITIONS, config=at_once)
    admin.create_topic(ORDERS, PARTITIONS, config=at_once, schema=_TYPED)
    admin.create_topic(BRIEF, PARTITIONS, config={**at_once, "retention.ms": 2000})
    admin.create_topic(NEWEST, PARTITIONS, config={**at_once, "cleanup.policy": "compact"})


def main(url: str, name: str, stop: Path) -> None:
    """Write until the file ``stop`` is there."""
    chance = random.Random()
    with Producer(url, {"transactional.id": name}) as producer:
        producer.init_transactions()
        while not stop.exists():
            tx = time.time_ns()
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                text = b"%d" % tx
                key = b"%d" % (tx % KEYS)
                for topic in (EVENTS, BRIEF):
                    producer.send(topic, text, key=key, partition=partition)
                producer.send(NEWEST, None if chance.random() < 0.1 else text, key=key, partition=partition)
                row = pa.table({"tx": [tx], "name": [f"name {tx}"], "partition": [partition]})
                producer.send_arrow(ORDERS, row)
                if chance.random() < 0.2:
                    producer.flush()  # Its rows are in the log before its transaction ends.
            if chance.random() < 0.15:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            time.sleep(chance.random() / 20)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
