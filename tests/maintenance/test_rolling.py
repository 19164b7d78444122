"""Rolling: fewer batches, the same records at the same offsets, and one winner."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Admin, Consumer, read_arrow
from spark_eos.config.compression import Compression
from spark_eos.errors import CommitOutcomeUnknownError, CorruptRecordError, ObjectNotFoundError
from spark_eos.log.data.arrow_file import compression_of
from spark_eos.log.data.parquet.plan import plan_sealed
from spark_eos.log.data.planner import Fetch, plan
from spark_eos.maintenance import rewrite, rolling
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.rewrite import SMALL_BYTES, Rewriter, read_row
from spark_eos.maintenance.rolling import GROWTH, Roller, plan_roll, rows_after
from spark_eos.maintenance.segments.form import Form
from spark_eos.maintenance.segments.sealer import Cut, seal
from spark_eos.protocol.actions import AdvanceLogStart, AppendBatches, PartitionOffset, RaiseStagingFloor
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.index import IndexPage, IndexRow, Kind, Measures
from spark_eos.protocol.invariants import check_state
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.maintenance.sparse_world import (
    AT,
    COMMITTED,
    UNCOMMITTED,
    World,
    everything,
    seen,
    small_pages,
    table,
)
from tests.tiers import examples

pytestmark = pytest.mark.usefixtures("small_pages")


@pytest.fixture
def world():
    return World(FaultyStore(MemoryStore()))


def kinds(world):
    return [row.kind for row in world.sealed()]


# -- What readers see --------------------------------------------------------------------------------------


def test_many_small_batches_become_one(world):
    for number in range(8):
        world.transaction(b"%d" % number)
    world.seal()
    before, stored = everything(world.log), world.stored()
    (look,) = Maintainer(world.log, only=["roll"], dry_run=True).run()
    assert (look.text, world.stored()) == ("would rewrite parts of t-0", stored)
    (step,) = Roller(world.log).run()
    assert everything(world.log) == before
    (row,) = world.sealed()
    assert (row.kind, row.count, row.batch.count) == (Kind.DATA, step.next_offset, step.next_offset - 8)
    assert (step.rows_before, step.rows_after, step.bytes_after) == (step.next_offset, 1, row.batch.length)
    assert step.bytes_after < step.bytes_before
    (new,) = world.stored() - stored
    assert new == row.file.name
    assert new.startswith(f"data/t-{world.topic.topic_id}/0/000000000000000000")
    check_state(world.log.state)
    assert everything(world.another()) == before, "as read from the store"


@pytest.mark.parametrize("form", ["arrow", "parquet"])
@pytest.mark.parametrize("isolation", [COMMITTED, UNCOMMITTED])
def test_what_was_rolled_since_is_read_as_it_was(form, isolation):
    """The marks at the ends of transactions are holes then, and no record of the past is missing for that."""
    world = World(MemoryStore(), config={"segment.format": form}, maintenance=False)
    then = {}
    for number in range(12):
        world.transaction(b"%d" % number, b"more", commit=number % 3 < 2)
        then[world.log.state.seq] = seen(world.log, isolation)
        world.append(b"alone")
        then[world.log.state.seq] = seen(world.log, isolation)
    old = world.files()
    world.seal()
    assert Roller(world.log).run()
    rolled = old - world.files()
    assert rolled
    for name in rolled:
        world.store.delete(name)
    for seq, records in then.items():
        shown = read_arrow(
            world.log, "t", as_of=seq, columns=["offset", "value"], isolation_level=isolation.value
        )
        assert [*map(tuple, (row.values() for row in shown.read_all().to_pylist()))] == records


def test_the_newest_batches_are_rolled_if_they_are_many(world):
    for number in range(6):
        world.transaction(b"%d" % number)
    before = everything(world.log)
    tail = len(world.partition.index.tail)
    assert tail > 0
    Roller(world.log, tail_rows=tail + 1).run()
    assert len(world.partition.index.tail) == tail
    Roller(world.log, tail_rows=1).run()
    assert everything(world.log) == before
    assert not world.partition.index.tail
    assert len(world.sealed()) <= 2
    check_state(world.log.state)
    assert everything(world.another()) == before, "as read from the store"


@pytest.mark.parametrize(
    ("segment_ms", "later_s", "rolled"), [(60_000, 50, 0), (60_000, 70, 1), (-1, 10**6, 0), (0, 1, 1)]
)
def test_a_few_of_the_newest_batches_are_rolled_past_segment_ms(world, segment_ms, later_s, rolled):
    for number in range(3):
        world.append(b"%d" % number)
    Admin(world.log).alter_topic("t", config={"segment.ms": segment_ms})
    world.log.clock.now += later_s
    assert len(Roller(world.log).run()) == rolled


def test_what_is_open_is_not_rolled(world):
    for number in range(3):
        world.transaction(b"%d" % number)
    stable = world.partition.end
    world.append(b"open", stamp=world.begin())
    before = everything(world.log)
    Roller(world.log, tail_rows=1).run()
    assert everything(world.log) == before
    assert world.partition.index.pages[-1].next_offset == stable
    assert world.partition.index.tail


def test_a_missing_file_of_the_tail_is_told(world):
    for number in range(3):
        world.append(b"%d" % number)
    world.store.delete(world.partition.index.tail[-1].file.name)
    with pytest.raises(ObjectNotFoundError):
        Roller(world.log, tail_rows=1).run()


def test_rolled_again_with_what_came_later(world):
    for number in range(4):
        world.transaction(b"%d" % number)
    world.seal()
    Roller(world.log).run()
    for number in range(4, 24):
        world.transaction(b"%d" % number)
    world.seal()
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert len(world.sealed()) <= 3


def test_aborted_records_keep_apart(world):
    for number in range(4):
        world.transaction(b"a%d" % number)
    for number in range(4):
        world.transaction(b"b%d" % number, commit=False)
    for number in range(4):
        world.transaction(b"c%d" % number)
    world.seal()
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert kinds(world) == [Kind.DATA, Kind.ABORTED, Kind.DATA]
    values = [value for _, value in seen(world.log)]
    assert b"b0" not in values
    assert b"b0" in [value for _, value in seen(world.log, UNCOMMITTED)]


def test_what_does_not_get_fewer_is_left_alone(world):
    for number in range(8):
        world.transaction(b"%d" % number, commit=bool(number % 2))
    world.seal()
    roller = Roller(world.log)
    roller.run()
    left = world.partition.index.pages
    assert roller.step() is None
    assert Roller(world.log).step() is None, "nor by somebody who does not know"
    assert world.partition.index.pages == left


def test_control_batches_only(world):
    world.append(b"x")
    for _ in range(6):
        stamp = world.begin()
        world.append(b"y", stamp=stamp)
        world.end(stamp, commit=False)
    world.seal()
    world.log.commit(lambda _: (start_at(world, world.partition.end - 1),))
    Roller(world.log).run()
    assert seen(world.log) == [(world.partition.end - 1, seen(world.log)[0][1])]


def test_large_batches_stay_where_they_are(world, monkeypatch):
    monkeypatch.setattr(rolling, "SMALL_BYTES", 2000)
    monkeypatch.setattr(rewrite, "SMALL_BYTES", 2000)
    world.transaction(b"s0")
    world.transaction(b"s1")
    world.transaction(b"L" * 4000)
    for number in range(4):
        world.transaction(b"s%d" % number)
    world.seal()
    before = everything(world.log)
    large = next(row for row in world.rows() if row.batch and row.batch.length > 4000)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert large in world.sealed()
    assert [row.count == row.batch.count for row in world.sealed()] == [False, True, False]


def test_two_large_batches_with_a_control_batch_between(monkeypatch):
    monkeypatch.setattr(rolling, "SMALL_BYTES", 2000)
    monkeypatch.setattr(rewrite, "SMALL_BYTES", 2000)
    with small_pages(16):
        world = World(MemoryStore())
        for text in ("s", "s", "s", "L" * 4000, "L" * 4001, "s", "s", "s"):
            world.transaction(text.encode())
        world.seal()
        before = everything(world.log)
        Roller(world.log).run()
        assert everything(world.log) == before
        assert kinds(world) == [Kind.DATA, Kind.DATA, Kind.HOLE, Kind.DATA, Kind.DATA]
        assert [row.count for row in world.sealed()] == [6, 1, 1, 1, 7]


def test_batches_without_holes_need_no_column(world):
    for number in range(12):
        world.append(b"%d" % number)
    world.seal()
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    (row,) = world.sealed()
    assert not row.file.offsets
    assert row.batch.count == row.count


def test_a_batch_is_not_larger_than_it_should_be(world, monkeypatch):
    monkeypatch.setattr(rewrite, "BATCH_BYTES", 100)
    monkeypatch.setattr(rolling, "BATCH_BYTES", 100)
    monkeypatch.setattr(rewrite, "_JOIN", 2)
    for number in range(24):
        world.transaction(b"%020d" % number)
    world.seal()
    before = everything(world.log)
    roller = Roller(world.log)
    roller.run()
    assert everything(world.log) == before
    counts = [row.batch.count for row in world.sealed()]
    assert len(counts) > 5
    assert max(counts) <= 5
    assert roller.step() is None, "they are as large as can be"
    assert Roller(world.log).step() is None


def test_the_last_holes_belong_to_the_last_batch(world, monkeypatch):
    monkeypatch.setattr(rewrite, "BATCH_BYTES", 1)
    for number in range(12):
        world.transaction(b"%d" % number)
    assert world.sealed()[-1].kind is Kind.COMMIT
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert {*kinds(world)} == {Kind.DATA}


def test_a_file_is_not_larger_than_it_should_be(monkeypatch):
    monkeypatch.setattr(rewrite, "BATCH_BYTES", 500)
    with small_pages(64):
        world = World(MemoryStore(), config={"segment.bytes": 3000})
        for number in range(40):
            world.transaction(b"%0100d" % number)
        world.seal()
        before = seen(world.log)
        Roller(world.log).run()
        assert seen(world.log) == before
        sizes = {row.file.size for row in world.sealed()}
        assert 3 <= len(sizes) <= len(world.sealed()) / 2
        assert max(sizes) < 5000


def test_other_topics_are_left_alone(world):
    for number in range(8):
        world.append(b"%d" % number)
    world.seal()
    assert Roller(world.log, ["u"]).run() == []
    found = []
    assert Roller(world.log, ["t"]).run(found.append) == found != []


def test_a_long_hole_costs_two_batches(world):
    world.append(pa.table({"value": [b"%d" % number for number in range(200_000)]}))
    world.seal()
    pages = world.partition.index.pages
    kept = [3, 4, 70_000, 135_535, 135_536 + 65_536]
    form = Form(offsets=True)
    with Rewriter(world.log, world.topic, 0, pages, form) as new:
        for row in world.sealed():
            records = read_row(world.log, world.topic, 0, row, 0)
            if row.base_offset == 0:
                records = records_at(records, kept[:4])
            new.take(row, records)
        new.commit("test")
    assert seen(world.log)[:4] == [(offset, b"%d" % offset) for offset in kept[:4]]
    assert next(row.batch.count for row in world.sealed()) == 2
    for start in (0, 4, 5, 69_999, 70_000, 70_001, 135_535):
        assert seen(world.log, start=start)[0][0] == next(at for at in kept if at >= start)


def records_at(records, offsets):
    from spark_eos.log.data.records import Records

    return Records(records.table.take(pa.array(offsets)), 0, records.offsets[offsets])


def test_where_nothing_is_left(world):
    for number in range(8):
        world.append(b"%d" % number)
    world.seal()
    pages = world.partition.index.pages
    with Rewriter(world.log, world.topic, 0, pages, Form(offsets=True)) as new:
        new.skip(pages[-1].next_offset)
        new.commit("test")
    assert kinds(world) == [Kind.HOLE]
    assert seen(world.log, end=pages[-1].next_offset) == []


def check_sealed(world, end):
    """Seal up to an offset, inside of a batch or not: the files have the records up to there, and no others."""
    start = world.partition.start
    if end <= start:
        return
    seal(world.log, [Cut("t", world.topic.topic_id, 0, start, end)])
    found = plan_sealed(world.log.state, AT, start, end, load=world.log.load)
    assert found.rest == ()
    tables = [pq.read_table(io.BytesIO(world.store.read(one.file.name))) for one in found.files]
    columns = [(one.column("offset").to_pylist(), one.column("value").to_pylist()) for one in tables]
    assert [pair for one in columns for pair in zip(*one, strict=True)] == seen(
        world.log, COMMITTED, start, end
    )


values = st.lists(
    st.tuples(
        st.sampled_from(["append", "commit", "abort", "open", "close", "roll", "delete", "seal"]),
        st.integers(1, 3),
    ),
    min_size=10,
    max_size=60,
)


@examples(20)
@given(values, st.sampled_from(["arrow", "parquet"]))
def test_any_history(steps, form):
    with small_pages():
        world = World(MemoryStore(), interval=3, config={"segment.format": form})
        roller = Roller(world.log)
        opened, number = None, 0
        for step, count in steps:
            rows = [b"%d" % (number + one) for one in range(count)]
            number += count
            before = everything(world.log)
            if step == "append":
                world.append(*rows)
            elif step in {"commit", "abort"}:
                world.transaction(*rows, commit=step == "commit")
            elif step == "open":
                if opened is None:
                    opened = world.begin("slow")
                world.append(*rows, stamp=opened)
            elif step == "close" and opened is not None:
                world.end(opened, commit=count > 1)
                opened = None
            elif step == "delete":
                to = min(world.partition.last_stable_offset, world.partition.start + count)
                world.log.commit(lambda _, to=to: (start_at(world, to),))
            elif step == "roll":
                roller.step()
                assert everything(world.log) == before
            elif step == "seal":
                check_sealed(world, world.partition.last_stable_offset - count)
                assert everything(world.log) == before
            check_state(world.log.state)
        before = everything(world.log)
        Roller(world.log).run()
        assert everything(world.log) == before
        check_state(world.log.state)
        assert everything(world.another()) == before


# -- Consumers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_consumer_goes_on_from_where_it_stood(most, isolation):
    url = f"memory://rolled-{most}-{isolation}"
    from spark_eos.storage import open_store

    world = World(open_store(url))
    for number in range(12):
        world.transaction(b"%d" % number, commit=number not in {4, 5, 6, 7})
    world.seal()
    expected = seen(world.log, COMMITTED if isolation == "read_committed" else UNCOMMITTED)
    Roller(world.log).run()
    end = world.partition.end
    for start in range(end + 1):
        reader = Consumer(world.log, {"isolation.level": isolation})
        reader.assign([AT])
        reader.seek(AT, start)
        found = []
        while records := reader.poll(max_records=most):
            found += [(record.offset, record.value) for record in records]
            wanted = next((at for at, _ in expected if at > found[-1][0]), end)
            assert found[-1][0] < reader.position(AT) <= wanted
        assert found == [one for one in expected if one[0] >= start]
        assert reader.position(AT) == end, "after the last span"
        reader.seek(AT, start)
        offsets = []
        while (got := reader.poll_arrow(max_records=most)).num_rows:
            offsets += got.column("offset").to_pylist()
        assert offsets == [at for at, _ in expected if at >= start]


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_consumer_whose_files_go_while_it_polls_reads_on(world, reset):
    """What it finds in their place may lie after the end of the log that the poll has begun with."""
    for number in range(4):
        world.append(b"%d" % number)
    other, old = world.another(), world.files()
    reader = Consumer(world.log, {"auto.offset.reset": reset})
    reader.assign([AT])
    reader.seek(AT, 1)

    def go_on(operation, name):
        if operation == "read" and name in old:
            world.store.before = lambda *_: None
            topic = other.topic("t")
            with other.stage(topic) as writer:
                writer.append(table([b"4", b"5"]), 0)
                files = writer.finish()
            other.commit(lambda _: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))
            Roller(other, tail_rows=1).run()
            for gone in old:
                other.store.delete(gone)

    world.store.before = go_on
    found = [*reader.poll(), *reader.poll(), *reader.poll()]
    assert [record.value for record in found] == [b"%d" % number for number in range(1, 6)]


def test_a_part_of_a_batch_without_records(world):
    for number in range(12):
        world.transaction(b"%d" % number, commit=not 4 <= number < 8)
    world.seal()
    Roller(world.log).run()
    first = world.sealed()[0]
    start = first.next_offset - 1
    assert (first.count, seen(world.log, start=start, end=start + 1)) == (8, [])
    expected = [at for at, _ in seen(world.log, start=start)]
    reader = Consumer(world.log, {"isolation.level": "read_committed"})
    reader.assign([AT])
    reader.seek(AT, start)
    assert [record.offset for record in reader.poll()] == expected
    reader.seek(AT, start)
    assert reader.poll_arrow().column("offset")[0].as_py() == expected[0]


def test_times_are_found_in_rolled_batches(world):
    for number in range(10):
        stamp = pa.array([1000 * number], pa.timestamp("ms", "UTC"))
        world.transaction(pa.table({"value": [b"%d" % number], "timestamp": stamp}))
    world.seal()
    wanted = {
        time: world.log.offset_for_time(AT, time, isolation)
        for time in range(0, 10_500, 500)
        for isolation in (COMMITTED, UNCOMMITTED)
    }
    Roller(world.log).run()
    assert wanted == {
        time: world.log.offset_for_time(AT, time, isolation)
        for time in range(0, 10_500, 500)
        for isolation in (COMMITTED, UNCOMMITTED)
    }
    assert wanted[4500] == (10, 5000)


@pytest.mark.parametrize("limits", [{"records": 3}, {"at_least": 4}, {"at_least": 3, "records": 2}, {}])
def test_tasks_of_spark_share_a_rolled_batch(world, limits):
    from spark_eos.log.data.task_io import TaskStorage
    from spark_eos.spark.source.scan import read_task, split

    for number in range(12):
        world.transaction(b"%d" % number)
    world.seal()
    Roller(world.log).run()
    columns = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("partition", pa.int32())])

    end = world.partition.end
    for start in (0, 1, 2, 7):
        expected = seen(world.log, start=start)
        fetches = plan(world.log.state, AT, start, end, COMMITTED, world.log.load)
        tasks = split(TaskStorage(world.store.url, 0), dict(world.log.state.topics), fetches, **limits)
        found = [
            [(row["offset"], row["value"]) for batch in read_task(task, columns) for row in batch.to_pylist()]
            for task in tasks
        ]
        assert [row for task in found for row in task] == expected
        assert max(map(len, found)) <= limits.get("records", 1000)
        assert len(found) >= limits.get("at_least", 1)


def test_a_fetch_is_cut_by_records_and_again():
    dense = Fetch("t", 0, 10, 6, 2, FileRef("f", 9, 0), BatchRef(0, 20, 0, 9, 0, 0, 0))
    assert (dense.base_offset, dense.next_offset, dense.records) == (8, 16, 6)
    part = dense.take(1, 4).take(2, 1)
    assert (part.offset, part.count, part.skip, part.base_offset) == (13, 1, 5, 8)
    sparse = dense._replace(file=FileRef("f", 9, 0, (), True), batch=dense.batch._replace(count=4))
    assert sparse.records == 4
    part = sparse.take(1, 3).take(1, 2)
    assert (part.offset, part.count, part.part, part.records) == (10, 6, (2, 4), 2)
    assert sparse.take(3, 5).records == 1


# -- The new files -----------------------------------------------------------------------------------------


def of(codec):
    return Compression.of(codec or "none")


@pytest.mark.parametrize("setting", ["none", "lz4", "zstd", "producer"])
@pytest.mark.parametrize("written", [None, "lz4", "zstd"])
def test_compression(setting, written):
    world = World(MemoryStore(), config={"compression.type": setting})
    for number in range(8):
        world.transaction(b"%d" % number * 50, compression=of(written))
    world.seal(compression=of(written))  # the newest of what is rolled decides
    expected = {"none": None, "producer": written}.get(setting, setting)
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert compression(world, world.sealed()[0]) == expected


@pytest.mark.parametrize("setting", ["zstd", "producer"])
def test_compression_at_the_level_of_the_topic(setting):
    sizes = []
    for level in ("1", "19"):
        config = {"compression.type": setting, "compression.zstd.level": level}
        world = World(MemoryStore(), config=config)
        for number in range(8):
            values = [
                b'{"flight":%d,"delay":%d}' % (n, n * n % 97)
                for n in range(1000 * number, 1000 * number + 1000)
            ]
            world.transaction(*values, compression=of("zstd"))
        world.seal(compression=of("zstd"))
        Roller(world.log).run()
        sizes.append(world.sealed()[0].batch.length)
    assert sizes[1] < 0.9 * sizes[0]


def compressible(_):
    return b"the same again and again " * 100


def incompressible(seed):
    return random.Random(seed).randbytes(2500)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("producer", compressible, "zstd"),
        ("producer", incompressible, None),
        ("auto", compressible, "zstd"),
        ("auto", incompressible, None),
        ("none", compressible, None),
    ],
)
def test_what_was_written_plain_is_tried_again(setting, value, expected):
    """Files of a few records are too small to be compressed: together they are not."""
    world = World(MemoryStore(), config={"compression.type": setting})
    for at in range(4):
        world.transaction(value(at), value(10 + at), compression=None)
    world.seal(compression=None)
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert compression(world, world.sealed()[0]) == expected


def compression(world, row):
    return compression_of(world.store.read(row.file.name, row.batch.position, row.batch.length))


@pytest.mark.parametrize("written", [None, "lz4", "zstd"])
def test_how_a_batch_is_compressed(written):
    world = World(MemoryStore())
    world.append(b"x" * 100, compression=of(written))
    assert compression(world, world.rows()[0]) == written
    with pytest.raises(CorruptRecordError):
        compression_of(pa.py_buffer(b"\xff\xff\xff\xff\x08\x00\x00\x00 nothing"))
    with pytest.raises(CorruptRecordError, match="schema"):
        compression_of(pa.schema([]).serialize())


def test_columns_that_nobody_has_are_left_out(world):
    for number in range(8):
        world.transaction(b"%d" % number)
    world.seal()
    Roller(world.log).run()
    assert set(world.sealed()[0].file.omitted) == {"key", "headers"}
    assert len({row.min_timestamp_ms for row in [world.sealed()[0].batch]}) == 1
    assert seen(world.log, column="timestamp") == sorted(seen(world.log, column="timestamp"))


def test_a_time_that_all_have_is_left_out(world):
    stamp = pa.array([7], pa.timestamp("ms", "UTC"))
    for _ in range(8):
        world.append(pa.table({"value": [b"x"], "timestamp": stamp}))
    world.seal()
    before = seen(world.log, column="timestamp")
    Roller(world.log).run()
    assert seen(world.log, column="timestamp") == before


def test_columns_that_were_added_later():
    one = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    two = pa.schema([*one, pa.field("name", pa.string())])
    world = World(MemoryStore(), schema=one)
    for number in range(4):
        world.append(pa.table({"id": [number]}))
    Admin(world.log).alter_topic("t", schema=two)
    for number in range(4, 40):
        world.append(pa.table({"id": [number], "name": [f"n{number}"]}))
    before = seen(world.log, column="name"), seen(world.log, column="id")
    Roller(world.log).run()
    assert (seen(world.log, column="name"), seen(world.log, column="id")) == before
    assert {row.file.schema_version for row in world.sealed()} == {2}
    assert before[0][3:5] == [(3, None), (4, "n4")]


def test_an_offset_column_with_nulls_is_corrupt():
    from spark_eos.log.data.layout import SKIPPED, Layout
    from spark_eos.log.data.reader import decode_batch

    schema = Layout.kafka().stored(("key", "headers", "timestamp"), offsets=True)
    loose = pa.schema([pa.field(SKIPPED.name, SKIPPED.type), schema.field(1)])
    data = pa.record_batch([pa.array([None], SKIPPED.type), pa.array([b"x"])], schema=loose).serialize()
    import google_crc32c

    batch = BatchRef(0, 1, 0, data.size, google_crc32c.value(data.to_pybytes()), 5, 5)
    file = FileRef("f", data.size, 0, ("key", "headers", "timestamp"), True)
    with pytest.raises(CorruptRecordError, match="'_skipped' is not nullable"):
        decode_batch(data, file, batch, Layout.kafka())


# -- Deleted records ---------------------------------------------------------------------------------------


def start_at(world, offset):
    return AdvanceLogStart((PartitionOffset("t", world.topic.topic_id, 0, offset),))


def test_deleted_records_are_not_rolled(world):
    world.append(b"0", b"1", b"2")
    for number in range(3, 12):
        world.append(b"%d" % number)
    world.seal()
    gone = [row.file.name for row in world.rows() if row.next_offset <= 5]
    world.log.commit(lambda _: (start_at(world, 5),))
    for name in gone:
        world.store.delete(name)
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    assert world.sealed()[0].batch.count == world.sealed()[-1].next_offset - 5


def test_a_start_inside_of_a_batch(world):
    for number in range(12):
        world.append(b"%d-0" % number, b"%d-1" % number, b"%d-2" % number)
    world.seal()
    world.log.commit(lambda _: (start_at(world, 1),))
    before = everything(world.log)
    Roller(world.log).run()
    assert everything(world.log) == before
    (row,) = world.sealed()
    assert row.batch.count == row.count - 1, "what was deleted is not written again"


def test_retention_beside_it(world):
    for number in range(12):
        world.append(b"%d" % number)
    world.seal()
    other = world.another()
    names = [row.file.name for row in world.sealed()]

    def delete(operation, name):
        if operation == "read" and name == names[0]:
            world.store.before = lambda *_: None
            other.commit(lambda _: (start_at(world, 8),))
            for gone in names[:8]:
                world.store.delete(gone)

    world.store.before = delete
    Roller(world.log).run()
    world.log.follow()
    assert [at for at, _ in seen(world.log)][:2] == [8, 9]


def test_another_one_rolls_and_vacuums_beside_it(world):
    for number in range(12):
        world.append(b"%d" % number)
    world.seal()
    before = everything(world.log)
    other = world.another()
    names = [row.file.name for row in world.sealed()]

    def roll(operation, name):
        if operation == "read" and name == names[0]:
            world.store.before = lambda *_: None
            Roller(other).run()
            for gone in names:
                world.store.delete(gone)

    world.store.before = roll
    Roller(world.log).run()
    world.log.follow()
    assert everything(world.log) == before


def test_a_file_that_is_missing_is_told(world):
    for number in range(12):
        world.append(b"%d" % number)
    world.seal()
    name = world.sealed()[0].file.name
    data, roller = bytes(world.store.read(name)), Roller(world.log)
    world.store.delete(name)
    with pytest.raises(ObjectNotFoundError):
        roller.run()
    world.store.create(name, data)
    assert len(roller.run()) == 1, "it was put back since"


# -- Beside others -----------------------------------------------------------------------------------------


def filled(world, count=12):
    for number in range(count):
        world.transaction(b"%d" % number)
    world.seal()
    return everything(world.log)


def test_one_wins(world):
    before = filled(world)
    other = world.another()
    stored = world.stored()
    won = []

    def be_faster(operation, _):
        if operation == "upload":
            world.store.after = lambda *_: None
            won.extend(Roller(other).run())

    world.store.after = be_faster
    assert Roller(world.log).run() == []
    assert len(won) == 1
    assert everything(world.log) == before
    assert len(world.stored() - stored) == 1, "the loser's file is gone"
    assert world.stored() - stored <= world.files()


def test_a_floor_that_rose(world):
    before = filled(world)
    other = world.another()
    stored = world.stored()

    def rise(operation, _):
        if operation == "upload":
            world.store.after = lambda *_: None
            world.append(b"more")
            other.follow()
            other.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))

    world.store.after = rise
    (step,) = Roller(world.log).run()
    assert {**everything(world.log), **before}.keys() >= before.keys()
    new = {name for name in world.stored() - stored if "/0/" in name}
    assert new == {world.sealed()[0].file.name}
    assert staged_at(new.pop()) >= world.log.state.staging_floor > 1
    assert step.rows_after == 1


def test_files_stay_while_nobody_knows(world):
    before = filled(world)
    stored = world.stored()
    world.store.inject(Fault.FAIL_AFTER, "create", "_log/0*", times=1)
    with pytest.raises(CommitOutcomeUnknownError):
        Roller(world.log).run()
    (new,) = world.stored() - stored
    assert Roller(world.log).run() == []
    assert new in world.files()
    assert everything(world.log) == before


def test_a_file_that_could_not_be_written(world):
    filled(world)
    stored = world.stored()
    world.store.inject(Fault.FAIL_BEFORE, "create", "_log/0*", times=1)
    from spark_eos.errors import StoreUnavailableError

    with pytest.raises(StoreUnavailableError):
        Roller(world.log).run()
    assert world.stored() == stored
    assert len(Roller(world.log).run()) == 1


def test_readers_that_planned_before_go_on(world):
    filled(world)
    state = world.log.state
    fetches = plan(state, AT, 0, world.partition.end, COMMITTED, world.log.load)
    expected = seen(world.log)
    Roller(world.log).run()
    topic = world.topic
    found = [
        pair
        for fetch in fetches
        for records in [world.log.read(topic, fetch)]
        for pair in zip(records.offsets.tolist(), records.column("value").to_pylist(), strict=True)
    ]
    assert found == expected


# -- The plan ----------------------------------------------------------------------------------------------


def page(rows, size):
    return IndexPage(("t", 0), 0, 0, 1, rows, Measures(size, 0, 0))


def planned(*sizes, after=lambda _: 1, file_bytes=1 << 30):
    return plan_roll([page(*one) for one in sizes], after, file_bytes)


def test_plans():
    small, rolled, large = (512, 200_000), (1, 20_000), (512, 600 << 20)
    assert planned() is None
    assert planned(rolled) is None
    assert planned(large, large) is None
    assert planned(small) == (0, 1)
    assert planned(large, small, small, large) == (1, 3)
    assert planned(rolled, small) == (0, 2), "it grows tenfold"
    assert planned((1, 400_000), small) == (1, 2), "it would not grow"
    assert planned(small, (1, 400_000), small) == (0, 1), "the leftmost first"
    assert planned(*[rolled] * (GROWTH - 1)) is None
    assert planned(*[rolled] * GROWTH) == (0, GROWTH)
    assert planned(small, small, after=lambda one: one.rows) is None
    assert planned(*[small] * 9, after=lambda one: one.rows) is None
    assert planned(*[small] * 9, rolled, after=lambda one: one.rows - 2) is None
    assert planned(small, (512, 200_001), small, after=lambda one: 1 if one.bytes % 2 else 512) == (1, 2)
    assert planned(small, small, small, file_bytes=400_000) == (0, 2)
    assert planned(small, file_bytes=1) == (0, 1), "a piece is not divided"


def test_nobody_is_asked_of_what_was_rolled():
    def after(_):
        raise AssertionError

    assert planned((1, 20_000), (3, 3 * SMALL_BYTES), (2, 7 << 20), after=after) is None


def row(at, kind=Kind.DATA, size=300, name="a/b/c", file=True):
    batch = BatchRef(0, 1, 0, size, 0, 0, 0)
    return IndexRow(
        at, 1, kind, NO_PRODUCER, 0, FileRef(name, 9, 0) if file else None, batch if file else None
    )


def test_rows_that_are_left():
    data, aborted, control = row(0), row(0, Kind.ABORTED), row(0, Kind.COMMIT, file=False)
    large = row(0, size=SMALL_BYTES)
    assert rows_after([control, control]) == 1
    assert rows_after([data, control, data]) == 1
    assert rows_after([data, control, aborted, control, aborted, data]) == 3
    assert rows_after([data, large, data]) == 3
    assert rows_after([large, large]) == 2
    rolled = row(0, name="a/b/0/c")
    assert rows_after([rolled, rolled, row(0, name="a/b/0/d")]) == 2
    assert rows_after([data, aborted._replace(base_offset=5), data._replace(base_offset=6)], start=6) == 1


@pytest.mark.deep("3000")
@pytest.mark.parametrize("count", [600, 3000])
def test_no_byte_is_rewritten_often(count):
    """A log that grows for long, and is rolled whenever that pays."""
    record, overhead = 1000, 300
    pages, written, rewritten = [], 0, 0
    for _ in range(count):
        pages.append(page(512, 512 * (record + overhead)))
        written += 512 * record
        while (span := plan_roll(pages, lambda _: 1, 1 << 30)) is not None:
            part = pages[span[0] : span[1]]
            size = sum(one.bytes - overhead * one.rows for one in part)
            rows = -(-size // rolling.BATCH_BYTES)
            pages[span[0] : span[1]] = [page(rows, size + overhead * rows)]
            rewritten += size
    assert rewritten <= 4 * written
    assert len(pages) <= count * 512 * record / SMALL_BYTES
    assert sum(one.rows for one in pages) <= 3 * written / SMALL_BYTES


def test_the_stamp_of_a_producer_that_was_alone_stays(world):
    stamp = world.begin()
    for number in range(6):
        world.append(b"%d" % number, stamp=stamp)
    world.end(stamp, commit=False)
    for number in range(6):
        world.transaction(b"%d" % number)
    world.seal()
    Roller(world.log).run()
    first, second = world.sealed()[:2]
    assert (first.kind, first.producer, second.kind, second.producer) == (
        *(Kind.ABORTED, stamp),
        *(Kind.DATA, NO_PRODUCER),
    )
