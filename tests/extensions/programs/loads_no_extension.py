"""Writes a row and reads it, and prints the extensions that were loaded for it."""

import sys

from spark_eos import Admin, Consumer, Producer

log = sys.argv[1]
with Producer(log) as producer:
    producer.send("orders", b"one").get()
with Consumer(log, {"group.id": "audit", "auto.offset.reset": "earliest"}) as consumer:
    consumer.subscribe(["orders"])
    assert [record.value for record in consumer.poll(10_000)] == [b"one"]
Admin(log).describe_topics()
print(*(name for name in sys.modules if name.startswith("spark_eos.extensions")))
