"""One of many writers: ``python -m tests.log.crowded URL NAME LIFE FILE``.

It commits transactions of one record until it is killed, or asked to end with SIGTERM. It appends a line to FILE for
each answer: the value, its offset, and whether the process lagged.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

from spark_eos import Producer
from spark_eos.log.environment import PROCESS, Lag
from spark_eos.log.log import Log
from spark_eos.storage import PosixStore


def main(url: str, name: str, life: str, path: str) -> None:
    """Commit on and on."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    # A few processes are enough: most of them lag.
    PosixStore.reports_outcomes = True
    log = Log.open(url, environment=replace(PROCESS, lag=Lag(after=2, requests=1.0)))
    commit, lagged = log.commit, []

    def heard(*args, **kwargs):  # type: ignore[no-untyped-def]
        committed = commit(*args, **kwargs)
        lagged.append(committed.is_lagging)
        return committed

    log.commit = heard  # type: ignore[method-assign]
    producer = Producer(log, {"transactional.id": name})
    producer.init_transactions()
    with Path(path).open("a", buffering=1) as answers:
        number = 0
        while not stopping:
            value = f"{name}.{life}.{number}"
            number += 1
            producer.begin_transaction()
            sent = producer.send("t", value.encode(), partition=0)
            producer.commit_transaction()
            answers.write(f"{value} {sent.result(0).offset} {int(lagged[-1])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
