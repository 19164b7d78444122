"""Which offset of a group stands when a transaction ends: the same on a real broker and on a log."""

from __future__ import annotations

import confluent_kafka
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition

from .test_mirror_in import admin, broker, create, topic  # noqa: F401

IN_TRANSACTION, ALONE = 3, 2


class OnKafka:
    def __init__(self, broker, topic):  # noqa: F811
        create(broker, topic)
        self._broker, self._topic = broker, topic
        servers = {"bootstrap.servers": broker.address}
        self._consumer = confluent_kafka.Consumer({**servers, "group.id": topic, "enable.auto.commit": False})
        self._consumer.assign([confluent_kafka.TopicPartition(self._topic, 0)])
        self._producer = confluent_kafka.Producer({**servers, "transactional.id": topic})
        self._producer.init_transactions(60)
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"v")

    def carry(self):
        offsets = [confluent_kafka.TopicPartition(self._topic, 0, IN_TRANSACTION)]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), 60)

    def commit_alone(self):
        offsets = [confluent_kafka.TopicPartition(self._topic, 0, ALONE)]
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def delete_group(self):
        for future in admin(self._broker).delete_consumer_groups([self._topic]).values():
            future.result(60)

    def end(self):
        self._producer.commit_transaction(60)
        (committed,) = self._consumer.committed([confluent_kafka.TopicPartition(self._topic, 0)], 60)
        self._consumer.close()
        return None if committed.offset < 0 else committed.offset


class OnLog:
    def __init__(self, url):
        self._admin = Admin(url)
        self._admin.create_topic("t")
        self._consumer = Consumer(url, {"group.id": "g", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition("t", 0)])
        self._producer = Producer(url, {"transactional.id": "x"})
        self._producer.init_transactions()
        self._producer.begin_transaction()
        self._producer.send("t", b"v")

    def carry(self):
        offsets = {TopicPartition("t", 0): IN_TRANSACTION}
        self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())
        self._producer.flush()  # Else they reach the log with the end of the transaction, and are the last ones.

    def commit_alone(self):
        self._consumer.commit({TopicPartition("t", 0): ALONE})

    def delete_group(self):
        self._admin.delete_group("g")

    def end(self):
        self._producer.commit_transaction()
        self._producer.close()
        committed = self._consumer.committed(TopicPartition("t", 0))
        self._consumer.close()
        return committed


@pytest.mark.deep
@pytest.mark.parametrize(
    ("steps", "stands"),
    [
        (("commit_alone", "carry"), IN_TRANSACTION),
        (("carry", "commit_alone"), ALONE),
        (("carry", "commit_alone", "carry"), IN_TRANSACTION),
        (("carry", "commit_alone", "delete_group"), None),
    ],
    ids=["transaction last", "alone last", "transaction again", "deleted"],
)
def test_which_offset_stands_at_the_end(broker, topic, tmp_path, steps, stands):  # noqa: F811
    for world in (OnKafka(broker, topic), OnLog(str(tmp_path / "log"))):
        for step in steps:
            getattr(world, step)()
        assert world.end() == stands, type(world).__name__
