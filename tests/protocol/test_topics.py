"""Topics, the log's own identity, and where things start."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.errors import (
    CorruptRecordError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    StagedFileExpiredError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.actions import (
    TO_THE_END,
    AdvanceLogStart,
    AlterTopic,
    CommitOffsets,
    CreateLog,
    CreateTopic,
    DeleteTopic,
    Entry,
    ExpireTransaction,
    RaiseStagingFloor,
)
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import TransactionState
from spark_eos.protocol.types import NO_PRODUCER
from tests.protocol.schemas import numbered

SCHEMA = pa.schema([("a", pa.int64())]).serialize().to_pybytes()
WIDER = numbered(2, ("a", pa.int64(), 1), ("b", pa.int64(), 2))


def test_a_log_begins_with_its_creation(empty):
    with pytest.raises(InvalidRequestError, match="first action of a log"):
        empty.do(CreateTopic("t", "t-id", 1))
    with pytest.raises(InvalidRequestError, match="first action of a log"):
        empty.do()
    with pytest.raises(InvalidRequestError, match="empty id"):
        empty.do(CreateLog(""))
    empty.do(CreateLog("log"))
    with pytest.raises(InvalidRequestError, match="there already"):
        empty.do(CreateLog("other"))
    assert empty.state.log_id == "log"


@pytest.mark.parametrize("seq", [-1, 0, 1, 3])
def test_entries_follow_one_another(log, seq):
    assert log.state.seq == 1
    with pytest.raises(CorruptRecordError, match="cannot follow"):
        apply_entry(log.state, Entry(seq, ()))
    assert apply_entry(log.state, Entry(2, ()))[0].seq == 2


@pytest.mark.conformance("state/time")
def test_time_never_goes_back(log):
    log.now = 5
    log.do()
    assert log.state.timestamp_ms == 1000


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "a b", "x" * 250, "a\n"])
def test_illegal_names(log, name):
    with pytest.raises(InvalidRequestError, match="illegal topic name"):
        log.topic(name, topic_id="new")


def test_topics_exist_once(log):
    with pytest.raises(TopicExistsError, match="'t'"):
        log.topic("t", topic_id="new")
    with pytest.raises(InvalidRequestError, match="topic id t-id is taken"):
        log.topic("u", topic_id="t-id")


@pytest.mark.parametrize("partitions", [-1, 0, 100_001])
def test_number_of_partitions(log, partitions):
    with pytest.raises(InvalidRequestError, match="partitions"):
        log.topic("u", partitions)


def test_partitions_only_grow(log):
    with pytest.raises(InvalidRequestError, match="cannot be cut to 1"):
        log.do(AlterTopic("t", "t-id", partitions=1))
    with pytest.raises(InvalidRequestError, match="100001"):
        log.do(AlterTopic("t", "t-id", partitions=100_001))
    log.append(NO_PRODUCER, (1, 4))
    log.do(AlterTopic("t", "t-id", partitions=3, config=(("a", "b"),)))
    assert [log.partition(n).end for n in range(3)] == [0, 4, 0]
    log.do(AlterTopic("t", "t-id"))
    assert (log.state.topics["t"].partitions, dict(log.state.topics["t"].config)) == (3, {"a": "b"})


@pytest.mark.parametrize(
    "setting", [("retention.ms", "7 days"), ("retention.bytes", "abc"), ("segment.bytes", "٣")]
)
def test_a_setting_that_maintenance_calculates_with_is_a_number(log, setting):
    for action in (CreateTopic("u", "u-id", 1, (setting,)), AlterTopic("t", "t-id", config=(setting,))):
        with pytest.raises(InvalidRequestError, match=f"'{setting[0]}' must be a whole number"):
            log.do(action)


def test_schema_versions(log):
    with pytest.raises(InvalidRequestError, match="Kafka-shaped"):
        log.do(AlterTopic("t", "t-id", schema=SCHEMA))
    log.topic("typed", schema=SCHEMA)
    log.do(AlterTopic("typed", "typed-id", schema=WIDER))
    assert log.state.topics["typed"].schemas == (SCHEMA, WIDER)


@pytest.mark.conformance("offset/incarnation")
def test_a_topic_that_was_created_again_is_another_one(log):
    log.append(NO_PRODUCER, (0, 5))
    log.do(CommitOffsets("g", (log.at(3),)))
    log.topic("u").do(CommitOffsets("g", (log.at(0, topic="u"),)))
    log.do(DeleteTopic("t", "t-id"))
    assert log.group() == {("u", 0): 0}
    with pytest.raises(
        UnknownTopicOrPartitionError,
        match=r"no topic 't' \(topic deleted in entry 6 by 'test'; eoslog audit has more\); its topics are: u",
    ):
        log.append(NO_PRODUCER, (0, 5))
    log.topic("t", topic_id="new")
    assert log.partition().end == 0
    for action in (
        log.appending(NO_PRODUCER, (0, 5)),
        CommitOffsets("g", (log.at(3),)),
        AlterTopic("t", "t-id", 3),
        DeleteTopic("t", "t-id"),
        AdvanceLogStart((log.at(0),)),
    ):
        with pytest.raises(UnknownTopicOrPartitionError, match="created again"):
            log.do(action)


@pytest.mark.conformance("offset/open-topic")
@pytest.mark.parametrize("how", ["commit", "abort", "fence", "expire"])
def test_a_topic_with_an_open_transaction_can_go(log, how):
    """As in Kafka: the end of the transaction writes to the partitions that are left."""
    log.topic("u")
    stamp = log.next(log.init())
    log.append(stamp, (1, 5))
    log.append(stamp, (0, 3), topic="u")
    log.do(CommitOffsets("g", (log.at(3), log.at(4, topic="u")), stamp))
    log.do(DeleteTopic("t", "t-id"))
    assert list(log.state.producers[0].touched) == [("u-id", 0)]
    with pytest.raises(UnknownTopicOrPartitionError, match="has no topic 't'"):
        log.append(stamp, (1, 5))
    log.topic("t", topic_id="new")
    with pytest.raises(UnknownTopicOrPartitionError, match="deleted and created again"):
        log.append(stamp, (1, 5))
    if how == "fence":
        log.init()
    elif how == "expire":
        log.do(ExpireTransaction(stamp, 1000))
    else:
        log.end(stamp, how == "commit")
    assert log.partition(0, "u").end == 4
    assert log.partition(1).end == 0
    assert log.group() == ({("u", 0): 4} if how == "commit" else {})
    assert not log.state.open_transactions


def test_a_transaction_that_is_left_without_a_topic_ends(log):
    stamp = log.next(log.init())
    log.append(stamp, (1, 5))
    log.do(DeleteTopic("t", "t-id"))
    log.end(stamp)
    assert log.state.producers[0].transaction is TransactionState.COMPLETE_COMMIT


def test_pending_offsets_go_with_their_topic(log):
    stamp = log.next(log.init())
    log.topic("u")
    log.do(CommitOffsets("g", (log.at(3), log.at(4, topic="u")), stamp))
    log.do(DeleteTopic("t", "t-id"))
    log.topic("t", topic_id="new")
    log.end(stamp)
    assert log.group() == {("u", 0): 4}


def test_sequences_go_with_their_topic(log):
    stamp = log.init(None)
    log.append(stamp, (0, 5, 0))
    log.do(DeleteTopic("t", "t-id"))
    assert not log.state.producers[stamp.producer_id].sequences


@pytest.mark.conformance("offset/start")
def test_log_start(log):
    for _ in range(3):
        log.append(NO_PRODUCER, (0, 5))
    log.do(AdvanceLogStart((log.at(7),)))
    assert (log.partition().start, [row.base_offset for row in log.partition().index.tail]) == (7, [5, 10])
    log.do(AdvanceLogStart((log.at(2),)))
    assert log.partition().start == 7
    for offset in (-2, 16):
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset}"):
            log.do(AdvanceLogStart((log.at(0, 1), log.at(offset))))
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        log.do(AdvanceLogStart((log.at(0, 2),)))
    log.do(AdvanceLogStart((log.at(-1),)))
    assert (log.partition().start, len(log.partition().index.tail)) == (15, 0)
    assert log.append(NO_PRODUCER, (0, 1))[0].base_offset == 15


@pytest.mark.conformance("offset/start")
def test_log_start_stays_below_an_open_transaction(log):
    log.append(NO_PRODUCER, (0, 5))
    log.append(log.next(log.init()), (0, 5))
    with pytest.raises(OffsetOutOfRangeError, match="last stable offset is 5"):
        log.do(AdvanceLogStart((log.at(6),)))
    with pytest.raises(OffsetOutOfRangeError, match="transaction 'tx' is open since offset 5"):
        log.do(AdvanceLogStart((log.at(TO_THE_END),)))
    log.do(AdvanceLogStart((log.at(5),)))
    assert log.partition().start == 5


@pytest.mark.conformance("offset/floor")
def test_staging_floor(log):
    with pytest.raises(InvalidRequestError, match="cannot rise to 3"):
        log.do(RaiseStagingFloor(3))
    log.do(RaiseStagingFloor(2))
    log.do(RaiseStagingFloor(1))
    assert log.state.staging_floor == 2
    with pytest.raises(StagedFileExpiredError, match=r"1-x.arrow"):
        log.append(NO_PRODUCER, (0, 1), base=1)
    log.append(NO_PRODUCER, (0, 1), base=2)
