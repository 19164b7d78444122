"""Large shapes: what many partitions, transactional ids, groups, queries, entries and bytes cost, size by size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.large_shapes import MEMORY_MB, ROWS, SNAPSHOT_MB
from benchmarks.plots import IN
from benchmarks.results import Figure, Ratio, Result

TITLE = "Large shapes"

TEXT = """
Logs in memory that have many of one thing. Each size is measured in a process of its own, in milliseconds of the
processor. *Commit* is a small request (the offset of a group), *poll* follows one such commit of another handle,
*plan* finds the newest ten offsets of a partition, *cold open* reads the newest snapshot, *snapshot* encodes one, which
a thread in the background does at most a tenth of the time. *Memory* is what the process grows by when it opens the
log. Each partition has a batch; each transactional id has committed ten batches; each group and each query has offsets
of ten partitions; of the entries none is retired. Rows are written to a folder, by one producer in one transaction:
there *memory* is by how much the peak of the process rises.
"""

SIZES: dict[str, tuple[int, ...]] = {
    "partitions": (100, 1_000, 10_000, 100_000),
    "transactional ids": (100, 1_000, 10_000, 100_000),
    "groups": (100, 1_000, 10_000),
    "queries": (10, 100, 1_000),
    "entries": (10_000, 100_000, 1_000_000, 10_000_000),
    ROWS: (10, 100, 1_000),
}
_FLAT = ("commit", "poll", "plan")
_BENT = 1.5
"""A cost that is so many times that of the smallest size is no longer flat."""

_ROOT = Path(__file__).parents[2]


def run(bench: Bench) -> Result:
    """All shapes."""
    result = Result("shapes")
    for shape, sizes in SIZES.items():
        shaped(bench, result, shape, bench.choose(sizes[:2], sizes))
    return result


def shaped(bench: Bench, result: Result, shape: str, sizes: tuple[int, ...]) -> None:
    """One shape in all its sizes."""
    found: dict[int, dict[str, float]] = {}
    for size in sizes:
        found[size] = _measured(shape, size, bench.fresh("shape"))
        told = ", ".join(f"{what} {value:.3g}" for what, value in found[size].items())
        bench.say(f" {size:,} {shape}: {told}")
    for what in found[sizes[0]]:
        name = what if what in {SNAPSHOT_MB, MEMORY_MB} else f"{what}, ms"
        result.figures += [
            Figure(name, f"{size:,}", (values[what],), shape) for size, values in found.items()
        ]
        result.curves[f"{shape}{IN}{name}"] = [(size, values[what]) for size, values in found.items()]
    least, most = sizes[0], sizes[-1]
    for what in _FLAT:
        if what in found[least] and shape != ROWS:
            ratio = found[most][what] / found[least][what]
            result.ratios.append(
                Ratio(f"{what}, {most:,} {shape}", f"{least:,}", (ratio,), _BENT, at_most=True)
            )
    result.notes.append(f"{shape}: {bends(found)}.")


def bends(found: dict[int, dict[str, float]]) -> str:
    """From which size on each cost is no longer what it is at the smallest, as words."""
    least, *others = found
    flat, told = [], []
    for what, base in found[least].items():
        bent = next((size for size in others if found[size][what] > _BENT * max(base, 0.001)), None)
        if bent is None:
            flat.append(what)
        else:
            told.append(f"{what} from {bent:,} on")
    return "; ".join(
        [*([f"flat: {', '.join(flat)}"] if flat else []), *([f"grows: {', '.join(told)}"] if told else [])]
    )


def _measured(shape: str, size: int, folder: Path) -> dict[str, float]:
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.large_shapes", shape, str(size), str(folder)]
    done = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    found: dict[str, float] = json.loads(done.stdout)
    return found
