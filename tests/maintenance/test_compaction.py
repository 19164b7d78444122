"""Compaction: the newest record of each key stays where it was, and what goes is not needed."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Admin, Consumer, Producer
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    CorruptRecordError,
    ObjectNotFoundError,
    StorePermissionError,
)
from spark_eos.log.data import records
from spark_eos.log.data.planner import plan
from spark_eos.log.data.reader import read_batch
from spark_eos.log.data.records import read
from spark_eos.log.topics import is_compacted
from spark_eos.maintenance import compaction, rewrite
from spark_eos.maintenance.cleaner import KeyMap, label_of, since
from spark_eos.maintenance.compaction import Compactor
from spark_eos.maintenance.rewrite import CLEAN
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.verify import data
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.actions import AdvanceLogStart, AlterTopic, AppendBatches, PartitionOffset
from spark_eos.protocol.index import Kind
from spark_eos.protocol.invariants import check_state
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.maintenance.sparse_world import AT, COMMITTED, UNCOMMITTED, World, seen, small_pages, table
from tests.tiers import examples

pytestmark = pytest.mark.usefixtures("small_pages")

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "10000000"}


def made(**config):
    named = {name.replace("_", "."): value for name, value in config.items()}
    return World(FaultyStore(MemoryStore()), config={**COMPACT, **named})


@pytest.fixture
def world():
    return made()


def seal(world):
    """As `World.seal`, with keys of its own that no test asks for."""
    end = world.partition.end
    numbers = itertools.count()
    while not (pages := world.partition.index.pages) or pages[-1].next_offset < end:
        world.append((b"filler-%d" % next(numbers), b""))
    return end


def pairs(log, isolation=COMMITTED, start=None):
    """(offset, key, value) of what a reader gets, without the fillers."""
    keys = seen(log, isolation, start, column="key")
    values = seen(log, isolation, start)
    return [
        (offset, key, value)
        for (offset, key), (_, value) in zip(keys, values, strict=True)
        if key is None or not key.startswith(b"filler")
    ]


def latest(records, before):
    """What a compacted log must still have: the newest record of each key before ``before``, and all after."""
    newest = {key: offset for offset, key, _ in records if offset < before}
    return [one for one in records if one[0] >= before or newest[one[1]] == one[0]]


# -- What stays --------------------------------------------------------------------------------------------


def test_the_newest_value_of_each_key_stays(world):
    for number in range(12):
        world.transaction((b"k%d" % (number % 3), b"%d" % number))
    end = seal(world)
    before = pairs(world.log)
    steps = Compactor(world.log).run()
    assert pairs(world.log) == latest(before, end) == before[-3:]
    assert [offset for offset, _, _ in pairs(world.log)] == [18, 20, 22], "where they were"
    assert sum(step.records_before - step.records_after for step in steps) == 9
    assert sum(step.bytes_after for step in steps) < sum(step.bytes_before for step in steps)
    check_state(world.log.state)
    assert pairs(world.another()) == pairs(world.log)
    assert Compactor(world.log).run() == [], "it is done"


def test_from_any_offset(world):
    for number in range(12):
        world.transaction((b"k%d" % (number % 5), b"%d" % number))
    seal(world)
    Compactor(world.log).run()
    found = pairs(world.log)
    for start in range(world.partition.end):
        assert pairs(world.log, start=start) == [one for one in found if one[0] >= start]
    reader = Consumer(world.log, {"isolation.level": "read_committed"})
    reader.assign([AT])
    reader.seek(AT, 0)
    got = []
    while records := reader.poll(max_records=2):
        got += [(r.offset, r.key, r.value) for r in records if not r.key.startswith(b"filler")]
    assert got == found
    assert reader.position(AT) == world.partition.end


@pytest.mark.parametrize(
    "columns", [(), ("key",), ("offset", "partition"), ("key", "value", "headers", "timestamp")]
)
def test_chosen_columns_of_rows_with_holes(world, columns, monkeypatch):
    monkeypatch.setattr(records, "SMALL_ROWS", 0)
    for number in range(12):
        world.transaction((b"k%d" % (number % 5), b"%d" % number))
    end = seal(world)
    Compactor(world.log).run()
    topic = world.log.topic("t")
    found = plan(world.log.state, AT, 0, end, COMMITTED, world.log.load)
    assert any(fetch.file.offsets for fetch in found)
    for fetch in found:
        whole, chosen = read(world.log.store, topic, fetch), read(world.log.store, topic, fetch, columns)
        assert chosen.num_rows == whole.num_rows
        assert chosen.offsets.tolist() == whole.offsets.tolist()
        for name in {*columns} & {*whole.table.schema.names}:
            assert chosen.column(name).equals(whole.column(name))


def test_aborted_records_never_win_and_go(world):
    world.transaction((b"k", b"committed"))
    world.transaction((b"k", b"aborted"), commit=False)
    world.transaction((b"other", b"x"))
    seal(world)
    Compactor(world.log).run()
    assert [(key, value) for _, key, value in pairs(world.log)] == [(b"k", b"committed"), (b"other", b"x")]
    assert pairs(world.log, UNCOMMITTED) == pairs(world.log)
    assert Kind.ABORTED not in {row.kind for row in world.sealed()}


def test_an_open_transaction_is_not_touched(world):
    for number in range(8):
        world.append((b"k", b"%d" % number))
    stamp = world.begin("slow")
    world.append((b"k", b"open"), stamp=stamp)
    for number in range(8, 16):
        world.append((b"k", b"%d" % number))
    Compactor(world.log).run()
    values = [value for _, _, value in pairs(world.log, UNCOMMITTED)]
    assert values[-9:] == [b"open", *(b"%d" % number for number in range(8, 16))]
    assert pairs(world.log) == [(7, b"k", b"7")], "it is the newest one, as far as anybody can know"
    assert len(values) < 17
    world.end(stamp, commit=False)
    seal(world)
    Compactor(world.log).run()
    assert [value for _, _, value in pairs(world.log)] == [b"15"]


def test_records_without_a_key_that_were_there_before_stay():
    """Nothing says that another record has replaced them; no compaction deletes what was acknowledged."""
    world = made(cleanup_policy="delete")
    world.append((None, b"x"), (b"k", b"old"), (None, None), (b"", b"empty"))
    world.transaction((None, b"aborted"), commit=False)
    Admin(world.log).alter_topic("t", config=COMPACT)
    world.append((b"k", b"new"))
    seal(world)
    Compactor(world.log).run()
    kept = [(0, None, b"x"), (2, None, None), (3, b"", b"empty"), (6, b"k", b"new")]
    assert pairs(world.log) == kept
    world.log.clock.now += 20_000_000
    world.append((b"k", b"newest"))
    end = seal(world)
    Compactor(world.log).run()
    assert [one for one in pairs(world.log) if one[0] < end][:3] == kept[:3]
    assert Compactor(world.log).run() == [], "it is done"


def test_where_nothing_is_left(world):
    for _ in range(4):
        world.transaction((b"k", b"x"), commit=False)
    seal(world)
    Compactor(world.log).run()
    assert pairs(world.log, UNCOMMITTED) == []


def test_an_empty_key_is_a_key(world):
    world.append((b"", b"1"))
    world.append((b"", b"2"))
    world.append((b"\0", b"3"))
    seal(world)
    Compactor(world.log).run()
    assert pairs(world.log) == [(1, b"", b"2"), (2, b"\0", b"3")]


def test_topics_that_are_not_compacted(world):
    other = made(cleanup_policy="delete")
    for _ in range(8):
        other.append((b"k", b"x"))
    assert Compactor(other.log).run() == []
    assert is_compacted(made(cleanup_policy="compact,delete").topic)
    for _ in range(8):
        world.append((b"k", b"x"))
    assert Compactor(world.log, ["u"]).run() == []
    found = []
    assert Compactor(world.log, ["t"]).run(found.append) == found != []


# -- Tombstones --------------------------------------------------------------------------------------------


def pass_time(world, seconds):
    world.log.clock.now += seconds


def test_tombstones_stay_for_their_time_and_go():
    world = made(delete_retention_ms=100_000)
    world.append((b"k", b"1"))
    world.append((b"k", None))
    seal(world)
    pass_time(world, 1000)
    Compactor(world.log).run()
    assert pairs(world.log) == [(1, b"k", None)], "its time begins with the first pass, however old it is"
    pass_time(world, 50)
    assert Compactor(world.log).run() == []
    assert pairs(world.log) == [(1, b"k", None)]
    pass_time(world, 100)
    assert len(Compactor(world.log).run()) == 1
    assert pairs(world.log) == []
    assert Compactor(world.log).run() == []


def test_later_passes_do_not_begin_a_tombstones_time_anew():
    world = made(delete_retention_ms=10_000_000)
    world.append((b"k", None))
    for number in range(5):
        seal(world)
        Compactor(world.log).run()
        assert pairs(world.log)[:1] == [(0, b"k", None)]
        pass_time(world, 1500)
        world.append((b"x", b"%d" % number))
    pass_time(world, 3000)
    seal(world)
    Compactor(world.log).run()
    assert [key for _, key, _ in pairs(world.log)] == [b"x"]


def test_tombstones_of_different_times_are_kept_apart():
    world = made(delete_retention_ms=100_000)
    world.append((b"k1", None))
    seal(world)
    Compactor(world.log).run()
    pass_time(world, 60)
    world.append((b"k2", None))
    seal(world)
    Compactor(world.log).run()
    pass_time(world, 50)
    Compactor(world.log).run()
    assert [key for _, key, _ in pairs(world.log)] == [b"k2"]
    pass_time(world, 60)
    Compactor(world.log).run()
    assert pairs(world.log) == []


def test_a_tombstone_that_was_overtaken_goes_at_once(world):
    world.append((b"k", None))
    world.append((b"k", b"again"))
    seal(world)
    Compactor(world.log).run()
    assert pairs(world.log) == [(1, b"k", b"again")]


def test_rolling_leaves_what_was_compacted(world):
    world.append((b"k", None))
    world.append((b"j", b"1"))
    seal(world)
    Compactor(world.log).run()
    clean = world.sealed()[0]
    assert since(clean.batch.base_sequence) is not None
    for number in range(40):
        world.append((b"filler-%d" % number, b"x" * 100))
    (step,) = Roller(world.log).run()
    assert step.base_offset == 0
    assert world.sealed()[0] == clean


def test_labels():
    assert label_of(None) == CLEAN
    assert since(CLEAN) is None
    assert since(-1) is None
    assert since(7) is None
    for time in (0, 1, 1_700_000_000_000):
        assert label_of(time) < CLEAN
        assert since(label_of(time)) == time


# -- When it is due ----------------------------------------------------------------------------------------


def test_the_share_of_what_is_dirty():
    world = made(min_cleanable_dirty_ratio=0.5, compression_type="none")
    for number in range(20):
        world.append((b"k%d" % number, b"x" * 1000))
    seal(world)
    assert Compactor(world.log).run() != [], "all of it"
    world.append((b"k", b"x"))
    seal(world)
    assert Compactor(world.log).run() == []
    for number in range(24):
        world.append((b"k%d" % number, b"y" * 1000))
    seal(world)
    assert Compactor(world.log).run() != []
    assert {value for _, _, value in pairs(world.log)} == {b"y" * 1000, b"x"}


def test_a_ratio_of_one_is_never_reached():
    world = made(min_cleanable_dirty_ratio=1)
    for number in range(20):
        world.append((b"k", b"%d" % number))
    assert Compactor(world.log).run() == []


def test_records_younger_than_the_lag_are_left_alone():
    world = made(min_compaction_lag_ms=1_000_000)
    for number in range(8):
        world.append((b"k", b"old %d" % number))
    pass_time(world, 10_000)
    for number in range(12):
        world.append((b"k", b"new %d" % number))
    seal(world)
    young = [one for one in pairs(world.log) if one[2].startswith(b"new")]
    Compactor(world.log).run()
    assert pairs(world.log) == [(7, b"k", b"old 7"), *young]
    assert Compactor(world.log).run() == []
    pass_time(world, 10_000)
    Compactor(world.log).run()
    assert pairs(world.log) == young[-1:]


def test_the_filthiest_partition_is_first():
    world = World(MemoryStore(), config=COMPACT, partitions=2)

    def put(partition, count):
        for number in range(count):
            with world.log.stage(world.topic) as writer:
                writer.append(table([(b"k%d" % number, b"x")]), partition)
                action = AppendBatches(NO_PRODUCER, (("t", world.topic.topic_id),), writer.finish())
            world.log.commit(lambda _, action=action: (action,))

    put(0, 20)
    put(1, 20)
    assert {step.partition for step in Compactor(world.log).run()} == {0, 1}
    put(0, 8)
    put(1, 20)
    put(0, 8)
    assert next(iter(Compactor(world.log).run())).partition == 1


# -- Large topics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 2, 3, 7, 1000])
def test_more_keys_than_the_map_holds(world, keys):
    for number in range(40):
        world.append((b"k%d" % (number * 7 % 13), b"%d" % number))
    end = seal(world)
    before = pairs(world.log)
    Compactor(world.log, keys=keys).run()
    assert pairs(world.log) == latest(before, end)
    assert Compactor(world.log).run() == []


@pytest.mark.parametrize("rows", [1, 5, 12])
def test_many_steps(world, rows, monkeypatch):
    monkeypatch.setattr(compaction, "ROWS", rows)
    for number in range(40):
        world.append((b"k%d" % (number % 10), b"%d" % number))
    end = seal(world)
    before = pairs(world.log)
    steps = Compactor(world.log).run()
    assert len(steps) > 2
    assert [step.base_offset for step in steps] == sorted(step.base_offset for step in steps)
    assert pairs(world.log) == latest(before, end)


def test_a_map_of_keys():
    rng = np.random.default_rng(1)
    newest, expected = KeyMap(100_000), {}
    for base in range(0, 200_000, 5000):
        keys = [b"%016d" % key for key in rng.integers(0, 30_000, 5000)]
        offsets = np.arange(base, base + 5000)
        assert newest.add(np.array(keys, "S16"), offsets)
        expected.update(zip(keys, offsets.tolist(), strict=True))
    assert len(newest) == len(expected)
    asked = [b"%016d" % key for key in range(40_000)]
    assert newest.latest(np.array(asked, "S16")).tolist() == [expected.get(key, -1) for key in asked]


def test_a_map_that_is_full():
    newest = KeyMap(10)
    keys = np.array([b"%016d" % key for key in range(30)], "S16")
    assert newest.latest(keys[:2]).tolist() == [-1, -1]
    assert newest.add(keys[:5], np.arange(5))
    assert newest.add(keys[:5], np.arange(5, 10)), "the same ones"
    assert not newest.add(keys[5:15], np.arange(10, 20))
    assert len(newest) == 5
    assert newest.latest(keys[:6]).tolist() == [5, 6, 7, 8, 9, -1]
    assert KeyMap(10).add(keys, np.arange(30)), "who gets nothing done gets nowhere"


def test_large_batches_that_stay_are_not_written_again(world, monkeypatch):
    monkeypatch.setattr(compaction, "SMALL_BYTES", 3000)
    world.append((b"small", b"1"))
    world.append((b"large", b"L" * 4000))
    world.append((b"small", b"2"))
    seal(world)
    large = next(row for row in world.rows() if row.batch.length > 4000)
    Compactor(world.log).run()
    found = next(row for row in world.sealed() if row.base_offset == 1)
    assert found.file == large.file
    assert found.batch == large.batch._replace(base_sequence=CLEAN)
    assert [value for _, _, value in pairs(world.log)] == [b"L" * 4000, b"2"]
    assert Compactor(world.log).run() == []


# -- Topics with a schema ----------------------------------------------------------------------------------


def typed(**config):
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.string()),
            pa.field("x", pa.float64()),
            pa.field("y", pa.string()),
        ]
    )
    return World(MemoryStore(), config={**COMPACT, **config}, schema=schema)


def put(world, a, b, x=None, y=None):
    world.append(
        pa.table({"a": [a], "b": [b], "x": pa.array([x], pa.float64()), "y": pa.array([y], pa.string())})
    )


def test_topics_with_a_schema():
    world = typed(**{"key.columns": "a,b", "delete.retention.ms": "100000"})
    put(world, 1, "x", 1.0)
    put(world, 1, "y", 2.0)
    put(world, 1, "x", 3.0)
    put(world, 1, "y")
    put(world, None, "y", 5.0)
    put(world, None, "y", None, "7")
    for number in range(9):
        put(world, 100 + number, "f")
    Compactor(world.log).run()

    def rows():
        columns = [seen(world.log, column=name) for name in "abxy"]
        return [(at, *(column[n][1] for column in columns)) for n, (at, _) in enumerate(columns[0]) if at < 6]

    assert rows() == [(2, 1, "x", 3.0, None), (3, 1, "y", None, None), (5, None, "y", None, "7")]
    world.log.clock.now += 200
    Compactor(world.log).run()
    assert rows() == [(2, 1, "x", 3.0, None), (5, None, "y", None, "7")]


def test_a_topic_with_a_schema_and_no_key_is_not_compacted():
    """None is made so any more; a log of an earlier version may have one."""
    world = typed(**{"cleanup.policy": "delete"})
    config = tuple({**world.topic.config, "cleanup.policy": "compact"}.items())
    world.log.commit(lambda _: (AlterTopic("t", world.topic.topic_id, config=config),))
    for number in range(9):
        put(world, 1, "x", number)
    assert not is_compacted(world.topic)
    assert Compactor(world.log).run() == []


def test_a_row_of_keys_alone_is_no_tombstone():
    world = World(
        MemoryStore(),
        config={**COMPACT, "key.columns": "a", "delete.retention.ms": "0"},
        schema=pa.schema([("a", pa.int64())]),
    )
    for number in range(9):
        world.append(pa.table({"a": [number % 2]}))
    for _ in range(3):
        Compactor(world.log).run()
        world.log.clock.now += 1000
    assert {value for _, value in seen(world.log, column="a")} == {0, 1}


def keyed(monkeypatch):
    """Records of a world whose keys by ``a`` are the values that others have in ``b``, and what readers have of ``b``.

    By either column all keys are different ones.
    """
    monkeypatch.setattr(compaction, "ROWS", 4)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    world = World(FaultyStore(MemoryStore()), config={**COMPACT, "key.columns": "a"}, schema=schema)
    for number in range(40):
        world.append(pa.table({"a": [number + 8], "b": [number + 16]}))
    return world, lambda: [value for _, value in seen(world.log, column="b")]


def test_other_keys_end_a_pass(monkeypatch):
    world, readers_see = keyed(monkeypatch)
    compactor = Compactor(world.log)
    assert compactor.step() is not None
    Admin(world.another()).alter_topic("t", config={"key.columns": "b"})
    compactor.run()
    assert readers_see() == [*range(16, 56)]


def test_a_step_that_was_planned_with_other_keys_is_not_committed(monkeypatch):
    world, readers_see = keyed(monkeypatch)
    world.append(pa.table({"a": [9], "b": [100]}))
    for number in range(9):
        world.append(pa.table({"a": [number + 200], "b": [number + 200]}))

    def alter(operation, _name):
        if operation == "upload":
            world.log.store.before = lambda *_: None
            Admin(world.another()).alter_topic("t", config={"key.columns": "b"})

    world.log.store.before = alter
    Compactor(world.log).run()
    assert world.topic.config["key.columns"] == "b"
    assert readers_see() == [*range(16, 56), 100, *range(200, 209)]


# -- Beside others -----------------------------------------------------------------------------------------


def fill(world, count=20):
    for number in range(count):
        world.append((b"k%d" % (number % 5), b"%d" % number))
    end = seal(world)
    return latest(pairs(world.log), end)


def test_one_wins(world):
    expected = fill(world)
    other = world.another()
    stored = world.stored()

    def be_faster(operation, _):
        if operation == "upload":
            world.store.after = lambda *_: None
            assert Compactor(other).run() != []

    world.store.after = be_faster
    assert Compactor(world.log).run() == []
    assert pairs(world.log) == expected
    assert world.stored() - stored <= world.files(), "the loser's file is gone"


def test_rolled_beside_it(world, monkeypatch):
    """A batch that is rolled between two steps lies on both sides of where the map of keys ends."""
    monkeypatch.setattr(compaction, "ROWS", 1)
    for key, value in (
        *((b"x", b"1" * 4000), (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"b", b"2")),
        *((b"c", b"2"), (b"d", b"1"), (b"e", b"1"), (b"x", None)),
    ):
        world.append((key, value))
    end = seal(world)
    expected = latest(pairs(world.log), end)
    compactor = Compactor(world.log, keys=5)
    step = compactor.step()
    assert step.next_offset == 4
    assert Roller(world.another()).step().base_offset == 4
    world.log.follow()
    row = next(row for row in world.rows() if row.base_offset == 4)
    assert row.base_offset < compactor._pass.end < row.next_offset
    for _ in range(3):
        compactor.run()
        world.log.clock.now += 1_000_000
    assert pairs(world.log) == [one for one in expected if one[1] != b"x"], "the dead do not rise"


def test_files_stay_while_nobody_knows(world):
    expected = fill(world)
    stored = world.stored()
    world.store.inject(Fault.FAIL_AFTER, "create", "_log/0*", times=1)
    compactor = Compactor(world.log)
    with pytest.raises(CommitOutcomeUnknownError):
        compactor.run()
    assert len(world.stored() - stored) == 1
    compactor.run()
    assert world.stored() - stored <= world.files()
    assert pairs(world.log) == expected


@pytest.mark.parametrize("at", [8, 7], ids=["whole pages", "a part of a page"])
def test_retention_beside_it(world, at):
    fill(world)
    names = [row.file.name for row in world.sealed()]
    other = world.another()

    def delete(operation, name):
        if operation == "read" and name == names[0]:
            world.store.before = lambda *_: None
            start = AdvanceLogStart((PartitionOffset("t", world.topic.topic_id, 0, at),))
            other.commit(lambda _: (start,))
            for gone in names[:at]:
                world.store.delete(gone)

    world.store.before = delete
    Compactor(world.log).run()
    assert [value for _, _, value in pairs(world.log)] == [b"15", b"16", b"17", b"18", b"19"]


def test_a_file_that_is_missing_is_told(world):
    fill(world)
    world.store.delete(world.sealed()[0].file.name)
    with pytest.raises(ObjectNotFoundError):
        Compactor(world.log).run()


def test_verify_finds_a_batch_with_more_offsets_than_the_log_says(world, monkeypatch):
    fill(world)
    Compactor(world.log).run()

    def too_many(store, file, *args, **options):
        rows = read_batch(store, file, *args, **options)
        if not file.offsets:
            return rows
        return rows.set_column(0, rows.schema.field(0), pa.array([99] * len(rows), rows.schema.field(0).type))

    monkeypatch.setattr(data, "read_batch", too_many)
    told = []
    verify(world.store, told.append)
    assert "its rows take" in told[0].text


def test_a_topic_that_was_deleted_and_created_again(world):
    fill(world)
    compactor = Compactor(world.log)

    def again(operation, _):
        if operation == "upload":
            world.store.after = lambda *_: None
            admin = Admin(world.another())
            admin.delete_topic("t")
            admin.create_topic("t", config=COMPACT)

    world.store.after = again
    assert compactor.run() == []
    assert world.partition.end == 0


def test_the_last_sequence_of_a_producer_survives(world):
    producer = Producer(world.log, {"transactional.id": "live"})
    producer.init_transactions()
    for number in range(8):
        producer.begin_transaction()
        producer.send("t", b"%d" % number, key=b"k", partition=0)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    before = {one.producer_id: one.last_sequence for one in Admin(world.log).describe_producers(*AT)}
    seal(world)
    Compactor(world.log).run()
    assert {
        one.producer_id: one.last_sequence for one in Admin(world.another()).describe_producers(*AT)
    } == before
    producer.begin_transaction()
    producer.send("t", b"next", key=b"k", partition=0)
    producer.commit_transaction()
    assert [value for _, _, value in pairs(world.log)] == [b"6", b"next"]
    producer.close()


# -- Any history -------------------------------------------------------------------------------------------


class History:
    """A log that is written, compacted and rolled by turns, and what was written."""

    def __init__(self, keys, retention_ms, form):
        config = {**COMPACT, "delete.retention.ms": retention_ms, "segment.format": form}
        self.world = World(MemoryStore(), config=config, interval=3)
        self.compactor = Compactor(self.world.log, keys=keys)
        self.written, self.aborted, self.waiting = {}, set(), []
        self.opened, self.number = None, 0

    def do(self, step, content):
        records = []
        for key, dies in content:
            self.number += 1
            records.append((b"k%d" % key, None if dies else b"%d" % self.number))
        getattr(self, step)(records)

    def _write(self, records, **options):
        base = self.world.partition.end
        self.written.update((base + n, one) for n, one in enumerate(records))
        self.world.append(*records, **options)
        return range(base, base + len(records))

    def append(self, records):
        self._write(records)

    def commit(self, records, commit=True):
        stamp = self.world.begin()
        offsets = self._write(records, stamp=stamp)
        if not commit:
            self.aborted.update(offsets)
        self.world.end(stamp, commit)

    def abort(self, records):
        self.commit(records, commit=False)

    def open(self, records):
        self.opened = self.opened or self.world.begin("slow")
        self.waiting += self._write(records, stamp=self.opened)

    def close(self, records):
        if self.opened is None:
            return
        if len(records) == 1:
            self.aborted.update(self.waiting)
        self.world.end(self.opened, commit=len(records) > 1)
        self.opened, self.waiting = None, []

    def compact(self, records):
        for _ in records:
            self.compactor.step()

    def roll(self, _):
        Roller(self.world.log).step()

    def time(self, _):
        self.world.log.clock.now += 30

    def delete(self, records):
        world = self.world
        to = min(world.partition.last_stable_offset, world.partition.start + len(records))
        start = AdvanceLogStart((PartitionOffset("t", world.topic.topic_id, 0, to),))
        world.log.commit(lambda _: (start,))

    def check(self):
        partition = self.world.partition
        found = pairs(self.world.log)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert all(self.written[offset] == (key, value) for offset, key, value in found), "offsets stay"
        whole = {
            key: value
            for offset, (key, value) in sorted(self.written.items())
            if partition.start <= offset < partition.last_stable_offset and offset not in self.aborted
        }
        # Of a key that was deleted nothing may be left but its tombstone; of all others the newest value is.
        state = {key: value for _, key, value in found}
        assert state == {key: whole.get(key) for key in state}
        assert state.keys() >= {key for key, value in whole.items() if value is not None}
        loose = pairs(self.world.log, UNCOMMITTED)
        assert [
            one for one in loose if one[0] < partition.last_stable_offset and one[0] not in self.aborted
        ] == found
        check_state(self.world.log.state)


STEPS = ("append", "commit", "abort", "open", "close", "compact", "roll", "delete", "time")
content = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=3)
histories = st.lists(st.tuples(st.sampled_from(STEPS), content), min_size=10, max_size=60)


@examples(60)
@given(
    histories,
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([1, 6, 1000]),
    st.sampled_from([0, 20_000]),
    st.sampled_from(["arrow", "parquet"]),
)
def test_any_history(steps, keys, rows, retention_ms, form):
    """Who reads the compacted log knows in the end what a reader of the whole log knows."""
    with small_pages(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "ROWS", rows)
        patch.setattr(rewrite, "BATCH_BYTES", 60)
        history = History(keys, retention_ms, form)
        for step, records in steps:
            history.do(step, records)
            history.check()
        Compactor(history.world.log).run()
        history.check()
        assert pairs(history.world.another()) == pairs(history.world.log)


@pytest.mark.parametrize("rewriter", [Compactor, Roller])
@pytest.mark.parametrize(
    ("trouble", "error", "text"),
    [("damaged", CorruptRecordError, "a-0"), ("hidden", StorePermissionError, "no key")],
)
def test_a_partition_that_cannot_be_read_stops_no_other(rewriter, trouble, error, text, caplog, monkeypatch):
    """As Kafka's cleaner (KIP-346): it is left as it is, and said once all else is done."""
    world = made()
    admin = Admin(world.log)
    for name in ("a", "z"):
        admin.create_topic(name, config=COMPACT)
    numbers = itertools.count()
    with Producer(world.log) as producer:
        for name in ("a", "t", "z"):
            topic = world.log.topic(name)
            while len(world.log.follow().partitions[topic.topic_id, 0].index.pages) < 2:
                producer.send(name, b"x", key=b"%d" % (next(numbers) % 3), partition=0)
                producer.flush()
    state = world.log.state
    (row, *_) = state.partitions[state.topics["a"].topic_id, 0].index.scan(0, world.log.load)
    store, read = world.log.store, world.log.store.read
    if trouble == "damaged":
        store.overwrite(row.file.name, bytes(row.file.size))
    else:

        def opened(name, *args):
            if name == row.file.name:
                raise StorePermissionError(f"file {name!r}: no key")
            return read(name, *args)

        monkeypatch.setattr(store, "read", opened)
    done, one = [], rewriter(world.log)
    with pytest.raises(error, match=text):
        one.run(done.append)
    assert {step.topic for step in done} == {"t", "z"}
    assert "a-0 is left as it is, the others go on" in caplog.text
    with pytest.raises(error):
        one.run()
