"""Retention by time and size, and readers that were outrun by it."""

from __future__ import annotations

import logging
import re

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import OffsetOutOfRangeError
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.retention import SLACK_MS, Retention
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.storage import MemoryStore
from tests.sealing import seal

from .world import another, append, commit, created, listed, partition_of, stage, values

pytestmark = pytest.mark.usefixtures("small_pages")

DAY_MS = 86_400_000
T0 = TopicPartition("t", 0)


@pytest.fixture
def log():
    return created(MemoryStore())


def configure(log, topic="t", **config):
    Admin(log).alter_topic(topic, config={name.replace("_", "."): value for name, value in config.items()})


def start(log, topic="t", number=0):
    return partition_of(log, topic, number).start


def at(log, *numbers, age_ms, **options):
    """Values that are so old by their own timestamps."""
    append(log, *numbers, timestamp_ms=int(log.clock.now * 1000) - age_ms, **options)


# -- By time ---------------------------------------------------------------------------------------------


def test_what_is_older_than_retention_ms_goes(log):
    at(log, 0, 1, age_ms=8 * DAY_MS)
    at(log, 2, age_ms=7 * DAY_MS - 60_000)
    at(log, 3, age_ms=0)
    (due,) = Retention(log).run()
    assert (due.at, due.start, due.offset) == (T0, 0, 2)
    assert values(log) == [2, 3]
    log.clock.now += 60
    Retention(log).run()
    assert values(log) == [3]


def test_what_is_just_as_old_stays(log):
    """Kafka's retention.ms breach is a segment that is older, not as old."""
    append(log, 0, timestamp_ms=1_000_000_000)
    configure(log, retention_ms=5000)
    log.clock.now = 1_000_005.0
    assert Retention(log).run() == []
    log.clock.now = 1_000_005.001
    assert len(Retention(log).run()) == 1


@pytest.mark.parametrize("config", [{"retention_ms": -1}, {"cleanup_policy": "compact"}])
def test_what_is_kept_for_ever(log, config):
    at(log, 0, 1, age_ms=3650 * DAY_MS)
    configure(log, **config)
    assert Retention(log).run() == []


def test_compacted_topics_may_be_cut_too(log):
    at(log, 0, age_ms=8 * DAY_MS)
    configure(log, cleanup_policy="compact,delete")
    assert len(Retention(log).run()) == 1


def test_the_newest_record_of_a_batch_decides(log):
    files = stage(log, 0, timestamp_ms=1), stage(log, 1, timestamp_ms=int(log.clock.now * 1000))
    commit(log, files[0] + files[1])
    assert start(log) == 0
    Retention(log).run()
    assert start(log) == 1
    known = log.topic("t")
    with log.stage(known) as writer:
        times = pa.array([1, int(log.clock.now * 1000)], pa.timestamp("ms", "UTC"))
        writer.append(pa.table({"value": [b"2", b"3"], "timestamp": times}), 0)
        commit(log, writer.finish())
    configure(log, retention_ms=600_000)
    assert Retention(log).run() == []


def test_a_young_record_keeps_older_ones_behind_it(log):
    at(log, 0, age_ms=0)
    at(log, *range(1, 30), age_ms=30 * DAY_MS)
    assert Retention(log).run() == []


