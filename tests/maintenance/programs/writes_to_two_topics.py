"""Transactions of one record in each of two topics, without an end."""

import sys

from spark_eos import Producer
from spark_eos.errors import AbortableError

url, name = sys.argv[1:]
producer = Producer(url, {"transactional.id": name})
producer.init_transactions()
number = 0
print("ready", flush=True)
while True:
    producer.begin_transaction()
    for topic in ("t", "u"):
        producer.send(topic, f"{name} {number}", partition=0)
    try:
        producer.commit_transaction()
        number += 1
    except AbortableError:
        producer.abort_transaction()
