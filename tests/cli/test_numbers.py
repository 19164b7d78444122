"""Numbers are written for people in one way, as on the page; what programs read is plain."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import ProducerFencedError
from spark_eos.monitoring import Watch
from tests.expiration import no_expiration
from tests.needing import needs

LONG = re.compile(r"(?<![\w.,/-])[0-9]{4,12}(?![\w.:/-])")
"""A number of four digits or more without a comma, and no part of a name or of a time; nor a point in time."""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A log with a group that is 56,017 records behind, and a transaction that holds back 1,235 offsets."""
    made = str(tmp_path_factory.mktemp("numbers") / "log")
    log = Log.create(made, config={"health.lag.max.ms": "1"})
    Admin(log).create_topic("orders", 1)
    hour_ago = int(time.time() * 1000) - 3_600_000
    with Producer(log, {"linger.ms": 60_000, "batch.size": 100_000_000}) as producer:
        for _ in range(60_000):
            producer.send("orders", b"", timestamp_ms=hour_ago)
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 3_983})
    with no_expiration():
        teller = Producer(log, {"transactional.id": "teller", "transaction.timeout.ms": 1})
        teller.init_transactions()
        teller.begin_transaction()
        for _ in range(1_235):
            teller.send("orders", b"")
        teller.flush()
    yield made
    with suppress(ProducerFencedError):
        teller.close(0)


def run(capsys, *arguments):
    capsys.readouterr()
    with suppress(SystemExit):
        main([*arguments])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("status LOG", ["56,017 records", "holds back 1,235 offsets of orders-0 from offset 60,000"]),
        ("lag LOG", ["3,983", "60,000", "56,017", "1,235"]),
        ("describe LOG orders", ["61,235"]),
        ("topics list LOG", ["61,235"]),
        ("groups describe LOG --all-groups", ["56,017"]),
        ("transactions find-hanging LOG --max-transaction-timeout 0", ["60,000"]),
        ("verify LOG", ["61,235 records"]),
    ],
)
def test_people_get_commas(url, capsys, monkeypatch, command, expected):
    monkeypatch.setattr("spark_eos.cli.output.sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "300")
    with no_expiration():
        shown = run(capsys, *command.replace("LOG", url).split())
    for text in expected:
        assert text in shown
    lines = [line for line in shown.replace(url, "").splitlines() if not line.startswith("  page:")]
    assert LONG.findall("\n".join(lines)) == []


TABLES = ["lag LOG", "groups describe LOG --all-groups", "describe LOG orders"]


@pytest.mark.parametrize("command", TABLES)
def test_scripts_get_digits(url, capsys, command):
    shown = run(capsys, *command.replace("LOG", url).split())
    assert "60000" in shown or "61235" in shown
    assert not re.search("[0-9],[0-9]", shown)


@pytest.mark.parametrize("command", TABLES)
def test_programs_get_digits(url, capsys, command):
    shown = run(capsys, *command.replace("LOG", url).split(), "--json")
    assert "60000" in shown
    assert "60,000" not in shown
    assert all(json.loads(line) for line in shown.splitlines())


@needs("ui")
def test_top(url):
    from spark_eos.extensions.ui.top.panes import PANES, table

    look = Watch(Log.open(url)).look()
    for pane in PANES:
        for row in table(pane, look, next(iter(pane.sorts)), "", by_partition=True).rows:
            assert LONG.findall(" | ".join(row)) == []
    rows = table(PANES[0], look, "time behind", "", by_partition=True).rows
    assert rows[0][4] == "56,017"


def test_a_number_is_taken_as_it_was_copied(url, capsys):
    plan = (
        "groups",
        "reset-offsets",
        url,
        "--group",
        "billing",
        "--topic",
        "orders",
        "--to-offset",
        "56,017",
    )
    assert "56017" in run(capsys, *plan)
    assert "from entry 1 to entry 3" in run(capsys, "diff", url, "0,001", "3")


def test_a_comma_between_two_ids_is_no_part_of_a_number(url, capsys):
    shown = run(capsys, "transactions", "list", url, "--producer-id", "1,000", "--json")
    assert [json.loads(line)["producer_id"] for line in shown.splitlines()] == [1]
