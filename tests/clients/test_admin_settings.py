"""The admin's view of the whole log: its settings, and what they let go."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.config.log import LOG
from spark_eos.errors import ConfigError, UnknownTopicOrPartitionError
from spark_eos.log.log import Log
from spark_eos.protocol.rules.notes import BACKUP, VERIFY, is_damaged, noted_ms
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

DAY_S = 86_400
T0 = TopicPartition("t", 0)
DEFAULTS = LOG.defaults()


@pytest.fixture
def log():
    log = Log.create(MemoryStore(), clock=FakeClock())
    Admin(log).create_topic("t")
    return log


@pytest.fixture
def admin(log):
    return Admin(log)


def test_describing_a_log(log, admin):
    described = admin.describe_log()
    assert (described.url, described.log_id, described.entries) == (log.url, log.log_id, 2)
    assert described.config == DEFAULTS


def test_altering_a_log(admin):
    admin.alter_log({"producer.id.expiration.ms": 5, "offsets.retention.minutes": "6"})
    admin.alter_log({"producer.id.expiration.ms": None, "transactional.id.expiration.ms": 7})
    assert admin.describe_log().config == {
        **DEFAULTS,
        "offsets.retention.minutes": "6",
        "transactional.id.expiration.ms": "7",
    }


@pytest.mark.parametrize("value", [5, None])
def test_an_unknown_setting_of_a_log(admin, value):
    with pytest.raises(ConfigError, match=r"did you mean producer\.id\.expiration\.ms"):
        admin.alter_log({"producer.id.expiration": value})
    with pytest.raises(ConfigError, match="whole number"):
        admin.alter_log({"producer.id.expiration.ms": 0})
    assert admin.describe_log().config == DEFAULTS


def test_a_setting_of_one_reader(admin):
    admin.alter_log({"health.lag.max.ms": 7, "health.lag.max.ms:a=b:c": "5"})
    assert admin.describe_log().config["health.lag.max.ms:a=b:c"] == "5"
    admin.alter_log({"health.lag.max.ms:a=b:c": None})
    assert admin.describe_log().config == {**DEFAULTS, "health.lag.max.ms": "7"}
    for name in ("health.lag.max.ms:", "health.verify.age.max.ms:a", "health.lag:a"):
        with pytest.raises(ConfigError, match="unknown log setting"):
            admin.alter_log({name: 5})
    with pytest.raises(ConfigError, match="whole number"):
        admin.alter_log({"health.lag.max.ms:a": "26h"})


def test_notes_are_those_of_the_commands(log, admin):
    """A backup that another program makes, and a check that this one has made."""
    assert (noted_ms(log.follow(), BACKUP), noted_ms(log.state, VERIFY)) == (None, None)
    admin.note_backup()
    admin.note_verify(sound=False)
    state = log.follow()
    assert noted_ms(state, BACKUP) == noted_ms(state, VERIFY) == state.timestamp_ms
    assert is_damaged(state)
    admin.note_verify(sound=True)
    assert not is_damaged(log.follow())


def test_expiring_tells_what_was_forgotten(log, admin):
    with Producer(log, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
    with Producer(log) as producer:
        producer.send("t", b"x")
    admin.alter_group_offsets("g", {T0: 1})
    expired = admin.expire()
    assert (expired.transactions, expired.producers, expired.transactional_ids, expired.offsets) == (
        [],
        [],
        [],
        {},
    )
    log.clock.now += DAY_S
    expired = admin.expire()
    assert (expired.producers, expired.transactional_ids, expired.offsets) == ([1], [], {})
    log.clock.now += 7 * DAY_S
    expired = admin.expire()
    assert (expired.producers, expired.transactional_ids, expired.offsets) == ([], ["app"], {"g": [T0]})
    assert admin.list_groups() == admin.list_transactions() == []


def test_expiring_ends_an_open_transaction_that_this_log_has_watched_for_long_enough(log, admin):
    producer = Producer(log, {"transactional.id": "app", "transaction.timeout.ms": 5000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x")
    producer.flush()
    assert admin.expire().transactions == []
    log.clock.now += 5
    assert Admin(Log.open(log.store, clock=log.clock)).expire().transactions == []
    assert admin.expire().transactions == [0]
    assert admin.describe_transaction("app").state == "CompleteAbort"


def test_a_topic_created_again_meanwhile_is_not_altered(log, admin, monkeypatch):
    """What a schema registry has said is for the settings of the former one."""
    elsewhere, commit = Admin(Log.open(log.store, clock=log.clock)), log.commit

    def late(*args, **kwargs):
        monkeypatch.setattr(log, "commit", commit)
        elsewhere.delete_topic("t")
        elsewhere.create_topic("t")
        return commit(*args, **kwargs)

    monkeypatch.setattr(log, "commit", late)
    with pytest.raises(UnknownTopicOrPartitionError, match="'t' was deleted and created again"):
        admin.alter_topic("t", config={"retention.ms": 5})
    assert admin.describe_topic("t").config == {}
