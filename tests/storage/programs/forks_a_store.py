"""A child has the object store of its parent, and wants a new one: says how often it is refused."""

import os
import signal
import sys

from spark_eos.errors import IllegalStateError
from spark_eos.storage import Settings, open_store

settings = Settings({"gcs.service.host": sys.argv[1], "gcs.no-auth": "true"})
store = open_store("gs://bucket/log", settings)
store.create("a", b"1")
calls = [
    lambda: store.read("a"),
    lambda: open_store("gs://bucket/other", settings),
    lambda: [*store.list("")],
]
child = os.fork()
if not child:
    signal.alarm(60)  # Should it hang.
    refused = 0
    for call in calls:
        try:
            call()
        except IllegalStateError as error:
            refused += "spawn" in str(error)
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
