"""Sends records until the log is closed: says how many were acknowledged, and whether the error tells why."""

import sys
from itertools import count

from spark_eos import Producer
from spark_eos.errors import NotALogError

producer = Producer(sys.argv[1], {"linger.ms": 0})
print("ready", flush=True)
for number in count():
    try:
        producer.send("t", b"%d" % number).result()
    except NotALogError as error:
        print(number, "when it was moved" in str(error), flush=True)
        break
