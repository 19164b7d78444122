"""Topics whose segments are Parquet files: what goes into them, what does not, and what tables may take as a whole."""

from __future__ import annotations

import io
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos import Admin
from spark_eos.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SchemaMismatchError,
    SegmentsReplacedError,
)
from spark_eos.log.data import planner
from spark_eos.log.data.parquet import writer
from spark_eos.log.data.parquet.plan import plan_sealed
from spark_eos.log.data.parquet.writer import ParquetOptions
from spark_eos.maintenance import rewrite
from spark_eos.maintenance.rewrite import Rewriter, read_row
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.segments import sealer
from spark_eos.maintenance.segments.form import Form
from spark_eos.maintenance.segments.plan import LARGE_FILE, Facts, is_large, plan_parquet
from spark_eos.maintenance.segments.sealer import Cut, seal
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.actions import AdvanceLogStart, AppendBatches, PartitionOffset
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.types import NO_PRODUCER, FileRef, TopicPartition
from spark_eos.storage.memory import MemoryStore
from tests.maintenance.sparse_world import AT, UNCOMMITTED, World, everything, seen, table

pytestmark = pytest.mark.usefixtures("small_pages")

PARQUET = {"segment.format": "parquet"}


@pytest.fixture
def world():
    return World(MemoryStore(), config=PARQUET)


def content(world, name):
    return pq.read_table(io.BytesIO(world.store.read(name)))


def cut_of(world, end=None, start=None):
    partition = world.partition
    return Cut(
        "t",
        world.topic.topic_id,
        0,
        partition.start if start is None else start,
        partition.last_stable_offset if end is None else end,
    )


def sealed_files(world, cut):
    found = plan_sealed(world.log.state, AT, cut.start, cut.end, load=world.log.load)
    assert found.rest == ()
    return found.files


def move_start(world, offset):
    world.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("t", world.topic.topic_id, 0, offset),)),))


def test_records_go_to_parquet_and_aborted_ones_do_not(world):
    for number in range(12):
        world.transaction((b"k%d" % number, b"%d" % number), commit=number % 3 != 0)
    world.seal()
    before = everything(world.log)
    Roller(world.log, tail_rows=1).run()
    assert everything(world.log) == before
    assert everything(world.another()) == before, "as read from the store"
    forms = {(row.kind, row.file.name.rpartition(".")[2]) for row in world.rows()}
    assert forms == {(Kind.DATA, "parquet"), (Kind.ABORTED, "arrow")}
    (name,) = {row.file.name for row in world.rows() if row.kind is Kind.DATA}
    assert name.startswith(f"tables/t-{world.topic.topic_id}/_segments/0/00000000")
    found = content(world, name)
    assert [*zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True)] == seen(world.log)
    assert set(seen(world.log, UNCOMMITTED)) > set(seen(world.log))
    assert Roller(world.log, tail_rows=1).look() == []


def test_a_pyarrow_before_24_writes_parquet_but_no_bloom_filters(world, monkeypatch):
    world.append(b"one")
    world.seal()
    monkeypatch.setattr(pa, "__version__", "23.0.1")
    original = pq.ParquetWriter

    def earlier(*args, **settings):
        assert "bloom_filter_options" not in settings, "it does not know the argument"
        return original(*args, **settings)

    monkeypatch.setattr(pq, "ParquetWriter", earlier)
    Roller(world.log, tail_rows=1).run()
    assert world.rows()[0].file.is_parquet
    filtered = World(MemoryStore(), config={**PARQUET, "segment.bloom.filter.columns": "key"})
    filtered.append(b"one")
    filtered.seal()
    before = filtered.log.state.seq
    with pytest.raises(
        ConfigError, match=r"'t', segment\.bloom\.filter\.columns: .*pip install 'pyarrow>=24'"
    ):
        Roller(filtered.log, tail_rows=1).run()
    assert filtered.log.follow().seq == before


def test_a_large_arrow_batch_becomes_parquet_and_a_small_file_waits(world):
    world.append(*[b"L" * (1 << 20)] * 3)
    world.append(b"s")
    Roller(world.log, tail_rows=1).run()
    (first,) = world.rows()
    assert (first.file.is_parquet, first.count) == (True, 4)
    world.append(b"t")
    Roller(world.log, tail_rows=1).run()
    assert [row.file.is_parquet for row in world.rows()] == [True, True]
    assert world.rows()[0] == first, "it is not written again for one record"


def test_small_files_are_merged_once_they_are_many(world):
    for number in range(16):
        world.append(b"%d" % number, b"x" * 1000)
        before = everything(world.log)
        Roller(world.log, tail_rows=1).run()
        assert everything(world.log) == before
    assert len(world.files()) < 8
    assert all(row.file.is_parquet for row in world.rows())


