"""A writer on a machine until a file is there: says how many records it has sent. "cut off", it reaches nobody."""

import json
import sys
from pathlib import Path

from spark_eos import Log, Producer
from spark_eos.extensions.machines.client import HttpsPeer
from spark_eos.extensions.machines.open import NetworkChannel
from spark_eos.storage import Settings

url, name, settings, stop = sys.argv[1:]
if name == "cut off":
    HttpsPeer.exchange = NetworkChannel._open = lambda *_: None
sent = 0
log = Log.open(url, settings=Settings({**json.loads(settings), "machines.listen": "127.0.0.1"}))
with Producer(log) as producer:
    while not Path(stop).exists():
        producer.send("t", f"{name} {sent}".encode(), partition=0).result()
        sent += 1
print(sent)
