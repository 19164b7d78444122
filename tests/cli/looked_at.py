"""A log for those who may only look: a store that refuses what writes, and notes each try."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import ClassVar

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition, register_store
from spark_eos.cli.command import main
from spark_eos.errors import StorePermissionError
from spark_eos.protocol.actions import CreatePublication
from spark_eos.storage import MemoryStore, open_store
from spark_eos.testing import FaultyStore
from spark_eos.testing.wrapped_store import WrappedStore
from tests.expiration import no_expiration
from tests.monitoring.micro_batches import micro_batch
from verification.retiring import RETIRED_AT_ONCE

READS = {"read", "size", "list", "identity"}
SCHEME = "lookedat"


class Looked(WrappedStore):
    """Another store for those who may only look. What they try beside is in `tries`, and refused."""

    tries: ClassVar[list[str]] = []

    def __init__(self, path):
        super().__init__(open_store(path))
        self.url = f"{SCHEME}://{path}"
        self.requests_are_free = False

    def _call(self, operation, name, effect):
        if operation not in READS:
            self.tries.append(f"{operation} {name}")
            raise StorePermissionError(f"{operation} of {name}: a command that looks does not write")
        return effect()

    def upload(self, name, *, write_behind=False):
        self._call("upload", name, lambda: None)

    def group_channel(self, name):
        return None


@pytest.fixture(scope="module", autouse=True)
def scheme():
    register_store(SCHEME, lambda url: Looked(url.removeprefix(f"{SCHEME}://")))


@pytest.fixture
def tries(monkeypatch):
    found: list[str] = []
    monkeypatch.setattr(Looked, "tries", found)
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A log with one of everything that asks to be tidied up: an overdue transaction, no snapshot, garbage."""
    path = str(tmp_path_factory.mktemp("looked-at") / "log")
    log = Log.create(path, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    Admin(log).create_topic("orders", 2, config={"file.delete.delay.ms": 0})
    with Producer(log) as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number, key=b"k", partition=number % 2).result()
    Admin(log).alter_group_offsets("audit", {TopicPartition("orders", 0): 1})
    micro_batch(log, "orders", 2)
    topics = (("orders", log.state.topics["orders"].topic_id),)
    log.commit(lambda _: (CreatePublication("daily", "delta", (("mode", "shared"),), topics),))
    producer = Producer(log, {"transactional.id": "billing", "transaction.timeout.ms": 1})
    producer.init_transactions()
    producer.begin_transaction()
    with no_expiration():
        producer.send("orders", b"x", partition=0)
        producer.flush()
        Admin(log).delete_records({TopicPartition("orders", 1): 3})
    return path


def run(line, url):
    return main([word.replace("LOG", url) for word in shlex.split(line)])


def files(folder):
    return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in Path(folder).rglob("*")}


def bucket():
    """A store in memory that counts, whose requests count."""
    store = FaultyStore(MemoryStore())
    store.requests_are_free = False
    log = Log.create(store)
    Admin(log).create_topic("orders", 1)
    return store
