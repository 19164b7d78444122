"""A group of real processes, one of which is killed."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.log.log import Log
from tests.processes import running

DRIVER = Path(__file__).parent / "drivers" / "member.py"
PARTITIONS = 6


def done(process):
    return [line.split()[3] for line in process.text.splitlines() if line.startswith("did ")]


@pytest.mark.parametrize(
    ("how", "strategy"), [("print", "range"), ("copy", "range"), ("copy", "cooperative-sticky")]
)
def test_the_others_take_over_from_one_that_is_killed(tmp_path, how, strategy):
    url = str(tmp_path / "log")
    Admin(Log.open_or_create(url)).create_topic("in", PARTITIONS)
    Admin(url).create_topic("out", 2)
    numbers, written = count(), []
    producer = Producer(url)

    def fill(number):
        values = [str(next(numbers)) for _ in range(number)]
        for value in values:
            producer.send("in", value, key=value)
        producer.flush()
        written.extend(values)

    def group():
        return Log.shared(url).state.groups["workers"]

    def all_done():
        state = Log.shared(url).state
        topic = state.topics["in"]
        return all(
            (known := state.offset_of("workers", "in", number)) is not None
            and known.offset == state.partitions[topic.topic_id, number].end
            for number in range(PARTITIONS)
        )

    with ExitStack() as stack:
        command = [sys.executable, str(DRIVER), url, how, strategy]
        members = [stack.enter_context(running(command, tmp_path / f"out{n}")) for n in range(3)]
        for member in members:
            # As long as one of them has had no work there is some for everybody.
            member.until(lambda member=member: fill(30) or len(done(member)) > 20, "work of its own")
        victim, *others = members
        victim.kill()
        fill(300)
        others[0].until(lambda: len(group().members) == 2, "eviction of the one that was killed")
        fill(300)
        others[0].until(all_done, "end of the work")
        (tmp_path / "stop").touch()
        for member in others:
            member.succeed()
    producer.close()
    assert group().status == "Empty"
    assert set(done(victim)) | set(done(others[0])) | set(done(others[1])) <= set(written)
    if how == "print":
        assert Counter(value for member in members for value in done(member)) >= Counter(written)
        return
    with Consumer(url, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as reader:
        reader.assign([TopicPartition("out", number) for number in range(2)])
        copied = []
        while records := reader.poll(max_records=10_000):
            copied += [record.value.decode() for record in records]
    assert Counter(copied) == Counter(written)
