"""Batch reads as of an entry or a time, as Spark makes them, without Spark."""

from __future__ import annotations

import pytest

from spark_eos.errors import ConfigError, InvalidRequestError, OffsetOutOfRangeError
from spark_eos.log.time_travel import iso
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink.commit import truncation
from spark_eos.spark.source.batch import EosLogBatchReader


@pytest.fixture
def read(bench):
    """(offset, value) of all rows of a batch read of ``src``."""

    def make(**options):
        given = {"path": bench.url, "subscribe": "src", **options}
        reader = EosLogBatchReader(parse_source(given, streaming=False), kafka_schema())
        return [
            (row["offset"], row["value"].decode())
            for task in reader.partitions()
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]

    bench.topic("src")
    return make


@pytest.fixture
def times(bench, read):  # noqa: ARG001  (read makes the topic)
    """Entry and time of each of five writes of one record."""
    found = []
    for number in range(5):
        now = bench.log.clock.now_ms()
        while bench.log.clock.now_ms() == now:
            pass  # Each has a time of its own.
        bench.produce("src", [number])
        found.append((bench.state.seq, bench.state.timestamp_ms))
    return found


def expected(count):
    return [(number, str(number)) for number in range(count)]


def test_as_of_an_entry(read, times):
    for count, (seq, _) in enumerate(times, 1):
        assert read(versionAsOf=str(seq)) == expected(count)


def test_as_of_a_time(read, times):
    for count, (_, timestamp_ms) in enumerate(times, 1):
        assert read(timestampAsOf=iso(timestamp_ms)) == expected(count)
        assert read(timestampAsOf=str(timestamp_ms)) == expected(count)


def test_a_part_as_of_an_entry(read, times):
    seq, _ = times[3]
    assert read(versionAsOf=str(seq), startingOffsets='{"src": {"0": 2}}') == expected(4)[2:]
    assert read(versionAsOf=str(seq), endingOffsets='{"src": {"0": 2}}') == expected(2)


def test_before_an_overwrite(bench, read, times):
    """As long as the files are there, which is file.delete.delay.ms at least."""
    bench.log.commit(lambda state: truncation(state, "src"))
    bench.produce("src", [7])
    assert read() == [(5, "7")]
    for count, (seq, timestamp_ms) in enumerate(times, 1):
        assert read(versionAsOf=str(seq)) == read(timestampAsOf=str(timestamp_ms)) == expected(count)
    for name in bench.files("src") - bench.referenced("src"):
        bench.log.store.delete(name)
    with pytest.raises(OffsetOutOfRangeError, match="a vacuum has removed their files"):
        read(versionAsOf=str(times[-1][0]))


@pytest.mark.usefixtures("times")
def test_what_is_not_there(read):
    with pytest.raises(InvalidRequestError, match="has no entry 1000"):
        read(versionAsOf="1000")
    with pytest.raises(InvalidRequestError, match="the earliest is entry 0"):
        read(timestampAsOf="1999-12-31")
    with pytest.raises(InvalidRequestError, match="is yet to come"):
        read(timestampAsOf="2999-12-31")


def test_options_that_cannot_be(read):
    with pytest.raises(ConfigError, match="versionAsOf and timestampAsOf contradict each other"):
        read(versionAsOf="1", timestampAsOf="2026-01-01")
    with pytest.raises(ConfigError, match="timestampAsOf='soon': expected a date or time such as"):
        read(timestampAsOf="soon")
    with pytest.raises(ConfigError, match="option versionAsOf='-1': expected a whole number"):
        read(versionAsOf="-1")
    with pytest.raises(ConfigError, match=r"versionAsOf belongs to spark\.read"):
        parse_source({"path": "x", "subscribe": "src", "versionAsOf": "1"}, streaming=True)
