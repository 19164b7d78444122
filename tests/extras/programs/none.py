"""No extra: a transaction, a consumer, Avro, Arrow, and the command."""

import subprocess
import sys
from pathlib import Path

from spark_eos import Consumer, Producer, TopicPartition, read_arrow

with Producer("log", {"transactional.id": "clerk"}) as producer:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"one", key=b"k")
    producer.commit_transaction()

with Consumer("log", {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as consumer:
    consumer.assign([TopicPartition("orders", 0)])
    assert [record.value for record in consumer.poll(1000)] == [b"one"]
assert read_arrow("log", "orders").read_all()["value"].to_pylist() == [b"one"]

eoslog = Path(sys.executable).with_name("eoslog")
for command in (["consume", "log", "orders", "--from-beginning"], ["verify", "log"], ["status", "log"]):
    print(subprocess.run([eoslog, *command], check=True, capture_output=True, text=True).stdout)
