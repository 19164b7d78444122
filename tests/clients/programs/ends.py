"""Sends records and ends in one of these ways, without `flush` and `close`: `WAY URL NUMBER`."""

import asyncio
import atexit
import gc
import sys
import threading

from spark_eos import Producer
from spark_eos.clients.producer.accumulator import TopicBuffer

kept = []
"""To the end of the process."""


def send(producer):
    kept.append(producer)
    for number in range(RECORDS):
        producer.send("t", b"%d" % number)


def by_its_last_line():
    send(Producer(URL))


def by_an_error():
    send(Producer(URL))
    raise ValueError


def by_exit():
    send(Producer(URL))
    sys.exit(3)


def after_an_acknowledged_record():
    producer = Producer(URL)
    producer.send("t", b"x").get()
    send(producer)


def by_the_classes_of_kafka_python():
    from spark_eos.kafka import KafkaProducer

    send(KafkaProducer(bootstrap_servers=URL))


def without_a_reference():
    send(Producer(URL, linger_ms=60_000))
    kept.clear()
    gc.collect()


def by_asyncio():
    from spark_eos import AIOProducer

    async def main():
        producer = AIOProducer(URL)
        await producer.start()
        for number in range(RECORDS):
            await producer.send("t", b"%d" % number)

    asyncio.run(main())


def while_another_thread_goes_on():
    producer = Producer(URL)
    producer.send("t", b"x").get()

    def work():
        threading.main_thread().join()
        send(producer)

    threading.Thread(target=work).start()


def when_a_batch_is_just_handed_on():
    take, began = TopicBuffer._take, threading.Event()

    def slowly(*given):
        began.set()
        threading.Event().wait(0.3)
        return take(*given)

    TopicBuffer._take = slowly
    producer = Producer(URL, linger_ms=0, batch_size=1_000_000)
    with producer._lock:  # All in one batch.
        send(producer)
    began.wait()


def when_no_thread_can_be_started():
    def refuse(_):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    send(Producer(URL))
    atexit.register(lambda: setattr(threading.Thread, "start", refuse))


WAY, URL, RECORDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
globals()[WAY]()