@pytest.mark.parametrize(
    ("size", "file_bytes", "large"),
    [(100, 100, True), (100, 101, False), (LARGE_FILE, 1 << 40, True), (LARGE_FILE - 1, 1 << 40, False)],
)
def test_a_file_is_large_that_has_the_size_of_segments_or_the_most_that_pays(size, file_bytes, large):
    row = IndexRow(0, 1, Kind.DATA, NO_PRODUCER, 0, FileRef("data/t/1.parquet", size, 0, footer=10))
    assert is_large(row, file_bytes) is large
    assert not is_large(row._replace(file=FileRef("data/t/1.arrow", size, 0)), file_bytes)


def test_plans():
    mb = 1 << 20
    small = [Facts(small=size * mb, files=1) for size in (64, 16, 4, 1)]
    assert plan_parquet(small, 100, 1 << 30) is None
    assert plan_parquet([*small, Facts(arrow=4 * mb)], 100, 1 << 30) == (4, 5)
    assert plan_parquet([*small, Facts(arrow=12 * mb)], 100, 1 << 30) == (3, 5)
    assert plan_parquet([Facts(small=mb, files=1)] * 4, 100, 1 << 30) == (0, 4)
    assert plan_parquet([Facts(small=mb, files=1)] * 4, 2, 1 << 30) is None, "at most so many rows"
    assert plan_parquet([Facts(arrow=mb)] * 4, 100, 2 * mb) == (0, 2)
    assert plan_parquet([Facts(), Facts(arrow=mb), Facts(), Facts(arrow=mb)], 100, 1 << 30) == (1, 2)
    assert plan_parquet([Facts(aborted=1)], 100, 1 << 30) is None
    assert plan_parquet([Facts(aborted=2)], 100, 1 << 30) == (0, 1)


def test_a_schema_that_parquet_does_not_have_stays_in_arrow(monkeypatch):
    """Of a topic that another program created."""
    monkeypatch.setattr("spark_eos.log.topics.check_segments", lambda *_: None)
    schema = pa.schema([("x", pa.struct([]))])
    world = World(MemoryStore(), config=PARQUET, schema=schema)
    for _ in range(4):
        world.append(pa.table({"x": pa.array([{}, None], pa.struct([]))}))
    Roller(world.log, tail_rows=1).run()
    assert [row.file.is_parquet for row in world.rows()] == [False]
    with pytest.raises(SchemaMismatchError, match="column 'x' is a struct without fields"):
        seal(world.log, [cut_of(world)])


# -- Sealing for tables ------------------------------------------------------------------------------------


def test_files_end_where_the_table_ends(world):
    for number in range(4):
        world.append(*(b"%d" % (10 * number + one) for one in range(5)))
    Roller(world.log, tail_rows=1).run()
    before = everything(world.log)
    cut = cut_of(world, end=8)
    seal(world.log, [cut])
    assert everything(world.log) == before
    offsets = [content(world, one.file.name)["offset"].to_pylist() for one in sealed_files(world, cut)]
    assert [one for each in offsets for one in each] == [*range(8)]
    assert sum(one.rows for one in sealed_files(world, cut)) == 8
    entries = world.log.state.seq
    assert seal(world.log, [cut]).seq == entries, "nothing is left to do"


def test_files_begin_where_the_log_begins(world):
    for number in range(4):
        world.append(*(b"%d" % (10 * number + one) for one in range(5)))
    Roller(world.log, tail_rows=1).run()
    move_start(world, 7)
    cut = cut_of(world)
    seal(world.log, [cut])
    (file,) = sealed_files(world, cut)
    assert content(world, file.file.name)["offset"].to_pylist() == [*range(7, 20)]
    move_start(world, 9)
    with pytest.raises(OffsetOutOfRangeError):
        seal(world.log, [cut])


def test_several_partitions_are_sealed_by_one_entry():
    world = World(MemoryStore(), config=PARQUET, partitions=3)
    topic = world.topic
    for number in range(3):
        with world.log.stage(topic) as writer:
            writer.append(table([b"%d" % number]), number)
            files = writer.finish()
        world.log.commit(
            lambda _, files=files: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),)
        )
    before = world.log.state.seq
    cuts = [Cut("t", topic.topic_id, number, 0, 1) for number in range(3)]
    state = seal(world.log, cuts)
    assert state.seq == before + 1
    for number in range(3):
        found = plan_sealed(state, TopicPartition("t", number), 0, 1, load=world.log.load)
        (one,) = found.files
        assert (one.partition, one.rows, found.rest) == (number, 1, ())
        assert content(world, one.file.name)["partition"].to_pylist() == [number]


def test_one_that_was_faster_is_no_error(world, monkeypatch):
    for number in range(6):
        world.append(b"%d" % number)
    other = world.another()
    commit, turns = sealer.commit_all, []

    def late(log, *args):
        if not turns:
            turns.append(1)
            Roller(other, tail_rows=1).run()
        return commit(log, *args)

    monkeypatch.setattr(sealer, "commit_all", late)
    cut = cut_of(world)
    seal(world.log, [cut])
    assert [one.rows for one in sealed_files(world, cut)] == [6]
    stored = {info.name for info in world.store.list("tables/")}
    assert stored == world.files(), "the files of the attempt that was refused are gone"


