"""Leads a group, forks, and ends when it is told to; the child, whose id it says, lives on."""

import os
import signal
import sys

from spark_eos.storage.group_channel import FileGroupChannel

channel = FileGroupChannel(sys.argv[1])
assert channel.try_lead()
child = os.fork()
if not child:
    signal.alarm(300)
    signal.pause()  # Lives on, and reads nothing of what its parent is told.
print(child, flush=True)
sys.stdin.readline()
os._exit(0)
