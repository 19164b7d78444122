"""Commits transactions of a record each."""

import sys

from spark_eos import Producer

url, name, count = sys.argv[1:]
producer = Producer(url, {"transactional.id": name})
producer.init_transactions()
for number in range(int(count)):
    producer.begin_transaction()
    producer.send("t", f"{name}-{number}")
    producer.commit_transaction()
