"""Looking never writes: each command that only shows runs over a store that refuses what writes, and notes each try."""

from __future__ import annotations

import asyncio
import json
import shlex
import threading
import time
import warnings
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import ClassVar

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from spark_eos import Admin, Log, Producer, TopicPartition, register_store
from spark_eos.cli.command import main
from spark_eos.cli.usage.examples import EXAMPLES
from spark_eos.errors import StorePermissionError
from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.extensions.tables.tables import Tables
from spark_eos.extensions.ui.app import _READS, create_app
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.security import Access
from spark_eos.extensions.ui.server import Server
from spark_eos.extensions.ui.top.view import Top
from spark_eos.log.log import Log as AnyLog
from spark_eos.monitoring import Watch, register
from spark_eos.storage import MemoryStore, open_store
from spark_eos.testing import FaultyStore
from spark_eos.testing.wrapped_store import WrappedStore
from tests.expiration import no_expiration
from tests.extensions.metrics.metrics_world import micro_batch
from tests.monitoring.test_across import World
from verification.retiring import RETIRED_AT_ONCE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It would rather have httpx2.
    from starlette.testclient import TestClient

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
    Tables(log).create("daily", ["orders"])
    producer = Producer(log, {"transactional.id": "billing", "transaction.timeout.ms": 1})
    producer.init_transactions()
    producer.begin_transaction()
    with no_expiration():
        producer.send("orders", b"x", partition=0)
        producer.flush()
        Admin(log).delete_records({TopicPartition("orders", 1): 3})
    return path


LOOKS = (
    *("status LOG", "status LOG --json", "lag LOG --totals", "lag LOG --exact --json"),
    *("top LOG --json --count 2 --interval 0.1", "metrics LOG", "metrics LOG --partitions --json"),
    *("topics LOG", "topics describe LOG", "describe LOG orders", "get-offsets LOG", "configs LOG"),
    *("transactions list LOG", "transactions describe LOG --transactional-id billing"),
    *("transactions describe-producers LOG --topic orders --partition 0", "audit LOG"),
    "transactions find-hanging LOG --max-transaction-timeout 0",
    *("groups list LOG", "groups describe LOG --all-groups", "groups describe LOG --group audit --members"),
    "groups reset-offsets LOG --group audit --all-topics --to-earliest",
    "encryption keys LOG",
    *("tables list LOG", "verify LOG", "verify LOG --quick", "dump LOG", "history LOG", "diff LOG 1 3"),
)


def run(line, url):
    return main([word.replace("LOG", url) for word in shlex.split(line)])


@pytest.mark.parametrize("line", LOOKS)
def test_a_command_that_looks_writes_nothing(line, path, tries, capsys):
    # 1: it shows that something is wrong.
    assert run(line, f"{SCHEME}://{path}") == (1 if line.startswith("status") else 0), capsys.readouterr().err
    assert capsys.readouterr().out
    assert tries == []


CHANGING = {
    *("topics create", "topics alter", "topics delete", "produce", "transactions abort"),
    *("transactions force-terminate", "groups delete", "groups delete-offsets", "groups remove-members"),
    *("expire", "maintain", "vacuum", "delete-records", "tables create", "tables publish", "tables drop"),
    *("copy", "backup", "restore", "backups list", "backups delete", "backups vacuum", "backups verify"),
    *("mirror in", "encryption rotate", "data move"),
    # Of a mirror: tests/extensions/mirror.
    *(
        "mirror offsets",
        "mirror out",
        "mirror sent",
        "mirror wait",
        "mirror group",
        "mirror checkpoint",
        "mirror check",
    ),
    "transactions resolve",
    "consume",  # It is a reader as any other: what it waits for and is past its timeout, it aborts.
    "clock",  # It makes an object to learn the store's time, and deletes it.
    *("ui", "tables versions"),  # Below.
}


def test_all_commands_that_look_are_tried():
    looked = {
        name for name in EXAMPLES for line in LOOKS if f"{line} ".startswith(f"{name.removesuffix(' list')} ")
    }
    assert {*EXAMPLES} - CHANGING == looked - CHANGING


def test_the_store_refuses_what_changes(path, tries, capsys):
    for line in ("transactions abort LOG --transactional-id billing", "expire LOG", "topics create LOG new"):
        assert run(line, f"{SCHEME}://{path}") == 1
        assert "STORE_PERMISSION" in capsys.readouterr().err
        assert tries
        tries.clear()


def test_lag_with_a_checkpoint(tmp_path, tries, capsys):
    world = World(tmp_path)
    world.commit(0, world.at(4, 0))
    before = files(tmp_path)
    out, source = (f"{SCHEME}://{tmp_path / name}" for name in ("out", "in"))
    assert main(["lag", out, source, "--checkpoint", str(world.checkpoint), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["records"] for one in lines if one["kind"] == "query"] == [6, 0]
    assert tries == []
    assert files(tmp_path) == before


def test_versions_of_tables(path, capsys):
    """Their libraries take folders and buckets alone."""
    before = files(path)
    assert run("tables versions LOG --name daily", path) == 0
    assert capsys.readouterr().out
    assert files(path) == before


def files(folder):
    return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in Path(folder).rglob("*")}


