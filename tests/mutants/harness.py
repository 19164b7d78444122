"""Apply one mutant at a time to a copy of the tree, and see which test says so first.

Catchers, in the order of what they cost: the test that saw it the last time; the quick tests of the mutant's own
area; all quick tests that start no Spark; the deep tests of its area; runs of the simulator. A mutant that none of
them sees is a hole, and the run fails with its name. What takes longer than its budget has seen nothing.
"""

# ruff: noqa: T201  (a program that prints)

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.page import PAGE, Row, read_page, write_page

__all__ = ["Copy", "Sight", "StaleError", "main", "mutated"]

ROOT = Path(__file__).resolve().parents[2]

AREA_S, FAST_S, SIMULATOR_S = 240.0, 600.0, 300.0
"""Budgets in seconds, for a machine that does other things as well."""

SEEDS = (1, 61)
"""The runs of the simulator that a mutant gets; it ends with the first that fails."""

FAST = (
    "tests/protocol",
    "tests/log",
    "tests/storage",
    "tests/clients",
    "tests/golden",
    "tests/spark/test_sink.py",
    "tests/spark/test_source.py",
    "tests/spark/test_task.py",
    "tests/spark/test_checkpoint.py",
    "tests/spark/test_offsets.py",
    "tests/spark/test_outcomes.py",
    # These start processes, or take a minute.
    "--ignore=tests/clients/test_group_processes.py",
    "--ignore=tests/storage/test_posix_processes.py",
    "--ignore=tests/storage/test_durability.py",
)
"""Everything that is fast and starts no Spark."""

SIMULATOR = (
    *("-m", "verification.simulator", "--jobs", "1", "--first"),
    *("--seeds", "{}:{}".format(*SEEDS)),
)

_PYTEST = ("-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist")
_NOT_FOUND, _NONE_LEFT = 4, 5
"""How pytest ends where a test that was named is not there, and where none is left of a tier."""
_SEEN = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_SEED = re.compile(r"^seed (\d+): ", re.MULTILINE)


class StaleError(Exception):
    """The text that a mutant replaces is not in its file exactly once: mend the list."""


class Sight(NamedTuple):
    """What a catcher came to: ``seen`` is the failing test or the seed, None if it saw nothing."""

    seen: str | None
    seconds: float
    output: str = ""


def mutated(text: str, mutant: Mutant) -> str:
    """The text of the file, broken. Raises `StaleError`."""
    count = text.count(mutant.old)
    if count != 1:
        raise StaleError(f"{mutant.name}: its old text is {count} times in {mutant.file}: {mutant.old!r}")
    return text.replace(mutant.old, mutant.new)


