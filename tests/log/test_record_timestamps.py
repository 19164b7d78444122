"""Timestamps of records that come from a wrong clock, or that are given and lie years away."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError, InvalidTimestampError, StorePermissionError
from spark_eos.log.clock import SYSTEM
from spark_eos.log.data import task_io, timestamps
from spark_eos.log.log import Log
from tests.log.fakes import FakeClock
from tests.log.test_timekeeping import HOUR_MS, YEARS_S, Off

AT = TopicPartition("t", 0)
ANY = {"message.timestamp.after.max.ms": 2**63 - 1}


@pytest.fixture
def url(tmp_path):
    url = str(tmp_path / "log")
    Admin(Log.create(url)).create_topic("t")
    return url


def records(url):
    with Consumer(url, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as consumer:
        consumer.assign([AT])
        return consumer.poll()


def files(url):
    return [info.name for info in Log.open(url).store.list("data/")]


def is_now(timestamp_ms):
    return abs(timestamp_ms - SYSTEM.now_ms()) < HOUR_MS


@pytest.mark.parametrize(
    "by_s",
    [YEARS_S, 4 * YEARS_S, -50 * 365 * 86_400.0],
    ids=["ahead", "beyond nanoseconds of 64 bits", "behind"],
)
def test_records_of_a_wrong_clock_get_the_stores_time(url, by_s):
    wrong = Log.open(url, Off(by_s))
    with Producer(wrong) as producer:
        assert is_now(producer.send("t", b"alone").result(60).timestamp_ms)
        producer.send_arrow("t", pa.table({"value": [b"column"]})).result(60)
        mixed = pa.array([None, 5], pa.timestamp("ms", "UTC"))
        producer.send_arrow("t", pa.table({"value": [b"no time", b"five"], "timestamp": mixed})).result(60)
        producer.send("t", b"six", timestamp_ms=6).result(60)
    with Producer(wrong, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"in a transaction")
        producer.commit_transaction()
    found = {record.value: record.timestamp_ms for record in records(url)}
    assert (found.pop(b"five"), found.pop(b"six")) == (5, 6)
    assert len(found) == 4
    assert all(map(is_now, found.values()))
    with Consumer(url) as consumer:
        assert consumer.offsets_for_times({AT: SYSTEM.now_ms() - HOUR_MS})[AT].offset == 0
        assert consumer.offsets_for_times({AT: SYSTEM.now_ms() + HOUR_MS})[AT] is None


@pytest.mark.parametrize("config", [{}, {"transactional.id": "app"}])
def test_a_given_time_that_is_years_ahead_is_refused_and_nothing_is_written(url, config):
    """Also where this very clock is the wrong one; records beside it are not affected."""
    wrong = Log.open(url, Off(YEARS_S))
    with Producer(wrong, config) as producer:
        if config:
            producer.init_transactions()
            producer.begin_transaction()
        with pytest.raises(InvalidTimestampError, match=r"'t'.*message.timestamp.after.max.ms=3600000"):
            producer.send("t", b"x", timestamp_ms=wrong.clock.now_ms())
        for unit in ("s", "ms", "us", "ns"):
            late = np.datetime64(wrong.clock.now_ms(), "ms").astype(f"datetime64[{unit}]")
            rows = pa.table({"value": [b"x"], "timestamp": pa.array([late]).cast(pa.timestamp(unit, "UTC"))})
            with pytest.raises(InvalidTimestampError, match="further ahead of now"):
                producer.send_arrow("t", rows).result(60)
        producer.flush()
        assert files(url) == []
        producer.send("t", b"now", timestamp_ms=SYSTEM.now_ms())
        if config:
            producer.commit_transaction()
    assert [record.value for record in records(url)] == [b"now"]


def test_of_finer_times_the_whole_milliseconds_are_kept(url):
    with Producer(url) as producer:
        for unit, parts in (("us", 1_000), ("ns", 1_000_000)):
            times = pa.array([2 * parts - 1, -1], pa.int64()).cast(pa.timestamp(unit, "UTC"))
            producer.send_arrow("t", pa.table({"value": [b"x"] * 2, "timestamp": times}))
    assert [record.timestamp_ms for record in records(url)] == [1, -1] * 2


def test_what_a_topic_allows(url):
    admin, now_ms = Admin(url), SYSTEM.now_ms()
    admin.create_topic("any", config=ANY)
    admin.create_topic("recent", config={"message.timestamp.before.max.ms": 60_000})
    with Producer(url) as producer:
        producer.send("any", b"x", timestamp_ms=now_ms + 2 * HOUR_MS).result(60)
        producer.send("t", b"x", timestamp_ms=0).result(60)
        producer.send("recent", b"x", timestamp_ms=now_ms - 1000)
        with pytest.raises(InvalidTimestampError, match=r"behind.*message.timestamp.before.max.ms=60000"):
            producer.send("recent", b"x", timestamp_ms=now_ms - 120_000)
        producer.flush()
    with pytest.raises(ConfigError, match="from 0 up"):
        admin.create_topic("u", config={"message.timestamp.after.max.ms": -1})


def test_a_task_whose_clock_is_off(url, monkeypatch):
    """Of the Spark sink: its rows get the time of the log's store, and others are refused before they are written."""
    log = Log.open(url)
    topic = log.topic("t")
    made = pickle.loads(pickle.dumps(task_io.TaskStorage(url, log.state.seq + 1, planned_ms=SYSTEM.now_ms())))
    monkeypatch.setattr(task_io, "SYSTEM", Off(YEARS_S))
    with made.writer(topic) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        (file,) = writer.finish()
    assert is_now(file.batches[0].min_timestamp_ms)
    assert is_now(file.batches[0].max_timestamp_ms)
    before = files(url)
    late = pa.array([task_io.SYSTEM.now_ms()]).cast(pa.timestamp("ms", "UTC"))
    with made.writer(topic) as writer:
        with pytest.raises(InvalidTimestampError, match="further ahead of now"):
            writer.append(pa.table({"value": [b"x"], "timestamp": late}), 0)
        assert writer.finish() == ()
    assert files(url) == before


