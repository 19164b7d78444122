"""Clients that were given an open log see what another process has committed since, whatever they are asked."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import duckdb
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition, read_arrow, read_duckdb, read_polars
from spark_eos.clients.table_plan import plan_table
from spark_eos.errors import EosLogError
from spark_eos.kafka import OffsetSpec
from spark_eos.log.clock import SYSTEM
from spark_eos.monitoring import Watch, lags
from spark_eos.tables import Tables

T0 = TopicPartition("t", 0)

OTHER = """
import os, sys
from spark_eos import Admin, Producer, TopicPartition
from spark_eos.tables import Tables

url = sys.argv[1]
admin = Admin(url)
admin.alter_topic("t", 3, config={"retention.ms": 9_000_000})
admin.create_topic("new")
admin.alter_log({"offsets.retention.minutes": 1440})
with Producer(url) as producer:
    for number in range(5, 9):
        producer.send("t", b"%d" % number, partition=0, timestamp_ms=number * 1000).result(timeout=60)
admin.delete_records({TopicPartition("t", 0): 2})
admin.alter_group_offsets("g", {TopicPartition("t", 0): 4})
admin.alter_group_offsets("h", {TopicPartition("t", 0): 5})
tables = Tables(url)
tables.publish("p")
tables.create("q", ["t"], mode="copied", location=sys.argv[2])
producer = Producer(url, {"transactional.id": "app"})
producer.init_transactions()
producer.begin_transaction()
producer.send("t", b"open", partition=0)
producer.flush()
os._exit(0)  # As if killed: its transaction stays open.
"""


class Later:
    """The clock of a machine that is so much later that open transactions look as if they hung."""

    def __getattr__(self, name):
        return getattr(SYSTEM, name)

    def now_ms(self):
        return SYSTEM.now_ms() + 3_600_000


def consumer_of(log, **settings):
    return Consumer(log, {"enable.auto.commit": False, "auto.offset.reset": "earliest", **settings})


def of_consumer(call, **settings):
    def asked(log):
        with consumer_of(log, **settings) as consumer:
            return call(consumer)

    return asked


def of_assigned(call, **settings):
    def asked(consumer):
        consumer.assign([T0])
        return call(consumer)

    return of_consumer(asked, **settings)


def of_admin(call):
    return lambda log: call(Admin(log))


def values(records):
    return [record.value for record in records]


CALLS = {
    "list_topics": of_admin(lambda admin: admin.list_topics()),
    "describe_topic": of_admin(lambda admin: admin.describe_topic("t")),
    "describe_topics": of_admin(lambda admin: admin.describe_topics()),
    "describe_configs": of_admin(lambda admin: admin.describe_configs(["t"])),
    "list_offsets": of_admin(lambda admin: admin.list_offsets({T0: OffsetSpec.LATEST})),
    "list_offsets committed": of_admin(
        lambda admin: admin.list_offsets({T0: OffsetSpec.LATEST}, "read_committed")
    ),
    "list_offsets by time": of_admin(lambda admin: admin.list_offsets({T0: 6000})),
    "create_partitions": of_admin(lambda admin: refusal(lambda: admin.create_partitions({"t": 3}, True))),
    "list_groups": of_admin(lambda admin: admin.list_groups()),
    "describe_group": of_admin(lambda admin: admin.describe_group("g")),
    "describe_groups": of_admin(lambda admin: admin.describe_groups()),
    "list_group_offsets": of_admin(lambda admin: admin.list_group_offsets("g")),
    "reset_group_offsets": of_admin(
        lambda admin: admin.reset_group_offsets("g", to_latest=True, dry_run=True)
    ),
    "list_transactions": of_admin(lambda admin: admin.list_transactions()),
    "describe_transaction": of_admin(lambda admin: refusal(lambda: admin.describe_transaction("app"))),
    "describe_producers": of_admin(lambda admin: admin.describe_producers("t", 0)),
    "find_hanging_transactions": of_admin(
        lambda admin: [one.transactional_id for one in admin.find_hanging_transactions("t")]
    ),
    "describe_log": of_admin(lambda admin: admin.describe_log()),
    "describe_clock": of_admin(lambda admin: admin.describe_clock().log_ms),
    "topics": of_consumer(lambda consumer: consumer.topics()),
    "partitions_for_topic": of_consumer(lambda consumer: consumer.partitions_for_topic("t")),
    "beginning_offsets": of_consumer(lambda consumer: consumer.beginning_offsets([T0])),
    "end_offsets": of_consumer(lambda consumer: consumer.end_offsets([T0])),
    "end_offsets committed": of_consumer(
        lambda consumer: consumer.end_offsets([T0]), **{"isolation.level": "read_committed"}
    ),
    "offsets_for_times": of_consumer(lambda consumer: consumer.offsets_for_times({T0: 6000})),
    "committed": of_consumer(lambda consumer: consumer.committed([T0]), **{"group.id": "g"}),
    "position": of_assigned(lambda consumer: consumer.position(T0), **{"group.id": "g"}),
    "highwater": of_assigned(lambda consumer: consumer.highwater(T0)),
    "poll": of_assigned(lambda consumer: values(consumer.poll(0))),
    "poll_arrow": of_assigned(lambda consumer: consumer.poll_arrow(0)),
    "partitions_for": lambda log: Producer(log).partitions_for("t"),
    "read_arrow": lambda log: read_arrow(log, "t").read_all(),
    "read_arrow uncommitted": lambda log: read_arrow(log, "t", isolation_level="read_uncommitted").read_all(),
    "read_duckdb": lambda log: read_duckdb(duckdb.connect(), log, "t").order('"offset"').to_arrow_table(),
    "read_polars": lambda log: read_polars(log, "t").collect().rows(),
    "plan_table": lambda log: plan_table(log, "t").seq,
    "list_tables": lambda log: Tables(log).list_tables(),
    "versions": lambda log: [version.entry for version in Tables(log).versions("p")],
    "is_due": lambda log: Tables(log).publisher("p").is_due(),
    "lags": lambda log: [(lag.name, lag.offsets) for lag in lags(log, max_age_s=0)],
    "Watch": lambda log: Watch(log).look().seq,
}


def refusal(call):
    try:
        return call()
    except EosLogError as error:
        return str(error)


class Seen(NamedTuple):
    before: object
    after: object
    of_a_new_handle: object


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What each call says by a handle before and after another process writes, and by a handle that is new then."""
    url = str(tmp_path_factory.mktemp("handles") / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 2)
        for number in range(5):
            producer.send("t", b"%d" % number, partition=0, timestamp_ms=number * 1000).result(timeout=60)
        admin.alter_group_offsets("g", {T0: 1})
        Tables(url).create("p", ["t"])
    known = {name: Log.open(url, Later() if "hanging" in name else SYSTEM) for name in CALLS}
    before = {name: CALLS[name](log) for name, log in known.items()}
    copies = str(tmp_path_factory.mktemp("copies"))
    subprocess.run([sys.executable, "-c", OTHER, url, copies], check=True, timeout=300)
    after = {name: CALLS[name](log) for name, log in known.items()}
    fresh = {name: CALLS[name](Log.open(url, known[name].clock)) for name in CALLS}
    return {name: Seen(before[name], after[name], fresh[name]) for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_an_open_log_is_asked_for_its_newest_entry(seen, name):
    found = seen[name]
    assert found.after == found.of_a_new_handle
    assert found.after != found.before
