"""What a checkpoint's offset may be gone on from, when options or topics have changed since it was written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import (
    CheckpointMismatchError,
    ConfigError,
    OffsetOutOfRangeError,
    SchemaMismatchError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.actions import AdvanceLogStart, PartitionOffset
from spark_eos.spark.options import parse_any_source, parse_source
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.topics import source_schema
from spark_eos.spark.version import ReadAllAvailable

ALL = ReadAllAvailable()


@pytest.fixture
def read(bench):
    """A source, as new as one after a restart; what it reads is said by ``subscribe``, ``assign`` or the like."""

    def make(**options):
        options.setdefault("startingOffsets", "earliest")
        given = {name: value for name, value in {"path": bench.url, **options}.items() if value is not None}
        columns = source_schema(parse_any_source(given))
        return EosLogStreamReader(parse_source(given, streaming=True), columns)

    for topic in ("a", "b"):
        bench.topic(topic, 2)
        bench.produce(topic, range(4))
    return make


def first(source):
    return source.latestOffset(source.initialOffset(), ALL)


def values(source, start, end):
    return sorted(
        int(row["value"])
        for task in source.partitions(start, end)
        for batch in source.read(task)
        for row in batch.to_pylist()
    )


# -- where the query begins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        {"startingOffsets": None},
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"a": {"0": -1}}'},
        {
            "startingTimestamp": str(2**42),
            "startingOffsetsByTimestampStrategy": "latest",
            "startingOffsets": None,
        },
        {"startingOffsets": "committed", "group.id": "g"},
    ],
    ids=["default", "latest", "JSON", "timestamp", "committed"],
)
def test_the_beginning_does_not_move(read, bench, start):
    source = read(subscribe="a", **start)
    began = source.initialOffset()
    end = source.latestOffset(began, ALL)
    for number in range(4, 8):
        bench.produce("a", [number])
        assert source.initialOffset() == began
    again = read(subscribe="a", **start)
    assert again.initialOffset() == began
    copied = values(again, again.initialOffset(), end) + values(again, end, again.latestOffset(end, ALL))
    assert sorted(copied) == [*range(4 if "committed" not in start.values() else 0, 8)]


def test_the_beginning_stays_when_the_option_is_changed(read, bench):
    end = first(read(subscribe="a", startingOffsets=None))
    bench.produce("a", [4])
    with pytest.raises(
        ConfigError, match=r"startingOffsets says earliest, but .* began with latest.*Leave it out"
    ):
        read(subscribe="a").partitions(read(subscribe="a").initialOffset(), end)
    with pytest.raises(ConfigError, match="startingOffsets says earliest"):
        read(subscribe="a").latestOffset(end, ALL)
    silent = read(subscribe="a", startingOffsets=None)
    assert values(silent, silent.initialOffset(), end) == []
    assert values(silent, end, silent.latestOffset(end, ALL)) == [4]


def test_records_that_go_before_the_first_batch_is_repeated(read, bench):
    end = first(read(subscribe="a"))
    topic = bench.topic("a")
    bench.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("a", topic.topic_id, 0, 1),)),))
    source = read(subscribe="a")
    with pytest.raises(OffsetOutOfRangeError, match="a-0 from offset 0 to 0 are gone"):
        source.partitions(source.initialOffset(), end)


def test_a_group_that_moves_before_the_first_batch_is_repeated(read, bench):
    options = {"subscribe": "a", "startingOffsets": "committed", "group.id": "g"}
    end = first(read(**options))
    with Consumer(bench.log, {"group.id": "g"}) as consumer:
        consumer.assign([TopicPartition("a", 0)])
        consumer.commit({TopicPartition("a", 0): 2})
    source = read(**options)
    assert values(source, source.initialOffset(), end) == [0, 1, 2, 3]


# -- what is read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"subscribe": "a,b"}, {"subscribe": "a"}),
        ({"subscribe": "b"}, {"subscribe": "a"}),
        ({"subscribePattern": "[ab]"}, {"subscribePattern": "a"}),
        ({"assign": '{"b": [0, 1]}'}, {"assign": '{"b": [0]}'}),
        ({"subscribe": "b"}, {"assign": '{"b": [0]}'}),
    ],
)
def test_what_is_no_longer_selected_is_not_read_on(read, before, after):
    end = first(read(**before))
    source = read(**after)
    (option,) = after
    with pytest.raises(CheckpointMismatchError, match=rf"reads b-. .*option {option} leaves out now"):
        source.latestOffset(end, ALL)
    with pytest.raises(CheckpointMismatchError, match=rf"option {option} leaves out now"):
        source.partitions(source.initialOffset(), end)


def test_what_is_selected_as_well_is_read_from_its_beginning(read):
    end = first(read(subscribe="a"))
    source = read(subscribe="a,b")
    assert values(source, end, source.latestOffset(end, ALL)) == [0, 1, 2, 3]


def test_a_deleted_topic_that_is_named(read, bench):
    end = first(read(subscribe="a,b"))
    Admin(bench.log).delete_topic("b")
    with pytest.raises(UnknownTopicOrPartitionError, match="'b'"):
        read(subscribe="a,b")
    bench.produce("a", [4])
    source = read(subscribe="a,b", failOnDataLoss="false")
    assert values(source, end, source.latestOffset(end, ALL)) == [4]
    assert source.reportLatestOffset() == {"a": {"0": 3, "1": 2}}
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'b'"):
        first(read(subscribe="a,b", failOnDataLoss="false"))
    source = read(subscribe="a,b,c", failOnDataLoss="false")
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'c'"):
        source.latestOffset(end, ALL)


def test_records_of_a_new_partition_that_are_gone_before_it_is_seen(read, bench):
    end = first(read(subscribe="a"))
    Admin(bench.log).alter_topic("a", partitions=3)
    topic = bench.topic("a")
    bench.produce("a", range(4, 7))
    bench.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("a", topic.topic_id, 2, 1),)),))
    with pytest.raises(OffsetOutOfRangeError, match="a-2 from offset 0 to 0 are gone"):
        read(subscribe="a").latestOffset(end, ALL)
    source = read(subscribe="a", failOnDataLoss="false")
    assert values(source, end, source.latestOffset(end, ALL)) == [4, 5]


# -- other options --------------------------------------------------------------------------------------


def test_another_group_takes_effect_with_the_next_batch(read):
    end = first(read(subscribe="a", **{"group.id": "g"}))
    moved = read(subscribe="a", **{"group.id": "h"}).latestOffset(end, ALL)
    assert moved["@eoslog"]["group"] == "h"
    assert "group" not in read(subscribe="a").latestOffset(moved, ALL)["@eoslog"]


def test_an_isolation_level_that_becomes_stricter(read, bench):
    loose = {"subscribe": "a", "isolation.level": "read_uncommitted"}
    producer = Producer(bench.log, {"transactional.id": "tx"})
    producer.init_transactions()
    begin = first(read(**loose))
    producer.begin_transaction()
    producer.send("a", "4", partition=0)
    producer.flush()
    end = read(**loose).latestOffset(begin, ALL)
    strict = read(subscribe="a")
    assert strict.latestOffset(end, ALL) == end
    with pytest.raises(
        ConfigError, match=r"isolation.level was read_uncommitted when this micro-batch was begun"
    ):
        strict.partitions(begin, end)
    producer.commit_transaction()
    assert values(strict, begin, end) == [4]


# -- columns --------------------------------------------------------------------------------------------

NARROW = pa.schema([("n", pa.int64())])
WIDE = pa.schema([("n", pa.int64()), ("text", pa.string())])


@pytest.fixture
def typed(bench):
    """Makes topics with a schema, and sends rows to them."""

    def make(name, schema, rows=()):
        Admin(bench.log).create_topic(name, schema=schema)
        for row in rows:
            with Producer(bench.log) as producer:
                producer.send_arrow(name, pa.Table.from_pylist([row], schema=schema))

    return make


@pytest.mark.deep
def test_a_column_that_is_added_while_a_query_runs(streams, bench, typed, until):
    typed("typed", NARROW, [{"n": 1}])
    frame = streams.read(topics="typed")
    query = streams.write(frame, trigger={"processingTime": "0 seconds"})
    until(lambda: bench.state.topics.get("out") and bench.count("out") == 1, "the first row")
    Admin(bench.log).alter_topic("typed", schema=WIDE)
    with Producer(bench.log) as producer:
        producer.send_arrow("typed", pa.table({"n": [2], "text": ["two"]}, schema=WIDE))
    with pytest.raises(
        StreamingQueryException, match=r"'typed': its column 'text' would be dropped.*Make the DataFrame"
    ):
        query.awaitTermination()
    with pytest.raises(StreamingQueryException, match="would be dropped"):
        streams.run(frame)  # The DataFrame has the old columns.
    assert bench.count("out") == 1
    # The topic that it writes to has to have the column, too.
    with pytest.raises(StreamingQueryException, match="no column 'text'"):
        streams.run(streams.read(topics="typed"))
    Admin(bench.log).alter_topic("out", schema=WIDE)
    streams.run(streams.read(topics="typed"))
    rows = [(row.n, row.text) for row in streams.batch("out").orderBy("n").collect()]
    assert rows == [(1, None), (2, "two")]


@pytest.mark.parametrize(
    ("joining", "found"),
    [
        (pa.schema([("x", pa.int64())]), "it has no column 'n'"),
        (pa.schema([("n", pa.string())]), "its column 'n' is string, not bigint"),
        (WIDE, "its column 'text' would be dropped"),
        (None, "it has no column 'n'"),
    ],
)
def test_a_topic_of_other_columns_that_joins_a_pattern(read, typed, bench, joining, found):
    typed("t-1", NARROW, [{"n": 1}])
    source = read(subscribePattern="t-.*")
    end = first(source)
    typed("t-2", joining)
    with pytest.raises(SchemaMismatchError, match=rf"topic 't-2': {found}.*All topics of one source"):
        source.latestOffset(end, ALL)
    known = {**end["@eoslog"], "topics": {**end["@eoslog"]["topics"], "t-2": bench.topic("t-2").topic_id}}
    with pytest.raises(SchemaMismatchError, match="'t-2'"):
        source.partitions(end, {**end, "t-2": {"0": 0}, "@eoslog": known})


def test_a_topic_with_a_schema_that_joins_a_pattern_of_topics_without(read, typed):
    source = read(subscribePattern="[abt]")
    end = first(source)
    typed("t", NARROW)
    with pytest.raises(SchemaMismatchError, match="'t': it has no column 'key'"):
        source.latestOffset(end, ALL)


@pytest.mark.deep
def test_columns_that_were_chosen_may_be_fewer(spark, streams, bench, typed):
    typed("typed", WIDE, [{"n": 1, "text": "one"}])
    chosen = spark.readStream.format("eoslog").schema("n long").option("subscribe", "typed")
    frame = chosen.option("startingOffsets", "earliest").load(bench.url)
    streams.run(frame.selectExpr("cast(n as string) value"))
    Admin(bench.log).alter_topic("typed", schema=pa.schema([*WIDE, ("more", pa.int8())]))
    with Producer(bench.log) as producer:
        producer.send_arrow("typed", pa.table({"n": [2]}))
    streams.run(frame.selectExpr("cast(n as string) value"))
    assert bench.values("out") == [1, 2]


def test_a_frame_that_is_older_than_the_topics_columns(spark, bench, typed):
    typed("typed", NARROW, [{"n": 1}])
    frame = spark.read.format("eoslog").option("subscribe", "typed").load(bench.url)
    Admin(bench.log).alter_topic("typed", schema=WIDE)
    with pytest.raises(Exception, match="its column 'text' would be dropped"):
        frame.collect()


@pytest.mark.deep
def test_sources_of_a_union_that_change_places(streams, bench):
    for topic in ("a", "b"):
        bench.topic(topic)
        bench.produce(topic, range(3))
    frames = [streams.read(topics=topic).select("value") for topic in ("a", "b")]
    streams.run(frames[0].union(frames[1]))
    with pytest.raises(StreamingQueryException, match="the sources of the query are in another order"):
        streams.run(frames[1].union(frames[0]))
    assert bench.count("out") == 6
