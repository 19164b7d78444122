"""What the disk and Arrow allow, without Spark."""

from __future__ import annotations

import os
import time

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.results import Figure, Result
from benchmarks.rows import table

TITLE = "Limits of the machine"

TEXT = """
Context for the following sections: what one thread does without Spark and without a log. *fsync* is a new file of 4
KB that is written and synced; *write and fsync* are 64 MB in one go; *memory map* copies all values of an Arrow file.
"""


def run(bench: Bench) -> Result:
    """Disk and memory."""
    result = Result("limits")
    repeat = bench.repeats(10, 30)
    small = [_write(bench, 4096) * 1000 for _ in range(repeat)]
    large = [64 / _write(bench, 64 << 20) for _ in range(max(3, repeat // 5))]
    mapped = [_mapped(bench, size) for size in (100, 1_000)]
    result.figures += [
        Figure("a file of 4 KB, fsync", "one thread", tuple(small), "ms"),
        Figure("a file of 64 MB, write and fsync", "one thread", tuple(large), "MB/s"),
        Figure("memory map, 100 B", "one thread", mapped[0], "million rows/s"),
        Figure("memory map, 1 KB", "one thread", mapped[1], "million rows/s"),
    ]
    return result


def _write(bench: Bench, size: int) -> float:
    data = os.urandom(1 << 20)[: min(size, 1 << 20)] * max(1, size >> 20)
    path = bench.fresh("file")
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    taken = time.perf_counter() - began
    path.unlink()
    return taken


def _mapped(bench: Bench, size: int) -> tuple[float, ...]:
    rows = 100_000_000 // size
    path = str(bench.fresh("arrow"))
    written = table(rows, size, keyed=False)
    with pa.ipc.new_file(path, written.schema) as file:
        file.write_table(written, max_chunksize=10_000)
    found = []
    for _ in range(5):
        began = time.perf_counter()
        with pa.memory_map(path) as mapped:
            reader = pa.ipc.open_file(mapped)
            # A copy, so that all of it is touched.
            copied = sum(
                len(reader.get_batch(number).column(0).buffers()[2].to_pybytes())
                for number in range(reader.num_record_batches)
            )
        found.append(rows / (time.perf_counter() - began) / 1e6)
        assert copied == rows * size
    return tuple(found)
