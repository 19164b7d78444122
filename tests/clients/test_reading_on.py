"""Where a consumer goes on: after what it was given, at what it sought, and never over what is still to come."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import CorruptRecordError
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore

T0 = TopicPartition("t", 0)


@pytest.fixture
def log():
    log = Log.create(MemoryStore())
    log.ensure_topic("t")
    return log


@pytest.fixture
def reader(log):
    consumer = Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.assign([T0])
    return consumer


def values(records):
    return [record.value for record in records]


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_is_not_stepped_over(log, reader, commit):
    idempotent, producer = Producer(log), Producer(log, {"transactional.id": "app"})
    idempotent.send("t", b"before")
    idempotent.flush()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"inside")
    producer.flush()
    idempotent.send("t", b"behind")
    idempotent.flush()
    assert values(reader.poll()) == [b"before"]
    assert reader.position(T0) == 1
    (producer.commit_transaction if commit else producer.abort_transaction)()
    assert values(reader.poll()) == [b"inside", b"behind"][not commit :]
    assert reader.position(T0) == 4


@pytest.mark.parametrize("target", [0, 1, 2, 3, 4, 5, 6, 8])
def test_seek_leaves_the_batch_that_is_being_read(log, reader, target):
    producer = Producer(log)
    for batch in (b"abc", b"def", b"ghi"):
        for number in range(3):
            producer.send("t", batch[number : number + 1])
        producer.flush()
    reader.seek(T0, 3)
    assert values(reader.poll(max_records=1)) == [b"d"]
    reader.seek(T0, target)
    assert b"".join(values(reader.poll())) == b"abcdefghi"[target:]


def batches(log, *values):
    """One file for each."""
    producer = Producer(log)
    for value in values:
        producer.send("t", value)
        producer.flush()
    return sorted(info.name for info in log.store.list("data/"))


def test_a_file_that_is_missing_is_no_reason_to_begin_anew(log, reader):
    _, second, _ = batches(log, b"a", b"b", b"c")
    log.store.delete(second)
    assert values(reader.poll()) == [b"a"]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=second):
            reader.poll()
        assert reader.position(T0) == 1


def test_records_that_were_removed_since_they_were_planned(log, reader):
    _, second, _ = batches(log, b"a", b"b", b"c")
    assert values(reader.poll(max_records=1)) == [b"a"]
    Admin(log).delete_records({T0: 2})
    log.store.delete(second)
    assert values(reader.poll()) == [b"c"]


def test_a_committed_offset_of_zero_is_a_committed_offset(log):
    batches(log, b"a")
    for _ in range(2):
        with Consumer(log, {"group.id": "g", "auto.offset.reset": "latest"}) as consumer:
            consumer.assign([T0])
            consumer.commit({T0: 0})
            assert values(consumer.poll()) == [b"a"]
