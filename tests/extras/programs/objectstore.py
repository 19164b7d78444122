"""A log in a bucket, of a small server that speaks S3."""

import sys
from pathlib import Path

from spark_eos import Consumer, Producer, TopicPartition

sys.path.append(str(Path(__file__).parents[3]))  # Behind the wheel: the server is no part of it.
from verification.object_server import ObjectServer, serving

with serving(ObjectServer({"bucket": {}})) as server:
    settings = {
        "s3.endpoint": server.address,
        "s3.access-key-id": "some",
        "s3.secret-access-key": "some",
        "s3.region": "any",
    }
    with Producer("s3://bucket/log", settings) as producer:
        producer.send("orders", b"one")
    with Consumer("s3://bucket/log", {**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert [record.value for record in consumer.poll(10_000)] == [b"one"]
