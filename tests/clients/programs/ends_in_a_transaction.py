"""Sends in a transaction, and does one thing more before it ends."""

import gc
import sys

from spark_eos import Producer

url, then = sys.argv[1:]
producer = Producer(url, transactional_id="app")
producer.init_transactions()
producer.begin_transaction()
producer.send("t", b"one")
if then == "forget":
    del producer
    gc.collect()
elif then != "nothing":
    getattr(producer, then)()
