"""A store as if far away: what it counts, and that it is a store like any other."""

from __future__ import annotations

import pytest

from benchmarks.remote import writers
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.store import Store
from spark_eos.testing.store_contract import StoreContract
from verification import remote_store
from verification.latency import Delay, Latency
from verification.remote_store import RemoteStore, Request


class TestContract(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return RemoteStore(MemoryStore())


def test_every_call_is_a_request():
    store = RemoteStore(MemoryStore())
    store.create("a", b"1")
    with store.upload("b") as file:
        file.write(b"2")
    store.read("a")
    store.size("a")
    store.ensure_durable("a")
    store.retire("a")
    store.overwrite("b", b"3")
    store.delete("b")
    assert store.requests == [
        *(Request("PUT", "a"), Request("PUT", "b"), Request("GET", "a"), Request("HEAD", "a")),
        *(Request("PUT", "a"), Request("PUT", "b"), Request("DELETE", "b")),
    ]
    assert store.counts == {"PUT": 4, "GET": 1, "HEAD": 1, "DELETE": 1}
    store.clear()
    assert store.counts == {}


@pytest.mark.parametrize(("names", "pages"), [(0, 1), (3, 1), (4, 2), (7, 3)])
def test_a_listing_is_a_request_for_each_page(monkeypatch, names, pages):
    monkeypatch.setattr(remote_store, "PAGE", 3)
    store = RemoteStore(MemoryStore())
    for number in range(names):
        store.inner.create(f"{number}", b"")
    assert len([*store.list("")]) == names
    assert store.counts == {"LIST": pages}


def test_nothing_is_local_and_nothing_known_to_be_ones_own():
    store = RemoteStore(MemoryStore())
    assert (store.inner.requests_are_free, store.inner.has_exact_conflicts) == (True, True)
    assert (store.requests_are_free, store.has_exact_conflicts) == (False, False)


def test_requests_take_as_long_as_they_are_said_to(monkeypatch):
    waits = []
    monkeypatch.setattr(remote_store.time, "sleep", waits.append)
    store = RemoteStore(MemoryStore(), Latency({"PUT": Delay(1.0, 2.0)}, seed=1))
    store.create("a", b"")
    store.read("a")
    expected = Latency({"PUT": Delay(1.0, 2.0)}, seed=1).draw("PUT")
    assert waits == pytest.approx([expected / 2, expected / 2, 0, 0])


@pytest.mark.deep("1")
@pytest.mark.parametrize("handles", [1, 3])
def test_the_benchmark_counts_what_its_writers_do(handles):
    found = writers(3, 1.0, handles=handles, scale=0.01)
    assert found.commits == len(found.took) > 0
    # A file for each, and the entries that they share.
    assert found.commits + 1 <= found.requests["PUT"] < 2.5 * found.commits
