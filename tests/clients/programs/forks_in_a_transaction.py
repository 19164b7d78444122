"""A child ends with all the cleaning up of an interpreter, which closes its producer; its parent says how it ended."""

import atexit
import os
import sys
import warnings

from spark_eos import Producer

producer = Producer(sys.argv[1], {"transactional.id": "x", "buffer.memory": 1000})
producer.init_transactions()
producer.begin_transaction()
for _ in range(20):
    producer.send("t", bytes(500))
atexit.register(producer.close)
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: there may be threads.
if os.fork() == 0:
    sys.exit()
_, status = os.wait()
producer.commit_transaction()
atexit.unregister(producer.close)
print(status)
