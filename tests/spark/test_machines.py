"""Machines that share nothing but the store: each has an environment, a home and an address of its own.

docker-compose.yml's cluster as plain processes. None sees the folders of another machine: a file system of its own lies
over each (where the system lets a test do that).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.pages import environment
from verification.cloud_servers import free_port
from verification.processes import ROOT, SPARK_HOME, running

from .conftest import Bench

JOB = Path(__file__).with_name("drivers") / "between_machines.py"
NAMES = ("driver", "worker", "another")
NEEDS = {"spark-eos[objectstore,spark]"}


@cache
def can_hide():
    """Whether this user may have file systems of a process's own."""
    return shutil.which("unshare") and not subprocess.run(["unshare", "-m", "true"], check=False).returncode


class Machine:
    """Its folder, and what its processes have in their environment."""

    def __init__(self, home, number, wheel, environ):
        self.home, self.address = home, f"127.0.0.{number + 2}"
        self.programs = environment.make(home / "python", wheel, NEEDS)
        (packages,) = (home / "python").glob("lib/python*/site-packages")
        self.spark = packages / SPARK_HOME.name
        for name in ("temporary", "local", "work"):
            (home / name).mkdir()
        self.environ = {
            **environ,
            "HOME": str(home),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": "python3",  # On each machine its own.
            "PYSPARK_DRIVER_PYTHON": "python3",
            "PYTHONPATH": "",
            "SPARK_HOME": str(self.spark),
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "SPARK_LOCAL_IP": self.address,
            "SPARK_WORKER_DIR": str(home / "work"),
            "TMPDIR": str(home / "temporary"),
        }

    def runs(self, name, program, *arguments):
        """A program of its Spark, in its folder; it sees no other machine's."""
        others = [str(self.home.with_name(other)) for other in NAMES if other != self.home.name]
        alone, steps = [], [f"cd '{self.home}'"]
        if can_hide():
            alone, steps = (
                ["unshare", "-m"],
                [*steps, *(f"mount -t tmpfs none '{other}'" for other in others)],
            )
        shell = ["sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh"]
        command = [*alone, *shell, str(self.spark / "bin" / program), *map(str, arguments)]
        return running(command, self.home / f"{name}.out", **self.environ)


@pytest.mark.deep
def test_a_job_whose_machines_share_nothing_but_the_store(tmp_path, request):
    """Its executors run elsewhere; then its machine is lost, the checkpoint with it, and another one goes on."""
    logs = [Bench(tmp_path / "log")]
    missing = [] if can_hide() else ["each machine could see the folders of the others: needs unshare -m"]
    try:
        server = request.getfixturevalue("minio_server")
        logs.append(Bench(f"{server.url}/machines-{os.getpid()}", server.settings))
        environ = server.environ
    except pytest.skip.Exception as skipped:
        environ = {}
        missing.append(f"the log was in a folder alone: {skipped}")
    wheel = environment.make_wheel(tmp_path)
    script = shutil.copy(JOB, tmp_path)
    for name in NAMES:
        (tmp_path / name).mkdir()
    driver, worker, another = (
        Machine(tmp_path / name, number, wheel, environ) for number, name in enumerate(NAMES)
    )
    port = free_port()
    url = f"spark://{driver.address}:{port}"

    def submit(machine, start):
        conf = {
            "spark.master": url,
            "spark.driver.host": machine.address,
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            **{f"spark.executorEnv.{name}": value for name, value in environ.items()},
        }
        options = [part for pair in conf.items() for part in ("--conf", "=".join(pair))]
        urls = [log.url for log in logs]
        arguments = [*options, script, machine.home / "checkpoints", start, *urls]
        with machine.runs("job", "spark-submit", *arguments) as job:
            assert str(ROOT) not in job.succeed()

    with ExitStack() as stack:
        master = stack.enter_context(
            driver.runs(
                "master", "spark-class", "org.apache.spark.deploy.master.Master",
                "--host", driver.address, "--port", port, "--webui-port", 0,
            )
        )  # fmt: skip
        master.until(lambda: "Starting Spark master" in master.text, "master", 120)
        serving = stack.enter_context(
            worker.runs(
                "worker", "spark-class", "org.apache.spark.deploy.worker.Worker",
                "--host", worker.address, "--webui-port", 0, "--cores", 1, "--memory", "1g", url,
            )
        )  # fmt: skip
        serving.until(lambda: "Successfully registered with master" in serving.text, "worker", 120)
        for log in logs:
            log.topic("in", 2)
            log.produce("in", range(30))
        submit(driver, "earliest")
        shutil.rmtree(driver.home / "checkpoints")
        for log in logs:
            log.produce("in", range(30, 50))
        submit(another, "committed")

    for log in logs:
        assert log.values("out") == [*range(50)]
        log.check_contiguous("out")
        topic = log.state.topics["out"]
        keys = [log.log.read(topic, fetch).column("key").to_pylist() for fetch in log.fetches("out")]
        places = {tuple(json.loads(key)) for some in keys for key in some}
        assert places == {(str(worker.home / "python"), worker.address)}
    if missing:
        pytest.skip("; ".join(missing))
