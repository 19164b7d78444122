"""A writer with the setting on a log in a bucket; a leader, which is handed a request over HTTPS."""

import sys
from pathlib import Path

from spark_eos import Producer
from spark_eos.extensions.machines.client import HttpsPeer
from spark_eos.extensions.machines.message import encode_bundle
from spark_eos.extensions.machines.server import HttpsHost

sys.path.append(str(Path(__file__).parents[3]))  # Behind the wheel: the server is no part of it.
from verification.object_server import ObjectServer, serving

with serving(ObjectServer({"bucket": {}})) as server:
    settings = {
        "s3.endpoint": server.address,
        "s3.access-key-id": "some",
        "s3.secret-access-key": "some",
        "s3.region": "any",
        "machines.listen": "127.0.0.1:0",
    }
    with Producer("s3://bucket/log", settings) as producer:
        producer.send("orders", b"one").result()

host = HttpsHost("127.0.0.1", 0)
host.mailbox.note_lead()
peer = HttpsPeer(host.hint, "0" * 32)
answer = peer.exchange(encode_bundle([b"a request"]), -1)
assert answer is not None
assert answer.leads
assert host.mailbox.submissions() == [b"a request"]
peer.close()
host.close()
