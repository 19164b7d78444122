"""A program that kills real processes, each before another one of its system calls, and looks at what is left.

``killed.py FOLDER JOB FIRST STEP``: the job runs on copies of one log, in processes that die at their system calls
number FIRST, FIRST + STEP, and so on, until one gets to its end. It is one program, because starting a process that
has imported everything takes no time that way: a fork.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from spark_eos import Admin, DistributedTransaction, StagedWriter
from spark_eos.clients.consumer.heartbeat import heartbeat_name
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.rules import sealing
from tests.maintenance.world import Clock, append, created, left_behind, values

CALLS = ("fsync", "link", "mkdir", "open", "rename", "unlink", "write")
ROWS = 11
MORE = 8


def world(url):
    """A log with something for every step: old records, garbage, small batches, no snapshot."""
    log = created(url)
    log.does_maintenance = False
    Admin(log).create_topic("old", config={"retention.ms": 1000})
    append(log, *range(3), topic="old", timestamp_ms=1)
    append(log, *range(ROWS))
    left_behind(log, 100)


def opened(url, name=b"m"):
    clock = Clock(name)
    clock.now += 7200
    log = Log.open(url, clock, Retry(deadline_s=0))
    log.does_maintenance = False
    return log


def maintain(url, _noted):
    """A pass of everything."""
    log = opened(url)
    errors = [
        done.error for done in Maintainer(log, min_age_s=0, heartbeat_name=heartbeat_name).run() if done.error
    ]
    assert not errors, errors


def write(url, noted):
    """A writer who does all the maintenance that there is, and notes what he was told is in."""
    log = opened(url, b"w")
    log.does_maintenance = True
    for number in range(ROWS, ROWS + MORE):
        log.clock.now += 60
        append(log, number)
        noted(number)


def distributed(url, noted):
    """Transactions of several writers, one of which does a task a second time; each has a row of two topics."""
    log = opened(url, b"d")
    for number in range(ROWS, ROWS + 3):
        log.clock.now += 60
        with DistributedTransaction.begin(log, "job") as transaction:
            receipts = []
            for task in ("t", "u", "t"):
                with StagedWriter(str(transaction.token), task, url=log) as writer:
                    writer.send(task, b"%d" % number, partition=0)
                receipts.append(str(writer.receipt))
            transaction.commit(receipts)
        noted(number)


JOBS = {"distributed": distributed, "maintain": maintain, "write": write}


class Deadly:
    """Lets a process die before its call number ``at``, and leaves the call's name in a file."""

    def __init__(self, at, told):
        self.calls = Counter()
        self._at = at
        self._told = told
        self._write = os.write
        for name in CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name, call):
        def counted(*arguments, **options):
            if name != "open" or (len(arguments) > 1 and arguments[1] & os.O_CREAT):
                if self.calls.total() == self._at:
                    where = " ".join(one for one in arguments if isinstance(one, str))
                    self.note(f"{name} {where}")
                    os.kill(os.getpid(), signal.SIGKILL)
                self.calls[name] += 1
            return call(*arguments, **options)

        return counted

    def note(self, text):
        self._write(self._told, f"{text}\n".encode())


def run(job, url, at, told):
    """The job in a process of its own; whether it got to its end, and what it noted."""
    child = os.fork()
    if not child:
        with told.open("wb", buffering=0) as file:
            deadly = Deadly(at, file.fileno())
            code = 1
            with suppress(BaseException):
                JOBS[job](url, lambda number: deadly.note(f"told {number}"))
                code = 0
                deadly.note(f"ended: {dict(deadly.calls)}")
            if code:
                sys.excepthook(*sys.exc_info())
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL, status
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, f"the job failed at {at}"
    return os.WIFEXITED(status), told.read_text().splitlines()


def sound(url, expected):
    """Everything that is committed is there once, and nothing is wrong with the log."""
    log = opened(url, b"r")
    found = values(log)
    assert found == expected(len(found)), found
    assert values(log, "old") in ([], [0, 1, 2])
    assert "u" not in log.state.topics or values(log, "u") == found[ROWS:]
    findings = []
    verify(url, findings.append)
    wrong = [one for one in findings if one.verdict is not Verdict.NOTE]
    assert not wrong, wrong
    return log


def tidy(url):
    """What is left when maintenance is done: how many objects of each kind that are not empty."""
    maintain(url, None)
    log = sound(url, lambda count: [*range(count)])
    assert values(log, "old") == []
    stored = newest_snapshot(log.store).seq
    kept = {
        seq
        for seq in range(log.state.seq + 1)
        if log.store.size(paths.entry(seq, log.state.entries_per_folder))
    }
    assert kept == {0, *range(stored - log.state.snapshot_interval + 1, log.state.seq + 1)}, kept
    return len([*log.store.list(paths.DATA)])


def main(folder, job, first, step):
    sealing.PAGE_ROWS = sealing.FAN_OUT = 2
    base, copy, told = folder / "base", folder / "copy", folder / "told"
    world(str(base))
    at, ended = first, False
    while not ended:
        shutil.copytree(base, copy)
        ended, notes = run(job, str(copy), at, told)
        acknowledged = sum(note.startswith("told ") for note in notes)
        least = ROWS + acknowledged
        sound(str(copy), lambda count, least=least: [*range(max(least, min(count, least + 1)))])
        files = tidy(str(copy))
        sys.stdout.write(f"{at} {notes[-1]}; {acknowledged} acknowledged, {files} files\n")
        sys.stdout.flush()
        shutil.rmtree(copy)
        at += step


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
