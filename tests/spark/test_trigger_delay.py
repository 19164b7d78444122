"""minOffsetsPerTrigger and maxTriggerDelay: a micro-batch waits as that of Spark's Kafka source does."""

from __future__ import annotations

import time

import pytest

from spark_eos.config.durations import Delay
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.source.admission import TriggerDelay
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable, ReadMaxRows, ReadMinRows

pytestmark = pytest.mark.since("4.2")  # An older Spark refuses them: test_versions.py


@pytest.fixture
def read(bench):
    """A source of ``src``, which has three rows; it is as new as one after a restart."""

    def make(**options):
        given = {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest", **options}
        return EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())

    bench.topic("src")
    bench.produce("src", range(3))
    return make


def ends(source, start=None):
    """Where the next micro-batch ends, as an offset, and in ``src-0``."""
    end = source.latestOffset(start or source.initialOffset(), source.getDefaultReadLimit())
    return end, end["src"]["0"]


def test_the_first_micro_batch_of_a_run_does_not_wait(read):
    assert ends(read(minOffsetsPerTrigger="100"))[1] == 3


def test_later_ones_wait_for_enough(read, bench):
    source = read(minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    first, _ = ends(source)
    bench.produce("src", range(4))
    waiting, _ = ends(source, first)
    assert waiting == first
    bench.produce("src", range(1))
    second, position = ends(source, waiting)
    assert position == 8
    bench.produce("src", range(4))
    assert ends(source, second)[0] == second
    # After a restart how long it has waited is not known: it goes on at once.
    assert ends(read(minOffsetsPerTrigger="5", maxTriggerDelay="1h"), second)[1] == 12


def test_they_wait_no_longer_than_they_may(read, bench):
    source = read(minOffsetsPerTrigger="5", maxTriggerDelay="0s")
    first, _ = ends(source)
    bench.produce("src", range(1))
    assert ends(source, first)[1] == 4


def test_an_available_now_run_waits_for_nothing(read, bench):
    source = read(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="6")
    bench.produce("src", range(6))
    source.prepareForTriggerAvailableNow()
    first, position = ends(source)
    assert position == 6
    assert ends(source, first)[1] == 9  # Three are left, fewer than five.


def test_all_that_is_available_goes_before_the_least(read, bench):
    source = read(minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    first, _ = ends(source)
    bench.produce("src", range(1))
    assert source.latestOffset(first, ReadAllAvailable())["src"]["0"] == 4


def test_the_limits_that_spark_is_told(read):
    assert read().getDefaultReadLimit() == ReadAllAvailable()
    assert read(minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)
    both = read(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="9")
    assert both.getDefaultReadLimit() == ReadMaxRows(9)


def test_waiting():
    delay = TriggerDelay(5, 1000)
    assert not delay.waits(0, 10.0)
    assert delay.waits(4, 10.9)
    assert not delay.waits(5, 10.9)
    assert delay.waits(4, 11.8)
    assert not delay.waits(4, 11.9)


@pytest.mark.parametrize(
    ("text", "ms", "shown"),
    [
        ("15m", 900_000, "15m"),
        ("90", 90, "90ms"),
        (" 90MS ", 90, "90ms"),
        ("1500us", 1, "1ms"),
        ("2min", 120_000, "2m"),
        ("3600s", 3_600_000, "1h"),
        ("1d", 86_400_000, "1d"),
        ("0", 0, "0ms"),
    ],
)
def test_durations_are_sparks(text, ms, shown):
    assert Delay().parse(text) == ms
    assert Delay().show(ms) == shown


@pytest.mark.parametrize("text", ["", "s", "1.5s", "-1s", "1w", "1 s", "999999999999999999d"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match=r"^$"):
        Delay().parse(text)


@pytest.mark.deep
def test_a_query_waits(streams, bench, until):
    bench.topic("src")
    bench.produce("src", range(3))
    frame = streams.read(minOffsetsPerTrigger=5, maxTriggerDelay="1h").select("key", "value")
    query = streams.write(frame, trigger={"processingTime": "0 seconds"})
    try:
        until(lambda: "out" in bench.state.topics and bench.count("out") == 3, "the first micro-batch")
        bench.produce("src", range(3, 7))
        time.sleep(1)
        assert bench.count("out") == 3
        bench.produce("src", range(7, 8))
        until(lambda: bench.count("out") == 8, "the micro-batch with enough offsets")
    finally:
        query.stop()
    assert bench.values("out") == [*range(8)]
