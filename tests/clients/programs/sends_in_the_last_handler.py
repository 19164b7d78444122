"""A handler that was registered before the package was imported, and so is called last, sends three records more.

A producer that it makes then sends another one.
"""

import atexit
import sys


def last():
    for number in range(3):
        producer.send("t", b"last %d" % number)
    Producer(sys.argv[1], linger_ms=60_000).send("t", b"of its own")


atexit.register(last)

from spark_eos import Producer  # noqa: E402

producer = Producer(sys.argv[1])
for number in range(int(sys.argv[2])):
    producer.send("t", b"%d" % number)
