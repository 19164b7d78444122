"""Mirrors to a real Kafka broker: whatever happens to either side, Kafka has what the log has, or it is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from spark_eos.log.log import Log
from spark_eos.testing.processes import environment

from .both_sides import in_kafka, in_log
from .test_mirror_in import admin, broker, create, delete, forget, produce, refused, wait  # noqa: F401

kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")


@pytest.fixture
def topic(request):
    """A name for a topic, and for its mirror: that of the test."""
    return "out." + re.sub(r"[^a-z0-9.]+", ".", request.node.name.removeprefix("test_"))[:60]


@pytest.fixture
def url(tmp_path):
    found = str(tmp_path / "log")
    Log.create(found)
    return found


def arguments(broker, url, name, *more):
    return [
        *("mirror", "out", url, "--name", name, "--bootstrap-server", broker.address),
        *("--interval", "0.1", "--refresh", "0.3"),
        *more,
        *(() if "--reverse" in more or "--topic" in more or "--topic-pattern" in more else ("--topic", name)),
    ]


def mirror(broker, url, name, *more):
    """All that is there now, in this process."""
    return main(arguments(broker, url, name, "--once", *more))


@contextmanager
def running(broker, url, name, *more):
    """A mirror as a process."""
    command = [sys.executable, "-m", "spark_eos", *arguments(broker, url, name, *more)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def send(url, topic, rows, transactional_id=None, abort=False):
    with Producer(url, {"transactional.id": transactional_id} if transactional_id else {}) as producer:
        if transactional_id:
            producer.init_transactions()
            producer.begin_transaction()
        for row in rows:
            producer.send(topic, **row)
        producer.flush()
        if transactional_id:
            (producer.abort_transaction if abort else producer.commit_transaction)()


def numbered(first, count, partitions=1):
    return [
        {"key": b"k%d" % at, "value": b"v%d" % at, "partition": at % partitions}
        for at in range(first, first + count)
    ]


def check(broker, url, topic, kafka_topic=None, *, mine=bool):
    """Both sides have the same records in the same order. ``mine``: what the mirror wrote. The number of records."""
    theirs = {
        at: [row[1:] for row in rows if mine(row)]
        for at, rows in in_kafka(broker.address, kafka_topic or topic)[0].items()
    }
    ours = {at: [row[1:] for row in rows] for at, rows in in_log(url, topic).items()}
    assert theirs == ours
    return sum(map(len, ours.values()))


def test_every_kind_of_record(broker, url, topic):
    Admin(url).create_topic(topic, partitions=2)
    kinds = [
        {"key": None, "value": b"no key"},
        {"key": b"", "value": b""},
        {"key": b"tombstone", "value": None},
        {"key": None, "value": None},
        {"value": b"headers", "headers": [("a", b"1"), ("a", None), ("", b""), ("ä", b"\xff")]},
        {"value": b"old", "timestamp_ms": 1},
    ]
    send(url, topic, [{**row, "partition": at % 2} for at, row in enumerate(kinds)])
    assert mirror(broker, url, topic) == 0
    assert check(broker, url, topic) == 6
    send(url, topic, numbered(0, 10, 2), "x")
    send(url, topic, numbered(10, 10, 2), "x", abort=True)
    send(url, topic, numbered(20, 10, 2), "x")
    assert mirror(broker, url, topic) == 0
    assert mirror(broker, url, topic) == 0
    assert check(broker, url, topic) == 26


# -- Back to the topics that the records came from -------------------------------------------------------------------


def mirror_in(broker, url, topic, *more):
    command = ["mirror", "in", url, "--name", "m", "--bootstrap-server", broker.address, "--interval", "0.1"]
    return main([*command, "--refresh", "0.3", "--partitions", topic, "--once", *more])


def test_back_to_where_records_came_from(broker, url, topic, capsys):
    """Records of both sides, mixed: Kafka gets those of the log that it has not, each once."""
    create(broker, topic, 2)
    produce(broker, topic, numbered(0, 20, 2))
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 0
    send(url, topic, numbered(100, 10, 2), "x")
    produce(broker, topic, numbered(20, 20, 2))
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 0
    send(url, topic, numbered(110, 10, 2), "x")
    send(url, topic, numbered(200, 10, 2), "x", abort=True)
    before = Log.open(url).state.queries
    assert mirror(broker, url, topic) == 1, "that would send Kafka's own records back"
    assert "--reverse" in refused(capsys, "INVALID_REQUEST")
    assert mirror(broker, url, topic, "--append") == 1
    assert "would go round between the log and Kafka" in refused(capsys, "INVALID_REQUEST")
    assert Log.open(url).state.queries == before, "nothing is written"
    produce(broker, topic, numbered(40, 2, 2))
    assert mirror(broker, url, topic, "--reverse", "m") == 1
    assert "eoslog mirror in --once" in refused(capsys, "INVALID_REQUEST")
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 0, "it is not ended by what was refused"
    assert mirror(broker, url, topic, "--reverse", "m") == 0
    assert mirror_in(broker, url, f"{topic}:0-1", "--append") == 1
    assert "mirror out" in refused(capsys, "PRODUCER_FENCED")
    send(url, topic, numbered(120, 10, 2), "x")
    assert mirror(broker, url, topic, "--reverse", "m") == 0
    there = in_kafka(broker.address, topic)[0]
    for at in (0, 1):
        wanted = [*range(42), *range(100, 130)]
        assert [row[2] for row in there[at]] == [b"v%d" % number for number in wanted if number % 2 == at]
    command = [
        "mirror",
        "in",
        url,
        "--name",
        "n",
        "--bootstrap-server",
        broker.address,
        "--topic",
        topic,
        "--once",
    ]
    assert main([*command, "--append"]) == 1, "another mirror would bring what was sent back"
    assert "would go round" in refused(capsys, "INVALID_REQUEST")
