"""One of many writers: ``python -m benchmarks.writer URL SECONDS READY GO DELAY WRITES NUMBER [ROWS]``.

It commits transactions of one small record, or of ROWS records of 100 bytes.

When it is ready it makes the file READY, waits for GO, and prints the milliseconds of each commit as JSON. DELAY:
seconds that every request to the store takes longer, as far away; with WRITES=1 only what writes, as on a slow disk.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from benchmarks.rows import table
from spark_eos import Producer
from spark_eos.log.log import Log
from spark_eos.storage import open_store
from spark_eos.testing.wrapped_store import WrappedStore

T = TypeVar("T")


class SlowStore(WrappedStore):
    """A store whose requests take longer: all of them, as far away, or only ``writes``."""

    def __init__(self, url: str, delay: float, *, writes: bool = False) -> None:
        super().__init__(open_store(url))
        self._delay = delay
        self._writes = writes
        self.requests_are_free = writes

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        if not self._writes or operation in {"create", "upload"}:
            time.sleep(self._delay)
        return effect()


def transaction(producer: Producer, rows: pa.Table | None = None) -> None:
    """One record, or so many rows."""
    producer.begin_transaction()
    if rows is None:
        producer.send("t", b"a small record", key=b"key")
    else:
        producer.send_arrow("t", rows)
    producer.commit_transaction()


def main(
    url: str, seconds: float, ready: Path, go: Path, delay: float, writes: bool, number: int, rows: int = 0
) -> None:
    """Commit until the time is over."""
    log: str | Log = Log.open(SlowStore(url, delay, writes=writes)) if delay else url
    producer = Producer(log, {"transactional.id": f"writer-{number}"})
    producer.init_transactions()
    many = table(rows, 100, keyed=False) if rows else None
    transaction(producer, many)  # What is done once, such as imports, is not what is measured.
    ready.touch()
    while not go.exists():
        time.sleep(0.005)
    took = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        transaction(producer, many)
        took.append((time.perf_counter() - began) * 1000)
    print(json.dumps(took))


if __name__ == "__main__":
    main(
        sys.argv[1],
        float(sys.argv[2]),
        Path(sys.argv[3]),
        Path(sys.argv[4]),
        float(sys.argv[5]),
        sys.argv[6] == "1",
        *map(int, sys.argv[7:]),
    )
