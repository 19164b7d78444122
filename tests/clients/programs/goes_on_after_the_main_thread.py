"""A thread goes on when the main one has ended, and makes new clients: `URL THREADS`; with REFUSED none can be started.

Says how many records its consumer has read, and the position that it has committed.
"""

import sys
import threading

from spark_eos import Consumer, Producer, TopicPartition

URL = sys.argv[1]
LINGER_MS = 60_000 if "REFUSED" in sys.argv else 10
"""Without a thread that waits so long each record is sent at once."""


def refuse(_):
    raise RuntimeError("can't create new thread at interpreter shutdown")


def work():
    threading.main_thread().join()
    if "REFUSED" in sys.argv:
        threading.Thread.start = refuse
    with Producer(URL, linger_ms=LINGER_MS) as one:
        one.send("t", b"one").result()
    two = Producer(URL, linger_ms=LINGER_MS)
    two.send("t", b"two")
    two.flush(timeout=60)
    with Consumer(URL, group_id="g", auto_offset_reset="earliest", max_poll_records=1) as consumer:
        consumer.subscribe(["t"])
        count = sum(len(consumer.poll(60_000)) for _ in range(2))
        consumer.commit_async()
        consumer.commit()
        print(count, consumer.committed(TopicPartition("t", 0)))
    two.send("t", b"three")
    two.close(timeout=60)


with Producer(URL) as first:
    first.send("t", b"of the main thread")
threading.Thread(target=work).start()
