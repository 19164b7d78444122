"""Submits to a group; a child begins and ends; says how many submissions are there then."""

import os
import sys
from pathlib import Path

from spark_eos.storage.group_channel import FileGroupChannel

folder = sys.argv[1]
channel = FileGroupChannel(folder)
print(channel.try_lead())
channel.submit(b"x")
sys.stdout.flush()
child = os.fork()
if child:
    os.waitpid(child, 0)
    print(len([*Path(folder).glob("submission-*")]))
