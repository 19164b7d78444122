"""A program as it is written for aiokafka, with nothing changed but the import and the address."""

from __future__ import annotations

import asyncio

from spark_eos import TopicPartition
from tests.needing import needs


@needs("aio")
def test_a_program_for_aiokafka():
    from spark_eos.kafka import AIOKafkaConsumer, AIOKafkaProducer

    servers = "memory://aio-program"

    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=servers, value_serializer=str.encode)
        await producer.start()
        try:
            await producer.send_and_wait("my_topic", "Super message")
            future = await producer.send("my_topic", "second", key=b"k", headers=[("a", b"b")])
            assert (await future).offset == 1
            await producer.flush()
            assert await producer.partitions_for("my_topic") == {0}
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            "my_topic", bootstrap_servers=servers, group_id="my-group", auto_offset_reset="earliest"
        )
        await consumer.start()
        seen = []
        try:
            async for message in consumer:
                seen.append(message.value)
                if len(seen) == 2:
                    break
            at = TopicPartition("my_topic", 0)
            await consumer.commit()
            assert await consumer.committed(at) == 2
            consumer.seek(at, 1)
            assert await consumer.position(at) == 1
            assert [record.value for record in (await consumer.getmany(timeout_ms=1000))[at]] == [b"second"]
            await consumer.seek_to_beginning(at)
            assert (await consumer.getone()).value == b"Super message"
            consumer.pause(at)
            assert await consumer.getmany(timeout_ms=20) == {}
            assert (consumer.assignment(), consumer.paused()) == ({at}, {at})
            await consumer.resume(at)
            assert await consumer.end_offsets([at]) == {at: 2}
            assert await consumer.beginning_offsets([at]) == {at: 0}
            assert (await consumer.offsets_for_times({at: 0}))[at].offset == 0
            assert await consumer.topics() == {"my_topic"}
            assert consumer.metrics()["consumer-coordinator-metrics"]["assigned-partitions"] == 1
            await consumer.seek_to_end()
            await consumer.unsubscribe()
            await consumer.assign([at])
        finally:
            await consumer.stop()
        assert seen == [b"Super message", b"second"]

    asyncio.run(main())


def test_a_producer_that_may_create_no_topic():
    from spark_eos.kafka import AIOKafkaProducer

    settings = {"bootstrap_servers": "memory://aio-creates-nothing", "allow_auto_create_topics": False}
    producer = AIOKafkaProducer(**settings)
    assert producer.client._settings["auto.create.topics.enable"] is False
