"""What every store must do, as tests: subclass `StoreContract` and give it a ``store`` fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)

The fixture returns a new and empty store for each test. For telling failures, put
``pytest.register_assert_rewrite("spark_eos.testing.store_contract")`` into a ``conftest.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from spark_eos.errors import EosLogError, InvalidRequestError, ObjectExistsError, ObjectNotFoundError
from spark_eos.storage.store import Data, ObjectInfo, Store
from spark_eos.testing.upload_contract import LARGE, UploadContract, contents

THREADS = 8

LEGAL_NAMES = [
    "a",
    "_log/00000000000000000042.avro",
    "data/topic-1/date=2026-01-31/part 1.arrow",
    "data/größe/数据/\N{PILE OF POO}.arrow",
    "100%/%2Fplain%20text/?q=1#frag&x;y",
    "..hidden/...",
    "-rf",
    "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
    "x" * 255,
    "tmp/_tmp/x",
    "_tmpx/y",
    "back\\slash/'quotes\"/*?[a]",
]

ILLEGAL_NAMES = [
    "",
    "/",
    "/etc/passwd",
    "a/",
    "a//b",
    ".",
    "./a",
    "a/.",
    "..",
    "../a",
    "a/../b",
    "a\0b",
    "_tmp",
    "_tmp/a",
    "x" * 256,
    "/".join(["x" * 200] * 6),
    "\udc80",
]


class StoreContract(UploadContract):
    """The contract of `Store`, test by test."""

    # -- Create -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "data",
        [
            b"bytes",
            bytearray(b"bytearray"),
            memoryview(b"-memoryview-")[1:-1],
            pa.py_buffer(b"buffer"),
            b"",
            b"\0",
        ],
        ids=["bytes", "bytearray", "memoryview", "buffer", "empty", "nul"],
    )
    def test_create_holds_the_bytes(self, store: Store, data: Data) -> None:
        store.create("a/b", data)
        assert store.read("a/b").to_pybytes() == bytes(memoryview(data))
        assert store.size("a/b") == len(bytes(memoryview(data)))

    def test_create_keeps_the_bytes_of_that_moment(self, store: Store) -> None:
        data = bytearray(b"before")
        store.create("a", data)
        data[:] = b"behind"
        assert store.read("a").to_pybytes() == b"before"

    def test_create_refuses_a_second_one(self, store: Store) -> None:
        store.create("a", b"first")
        for data in (b"second", b"first", b""):
            with pytest.raises(ObjectExistsError, match="a"):
                store.create("a", data)
        assert store.read("a").to_pybytes() == b"first"

    def test_create_refuses_a_second_one_even_of_nothing(self, store: Store) -> None:
        store.create("a", b"")
        with pytest.raises(ObjectExistsError):
            store.create("a", b"second")
        assert store.size("a") == 0

    def test_create_large(self, store: Store) -> None:
        data = bytes(range(251)) * (LARGE // 251 + 1)
        store.create("large", data)
        assert store.size("large") == len(data)
        assert store.read("large").to_pybytes() == data

    def test_concurrent_creates_have_one_winner(self, store: Store) -> None:
        for turn in range(20):
            name = f"slot/{turn}"
            outcomes = together(lambda i, name=name: store.create(name, b"%d" % i * 1000))  # type: ignore[misc]
            winners = [i for i, error in enumerate(outcomes) if error is None]
            assert len(winners) == 1
            assert store.read(name).to_pybytes() == b"%d" % winners[0] * 1000
            assert {type(error) for error in outcomes} == {type(None), ObjectExistsError}

    def test_create_and_upload_of_one_name_have_one_winner(self, store: Store) -> None:
        def write(i: int, name: str) -> None:
            if i % 2:
                store.create(name, b"%d" % i)
            else:
                with store.upload(name) as file:
                    file.write(b"%d" % i)

        for turn in range(5):
            name = f"slot/{turn}"
            outcomes = together(lambda i, name=name: write(i, name))  # type: ignore[misc]
            assert store.read(name).to_pybytes() == b"%d" % outcomes.index(None)
            assert outcomes.count(None) == 1

    def test_an_object_is_whole_as_soon_as_it_is_there(self, store: Store) -> None:
        size = 1 << 20
        sizes: set[int] = set()
        written = threading.Event()

        def write() -> None:
            try:
                for turn in range(10):
                    store.create(f"{turn}", bytes(size))
            finally:
                written.set()

        def watch() -> None:
            last = False
            while not last:
                last = written.is_set()
                for name in contents(store):
                    sizes.update({store.size(name), store.read(name).size})

        assert not any(together(lambda i: watch() if i else write(), threads=2))
        assert sizes == {size}
        assert len(contents(store)) == 10

    # -- Read -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [
            (0, None, b"0123456789"),
            (3, None, b"3456789"),
            (0, 10, b"0123456789"),
            (2, 3, b"234"),
            (9, 1, b"9"),
            (0, 0, b""),
            (5, 0, b""),
            (7, 100, b"789"),
            (0, 1 << 40, b"0123456789"),
            (10, None, b""),
            (10, 5, b""),
            (11, None, b""),
            (1 << 40, 1 << 40, b""),
        ],
    )
    def test_ranges_are_clipped(self, store: Store, offset: int, length: int | None, expected: bytes) -> None:
        store.create("digits", b"0123456789")
        buffer = store.read("digits", offset, length)
        assert isinstance(buffer, pa.Buffer)
        assert buffer.to_pybytes() == expected

    def test_negative_ranges_are_refused(self, store: Store) -> None:
        store.create("a", b"0123")
        for offset, length in ((-1, None), (0, -1), (-2, 1)):
            with pytest.raises(InvalidRequestError, match="negative"):
                store.read("a", offset, length)

    def test_what_was_read_outlives_the_object(self, store: Store) -> None:
        store.create("a", b"kept")
        buffer = store.read("a", 1)
        store.overwrite("a", b"new!")
        store.delete("a")
        assert buffer.to_pybytes() == b"ept"

    def test_missing_objects(self, store: Store) -> None:
        store.create("there", b"1")
        for name in ("missing", "missing/below", "there/below"):
            with pytest.raises(ObjectNotFoundError, match=name):
                store.read(name)
            with pytest.raises(ObjectNotFoundError, match=name):
                store.size(name)

    def test_a_folder_of_objects_is_no_object(self, store: Store) -> None:
        store.create("folder/a", b"1")
        with pytest.raises(ObjectNotFoundError):
            store.read("folder")
        with pytest.raises(ObjectNotFoundError):
            store.size("folder")
        store.delete("folder")
        assert contents(store) == {"folder/a": 1}

    # -- List -------------------------------------------------------------------------------------------

    def test_list_by_prefix(self, store: Store) -> None:
        sizes = {"a": 1, "ab/c": 2, "ab/cd/e": 3, "ab/x": 4, "abc": 5, "b/ab/c": 6, "empty": 0}
        for name, size in sizes.items():
            store.create(name, bytes(size))
        prefixes = [
            "",
            "a",
            "ab",
            "ab/",
            "ab/c",
            "ab/cd",
            "ab/cd/",
            "ab/cd/e",
            "b",
            "z",
            "a/",
            "z/z/",
            "ab/cd/e/",
        ]
        for prefix in prefixes:
            expected = {name: size for name, size in sizes.items() if name.startswith(prefix)}
            assert contents(store, prefix) == expected

    def test_the_next_name(self, store: Store) -> None:
        for name in ("a/1", "a/2/0", "a/3", "b/0"):
            store.create(name, b"1")
        places = [
            ("a/", "a/1"),
            ("a/", "a/10"),
            ("a/", "a/2/0"),
            ("a/", "a/3"),
            ("b/", "a/3"),
            ("a", "a"),
            ("z/", "z/0"),
        ]
        names = [store.next_name(prefix, after) for prefix, after in places]
        assert names == ["a/2/0", "a/2/0", "a/3", None, "b/0", "a/1", None]

    def test_settle_keeps_an_object_as_it_is(self, store: Store) -> None:
        store.create("a/b", b"123")
        store.ensure_durable("a/b")
        assert store.read("a/b") == b"123"

    def test_list_gives_names_and_sizes(self, store: Store) -> None:
        store.create("a/b", b"123")
        assert [*store.list("")] == [ObjectInfo("a/b", 3)]

    def test_an_age_is_told_by_the_store_and_leaves_nothing_behind(self, store: Store) -> None:
        with pytest.raises(ObjectNotFoundError):
            store.age_s("a")
        store.create("a", b"1")
        store.create("empty", b"")
        age = store.age_s("a")
        assert age is None or 0 <= age < 3600
        assert store.age_s("empty") is None
        assert contents(store) == {"a": 1, "empty": 0}

    def test_list_of_an_empty_store(self, store: Store) -> None:
        assert contents(store) == {}

    @pytest.mark.parametrize("prefix", ["/", "/a", "../", "a/../b", "..", "a//"])
    def test_list_refuses_illegal_prefixes(self, store: Store, prefix: str) -> None:
        with pytest.raises(InvalidRequestError):
            store.list(prefix)

    def test_list_shows_nothing_temporary(self, store: Store) -> None:
        store.create("first", b"1")
        with store.upload("second") as file:
            file.write(b"2" * LARGE)
            for prefix in ("", "_", "_tmp", "_tmp/"):
                assert contents(store, prefix) == ({} if prefix else {"first": 1})
        with pytest.raises(ObjectExistsError):
            store.create("first", b"again")
        store.overwrite("first", b"")
        assert contents(store) == {"first": 0, "second": LARGE}
        assert contents(store, "_tmp") == {}

    # -- Delete and overwrite ---------------------------------------------------------------------------

    def test_delete_is_idempotent(self, store: Store) -> None:
        store.create("a/b", b"1")
        store.create("a/c", b"2")
        for name in ("a/b", "a/b", "never/there", "a/c/below"):
            store.delete(name)
        assert contents(store) == {"a/c": 1}
        with pytest.raises(ObjectNotFoundError):
            store.read("a/b")

    def test_a_deleted_name_is_free(self, store: Store) -> None:
        store.create("a", b"1")
        store.delete("a")
        store.create("a", b"2")
        assert store.read("a").to_pybytes() == b"2"

    def test_overwrite(self, store: Store) -> None:
        store.create("a/b", b"old and longer")
        for data in (b"new", b"", b"", bytes(LARGE), b"x"):
            store.overwrite("a/b", data)
            assert store.read("a/b").to_pybytes() == data
        assert contents(store) == {"a/b": 1}

    def test_an_overwritten_name_stays_taken(self, store: Store) -> None:
        for name in ("a", "b"):
            store.create(name, b"entry")
            store.overwrite(name, b"")
            with pytest.raises(ObjectExistsError):
                store.create(name, b"again")
        assert contents(store) == {"a": 0, "b": 0}

    def test_objects_overwritten_with_nothing_are_still_apart(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            store.create(name, b"entry")
            store.overwrite(name, b"")
        store.overwrite("a", b"alone")
        store.delete("b")
        assert contents(store) == {"a": 5, "c": 0}

    def test_overwrite_of_a_missing_object_makes_it(self, store: Store) -> None:
        store.overwrite("a/b", b"1")
        assert store.read("a/b").to_pybytes() == b"1"

    # -- Names ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", LEGAL_NAMES)
    def test_legal_names(self, store: Store, name: str) -> None:
        store.create(name, b"1")
        assert contents(store) == {name: 1}
        assert contents(store, name) == {name: 1}
        assert store.read(name).to_pybytes() == b"1"
        with store.upload(name + "2" if len(name) < 255 else "other") as file:
            file.write(b"2")
        store.overwrite(name, b"22")
        assert store.size(name) == 2
        store.delete(name)
        assert len(contents(store)) == 1

    @pytest.mark.parametrize("name", ILLEGAL_NAMES)
    def test_illegal_names(self, store: Store, name: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.create(name, b"1"),
            lambda: store.upload(name).__enter__(),
            lambda: store.read(name),
            lambda: store.size(name),
            lambda: store.delete(name),
            lambda: store.overwrite(name, b"1"),
        ]
        for call in calls:
            with pytest.raises(InvalidRequestError):
                call()
        assert contents(store) == {}

    def test_it_has_a_url(self, store: Store) -> None:
        assert store.url


def together(work: Callable[[int], None], threads: int = THREADS) -> list[EosLogError | None]:
    """Run ``work(0)``, ``work(1)``, … at the same time; what each raised, or None; other errors come out."""
    barrier = threading.Barrier(threads)

    def run(i: int) -> EosLogError | None:
        barrier.wait()
        try:
            work(i)
        except EosLogError as error:
            return error
        return None

    with ThreadPoolExecutor(threads) as pool:
        return [*pool.map(run, range(threads))]
