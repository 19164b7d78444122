"""What a producer does with expired ids, vanished files, and offsets in the name of a group's member."""

from __future__ import annotations

import time

import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.errors import (
    AbortableError,
    ProducerFencedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AlterLog, ExpireProducers, JoinGroup, LeaveGroup
from spark_eos.storage.memory import MemoryStore
from tests.log.fakes import FakeClock


@pytest.fixture
def url(log_url):
    return log_url


def values(url):
    with Consumer(url, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll(max_records=1000)]


def test_a_producer_whose_id_expired_goes_on_under_a_new_one(url):
    """KIP-854: nothing was sent for a day. The application does not notice."""
    with Producer(url) as producer:
        producer.send("t", b"1").result(60)
        log = Log.open(url)
        log.commit(lambda _: (AlterLog((("producer.id.expiration.ms", "1"),)),))
        time.sleep(0.05)  # The file system's clock moves in steps of some milliseconds.
        log.commit(lambda _: (ExpireProducers((0,)),))
        assert producer.send("t", b"2").result(60).offset == 1
    assert values(url) == [b"1", b"2"]
    assert set(Log.open(url).state.producers) == {1}


def test_a_vanished_file_is_found_before_the_commit(url):
    """Redpanda #6018: a commit that lists what is not there would be a transaction without its records."""
    with Producer(url, {"transactional.id": "tx"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1")
        log = Log.shared(url)
        finish = log.check_visible

        def lose(files):
            log.discard(files)
            finish(files)

        log.check_visible = lose
        try:
            with pytest.raises(AbortableError, match="was staged but is not here"):
                producer.commit_transaction()
        finally:
            del log.check_visible
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"2")
        producer.commit_transaction()
    assert values(url) == [b"2"]


def test_offsets_go_with_a_flush_and_are_unstable_until_the_end(url):
    """KIP-447: who asks for stable offsets waits for the transaction."""
    at = TopicPartition("t", 0)
    settings = {"group.id": "g", "default.api.timeout.ms": 0}
    with Producer(url, {"transactional.id": "tx"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1")
        producer.flush()
        producer.send_offsets_to_transaction({at: 1}, "g")
        producer.flush()
        stable = Consumer(url, {**settings, "isolation.level": "read_committed"})
        with pytest.raises(UnstableOffsetCommitError):
            stable.committed([at])
        with Consumer(url, settings) as any_:
            assert any_.committed([at]) == {at: None}
        producer.send_offsets_to_transaction({at: 2}, "g")
        producer.commit_transaction()
        assert stable.committed([at]) == {at: OffsetAndMetadata(2)}
        stable.close()


def test_offsets_of_several_calls_are_one_commit(url):
    Admin(url).create_topic("t", 2)
    offsets = {TopicPartition("t", number): OffsetAndMetadata(number) for number in range(2)}
    with Producer(url, {"transactional.id": "tx"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for at, offset in offsets.items():
            producer.send_offsets_to_transaction({at: offset}, "g")
        producer.commit_transaction()
    assert Admin(url).list_group_offsets("g") == offsets


def test_a_member_that_lost_its_partitions_cannot_commit_in_a_transaction(url):
    log = Log.open_or_create(url)
    log.ensure_topic("t")
    join = JoinGroup("g", "m", ("t",), ("range",), 1000)
    log.commit(lambda _: (join,))
    ours = ConsumerGroupMetadata("g", 1, "m")
    with Producer(url, {"transactional.id": "tx"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1")
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, ours)
        # Between the two calls the group moves on: the commit decides, not the call before.
        log.commit(lambda _: (LeaveGroup("g", ("m",)),))
        with pytest.raises(UnknownMemberIdError) as caught:
            producer.commit_transaction()
        assert caught.value.txn_requires_abort
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"2")
        with pytest.raises(UnknownMemberIdError):
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, ours)
        with pytest.raises(AbortableError, match="abort_transaction comes first"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"3")
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
        producer.commit_transaction()
    assert values(url) == [b"3"]


@pytest.mark.parametrize("subscribes", [True, False])
def test_offsets_of_a_topic_that_was_created_again_since_they_were_read_are_refused(url, subscribes):
    admin, at = Admin(url), TopicPartition("t", 0)
    admin.create_topics(["t", "copies"])
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with (
        Producer(url) as sender,
        Consumer(url, settings) as consumer,
        Producer(url, {"transactional.id": "tx"}) as producer,
    ):
        sender.send("t", b"old")
        sender.flush()
        if subscribes:
            consumer.subscribe(["t"])
        else:
            consumer.assign([at])
        assert [record.value for record in consumer.poll(1000)] == [b"old"]
        admin.delete_topic("t")
        admin.create_topic("t")
        for value in (b"new", b"newer"):
            sender.send("t", value)
        sender.flush()
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("copies", b"old")
        with pytest.raises(UnknownTopicOrPartitionError, match="deleted and created again"):
            producer.send_offsets_to_transaction({at: 1}, consumer.group_metadata())
        with pytest.raises(AbortableError, match="abort_transaction comes first"):
            producer.commit_transaction()
        producer.abort_transaction()
        if not subscribes:
            consumer.assign([at])
        assert [record.value for record in consumer.poll(1000)] == [b"new", b"newer"]
        producer.begin_transaction()
        producer.send_offsets_to_transaction({at: 2}, consumer.group_metadata())
        producer.commit_transaction()
        assert admin.list_group_offsets("g") == {at: OffsetAndMetadata(2)}


@pytest.mark.parametrize("subscribes", [True, False])
def test_positions_are_committed_beside_those_of_a_topic_that_is_gone(url, subscribes):
    admin, kept = Admin(url), TopicPartition("kept", 0)
    admin.create_topics(["kept", "gone"])
    with Producer(url) as sender:
        sender.send("kept", b"x")
        sender.send("gone", b"x")
    with Consumer(url, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        if subscribes:
            consumer.subscribe(["kept", "gone"])
        else:
            consumer.assign([kept, TopicPartition("gone", 0)])
        assert len(consumer.poll(1000)) == 2
        admin.delete_topic("gone")
    assert admin.list_group_offsets("g") == {kept: OffsetAndMetadata(1)}


def test_positions_in_a_topic_that_was_created_again_are_committed_from_anew(url):
    admin, at = Admin(url), TopicPartition("t", 0)
    Log.open_or_create(url)
    with Consumer(url, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        for _ in range(2):
            with Producer(url) as sender:
                sender.send("t", b"x")
            consumer.assign([at])
            assert len(consumer.poll(1000)) == 1
            consumer.assign([at])  # It commits.
            assert admin.list_group_offsets("g") == {at: OffsetAndMetadata(1)}
            admin.delete_topic("t")


def test_an_open_transaction_stops_nobody_but_committed_readers_of_its_partitions_until_its_timeout():
    clock = FakeClock()
    log = Log.open_or_create(MemoryStore(), clock)
    Admin(log).create_topic("t", 2)
    hers, other = TopicPartition("t", 0), TopicPartition("t", 1)
    sleeper = Producer(log, {"transactional.id": "sleeper", "transaction.timeout.ms": 5000})
    sleeper.init_transactions()
    sleeper.begin_transaction()
    sleeper.send("t", b"open", partition=0)
    sleeper.flush()
    with Producer(log, {"transactional.id": "writer"}) as writer, Producer(log) as plain:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send("t", b"one shot", partition=0)
        writer.send("t", b"one shot", partition=1)
        writer.send_offsets_to_transaction({other: 1}, "g")
        writer.commit_transaction()
        plain.send("t", b"plain", partition=0)
        plain.send("t", b"plain", partition=1)
        plain.flush()
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "group.id": "g"}
    with Consumer(log, {**settings, "isolation.level": "read_uncommitted"}) as consumer:
        consumer.assign([hers])
        assert [record.value for record in consumer.poll()] == [b"open", b"one shot", b"plain"]
    with Consumer(log, {**settings, "enable.auto.commit": False}) as consumer:
        assert consumer.committed([other]) == {other: OffsetAndMetadata(1)}
        consumer.assign([hers, other])
        consumer.seek_to_beginning()
        assert consumer.end_offsets([hers, other]) == {hers: 0, other: 3}
        assert [record.value for record in consumer.poll()] == [b"one shot", b"plain"]
        began = clock.now
        found = consumer.poll(timeout_ms=60_000)
        assert [record.value for record in found] == [b"one shot", b"plain"]
        assert 5 <= clock.now - began <= 7, "it waited for the timeout, and ended what nobody else did"
    with pytest.raises(ProducerFencedError, match="its transaction timed out"):
        sleeper.commit_transaction()
    sleeper.close()
