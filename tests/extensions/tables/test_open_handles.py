"""Tables of an open log see what another process has committed since, whatever they are asked."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import time

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.errors import ConfigError
from spark_eos.extensions.tables.tables import Tables
from tests.clients.test_open_handles import made_again, url  # noqa: F401  (a fixture)
from tests.expiration import no_expiration
from tests.starting import run

CALLS = {
    "list_tables": lambda log: Tables(log).list_tables(),
    "versions": lambda log: [version.entry for version in Tables(log).versions("p")],
    "is_due": lambda log: Tables(log).publisher("p").is_due(),
}


def test_an_open_log_is_asked_for_its_newest_entry(url, tmp_path):
    Tables(url).create("p", ["t"])
    logs = {name: Log.open(url) for name in CALLS}
    before = {name: call(logs[name]) for name, call in CALLS.items()}
    run("extensions/tables/publishes_where_others_have_looked", url, tmp_path / "copies")
    for name, call in CALLS.items():
        after = call(logs[name])
        assert after == call(Log.open(url)), name
        assert after != before[name], name


def test_a_topic_that_another_process_has_made_again_is_published(url):
    log = Log.open(url)
    made_again(url)
    Tables(log).create("p", ["t"])


def test_a_topic_that_another_process_compacts_is_no_shared_table(url):
    log = Log.open(url)
    Admin(Log.open(url)).alter_topic("t", config={"cleanup.policy": "compact"})
    with pytest.raises(ConfigError, match="compacted"):
        Tables(log).create("p", ["t"])


def test_a_publisher_waits_for_no_transaction_whose_time_is_over(url):
    """Also if the handle has not heard of it."""
    Tables(url).create("p", ["t"])
    log = Log.open(url)
    publisher = Tables(log).publisher("p")
    producer = Producer(Log.open(url), {"transactional.id": "app", "transaction.timeout.ms": 1})
    producer.init_transactions()
    producer.begin_transaction()
    with no_expiration():
        producer.send("t", b"late", partition=0)
        producer.flush()
    assert Log.open(url).state.open_transactions
    publisher.publish()  # It is watched from now on.
    time.sleep(0.01)
    publisher.publish()
    assert not Log.open(url).state.open_transactions
