"""Kafka's system test transactions_test.py: real processes copy, and are killed while they do.

Scaled down from 100,000 messages. A reader reads along, another one at the end.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, Producer
from tests.conformance.helpers import partitions, records
from tests.processes import Process

COPIER = Path(__file__).parent / "copier.py"
MESSAGES, INPUTS, OUTPUTS, BOUNCES = 20_000, 2, 3, 3
EACH = MESSAGES // INPUTS
HARD, CLEAN = signal.SIGKILL, signal.SIGTERM


class Copier:
    """A process for one input partition, started again whenever it was killed."""

    def __init__(self, url, folder, number, mode):
        self.url, self.folder, self.number, self.mode = url, folder, number, mode
        self.life = 0
        self.process = None

    def start(self):
        self.life += 1
        command = [sys.executable, str(COPIER), self.url, str(self.number), self.mode, str(self.life)]
        self.process = Process(command, self.folder / f"copier-{self.number}-{self.life}.txt")

    def stop(self, how):
        """Kill it, or ask it to end and wait."""
        if how is HARD:
            self.process.kill()
        else:
            self.process._popen.send_signal(how)
            self.process.succeed(60)
        return self.process.text


class ReadingAlong(threading.Thread):
    """A committed reader that is there from the beginning."""

    def __init__(self, url):
        super().__init__(name="reading along", daemon=True)
        self.reader = Consumer(url, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"})
        self.reader.assign(partitions(url, "out"))
        self.found = []
        self.enough = False

    def run(self):
        while len(self.found) < MESSAGES and not self.enough:
            self.found += self.reader.poll(timeout_ms=100, max_records=10_000)
        self.found += self.reader.poll(max_records=MESSAGES)  # and what there should not be


def copied(url):
    """How far each input partition has been copied."""
    known = Admin(url).list_group_offsets("copiers")
    return [known[at].offset if at in known else 0 for at in partitions(url, "in")]


def until(condition, copiers):
    end = time.monotonic() + 120
    while not condition():
        dead = [copier for copier in copiers if not copier.process.running]
        assert time.monotonic() < end, "no progress: " + "".join(c.process.text[-2000:] for c in copiers)
        assert not [c for c in dead if "Traceback" in c.process.text], dead[0].process.text[-3000:]
        time.sleep(0.01)


def seed(url):
    """Numbered messages, half of them in each input partition."""
    admin = Admin(url)
    admin.create_topic("in", INPUTS)
    admin.create_topic("out", OUTPUTS)
    with Producer(url) as producer:
        for number in range(MESSAGES):
            producer.send("in", f"{number % INPUTS} {number}", partition=number % INPUTS)


def in_order(found):
    """Whether the messages of each input partition are in order within each output partition."""
    last = {}
    for record in found:
        source, number = map(int, record.value.split())
        if last.get((record.partition, source), -1) >= number:
            return False
        last[record.partition, source] = number
    return len(last) == INPUTS * OUTPUTS


@pytest.mark.parametrize(
    ("how", "mode"),
    [
        pytest.param(
            how,
            mode,
            id=f"{name}-{mode}".replace(" ", "_"),
            marks=pytest.mark.conformance(f"transactions_test.test_transactions[{name}, {mode}]"),
        )
        for name, how in (("hard_bounce", HARD), ("clean_bounce", CLEAN))
        for mode in ("group metadata", "group id")
    ],
)
def test_transactions(tmp_path, how, mode):
    url = str(tmp_path / "log")
    seed(url)
    along = ReadingAlong(url)
    along.start()
    copiers = [Copier(url, tmp_path, number, mode) for number in range(INPUTS)]
    left_open = midway = 0
    try:
        for copier in copiers:
            copier.start()
        for _ in range(BOUNCES):
            for copier in copiers:
                wanted = min(copied(url)[copier.number] + EACH // 10, EACH)
                until(lambda n=copier.number, w=wanted: copied(url)[n] >= w, copiers)
                copier.stop(how)
                midway += copied(url)[copier.number] < EACH
                left_open += Admin(url).describe_transaction(f"copier-{copier.number}").state == "Ongoing"
                copier.start()
        until(lambda: copied(url) == [EACH] * INPUTS, copiers)
        for copier in copiers:
            copier.process.succeed(60)
        along.join(60)
    finally:
        along.enough = True
        for copier in copiers:
            if copier.process is not None:
                copier.process.kill()
    expected = sorted(f"{number % INPUTS} {number}".encode() for number in range(MESSAGES))
    final = records(url, "out")
    assert midway > 0
    assert how is HARD or left_open == 0
    for found in (along.found, final):
        assert sorted(record.value for record in found) == expected
        assert in_order(found)
    assert len(records(url, "out", isolation="read_uncommitted")) > MESSAGES  # something was aborted
