"""Commits of a process that has made none before: ``test_imports.py`` runs them, each in a process of its own.

Prints what was loaded after everything had been opened and made. The processes are forks of one that has loaded what
each of them opens, a log.
"""

from __future__ import annotations

import importlib.abc
import json
import os
import pickle
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

from verification.retiring import RETIRED_AT_ONCE

SCENARIOS = {}

QUERY = "0d0b5c76-2e62-4a4c-9ab1-7d0f9b3f8a53"


def scenario(make):
    SCENARIOS[make.__name__] = make
    return make


class Watch(importlib.abc.MetaPathFinder):
    """Hears of every module that is looked for, whether it is there or not."""

    def __init__(self):
        self.heard = []
        self.on = False

    def find_spec(self, name, path=None, target=None):
        if self.on:
            self.heard.append(name)


WATCH = Watch()


@contextmanager
def watched():
    """Here nothing may be loaded, nor a schema be parsed."""
    import fastavro.schema

    before = set(sys.modules)
    parse, fastavro.schema.parse_schema = fastavro.schema.parse_schema, None
    WATCH.on = True
    begun = time.perf_counter()
    yield
    took = time.perf_counter() - begun
    WATCH.on = False
    fastavro.schema.parse_schema = parse
    WATCH.heard += sorted(set(sys.modules) - before - set(WATCH.heard))
    sys.stderr.write(f"heard for {took * 1000:.1f} ms")


@scenario
def idempotent(folder):
    from spark_eos import Producer

    producer = Producer(folder)
    with watched():
        producer.send("t", b"value", key=b"key", headers=[("a", b"b")]).result()
        producer.send("t", b"value", partition=0)
        producer.flush()


@scenario
def transactional(folder):
    from spark_eos import Producer, TopicPartition

    producer = Producer(folder, {"transactional.id": "x", "compression.type": "zstd"})
    producer.init_transactions()
    with watched():
        producer.begin_transaction()
        producer.send("t", b"value", key=b"key")
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
        producer.flush()
        producer.send("t", b"value", timestamp_ms=1)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("t", b"value")
        producer.abort_transaction()


@scenario
def typed(folder):
    import pyarrow as pa

    from spark_eos import Admin, Producer

    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    Admin(folder).create_topic("t", 4, schema=rows.schema, config={"key.columns": "id,name"})
    producer = Producer(folder)
    with watched():
        producer.send_arrow("t", rows)
        producer.flush()


@scenario
def in_group(folder):
    """After others who have the lead, and then ahead of them."""
    from spark_eos import Producer
    from spark_eos.log.log import Log
    from spark_eos.storage import open_store

    log = Log.open_or_create(folder)
    other = open_store(folder).group_channel(log.log_id)
    producer = Producer(log)
    assert other.try_lead()
    with watched():
        sent = threading.Thread(target=lambda: producer.send("t", b"value").result())
        sent.start()
        while not list(other.submissions()):
            time.sleep(0.001)
        other.release_lead()
        sent.join()
        assert log._committer._group.is_contended


@scenario
def snapshot(folder):
    from spark_eos import Producer
    from spark_eos.log.log import Log

    log = Log.create(folder, snapshot_interval=4, config=RETIRED_AT_ONCE)
    producer = Producer(log)
    with watched():
        for _ in range(12):
            producer.send("t", b"value")
            producer.flush()
        log.maintenance.snapshot()
        log.maintenance.retire(log.state, 100)
    assert log.maintenance.retired(log.state)


@scenario
def group(folder):
    from spark_eos import Consumer, Producer

    with Producer(folder) as producer:
        producer.send("t", b"value").result()
    consumer = Consumer(folder, {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    with watched():
        assert consumer.poll(1000)
        consumer.commit()
        consumer.close()


@scenario
def member(folder):
    """A process that only reads, and joins a group for it."""
    from spark_eos import Consumer

    consumer = Consumer(folder, {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    with watched():
        assert consumer.poll(1000)
        consumer.commit()
        consumer.close()


@scenario
def administrator(folder):
    from spark_eos import Admin
    from spark_eos.log.log import Log

    Log.create(folder)
    admin = Admin(folder)
    with watched():
        admin.create_topic("t", 2, config={"retention.ms": "1"})
        admin.alter_topic("t", config={"retention.ms": "2"})
        admin.alter_topic("t", partitions=3)


@scenario
def micro_batch(folder):
    """The sink's writer, as the process makes it that is to commit, and what its tasks have sent to that."""
    checkpoint = Path(folder, "checkpoint")
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
    (checkpoint / "offsets" / "0").write_text(
        'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{"x":1}'
    )
    url = str(Path(folder, "log"))
    messages = pickle.loads(Path(folder, "messages").read_bytes())
    writer = _writer(url, checkpoint)
    with watched():
        writer.commit(messages, 0)
    from spark_eos import Consumer, TopicPartition

    assert list(Consumer(url).end_offsets([TopicPartition("out", 0)]).values()) == [
        3
    ]  # With the control batch.


def _writer(url, checkpoint):
    from pyspark.sql.types import BinaryType, StructField, StructType

    from spark_eos.spark.datasource import EosLogDataSource

    source = EosLogDataSource({"path": url, "topic": "out", "checkpointLocation": str(checkpoint)})
    return source.streamWriter(StructType([StructField("value", BinaryType())]), overwrite=False)


def written(folder):
    """A log with a record, for a `member`."""
    from spark_eos import Producer

    with Producer(folder) as producer:
        producer.send("t", b"value").result()


def staged(folder):
    """The messages of two tasks, as Spark sends them on, for a `micro_batch`."""
    import pyarrow as pa

    url = str(Path(folder, "log"))
    rows = pa.record_batch([pa.array([b"a"], pa.binary())], names=["value"])
    messages = [_writer(url, Path(folder, "checkpoint")).write(iter([rows])) for _ in range(2)]
    for message in messages:
        message.query_id, message.run_id = QUERY, "0d0b5c76-2e62-4a4c-9ab1-7d0f9b3f8a54"
    Path(folder, "messages").write_bytes(pickle.dumps(messages))


def run(name, folder, out):
    sys.meta_path.insert(0, WATCH)
    SCENARIOS[name](folder)
    out.write(" ".join(WATCH.heard))


def run_all(folder):
    """Each in a fork, with its output in files beside the folder."""
    from spark_eos.log.log import Log  # noqa: F401

    for name in SCENARIOS:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        code = 1
        try:
            with (
                Path(folder, f"{name}.out").open("w") as out,
                Path(folder, f"{name}.err").open("w") as sys.stderr,
            ):
                try:
                    run(name, str(Path(folder, name)), out)
                    code = 0
                except BaseException:  # noqa: BLE001
                    traceback.print_exc()
        finally:
            os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    if sys.argv[1] == "all":
        run_all(sys.argv[2])
    else:
        run(*sys.argv[1:], sys.stdout)
