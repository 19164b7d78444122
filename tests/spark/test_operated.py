"""An operator finds a Spark query that lags, by `eoslog status` alone, and starts it again as it says."""

from __future__ import annotations

import shlex
import time

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from spark_eos.log.log import Log


@pytest.fixture
def status(tmp_path, capfd):
    def look(code):
        assert main(["status", str(tmp_path / "log")]) == code
        return capfd.readouterr().out

    return look


@pytest.mark.deep
def test_a_query_that_has_ended_is_found_and_started_again(spark, tmp_path, status, capfd):
    url, checkpoint = str(tmp_path / "log"), str(tmp_path / "checkpoint")
    log = Log.create(url)
    for topic in ("orders", "bills"):
        Admin(log).create_topic(topic, 1)

    def send(count):
        two_hours_ago = int(time.time() * 1000) - 7_200_000
        with Producer(log) as producer:
            for _ in range(count):
                producer.send("orders", b"x", timestamp_ms=two_hours_ago)

    def run():
        source = spark.readStream.format("eoslog").option("subscribe", "orders")
        frame = source.option("startingOffsets", "earliest").load(url).select("key", "value")
        sink = (
            frame.writeStream.format("eoslog").option("topic", "bills").option("transactional.id", "billing")
        )
        sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(url).awaitTermination()

    send(4)
    run()
    assert "query behind" not in status(0)
    send(6)
    # Its last micro-batch was a moment ago: to a real operator it would be minutes.
    Admin(log).alter_log({"health.lag.max.ms": "1"})
    shown = status(1)
    assert "query 'billing' is 6 records and 2 h behind in orders-0" in shown
    assert "start it again on its checkpoint" in shown
    for line in shown.splitlines():
        if line.strip().startswith("look:"):
            assert main(shlex.split(line)[2:]) == 0
            assert "billing" in capfd.readouterr().out
    run()
    assert "query behind" not in status(0)
