"""A child has its parent's clients, in the middle of a transaction: says how often it is refused.

The upload of its parent is left alone: the transaction is committed afterwards.
"""

import os
import signal
import sys

from spark_eos import Producer
from spark_eos.errors import IllegalStateError
from spark_eos.log.topics import new_topic

settings = {"gcs.service.host": sys.argv[1], "gcs.no-auth": "true"}
producer = Producer("gs://bucket/log", {"transactional.id": "x", "buffer.memory": 1000, **settings})
producer.init_transactions()
producer.begin_transaction()
for _ in range(4):
    producer.send("t", bytes(1000))
log = producer._log()
child = os.fork()
if not child:
    signal.alarm(60)  # Should it hang.
    refused = 0
    for call in (
        lambda: producer.send("t", b""),
        lambda: log.commit(lambda _: (new_topic("u"),)),
        log.follow,
        lambda: Producer(log).send("t", b"").result(60),
        lambda: Producer("gs://bucket/log", settings).send("t", b"").result(60),
    ):
        try:
            call()
        except IllegalStateError as error:
            refused += "spawn" in str(error)
    producer.close()
    sys.exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
producer.commit_transaction()
print("done")