class Copy:
    """A private copy of the tree, in which things are broken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def of_tree(folder: Path) -> Copy:
        """All files that git knows, or would take: none of the virtual environment, none of the caches."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        for name in {os.fsdecode(one) for one in listed.split(b"\0") if one}:
            if (ROOT / name).is_file():  # not one that was deleted and is still in the index
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        copy = Copy(folder)
        copy.check_import()
        return copy

    def twin(self, folder: Path) -> Copy:
        """One more."""
        shutil.copytree(self.folder, folder)
        return Copy(folder)

    def check_import(self) -> None:
        """See that it is this copy that runs, and not what is installed."""
        code = "import spark_eos; print(spark_eos.__file__)"
        sight, printed = self._run(("-c", code), 60.0)
        if sight or Path(printed.strip()) != self.folder / "spark_eos" / "__init__.py":
            raise RuntimeError(f"the copy in {self.folder} is not what is imported: {printed.strip()}")

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        """The copy with the mutant in it."""
        path = self.folder / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(mutated(text, mutant), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def quick_tests(self, arguments: Sequence[str], budget_s: float) -> Sight:
        """The same, of the quick tier alone. Where all are deep, or have another name now, nothing is seen."""
        return self.tests(("--quick", *arguments), budget_s)

    def tests(self, arguments: Sequence[str], budget_s: float) -> Sight:
        """Run tests until one fails. A run that collected nothing, or broke down, is an error of the list."""
        started = time.monotonic()
        code, output = self._run((*_PYTEST, *arguments), budget_s)
        seconds = time.monotonic() - started
        has_none = code in {_NOT_FOUND, _NONE_LEFT} and "--quick" in arguments
        if code in {0, None} or has_none:
            return Sight(None, seconds, output)
        found = _SEEN.search(output)
        if code != 1 or found is None:
            raise RuntimeError(f"pytest ended with {code}, which says nothing:\n{output[-2000:]}")
        return Sight(found[1], seconds, output)

    def simulation(self) -> Sight:
        """Runs of the simulator; the first seed that finds something."""
        started = time.monotonic()
        code, output = self._run(SIMULATOR, SIMULATOR_S)
        seconds = time.monotonic() - started
        if code in {0, None}:
            return Sight(None, seconds)
        found = _SEED.findall(output)
        return Sight(f"seed {min(map(int, found))}" if found else "a crash of it", seconds, output)

    @property
    def has_simulator(self) -> bool:
        """Whether the simulator can be called in this tree."""
        return (self.folder / "verification" / "simulator" / "__main__.py").exists()

    def _run(self, arguments: Sequence[str], budget_s: float) -> tuple[int | None, str]:
        """Exit status (None: it took too long) and output of a Python program in the copy."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            # A file that is broken and mended within a second has the same time and perhaps the same size.
            "PYTHONDONTWRITEBYTECODE": "1",
            "CI": "1",  # hypothesis tries the same examples every time
        }
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=budget_s)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                output, _ = process.communicate()
                return None, output.decode(errors="replace")
        return process.returncode, output.decode(errors="replace")


def examine(copy: Copy, mutant: Mutant, before: Row, campaign: str) -> Row:
    """What sees the mutant first: of the quick tests alone (``campaign`` is "quick"), of all, or of the simulator."""
    with copy.broken(mutant):
        if campaign == "simulator":
            sight = copy.simulation()
            found = sight.seen and f"{sight.seen}, {sight.seconds:.0f} s"
            return before._replace(simulator=found or f"not in {SEEDS[-1] - SEEDS[0]} runs")
        spent = 0.0
        for arguments, budget_s in (
            (before.seen and (before.seen,), AREA_S),
            (mutant.area, AREA_S),
            (FAST, FAST_S),
        ):
            if not arguments:
                continue
            sight = copy.quick_tests(arguments, budget_s)
            spent += sight.seconds
            if sight.seen is not None:
                return before._replace(seen=sight.seen, seconds=spent, tier="quick")
        if campaign == "quick":
            return before._replace(tier="deep")
        sight = copy.tests(("--all", *mutant.area), AREA_S)
        if sight.seen is None and copy.has_simulator:
            sight = copy.simulation()
            sight = sight._replace(seen=sight.seen and f"simulator, {sight.seen}")
        return before._replace(seen=sight.seen, seconds=spent + sight.seconds, tier="deep")


def campaign(copies: Sequence[Copy], rows: Sequence[Row], kind: str) -> Iterator[Row]:
    """The rows of the table, as they come."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def work(row: Row) -> Row:
        copy = free.get()
        try:
            return examine(copy, row.mutant, row, kind)
        except RuntimeError as error:
            raise RuntimeError(f"{row.mutant.name}: {error}") from error
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        try:
            for done in as_completed([pool.submit(work, row) for row in rows]):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _chosen(names: Sequence[str]) -> list[Mutant]:
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such mutant: {', '.join(unknown)}")
    return [known[name] for name in names] or list(MUTANTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and write the table. The exit status: 0 if every mutant was seen, else 1."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant; repeatable")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="so many at a time (default: 2)")
    parser.add_argument("--tier", choices=["quick", "all"], default="all", help="the tests that are asked")
    parser.add_argument("--simulator-only", action="store_true", help="which of them does the simulator see")
    options = parser.parse_args(arguments)
    kind = "simulator" if options.simulator_only else options.tier
    mutants = _chosen(options.only)
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="spark-eos-mutants-"))
    try:
        first = Copy.of_tree(folder / "0")
        for mutant in mutants:
            mutated((first.folder / mutant.file).read_text(encoding="utf-8"), mutant)
        if options.simulator_only and not first.has_simulator:
            raise SystemExit("verification.simulator has no command line in this tree")
        if not options.only:
            _check_whole(first, simulator=options.simulator_only)
        copies = [first, *(first.twin(folder / str(number)) for number in range(1, options.jobs))]
        rows = {row.mutant.name: row for row in read_page(MUTANTS)}
        asked = [rows.get(mutant.name, Row(mutant, None, 0.0)) for mutant in mutants]
        for row in campaign(copies, asked, kind):
            rows[row.mutant.name] = row
            what = row.simulator if options.simulator_only else f"{row.seen or 'SURVIVES'} ({row.tier})"
            print(f"{row.mutant.name}: {what}, {row.seconds:.0f} s", flush=True)
            # At once: a campaign that is stopped has said something too.
            write_page([rows[mutant.name] for mutant in MUTANTS if mutant.name in rows])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(mutants)} mutants in {time.monotonic() - started:.0f} s; see {PAGE.relative_to(ROOT)}")
    deep = [mutant.name for mutant in mutants if rows[mutant.name].tier == "deep"]
    print(f"{len(mutants) - len(deep)} of {len(mutants)} are seen by the quick tier")
    if deep:
        print(f"not by it: {', '.join(deep)}")
    survivors = [mutant.name for mutant in mutants if rows[mutant.name].seen is None]
    if survivors:
        print(f"nothing sees: {', '.join(sorted(survivors))}", file=sys.stderr)
    return 1 if survivors else 0


def _check_whole(copy: Copy, *, simulator: bool) -> None:
    """A test that fails without any mutant would see them all."""
    sight = copy.simulation() if simulator else copy.quick_tests(FAST, FAST_S)
    if sight.seen is not None:
        raise SystemExit(f"{sight.seen} fails without any mutant:\n{sight.output[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
