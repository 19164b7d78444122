"""What holds for each row of each table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import spark_eos
from spark_eos.config.consumer import ASSIGNORS, CONSUMER
from spark_eos.config.kafka.transport import KAFKA_OPTIONS, client_settings
from spark_eos.config.producer import PRODUCER
from spark_eos.config.sink import SINK, TOPIC_OPTIONS
from spark_eos.config.source import SOURCE
from spark_eos.config.store import PREFIXES, STORE, is_store_option
from spark_eos.config.values import Fixed
from spark_eos.protocol import assignors
from tests.config.pages import TABLES
from tests.needing import needs

PACKAGE = Path(spark_eos.__file__).parent
ROWS = [
    pytest.param(table, option, id=f"{kind}-{option.name}")
    for kind, table in TABLES.items()
    for option in table.values()
]
OF_OPTIONS = pytest.mark.parametrize("option", [pytest.param(row.values[1], id=row.id) for row in ROWS])


def used(row):
    """The option of a row, which may be used in an extension alone."""
    _, option = row.values
    place, _, module = (option.used_in or "").partition("/")
    marks = needs(module.partition("/")[0]) if place == "extensions" else ()
    return pytest.param(option, id=row.id, marks=marks)


NO_EFFECT = {"message.timestamp.type", "queryName"}
"""Options that are there for Kafka's or Spark's sake alone, and are not `Fixed`."""


@pytest.mark.parametrize(("table", "option"), ROWS)
def test_a_row(table, option):
    assert re.fullmatch(r"0\.1\.0", option.since)
    assert option.doc.endswith(".")
    assert option.doc[0].isupper() or option.doc.startswith("`")
    assert option.type.allowed
    assert bool(option.uses) == (table in (SOURCE, SINK))


@OF_OPTIONS
def test_a_default_is_allowed(option):
    if option.default not in (None, ""):
        given = option.type.show(option.default)
        assert option.type.parse(given) == option.default


def field(name: str) -> str:
    """The field of `SourceOptions` or `SinkOptions` that an option goes into."""
    for several, one in (
        (r"starting.*", "starting"),
        (r"ending.*", "ending"),
        (r"compression\..*", "compression"),
        (r"timestampAsOf", "timestamp_as_of_ms"),
        (r"maxTriggerDelay", "max_trigger_delay_ms"),
    ):
        if re.fullmatch(several, name):
            return one
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace(".", "_")


@pytest.mark.parametrize("option", [*map(used, ROWS)])
def test_the_module_that_uses_it(option):
    if not option.used_in:
        assert isinstance(option.type, Fixed) or option.name in NO_EFFECT
        return
    source = (PACKAGE / option.used_in).read_text("utf-8")
    spellings = [f'"{option.name}"', f"options.{field(option.name)}"]
    if is_store_option(option.name):
        spellings.append("}." + option.name.partition(".")[2])  # After the name of the cloud.
    elif option.name == KAFKA_OPTIONS:
        spellings.append("KAFKA_OPTIONS")
    elif option.name in TOPIC_OPTIONS and "stream sink" in option.uses:
        spellings.append("options.topic_config")
    elif re.fullmatch(r"compression\.\w+\.level", option.name):
        spellings += ["Compression.chosen(", "level_option("]
    assert any(spelling in source for spelling in spellings), f"{option.used_in} names none of {spellings}"


def test_only_options_of_stores_begin_as_they_do():
    for kind, table in TABLES.items():
        assert all(is_store_option(name) == (kind == "store") for name in table)
    assert {name.partition(".")[0] + "." for name in STORE} == {*PREFIXES}


def test_the_assignors_are_those_of_the_protocol():
    assert list(ASSIGNORS) == list(assignors.ASSIGNORS)


def test_a_setting_of_both_clients_in_other_letters_is_named():
    for ours, theirs in ((CONSUMER, PRODUCER), (PRODUCER, CONSUMER)):
        _, problems = client_settings(ours, theirs, {"CLIENT.ID": "me"})
        assert [*problems.texts.values()] == [
            f"{ours.noun} CLIENT.ID is not one of eoslog: its name here is client.id"
        ]


def test_names_are_found_without_the_case_of_their_letters():
    for table in (SOURCE, SINK):
        assert len({name.lower() for name in table}) == len(table)
