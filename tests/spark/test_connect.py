"""Spark Connect: the client has no JVM, the server finds eoslog by itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.needing import is_here
from verification.processes import running

DRIVERS = Path(__file__).with_name("drivers")
BOUND_S = 450
"""Only to end a test that has failed, before pytest's own limit does: slow machines take minutes."""


def told_by(driver, folder):
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'spark-eos[connect]'")
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder)]  # Where Spark puts its tables.
    command += [
        sys.executable,
        str(DRIVERS / driver),
        str(folder / "log"),
        str(folder / "checkpoint"),
        str(BOUND_S),
    ]
    with running(
        command, folder / "connect.out", SPARK_CONNECT_MODE_ENABLED="1", SPARK_TESTING="1"
    ) as client:
        output = client.succeed(BOUND_S)
    told = json.loads(next(line for line in output.splitlines() if line.startswith("TOLD "))[5:])
    assert told["session"].startswith("pyspark.sql.connect")
    return told


def test_batch_stream_discovery_and_errors(tmp_path):
    told = told_by("connect.py", tmp_path)
    assert told["columns"][:2] == ["key", "value"]
    assert told["batch"] == told["stream"] == [2 * i for i in range(100)]
    (report,), (source,), sink = told["reports"], told["progress"]["sources"], told["progress"]["sink"]
    assert report["sources"][0]["metrics"] == source["metrics"]
    assert report["sink"]["metrics"] == sink["metrics"]
    assert report["sources"][0]["endOffset"] == source["endOffset"]
    assert source["endOffset"].keys() == {"@eoslog", "numbers"}
    assert source["description"] == f"eoslog[numbers of {tmp_path / 'log'}]"
    assert source["metrics"]["maxOffsetsBehindLatest"] == "0"
    assert sink["description"] == f"eoslog[copied of {tmp_path / 'log'}]"
    assert sink["metrics"]["numOutputRecords"] == "100"
    assert told["frames"] == [100, 100]
    assert "has no topic 'number'; did you mean 'numbers'?" in told["error"]


@pytest.mark.deep
def test_transactions_that_are_repeated_and_refused(tmp_path):
    told = told_by("connect_transactions.py", tmp_path)
    assert "after the commit" in told["frames failed"]
    assert told["frames again"] == ""
    assert told["frames"] == [100, 100, "repeated"]
    assert "IllegalStateError: batch 1 of query" in told["wrong batch"]
    assert told["job"] == [100, 1]


@pytest.mark.deep
def test_columns_tables_filters_and_state(tmp_path):
    told = told_by("connect_tables.py", tmp_path)
    assert told["typed"] == [[1, "Ada", 0], [2, "Bob", 1]]
    assert told["whole"] == [[[1, 0], [2, 1]], True]
    if is_here("tables"):
        assert told["after the version"] == [[3, "Cem"]]
    assert told["columns of a read"] == ["name"]
    assert told["filtered"] == [2, 3]
    assert told["overwritten"] == [3, 1]
    if is_here("value_formats"):
        assert told["avro"] == ["pears"]
    assert told["sql"] == 2
    assert told["where"] == [["Ada"]]
    assert "topic 'people' has no column 'nmae'" in told["no filter"]
    assert told["filter of columns"] == [[3, "Ada", 0]]
    assert "option filterPushdown: this DataFrame was read with the filter" in told["second filter"]
    assert told["complete"] == ["100"]
    assert "CheckpointMismatchError: " in told["refused"]
    assert "Nothing was written" in told["refused"]
