"""A leader of machines that commits once for each line. Arguments: the log, how many descriptors it may have."""

import json
import resource
import sys

from spark_eos import Producer
from spark_eos.extensions.machines.server import HttpsHost

descriptors = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
host = HttpsHost("127.0.0.1", 0)
host.mailbox.note_lead()
host.mailbox.publish(7)
print(json.dumps(vars(host.hint)), flush=True)
with Producer(sys.argv[1], {"linger.ms": 0}) as producer:
    for _ in sys.stdin:
        producer.send("t", b"one").result()
        print(len(host.mailbox.submissions()), flush=True)
