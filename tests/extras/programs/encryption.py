"""Data files have no text of the records, and the key reads them."""

import base64
import json
from pathlib import Path

from spark_eos import Consumer, Producer, TopicPartition

Path("keys.json").write_text(json.dumps({"key": base64.b64encode(bytes(32)).decode()}))
settings = {"encryption.keys": f"file:{Path('keys.json').absolute()}", "encryption.key.id": "key"}
with Producer("log", settings) as producer:
    producer.send("orders", b"a secret of the house")
files = [path for path in Path("log/data").rglob("*") if path.is_file()]
assert files
assert not any(b"a secret" in path.read_bytes() for path in files)
with Consumer("log", {**settings, "auto.offset.reset": "earliest"}) as consumer:
    consumer.assign([TopicPartition("orders", 0)])
    assert [record.value for record in consumer.poll(1000)] == [b"a secret of the house"]
