"""A process on a machine of its own, which creates topics and says each that it has created.

With the network "cut off" it reaches no other machine. Each create takes so many seconds.
"""

import sys
from itertools import count
from pathlib import Path

from spark_eos.extensions.machines.client import HttpsPeer
from spark_eos.extensions.machines.open import NetworkChannel
from spark_eos.log.log import Log
from spark_eos.protocol.actions import CreateTopic
from tests.extensions.machines.test_machines import MachineStore

folder, machine, network, create_s = sys.argv[1:]
if network == "cut off":
    HttpsPeer.exchange = NetworkChannel._open = lambda *_: None
log = Log.open(MachineStore(Path(folder), machine, float(create_s)))
group = log._parts.committer._group
group.note_contention()
for number in count(1):
    topic = CreateTopic(f"t-{machine}-{number}", f"id-t-{machine}-{number}", 1)
    group.note_contention()
    log.commit(lambda _, topic=topic: (topic,))
    print(topic.name, flush=True)
