"""A real publisher that is killed by SIGKILL at one of its stages, each time in a process of its own."""

from __future__ import annotations

import os
import signal
import sys

# Here once, and not in each child.
import deltalake  # noqa: F401
import fastavro  # noqa: F401
import pandas as pd  # noqa: F401  (pyarrow imports it)

from spark_eos import Log
from spark_eos.extensions.tables.contents import Contents
from spark_eos.extensions.tables.delta.target import DeltaTarget
from spark_eos.extensions.tables.publisher import Publisher
from spark_eos.extensions.tables.tables import Tables

STAGES = ("fenced", "sealed", "begun", "first table", "all tables", "ended")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def dying(method, *, before=False, at=1):
    """The method, with a death at its call number ``at``: before it, or after it."""
    calls = []

    def call(*arguments, **named):
        calls.append(1)
        if before and len(calls) == at:
            kill()
        result = method(*arguments, **named)
        if len(calls) == at:
            kill()
        return result

    return call


def publish(url, stage):
    if stage == "fenced":
        Publisher._begin = dying(Publisher._begin, before=True)
    elif stage == "sealed":
        Contents.files = dying(Contents.files)
    elif stage == "begun":
        Publisher._begin = dying(Publisher._begin)
    elif stage == "first table":
        DeltaTarget.commit = dying(DeltaTarget.commit)
    elif stage == "all tables":
        DeltaTarget.commit = dying(DeltaTarget.commit, at=2)
    elif stage == "ended":
        Publisher._finish = dying(Publisher._finish)
    Tables(Log.open(url)).publish("p")


def main(url, stage):
    """Dies at ``stage``; then exit code 0 of this process, which has not used the libraries' threads."""
    child = os.fork()
    if not child:
        publish(url, stage)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"stage {stage} was not reached")


if __name__ == "__main__":
    for line in sys.stdin:
        main(*line.rstrip("\n").split("\t"))
