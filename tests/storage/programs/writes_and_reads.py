"""A record in a transaction, and what a consumer finds."""

import sys

from spark_eos import Consumer, Producer, TopicPartition

url = sys.argv[1]
with Producer(url, {"transactional.id": "t"}) as producer:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"1")
    producer.commit_transaction()
with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
    consumer.assign([TopicPartition("t", 0)])
    print([record.value for record in consumer.poll(1000)])
