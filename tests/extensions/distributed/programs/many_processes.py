"""A job whose tasks are processes: ``many_processes.py URL FOLDER METHOD COORDINATOR TASK=STEP ...``.

Each process dies by SIGKILL when it comes to the step that is named for it; a task that dies runs again, and then goes
through. The coordinator notes its token and the receipts in FOLDER before it commits, and goes on with them when it is
started again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa

from spark_eos import DistributedTransaction, StagedWriter

TASKS = [f"task-{number}" for number in range(4)]
ROWS = 5


def come_to(step: str, deadly: str) -> None:
    if step == deadly:
        os.kill(os.getpid(), signal.SIGKILL)


def work(token: str, task: str, deadly: str, receipt: Path) -> None:
    """A task: rows in two topics. Its receipt goes into a file."""
    with StagedWriter(token, task) as writer:
        come_to("opened", deadly)
        writer.write("orders", pa.table({"value": [f"{task} {n}" for n in range(ROWS)]}), partition=0)
        writer.send("done", task, partition=0)
        come_to("written", deadly)
    come_to("staged", deadly)
    told = receipt.with_suffix(".new")
    told.write_text(str(writer.receipt), "utf-8")
    come_to("told", deadly)
    told.rename(receipt)
    come_to("renamed", deadly)


def receipts_of(context, folder: Path, token: str, deadly: dict[str, str]) -> list[str]:
    paths = {task: folder / f"{task}-{os.getpid()}" for task in TASKS}
    while left := [task for task, path in paths.items() if not path.exists()]:
        started = [
            context.Process(target=work, args=(token, task, deadly.pop(task, ""), paths[task]))
            for task in left
        ]
        for one in started:
            one.start()
        come_to("working", deadly.get("coordinator", ""))
        for one in started:
            one.join()
            assert one.exitcode in {0, -signal.SIGKILL}, one.exitcode
    return [path.read_text("utf-8") for path in paths.values()]


def coordinate(url: str, folder: Path, method: str, deadly: dict[str, str]) -> None:
    notes = folder / "notes"
    died = deadly.get("coordinator", "")
    if notes.exists():
        noted = json.loads(notes.read_text("utf-8"))
        transaction = DistributedTransaction.resume(noted["token"])
        transaction.commit(noted["receipts"])
        return
    version = {"txn_app_id": "load", "txn_version": 1}
    transaction = DistributedTransaction.begin(url, "load", **version)
    if transaction.is_repetition:
        return
    come_to("begun", died)
    token = str(transaction.token)
    receipts = receipts_of(multiprocessing.get_context(method), folder, token, deadly)
    come_to("staged", died)
    if died != "unnoted":
        (folder / "notes.new").write_text(json.dumps({"token": token, "receipts": receipts}), "utf-8")
        (folder / "notes.new").rename(notes)
    come_to("noted", died)
    transaction.commit(receipts)
    come_to("committed", died)
    come_to("unnoted", died)


if __name__ == "__main__":
    url, folder, method, *steps = sys.argv[1:]
    coordinate(url, Path(folder), method, dict(step.split("=") for step in steps))
