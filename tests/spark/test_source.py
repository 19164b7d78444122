"""The streaming source as Spark calls it, without Spark: what it refuses, and that no row is left out or doubled."""

from __future__ import annotations

import pickle
import shutil

import pytest

from spark_eos import Admin, Producer
from spark_eos.errors import (
    CheckpointMismatchError,
    DivergedLogError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AdvanceLogStart, PartitionOffset
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable, ReadMaxRows

ALL = ReadAllAvailable()


@pytest.fixture
def read(bench):
    """A source of ``src``; it is as new as one after a restart."""

    def make(**options):
        given = {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest", **options}
        given = {name: value for name, value in given.items() if value is not None}
        return EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())

    bench.topic("src")
    bench.produce("src", range(10))
    return make


def began(source, limit=ALL):
    """Where a new query of the source begins, as an offset."""
    end = source.latestOffset(source.initialOffset(), limit)
    return {**end, **end["@eoslog"]["initial"]}


def rows(source, start, end):
    """(partition, offset, value) of all rows from start to end, task by task."""
    return [
        (row["partition"], row["offset"], row["value"].decode())
        for task in source.partitions(start, end)
        for batch in source.read(task)
        for row in batch.to_pylist()
    ]


def expected(first, last, partition=0):
    return [(partition, number, str(number)) for number in range(first, last)]


def move(offset, to):
    """The offset with partition 0 of src at another place."""
    return {**offset, "src": {**offset["src"], "0": to}}


def test_what_is_there_is_read_once(read):
    source = read()
    start = began(source)
    end = source.latestOffset(start, ALL)
    assert rows(source, start, end) == expected(0, 10)
    assert source.latestOffset(end, ALL) == end
    assert rows(read(), move(end, 3), move(end, 7)) == expected(3, 7)


def test_a_copy_for_the_tasks_has_no_log(read):
    """It had the driver's, opened again, which is not the one that this run has opened."""
    source = read()
    end = source.latestOffset(began(source), ALL)
    copy = pickle.loads(pickle.dumps(source))
    assert copy.latestOffset(end, ALL) == end


def test_a_checkpoint_of_another_log(read):
    source = read()
    start = began(source)
    other = {**start, "@eoslog": {**start["@eoslog"], "log": "another"}}
    for call in (
        lambda: source.latestOffset(other, ALL),
        lambda: source.partitions(other, start),
        lambda: source.partitions(start, other),
    ):
        with pytest.raises(CheckpointMismatchError, match="another log"):
            call()


def test_a_topic_that_was_created_again(read, bench):
    source = read()
    start = began(source)
    Admin(bench.log).delete_topic("src")
    bench.topic("src")
    bench.produce("src", range(100))
    with pytest.raises(CheckpointMismatchError, match="created again"):
        source.latestOffset(start, ALL)
    with pytest.raises(CheckpointMismatchError, match="created again"):
        source.partitions(start, move(start, 10))


def test_a_topic_that_is_gone(read, bench):
    source, brave = read(), read(failOnDataLoss="false")
    start = began(source)
    bench.topic("other")
    Admin(bench.log).delete_topic("src")
    with pytest.raises(UnknownTopicOrPartitionError, match="'src'"):
        source.latestOffset(start, ALL)
    with pytest.raises(UnknownTopicOrPartitionError, match="'src'"):
        source.partitions(start, move(start, 10))
    assert rows(brave, start, move(start, 10)) == []
    assert brave.reportLatestOffset() == {}


def test_a_checkpoint_ahead_of_the_log(read):
    source = read()
    start = began(source)
    with pytest.raises(OffsetOutOfRangeError, match="src-0 up to offset 11, but the log ends at 10"):
        source.latestOffset(move(start, 11), ALL)
    with pytest.raises(OffsetOutOfRangeError, match="src-0 up to offset 11, but the log ends at 10"):
        source.partitions(start, move(start, 11))


def test_records_that_are_gone(read, bench):
    source, brave = read(), read(failOnDataLoss="false")
    start = began(source)
    topic = bench.topic("src")
    bench.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("src", topic.topic_id, 0, 4),)),))
    with pytest.raises(OffsetOutOfRangeError, match="from offset 0 to 3 are gone"):
        source.partitions(start, move(start, 10))
    assert rows(brave, start, move(start, 10)) == expected(4, 10)
    assert rows(brave, start, move(start, 2)) == []


def test_new_partitions_are_read_from_their_beginning(read, bench):
    source = read()
    start = source.latestOffset(source.initialOffset(), ALL)
    Admin(bench.log).alter_topic("src", partitions=2)
    bench.produce("src", range(10, 14))  # 10 and 12 into partition 0, 11 and 13 into partition 1
    end = source.latestOffset(start, ALL)
    replay = [(0, 10, "10"), (0, 11, "12"), (1, 0, "11"), (1, 1, "13")]
    assert rows(read(), start, end) == replay
    # A replay knows where the partition began, also when its records have gone since.
    topic = bench.topic("src")
    bench.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("src", topic.topic_id, 1, 1),)),))
    with pytest.raises(OffsetOutOfRangeError, match="src-1 from offset 0 to 0 are gone"):
        read().partitions(start, end)


