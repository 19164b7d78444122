"""Is killed while its transaction, whose timeout is a second, is open."""

import os
import signal
import sys

from spark_eos import Producer

producer = Producer(sys.argv[1], {"transactional.id": "dies", "transaction.timeout.ms": 1000})
producer.init_transactions()
producer.begin_transaction()
producer.send("t", b"never", partition=0)
producer.flush()
os.kill(os.getpid(), signal.SIGKILL)
