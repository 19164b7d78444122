"""Rates and lags over time."""

from __future__ import annotations

from itertools import count

import pyarrow as pa

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.extensions.ui.series import SAMPLES, Series
from spark_eos.protocol.actions import CreatePublication
from spark_eos.storage import MemoryStore


def test_rates_of_what_was_quiet_for_longer_than_samples_are_kept():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t", 2)
    series = Series(lambda: 0.0)
    with Producer(log) as producer:
        producer.send("t", b"x", partition=1)
    for second in range(SAMPLES + 20):
        series.add(log.follow(), second * 1000)
    with Producer(log) as producer:
        for _ in range(10):
            producer.send("t", b"x", partition=1)
    series.add(log.follow(), (SAMPLES + 21) * 1000)
    topic_id = log.state.topics["t"].topic_id
    rates = [point.value for point in series.partition_rates((topic_id, 1))]
    assert len(rates) == SAMPLES - 1
    assert set(rates[:-1]) == {0.0}
    assert rates[-1] == 5.0
    assert series.topic_rates(topic_id)[-1].value == 5.0
    assert set(series.partition_rates_now()) == {(topic_id, 1)}
    assert series.totals[topic_id].offsets == 11
    at = TopicPartition("t", 1)
    Admin(log).alter_group_offsets("g", {at: 1})
    Admin(log).delete_records({at: 4})
    series.add(log.follow(), (SAMPLES + 22) * 1000)
    assert series.group_lags == {"g": 10}, "with what was deleted unread, as `eoslog lag` has it"
    Admin(log).delete_topic("t")
    series.add(log.follow(), (SAMPLES + 23) * 1000)
    assert series.totals == {}


def test_a_published_table_is_no_query_that_is_behind():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    lake = CreatePublication("lake", "delta", (), (("t", log.follow().topics["t"].topic_id),))
    log.commit(lambda _: (lake,))
    with Producer(log) as producer:
        producer.send("t", b"x")
    series = Series(lambda: 0.0)
    series.add(log.follow(), 0)
    assert (series.group_lags, series.query_lags, series.unknown) == ({}, {}, {})


def test_the_rate_of_now_is_that_of_the_last_samples():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    topic_id = log.follow().topics["t"].topic_id
    series = Series(lambda: 0.0)
    series.add(log.state, 0)
    before = log.state.seq
    with Producer(log) as producer:
        producer.send_arrow("t", pa.table({"value": [b"x"] * 10}))
    for second, rate in ((1, 10.0), (2, 5.0)):
        series.add(log.follow(), second * 1000)
        assert series.rates_now() == {topic_id: rate}
    assert [point.value for point in series.log_rates()] == [10.0, 0.0]
    assert [point.value for point in series.entry_rates()] == [log.state.seq - before, 0.0]
    for second in range(3, 9):
        series.add(log.follow(), second * 1000)
    assert series.rates_now() == {}


def test_lags_that_take_long_are_computed_seldom():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    Admin(log).alter_group_offsets("g", {TopicPartition("t", 0): 0})
    seconds = count()
    series = Series(lambda: float(next(seconds)))
    for sample in range(20):
        series.add(log.follow(), sample * 1000)
    assert [point.time_ms for point in series.lags("group", "g")] == [0, 19_000]


def test_a_partition_without_records_is_no_unknown_lag():
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t", 2)
    with (
        Producer(log) as producer,
        Consumer(
            log, {"group.id": "g", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        ) as consumer,
    ):
        producer.send("t", b"x", partition=1).get()
        consumer.subscribe(["t"])
        consumer.poll(0)
        series = Series(lambda: 0.0)
        series.add(log.follow(), 0)
    assert series.unknown == {"g": 1}