def test_a_task_whose_clock_is_off_beside_a_store_that_does_not_tell_the_time(url, monkeypatch):
    log = Log.open(url)
    made = task_io.TaskStorage(url, log.state.seq + 1, planned_ms=SYSTEM.now_ms())

    def refused():
        raise StorePermissionError("no probes")

    monkeypatch.setattr(made.store, "now_ms", refused)
    monkeypatch.setattr(task_io, "SYSTEM", Off(YEARS_S))
    with made.writer(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        (file,) = writer.finish()
    assert is_now(file.batches[0].max_timestamp_ms)


def test_a_task_that_begins_hours_later_believes_its_clock(url):
    log = Log.open(url)
    planned_ms = SYSTEM.now_ms() - 5 * HOUR_MS
    made = task_io.TaskStorage(url, log.state.seq + 1, planned_ms=planned_ms)
    with made.writer(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        (file,) = writer.finish()
    assert is_now(file.batches[0].max_timestamp_ms)


def test_clocks_that_were_set_while_records_waited():
    def stamped(*times, clock_ms, now_ms=1_000_000):
        found = np.array(times, np.int64)
        timestamps.own_times(found, clock_ms, now_ms, 100)
        return found.tolist()

    # It was ahead and is right now: what waited for long keeps its time.
    assert stamped(5, 999_950, 1_000_050, 9_000_000, clock_ms=1_000_010) == [5, 999_950, 1_000_050, 1_000_000]
    # It is wrong now.
    assert stamped(5, 999_950, 9_000_000, clock_ms=9_000_000) == [1_000_000, 999_950, 1_000_000]
    assert stamped(5, clock_ms=5) == [1_000_000]


def test_the_time_goes_on_while_rows_are_written():
    clock = FakeClock()
    now = timestamps.going_on(5000, clock)
    clock.now += 2
    assert now() == 7000
