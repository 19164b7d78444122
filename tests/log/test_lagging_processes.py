"""Real processes write to one folder at once, most of them lag, and some are killed or frozen."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_eos import Consumer, TopicPartition
from spark_eos.log.log import Log
from verification.retiring import RETIRED_AT_ONCE

ROOT = Path(__file__).parents[2]
WRITERS = 5


class Writer:
    """A process that is started again with the same transactional id."""

    def __init__(self, url, number, folder):
        self.url, self.name, self.file = url, f"w{number}", folder / f"answers-{number}"
        self.life = 0
        self.file.touch()
        self.start()

    def start(self):
        self.life += 1
        command = [
            sys.executable,
            "-m",
            "tests.log.crowded",
            self.url,
            self.name,
            str(self.life),
            str(self.file),
        ]
        self.process = subprocess.Popen(command, cwd=ROOT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def answers(self):
        """Value, offset, and whether it lagged; the last line may be torn."""
        lines = self.file.read_text().split("\n")[:-1]
        return [(value, int(offset), lagged == "1") for value, offset, lagged in map(str.split, lines)]


def until(writers, more):
    """Until each process that is not frozen has been answered so often again."""
    before = {one: len(one.answers) for one in writers}
    end = time.monotonic() + 300
    while any(len(one.answers) < before[one] + more for one in writers):
        assert time.monotonic() < end, "no progress"
        assert all(one.process.poll() is None for one in writers), "a process ended by itself"
        time.sleep(0.02)


@pytest.mark.deep
def test_what_was_answered_is_in_the_log_once(tmp_path):
    url = str(tmp_path / "log")
    Log.create(url, snapshot_interval=20, config=RETIRED_AT_ONCE).ensure_topic("t")
    chance = random.Random(7)
    writers = [Writer(url, number, tmp_path) for number in range(WRITERS)]
    try:
        until(writers, 5)
        for _ in range(3):
            killed, frozen = chance.sample(writers, 2)
            killed.kill()
            killed.start()
            os.kill(frozen.process.pid, signal.SIGSTOP)
            until([one for one in writers if one is not frozen], 10)
            os.kill(frozen.process.pid, signal.SIGCONT)
            until(writers, 5)
        for one in writers:
            one.process.terminate()
        assert [one.process.wait(300) for one in writers] == [0] * WRITERS
    finally:
        for one in writers:
            one.kill()
    found = {}
    reader = Consumer(url, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    reader.assign([TopicPartition("t", 0)])
    while records := reader.poll(0, max_records=10_000):
        for record in records:
            found.setdefault(record.value.decode(), []).append(record.offset)
    assert [value for value, offsets in found.items() if len(offsets) > 1] == []
    answers = [answer for one in writers for answer in one.answers]
    assert {value: [offset] for value, offset, _ in answers if offset >= 0}.items() <= found.items()
    assert {value for value, _, _ in answers} <= found.keys()
    assert sum(lagged for *_, lagged in answers) > len(answers) / 10, "none of them lagged"