def test_pages_go_as_a_whole_and_row_by_row(log):
    for number in range(60):
        at(log, number, age_ms=(60 - number) * DAY_MS // 2)
    assert {page.level for page in partition_of(log).index.pages} == {0, 1, 2}
    for _ in range(14):
        expected = [number for number in range(60) if age(log, number) <= 7 * DAY_MS]
        Retention(log, trust_clock=True).run()
        assert values(another(log)) == expected
        log.clock.now += DAY_MS / 2000


def age(log, number):
    """Of a record of the test above, by a clock that has moved since."""
    row = next(row for row in partition_of(log).index.scan(0, log.load) if row.base_offset >= number)
    return int(log.clock.now * 1000) - row.max_timestamp_ms if row.base_offset == number else 10**12


def test_nothing_past_the_last_stable_offset_goes(log):
    at(log, 0, age_ms=30 * DAY_MS)
    producer = Producer(log, {"transactional.id": "p"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"1", timestamp_ms=1)
    producer.flush()
    at(log, 2, age_ms=30 * DAY_MS)
    Retention(log).run()
    assert start(log) == 1 == partition_of(log).last_stable_offset
    producer.commit_transaction()
    configure(log, retention_ms=0)
    log.clock.now += 1
    Retention(log).run()
    assert start(log) == partition_of(log).end == 4
    producer.close()


def test_partitions_of_all_topics_move_in_one_entry(log):
    log.ensure_topic("u", 2)
    for number in (0, 1):
        at(log, 1, 2, age_ms=8 * DAY_MS, topic="u", partition=number)
    at(log, 1, age_ms=8 * DAY_MS)
    seq = log.state.seq
    assert [due.at for due in Retention(log).run()] == [T0, ("u", 0), ("u", 1)]
    assert log.follow().seq == seq + 1
    assert Retention(log).run() == []
    assert log.follow().seq == seq + 1


# -- The clock -------------------------------------------------------------------------------------------


def test_a_clock_that_is_ahead_does_not_empty_the_log(log, caplog):
    at(log, 0, 1, age_ms=7 * DAY_MS - SLACK_MS - 60_000)
    at(log, 2, age_ms=0)
    wrong = another(log)
    wrong.clock.now += 3650 * DAY_MS / 1000
    retention = Retention(wrong)
    with caplog.at_level(logging.WARNING):
        assert retention.run() == [], "it believes a day of the ten years"
    assert retention.held_back_ms > 3600 * DAY_MS
    assert "days ahead of the newest entry" in caplog.text
    (told,) = Maintainer(wrong, only=["retention"], dry_run=True).run()
    assert re.fullmatch(r"nothing to do \(clock held back by 8\d{4}\.\d h: see --trust-clock\)", told.text)
    wrong.clock.now += 120
    assert [due.offset for due in retention.run()] == [2], "time that has passed is believed"
    assert Retention(wrong, trust_clock=True).run() != []
    assert values(another(log, b"c")) == []


def test_a_clock_that_is_to_be_trusted_is_believed_whatever_it_says(log):
    at(log, 0, age_ms=0)
    ahead = another(log)
    ahead.clock.now += 3650 * DAY_MS / 1000
    assert Retention(ahead).look() == []
    assert [due.offset for due in Retention(ahead, trust_clock=True).look()] == [1]


def test_a_log_that_is_quiet_is_cut_by_who_watches_it(log):
    at(log, *range(10), age_ms=0)
    retention = Retention(log)
    for _ in range(6):
        log.clock.now += DAY_MS / 1000
        assert retention.run() == []
    log.clock.now += DAY_MS / 1000
    retention.run()
    assert values(log) == []


def test_a_clock_that_is_behind_deletes_nothing(log):
    at(log, 0, age_ms=8 * DAY_MS)
    log.clock.now -= 30 * DAY_MS / 1000
    assert Retention(log).run() == []


# -- By size ---------------------------------------------------------------------------------------------


def sizes(log):
    return [row.batch.length for row in partition_of(log).index.scan(start(log), log.load) if row.batch]


@pytest.mark.parametrize("count", [3, 7, 30, 61])
def test_as_much_as_retention_bytes_stays(log, count):
    append(log, *range(count), size=100)
    size = sizes(log)[0]
    assert sizes(log) == [size] * count
    for kept in range(count, 0, -7):
        configure(log, retention_bytes=size * kept - 1)
        Retention(log).run()
        assert len(sizes(log)) == kept, "one less would be less than what is to be kept"
        assert Retention(log).run() == []
    assert values(log)[-1] == count - 1


@pytest.mark.parametrize("setting", ["retention_ms", "retention_bytes"])
def test_parquet_files_go_as_a_whole(log, setting):
    for number in range(8):
        at(log, number, age_ms=(8 - number) * DAY_MS)
    seal(log, "t", 3, 6, group=1)
    assert len(sizes(log)) == 8
    kept = {"retention_ms": 4 * DAY_MS + DAY_MS // 2, "retention_bytes": sum(sizes(log)[4:])}
    configure(log, **{"retention_ms": -1, setting: kept[setting]})
    (due,) = Retention(log).run()
    assert due.offset == 3
    assert Retention(log).run() == []
    configure(log, **{setting: {"retention_ms": DAY_MS // 2, "retention_bytes": 0}[setting]})
    (due,) = Retention(log).run()
    assert due.offset == 8


def test_a_parquet_file_goes_though_another_one_follows(log):
    append(log, *range(6), size=100)
    seal(log, "t", 3, 6, group=1)
    configure(log, retention_bytes=sum(sizes(log)[3:]))
    (due,) = Retention(log).run()
    assert due.offset == 3


def test_size_is_for_each_partition(log):
    log.ensure_topic("u", 2)
    append(log, *range(9), topic="u", size=100)
    append(log, *range(3), topic="u", partition=1, size=100)
    size = partition_of(log, "u", 1).index.tail[0].batch.length
    configure(log, "u", retention_bytes=3 * size)
    assert [(due.at, due.offset) for due in Retention(log).run()] == [(("u", 0), 6)]


def test_deleted_records_do_not_count(log):
    append(log, *range(30), size=100)
    Admin(log).delete_records({T0: 21})
    size = sizes(log)[0]
    configure(log, retention_bytes=9 * size)
    assert Retention(log).run() == []
    configure(log, retention_bytes=8 * size)
    assert [due.offset for due in Retention(log).run()] == [22]


def test_open_records_count_but_stay(log):
    append(log, *range(4), size=100)
    size = sizes(log)[0]
    producer = Producer(log, {"transactional.id": "p"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x" * 10_000)
    producer.flush()
    configure(log, retention_bytes=size)
    Retention(log).run()
    assert start(log) == 4
    producer.abort_transaction()
    producer.close()


# -- Beside others ---------------------------------------------------------------------------------------


def test_settings_that_changed_meanwhile_are_respected(log):
    at(log, 0, 1, age_ms=8 * DAY_MS)
    other = another(log)
    other.follow()
    retention = Retention(other)
    look = retention._due

    def changed():
        due = look()
        configure(log, retention_ms=-1)
        return due

    retention._due = changed
    assert retention.run() == []
    assert start(log) == 0


def test_a_topic_that_was_created_again_is_let_alone(log):
    at(log, 0, 1, age_ms=8 * DAY_MS)
    other = another(log)
    retention = Retention(other)
    look = retention._due

    def changed():
        due = look()
        Admin(log).delete_topic("t")
        log.ensure_topic("t")
        at(log, 5, 6, age_ms=0)
        return due

    retention._due = changed
    assert retention.run() == []
    assert values(log) == [5, 6]


def test_two_at_once(log):
    at(log, 0, 1, age_ms=8 * DAY_MS)
    other = another(log)
    first, second = Retention(log), Retention(other)
    due = second._due()
    second._due = lambda: due
    assert len(first.run()) == 1
    seq = log.state.seq
    assert second.run() == []
    assert log.follow().seq == seq


# -- Readers that were outrun ------------------------------------------------------------------------------


def outrun(log):
    """All but the last two of ten records are gone."""
    at(log, *range(8), age_ms=8 * DAY_MS)
    at(log, 8, 9, age_ms=0)
    Retention(log).run()


def consumer(log, **config):
    reader = Consumer(log, {"group.id": "g", "enable.auto.commit": False, **config})
    reader.assign([T0])
    return reader


def poll(reader):
    found = []
    for _ in range(5):
        found += [int(record.value) for record in reader.poll(timeout_ms=0)]
    return found


def test_a_consumer_without_a_reset_is_told(log):
    at(log, 100, age_ms=8 * DAY_MS)
    with consumer(log, **{"auto.offset.reset": "none"}) as reader:
        reader.commit({T0: OffsetAndMetadata(1)})
        reader.seek(T0, 1)
        outrun(log)
        with pytest.raises(OffsetOutOfRangeError, match="t-0"):
            reader.poll(timeout_ms=0)
        reader.seek_to_beginning(T0)
        assert poll(reader) == [8, 9]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [8, 9]), ("latest", [])])
def test_a_consumer_with_a_reset_goes_on(log, reset, expected):
    at(log, 100, age_ms=8 * DAY_MS)
    with consumer(log, **{"auto.offset.reset": reset}) as reader:
        reader.seek(T0, 1)
        outrun(log)
        assert poll(reader) == expected
        at(log, 10, age_ms=0)
        assert poll(reader) == [10]


def test_a_consumer_that_had_planned_what_is_gone(log):
    at(log, *range(8), age_ms=8 * DAY_MS)
    at(log, 8, 9, age_ms=0)
    with consumer(log, **{"auto.offset.reset": "none", "max.poll.records": 1}) as reader:
        reader.seek(T0, 0)
        assert [int(record.value) for record in reader.poll(timeout_ms=0)] == [0]
        Retention(log).run()
        Vacuum(log, min_age_s=0).run()
        assert len(listed(log, "data/")) == 2
        with pytest.raises(OffsetOutOfRangeError):
            poll(reader)
