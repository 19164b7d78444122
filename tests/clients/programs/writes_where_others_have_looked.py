"""Changes all that a handle of a log can be asked for, and ends as if it was killed: its transaction stays open."""

import os
import sys

from spark_eos import Admin, Producer, TopicPartition

url = sys.argv[1]
admin = Admin(url)
admin.alter_topic("t", 3, config={"retention.ms": 9_000_000})
admin.create_topic("new")
admin.alter_log({"offsets.retention.minutes": 1440})
with Producer(url) as producer:
    for number in range(5, 9):
        producer.send("t", b"%d" % number, partition=0, timestamp_ms=number * 1000).result(timeout=60)
admin.delete_records({TopicPartition("t", 0): 2})
admin.alter_group_offsets("g", {TopicPartition("t", 0): 4})
admin.alter_group_offsets("h", {TopicPartition("t", 0): 5})
producer = Producer(url, {"transactional.id": "app"})
producer.init_transactions()
producer.begin_transaction()
producer.send("t", b"open", partition=0)
producer.flush()
os._exit(0)