def test_top_on_a_screen(path, tries):
    async def look():
        watch = Watch(AnyLog.open(f"{SCHEME}://{path}"))
        app = Top(watch, watch.look(), 10_000.0)
        async with app.run_test(size=(120, 40)) as pilot:
            for key in ("1", "2", "3", "p", "s"):
                await pilot.press(key)
            await app.look()

    asyncio.run(look())
    assert tries == []


def test_served_metrics(path, tries):
    watch = LogWatch(f"{SCHEME}://{path}", by_partition=True)
    registry = CollectorRegistry()
    register(watch, registry=registry)
    watch.points(wait=True)
    text = generate_latest(registry).decode()
    assert "eoslog_transactions_late" in text
    assert "eoslog_maintenance_garbage_objects" in text
    assert tries == []


FIELDS = {
    "topic": {"topic": "orders"},
    "records": {"topic": "orders"},
    "record": {"topic": "orders", "partition": 0, "offset": 1},
    "key-partition": {"topic": "orders", "key": "k"},
    "group": {"group": "audit"},
    "query": {"query": "copy"},
    "abort": {"id": "billing", "producer": 1, "epoch": 0, "number": 0},
    "abort-outcome": {"id": "billing", "producer": 1, "epoch": 0, "number": 0},
    "entry": {"entry": 1},
    "entry-at": {"time": "2999-01-01"},
    "count-objects": {"do": "start"},
    "check-health": {"do": "start"},
}


@pytest.mark.parametrize("area", _READS)
def test_the_page(area, path, tries):
    follower = Follower(f"{SCHEME}://{path}")
    with TestClient(create_app([follower], Access()), base_url="http://localhost") as page:
        page.headers["x-csrf-token"] = page.get("/session").json()["csrf"]
        answer = page.post(f"/api/{area}", json=FIELDS.get(area, {}))
        expected = {"abort": {403}, "entry-at": {200, 400}}
        assert answer.status_code in expected.get(area, {200}), answer.text
        while area in {"count-objects", "check-health"} and page.post(
            f"/api/{'health' if area == 'check-health' else 'storage'}", json={}
        ).json().get("running", False):
            time.sleep(0.01)
    assert tries == []
    assert not {*follower.store.requests} - READS


# -- What it costs the store ------------------------------------------------------------------------


def viewers(url, number, events):
    """So many browsers at once, each until it has seen so many events; each asks for its view after every one."""

    def view():
        with httpx.Client(timeout=60) as http:
            token = {"x-csrf-token": http.get(f"{url}session").json()["csrf"]}
            with http.stream("GET", f"{url}events") as stream:
                seen = count(1)
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        for area in ("overview", "topics", "groups", "transactions"):
                            http.post(f"{url}api/{area}", json={}, headers=token).raise_for_status()
                        if next(seen) == events:
                            return

    threads = [threading.Thread(target=view) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bucket():
    """A store in memory that counts, whose requests count."""
    store = FaultyStore(MemoryStore())
    store.requests_are_free = False
    log = Log.create(store)
    Admin(log).create_topic("orders", 1)
    return store


@pytest.mark.deep("50")
@pytest.mark.parametrize("number", [1, 50])
def test_the_page_asks_the_store_once_for_each_poll(number):
    store, interval_s = bucket(), 0.2
    follower = Follower(store, interval_s=interval_s)
    server = Server([follower], Access())
    begun = time.monotonic()
    polls, before = follower.polls, len(store.journal)
    with ExitStack() as stack:
        thread = threading.Thread(target=server.run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.stop)
        viewers(server.url, number, 4)
    polls, took = follower.polls - polls, time.monotonic() - begun
    asked = store.journal[before:]
    assert 3 <= polls <= took / interval_s + 1
    # Besides, the overview looks once a minute, for all browsers, whether the log is maintained.
    looks = [one for one in asked if one.name.startswith("_log/snapshots/")]
    assert len(looks) <= 3
    assert len(asked) - len(looks) <= polls
    assert {one.operation for one in asked} - {one.operation for one in looks} == {"read"}


@pytest.mark.parametrize("number", [1, 50])
def test_metrics_ask_the_store_once_a_second(number):
    store, now = bucket(), [1000.0]
    watch = LogWatch(store, now=lambda: now[0], garbage_s=None)
    registry = CollectorRegistry()
    register(watch, registry=registry)
    watch.points(wait=True)
    before = len(store.journal)
    for _ in range(3):
        now[0] += 1.0
        threads = [threading.Thread(target=generate_latest, args=(registry,)) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one.operation for one in store.journal[before:]] == ["read"] * 3


def test_top_asks_the_store_once_for_each_refresh():
    store = bucket()
    watch = Watch(Log.open(store))
    watch.look()
    before = len(store.journal)
    for _ in range(5):
        watch.look()
    assert [one.operation for one in store.journal[before:]] == ["read"] * 5
