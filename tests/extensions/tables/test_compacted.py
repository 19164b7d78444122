"""A compacted topic as a table: of each key of a partition the newest row, in every version."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_eos import Log, read_arrow
from spark_eos.errors import ConfigError
from spark_eos.maintenance.compaction import Compactor
from spark_eos.protocol.index_rows import Kind
from tests.extensions.tables.world import World, rows_of
from tests.log.fakes import FakeClock

TYPED = pa.schema([("id", pa.int64()), ("region", pa.string()), ("name", pa.string())])


@pytest.fixture
def world(tmp_path):
    clock = FakeClock()
    world = World(tmp_path / "log", log=Log.create(str(tmp_path / "log"), clock))
    world.clock = clock
    compact = {
        "cleanup.policy": "compact",
        "delete.retention.ms": 1000,
        "min.cleanable.dirty.ratio": 0,
        "segment.ms": 1,
    }
    world.admin.create_topic("keys", 2, config=compact)
    world.admin.create_topic("typed", 1, schema=TYPED, config={**compact, "key.columns": "id, region"})
    world.lake = str(tmp_path / "lake")
    world.tables.create("c", ["keys", "typed"], mode="copied", location=world.lake)
    return world


def expected(world, topic, entry, keys):
    """The newest row of each key among all rows as of the entry, without tombstones."""
    names = rows_of(f"{world.lake}/{topic}").schema.names
    newest = {}
    for row in read_arrow(world.log, topic, as_of=entry, columns=names).read_all().to_pylist():
        partition = row.get("partition", row.get("_partition"))
        newest[(partition, *(row[name] for name in keys))] = row
    places = {*keys, "partition", "offset", "timestamp", "headers", "_partition", "_offset", "_timestamp"}
    rows = [row for row in newest.values() if any(row[name] is not None for name in row.keys() - places)]
    return sorted(rows, key=repr)


def found(world, topic, version=None):
    return sorted(rows_of(f"{world.lake}/{topic}", version).to_pylist(), key=repr)


def random_rows(chance):
    def key_row(_):
        value = None if chance.random() < 0.3 else bytes([chance.randrange(256)])
        return {"key": b"k%d" % chance.randrange(6), "value": value}

    def typed_row(_):
        name = None if chance.random() < 0.3 else f"n{chance.randrange(100)}"
        return {"id": chance.randrange(3), "region": chance.choice(["a", None]), "name": name}

    return {"keys": key_row, "typed": typed_row}


@pytest.mark.deep("1")
@pytest.mark.parametrize("seed", range(2))
def test_each_version_has_the_newest_row_of_each_key(world, seed):
    chance = random.Random(seed)
    for _ in range(8):
        for _ in range(chance.randrange(1, 3)):
            world.write(chance.randrange(1, 5), ["keys", "typed"], make=random_rows(chance))
        if chance.random() < 0.5:
            world.clock.sleep(chance.choice([0.1, 5.0]))
            Compactor(world.log).run()
        if chance.random() < 0.2:
            start = world.log.state.partitions[world.log.topic("keys").topic_id, 0].start
            world.admin.delete_records({("keys", 0): start + 1})
        published = world.tables.publish("c")
        for topic, keys in (("keys", ["key"]), ("typed", ["id", "region"])):
            assert found(world, topic, published.versions[topic]) == expected(
                world, topic, published.entry, keys
            )


def test_tombstones_that_compaction_has_removed_are_not_missed(world):
    """The table has the key; its tombstone comes and goes between two versions."""
    row = {"key": b"a", "value": b"1"}
    world.write(1, ["keys"], make={"keys": lambda _: row})
    world.tables.publish("c")
    assert len(found(world, "keys")) == 2
    world.write(1, ["keys"], make={"keys": lambda _: {"key": b"a", "value": None}})
    world.write(1, ["keys"], make={"keys": lambda _: {"key": b"b", "value": b"2"}})
    for _ in range(3):
        Compactor(world.log).run()
        world.clock.sleep(10.0)
        world.write(1, ["keys"], make={"keys": lambda _: {"key": b"c", "value": b"3"}})
    values = read_arrow(world.log, "keys", columns=["key", "value"]).read_all().to_pylist()
    assert {"key": b"a", "value": None} not in values, "the tombstone is gone"
    world.tables.publish("c")
    assert {one["key"] for one in found(world, "keys")} == {b"b", b"c"}


def test_a_tombstone_that_has_left_nothing_behind_is_not_missed(world):
    """No row is left of what was compacted: only that offsets are passed over."""
    world.write(1, ["keys"], make={"keys": lambda _: {"key": b"a", "value": b"1"}})
    world.tables.publish("c")
    world.write(1, ["keys"], make={"keys": lambda _: {"key": b"a", "value": None}})
    for _ in range(3):
        Compactor(world.log).run()
        world.clock.sleep(10.0)
    state, topic_id = world.log.state, world.log.topic("keys").topic_id
    assert {row.kind for row in state.partitions[topic_id, 0].index.scan(0, world.log.load)} == {Kind.HOLE}
    world.tables.publish("c")
    assert {one["key"] for one in found(world, "keys")} == set()


def test_a_topic_whose_tombstones_were_kept_for_shorter_between_two_versions(world):
    """As after a purge: the setting is as it was when the next version is made."""
    before = world.log.topic("keys").config["delete.retention.ms"]
    world.admin.alter_topic("keys", config={"delete.retention.ms": 86_400_000})
    world.write(1, ["keys"], make={"keys": lambda _: {"key": b"a", "value": b"1"}})
    world.tables.publish("c")
    world.write(1, ["keys"], make={"keys": lambda _: {"key": b"a", "value": None}})
    world.admin.alter_topic("keys", config={"delete.retention.ms": before})
    for _ in range(3):
        Compactor(world.log).run()
        world.clock.sleep(10.0)
        world.write(1, ["keys"], make={"keys": lambda _: {"key": b"c", "value": b"3"}})
    world.admin.alter_topic("keys", config={"delete.retention.ms": 86_400_000})
    world.tables.publish("c")
    assert {one["key"] for one in found(world, "keys")} == {b"c"}


def test_a_topic_that_has_another_key_from_now_on(world):
    rows = iter([(1, "a"), (1, "b"), (2, "a"), (1, "b")])
    make = {"typed": lambda _: dict(zip(("id", "region"), next(rows), strict=True), name="n")}
    world.write(3, ["typed"], make=make)
    world.tables.publish("c")
    assert len(found(world, "typed")) == 3
    world.admin.alter_topic("typed", config={"key.columns": "id"})
    world.write(1, ["typed"], make=make)
    published = world.tables.publish("c")
    assert found(world, "typed") == expected(world, "typed", published.entry, ["id"])


def test_a_topic_that_gets_another_key_and_no_row_is_published_again(world):
    rows = iter([(1, "a"), (1, "b")])
    make = {"typed": lambda _: dict(zip(("id", "region"), next(rows), strict=True), name="n")}
    world.write(2, ["typed"], make=make)
    world.tables.publish("c")
    assert len(found(world, "typed")) == 2
    world.admin.alter_topic("typed", config={"key.columns": "id"})
    assert world.tables.publisher("c").is_due()
    published = world.tables.publish("c")
    assert found(world, "typed") == expected(world, "typed", published.entry, ["id"])
    assert not world.tables.publish("c").is_new


def test_an_alteration_that_the_trail_has_no_more_is_not_missed(world):
    rows = iter([(1, "a"), (1, "b"), (1, "b")])
    make = {"typed": lambda _: dict(zip(("id", "region"), next(rows), strict=True), name="n")}
    world.write(2, ["typed"], make=make)
    world.tables.publish("c")
    world.admin.alter_topic("typed", config={"key.columns": "id"})
    world.clock.sleep(10.0)
    world.admin.alter_log({"audit.retention.ms": 1000})
    assert "typed" not in {event.name for event in world.log.state.trail}
    world.admin.alter_log({"audit.retention.ms": 86_400_000})
    world.write(1, ["typed"], make=make)
    published = world.tables.publish("c")
    assert found(world, "typed") == expected(world, "typed", published.entry, ["id"])


def test_a_topic_that_is_compacted_from_now_on_or_no_more_is_published_as_a_whole(world):
    world.write(4, ["events"])
    world.tables.create("e", ["events"], mode="copied", location=world.lake)
    world.tables.publish("e")
    assert len(found(world, "events")) == 8
    world.admin.alter_topic("events", config={"cleanup.policy": "compact"})
    published = world.tables.publish("e")
    assert found(world, "events") == expected(world, "events", published.entry, ["key"])
    assert not world.tables.publish("e").is_new
    world.admin.alter_topic("events", config={"cleanup.policy": "delete"})
    world.tables.publish("e")
    assert len(found(world, "events")) == 8
    assert not world.tables.publish("e").is_new
    world.write(1, ["events"])
    world.tables.publish("e")
    assert len(found(world, "events")) == 10


def test_a_compacted_topic_cannot_share_the_files_of_the_log(world):
    with pytest.raises(ConfigError, match="'keys' is compacted"):
        world.tables.create("s", ["keys"])


def test_records_without_a_key_are_not_in_the_table(world):
    """Of a time when the topic was not compacted: the table has one row for each key."""
    keys = iter([b"a", None, b"b", None])
    world.write(2, ["events"], make={"events": lambda _: {"key": next(keys), "value": b"1"}})
    world.admin.alter_topic("events", config={"cleanup.policy": "compact", "segment.ms": 1})
    world.tables.create("e", ["events"], mode="copied", location=world.lake)
    world.tables.publish("e")
    world.clock.sleep(5.0)
    Compactor(world.log).run()
    world.write(1, ["events"], make={"events": lambda _: {"key": b"c", "value": b"2"}})
    world.tables.publish("e")
    assert sorted(row["key"] for row in found(world, "events")) == [b"a", b"b", b"c", b"c"]
    everything = read_arrow(world.log, "events", columns=["key"]).read_all().column("key").to_pylist()
    assert everything.count(None) == 2
