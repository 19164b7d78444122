"""Settings of topics as values, and stored ones that are not allowed: a newer version or another program wrote them."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.config.topic import TOPIC
from spark_eos.config.values import Text
from spark_eos.errors import ConfigError
from spark_eos.log import paths
from spark_eos.log.topics import config_value
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.vacuum import Vacuum
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


STEPS = {
    "roll": ("segment.bytes", {}),
    "compact": (
        "cleanup.policy",
        {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"},
    ),
    "retention": ("retention.ms", {"retention.bytes": "0"}),
    "vacuum": ("file.delete.delay.ms", {"file.delete.delay.ms": "0"}),
}
"""Steps of maintenance: a setting that each needs, and those of another topic, which give it something to do."""


@pytest.mark.parametrize("step", STEPS)
def test_a_step_goes_on_with_other_topics_and_names_this_one_at_the_end(step, tmp_path):
    """Else one topic stops retention, compaction and vacuum for the whole log."""
    name, config = STEPS[step]
    log = Log.create(str(tmp_path / "log")).without_maintenance()
    admin = Admin(log)
    admin.create_topic("bad")  # It comes first.
    admin.create_topic("good", config=config)
    for topic in ("bad", "good"):
        for number in range(4):
            with Producer(log) as producer:
                producer.send(topic, b"%d" % number, key=b"k").result()
    if step == "vacuum":
        for topic in ("bad", "good"):
            admin.delete_records({TopicPartition(topic, 0): 4})
    bad = log.topic("bad")
    log.commit(lambda _: (AlterTopic("bad", bad.topic_id, None, ((name, of_later(name)),)),))
    maintain = {"only": [step], "tail_rows": 1, "min_age_s": 0}
    before = snapshot_of(log)
    for dry_run in (True, False):
        (done,) = Maintainer(log, dry_run=dry_run, **maintain).run(wait=False)
        assert isinstance(done.error, ConfigError)
        assert f"topic 'bad': topic setting {name}='{of_later(name)}'" in done.text
        after = snapshot_of(log)
        assert (after["good"] == before["good"]) is dry_run
        assert after["bad"] == before["bad"]
    admin.alter_topic("bad", config={name: None})
    (done,) = Maintainer(log, **maintain).run(wait=False)
    assert done.error is None


def test_files_stay_whose_delay_for_readers_is_not_known():
    world = altered("file.delete.delay.ms")
    world.admin.delete_records({TopicPartition("t", 0): 2})
    vacuum = Vacuum(world.log, min_age_s=0)
    assert vacuum._find(raise_floor=False) == []
    with pytest.raises(ConfigError, match=r"file\.delete\.delay\.ms"):
        vacuum.look()
    world.admin.alter_topic("t", config={"file.delete.delay.ms": None})
    assert vacuum.look()


def snapshot_of(log):
    """Of each topic: its files, its batches and where it starts."""
    state, found = log.follow(), {}
    for name in ("bad", "good"):
        partition = state.partitions[state.topics[name].topic_id, 0]
        files = sorted(info.name for info in log.store.list(paths.DATA) if f"/{name}-" in info.name)
        rows = [*partition.index.scan(0, log.load)]
        found[name] = (files, len(rows), partition.start)
    return found


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
