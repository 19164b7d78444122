"""The table of Kafka's commands: it has each of Kafka's options, and the commands in it are there."""

from __future__ import annotations

import importlib.util
import json

import pytest

from spark_eos.config.producer import PRODUCER
from tests.cli.console import ROOT
from tests.cli.test_help import COMMANDS


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = script("kafka_commands")
RECORDED = json.loads(TABLE.RECORDED.read_text(encoding="utf-8"))


def test_every_option_of_kafka_is_in_the_table():
    assert {tool: sorted(rows) for tool, rows in TABLE.ROWS.items()} == {
        tool: sorted(options) for tool, options in RECORDED["tools"].items()
    }


def test_the_recorded_options_are_kafkas():
    """Some that are in any version, of each of the two parsers that Kafka's tools have."""
    tools = RECORDED["tools"]
    assert {"--create", "--partitions", "--replication-factor"} <= {*tools["kafka-topics"]}
    assert {"--topic", "--producer-property"} <= {*tools["kafka-console-producer"]}
    assert {"--start-offset", "--coordinator-epoch"} <= {*tools["kafka-transactions abort"]}
    assert len(tools) == 15


CELLS = sorted({row[0] for rows in TABLE.ROWS.values() for row in rows.values() if not isinstance(row, str)})


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
    assert {*TABLE.PRODUCER_SETTING.values()} <= {*PRODUCER}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("--ab <String>   text --b\n    more\n--c-d [X]   text\n", ["--ab", "--c-d"]),
        ("  -h, --help   show\n  -v, --version\n  --topic TOPIC  name --x\n", ["--help", "--version", "--topic"]),
        ("  --transactionalId ID\n", ["--transactionalId"]),
    ],
)  # fmt: skip
def test_options_are_found_in_help_texts(text, options):
    assert script("kafka_options").options(text) == options


def test_the_page_is_the_table():
    assert TABLE.PAGE.read_text(encoding="utf-8") == TABLE.page(), "run: python scripts/kafka_commands.py"
