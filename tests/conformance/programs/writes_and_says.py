"""Sends numbers, and says each with its offset when it is acknowledged."""

import sys

from spark_eos import Producer

producer = Producer(sys.argv[1], {"linger.ms": 0})
for n in range(1_000_000):
    found = producer.send("t", str(n)).result(60)
    print(n, found.offset, flush=True)
