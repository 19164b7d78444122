"""Queries of a log that follows another one, with the right to read alone: they wait only while it cannot be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest
from pyspark.errors import PySparkException

from spark_eos import Admin, MultiLogProducer, Producer
from spark_eos.spark.start import start_query
from spark_eos.spark.table import read_table
from tests.spark.conftest import Bench


class Killed(BaseException):
    """The coordinator dies."""


@pytest.fixture
def mounted(tmp_path):
    """Shows a folder where it can only be read."""
    command = shutil.which("mount")
    if command is None or os.geteuid():
        pytest.skip("needs the right to mount a folder for reading alone")
    places = []

    def mount(folder):
        place = tmp_path / f"{folder.name}-read-only"
        place.mkdir()
        for options in (["--bind", folder, place], ["-o", "remount,bind,ro", place]):
            done = subprocess.run([command, *map(str, options)], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"needs the right to mount a folder for reading alone: {done.stderr.strip()}")
            if place not in places:
                places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def decided(tmp_path):
    """Two logs: one has decided, and its coordinator died before the other one followed."""
    orders, payments = tmp_path / "orders", tmp_path / "payments"
    for url, topic in ((orders, "orders"), (payments, "payments")):
        Admin(url).create_topic(topic)
    given = {"transactional.id": "shop"}
    group = MultiLogProducer(Producer(orders, given), Producer(payments, given))
    group.init_transactions()

    def send(value):
        for topic, member in zip(("orders", "payments"), group._producers, strict=True):
            member.send(topic, value)

    with group.transaction():
        send(b"before")
    group.begin_transaction()
    send(b"a")

    def die(*_args, **_kwargs):
        raise Killed

    group._members[1].follow = die
    with pytest.raises(Killed):
        group.commit_transaction()
    return orders, payments


def copy(spark, source, target, checkpoint):
    rows = spark.readStream.format("eoslog").options(subscribe="payments", startingOffsets="earliest")
    writer = rows.load(str(source)).select("value").writeStream.format("eoslog").option("topic", "copy")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    start_query(lambda: writer.start(str(target))).awaitTermination()


def values(frame):
    return sorted(row.value for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


@pytest.mark.deep
def test_what_may_only_be_read_is_read_as_it_was_decided(spark, decided, mounted, tmp_path):
    orders, payments = decided
    shown, target = mounted(payments), tmp_path / "target"
    batch = spark.read.format("eoslog").option("subscribe", "payments").load(str(shown))
    assert values(batch) == ["a", "before"]
    assert values(read_table(spark, str(shown), "payments")) == ["a", "before"]
    copy(spark, shown, target, tmp_path / "checkpoint")
    assert Bench(target).values("copy") == ["a", "before"]
    assert Bench(payments).state.open_transactions, "no query could write there"

    # The same micro-batch is planned again by a process that has not asked yet, and by one that cannot.
    def unfinished():
        for commit in (tmp_path / "checkpoint" / "commits").iterdir():
            commit.unlink()

    unfinished()
    copy(spark, shown, target, tmp_path / "checkpoint")
    assert Bench(target).values("copy") == ["a", "before"]
    unfinished()
    orders.rename(away := tmp_path / "away")
    with pytest.raises(PySparkException, match="was known how a transaction of another log ended"):
        copy(spark, shown, target, tmp_path / "checkpoint")
    away.rename(orders)
    copy(spark, shown, target, tmp_path / "checkpoint")
    assert Bench(target).values("copy") == ["a", "before"]


@pytest.mark.deep
def test_without_the_deciding_log_readers_wait(spark, decided, mounted, tmp_path):
    orders, payments = decided
    shown = mounted(payments)
    orders.rename(away := tmp_path / "away")
    reader = spark.read.format("eoslog").option("subscribe", "payments")
    assert values(reader.load(str(shown))) == ["before"]
    away.rename(orders)
    while (found := values(reader.load(str(shown)))) == [
        "before"
    ]:  # A process that could not ask rests for seconds.
        time.sleep(0.2)
    assert found == ["a", "before"]
