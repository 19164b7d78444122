"""Queries that read outside of the log: the log does not know whether they run, and no view says that they do."""

from __future__ import annotations

import json

from spark_eos import Admin, Log
from spark_eos.cli.command import main
from spark_eos.monitoring.elsewhere import query_commits
from spark_eos.monitoring.status import status_of
from spark_eos.monitoring.troubles.trouble import LOG
from spark_eos.protocol.actions import CommitMicroBatch, InitProducer
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from tests.monitoring.micro_batches import micro_batch
from tests.needing import needs

OF_SHOP = [f"mirror/shop/kafka-id/topic-id/{number}" for number in range(2)]


def begin(log, name):
    log.commit(lambda state: (InitProducer(state.next_producer_id, 0, name, 60_000, "run"),))


def commit(log, name, number=0, more=()):
    """A batch that is no transaction, as a mirror commits it."""
    before = None if number == 0 else f'"{number - 1}"'
    sources = (SourceProgress(before, f'"{number}"'), *more)
    log.commit(lambda _: (CommitMicroBatch(name, name, "run", number, sources),))


def seconds(log):
    """When each query has committed last, in seconds from the first moment."""
    return {
        one.name: None if one.timestamp_ms is None else one.timestamp_ms // 1000 - 1_800_000_000
        for one in query_commits(log.follow())
    }


def test_a_batch_without_a_transaction_is_a_sign_of_life(log, clock):
    begin(log, "ingest")
    clock.now += 60
    commit(log, "ingest")
    assert seconds(log) == {"ingest": 60}
    clock.now += 60
    commit(log, "ingest", 1)
    assert seconds(log) == {"ingest": 120}


def test_the_partitions_of_a_mirror_are_one_and_the_newest_counts(log, clock):
    for name in OF_SHOP:
        begin(log, name)
    clock.now += 60
    commit(log, OF_SHOP[0])
    clock.now += 60
    commit(log, OF_SHOP[1])
    clock.now += 60
    commit(log, OF_SHOP[0], 1)
    assert seconds(log) == {"mirror/shop": 180}


def test_a_query_with_one_source_elsewhere_reads_elsewhere(log):
    begin(log, "join")
    topic_id = log.ensure_topic("orders").topic_id
    places = [(PartitionOffset("orders", topic_id, 0, 0),)] * 2
    commit(log, "join", more=(SourceProgress("a", "b", "join", *places),))
    micro_batch(log, "orders", 0)
    assert {one.name: one.reads_here for one in query_commits(log.follow())} == {"copy": True, "join": False}


def test_status_names_them_and_does_not_warn(tmp_path, capsys):
    url = str(tmp_path / "log")
    log = Log.create(url)
    Admin(log).create_topic("orders", 1)
    for name in (*OF_SHOP, "mirror-out/back"):
        begin(log, name)
        commit(log, name)
    micro_batch(log, "orders", 0)  # It reads here: its lag is known.
    assert main(["status", url]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not known")]
    assert line.startswith(
        "not known: whether these run, which read elsewhere: mirror-out/back (how far it is stands in Kafka), "
        "mirror/shop (has committed "
    )
    assert main(["status", url, "--json"]) == 0
    shop = log.state.producer_of(OF_SHOP[1]).last_ms
    assert json.loads(capsys.readouterr().out)["elsewhere"] == [
        {"query": "mirror-out/back", "last_commit_ms": None},
        {"query": "mirror/shop", "last_commit_ms": shop},
    ]


def test_a_limit_that_is_set_for_one_is_no_empty_word(log, clock):
    for name in OF_SHOP:
        begin(log, name)
        commit(log, name)
    micro_batch(log, "orders", 0)
    clock.now += 601
    assert status_of(log.store, clock=clock).troubles == []  # Perhaps there was nothing to mirror.
    Admin(log).alter_log({"health.lag.max.ms:mirror/shop": 600_000, "health.lag.max.ms:copy": 1})
    (one,) = status_of(log.store, clock=clock).troubles
    assert (one.level, one.name, one.about) == ("warning", "query silent", "mirror/shop")
    assert one.text == (
        "query 'mirror/shop', which reads elsewhere, has committed nothing for 10 min, and "
        "health.lag.max.ms:mirror/shop is 10 min"
    )
    assert one.look == (("history", LOG),)
    commit(log, OF_SHOP[0], 1)
    assert status_of(log.store, clock=clock).troubles == []


@needs("metrics")
def test_a_metric_has_the_age_of_every_querys_last_commit(log, clock):
    from spark_eos.extensions.metrics.watch import LogWatch

    begin(log, OF_SHOP[0])
    commit(log, OF_SHOP[0])
    begin(log, "mirror-out/back")
    commit(log, "mirror-out/back")
    clock.now += 90
    micro_batch(log, "orders", 0)
    clock.now += 10
    points = LogWatch(log.store, clock=clock).points(wait=True)
    ages = {one.labels[1]: one.value for one in points if one.metric.name == "eoslog.query.last_commit.age"}
    assert ages == {"mirror/shop": 100.0, "copy": 10.0}


@needs("ui")
def test_the_page_has_no_lag_of_them_and_when_they_have_committed(log, clock):
    from spark_eos.extensions.ui.areas.groups import groups, show_query
    from spark_eos.extensions.ui.areas.overview import overview
    from spark_eos.extensions.ui.follower import Follower
    from spark_eos.extensions.ui.question import Question

    begin(log, "ingest")
    clock.now += 60
    commit(log, "ingest")
    Admin(log).alter_log({"health.lag.max.ms:ingest": 1000})
    clock.now += 2
    follower = Follower(log.store, clock=clock)
    (row,) = groups(follower, Question({}))["rows"]
    assert (row["name"], row["lag"], row["last_ms"]) == ("ingest", None, 1_800_000_060_000)
    assert show_query(follower, Question({"query": "ingest"}))["lag"] is None
    (one,) = overview(follower, Question({}))["attention"]
    assert (one["level"], one["to"]) == ("warn", "groups")
