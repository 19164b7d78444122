"""A standalone Spark cluster of real processes: a master and two workers on the loopback address."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from spark_eos.errors import EosLogError
from verification.cloud_servers import free_port
from verification.processes import (
    RUN,
    SPARK_HOME,
    Process,
    command_line,
    descendants,
    marked,
    spark_submit,
)

__all__ = ["Cluster", "ClusterError", "python_workers"]

NETWORK_TIMEOUT_S = 5
"""A frozen executor counts as lost after this time."""
_START_S = 120


class ClusterError(EosLogError):
    """Spark itself did not start; its output is named."""


class Cluster:
    """Started by `start`. Executors are processes of the workers, found by the application they work for."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder
        self._run = run
        self._daemons: list[Process] = []
        self.url = ""

    def start(self) -> None:
        """Master, then workers."""
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._daemon("master", "master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", 0)
        self._wait(lambda: _listening(port), "master")
        for number in (1, 2):
            worker = self._daemon(
                f"worker{number}", "worker.Worker",
                "--host", "127.0.0.1", "--webui-port", 0, "--cores", 16, "--memory", "12g", self.url,
            )  # fmt: skip
        self._wait(lambda: "Successfully registered with master" in worker.text, "worker")

    def submit(self, script: Path, *arguments: object, cores: int) -> list[str]:
        """The command that runs a driver here, with executors of one core each."""
        conf = {
            "spark.master": self.url,
            "spark.executor.cores": "1",
            "spark.cores.max": str(cores),
            "spark.network.timeout": f"{NETWORK_TIMEOUT_S}s",
            "spark.network.timeoutInterval": "1s",
            "spark.executor.heartbeatInterval": "1s",
            "spark.rpc.askTimeout": "20s",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.storage.blockManagerHeartbeatTimeoutMs": f"{NETWORK_TIMEOUT_S * 1000}",
        }
        return spark_submit(script, *arguments, conf=conf)

    def executors(self, application: str) -> list[int]:
        """Its executors' processes."""
        found = []
        for pid in marked(RUN, self._run):
            command = command_line(pid)
            if "CoarseGrainedExecutorBackend" in command and application in command:
                found.append(pid)
        return found

    def _daemon(self, name: str, what: str, *arguments: object) -> Process:
        environ = {
            "SPARK_MASTER_HOST": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._folder / f"{name}.work"),
            "SPARK_DAEMON_MEMORY": "256m",
            # However often executors are killed, the application stays.
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        command = [
            str(SPARK_HOME / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{what}",
            *map(str, arguments),
        ]
        process = Process(command, self._folder / f"{name}.out", self._run, **environ)
        self._daemons.append(process)
        return process

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _START_S
        while not condition():
            if time.monotonic() > end or not all(daemon.running for daemon in self._daemons):
                raise ClusterError(f"no {what} after {_START_S} s: see {self._folder}/*.out")
            time.sleep(0.05)


def python_workers(pid: int) -> list[int]:
    """Python processes that a JVM has started for tasks, planning, source and sink; not the driver's program."""
    found = []
    for child in descendants(pid):
        command = command_line(child)
        if "pyspark" in command and ("-m" in command.split() or "daemon" in command):
            found.append(child)
    return found


def _listening(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
