"""Clients that were given an open log see what another process has committed since, whatever they are asked."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import NamedTuple

import duckdb
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition, read_arrow, read_duckdb, read_polars
from spark_eos.clients import arrow_reader
from spark_eos.clients.admin.resources import OffsetSpec
from spark_eos.clients.table_plan import plan_table
from spark_eos.errors import ConfigError, EosLogError
from spark_eos.log.clock import SYSTEM
from spark_eos.monitoring import Watch, lags

T0 = TopicPartition("t", 0)


class Later:
    """The clock of a machine, so much later that open transactions look as if they hung, and still believed."""

    def __getattr__(self, name):
        return getattr(SYSTEM, name)

    def now_ms(self):
        return SYSTEM.now_ms() + 3_000_000


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
def seen(tmp_path_factory, nursery):
    """What each call says by a handle before and after another process writes, and by a handle that is new then."""
    url = str(tmp_path_factory.mktemp("handles") / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 2)
        for number in range(5):
            producer.send("t", b"%d" % number, partition=0, timestamp_ms=number * 1000).result(timeout=60)
        admin.alter_group_offsets("g", {T0: 1})
    known = {name: Log.open(url, Later() if "hanging" in name else SYSTEM) for name in CALLS}
    before = {name: CALLS[name](log) for name, log in known.items()}
    nursery.run("clients/writes_where_others_have_looked", url)
    after = {name: CALLS[name](log) for name, log in known.items()}
    fresh = {name: CALLS[name](Log.open(url, known[name].clock)) for name in CALLS}
    return {name: Seen(before[name], after[name], fresh[name]) for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_an_open_log_is_asked_for_its_newest_entry(seen, name):
    found = seen[name]
    assert found.after == found.of_a_new_handle
    assert found.after != found.before


@pytest.fixture
def url(tmp_path):
    url = str(tmp_path / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 2)
        producer.send("t", b"x", partition=0)
    return url


@pytest.mark.parametrize("given", [{"max.block.ms": 5}, {"s3.region": "x"}], ids=str)
def test_how_a_log_is_opened_is_not_said_to_a_client_of_an_open_one(url, given):
    """It would have no effect."""
    (name,) = given
    with pytest.raises(ConfigError, match=f"^{name}: this says how a log is opened"):
        Producer(Log.open(url), given)


def made_again(url):
    other = Admin(Log.open(url))
    other.delete_topic("t")
    other.create_topic("t", 3, config={"retention.ms": 5})


CHANGES = {
    "alter_topic": lambda log: Admin(log).alter_topic("t", 5),
    "delete_topic": lambda log: Admin(log).delete_topic("t"),
    "delete_topics": lambda log: Admin(log).delete_topics(["t"]),
    "create_partitions": lambda log: Admin(log).create_partitions({"t": 4}),
    "delete_records": lambda log: Admin(log).delete_records({T0: 0}),
    "alter_group_offsets": lambda log: Admin(log).alter_group_offsets("g", {T0: 0}),
    "commit": of_consumer(lambda consumer: consumer.commit({T0: 0}), **{"group.id": "g"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_topic_that_another_process_has_made_again_is_changed(url, name):
    """The one that is there now: the caller knows its name alone."""
    log = Log.open(url)
    made_again(url)
    CHANGES[name](log)


class Meanwhile(Log):
    """A handle that another thread uses: right after the first look it moves it on."""

    is_ahead = True

    def follow(self, max_age_s=0.0):
        state = super().follow(max_age_s)
        if not self.is_ahead:
            self.is_ahead = True
            made_again(self.url)
            super().follow()
        return state


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda admin: len(admin.describe_topic("t").partitions), 2),
        (lambda admin: len(admin.describe_producers("t", 0)), 1),
        (lambda admin: admin.describe_configs(["t"])["topic"]["t"], {}),
    ],
    ids=["describe_topic", "describe_producers", "describe_configs"],
)
def test_an_answer_is_of_one_moment_whatever_another_thread_does(url, call, found):
    log = Meanwhile.open(url)
    log.is_ahead = False
    assert call(Admin(log)) == found
    assert log.is_ahead


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("ends", [False, True], ids=["whole", "until"])
def test_a_read_has_all_of_a_transaction_or_nothing(url, monkeypatch, isolation, ends):
    """The process commits to both partitions while `read_arrow` plans: the rows are those of one entry."""
    log, now_ms = Log.open(url), SYSTEM.now_ms()
    bound = datetime.fromtimestamp(now_ms / 1000 + 1800, timezone.utc) if ends else None
    inner, done = arrow_reader.end_offset, []

    def end_offset(partition, level):
        found = inner(partition, level)
        if not done:
            done.append(True)
            producer = Producer(log, {"transactional.id": "app"})
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(2):
                for later_ms in (0, 2_700_000):
                    producer.send("t", b"y", partition=number, timestamp_ms=now_ms + later_ms)
            producer.commit_transaction()
        return found

    monkeypatch.setattr(arrow_reader, "end_offset", end_offset)
    rows = read_arrow(log, "t", end=bound, isolation_level=isolation).read_all()
    assert rows["value"].to_pylist() == [b"x"]
    assert done == [True]
