"""What many busy partitions cost: their snapshot, the memory of their index rows, and the entry that seals them.

``python -m benchmarks.growth_partitions [--partitions 1000]`` prints a table. All rows of a commit are in one file,
as those of one writer are. Nothing is written to a store: these are the costs of the processor and of memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from immutables import Map

from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.index import Index, IndexRow, Kind, Rows
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.sealing import PAGE_ROWS, seal
from spark_eos.protocol.state import EMPTY, Partition, State
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp

ROWS = 10
NOW_MS = 1_700_000_000_000
SEALED = 1000
"""Partitions of the entry that seals, at most: more of them cost in proportion."""

STAMP = ProducerStamp(1, 0, 1)


def busy(partitions: int, commits: int) -> State:
    """A state in which each of ``commits`` entries put a batch into every partition."""
    files = [FileRef(f"data/{number:020d}.arrow", 500 * partitions, 1, ()) for number in range(commits)]
    found = {}
    for part in range(partitions):
        rows = Rows()
        for at, file in enumerate(files):
            crc = (part * 7919 + at * 104_729) * 2_654_435_761 % 2**32
            # Batches of one commit differ in length, so positions and times do not follow from one another.
            position, length, now = part * 532 + crc % 1000, 500 + crc % 64, NOW_MS + at * 1000 + crc % 977
            batch = BatchRef(part, ROWS, position, length, crc, now, now, at * ROWS)
            rows = rows.append(IndexRow(at * ROWS, ROWS, Kind.DATA, STAMP, now, file, batch))
        found["t-id", part] = Partition(0, commits * ROWS, Index((), rows))
    return replace(EMPTY, partitions=Map(found))


def resident_mb() -> float:
    """Memory of this process now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--commits", type=int, default=200)
    options = parser.parse_args()
    encode_snapshot(EMPTY)  # What is imported, and schemas that are parsed, are no cost of partitions.
    before = resident_mb()
    state = busy(options.partitions, options.commits)
    memory = resident_mb() - before
    begun = time.perf_counter()
    data = encode_snapshot(state)
    encoded = time.perf_counter()
    decode_snapshot(data, state.seq, "snapshot")
    decoded = time.perf_counter()
    size, of = len(data), options.partitions * options.commits
    del state, data
    sealed = min(options.partitions, SEALED)
    full = busy(sealed, PAGE_ROWS)
    start = time.perf_counter()
    seal(full)
    took = time.perf_counter() - start
    sys.stdout.write(
        f"{options.partitions} partitions, a batch in each of them in each of {options.commits} commits\n\n"
        "| what | measured | a row |\n|---|---|---|\n"
        f"| index rows in memory | {memory:.0f} MB | {memory * 2**20 / of:.0f} bytes |\n"
        f"| snapshot | {size / 1e6:.1f} MB | {size / of:.1f} bytes |\n"
        f"| … encoded | {encoded - begun:.2f} s | {(encoded - begun) / of * 1e6:.2f} µs |\n"
        f"| … decoded | {decoded - encoded:.2f} s | {(decoded - encoded) / of * 1e6:.2f} µs |\n"
        f"| the entry that seals {PAGE_ROWS} rows of each of {sealed} partitions | {took:.2f} s "
        f"| {took / sealed / PAGE_ROWS * 1e6:.1f} µs |\n"
    )


if __name__ == "__main__":
    main()
