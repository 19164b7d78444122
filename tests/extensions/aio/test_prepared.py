"""A prepared transaction of a producer of asyncio is completed by its successor."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import asyncio

from spark_eos import AIOProducer
from tests.clients.test_prepared import SETTINGS, clock, log, values  # noqa: F401  (fixtures)


def test_a_successor_completes_it(log):
    async def main():
        producer = AIOProducer(log, SETTINGS)
        await producer.start(keep_prepared_transaction=True)
        await producer.begin_transaction()
        await producer.send("t", "a")
        token = await producer.prepare_transaction()
        await producer.stop()
        heir = AIOProducer(log, SETTINGS)
        await heir.start(keep_prepared_transaction=True)
        await heir.complete_transaction(str(token))
        await heir.stop()

    asyncio.run(main())
    assert values(log) == ["a"]
