"""A declarative pipeline copies a topic."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from spark_eos import Consumer, Producer, TopicPartition

LOG = Path("log").absolute()
with Producer(LOG) as producer:
    producer.send("orders", b"one")

shutil.copytree(Path(__file__).parents[1] / "steps", "steps")
Path("spark-pipeline.yml").write_text(
    f"name: copies\nstorage: {Path('storage').absolute().as_uri()}\nlibraries:\n  - glob:\n      include: steps/**\n"
)
command = [Path(sys.executable).with_name("spark-pipelines"), "run", "--spec", "spark-pipeline.yml"]
subprocess.run(command, env={**os.environ, "SPARK_TESTING": "1", "LOG": str(LOG)}, check=True)

with Consumer(LOG, {"auto.offset.reset": "earliest"}) as consumer:
    consumer.assign([TopicPartition("copies", 0)])
    assert [record.value for record in consumer.poll(1000)] == [b"one"]
