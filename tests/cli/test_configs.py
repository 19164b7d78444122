"""``eoslog configs`` and ``eoslog expire``."""

from __future__ import annotations

import json

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.config.log import LOG
from spark_eos.log.log import Log
from spark_eos.storage import open_store
from tests.log.fakes import FakeClock


def run(capsys, *arguments):
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.fixture
def url(log_url):
    """A log of 1970: all in it is past its time."""
    clock, store = FakeClock(), open_store(log_url)
    store.now_ms = clock.now_ms
    log = Log.create(store, clock)
    Admin(log).create_topic("t")
    with Producer(log) as producer:
        producer.send("t", b"x")
    Producer(log, {"transactional.id": "app"}).init_transactions()
    Admin(log).alter_group_offsets("g", {TopicPartition("t", 0): 1})
    return log_url


def test_settings(url, capsys):
    lines = [line.split() for line in run(capsys, "configs", url).splitlines()]
    assert lines[0] == ["NAME", "VALUE", "DEFAULT"]
    assert ["entry.timestamp.after.max.ms", "3600000", "3600000"] in lines
    assert len(lines) == 1 + len(LOG)
    altered = run(
        capsys,
        *("configs", url, "--alter", "offsets.retention.minutes=5", "producer.id.expiration.ms=6"),
    )
    assert ["offsets.retention.minutes", "5", "10080"] in [line.split() for line in altered.splitlines()]
    back = json.loads(run(capsys, "configs", "--json", url, "--alter", "offsets.retention.minutes="))
    assert back["config"] == {**LOG.defaults(), "producer.id.expiration.ms": "6"}
    assert back["log_id"] == Log.open(url).log_id


def test_settings_of_topics_as_json(url, capsys):
    Admin(url).create_topic("u", config={"retention.ms": 5})
    lines = run(capsys, "configs", url, "--entity-type", "topics", "--json").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"topic": "t", "config": {}},
        {"topic": "u", "config": {"retention.ms": "5"}},
    ]


def test_settings_that_are_none(url, capsys):
    assert main(["configs", url, "--alter", "offsets.retention=5"]) == 1
    assert "did you mean offsets.retention.minutes" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["configs", url, "--alter", "offsets.retention.minutes"])
    assert stopped.value.code == 2


def test_expiring(url, capsys):
    # The log was idle: without the option it is a day later than its newest entry.
    assert run(capsys, "expire", url) == "forgot the sequence numbers of producer 0\n"
    assert run(capsys, "expire", url, "--trust-clock").splitlines() == [
        "forgot transactional.id app",
        "forgot offsets of group g: t-0",
    ]
    assert run(capsys, "expire", url) == "nothing is past its time\n"
    end = Log.open(url).state.seq
    forgotten = run(capsys, "diff", url, str(end - 1), str(end)).splitlines()[-1].split()
    assert forgotten[:2] == ["1", "app"]


def test_a_group_without_offsets_expires(url, capsys):
    Admin(url).delete_topic("t")
    assert (
        "forgot offsets of group g: none were left, the group is gone"
        in run(capsys, "expire", url, "--trust-clock").splitlines()
    )


def test_json_of_expiring(url, capsys):
    assert json.loads(run(capsys, "expire", url, "--json", "--trust-clock")) == {
        "transactions": [],
        "producers": [0],
        "transactional_ids": ["app"],
        "offsets": {"g": [{"topic": "t", "partition": 0}]},
    }
