"""A child that is forked while records wait ends at once; says which records its parent still has then."""

import os
import sys
import warnings

from spark_eos import Producer

producer = Producer(sys.argv[1], linger_ms=60_000, batch_size=1_000_000)
for number in range(int(sys.argv[2])):
    producer.send("t", b"%d" % number)
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: there are threads.
if not os.fork():
    sys.exit()
os.wait()
print(producer._sender.taken.buffers, len(producer._waiting.pending.buffers))
