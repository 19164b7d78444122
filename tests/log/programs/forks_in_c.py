"""A library in C forks, of which Python is not told: says what the child hears when it commits.

This process has no other threads. One that waits for the interpreter's lock at the fork is not there in the child, and
the child waits for it to take the lock.
"""

import ctypes
import os
import signal
import sys

from spark_eos.errors import IllegalStateError
from spark_eos.log.log import Log
from spark_eos.log.topics import new_topic

log = Log.open_or_create(sys.argv[1])
if ctypes.PyDLL(None).fork() == 0:
    signal.alarm(300)
    try:
        log.commit(lambda _: (new_topic("t", 1, None, None, None),))
    except IllegalStateError as error:
        os.write(1, str(error).encode())
    os._exit(0)
status = os.wait()[1]
assert status == 0, status
assert log.follow().seq == 0
