"""Processes that stage for one transaction, killed at every step: all rows are there once, or none yet."""

from __future__ import annotations

import json
import signal

import pytest

from spark_eos import Admin, DistributedTransaction, StagedReceipt, read_arrow
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.reachability import data_files
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.testing import check_log
from tests.extensions.distributed.programs.many_processes import ROWS, TASKS, coordinate
from tests.forking import forked_elsewhere
from tests.starting import run


def forked(url, folder, *steps, code=0):
    """The job in a forked process until it ends, or is killed, and so have those of its tasks that it left running."""
    steps = dict(step.split("=") for step in steps)
    assert forked_elsewhere(coordinate, url, folder, "fork", steps) == code


def spawned(url, folder, *steps, code=0, **environ):
    """The job as a program, whose tasks are new programs."""
    run("extensions/distributed/many_processes", url, folder, "spawn", *steps, status=code, **environ)


def is_whole(url, config=None):
    """Whether the rows of all tasks are there, once and in order; else none is."""
    rows = {}
    for topic in ("orders", "done"):
        known = topic in Admin(url, config).list_topics()
        rows[topic] = read_arrow(url, topic, config=config).read_all()["value"].to_pylist() if known else []
    if not rows["orders"]:
        assert rows == {"orders": [], "done": []}
        return False
    assert rows["orders"] == [f"{task} {n}".encode() for task in TASKS for n in range(ROWS)]
    assert rows["done"] == [task.encode() for task in TASKS]
    return True


def created(url):
    for topic in ("orders", "done"):
        Admin(url).create_topic(topic, config={"file.delete.delay.ms": 0})


def check_tidy(url):
    """Vacuum leaves the files of the receipts that were committed: one of each task and topic."""
    log = Log.open(url)
    log.commit(lambda _state: ())
    Admin(log).create_topic("later")  # Files that were staged at the end before it are below the floor now.
    Vacuum(log, min_age_s=0).run()
    left = {info.name for info in log.store.list(paths.DATA)}
    assert left == set(data_files(log.state, log.load))
    assert len(left) == 2 * len(TASKS)
    check_log(log.store)


@pytest.mark.deep("spawn")
@pytest.mark.parametrize(
    ("run", "steps"),
    [(forked, ["opened", "written", "staged", "told"]), (spawned, ["staged"])],
    ids=["fork", "spawn"],
)
def test_tasks_are_killed_at_every_step(tmp_path, run, steps):
    url = str(tmp_path / "log")
    created(url)
    run(url, tmp_path, *(f"task-{number}={step}" for number, step in enumerate(steps)))
    assert is_whole(url)
    check_tidy(url)


@pytest.mark.parametrize(
    ("step", "visible"),
    [
        ("begun", False),
        ("working", False),
        ("staged", False),
        ("noted", False),
        ("committed", True),
        ("unnoted", True),
    ],
)
def test_the_coordinator_is_killed_at_every_step(tmp_path, step, visible):
    """The next coordinator finishes what a killed one left: from its notes, or again under the same version."""
    url = str(tmp_path / "log")
    created(url)
    forked(url, tmp_path, f"coordinator={step}", code=-signal.SIGKILL)
    assert is_whole(url) is visible
    forked(url, tmp_path)
    assert is_whole(url)
    check_tidy(url)


@pytest.mark.deep
def test_processes_that_reach_a_bucket(tmp_path, minio_server, monkeypatch):
    """The token says where the log is. Each process has the secrets of its own environment."""
    settings = minio_server.settings
    secrets = {
        "AWS_ENDPOINT_URL": settings["s3.endpoint"],
        "AWS_ACCESS_KEY_ID": settings["s3.access-key-id"],
        "AWS_SECRET_ACCESS_KEY": settings["s3.secret-access-key"],
    }
    url = f"{minio_server.url}/many-processes"
    spawned(url, tmp_path, "task-1=written", "coordinator=noted", code=-signal.SIGKILL, **secrets)
    notes = (tmp_path / "notes").read_text("utf-8")
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    assert not is_whole(url)
    receipts = json.loads(notes)["receipts"]
    transaction = DistributedTransaction.resume(json.loads(notes)["token"])
    shown = f"{transaction.token!r} {[StagedReceipt.parse(receipt) for receipt in receipts]}"
    assert not any(secret in shown for secret in secrets.values())
    transaction.commit(receipts)
    assert is_whole(url)
