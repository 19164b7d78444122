"""``scripts/bench-gate BASE``: this tree against a commit or tag, in turn; ends with 1 if something is slower.

Both trees do the same work (`benchmarks.gate_work`, that of this tree) with the same packages, in processes that follow
each other. Spark is not started: what Spark calls is called directly.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.gate_work import PIECES, Timed

_ROOT = Path(__file__).parent.parent
_WORK = Path(__file__).parent / "gate_work.py"

TOLERANCE = 0.15
"""How much slower something may be."""


class Verdict(NamedTuple):
    """One piece of work: how many times as long this tree takes, round by round."""

    name: str
    clock: tuple[float, ...]
    processor: tuple[float, ...]
    slower: bool


def main() -> int:
    """Compare, print, and say by the exit code whether something is slower."""
    chosen = _arguments()
    with _folder(chosen.folder) as folder, _worktree(chosen.base, folder / "base") as base:
        runs: dict[str, list[dict[str, Timed]]] = {"base": [], "tree": []}
        for number in range(chosen.repeat):
            sides = [("base", base), ("tree", _ROOT)]
            for side, root in sides if number % 2 == 0 else reversed(sides):
                runs[side].append(run(root, folder / f"{side}-{number}", chosen.only or []))
            print(f"round {number + 1} of {chosen.repeat}", file=sys.stderr)
    verdicts = judge(runs["base"], runs["tree"], chosen.tolerance)
    print("\n".join(table(verdicts, chosen.base)))
    return int(any(verdict.slower for verdict in verdicts))


def run(root: Path, folder: Path, names: Sequence[str]) -> dict[str, Timed]:
    """Let a tree do the work, in a new process and an empty folder which is gone afterwards."""
    folder.mkdir()
    command = [sys.executable, str(_WORK), str(root), str(folder), *names]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=folder)  # noqa: S603
    shutil.rmtree(folder)
    if done.returncode:
        raise SystemExit(f"the work failed with {root}: {done.stderr[-3000:]}")
    found: dict[str, Timed] = json.loads(done.stdout)
    return found


def judge(
    base: Sequence[Mapping[str, Timed]], tree: Sequence[Mapping[str, Timed]], tolerance: float
) -> list[Verdict]:
    """Slower is what takes more than the tolerance longer in the median, and longer in three rounds of four.

    By the clock, which sees waiting, or of the processor, which can be trusted on a machine that is busy.
    """
    verdicts = []
    for name in base[0]:
        pairs = [(new[name], old[name]) for old, new in zip(base, tree, strict=True)]
        clock = tuple(new[0] / old[0] for new, old in pairs)
        # A clock of ticks may say 0 for very little.
        processor = tuple(new[1] / max(old[1], 1e-6) for new, old in pairs)
        slower = _slower(clock, tolerance) or _slower(processor, tolerance)
        verdicts.append(Verdict(name, clock, processor, slower))
    return verdicts


def _slower(ratios: Sequence[float], tolerance: float) -> bool:
    longer = sum(ratio > 1 for ratio in ratios)
    return statistics.median(ratios) > 1 + tolerance and longer >= 0.75 * len(ratios)


def table(verdicts: Sequence[Verdict], base: str) -> list[str]:
    """What is printed."""

    def cells(ratios: tuple[float, ...]) -> str:
        return f"{statistics.median(ratios):6.2f}  {min(ratios):5.2f} - {max(ratios):5.2f}"

    lines = [f"times as long as {base}: median, lowest and highest round", ""]
    lines.append(f"{'':14} {'by the clock':>22}   {'of the processor':>22}")
    for verdict in verdicts:
        mark = "   SLOWER" if verdict.slower else ""
        lines.append(f"{verdict.name:14} {cells(verdict.clock):>22}   {cells(verdict.processor):>22}{mark}")
    return lines


@contextmanager
def _folder(parent: Path | None) -> Iterator[Path]:
    """In memory, if there is such a place: the disk's moods are not what is measured."""
    memory = Path("/dev/shm")  # noqa: S108  (a folder of our own in it)
    folder = Path(tempfile.mkdtemp(prefix="bench-gate-", dir=parent or (memory if memory.is_dir() else None)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _worktree(base: str, folder: Path) -> Iterator[Path]:
    git = ["git", "-C", str(_ROOT), "worktree"]
    add = [*git, "add", "--detach", str(folder), base]
    added = subprocess.run(add, check=False, capture_output=True, text=True)  # noqa: S603
    if added.returncode:
        raise SystemExit(f"{base} cannot be checked out: {added.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)  # noqa: S603


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench-gate", description=__doc__)
    parser.add_argument("base", help="a commit or tag to compare this tree with")
    parser.add_argument("--repeat", type=int, default=7, help="rounds (default: 7)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        help=f"how much slower is too slow (default: {TOLERANCE})",
    )
    parser.add_argument(
        "--only", action="append", choices=list(PIECES), help="this piece of work; may be repeated"
    )
    parser.add_argument(
        "--folder", type=Path, help="where to work (default: in memory, if /dev/shm is there)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
