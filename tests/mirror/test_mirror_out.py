"""Mirrors to a real Kafka broker: whatever happens to either side, Kafka has what the log has, or it is refused."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from spark_eos.log.log import Log
from spark_eos.mirror.out.position import position_topic
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
