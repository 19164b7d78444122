"""A partition that comes while a consumer of asyncio reads is read from its start."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import asyncio

from spark_eos import Admin, AIOConsumer
from tests.clients.test_new_partitions import log, send, values  # noqa: F401  (a fixture)


def test_asyncio(log):
    async def read():
        async with AIOConsumer(log, group_id="g") as consumer:
            consumer.subscribe(["t"])
            assert await consumer.getmany() == {}
            Admin(log).create_partitions({"t": 2})
            send(log, "t", 1, b"new")
            return await consumer.getmany()

    assert [values(found) for found in asyncio.run(read()).values()] == [[b"new"]]
