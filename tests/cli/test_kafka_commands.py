"""The table of Kafka's commands: it has each of Kafka's options, and the commands in it are there."""

from __future__ import annotations

import json

import pytest

from scripts import kafka_commands, kafka_options
from spark_eos.config.producer import PRODUCER
from tests.cli.test_help import COMMANDS
from tests.generate import stale

RECORDED = json.loads(kafka_commands.RECORDED.read_text(encoding="utf-8"))


def test_every_option_of_kafka_is_in_the_table():
    assert {tool: sorted(rows) for tool, rows in kafka_commands.ROWS.items()} == {
        tool: sorted(options) for tool, options in RECORDED["tools"].items()
    }


def test_the_recorded_options_are_kafkas():
    """Some that are in any version, of each of the two parsers that Kafka's tools have."""
    tools = RECORDED["tools"]
    assert {"--create", "--partitions", "--replication-factor"} <= {*tools["kafka-topics"]}
    assert {"--topic", "--producer-property"} <= {*tools["kafka-console-producer"]}
    assert {"--start-offset", "--coordinator-epoch"} <= {*tools["kafka-transactions abort"]}
    assert len(tools) == 15


CELLS = sorted(
    {row[0] for rows in kafka_commands.ROWS.values() for row in rows.values() if not isinstance(row, str)}
)


@pytest.mark.parametrize("cell", CELLS)
def test_what_the_table_names_is_there(cell):
    words = cell.split()
    names = tuple(word for word in words[1:] if not word.startswith("--"))
    options = [word for word in words[1:] if word.startswith("--")]
    if not names:
        assert options in (["--version"], ["--help"])
        return
    found = COMMANDS.get(names) or COMMANDS.get((*names, "list")) or COMMANDS[(*names, "describe")]
    known = {name for param in found.params for name in param.opts} | {"--help"}
    assert {*options} <= known


def test_settings_of_the_producer_are_known():
    assert {*kafka_commands.PRODUCER_SETTING.values()} <= {*PRODUCER}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("--ab <String>   text --b\n    more\n--c-d [X]   text\n", ["--ab", "--c-d"]),
        ("  -h, --help   show\n  -v, --version\n  --topic TOPIC  name --x\n", ["--help", "--version", "--topic"]),
        ("  --transactionalId ID\n", ["--transactionalId"]),
    ],
)  # fmt: skip
def test_options_are_found_in_help_texts(text, options):
    assert kafka_options.options(text) == options


def test_the_page_is_the_table():
    assert stale("scripts.kafka_commands") == [], "scripts/generate writes it"
