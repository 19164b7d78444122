"""Settings of topics as values, and stored ones that are not allowed: a newer version or another program wrote them."""

from __future__ import annotations

import pytest

from spark_eos.config.topic import TOPIC
from spark_eos.config.values import Text
from spark_eos.errors import ConfigError
from spark_eos.log.topics import config_value
from spark_eos.maintenance.rolling import Roller
from spark_eos.protocol.actions import AlterTopic
from tests.settings_world import World

STRICT = [name for name, row in TOPIC.items() if not (isinstance(row.type, Text) or row.type.may_be_empty)]
"""Settings of which not every text is a value."""


def of_later(name):
    """A value that is not allowed; the rules of the log itself let only numbers be limits of time and size."""
    return "-5" if name.endswith((".ms", ".bytes")) else "of later"


def altered(*names):
    """A log with records, whose topic got those settings as nobody's client gives them."""
    world = World()
    world.topic()
    world.fill(b"1", b"2")
    topic = world.log.topic("t")
    config = tuple((name, of_later(name)) for name in sorted(names))
    world.log.commit(lambda _: (AlterTopic("t", topic.topic_id, None, config),))
    return world


@pytest.mark.parametrize("name", STRICT)
def test_the_error_names_topic_and_setting(name):
    topic = altered(name).log.topic("t")
    with pytest.raises(ConfigError, match=f"topic 't': topic setting {name}='{of_later(name)}': expected"):
        config_value(topic, name, object)


def test_a_reader_does_not_need_them():
    world = altered(*{*STRICT} - {"value.format"})
    assert world.values() == [b"1", b"2"]


def test_who_needs_one_says_so_until_it_is_set_again():
    world = altered("segment.bytes")
    with pytest.raises(ConfigError, match=r"topic 't': topic setting segment\.bytes"):
        Roller(world.log, tail_rows=1).run()
    world.admin.alter_topic("t", config={"segment.bytes": 1000})
    assert Roller(world.log, tail_rows=1).run()


def test_values_have_the_type_of_their_row():
    world = World()
    world.topic(
        **{"cleanup.policy": "delete,compact", "segment.bytes": "7", "min.cleanable.dirty.ratio": "0"}
    )
    topic = world.log.topic("t")
    assert config_value(topic, "cleanup.policy", tuple) == ("delete", "compact")
    assert config_value(topic, "segment.bytes", int) == 7
    assert config_value(topic, "min.cleanable.dirty.ratio", float) == 0.0
    with pytest.raises(AssertionError, match=r"segment\.bytes is int, not str"):
        config_value(topic, "segment.bytes", str)
