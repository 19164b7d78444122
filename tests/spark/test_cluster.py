"""A standalone cluster of real processes: a master, two workers, a submitted job; one worker is killed."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos.log.log import Log
from spark_eos.log.plan import Isolation, plan
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from tests.processes import SPARK_HOME, Process, free_port, running, spark_submit

DRIVER = Path(__file__).with_name("drivers") / "copy_topic.py"
ROWS = 8000
BATCHES = 8


class Cluster:
    def __init__(self, url, master, workers):
        self.url = url
        self.master = master
        self.workers = workers

    def submit(self, script, *arguments):
        conf = {
            "spark.master": self.url,
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.network.timeout": "20s",
            "spark.executor.heartbeatInterval": "2s",
        }
        return spark_submit(script, *arguments, conf=conf)


@pytest.fixture
def cluster(tmp_path):
    """Master and workers on free ports of the loopback address, ready for a job."""
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    with ExitStack() as stack:

        def start(name, *command) -> Process:
            environ = {
                "SPARK_MASTER_HOST": "127.0.0.1",
                "SPARK_WORKER_DIR": str(tmp_path / f"{name}.work"),
                "SPARK_DAEMON_MEMORY": "256m",
            }
            command = [spark_class, *map(str, command)]
            return stack.enter_context(running(command, tmp_path / f"{name}.out", **environ))

        port = free_port()
        url = f"spark://127.0.0.1:{port}"
        master = start(
            "master", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", port, "--webui-port", 0,
        )  # fmt: skip
        master.until(lambda: listening(port), "master that listens", 60)
        workers = [
            start(
                f"worker{number}", "org.apache.spark.deploy.worker.Worker",
                "--host", "127.0.0.1", "--webui-port", 0, "--cores", 1, "--memory", "1g", url,
            )
            for number in (1, 2)
        ]  # fmt: skip
        for worker in workers:
            worker.until(lambda worker=worker: "Successfully registered with master" in worker.text, "worker", 60)
        yield Cluster(url, master, workers)


def listening(port):
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def write(url):
    """A Kafka-shaped topic of two partitions."""
    log = Log.open_or_create(url)
    topic = log.ensure_topic("flights", 2)
    for number in range(2):
        writer = log.stage(topic)
        ids = range(number, ROWS, 2)
        rows = pa.record_batch(
            {
                "key": pa.array([f"{i % 100}".encode() for i in ids], pa.binary()),
                "value": pa.array([f"{i}".encode() for i in ids], pa.binary()),
            }
        )
        writer.append(rows, number)
        files = writer.finish()
        log.commit(
            lambda state, files=files: (AppendBatches(NO_PRODUCER, (("flights", topic.topic_id),), files),)
        )


def values(url, name):
    """The values of a topic as numbers, sorted; none is left out, and one that is there twice shows."""
    log = Log.open(url)
    topic = log.topic(name)
    found = []
    for number in range(topic.partitions):
        partition = log.state.partitions[topic.topic_id, number]
        at = TopicPartition(name, number)
        for fetch in plan(log.state, at, partition.start, partition.end, Isolation.READ_COMMITTED):
            found += [int(value) for value in log.read(topic, fetch).column("value").to_pylist()]
    return sorted(found)


def test_job_on_a_cluster_that_loses_a_worker(cluster, tmp_path):
    url, checkpoint = str(tmp_path / "log"), tmp_path / "checkpoint"
    write(url)
    command = cluster.submit(DRIVER, url, "flights", "copied", checkpoint, ROWS // BATCHES)
    with running(command, tmp_path / "job.out") as job:
        job.until(lambda: (checkpoint / "commits" / "1").exists(), "second finished batch")
        assert not (checkpoint / "commits" / str(BATCHES - 1)).exists(), "the kill comes too late to be in the middle"
        cluster.workers[0].kill()
        job.succeed()
    assert values(url, "copied") == list(range(ROWS))
    launched = [len(re.findall(r"Launching executor|Asked to launch executor", w.text)) for w in cluster.workers]
    assert min(launched) >= 1, f"both workers had an executor before one was lost: {launched}"
    assert cluster.master.running
    assert cluster.workers[1].running
