"""The notebook runs from its first cell to its last, in one namespace, as a notebook does."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_eos import Consumer
from tests.jobs.notebook_driver import cells
from verification.cloud_servers import free_port
from verification.object_server import ObjectServer, serving
from verification.processes import SPARK_HOME, running, spark_submit

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "tour.py"
DRIVER = Path(__file__).with_name("notebook_driver.py")


def test_a_cell_is_either_text_or_code():
    assert NOTEBOOK.read_text(encoding="utf-8").startswith("# Databricks notebook source\n")
    for cell in cells(NOTEBOOK):
        lines = [line for line in cell.strip().splitlines() if line != "# Databricks notebook source"]
        magic = [line.startswith("# MAGIC") for line in lines]
        assert lines, "an empty cell"
        assert all(magic) or not any(magic), cell
        assert not magic[0] or lines[0] == "# MAGIC %md" or lines == [PIP]


PIP = '# MAGIC %pip install "spark-eos[objectstore]"'


def test_it_installs_no_spark_beside_the_one_of_the_cluster():
    assert [cell.strip() for cell in cells(NOTEBOOK) if "MAGIC %pip" in cell] == [PIP]


@pytest.mark.deep
@pytest.mark.usefixtures("spark")
def test_every_cell_runs(capsys):
    namespace = {}
    ran = 0
    for number, cell in enumerate(cells(NOTEBOOK)):
        code = cell.strip()
        if not code.splitlines()[-1].startswith("# MAGIC"):
            exec(compile(code, f"{NOTEBOOK.name}, cell {number}", "exec"), namespace)
            ran += 1
    shutil.rmtree(namespace["folder"])
    said = capsys.readouterr().out
    assert ran >= 8
    assert "refuse" in said or "offset" in said


# -- On a cluster ---------------------------------------------------------------------------------------

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "some-key", "AWS_SECRET_ACCESS_KEY": "some-key"}
HIDE = 'mount -t tmpfs none "$0" && exec "$@"'
"""The driver's folder is an empty one for this process and all that it starts."""


def hidden(folder, command):
    """The command line of a program that does not see ``folder``; as it is where mounts are not allowed."""
    with running(
        ["unshare", "--mount", "sh", "-c", HIDE, str(folder), "true"], folder / "unshare.out"
    ) as probe:
        try:
            probe.succeed(10)
        except (AssertionError, OSError):
            return command
    return ["unshare", "--mount", "sh", "-c", HIDE, str(folder), *command]


@pytest.mark.deep
def test_it_runs_on_a_cluster_that_shares_nothing_but_the_storage(tmp_path):
    """A master, two workers that do not see the driver's folders, and an object store."""
    pytest.importorskip("obstore", reason="a log in a bucket needs pip install 'spark-eos[objectstore]'")
    spark_class, port = str(SPARK_HOME / "bin" / "spark-class"), free_port()
    url, mine = f"spark://127.0.0.1:{port}", tmp_path / "driver"
    mine.mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(serving(ObjectServer({"bucket": {}})))

        def start(name, *command):
            environ = {
                "SPARK_MASTER_HOST": "127.0.0.1",
                "SPARK_WORKER_DIR": str(tmp_path / f"{name}.work"),
                "SPARK_LOCAL_DIRS": str(tmp_path / f"{name}.local"),
                "SPARK_DAEMON_MEMORY": "256m",
                **CREDENTIALS,
            }
            return stack.enter_context(running([*map(str, command)], tmp_path / f"{name}.out", **environ))

        master = start(
            "master", spark_class, "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", port, "--webui-port", 0,
        )  # fmt: skip
        master.until(lambda: "Starting Spark master at" in master.text, "master that listens")
        worker = [
            spark_class,
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
        ]
        worker = hidden(mine, [*worker, "--cores", "1", "--memory", "1g", url])
        workers = [start(f"worker{number}", *worker) for number in (1, 2)]
        for one in workers:
            one.until(lambda one=one: "Successfully registered with master" in one.text, "worker")
        store = {"s3.endpoint": server.address}
        widgets = {
            "log": "s3://bucket/tour", "checkpoints": str(mine / "checkpoints"), "store": json.dumps(store),
        }  # fmt: skip
        conf = {
            "spark.master": url,
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.default.parallelism": "2",
        }
        job = spark_submit(DRIVER, NOTEBOOK, json.dumps(widgets), mine, conf=conf)
        environ = {"SPARK_LOCAL_DIRS": str(mine / "local"), "TMPDIR": str(mine), **CREDENTIALS}
        said = stack.enter_context(running(job, tmp_path / "job.out", **environ)).succeed(300)
        assert "eoslog[flights of s3://bucket/tour]" in said
        assert f"cells on {url}" in said
        assert "2 executors" in said
        if worker[0] == "unshare":
            assert "0 of them see the driver's folder" in said
        with Consumer("s3://bucket/tour", {**store, **S3_KEYS, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([("cancelled", number) for number in range(4)])
            cancelled = consumer.poll(timeout_ms=1000, max_records=5000)
        assert 50 <= len(cancelled) <= 51
        assert not [path for path in tmp_path.rglob("tour") if path.parent.name != "checkpoints"]


S3_KEYS = {"s3.access-key-id": "some-key", "s3.secret-access-key": "some-key"}
