"""The main job on real input, killed at its worst moments, and every row compared. See scripts/demo."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb
from demo_check import Check, check_positions, check_topic, expect, read_topic
from demo_data import unpack
from demo_process import Job, JobFailedError

from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from spark_eos.storage import open_store

__all__ = ["Demo", "main", "report"]

PARTITIONS = 4
BATCHES = 12
JOB = "consume_transform_produce"
GROUP = "flights-to-departures"
OUTPUTS = ("departures", "cancelled")

T = TypeVar("T")


class Demo:
    """The demo in ``folder``: the log, the checkpoints, the input, and what the jobs print."""

    def __init__(self, folder: Path, log: str, rows: int | None) -> None:
        self._folder = folder
        self._url = log
        self._rows = rows
        self._checkpoint = folder / "checkpoints" / JOB
        self._runs = 0

    def run(self) -> list[Check]:
        """Everything, told as it happens. Raises `JobFailedError`."""
        self._data = _timed(
            "input", lambda: unpack(self._folder, self._rows), lambda data: f"{data.rows:,} flights"
        )
        _timed("ingest: files into topic flights", self._ingest, lambda _: f"log entry {self._log.state.seq}")
        hits = (
            self._killed("while it plans its first batch", self._planned, self._nothing_written),
            self._killed("in the middle of its tasks", self._staged, self._files_without_entry),
            self._killed("between the log's commit and Spark's", self._entered, self._not_in_spark),
        )
        _timed(f"{JOB}: to the end", lambda: self._start().wait(), lambda _: f"batch {self._batch()}")
        return _timed(
            "DuckDB compares every row",
            lambda: self._checks(sum(hits)),
            lambda checks: f"{len(checks)} checks; {self._left_over()}",
        )

    # -- the jobs -----------------------------------------------------------------------------------

    def _ingest(self) -> None:
        self._job("ingest", "--input", str(self._data.folder)).wait()
        self._log = Log.open(self._url)

    def _start(self) -> Job:
        self._runs += 1
        slice_ = max(1, self._data.rows // BATCHES)
        return self._job(JOB, "--airlines", str(self._data.airlines), "--max-offsets", str(slice_))

    def _job(self, name: str, *arguments: str) -> Job:
        folders = ("--log", self._url, "--checkpoints", str(self._folder / "checkpoints"))
        return Job(
            name, [*folders, "--partitions", str(PARTITIONS), *arguments], self._folder / f"{name}.out"
        )

    # -- kills --------------------------------------------------------------------------------------

    def _killed(self, when: str, moment: Callable[[], bool], proof: Callable[[], str]) -> int:
        """Start the job and kill it at ``moment``, again until what it left behind is the ``proof``.

        1 if that was hit, 0 if not. Raises `JobFailedError` if the job fails by itself.
        """
        for _ in range(BATCHES):
            self._files = self._data_files()
            self._first = self._batch()
            found = _timed(f"{JOB}: SIGKILL {when}", lambda: self._strike(moment, proof), _told)
            if found:
                return 1
            if found is None:
                break
        return 0

    def _strike(self, moment: Callable[[], bool], proof: Callable[[], str]) -> str | None:
        """What the proof says, "" if it is none; None if the job came to its end before the moment."""
        job = self._start()
        if not job.wait_for(moment):
            job.wait()
            return None
        job.kill()
        return proof()

    def _planned(self) -> bool:
        return (self._checkpoint / "offsets" / str(self._first + 1)).exists()

    def _nothing_written(self) -> str:
        return f"batch {self._first + 1} is planned, not in the log" if self._batch() == self._first else ""

    def _staged(self) -> bool:
        # Two batches on: the first one of a run is slow, the second one is as they all are.
        return self._batch() >= self._first + 2 and bool(self._unlisted())

    def _files_without_entry(self) -> str:
        files = len(self._unlisted())
        return f"{files} data files of batch {self._batch() + 1}, in no entry" if files else ""

    def _entered(self) -> bool:
        return self._batch() >= self._first + 2

    def _not_in_spark(self) -> str:
        batch = self._batch()
        if (self._checkpoint / "commits" / str(batch)).exists():
            return ""
        return f"batch {batch} is in the log, not in Spark's commits"

    # -- what is there ------------------------------------------------------------------------------

    def _batch(self) -> int:
        query = self._log.follow().queries.get(GROUP)
        return -1 if query is None else query.batch_id

    def _data_files(self) -> set[str]:
        return {info.name for info in self._log.store.list("data/") if info.name.endswith(".arrow")}

    def _unlisted(self) -> set[str]:
        """Data files that came since the run was started and are in no entry."""
        new = self._data_files() - self._files
        self._log.follow()
        return new - _listed(self._log) if new else new

    def _checks(self, hits: int) -> list[Check]:
        data, state = self._data, self._log.follow()
        checks = [Check("kills that hit the moment they were meant for", 3, hits)]
        with duckdb.connect() as connection:
            expect(connection, data.flights, data.airlines, data.rows, PARTITIONS)
            for topic in ("flights", *OUTPUTS):
                checks += check_topic(connection, topic, read_topic(self._log, topic))
        checks += check_positions(self._log, ("flights", *OUTPUTS), "flights", GROUP)
        newest = max(
            int(path.name) for path in (self._checkpoint / "commits").iterdir() if path.name.isdecimal()
        )
        checks += [
            Check("topics in the log", "cancelled departures flights", " ".join(sorted(state.topics))),
            Check("the job's last batch: Spark's checkpoint, the log", newest, self._batch()),
        ]
        return checks

    def _left_over(self) -> str:
        dead = len(self._data_files() - _listed(self._log))
        return f"{self._runs} runs left {dead} data files of killed tasks, which no reader sees"


def report(checks: Sequence[Check]) -> bool:
    """Print the table; whether everything is exact."""
    head = ("what", "expected", "found")
    cells = [head] + [(check.what, _text(check.expected), _text(check.found)) for check in checks]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    marks = ["exact?"] + ["yes" if check.exact else "NO" for check in checks]
    print()
    for (what, expected, found), mark in zip(cells, marks, strict=True):
        print(f"{what:<{widths[0]}}  {expected:>{widths[1]}}  {found:>{widths[2]}}  {mark}")
    return all(check.exact for check in checks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. The exit status: 0 if all is exact, else 1."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "--log", help="the log's folder or URL, new or empty; it stays (default: a fresh folder)"
    )
    parser.add_argument("--rows", type=int, help="flights to take, at least 1000 (default: all 336,776)")
    parser.add_argument("--keep", action="store_true", help="leave log, checkpoints and input where they are")
    options = parser.parse_args(arguments)
    if options.rows is not None and options.rows < 1000:
        parser.error(f"--rows {options.rows}: fewer than 1000 do not last for the kills")
    if options.log is not None:
        options.log = _checked(parser, options.log)
    folder = Path(tempfile.mkdtemp(prefix="spark-eos-demo-"))
    log = options.log or str(folder / "log")
    print(
        f"log: {log}\nall else: {folder}{'' if options.keep else ' (removed if all is exact; --keep keeps it)'}"
    )
    started = time.monotonic()
    keep = True  # whatever goes wrong can be looked at
    try:
        exact = report(Demo(folder, log, options.rows).run())
        keep = options.keep or not exact
    except JobFailedError as error:
        print(error, file=sys.stderr)
        exact = False
    finally:
        if not keep:
            shutil.rmtree(folder)
    verdict = "everything is exact" if exact else f"NOT exact: look into {folder}"
    print(f"\n{verdict}, after {time.monotonic() - started:.0f} s")
    return 0 if exact else 1


def _checked(parser: argparse.ArgumentParser, log: str) -> str:
    """The log's URL, or its path made absolute; nothing may be there."""
    try:
        store = open_store(log)
        taken = next(store.list(""), None)
    except EosLogError as error:
        parser.error(f"--log {log}: {error}")
    if taken is not None:
        parser.error(f"--log {log} is not empty: give a new folder")
    return store.url


def _timed(what: str, work: Callable[[], T], tell: Callable[[T], str]) -> T:
    print(f"{what} ... ", end="", flush=True)
    started = time.monotonic()
    result = work()
    print(f"{time.monotonic() - started:.1f} s: {tell(result)}", flush=True)
    return result


def _told(found: str | None) -> str:
    return "the job was done before" if found is None else found or "missed it"


def _listed(log: Log) -> set[str]:
    return {
        row.file.name
        for partition in log.state.partitions.values()
        for row in partition.index.scan(0, log.load)
        if row.file is not None
    }


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    # A plain kill of this program ends as Ctrl-C does, so that its children go too.
    for sent in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sent, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