def test_a_new_topic_is_read_from_what_is_left_of_it_and_again_from_there(read, bench):
    source = read(subscribePattern="src.*", subscribe=None)
    start = source.latestOffset(source.initialOffset(), ALL)
    topic = bench.topic("src-2")
    bench.produce("src-2", range(5))
    bench.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("src-2", topic.topic_id, 0, 2),)),))
    end = source.latestOffset(start, ALL)
    left = [(0, 2, "2"), (0, 3, "3"), (0, 4, "4")]
    assert rows(source, start, end) == left
    # After a restart nothing but the checkpoint says where the topic began.
    assert rows(read(subscribePattern="src.*", subscribe=None), start, end) == left


def test_available_now_ends_at_what_was_there(read, bench):
    source = read()
    start = began(source)
    source.prepareForTriggerAvailableNow()
    limit = ReadMaxRows(6)
    middle = source.latestOffset(start, limit)
    Admin(bench.log).alter_topic("src", partitions=2)
    bench.produce("src", range(10, 20))
    end = source.latestOffset(middle, limit)
    assert rows(source, start, middle) + rows(source, middle, end) == expected(0, 10)
    assert source.latestOffset(end, limit) == end


def test_open_transactions_are_waited_for(read, bench):
    source = read()
    start = began(source)
    producer = Producer(bench.log, {"transactional.id": "tx"})
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.send("src", end.__name__)
        producer.flush()
        bench.produce("src", ["behind"])
        before = source.latestOffset(start, ALL)
        assert source.latestOffset(before, ALL) == before
        assert source.reportLatestOffset()["src"] == before["src"], "nor are they behind"
        assert {value for _, _, value in rows(source, start, before)}.isdisjoint({end.__name__})
        end()
    found = rows(source, start, source.latestOffset(start, ALL))
    assert [value for _, _, value in found][10:] == ["behind", "commit_transaction", "behind"]
    with pytest.raises(OffsetOutOfRangeError, match="ahead"):
        source.partitions(start, move(start, 17))


def test_tasks_that_cut_a_batch(read):
    source = read(maxRecordsPerPartition="3")
    start = began(source)
    end = source.latestOffset(start, ALL)
    assert [task.fetches[0].count for task in source.partitions(start, end)] == [3, 3, 3, 1]
    assert rows(source, start, end) == expected(0, 10)


def test_a_small_partition_beside_a_large_one_is_not_starved(read, bench):
    source = read()
    Admin(bench.log).alter_topic("src", partitions=2)
    start = began(source)
    producer = Producer(bench.log)
    for number in range(101):
        producer.send("src", str(number), partition=int(number == 7))
    producer.flush()
    end = source.latestOffset(start, ReadMaxRows(5))
    assert end["src"] == {"0": 4, "1": 1}


@pytest.fixture
def naps(bench, monkeypatch):
    """What is slept, on a clock that goes on by nothing else; ``naps.then`` is called after each."""

    class Naps(list):
        then = staticmethod(lambda: None)

    found = Naps()
    began_s = bench.log.clock.monotonic()

    def sleep(_, seconds):
        found.append(seconds)
        found.then()

    clock = bench.log.clock.__class__
    monkeypatch.setattr(clock, "sleep", sleep)
    monkeypatch.setattr(clock, "monotonic", lambda _: began_s + sum(found))
    return found


def test_a_poll_of_a_folder_without_news_waits_for_news_for_a_moment(read, naps):
    source = read()
    end = source.latestOffset(began(source), ALL)
    assert source.latestOffset(end, ALL) == end
    assert naps == [], "the first look in vain is told at once"
    for polls in (1, 2, 3):
        assert source.latestOffset(end, ALL) == end
        assert sum(naps) == pytest.approx(polls * 0.05)
    assert max(naps) <= 0.01


def test_news_ends_the_wait_and_a_micro_batch_spares_it(bench, read, naps):
    source = read()
    end = source.latestOffset(began(source), ALL)
    assert source.latestOffset(end, ALL) == end
    naps.then = lambda: bench.produce("src", [10]) if len(naps) == 2 else None
    newer = source.latestOffset(end, ALL)
    assert newer["src"] == {"0": 11}
    assert len(naps) == 2
    assert source.latestOffset(newer, ALL) == newer
    naps.append(0.2)  # A micro-batch of another source of the query has run.
    naps.then = lambda: pytest.fail("it waits")
    assert source.latestOffset(newer, ALL) == newer


@pytest.mark.parametrize("found_by", ["the query", "another client"])
def test_a_folder_that_is_put_back_under_a_running_query_ends_it(tmp_path, found_by):
    """Also where the other history has grown past the query's position, and where another client has noticed first."""
    url, copy = str(tmp_path / "log"), str(tmp_path / "copy")

    def fill(*numbers):
        with Producer(Log.open_or_create(url)) as producer:
            for number in numbers:
                producer.send("src", str(number)).result(60)

    def source():
        given = {"path": url, "subscribe": "src", "startingOffsets": "earliest"}
        return EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())

    fill(*range(5))
    shutil.copytree(url, copy, symlinks=True)
    fill(*range(5, 10))
    running = source()
    end = running.latestOffset(began(running), ALL)
    assert end["src"] == {"0": 10}
    shutil.rmtree(url)
    shutil.move(copy, url)
    fill(*range(100, 120))
    if found_by == "another client":
        assert Log.shared(url).state.seq > 0
    for _ in range(2):
        with pytest.raises(DivergedLogError):
            running.latestOffset(end, ALL)
    with pytest.raises(DivergedLogError, match="start it again"):
        running.latestOffset(end, ALL)
    with pytest.raises(OffsetOutOfRangeError, match="put back from a copy"):
        source().latestOffset(end, ALL)
