"""A mirror reads a topic of Kafka: of the broker that librdkafka has inside for tests, which cannot describe topics."""

from confluent_kafka import Producer

from spark_eos.extensions.mirror.kafka_source import KafkaSource, Start

kafka = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "127.0.0.1:1"})
kafka.produce("orders", b"one", partition=0)
assert kafka.flush(60) == 0
(broker,) = kafka.list_topics(timeout=60).brokers.values()

source = KafkaSource({"bootstrap.servers": f"{broker.host}:{broker.port}"}, "smoke", refresh_s=1, tell=print)
assert source.bounds("orders", 0) == (0, 1)
source.assign([Start("orders", 0, 0)])
found: list[bytes] = []
for _ in range(60):
    found += [message.value() for message in source.poll(10, 1.0) if message.error() is None]
    if found:
        break
source.close()
assert found == [b"one"], found
