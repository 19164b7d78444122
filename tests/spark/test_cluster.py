"""A standalone cluster of real processes: a master, two workers, a submitted job; one worker is killed."""

from __future__ import annotations

import base64
import json
import re
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from spark_eos import Admin, Producer
from tests.needing import needs
from tests.sealing import seal
from tests.sparks import SPARK
from verification.cloud_servers import free_port
from verification.processes import SPARK_HOME, Process, running, spark_submit

DRIVERS = Path(__file__).with_name("drivers")
MARKER = "77007700"
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
            "spark.network.timeoutInterval": "5s",
            "spark.executor.heartbeatInterval": "2s",
        }
        return spark_submit(script, *arguments, conf=conf)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Master and workers on free ports of the loopback address, ready for a job."""
    tmp_path = tmp_path_factory.mktemp("cluster")
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
            worker.until(
                lambda worker=worker: "Successfully registered with master" in worker.text, "worker", 60
            )
        yield Cluster(url, master, workers)


def listening(port):
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@needs("tables", "encryption")
@pytest.mark.deep
def test_whole_topics_what_follows_a_version_of_a_table_and_an_encrypted_log(cluster, bench, tmp_path):
    """Workers that are processes of their own read sealed files and the rest, and read the keys for themselves."""
    from spark_eos.extensions.tables.tables import Tables

    bench.topic("flights", 2)
    bench.produce("flights", range(100))
    tables = Tables(bench.url)
    tables.create("p", ["flights"])
    version = tables.publish("p").versions["flights"]  # This seals what is there.
    bench.produce("flights", range(100, 140))
    bench.produce("flights", range(140, 150))
    sealed = seal(bench.log, "flights", 70, partition=1)
    tables.publish("p")
    bench.produce("flights", range(150, 160))
    (table,) = tables.list_tables()

    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"one": base64.b64encode(b"1" * 32).decode()}))
    options = {"encryption.keys": f"file:{keys}", "encryption.key.id": "one"}
    encrypted = str(tmp_path / "encrypted")
    Admin(encrypted, options).create_topic("secrets", 2)
    with Producer(encrypted, options) as producer:
        for number in range(20):
            producer.send("secrets", f"{MARKER}{number}".encode(), partition=number % 2)

    command = cluster.submit(
        DRIVERS / "backfill.py", bench.url, table.location, version,
        encrypted, f"file:{keys}", tmp_path / "checkpoint",
    )  # fmt: skip
    with running(command, tmp_path / "job.out") as job:
        output = job.succeed(200)
    told = json.loads(next(line for line in output.splitlines() if line.startswith("TOLD "))[5:])
    assert told["values"] == list(range(160))
    assert any(name.endswith(sealed[0]) for name in told["files"])
    assert bench.values("later") == list(range(100, 160))
    assert told["copies"] == [int(f"{MARKER}{number}") for number in range(20)]
    files = [path for path in Path(encrypted).rglob("*") if path.is_file()]
    assert len([path for path in files if path.relative_to(encrypted).parts[0] == "data"]) >= 3
    assert not [path for path in files if MARKER.encode() in path.read_bytes()]
    assert any("Asked to launch executor" in worker.text for worker in cluster.workers)


@pytest.mark.deep
def test_job_on_a_cluster_that_loses_a_worker(cluster, bench, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    bench.topic("flights", 2)
    bench.produce("flights", range(ROWS))
    command = cluster.submit(
        DRIVERS / "copy_topic.py", bench.url, "flights", "copied", checkpoint, ROWS // BATCHES
    )
    with running(command, tmp_path / "job.out") as job:
        # Before Spark 4.2 one micro-batch has all.
        begun, last = ("commits/1", BATCHES - 1) if SPARK >= (4, 2) else ("offsets/0", 0)
        job.until((checkpoint / begun).exists, begun)
        assert not (checkpoint / "commits" / str(last)).exists(), (
            "the kill comes too late to be in the middle"
        )
        cluster.workers[0].kill()
        job.succeed()
    assert bench.values("copied") == list(range(ROWS))
    bench.check_contiguous("copied")
    launched = [
        len(re.findall(r"Launching executor|Asked to launch executor", w.text)) for w in cluster.workers
    ]
    assert min(launched) >= 1, f"both workers had an executor before one was lost: {launched}"
    assert cluster.master.running
    assert cluster.workers[1].running