def test_a_partition_that_gets_no_further_ends_with_an_error(world, monkeypatch):
    """As if another process put its files away each time: here the plan asks for what no file of a table may have."""
    world.transaction((b"k", b"v"), commit=False)
    world.transaction((b"k", b"v"))
    monkeypatch.setattr(planner, "_is_hidden", lambda _partition, row, _isolation: row.file is None)
    before = world.log.follow().seq
    with pytest.raises(
        SegmentsReplacedError, match="t-0: 16 entries in a row have put the records from offset 0 on"
    ):
        seal(world.log, [cut_of(world)])
    assert world.log.follow().seq == before + 17


def test_small_files_before_are_joined_and_large_ones_are_not(world):
    world.append(b"x" * (1 << 20), b"y")
    cut = cut_of(world)
    seal(world.log, [cut])
    (first,) = sealed_files(world, cut)
    for number in range(40):
        world.append(b"%d" % number, b"z" * 2000)
        cut = cut_of(world)
        seal(world.log, [cut])
        assert len(sealed_files(world, cut)) < 12
    assert first.file.size < LARGE_FILE
    files = sealed_files(world, cut)
    assert sum(one.rows for one in files) == 82
    assert [one.base_offset for one in files] == sorted(one.base_offset for one in files)


def test_an_older_schema_version_is_written_again_if_that_is_asked():
    schema = pa.schema([("a", pa.int64())])
    world = World(MemoryStore(), config=PARQUET, schema=schema)
    world.append(pa.table({"a": [1]}))
    cut = cut_of(world)
    seal(world.log, [cut])
    Admin(world.log).alter_topic("t", schema=pa.schema([("a", pa.int64()), ("b", pa.string())]))
    entries = world.log.state.seq
    assert seal(world.log, [cut]).seq == entries
    seal(world.log, [cut._replace(version=2)])
    (one,) = sealed_files(world, cut)
    assert one.file.schema_version == 2
    assert content(world, one.file.name).column_names == ["a", "b", "_partition", "_offset", "_timestamp"]


def files_in_order(world):
    """The files of all batches, each as often as it is met on the way: once, if no two of them mix."""
    return [name for name, _ in groupby(row.file.name for row in world.sealed())]


def test_a_parquet_file_lies_in_one_page_and_beside_no_other(monkeypatch):
    """Each is written again as a whole, and other programs read it as a whole."""
    monkeypatch.setattr(rewrite, "GROUP_BYTES", 1)
    monkeypatch.setattr(rewrite, "PAGE_ROWS", 2)
    world, _ = sealed_world(files=4)
    assert len(files_in_order(world)) == len(world.files()) == 4
    rows, form = world.sealed(), Form(offsets=False, parquet=ParquetOptions())
    monkeypatch.setattr(rewrite, "PAGE_ROWS", 9)
    with Rewriter(world.log, world.topic, 0, world.partition.index.pages, form) as new:
        for at, row in enumerate(rows):
            if at in {2, 3}:
                new.keep(row)
            else:
                new.take(row, read_row(world.log, world.topic, 0, row, 0))
        new.commit("test")
    assert len(files_in_order(world)) == len(world.files()) == 3


# -- Verification ------------------------------------------------------------------------------------------


def found(store):
    told = []
    verify(store, told.append)
    return [one.text for one in told]


def sealed_world(files=1):
    world = World(MemoryStore(), config=PARQUET)
    for number in range(8):
        world.append(b"%d" % number, b"x")
    Roller(world.log, tail_rows=1).run()
    assert len(world.files()) == files
    return world, min(world.files())


def put(store, name, data):
    store.delete(name)
    store.create(name, data)


def test_a_sound_parquet_segment_is_verified():
    world, name = sealed_world()
    told = []
    summary = verify(world.store, told.append)
    assert (told, summary.records, summary.files) == ([], 16, 1)
    assert summary.unreferenced_files == 8
    assert name.endswith(".parquet")


@pytest.mark.parametrize("end", [False, True], ids=["row group", "footer"])
def test_a_flipped_byte_is_found(end):
    world, name = sealed_world()
    data = bytearray(world.store.read(name).to_pybytes())
    data[-9 if end else 40] ^= 1
    put(world.store, name, bytes(data))
    (text,) = found(world.store)
    assert "CRC32C is" in text


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("offset", 3, "its rows do not have rising offsets from 0 to 15"),
        ("partition", 1, "its rows say that they are of partition 1, not 0"),
        ("timestamp", 5000, "its timestamps are not from"),
    ],
)
def test_a_file_that_tells_other_programs_something_else_is_found(column, value, says, monkeypatch):
    """The log's own readers do not look at these columns."""
    original = writer.to_file

    def lying(*args):
        rows = original(*args)
        at = rows.schema.get_field_index(column)
        return rows.set_column(
            at, rows.schema.field(at), pa.array([value] * len(rows), rows.schema.field(at).type)
        )

    monkeypatch.setattr(writer, "to_file", lying)
    world, _ = sealed_world()
    (text,) = found(world.store)
    assert says in text
