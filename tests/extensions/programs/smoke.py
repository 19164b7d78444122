"""Uses each of the named extensions once: `smoke.py FOLDER NAME...`. The kernel alone is one of them."""

from __future__ import annotations

import asyncio
import base64
import doctest
import json
import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.cli import main
from spark_eos.errors import ConfigError


def eoslog(*arguments):
    assert main([*map(str, arguments)]) == 0, arguments


def documented(module, name):
    """The example of a public name."""
    where = import_module(f"spark_eos.extensions.{module}")
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(where, name), name, module=where)
    ran = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert ran.attempted > 1
    assert not ran.failed, name


def kernel(log):
    eoslog("topics", "create", log, "orders", "--partitions", "2")
    with Producer(log, {"transactional.id": "till"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"apples", key=b"anna")
        producer.commit_transaction()
    with Consumer(log, {"group.id": "audit", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("orders", 0), TopicPartition("orders", 1)])
        assert [record.value for record in consumer.poll(10_000)] == [b"apples"]
    for command in ("status", "lag", "verify", "history"):
        eoslog(command, log)
    eoslog("maintain", log)
    eoslog("--help")


def missing(log):
    """What needs an extension that is missing ends with an error that says so, before anything is written."""
    seq = Log.open(log).follow().seq
    for setting in ("value.format", "value.schema"):
        with suppress(ConfigError):
            Admin(log).create_topic("typed", config={setting: "json"})
            raise AssertionError(setting)
    for settings in ({"encryption.keys": "env:KEYS", "encryption.key.id": "one"},):
        with suppress(ConfigError):
            Producer(log, settings).send("orders", b"x").get()
            raise AssertionError(settings)
    assert Log.open(log).follow().seq == seq


def aio(_log):
    documented("aio.producer", "AIOProducer")
    documented("aio.consumer", "AIOConsumer")


def backup(log):
    repository = log.with_name("backups")
    eoslog("backup", log, repository, "--name", "monday")
    eoslog("restore", repository, log.with_name("restored"))
    eoslog("backups", "verify", repository)


def distributed(_log):
    documented("distributed.transaction", "DistributedTransaction")


def encryption(log):
    os.environ["KEYS"] = json.dumps({"one": base64.b64encode(bytes(32)).decode()})
    settings = {"encryption.keys": "env:KEYS", "encryption.key.id": "one"}
    sealed = log.with_name("sealed")
    with Producer(sealed, settings) as producer:
        producer.send("orders", b"a secret").get()
    assert not any(b"a secret" in path.read_bytes() for path in sealed.rglob("*") if path.is_file())
    with Consumer(sealed, {**settings, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert [record.value for record in consumer.poll(10_000)] == [b"a secret"]


def machines(_log):
    from spark_eos.storage import Settings, open_store

    channel = open_store("s3://bucket/log", Settings({"machines.listen": "127.0.0.1:0"})).group_channel("id")
    assert type(channel).__name__ == "NetworkChannel"


def metrics(log):
    eoslog("metrics", log)
    documented("metrics.registration", "register")


def mirror(log):
    assert main(["mirror", "offsets", str(log), "--name", "shop"]) == 1  # There is no such mirror.


def several_logs(_log):
    documented("several_logs.producer", "MultiLogProducer")


def tables(log):
    eoslog("tables", "create", log, "--name", "nightly", "--topic", "orders")
    eoslog("maintain", log)
    eoslog("tables", "versions", log, "--name", "nightly")


def ui(log):
    eoslog("top", log, "--json", "--count", "1")
    asyncio.run(page(log))


async def page(log):
    import httpx

    from spark_eos.extensions.ui.app import create_app
    from spark_eos.extensions.ui.follower import Follower
    from spark_eos.extensions.ui.security import Access

    follower = Follower(str(log))
    try:
        app = create_app([follower], Access(), allow_writes=False)
        browser = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=browser, base_url="http://localhost") as client:
            csrf = (await client.get("/session")).json()["csrf"]
            shown = await client.post("/api/topics", json={}, headers={"x-csrf-token": csrf})
    finally:
        follower.close()
    assert shown.status_code == 200, shown.text
    assert "orders" in shown.text


def value_formats(log):
    documented("value_formats.serializers", "AvroSerializer")
    Admin(log).create_topic("typed", config={"value.format": "json"})
    with Producer(log) as producer:
        producer.send("typed", {"item": "apples"}).get()
    eoslog("consume", log, "typed")


def kafka(_log):
    documented_kafka = import_module("spark_eos.kafka.clients")
    (test,) = doctest.DocTestFinder(recurse=False).find(
        documented_kafka.KafkaProducer, module=documented_kafka
    )
    assert not doctest.DocTestRunner().run(test).failed


if __name__ == "__main__":
    warnings.simplefilter("error")
    folder, *names = sys.argv[1:]
    where = Path(folder) / "log"
    for name in ("kernel", *names):
        globals()[name](where)
        print(f"used {name}", file=sys.stderr)
