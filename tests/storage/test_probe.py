"""`probe`: fit stores pass, each way to be unfit is told."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from spark_eos.errors import (
    ObjectExistsError,
    OutcomeUnknownError,
    StoreFullError,
    StoreUnavailableError,
    UnsupportedStoreError,
)
from spark_eos.storage import MemoryStore, PosixStore, Store, probe
from spark_eos.storage.store import Data
from spark_eos.testing import Fault, FaultyStore


def test_fit_stores_pass_and_keep_nothing(tmp_path: Path) -> None:
    stores: list[Store] = [MemoryStore(), PosixStore(tmp_path)]
    for store in stores:
        store.create("theirs", b"1")
        probe(store)
        probe(store)
        assert [info.name for info in store.list("")] == ["theirs"]


def test_free_names_may_be_refused_now_and_then() -> None:
    store = FaultyStore(MemoryStore())
    store.inject(ObjectExistsError("conflict"), "create", times=2)
    probe(store)
    assert not [*store.list("")]


def test_a_store_that_refuses_free_names_is_unfit() -> None:
    store = FaultyStore(MemoryStore())
    store.inject(ObjectExistsError("conflict"), "create", times=None)
    with pytest.raises(UnsupportedStoreError, match="refuses names that are free"):
        probe(store)


class Overwriting(MemoryStore):
    def create(self, name: str, data: Data) -> None:
        self.overwrite(name, data)


class Ignoring(MemoryStore):
    def create(self, name: str, data: Data) -> None:
        with suppress(ObjectExistsError):
            super().create(name, data)


class RefusingTooLate(MemoryStore):
    def create(self, name: str, data: Data) -> None:
        try:
            super().create(name, data)
        except ObjectExistsError:
            self.overwrite(name, data)
            raise


class Forgetting(MemoryStore):
    def create(self, name: str, data: Data) -> None:
        pass


class Losing(MemoryStore):
    def create(self, name: str, data: Data) -> None:
        super().create(name, bytes(memoryview(data))[:-1])


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (Overwriting(), "created twice"),
        (Ignoring(), "created twice"),
        (RefusingTooLate(), "changed the object"),
        (Forgetting(), "does not hold its bytes"),
        (Losing(), "does not hold its bytes"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Store) else None,
)
def test_unfit_stores_are_told(store: Store, problem: str) -> None:
    with pytest.raises(UnsupportedStoreError, match=problem) as caught:
        probe(store)
    assert store.url in str(caught.value)
    assert "Use a folder" in str(caught.value)
    assert [*store.list("")] == []


def test_a_create_sent_twice_by_a_library_is_no_fault() -> None:
    store = FaultyStore(MemoryStore())
    store.inject(Fault.DUPLICATE)
    probe(store)
    assert [*store.list("")] == []


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.FAIL_BEFORE, StoreUnavailableError),
        (Fault.FAIL_AFTER, OutcomeUnknownError),
        (StoreFullError("full"), StoreFullError),
    ],
)
def test_a_store_that_cannot_be_asked_is_not_judged(
    fault: Fault | BaseException, error: type[Exception], skip: int
) -> None:
    store = FaultyStore(MemoryStore())
    store.inject(fault, skip=skip)
    with pytest.raises(error):
        probe(store)
    assert [*store.list("")] == []


def test_a_probe_that_cannot_be_deleted_does_not_hide_the_verdict() -> None:
    good = FaultyStore(MemoryStore())
    good.inject(Fault.FAIL_BEFORE, "delete")
    probe(good)
    bad = FaultyStore(Overwriting())
    bad.inject(Fault.FAIL_BEFORE, "delete")
    with pytest.raises(UnsupportedStoreError):
        probe(bad)
