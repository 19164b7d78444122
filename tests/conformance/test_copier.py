"""Kafka's system test transactions_test.py: real processes copy, and are killed while they do.

Scaled down from 100,000 messages. A reader reads along, another one at the end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from tests.conformance.copier import copy
from tests.conformance.helpers import partitions, records

# Children of a server that has imported everything: real processes, which need no second each to start.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.conformance.copier"])

INPUTS, OUTPUTS, BOUNCES = 2, 3, 3
HARD, CLEAN = signal.SIGKILL, signal.SIGTERM
EACH = {HARD: 4_000, CLEAN: 3_000}
"""Messages in each input partition: a clean end is the easier case."""


class Copier:
    """A process for one input partition, started again whenever it was killed."""

    def __init__(self, url, number, mode, bound):
        self.url, self.number, self.mode, self.bound = url, number, mode, bound
        self.life = 0
        self.process = self.ready = None

    def start(self):
        self.life += 1
        self.ready = PROCESSES.Event()
        self.process = PROCESSES.Process(
            target=copy, args=(self.url, self.number, self.mode, self.life, self.ready, self.bound)
        )
        self.process.start()

    def stop(self, how):
        """Kill it, or ask it to end and wait: once it listens, it ends well."""
        if how is CLEAN:
            assert self.ready.wait(60)
        os.kill(self.process.pid, how)
        self.process.join(60)
        assert self.process.exitcode == (-HARD if how is HARD else 0)


class ReadingAlong(threading.Thread):
    """A committed reader that is there from the beginning."""

    def __init__(self, url, messages):
        super().__init__(name="reading along", daemon=True)
        self.messages = messages
        self.reader = Consumer(url, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"})
        self.reader.assign(partitions(url, "out"))
        self.found = []
        self.enough = False

    def run(self):
        while len(self.found) < self.messages and not self.enough:
            self.found += self.reader.poll(timeout_ms=100, max_records=10_000)
        self.found += self.reader.poll(max_records=self.messages)  # and what there should not be


def copied(admin):
    """How far each input partition has been copied."""
    known = admin.list_group_offsets("copiers")
    places = [TopicPartition("in", number) for number in range(INPUTS)]
    return [known[at].offset if at in known else 0 for at in places]


def ongoing(admin):
    """The transactional ids with an open transaction. A process that was killed early may not be known at all."""
    return {one.transactional_id for one in admin.list_transactions() if one.state == "Ongoing"}


def until(condition, copiers):
    end = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < end, "no progress"
        assert all(copier.process.is_alive() for copier in copiers), "one of them ended by itself"
        time.sleep(0.02)


def seed(url, messages):
    """Numbered messages, half of them in each input partition."""
    admin = Admin(url)
    admin.create_topic("in", INPUTS)
    admin.create_topic("out", OUTPUTS)
    with Producer(url) as producer:
        for number in range(messages):
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


@pytest.mark.deep("hard_bounce-group_id", "clean_bounce-group_metadata", "clean_bounce-group_id")
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
    each, messages = EACH[how], EACH[how] * INPUTS
    seed(url, messages)
    admin = Admin(url)
    along = ReadingAlong(url, messages)
    along.start()
    bound = PROCESSES.Value("q", 0)  # Without it they may be done before the first one is stopped.
    copiers = [Copier(url, number, mode, bound) for number in range(INPUTS)]
    left_open = midway = 0
    try:
        for copier in copiers:
            copier.start()
        for bounce in range(1, BOUNCES + 1):
            bound.value = each * bounce // (BOUNCES + 1)
            for copier in copiers:
                wanted = min(copied(admin)[copier.number] + each // 10, bound.value)
                until(lambda n=copier.number, w=wanted: copied(admin)[n] >= w, copiers)
                copier.stop(how)
                midway += copied(admin)[copier.number] < each
                left_open += f"copier-{copier.number}" in ongoing(admin)
                copier.start()
        bound.value = each
        until(lambda: copied(admin) == [each] * INPUTS, copiers)
        for copier in copiers:
            copier.stop(CLEAN)
        along.join(60)
    finally:
        along.enough = True
        for copier in copiers:
            if copier.process is not None:
                copier.process.kill()
                copier.process.join(60)
    expected = sorted(f"{number % INPUTS} {number}".encode() for number in range(messages))
    final = records(url, "out")
    assert midway > 0
    assert how is HARD or left_open == 0
    for found in (along.found, final):
        assert sorted(record.value for record in found) == expected
        assert in_order(found)
    assert len(records(url, "out", isolation="read_uncommitted")) > messages  # something was aborted
