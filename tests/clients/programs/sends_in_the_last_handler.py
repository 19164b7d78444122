"""A handler that was registered before the package was imported, and so is called last, sends three records more.

A producer that it makes then sends another one. With REFUSED as the third argument there are no new threads then, as
from Python 3.12 on in any case.
"""

import atexit
import sys
import threading


def refuse(_):
    raise RuntimeError("can't create new thread at interpreter shutdown")


def last():
    if "REFUSED" in sys.argv:
        threading.Thread.start = refuse
    for number in range(3):
        producer.send("t", b"last %d" % number)
    Producer(sys.argv[1], linger_ms=60_000).send("t", b"of its own")


atexit.register(last)

from spark_eos import Producer  # noqa: E402

producer = Producer(sys.argv[1])
for number in range(int(sys.argv[2])):
    producer.send("t", b"%d" % number)
