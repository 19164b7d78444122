"""One damaged file in a log, and what a reader and writer of the log makes of it."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_eos.config.compression import Compression
from spark_eos.errors import (
    CorruptRecordError,
    NotALogError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedVersionError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage.store import Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import UploadFile
from tests.golden.make import GOLDEN
from tests.golden.seen import seen
from tests.log.fakes import FakeClock

FULL = os.environ.get("SPARK_EOS_CORRUPTION") == "full"
"""Every byte of every file, not a sample: many minutes (``pytest -s -o faulthandler_timeout=0``)."""

CLEAR = (CorruptRecordError, UnsupportedVersionError, NotALogError, StorageError)
"""What a damage may be reported as, with the name of the file."""

MOST_CALLS = 2000
"""Of the store, for one open, read and commit: the undamaged logs need some 200."""


@dataclass(frozen=True)
class Damage:
    """What happens to one byte of a file: its ``bit`` flips, it is removed or doubled, or the file ends there."""

    kind: str
    file: str
    position: int = 0
    bit: int = 0

    def of(self, data: bytes) -> bytes | None:
        """The damaged bytes; None if the file is gone."""
        at = self.position
        if self.kind == "flipped":
            return data[:at] + bytes([data[at] ^ 1 << self.bit]) + data[at + 1 :]
        if self.kind == "removed":
            return data[:at] + data[at + 1 :]
        if self.kind == "doubled":
            return data[: at + 1] + data[at:]
        return data[:at] if self.kind == "cut" else None


class FilesStore(Store):
    """Files in memory, over shared ones that stay as they are; too many calls are an error."""

    requests_are_free = True

    def __init__(self, files: dict[str, bytes], changed: dict[str, bytes | None]) -> None:
        self.url = "files://"
        self._files = files
        self._changed = changed
        self._calls = 0

    def _find(self, name: str) -> bytes | None:
        self._calls += 1
        assert self._calls < MOST_CALLS, "an endless loop"
        return self._changed[name] if name in self._changed else self._files.get(name)

    def create(self, name: str, data: Data) -> None:
        if self._find(name) is not None:
            raise ObjectExistsError(name)
        self._changed[name] = bytes(memoryview(data))

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        return self._upload(name)

    @contextmanager
    def _upload(self, name: str) -> Iterator[Upload]:
        body = bytearray()
        with UploadFile(body.extend) as file:
            yield file
            file.finish()
        self.create(name, body)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        data = self._find(name)
        if data is None:
            raise ObjectNotFoundError(f"{name}: there is no such object")
        return pa.py_buffer(data[offset : None if length is None else offset + length])

    def size(self, name: str) -> int:
        return self.read(name).size

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for name in {*self._files, *self._changed}:
            data = self._find(name)
            if data is not None and name.startswith(prefix):
                yield ObjectInfo(name, len(data))

    def delete(self, name: str) -> None:
        self._changed[name] = None

    def overwrite(self, name: str, data: Data) -> None:
        self._changed[name] = bytes(memoryview(data))


def behave(files: dict[str, bytes], changed: dict[str, bytes | None], topic: str = "events") -> Any:
    """All that can be seen of a log: when it is opened, and when it was written on and is opened again."""
    clock = FakeClock()
    store = FilesStore(files, dict(changed))
    log = Log.open(store, clock=clock)
    before = seen(log)
    at = log.topic(topic)
    with log.stage(at) as writer:
        writer.append(pa.table({"value": [b"new"]}), 0)
        staged = writer.finish()
    committed = log.commit(lambda _: (AppendBatches(NO_PRODUCER, ((at.name, at.topic_id),), staged),))
    return before, committed.seq, seen(Log.open(store, clock=clock))


def outcome(files: dict[str, bytes], damage: Damage, expected: Any) -> str:
    """``"as before"``, or the name of a clear error; everything else is raised."""
    try:
        found = behave(files, {damage.file: damage.of(files[damage.file])})
    except CLEAR as error:
        if Path(damage.file).name not in str(error):
            raise AssertionError(f"{damage}: {error!r} does not name the file") from error
        return type(error).__name__
    assert found == expected, f"{damage}: not noticed"
    return "as before"


def damages(files: dict[str, bytes], name: str, sample: int) -> Iterator[Damage]:
    """Every damage of a file, or those of its first and last bytes and ``sample`` more of each kind."""
    size = len(files[name])
    chance = random.Random(name)  # the same each time
    yield Damage("gone", name)
    for kind in ("flipped", "removed", "doubled", "cut"):
        if FULL:
            positions = list(range(size))
        else:
            edges = (
                [*range(min(22, size)), *range(max(size - 10, 0), size)]
                if kind == "flipped"
                else [0, size - 1]
            )
            positions = sorted({*edges, *chance.sample(range(size), min(sample, size))})
        for position in positions:
            if kind == "flipped" and FULL and size < 150:
                for bit in range(8):
                    yield Damage(kind, name, position, bit)
            else:
                yield Damage(kind, name, position, chance.randrange(8) if kind == "flipped" else 0)


def read_folder(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@functools.cache
def golden() -> dict[str, bytes]:
    return read_folder(GOLDEN / "v1/records")


@functools.cache
def compressed() -> dict[str, bytes]:
    """A log whose files are compressed in both ways, with headers, and a topic of many types."""
    store = FilesStore({}, {})
    log = Log.create(store, clock=FakeClock())
    headers = pa.array(
        [[{"key": f"h{i}", "value": b"v" * i}] for i in range(8)],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    plain = pa.table({"key": [b"k"] * 8, "value": [b"value " * 20] * 8, "headers": headers})
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("at_all", pa.struct([("x", pa.float64()), ("ok", pa.bool_())])),
            pa.field("map", pa.map_(pa.string(), pa.int32())),
        ]
    )
    typed = pa.table(
        {
            "id": range(6),
            "name": [None, "b", "c" * 50] * 2,
            "tags": [["a", None], [], None] * 2,
            "at": pa.array([1, None, 3] * 2, pa.timestamp("us", "UTC")),
            "at_all": [{"x": 0.5, "ok": True}, None, {"x": None, "ok": False}] * 2,
            "map": pa.array([[("a", 1)], [], None] * 2, pa.map_(pa.string(), pa.int32())),
        },
        schema=schema,
    )
    for topic, rows in (
        (log.ensure_topic("events", 2), plain),
        (log.ensure_topic("typed", 2, schema=schema), typed),
    ):
        for compression in ("none", "lz4", "zstd"):
            with log.stage(topic, compression=Compression.of(compression)) as writer:
                writer.append(rows, 0)
                writer.append(rows.slice(3), 1)
                staged = writer.finish()
            action = AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), staged)
            log.commit(lambda _, action=action: (action,))
    return {name: data for name, data in store._changed.items() if data is not None}
