"""Says what it finds by one poll."""

import sys

from spark_eos import Consumer, TopicPartition

reader = Consumer(sys.argv[1], {"isolation.level": "read_committed", "auto.offset.reset": "earliest"})
reader.assign([TopicPartition("t", 0)])
print([record.value.decode() for record in reader.poll()])
