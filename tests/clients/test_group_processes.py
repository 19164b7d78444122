"""Groups of real threads and processes, one of which is killed."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import count
from threading import Lock, Thread

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.log.log import Log
from tests.starting import command
from verification.processes import running

PARTITIONS = 6


def done(process):
    return [line.split()[3] for line in process.lines if line.startswith("did ")]


@pytest.mark.deep("print-range", "copy-range")
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
        member = command("clients/member", url, how, strategy)
        members = [stack.enter_context(running(member, tmp_path / f"out{n}")) for n in range(3)]
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


def test_members_in_threads_that_come_and_go(tmp_path):
    """By the real clock, with their own heartbeat threads, on one log: each record goes to one of them."""
    url = str(tmp_path / "log")
    Admin(Log.open_or_create(url)).create_topic("in", PARTITIONS)
    total, lock, delivered, failures = 1_500, Lock(), Counter(), []
    settings = {
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 10,
        "session.timeout.ms": 1_000_000,  # Each of them leaves by itself.
    }

    def work(rounds):
        try:
            for _ in range(rounds):
                with Consumer(url, settings) as consumer:
                    consumer.subscribe(["in"])
                    mine = 0
                    while not failures and delivered.total() < total and (rounds == 1 or mine < 40):
                        values = [
                            int(record.value) for record in consumer.poll(timeout_ms=20, max_records=10)
                        ]
                        mine += len(values)
                        with lock:
                            delivered.update(values)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [Thread(target=work, args=(rounds,)) for rounds in (1, 5, 5)]
    for thread in threads:
        thread.start()
    with Producer(url) as producer:
        for number in range(total):
            producer.send("in", str(number), partition=number % PARTITIONS)
            if number % 100 == 0:
                producer.flush()
    for thread in threads:
        thread.join()
    assert failures == []
    assert delivered == Counter(range(total))
    assert Log.shared(url).follow().groups["g"].status == "Empty"
