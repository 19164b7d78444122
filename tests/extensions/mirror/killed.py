"""Mirrors that are killed by SIGKILL after each file that they publish, each time in a process of its own.

``python killed.py FOLDER ARGUMENTS…``: for each number of a file there is a log in ``FOLDER`` for a death after so many
files (0: before the first); then the same command runs there to its end. Prints how many files the whole run has.
"""

from __future__ import annotations

import os
import signal
import sys

import spark_eos.extensions.mirror.mirroring  # noqa: F401
from spark_eos.cli.command import main
from spark_eos.log.log import Log
from spark_eos.storage.posix.store import PosixStore


def dying(method, at):
    """The method, with a death at the end of its call number ``at``; 0: at the first call, before it does anything."""
    calls = []

    def call(*arguments, **named):
        calls.append(1)
        if not at:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return method(*arguments, **named)
        finally:
            if len(calls) == at:
                os.kill(os.getpid(), signal.SIGKILL)

    return call


def run(arguments, at=None):
    """The status of a child that runs the command, and dies after ``at`` files."""
    child = os.fork()
    if not child:
        if at is not None:
            PosixStore._link = dying(PosixStore._link, at)
        os._exit(main(arguments))
    return os.waitpid(child, 0)[1]


def every_death(folder, arguments):
    number = 0
    while True:
        url = f"{folder}/{number}"
        Log.create(url)
        command = ["mirror", "in", url, *arguments]
        died = run(command, number)
        if died == 0:
            return number - 1
        assert os.WTERMSIG(died) == signal.SIGKILL, died
        assert run(command) == 0
        number += 1


if __name__ == "__main__":
    sys.stdout.write(f"{every_death(sys.argv[1], sys.argv[2:])}\n")
