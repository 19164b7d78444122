"""The rows of docs/reference/changed-options.md: see `tests.spark.changes`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.config.sink import TOPIC_OPTIONS
from spark_eos.config.topic import TOPIC
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.protocol.actions import TO_THE_END, AdvanceLogStart, PartitionOffset
from tests.spark.changes import Change, Engine
from tests.test_settings import TOPIC as EFFECTS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "changed-options.md"
CHANGES: list[Change] = []


def change(use, option, changed, outcome, needs=None):
    """The function is a row; it may need an extension."""

    def keep(run):
        CHANGES.append(Change(use, option, changed, outcome, run, needs))
        return run

    return keep


TEN, TWENTY = [*range(10)], [*range(20)]
PATTERN = {"subscribe": None, "subscribePattern": "src"}
WHERE = '{"src": [0]}'
ASSIGN = {"subscribe": None, "assign": WHERE}
TYPED = pa.schema([("n", pa.int64())])
SERVERS = {"kafka.bootstrap.servers": "b:9092"}


def two_values(name):
    """Of a setting of a topic: one that is not its default, and another one."""
    option, found = TOPIC[name], []
    for value in EFFECTS[name].outcomes:
        with suppress(ValueError):
            if option.type.parse(value) != option.default:
                found.append(value)
    return (*found, option.shown_default)[:2]


OF_TOPICS = {name: two_values(name) for name in TOPIC_OPTIONS} | {
    "key.columns": ("value", "key"),
    "max.message.bytes": ("2000000", "3000000"),
    "message.timestamp.after.max.ms": ("60000", "70000"),
    "message.timestamp.before.max.ms": ("3155760000000", "77777777"),
    "message.timestamp.type": ("CreateTime", "CreateTime"),
    "schema.registry.url": ("http://localhost:1", "http://localhost:2"),
    "value.format": ("json", "avro"),
    "value.schema": ('"bytes"', '"string"'),
    "value.schema.id": ("7", "8"),
    "value.writer.schemas": ('{"3":"bytes"}', '{"4":"bytes"}'),
}
"""Settings of a topic that are options of the sink: those of `tests.test_settings`, or what fits the rows below."""


def first_and_more(q, source=None, sink=None):
    """A first run, and ten more rows."""
    q.run(source, sink)
    q.fill(10, 20)


def more_topics(q):
    q.fill(100, 102, topic="src-2")


def an_open_transaction(q):
    producer = Producer(q.bench.log, {"transactional.id": "open", "transaction.timeout.ms": 900_000})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("src", "99", partition=0)
    producer.flush()


def truncate(q, end=TO_THE_END):
    topic = q.bench.topic("src")
    q.bench.log.commit(lambda _: (AdvanceLogStart((PartitionOffset("src", topic.topic_id, 0, end),)),))


def typed(q, *numbers):
    if "typed" not in q.bench.state.topics:
        Admin(q.bench.log).create_topic("typed", schema=TYPED)
    with Producer(q.bench.log) as producer:
        producer.send_arrow("typed", pa.table({"n": pa.array(numbers, pa.int64())})).result(timeout=60)


def to_second(rows, _partitions):
    """A partitioner."""
    return np.full(rows.num_rows, 1, np.int32)


SECOND = f"{__name__}:to_second"


# -- spark.readStream --------------------------------------------------------------------------------------

STREAM = "stream source"


@change(STREAM, "path", "another log", "refused: the checkpoint belongs to the first log")
def _(q: Engine):
    first_and_more(q)
    other = q.benches("other")
    other.topic("src")
    with q.refuses("CheckpointMismatch|belongs to log"):
        q.run({"path": other.url})


@change(STREAM, "subscribe", "a topic is added", "the new topic is read from its beginning")
def _(q):
    first_and_more(q)
    more_topics(q)
    q.run({"subscribe": "src,src-2"})
    assert q.out() == [*TWENTY, 100, 101]


@change(STREAM, "subscribe", "a topic is taken away", "refused: the checkpoint reads it")
def _(q):
    more_topics(q)
    q.run({"subscribe": "src,src-2"})
    q.fill(10, 20)
    with q.refuses("option subscribe leaves out now"):
        q.run()


@change(STREAM, "subscribePattern", "it matches more", "the new topics are read from their beginning")
def _(q):
    more_topics(q)
    first_and_more(q, PATTERN)
    q.run({**PATTERN, "subscribePattern": "src.*"})
    assert q.out() == [*TWENTY, 100, 101]


@change(STREAM, "subscribePattern", "it matches less", "refused: the checkpoint reads what it leaves out")
def _(q):
    more_topics(q)
    first_and_more(q, {**PATTERN, "subscribePattern": "src.*"})
    with q.refuses("option subscribePattern leaves out now"):
        q.run(PATTERN)


@change(STREAM, "assign", "a partition is added", "it is read from its beginning")
def _(q):
    more_topics(q)
    first_and_more(q, ASSIGN)
    q.run({**ASSIGN, "assign": '{"src": [0], "src-2": [0]}'})
    assert q.out() == [*TWENTY, 100, 101]


@change(STREAM, "assign", "a partition is taken away", "refused: the checkpoint reads it")
def _(q):
    more_topics(q)
    first_and_more(q, {**ASSIGN, "assign": '{"src": [0], "src-2": [0]}'})
    with q.refuses("option assign leaves out now"):
        q.run(ASSIGN)


@change(STREAM, "startingOffsets", "another value", "refused: the query goes on where it stands")
def _(q):
    first_and_more(q)
    with q.refuses("startingOffsets says latest, but the query of this checkpoint began with earliest"):
        q.run({"startingOffsets": "latest"})


@change(STREAM, "startingOffsets", "dropped", "the query goes on where it stands")
def _(q):
    first_and_more(q)
    q.run({"startingOffsets": None})
    assert q.out() == TWENTY


def begun_by(**option):
    return {"startingOffsets": None, **option}


@change(STREAM, "startingTimestamp", "another value, or added", "refused: the query goes on where it stands")
def _(q):
    first_and_more(q, begun_by(startingTimestamp=0))
    with q.refuses("option startingTimestamp says"):
        q.run(begun_by(startingTimestamp=1))
    q.run(begun_by(startingTimestamp=0))
    assert q.out() == TWENTY


@change(STREAM, "startingOffsetsByTimestamp", "another value", "refused: the query goes on where it stands")
def _(q):
    first_and_more(q, begun_by(startingOffsetsByTimestamp='{"src": {"0": 0}}'))
    with q.refuses("option startingOffsetsByTimestamp says"):
        q.run(begun_by(startingOffsetsByTimestamp='{"src": {"0": 1}}'))


@change(
    STREAM,
    "startingOffsetsByTimestampStrategy",
    "another value",
    "refused: the query goes on where it stands",
)
def _(q):
    first_and_more(q, begun_by(startingTimestamp=0, startingOffsetsByTimestampStrategy="latest"))
    with q.refuses("option startingTimestamp says"):
        q.run(begun_by(startingTimestamp=0, startingOffsetsByTimestampStrategy="error"))


def published(q, end, name="table"):
    """A version of a Delta table with the properties that publishing gives it: ``src`` up to an offset."""
    from deltalake import CommitProperties, write_deltalake

    from spark_eos.extensions.tables.target import Stamp

    topic = q.bench.topic("src")
    offsets = dict.fromkeys(range(topic.partitions), (0, end))
    stamp = Stamp(q.bench.log.log_id, "p", 1, q.bench.state.seq, 0, "src", topic.topic_id, offsets)
    properties = CommitProperties(custom_metadata=stamp.properties())
    write_deltalake(q.folder / name, pa.table({"n": [1]}), mode="append", commit_properties=properties)
    return begun_by(startingTable=q.folder / name)


@change(
    STREAM, "startingTable", "another table, or added", "refused: the query goes on where it stands", "tables"
)
def _(q):
    begins = published(q, 4)
    other = published(q, 4, "other")
    first_and_more(q, begins)
    with q.refuses("option startingTable says"):
        q.run(other)
    q.run(begins)
    assert q.out() == [*range(4, 20)]


@change(
    STREAM, "startingTable", "the table gets a newer version", "the query goes on where it stands", "tables"
)
def _(q):
    begins = published(q, 4)
    first_and_more(q, begins)
    published(q, 20)
    q.run(begins)
    assert q.out() == [*range(4, 20)]


@change(
    STREAM, "startingTableVersion", "another version", "refused: the query goes on where it stands", "tables"
)
def _(q):
    published(q, 4)
    begins = published(q, 6)
    first_and_more(q, {**begins, "startingTableVersion": 0})
    with q.refuses("option startingTable says"):
        q.run({**begins, "startingTableVersion": 1})
    q.run({**begins, "startingTableVersion": 0})
    assert q.out() == [*range(4, 20)]


@change(STREAM, "failOnDataLoss", "true → false", "the query goes on without records that are gone")
def _(q):
    first_and_more(q)
    truncate(q, 12)
    q.run({"failOnDataLoss": "false"})
    assert q.out() == [*TEN, *range(12, 20)]


@change(STREAM, "failOnDataLoss", "false → true", "records that are gone are an error")
def _(q):
    first_and_more(q, {"failOnDataLoss": "false"})
    truncate(q, 12)
    with q.refuses("offset 10 to 11 are gone"):
        q.run({"failOnDataLoss": "true"})


@change(STREAM, "maxOffsetsPerTrigger", "10 → 5", "the next micro-batches have at most 5 offsets")
def _(q):
    first_and_more(q, {"maxOffsetsPerTrigger": 10})
    q.run({"maxOffsetsPerTrigger": 5})
    assert q.ends() == [10, 15, 20]


@change(STREAM, "maxOffsetsPerTrigger", "10 → 5, with a micro-batch begun", "it is repeated as it was, once")
def _(q):
    first_and_more(q, {"maxOffsetsPerTrigger": 10})
    q.forget_last_commit()
    q.run({"maxOffsetsPerTrigger": 5})
    assert (q.ends(), q.out()) == ([10, 15, 20], TWENTY)


@change(
    STREAM,
    "minOffsetsPerTrigger",
    "added",
    "the next micro-batches wait for so many offsets; those of an AvailableNow run read what is there",
)
def _(q):
    first_and_more(q, {"maxOffsetsPerTrigger": 10})
    q.run({"minOffsetsPerTrigger": 7, "maxOffsetsPerTrigger": 8})
    assert (q.ends(), q.out()) == ([10, 18, 20], TWENTY)


@change(STREAM, "maxTriggerDelay", "added", "so long the next micro-batches wait at most")
def _(q):
    first_and_more(q)
    with q.refuses("maxTriggerDelay has no effect without minOffsetsPerTrigger"):
        q.run({"maxTriggerDelay": "1s"})
    q.run({"maxTriggerDelay": "1s", "minOffsetsPerTrigger": 100})
    assert q.out() == TWENTY


@change(STREAM, "kafka.options", "`ignore`", "settings of Kafka's transport are dropped from then on")
def _(q):
    first_and_more(q)
    with q.refuses("kafka.bootstrap.servers: there is no broker"):
        q.run(SERVERS)
    q.run({**SERVERS, "kafka.options": "ignore"})
    assert q.out() == TWENTY


@change(STREAM, "minPartitions", "added", "the next micro-batches have more tasks")
def _(q):
    first_and_more(q)
    assert q.tasks_of(lambda: q.run({"minPartitions": 5})) == 5


@change(STREAM, "maxRecordsPerPartition", "added", "the next micro-batches have smaller tasks")
def _(q):
    first_and_more(q)
    assert q.tasks_of(lambda: q.run({"maxRecordsPerPartition": 4})) == 3


@change(STREAM, "includeHeaders", "false → true", "rows of the next micro-batches have the column `headers`")
def _(q):
    q.write([50], topic="src")
    q.run()
    q.write([51], topic="src")
    q.run({"includeHeaders": "true"})
    assert q.headers()[-2:] == [None, [{"key": "h", "value": b"x"}]]


@change(
    STREAM,
    "includeMetadata",
    "false → true",
    "the rows have the columns `_topic` and so on (rename them: the sink refuses these names)",
)
def _(q):
    typed(q, 1, 2)
    q.run({"subscribe": "typed"})
    typed(q, 3)
    with q.refuses("'_topic'|_topic"):
        q.run({"subscribe": "typed", "includeMetadata": "true"})


@change(STREAM, "columns", "fewer", "rows of the next micro-batches have these columns")
def _(q):
    q.write([50], topic="src")
    q.run()
    q.write([51], topic="src")
    q.run({"columns": "value,headers"})
    assert q.headers()[-2:] == [None, [{"key": "h", "value": b"x"}]]
    assert q.out()[-2:] == [50, 51]


@change(
    STREAM,
    "where",
    "another filter",
    "what the next micro-batches read is filtered by it; nothing is read again",
)
def _(q):
    q.run({"where": "value IN ('3', '4')"})
    q.fill(10, 20)
    q.run({"where": "value > '4'"})
    assert q.out() == [3, 4]
    q.fill(50, 60)
    q.run({"where": "value = '55' OR value = '3'"})
    assert q.out() == [3, 4, 55]
    q.forget_last_commit()
    q.run()
    assert q.out() == [3, 4, 55]


@change(
    STREAM, "isolation.level", "read_committed → read_uncommitted", "records of open transactions are read"
)
def _(q):
    first_and_more(q)
    an_open_transaction(q)
    q.run({"isolation.level": "read_uncommitted"})
    assert q.out() == [*TWENTY, 99]


@change(
    STREAM,
    "isolation.level",
    "read_uncommitted → read_committed",
    "the query waits for the end of transactions",
)
def _(q):
    first_and_more(q, {"isolation.level": "read_uncommitted"})
    an_open_transaction(q)
    q.fill(20, 30)
    q.run()
    assert q.out() == TWENTY


@change(
    STREAM,
    "group.id",
    "another group",
    "offsets are committed for the new group from the next micro-batch on",
)
def _(q):
    first_and_more(q, {"group.id": "g"})
    q.run({"group.id": "h"})
    at = TopicPartition("src", 0)
    assert (q.bench.group("g")["src", 0], q.bench.group("h")["src", 0]) == (10, 20), at


# -- df.writeStream ----------------------------------------------------------------------------------------

SINK = "stream sink"


@change(SINK, "topic", "another topic", "the next micro-batches go there")
def _(q):
    first_and_more(q)
    q.run(None, {"topic": "other"})
    assert (q.out(), q.out("other")) == (TEN, [*range(10, 20)])


@change(
    SINK,
    "num.partitions",
    "raised",
    "refused: the topic has fewer; it is a number for topics that are created",
)
def _(q):
    first_and_more(q)
    with q.refuses("num.partitions=3: topic 'out' is there, and has 1"):
        q.run(None, {"num.partitions": 3})


@change(SINK, "num.partitions", "raised, with a new `topic`", "the new topic has so many")
def _(q):
    first_and_more(q)
    q.run(None, {"num.partitions": 3, "topic": "other"})
    assert len(q.bench.partitions("other")) == 3


@change(
    SINK, "row.format", "typed", "refused if the topic has no schema; decides for a topic that is created"
)
def _(q):
    first_and_more(q)
    with q.refuses("row.format=typed: topic 'out' is there, and has no schema"):
        q.run(None, {"row.format": "typed"})


@change(SINK, "auto.create.topics.enable", "true → false", "a topic that is missing is an error from then on")
def _(q):
    first_and_more(q)
    with q.refuses("no topic 'other'"):
        q.run(None, {"auto.create.topics.enable": "false", "topic": "other"})
    q.run(None, {"auto.create.topics.enable": "false"})
    assert q.out() == TWENTY


@change(
    SINK,
    "compression.type",
    "none → zstd",
    "the next micro-batches are compressed so (unless the topic's own setting says how)",
)
def _(q):
    first_and_more(q)
    q.run(None, {"compression.type": "zstd"})
    q.fill(20, 30)
    Admin(q.bench.log).alter_topic("out", config={"compression.type": "lz4"})
    q.run(None, {"compression.type": "zstd"})
    assert q.codecs() == [None, "zstd", "lz4"]


def levels(codec, low, high):
    def run(q):
        values = [f"{number:x}" * (number % 7) for number in range(4000)]
        for level in (low, high):
            q.bench.produce("src", values)
            q.run(None, {"compression.type": codec, f"compression.{codec}.level": level})
        q.fill(20, 30)
        with q.refuses(f"no effect without compression.type={codec}"):
            q.run(None, {"compression.type": "none", f"compression.{codec}.level": low})
        sizes = q.sizes()
        assert sizes[1] != sizes[0]

    return run


change(
    SINK,
    "compression.lz4.level",
    "another level",
    "the next micro-batches are compressed at it; refused with another `compression.type` than `lz4`",
)(levels("lz4", 1, 12))
change(
    SINK,
    "compression.zstd.level",
    "another level",
    "the next micro-batches are compressed at it; refused with another `compression.type` than `zstd` and `auto`",
)(levels("zstd", 1, 19))


@change(SINK, "partitioner.class", "added", "rows of the next micro-batches go where it says")
def _(q):
    q.bench.topic("out", 2)
    first_and_more(q)
    q.run(None, {"partitioner.class": SECOND})
    assert [value for partition, _, value in q.bench.rows("out") if partition == 1][-10:] == [
        str(n) for n in range(10, 20)
    ]


@change(SINK, "includeHeaders", "true → false", "the next micro-batches are stored without headers")
def _(q):
    for number, kept in ((50, "true"), (51, "false")):
        q.write([number], topic="src")
        q.run({"includeHeaders": "true"}, {"includeHeaders": kept})
    assert q.headers()[-2:] == [[{"key": "h", "value": b"x"}], None]


@change(SINK, "mergeSchema", "added", "the topic gets the columns of the rows that it does not have")
def _(q):
    Admin(q.bench.log).create_topic("out", schema=pa.schema([("value", pa.binary())]))
    with q.refuses("no column 'key'"):
        q.run()
    q.run(None, {"mergeSchema": "true"})
    assert len(q.bench.state.topics["out"].schemas) == 2


@change(SINK, "auto.maintenance.enable", "true → false", "the query leaves the log's maintenance to others")
def _(q):
    first_and_more(q)
    q.shares.clear()
    q.run(None, {"auto.maintenance.enable": "false"})
    assert q.out() == TWENTY
    assert q.shares == []


@change(SINK, "checkpointLocation", "another folder", "a new query begins, by `startingOffsets`")
def _(q):
    first_and_more(q)
    q.run(None, {"checkpointLocation": q.folder / "new"})
    assert q.out() == sorted([*TEN, *TWENTY])


@change(
    SINK,
    "checkpointLocation",
    "another folder, with the same `transactional.id`",
    "refused, unless `startingOffsets=committed` goes on where the log stands",
)
def _(q):
    same = {"transactional.id": "t"}
    first_and_more(q, None, same)
    moved = {**same, "checkpointLocation": q.folder / "new"}
    with q.refuses("the last micro-batch under transactional.id 't'"):
        q.run(None, moved)
    newer = {**same, "checkpointLocation": q.folder / "newer"}
    q.run({"startingOffsets": "committed", "group.id": "t"}, newer)
    assert q.out() == TWENTY


@change(SINK, "path", "another log", "refused: it has no micro-batch of this query")
def _(q):
    first_and_more(q)
    other = q.benches("elsewhere")
    with q.refuses("this log has no micro-batch of query"):
        q.run(None, {"path": other.url})
    assert q.out(bench=other) == []


@change(
    SINK,
    "transactional.id",
    "set, changed, dropped",
    "the query goes on under the new id, and its own history counts",
)
def _(q):
    first_and_more(q)
    q.run(None, {"transactional.id": "t"})
    q.fill(20, 25)
    q.run(None, {"transactional.id": "u"})
    q.fill(25, 30)
    q.run()
    assert q.out() == [*range(30)]
    assert len(q.bench.state.queries) == 1


@change(
    SINK, "group.id", "another group", "offsets are committed for the new group from the next micro-batch on"
)
def _(q):
    first_and_more(q, None, {"group.id": "g"})
    q.run(None, {"group.id": "h"})
    assert q.out() == TWENTY
    assert (q.bench.group("g")["src", 0], q.bench.group("h")["src", 0]) == (10, 20)


@change(
    SINK,
    "processing.guarantee",
    "exactly_once → at_least_once",
    "the next micro-batches are written without their offsets; one that has been committed is not written again",
)
def _(q):
    first_and_more(q)
    q.run(None, {"processing.guarantee": "at_least_once"})
    assert q.out() == TWENTY


@change(
    SINK,
    "processing.guarantee",
    "at_least_once → exactly_once",
    "refused: the log does not know what has been written",
)
def _(q):
    first_and_more(q, None, {"processing.guarantee": "at_least_once"})
    with q.refuses("this log has no micro-batch of query"):
        q.run()
    assert q.out() == TEN


@change(
    SINK,
    "allowStateLoss",
    "false → true",
    "a stateful query may go on with a new checkpoint, and empty state",
)
def _(q):
    same, committed = {"transactional.id": "t"}, {"startingOffsets": "committed", "group.id": "t"}
    for name in ("checkpoint", "new", "newer"):
        (q.folder / name / "state").mkdir(parents=True)
    first_and_more(q, None, same)
    with q.refuses("keeps state"):
        q.run(committed, {**same, "checkpointLocation": q.folder / "new"})
    q.run(committed, {**same, "checkpointLocation": q.folder / "newer", "allowStateLoss": "true"})
    assert q.out() == TWENTY


@change(SINK, "queryName", "added", "it is Spark's: the query's name")
def _(q):
    first_and_more(q)
    q.run(None, {"queryName": "a-name"})
    assert q.out() == TWENTY


# -- spark.read --------------------------------------------------------------------------------------------

BATCH = "batch source"


def numbers(q, **given):
    return sorted(int(row["value"]) for row in q.read(**given)[0])


@change(BATCH, "path", "another log", "that one is read")
def _(q):
    other = q.benches("other")
    q.fill(7, 9, bench=other)
    assert numbers(q, path=other.url) == [7, 8]


@change(BATCH, "subscribe", "another topic", "that one is read")
def _(q):
    more_topics(q)
    assert numbers(q, subscribe="src-2") == [100, 101]


@change(BATCH, "subscribePattern", "it matches more", "so much is read")
def _(q):
    more_topics(q)
    assert numbers(q, **PATTERN) == TEN
    assert numbers(q, **{**PATTERN, "subscribePattern": "src.*"}) == [*TEN, 100, 101]


@change(BATCH, "assign", "another partition", "that one is read")
def _(q):
    more_topics(q)
    assert numbers(q, **ASSIGN) == TEN
    assert numbers(q, **{**ASSIGN, "assign": '{"src-2": [0]}'}) == [100, 101]


@change(BATCH, "startingOffsets", "another value", "reading begins there")
def _(q):
    assert numbers(q, startingOffsets='{"src": {"0": 7}}') == [7, 8, 9]


@change(BATCH, "startingTimestamp", "another value", "reading begins there")
def _(q):
    assert numbers(q, startingTimestamp=0) == TEN
    with q.refuses("no record at or after"):
        numbers(q, startingTimestamp=2**42)


@change(BATCH, "startingOffsetsByTimestamp", "another value", "reading begins there")
def _(q):
    assert numbers(q, startingOffsetsByTimestamp='{"src": {"0": 0}}') == TEN
    with q.refuses("no record at or after"):
        numbers(q, startingOffsetsByTimestamp='{"src": {"0": 4398046511104}}')


@change(
    BATCH,
    "startingOffsetsByTimestampStrategy",
    "error → latest",
    "reading begins at the end where no record is that late",
)
def _(q):
    assert numbers(q, startingTimestamp=2**42, startingOffsetsByTimestampStrategy="latest") == []


@change(
    BATCH,
    "startingTable",
    "another table",
    "reading begins where its newest published version ends",
    "tables",
)
def _(q):
    assert numbers(q, **published(q, 7)) == [7, 8, 9]
    assert numbers(q, **published(q, 9, "other")) == [9]


@change(BATCH, "startingTableVersion", "another version", "reading begins where it ends", "tables")
def _(q):
    published(q, 7)
    begins = published(q, 10)
    assert numbers(q, **begins) == []
    assert numbers(q, **begins, startingTableVersion=0) == [7, 8, 9]
    with q.refuses("there is no table .* with version 2"):
        numbers(q, **begins, startingTableVersion=2)


@change(BATCH, "endingOffsets", "another value", "reading ends there")
def _(q):
    assert numbers(q, endingOffsets='{"src": {"0": 3}}') == [0, 1, 2]


@change(BATCH, "offsetRanges", "other ranges", "these offsets are read")
def _(q):
    assert numbers(q, offsetRanges='{"src": {"0": [[1, 3], [7, 9]]}}') == [1, 2, 7, 8]
    with q.refuses("offset 11 of src-0 is out of range"):
        numbers(q, offsetRanges='{"src": {"0": [[1, 11]]}}')
    assert numbers(q, offsetRanges='{"src": {"0": [[8, 11]]}}', failOnDataLoss="false") == [8, 9]


@change(BATCH, "endingTimestamp", "another value", "reading ends there")
def _(q):
    assert numbers(q, endingTimestamp=0) == []


@change(BATCH, "endingOffsetsByTimestamp", "another value", "reading ends there")
def _(q):
    assert numbers(q, endingOffsetsByTimestamp='{"src": {"0": 0}}') == []


@change(BATCH, "versionAsOf", "another entry", "the log as it was after that entry is read")
def _(q):
    seq = q.bench.state.seq
    q.fill(10, 20)
    assert numbers(q) == TWENTY
    assert numbers(q, versionAsOf=seq) == TEN


@change(BATCH, "timestampAsOf", "another time", "the log as it was then is read")
def _(q):
    now = q.bench.state.timestamp_ms
    while q.bench.log.clock.now_ms() <= now:
        pass
    q.fill(10, 20)
    assert numbers(q, timestampAsOf=now) == TEN


@change(BATCH, "failOnDataLoss", "true → false", "an offset that is gone becomes the nearest one")
def _(q):
    truncate(q, 5)
    gone = {"startingOffsets": '{"src": {"0": 2}}'}
    with q.refuses("out of range"):
        numbers(q, **gone)
    assert numbers(q, **gone, failOnDataLoss="false") == [*range(5, 10)]


@change(BATCH, "minPartitions", "added", "there are more tasks")
def _(q):
    assert [q.read(**given)[1] for given in ({}, {"minPartitions": 5})] == [1, 5]


@change(BATCH, "maxRecordsPerPartition", "added", "there are smaller tasks")
def _(q):
    assert q.read(maxRecordsPerPartition=4)[1] == 3


@change(BATCH, "includeHeaders", "false → true", "there is a column `headers`")
def _(q):
    assert [*{*q.columns(includeHeaders="true")} - {*q.columns()}] == ["headers"]


@change(
    BATCH,
    "includeMetadata",
    "false → true",
    "there are columns `_topic` and so on; refused for Kafka-shaped topics",
)
def _(q):
    typed(q, 1)
    assert q.columns(subscribe="typed") == ["n"]
    assert q.columns(subscribe="typed", includeMetadata="true") == [
        "_offset",
        "_partition",
        "_timestamp",
        "_topic",
        "n",
    ]
    with q.refuses("includeMetadata is for topics with a schema"):
        q.read(includeMetadata="true")


@change(BATCH, "columns", "fewer", "there are these columns")
def _(q):
    assert q.columns(columns="offset,value") == ["offset", "value"]
    with q.refuses("columns names 'nope'"):
        q.read(columns="nope")


@change(BATCH, "where", "a filter", "there are the rows that it is true of")
def _(q):
    assert [row["value"] for row in q.read(where="value IN ('3', '4')")[0]] == [b"3", b"4"]
    with q.refuses("option where=.*no column 'nope'"):
        q.read(where="nope = 1")


@change(BATCH, "filterPushdown", "false → true", "a filter's rows alone are read; a second filter is refused")
def _(q):
    assert q.offsets_from(7, filterPushdown="true") == [7, 8, 9]


@change(
    BATCH, "isolation.level", "read_committed → read_uncommitted", "records of open transactions are read"
)
def _(q):
    an_open_transaction(q)
    assert numbers(q) == TEN
    assert numbers(q, **{"isolation.level": "read_uncommitted"}) == [*TEN, 99]


@change(
    BATCH,
    "wholeTransactions",
    "false → true",
    "a committed transaction of which a part waits for an open one is not read; refused with another end",
)
def _(q):
    whole = {"subscribe": "src,src-2", "wholeTransactions": "true"}
    q.fill(10, 11, topic="src-2")
    an_open_transaction(q)
    with Producer(q.bench.log, {"transactional.id": "other"}) as other:
        other.init_transactions()
        other.begin_transaction()
        for topic in ("src", "src-2"):
            other.send(topic, "11", partition=0)
        other.commit_transaction()
    assert numbers(q, subscribe="src,src-2") == [*range(12)]
    assert numbers(q, **whole) == [*range(11)]
    with q.refuses("options wholeTransactions and endingOffsets contradict each other"):
        numbers(q, **whole, endingOffsets='{"src": {"0": 3}}')


@change(
    BATCH,
    "group.id",
    "another group, with `startingOffsets=committed`",
    "reading begins where that group stands; refused with any other start",
)
def _(q):
    for group, offset in (("g", 3), ("h", 8)):
        Admin(q.bench.log).alter_group_offsets(group, {TopicPartition("src", 0): offset})
    assert numbers(q, startingOffsets="committed", **{"group.id": "g"}) == [*range(3, 10)]
    assert numbers(q, startingOffsets="committed", **{"group.id": "h"}) == [8, 9]
    with q.refuses("group.id='g' has no effect"):
        numbers(q, **{"group.id": "g"})


# -- df.write ----------------------------------------------------------------------------------------------

WRITE = "batch sink"


@change(WRITE, "path", "another log", "the rows go there")
def _(q):
    q.write([1])
    other = q.benches("other")
    q.write([2], path=other.url)
    assert (q.out(), q.out(bench=other)) == ([1], [2])


@change(WRITE, "topic", "another topic", "the rows go there")
def _(q):
    q.write([1])
    q.write([2], topic="other")
    assert (q.out(), q.out("other")) == ([1], [2])


@change(WRITE, "transactional.id", "added", "the write fences the earlier holder of the id")
def _(q):
    q.write([1])
    with Producer(q.bench.log, {"transactional.id": "t"}) as producer:
        producer.init_transactions()
        q.write([2], **{"transactional.id": "t"})
        with q.refuses("fenced|taken over"):
            producer.begin_transaction()
            producer.send("out", "3")
            producer.commit_transaction()
    assert q.out() == [1, 2]


@change(WRITE, "num.partitions", "raised", "refused: the topic has fewer; a new topic has so many")
def _(q):
    q.write([1])
    with q.refuses("num.partitions=3: topic 'out' is there, and has 1"):
        q.write([2], **{"num.partitions": 3})
    q.write([2], topic="other", **{"num.partitions": 3})
    assert len(q.bench.partitions("other")) == 3


@change(
    WRITE, "row.format", "typed", "refused if the topic has no schema; decides for a topic that is created"
)
def _(q):
    q.write([1])
    with q.refuses("row.format=typed: topic 'out' is there, and has no schema"):
        q.write([2], **{"row.format": "typed"})


@change(WRITE, "auto.create.topics.enable", "true → false", "a topic that is missing is an error")
def _(q):
    q.write([1])
    q.write([2], **{"auto.create.topics.enable": "false"})
    with q.refuses("no topic 'other'"):
        q.write([3], topic="other", **{"auto.create.topics.enable": "false"})
    assert q.out() == [1, 2]


@change(
    WRITE,
    "compression.type",
    "none → zstd",
    "the rows are compressed so (unless the topic's own setting says how)",
)
def _(q):
    q.write([1])
    q.write([2], **{"compression.type": "zstd"})
    assert q.codecs() == [None, "zstd"]


def batch_levels(codec, low, high):
    def run(q):
        values = [f"{number:x}" * (number % 7) for number in range(4000)]
        for level in (low, high):
            q.write(values, **{"compression.type": codec, f"compression.{codec}.level": level})
        with q.refuses(f"no effect without compression.type={codec}"):
            q.write([1], **{"compression.type": "none", f"compression.{codec}.level": low})
        sizes = q.sizes()
        assert len(sizes) == 2
        assert sizes[0] != sizes[1]

    return run


change(
    WRITE,
    "compression.lz4.level",
    "another level",
    "the rows are compressed at it; refused with another `compression.type` than `lz4`",
)(batch_levels("lz4", 1, 12))
change(
    WRITE,
    "compression.zstd.level",
    "another level",
    "the rows are compressed at it; refused with another `compression.type` than `zstd` and `auto`",
)(batch_levels("zstd", 1, 19))


@change(WRITE, "partitioner.class", "added", "the rows go where it says")
def _(q):
    q.bench.topic("out", 2)
    q.write(range(4), **{"partitioner.class": SECOND})
    assert {partition for partition, _, _ in q.bench.rows("out")} == {1}


@change(WRITE, "includeHeaders", "true → false", "the rows are stored without headers")
def _(q):
    q.write([1])
    q.write([2], includeHeaders="false")
    assert q.headers() == [[{"key": "h", "value": b"x"}], None]


@change(WRITE, "mergeSchema", "added", "the topic gets the columns of the rows that it does not have")
def _(q):
    Admin(q.bench.log).create_topic("out", schema=pa.schema([("key", pa.binary()), ("value", pa.binary())]))
    with q.refuses("no column 'headers'"):
        q.write([1])
    q.write([1], mergeSchema="true")
    assert len(q.bench.state.topics["out"].schemas) == 2


@change(WRITE, "auto.maintenance.enable", "true → false", "the write leaves the log's maintenance to others")
def _(q):
    q.write([1])
    q.shares.clear()
    q.write([2], **{"auto.maintenance.enable": "false"})
    assert q.shares == []


JOB = {"txnAppId": "job", "txnVersion": "7"}


@change(WRITE, "txnAppId", "another job", "the rows are written: each job has versions of its own")
def _(q):
    q.write([1], **JOB)
    q.write([2], **JOB)
    q.write([3], **{**JOB, "txnAppId": "other"})
    assert q.bench.values("out") == [1, 3]


@change(
    WRITE,
    "txnVersion",
    "higher, the same or lower",
    "a higher one is written; the same or a lower one writes nothing",
)
def _(q):
    for value, version in enumerate((7, 7, 6, 8)):
        q.write([value], **{**JOB, "txnVersion": str(version)})
    assert q.bench.values("out") == [0, 3]
    q.write([4], **JOB, topic="other")
    assert q.bench.values("other") == [4], "each topic has versions of its own"


__all__ = ["CHANGES", "BackgroundMaintenance"]


@change(WRITE, "kafka.options", "`ignore`", "settings of Kafka's transport are dropped")
def _(q):
    with q.refuses("kafka.bootstrap.servers: there is no broker"):
        q.write([1], **SERVERS)
    q.write([1], **SERVERS, **{"kafka.options": "ignore"})
    assert q.out() == [1]


@change(SINK, "kafka.options", "`ignore`", "settings of Kafka's transport are dropped from then on")
def _(q):
    first_and_more(q)
    with q.refuses("kafka.bootstrap.servers: there is no broker"):
        q.run(None, SERVERS)
    q.run(None, {**SERVERS, "kafka.options": "ignore"})
    assert q.out() == TWENTY


@change(BATCH, "kafka.options", "`ignore`", "settings of Kafka's transport are dropped")
def _(q):
    with q.refuses("kafka.bootstrap.servers: there is no broker"):
        q.read(**SERVERS)
    assert len(q.read(**SERVERS, **{"kafka.options": "ignore"})[0]) == 10


@change(SINK, "max.request.size", "added", "larger rows of the next micro-batches are refused")
def _(q):
    first_and_more(q)
    with q.refuses("has 4 bytes, more than the limit of 3"):
        q.run(None, {"max.request.size": 3})
    q.run(None, {"max.request.size": 4})
    assert q.out() == TWENTY


@change(WRITE, "max.request.size", "added", "larger rows are refused")
def _(q):
    with q.refuses("more than the limit of 5"):
        q.write([123], **{"max.request.size": 5})
    q.write([123], **{"max.request.size": 100})
    assert q.out() == [123]


NUMBER = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
VALUES = {"value.format": "avro-single-object", "value.schema": json.dumps(NUMBER)}
"""Settings of a topic whose values are numbers in Avro."""


def encoded(q, *numbers, topic="avro", **config):
    """Values of a topic with a format: a number each; None: a value that cannot be decoded."""
    if topic not in q.bench.state.topics:
        Admin(q.bench.log).create_topic(topic, config={**VALUES, **config})
    with Producer(q.bench.log) as producer:
        for number in numbers:
            producer.send(topic, b"broken" if number is None else {"n": number})


@change(
    STREAM,
    "row.format",
    "typed → kafka",
    "refused by the sink: other columns are read, those of Kafka",
    "value_formats",
)
def _(q):
    encoded(q, 1, 2)
    q.run({"subscribe": "avro"})
    encoded(q, 3)
    with q.refuses("topic 'out' has no columns 'key'"):
        q.run({"subscribe": "avro", "row.format": "kafka"})


@change(
    BATCH,
    "row.format",
    "typed → kafka",
    "the columns are those of Kafka, and values are bytes",
    "value_formats",
)
def _(q):
    encoded(q, 1)
    assert q.columns(subscribe="avro") == ["n"]
    assert "value" in q.columns(subscribe="avro", **{"row.format": "kafka"})


@change(
    STREAM,
    "mode",
    "failfast → permissive",
    "a broken value is a row with `_corrupt_record`, and no error",
    "value_formats",
)
def _(q):
    encoded(q, 1)
    q.run({"subscribe": "avro"}, {"topic": "copy", **VALUES})
    encoded(q, None)
    with q.refuses("avro-0 at offset 1 cannot be decoded"):
        q.run({"subscribe": "avro"}, {"topic": "copy"})
    dead = {"topic": "copy", "errors.deadletterqueue.topic.name": "dead"}
    q.run({"subscribe": "avro", "mode": "PERMISSIVE"}, dead)
    assert q.bench.values("dead") == ["broken"]


@change(
    BATCH,
    "mode",
    "failfast → permissive",
    "a broken value is a row with `_corrupt_record`, and no error",
    "value_formats",
)
def _(q):
    encoded(q, None)
    with q.refuses("avro-0 at offset 0 cannot be decoded"):
        q.read(subscribe="avro")
    (rows,) = (q.read(subscribe="avro", mode="permissive")[0],)
    assert rows[0]["_corrupt_record"]["value"] == b"broken"


def _of_a_registry(use, name):
    @change(
        use,
        name,
        "added",
        "refused unless values are decoded; then schemas by id are looked up there",
        "value_formats",
    )
    def _(q):
        from tests.extensions.value_formats.registry_server import RegistryServer

        with RegistryServer("me:secret") as registry:
            number = registry.add("avro-value", VALUES["value.schema"])
            settings = {"value.format": "avro-confluent", "value.schema.id": number + 1}
            encoded(q, topic="framed", **settings)
            with Producer(q.bench.log) as producer:
                producer.send("framed", b"\x00" + number.to_bytes(4, "big") + b"\x02")
            given = {"schema.registry.url": registry.url, "schema.registry.basic.auth.user.info": "me:secret"}
            read = {"subscribe": "framed", **given}
            without = {key: value for key, value in read.items() if key != name}
            says = f"no schema with id {number}" if name.endswith("url") else "HTTP 401"
            if use == STREAM:
                with q.refuses(says):
                    q.run(without, {"topic": "copy", **VALUES})
                q.run(read, {"topic": "copy", **VALUES})
                assert q.bench.count("copy") == 1
                with q.refuses(f"option {name} is for values"):
                    q.run({name: given[name]})
            else:
                with q.refuses(says):
                    q.read(**without)
                assert q.read(**read)[0] == [{"n": 1}]
                with q.refuses(f"option {name} is for values"):
                    q.read(**{name: given[name]})


for _use in (STREAM, BATCH):
    for _name in ("schema.registry.basic.auth.user.info", "schema.registry.url"):
        _of_a_registry(_use, _name)

DEAD = "errors.deadletterqueue.topic.name"


@change(
    SINK,
    DEAD,
    "added",
    "refused unless rows are encoded; then those that cannot be go there",
    "value_formats",
)
def _(q):
    encoded(q, 1, None)
    source, sink = {"subscribe": "avro", "mode": "permissive"}, {"topic": "copy", **VALUES}
    with q.refuses("avro-0 at offset 1"):
        q.run(source, sink)
    q.run(source, {**sink, DEAD: "dead"})
    assert q.bench.values("dead") == ["broken"]
    with q.refuses(f"{DEAD} has no effect"):
        q.run(None, {DEAD: "dead", "checkpointLocation": q.folder / "other"})


@change(
    WRITE,
    DEAD,
    "added",
    "refused unless rows are encoded; then those that cannot be go there",
    "value_formats",
)
def _(q):
    with q.refuses(f"{DEAD} has no effect"):
        q.write([1], **{DEAD: "dead"})
    Admin(q.bench.log).create_topic("letters", config={"value.format": "avro", "value.schema": LETTERS})
    with q.refuses("row 0 of the rows that task 0 writes to topic 'letters'"):
        q.write([7], topic="letters", **{"row.format": "typed"})
    q.write([7], topic="letters", **{DEAD: "dead"})
    assert q.bench.count("dead") == 1


HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
}
LETTERS = json.dumps(
    {
        "type": "record",
        "name": "Letter",
        "fields": [
            {"name": "key", "type": "bytes"},
            {"name": "headers", "type": {"type": "array", "items": HEADER}},
            {"name": "value", "type": {"type": "fixed", "name": "Nine", "size": 9}},
        ],
    }
)


def _of_a_topic(use, name, value, other):
    """Rows about a setting of a topic: it is refused where the topic has another one, and a new topic has it."""
    given = {**NEEDED.get(name, {}), name: value}
    outcome = "refused: the topic has another value; a topic that is created has this one"

    def run(q, write):
        if name == "message.timestamp.type":
            write(given)  # It has one value, which each topic has.
            return
        said = "row.format=typed" if name == "key.columns" else f"option {name}={re.escape(value)}: it has"
        with q.refuses(said):
            write(given)
        write({**given, "topic": "other"})
        assert q.bench.state.topics["other"].config[name] == value
        q.fill(20, 30)
        with q.refuses(f"topic 'other' is there, with other settings .*option {name}="):
            write({**given, name: other, "topic": "other"})

    needs = "value_formats" if name.startswith(("value.", "schema.registry.")) else None

    @change(use, name, "another value", outcome, needs)
    def _(q):
        if use == SINK:
            first_and_more(q)
            run(q, lambda given: q.run(None, given))
        else:
            q.write([1])
            run(q, lambda given: q.write([2], **given))


RAW = {
    "row.format": "kafka",
    "value.format": "avro-confluent",
    "value.schema": '"bytes"',
    "value.schema.id": "5",
}
NEEDED = {
    "key.columns": {"row.format": "typed"},
    "schema.registry.url": RAW,
    "value.format": {"row.format": "kafka"},
    "value.schema": {"row.format": "kafka", "value.format": "avro"},
    "value.schema.id": RAW,
    "value.writer.schemas": RAW,
}
"""Options without which one of a topic has no effect."""

for _use in (SINK, WRITE):
    for _name, _values in OF_TOPICS.items():
        _of_a_topic(_use, _name, *_values)


def page(_text=""):
    """docs/reference/changed-options.md."""
    lines = [
        "# Every option, changed between two runs",
        "",
        "What happens when a streaming query is started again on its checkpoint with an option changed, added or",
        "dropped, and when a batch is read or written again with another one. An option takes effect, or it is refused",
        "with an error before anything is written; none is ignored. Each row is a test, and an option without a row",
        "fails one (`tests/spark/changed.py`). This page is written from the tests: `scripts/generate`.",
        "",
    ]
    titles = {
        "stream source": "`spark.readStream`",
        "stream sink": "`df.writeStream`",
        "batch source": "`spark.read`",
        "batch sink": "`df.write`",
    }
    for use, title in titles.items():
        lines += [f"## {title}", "| option | changed | what happens |", "|---|---|---|"]
        lines += [
            f"| `{change.option}` | {change.changed} | {change.outcome} |"
            for change in CHANGES
            if change.use == use
        ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
