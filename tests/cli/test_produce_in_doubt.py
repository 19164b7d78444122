"""``eoslog produce`` on a store that loses replies: what it claims is what is there."""

from __future__ import annotations

import os
import threading

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.cli.console.intake import TextLines
from spark_eos.cli.console.produce import _write
from spark_eos.cli.console.properties import LineFormat
from spark_eos.errors import CommitOutcomeUnknownError, StoreUnavailableError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.cli.test_produce import wait_for


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t")
    return log


def values(log):
    with Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll()]


def produce(log, store, fault):
    """Two lines; once they are in the log, two more, whose entry meets the fault."""
    reading, writing = os.pipe()

    def feed():
        os.write(writing, b"a\nb\n")
        wait_for(lambda: values(log) == [b"a", b"b"])
        store.inject(fault, "create", "_log/*", times=None)
        os.write(writing, b"c\nd\n")
        os.close(writing)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        with Producer(log, {"delivery.timeout.ms": 0, "linger.ms": 0}) as producer:
            _write(producer, "t", None, TextLines(LineFormat()), reading, is_transaction=False)
    finally:
        feeder.join()
        os.close(reading)


def test_lines_whose_outcome_is_unknown_are_said_to_be(log, store):
    with pytest.raises(CommitOutcomeUnknownError) as raised:
        produce(log, store, Fault.LOST)
    told = "lines 1 to 2 are in the log, of lines 3 to 4 it is not known, the others are not there"
    assert str(raised.value).endswith(told)


def test_lines_that_a_store_refused_are_not_in_the_log(log, store):
    with pytest.raises(StoreUnavailableError) as raised:
        produce(log, store, Fault.FAIL_BEFORE)
    assert str(raised.value).endswith("lines 1 to 2 are in the log, the others not")
    assert values(log) == [b"a", b"b"]


def test_a_commit_whose_reply_is_lost_is_made_once(log, store):
    reading, writing = os.pipe()
    os.write(writing, b"a\nb\n")
    os.close(writing)

    class Lines(TextLines):
        def rows(self, lines, first):
            store.inject(Fault.FAIL_AFTER, "create", "_log/*")
            return super().rows(lines, first)

    with Producer(log, {"transactional.id": "me"}) as producer:
        sent = _write(producer, "t", None, Lines(LineFormat()), reading, is_transaction=True)
    os.close(reading)
    assert sent.acknowledged == [(1, 2)]
    assert values(log) == [b"a", b"b"]
