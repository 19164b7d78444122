"""`MemoryStore`: the contract, and what its names share."""

from __future__ import annotations

import pytest

from spark_eos.errors import ObjectNotFoundError
from spark_eos.storage import MemoryStore, Store
from spark_eos.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


def test_stores_of_one_name_share_their_objects() -> None:
    MemoryStore("test-shared").create("a", b"1")
    assert MemoryStore("test-shared").read("a").to_pybytes() == b"1"
    with pytest.raises(ObjectNotFoundError, match="memory://test-other"):
        MemoryStore("test-other").read("a")


def test_private_stores_share_nothing_and_leave_nothing() -> None:
    first, second = MemoryStore(), MemoryStore()
    first.create("a", b"1")
    assert first.url != second.url
    assert [*second.list("")] == []
    url = first.url
    assert MemoryStore(url.removeprefix("memory://")).read("a").to_pybytes() == b"1"


def test_a_private_store_goes_with_its_last_user() -> None:
    store = MemoryStore()
    store.create("a", b"1")
    name = store.url.removeprefix("memory://")
    del store
    assert [*MemoryStore(name).list("")] == []


def test_what_takes_the_place_of_an_object_has_another_identity() -> None:
    store = MemoryStore()
    seen = set()
    for number in range(1000):
        store.create("a", b"%d" % number)
        seen.add(store.identity("a"))
        assert store.identity("a") in seen
        store.delete("a")
    assert len(seen) == 1000
