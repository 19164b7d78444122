"""A partition that comes while a consumer without a group reads is read from its start."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

from spark_eos import Admin
from spark_eos.kafka import KafkaConsumer
from tests.clients.test_new_partitions import log, send, values  # noqa: F401  (a fixture)


def test_all_partitions_without_a_group(log):
    consumer = KafkaConsumer("t", bootstrap_servers=log)
    assert consumer.poll() == {}
    Admin(log).create_partitions({"t": 2})
    send(log, "t", 1, b"new")
    assert [values(found) for found in consumer.poll().values()] == [[b"new"]]
    consumer.close()


def test_a_topic_that_is_created_again_without_a_group(log):
    consumer = KafkaConsumer("t", bootstrap_servers=log, auto_offset_reset="earliest")
    consumer.poll()
    admin = Admin(log)
    admin.delete_topic("t")
    admin.create_topic("t")
    send(log, "t", 0, b"of the next one")
    assert [values(found) for found in consumer.poll().values()] == [[b"of the next one"]]
    consumer.close()
