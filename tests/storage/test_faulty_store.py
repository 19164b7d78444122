"""`FaultyStore`: transparent without faults, and each fault does what it says."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from spark_eos.errors import (
    ConfigError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
)
from spark_eos.storage import MemoryStore, Store
from spark_eos.testing import Call, Fault, FaultyStore
from spark_eos.testing.store_contract import StoreContract


class TestFaultyStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FaultyStore(MemoryStore())


@pytest.fixture
def faulty() -> FaultyStore:
    return FaultyStore(MemoryStore())


def upload(store: Store, name: str, data: bytes) -> None:
    with store.upload(name) as file:
        file.write(data)


WRITES: list[tuple[str, Callable[[Store, str, bytes], None]]] = [
    ("create", lambda store, name, data: store.create(name, data)),
    ("upload", upload),
]


@pytest.mark.parametrize(("operation", "write"), WRITES, ids=["create", "upload"])
class TestFaultsOfCreates:
    def test_fail_before(self, faulty: FaultyStore, operation: str, write: Callable[..., None]) -> None:
        faulty.inject(Fault.FAIL_BEFORE, operation)
        with pytest.raises(StoreUnavailableError, match=operation):
            write(faulty, "a", b"1")
        assert [*faulty.inner.list("")] == []
        write(faulty, "a", b"2")
        assert faulty.read("a").to_pybytes() == b"2"

    def test_fail_after(self, faulty: FaultyStore, operation: str, write: Callable[..., None]) -> None:
        faulty.inject(Fault.FAIL_AFTER, operation, times=2)
        for data in (b"1", b"2"):  # the second one is refused, but that reply is lost too
            with pytest.raises(OutcomeUnknownError):
                write(faulty, "a", data)
        assert faulty.read("a").to_pybytes() == b"1"

    def test_lost(self, faulty: FaultyStore, operation: str, write: Callable[..., None]) -> None:
        faulty.inject(Fault.LOST, operation)
        with pytest.raises(OutcomeUnknownError):
            write(faulty, "a", b"1")
        assert faulty.release() == []
        assert [*faulty.inner.list("")] == []

    def test_delayed(self, faulty: FaultyStore, operation: str, write: Callable[..., None]) -> None:
        faulty.inject(Fault.DELAYED, operation, times=3)
        data = bytearray(b"1")
        for name in ("a", "b", "c"):
            with pytest.raises(OutcomeUnknownError):
                write(faulty, name, data)
        data[:] = b"2"
        assert [*faulty.inner.list("")] == []
        assert faulty.delayed == [(operation, "a"), (operation, "b"), (operation, "c")]
        write(faulty, "b", b"overtakes")
        assert faulty.release("a") == [None]
        assert faulty.read("a").to_pybytes() == b"1"
        late_b, late_c = faulty.release()
        assert isinstance(late_b, ObjectExistsError)
        assert late_c is None
        assert faulty.read("b").to_pybytes() == b"overtakes"
        assert faulty.delayed == []
        assert faulty.release() == []

    def test_duplicate(self, faulty: FaultyStore, operation: str, write: Callable[..., None]) -> None:
        faulty.inject(Fault.DUPLICATE, operation)
        with pytest.raises(ObjectExistsError):
            write(faulty, "a", b"1")
        assert faulty.read("a").to_pybytes() == b"1"

    @pytest.mark.parametrize(
        "error", [StoreFullError("no space"), StorePermissionError("denied"), KeyboardInterrupt()]
    )
    def test_any_exception(
        self, faulty: FaultyStore, operation: str, write: Callable[..., None], error: BaseException
    ) -> None:
        faulty.inject(error, operation)
        with pytest.raises(type(error)) as caught:
            write(faulty, "a", b"1")
        assert caught.value is error
        assert [*faulty.inner.list("")] == []


def test_faults_of_other_changes(faulty: FaultyStore) -> None:
    faulty.create("a", b"1")
    faulty.inject(Fault.FAIL_AFTER, "delete")
    with pytest.raises(OutcomeUnknownError):
        faulty.delete("a")
    assert [*faulty.inner.list("")] == []
    faulty.create("a", b"1")
    faulty.inject(Fault.DELAYED, "overwrite")
    with pytest.raises(OutcomeUnknownError):
        faulty.overwrite("a", b"")
    assert faulty.size("a") == 1
    assert faulty.release() == [None]
    assert faulty.size("a") == 0


def test_faults_of_reads(faulty: FaultyStore) -> None:
    faulty.create("a", b"1")
    calls: list[tuple[str, Callable[[], object]]] = [
        ("read", lambda: faulty.read("a")),
        ("size", lambda: faulty.size("a")),
        ("list", lambda: faulty.list("")),
    ]
    for operation, call in calls:
        faulty.inject(Fault.FAIL_BEFORE, operation)
        with pytest.raises(StoreUnavailableError):
            call()
        call()
        for fault in set(Fault) - {Fault.FAIL_BEFORE}:
            with pytest.raises(ConfigError, match=operation):
                faulty.inject(fault, operation)
    with pytest.raises(ConfigError, match="overwrite"):
        faulty.inject(Fault.LOST, "*")
    with pytest.raises(ConfigError, match="no operation"):
        faulty.inject(Fault.FAIL_BEFORE, "put")


def test_patterns_skip_times_and_heal(faulty: FaultyStore) -> None:
    faulty.inject(Fault.FAIL_BEFORE, "create", "_log/*.avro", skip=1, times=2)
    faulty.inject(StoreFullError("full"), "create", "data/*", times=None)

    def outcome(name: str) -> str:
        try:
            faulty.create(name, b"1")
        except (StoreUnavailableError, StoreFullError) as error:
            return type(error).__name__
        return "done"

    assert [outcome(f"_log/{i}.avro") for i in range(5)] == [
        "done",
        *["StoreUnavailableError"] * 2,
        "done",
        "done",
    ]
    assert [outcome(f"data/x/{i}") for i in range(3)] == ["StoreFullError"] * 3
    assert outcome("other") == "done"
    upload(faulty, "data/upload", b"1")
    faulty.inject(Fault.DELAYED, "create", "late")
    with pytest.raises(OutcomeUnknownError):
        faulty.create("late", b"1")
    faulty.heal()
    assert outcome("data/x/0") == "done"
    assert faulty.release() == [None], "what is delayed stays so"


def test_journal_and_count(faulty: FaultyStore) -> None:
    faulty.inject(Fault.FAIL_AFTER, name="b")
    faulty.create("a", b"1")
    with pytest.raises(OutcomeUnknownError):
        faulty.create("b", b"1")
    with pytest.raises(ObjectNotFoundError):
        faulty.read("c/d")
    assert [*faulty.list("c/")] == []
    assert faulty.journal == [
        Call("create", "a", None),
        Call("create", "b", OutcomeUnknownError),
        Call("read", "c/d", ObjectNotFoundError),
        Call("list", "c/", None),
    ]
    assert (faulty.count(), faulty.count("create"), faulty.count(name="c/*"), faulty.count("size")) == (
        4,
        2,
        2,
        0,
    )


class Killed(BaseException):
    """Not an ``Exception``: nothing on the way may catch it."""


def test_hooks_can_kill_before_and_after(faulty: FaultyStore) -> None:
    seen: list[tuple[str, str, str]] = []

    def hook(when: str) -> Callable[[str, str], None]:
        def note(operation: str, name: str) -> None:
            seen.append((when, operation, name))
            if name == f"die {when}":
                raise Killed

        return note

    faulty.before, faulty.after = hook("before"), hook("after")
    for name in ("die before", "die after"):
        with pytest.raises(Killed):
            faulty.create(name, b"1")
    assert [info.name for info in faulty.inner.list("")] == ["die after"]
    with pytest.raises(ObjectExistsError):
        faulty.create("die after", b"2")
    assert seen == [
        ("before", "create", "die before"),
        ("before", "create", "die after"),
        ("after", "create", "die after"),
        ("before", "create", "die after"),
    ]


def test_hooks_can_interleave(faulty: FaultyStore) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def wait(operation: str, name: str) -> None:
        if (operation, name) == ("create", "slot") and threading.current_thread() is slow:
            arrived.set()
            assert go_on.wait(60)

    lost: list[str] = []

    def create() -> None:
        try:
            faulty.create("slot", b"slow")
        except ObjectExistsError:
            lost.append("slow")

    slow = threading.Thread(target=create)
    faulty.before = wait
    slow.start()
    assert arrived.wait(60)
    faulty.create("slot", b"fast")
    go_on.set()
    slow.join()
    assert lost == ["slow"]
    assert faulty.read("slot").to_pybytes() == b"fast"


def test_it_passes_for_its_inner_store(faulty: FaultyStore) -> None:
    assert faulty.url == faulty.inner.url
    assert faulty.requests_are_free is faulty.inner.requests_are_free is True


def test_pytest_is_not_needed_to_import_it() -> None:
    code = "import sys; sys.modules['pytest'] = None; import spark_eos.testing, spark_eos.storage"
    subprocess.run([sys.executable, "-c", code], check=True)
