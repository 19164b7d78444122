"""Leads a group until its input ends."""

import sys

from spark_eos.storage.group_channel import FileGroupChannel

channel = FileGroupChannel(sys.argv[1])
print(channel.try_lead(), flush=True)
sys.stdin.read()
