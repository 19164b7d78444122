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

    def send(count, hours_ago=2):
        sent_ms = int(time.time() * 1000) - hours_ago * 3_600_000
        with Producer(log) as producer:
            for _ in range(count):
                producer.send("orders", b"x", timestamp_ms=sent_ms)

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
    # From now on it is a job that runs once a day.
    assert "the log's setting health.lag.max.ms:billing" in shown
    assert main(["configs", url, "--alter", f"health.lag.max.ms:billing={26 * 3_600_000}"]) == 0
    assert "health.lag.max.ms:billing" in capfd.readouterr().out
    send(3)
    assert "query behind" not in status(0)
    run()
    send(3, hours_ago=27)
    assert "query 'billing' is 3 records and 27 h behind in orders-0" in status(1)
    run()
    assert "query behind" not in status(0)
    # Its topic is replaced by another one, and it is given up.
    Admin(log).delete_topic("orders")
    Admin(log).create_topic("orders", 1)
    shown = status(1)
    assert "query 'billing' reads topic 'orders', which was deleted" in shown
    (cure,) = [line for line in shown.splitlines() if line.strip().startswith("cure:")]
    assert main(shlex.split(cure)[2:]) == 0
    capfd.readouterr()
    assert "topic deleted" not in status(0)
