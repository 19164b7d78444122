"""The part of `StoreContract` that is about uploads."""
# ruff: noqa: PT012  (an upload is more than one statement)

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.errors import ObjectExistsError, ObjectNotFoundError
from spark_eos.storage.store import Store

LARGE = 5 * 1024 * 1024 + 17
"""Bytes of a large object: more than any buffer on the way, and no round number."""

UPLOAD_END = "stop"


def contents(store: Store, prefix: str = "") -> dict[str, int]:
    """Names and sizes of what ``store`` lists, each name once."""
    infos = [*store.list(prefix)]
    names = {info.name: info.size for info in infos}
    assert len(names) == len(infos)
    return names


class UploadContract:
    """The contract of `Store.upload`, test by test."""

    def test_upload_is_visible_only_at_the_end(self, store: Store) -> None:
        with store.upload("a/b") as file:
            written = [
                file.write(b"one "),
                file.write(memoryview(b"two ")),
                file.write(pa.py_buffer(b"three")),
            ]
            assert written == [4, 4, 5]
            assert file.tell() == 13
            assert contents(store) == {}
            with pytest.raises(ObjectNotFoundError):
                store.read("a/b")
            with pytest.raises(ObjectNotFoundError):
                store.size("a/b")
        assert store.read("a/b").to_pybytes() == b"one two three"
        assert contents(store) == {"a/b": 13}

    def test_upload_large_in_pieces_of_all_sizes(self, store: Store) -> None:
        pieces = [bytes([i % 251]) * (i * 7919 % 200_003) for i in range(60)] + [b"z" * LARGE, b"", b"end"]
        with store.upload("large") as file:
            for piece in pieces:
                file.write(piece)
        assert store.read("large").to_pybytes() == b"".join(pieces)

    def test_upload_of_nothing(self, store: Store) -> None:
        with store.upload("empty"):
            pass
        assert store.read("empty").to_pybytes() == b""

    def test_upload_is_discarded_on_an_exception(self, store: Store) -> None:
        with pytest.raises(RuntimeError, match=UPLOAD_END), store.upload("a") as file:
            file.write(b"half" * 1_000_000)
            raise RuntimeError(UPLOAD_END)
        assert contents(store) == {}
        store.create("a", b"free")
        assert store.read("a").to_pybytes() == b"free"

    def test_upload_is_discarded_on_an_interrupt(self, store: Store) -> None:
        with pytest.raises(KeyboardInterrupt), store.upload("a") as file:
            file.write(b"half")
            raise KeyboardInterrupt
        assert contents(store) == {}

    def test_upload_refuses_an_existing_name(self, store: Store) -> None:
        store.create("a", b"first")
        with pytest.raises(ObjectExistsError), store.upload("a") as file:
            file.write(b"second")
        assert store.read("a").to_pybytes() == b"first"

    def test_upload_refuses_a_name_taken_meanwhile(self, store: Store) -> None:
        with pytest.raises(ObjectExistsError), store.upload("a") as file:
            file.write(b"slow")
            store.create("a", b"fast")
        assert store.read("a").to_pybytes() == b"fast"

    def test_upload_takes_nothing_after_its_end(self, store: Store) -> None:
        with store.upload("a") as file:
            file.write(b"in time")
        with pytest.raises(ValueError, match="ended"):
            file.write(b"too late")
        assert store.read("a").to_pybytes() == b"in time"

    def test_arrow_can_write_into_an_upload(self, store: Store) -> None:
        table = pa.table({"n": range(100_000), "s": ["x"] * 100_000})
        with store.upload("t.arrow") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=10_000)
        assert pa.ipc.open_file(store.read("t.arrow")).read_all().equals(table)

    def test_a_wrapper_that_closes_the_file_ends_nothing(self, store: Store) -> None:
        with store.upload("a") as file:
            with pa.PythonFile(file, mode="w") as wrapper:
                wrapper.write(b"wrapped")
            assert contents(store) == {}
        assert store.read("a").to_pybytes() == b"wrapped"
