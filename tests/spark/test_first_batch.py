"""Where a query begins is decided once, on real Spark: with live producers, and where the first batch is repeated."""

from __future__ import annotations

import json
import threading
import time

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos import Producer
from spark_eos.log.log import Log


@pytest.fixture
def live(bench):
    """A producer that writes a row every few milliseconds, from the first call of Spark to the last."""
    over = threading.Event()
    bench.topic("src", 2)

    def write():
        with Producer(Log.open(bench.url)) as producer:
            number = 0
            while not over.is_set():
                producer.send("src", str(number), partition=number % 2)
                producer.flush()
                number += 1
                time.sleep(0.01)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    yield lambda: (over.set(), thread.join())
    over.set()
    thread.join()


def began(streams, checkpoint="cp"):
    """Where the first batch began, by partition: as Spark has it in the checkpoint."""
    lines = (streams.folder / checkpoint / "offsets" / "0").read_text().split("\n")
    return {int(number): at for number, at in json.loads(lines[2])["@eoslog"]["initial"]["src"].items()}


def from_there(bench, began):
    return sorted(int(value) for partition, offset, value in bench.rows("src") if offset >= began[partition])


@pytest.mark.deep
@pytest.mark.parametrize(
    "start",
    [
        {"start": None},
        {"start": '{"src": {"0": -1, "1": 0}}'},
        {"start": None, "startingTimestamp": 2**42, "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=["latest", "JSON", "timestamp"],
)
def test_rows_that_come_while_the_first_batch_is_planned(streams, bench, live, until, start):
    query = streams.write(
        streams.read(**start).select("key", "value"), trigger={"processingTime": "0 seconds"}
    )
    until(lambda: bench.count("out") > 20 or not query.isActive, "rows to be copied")
    live()
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    assert bench.values("out") == from_there(bench, began(streams))


@pytest.mark.deep
@pytest.mark.since("4.2")
def test_a_first_batch_that_is_repeated_begins_where_it_began(streams, bench):
    bench.topic("src", 2)
    bench.produce("src", range(4))
    frame = streams.read(start='{"src": {"0": 1, "1": -1}}')
    with pytest.raises(StreamingQueryException, match="DIVIDE_BY_ZERO"):
        streams.run(frame.selectExpr("cast(1 / (offset - offset) as string) value"))
    bench.produce("src", range(4, 10))
    streams.run(frame.select("key", "value"))
    assert began(streams) == {0: 1, 1: 2}
    assert bench.values("out") == [2, *range(4, 10)]
