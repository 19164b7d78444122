"""Exactly once through a bad network: producers and a consumer on an object store, and a proxy that spoils requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import AbortableError, RetriableError
from spark_eos.log.log import Log
from spark_eos.storage import Settings
from verification.fault_proxy import FaultPlan, FaultProxy, HttpFault
from verification.object_server import ObjectServer, serving

URL = "s3://bucket/log"
PRODUCERS, TRANSACTIONS, RECORDS = 4, 20, 2


def patiently(call, *arguments):
    """What a client does whose outcome is not known: the same call again."""
    for _ in range(200):
        try:
            return call(*arguments)
        except RetriableError:
            pass
    raise AssertionError(f"{call} was tried 200 times")


def done(producer, number, transaction):
    """Whether the transaction has ended as it should; if not, it has to be aborted, and done again."""
    try:
        producer.begin_transaction()
        for record in range(RECORDS):
            patiently(producer.send, "t", f"{number}:{transaction}:{record}")
        patiently(producer.abort_transaction if transaction % 4 == 3 else producer.commit_transaction)
    except AbortableError:
        return False
    return True


def produce(number, settings):
    # Another region is another identity: each producer has a handle of its own, as a process would.
    with Producer(URL, {"transactional.id": f"p{number}", **settings, "s3.region": f"r{number}"}) as producer:
        patiently(producer.init_transactions)
        for transaction in range(TRANSACTIONS):
            while not done(producer, number, transaction):
                patiently(producer.abort_transaction)


def everything(settings):
    with Consumer(
        URL, {"auto.offset.reset": "earliest", "isolation.level": "read_committed", **settings}
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        found = []
        while records := patiently(consumer.poll, 0):
            found += [record.value.decode() for record in records]
        return found


@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2])
def test_exactly_once_through_a_bad_network(seed):
    with serving(ObjectServer({"bucket": {}})) as server:
        clean = {"s3.endpoint": server.address, "s3.access-key-id": "a", "s3.secret-access-key": "kept"}
        Log.create(URL, settings=Settings(clean)).ensure_topic("t", 1)
        parts = urlsplit(server.address)
        with FaultProxy(
            parts.hostname, parts.port, plan=FaultPlan.everything(0.012), seed=seed, delay_s=1.0
        ) as proxy:
            spoilt = {**clean, "s3.endpoint": proxy.url, "s3.request-timeout": "0.7"}
            with ThreadPoolExecutor(PRODUCERS) as pool:
                for made in [pool.submit(produce, number, spoilt) for number in range(PRODUCERS)]:
                    made.result()
            through = everything(spoilt)
            struck = {exchange.fault for exchange in proxy.exchanges if exchange.fault is not None}
        assert len(struck) >= len(HttpFault) // 2, f"{struck}: too few to say anything"
        found = everything(clean)
        assert through == found
        for number in range(PRODUCERS):
            assert [value for value in found if value.startswith(f"{number}:")] == [
                f"{number}:{transaction}:{record}"
                for transaction in range(TRANSACTIONS)
                if transaction % 4 != 3
                for record in range(RECORDS)
            ]
