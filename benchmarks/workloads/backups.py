"""Incremental backups of a log that grows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.pairing import Taken
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import table
from spark_eos import Admin, Log, Producer
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.storage import Data, Upload, open_store
from verification.remote_store import RemoteStore

TITLE = "Growth of backups"

TEXT = """
A log of transactions of 40 records of 100 bytes in four partitions is backed up, and then ten times again, each time
after ten more transactions. Nothing maintains the log. *Requests* are those of one incremental backup, counted as a
bucket would count them, *bytes* those that it has read from the log and written into the repository. The times are of
folders on the disk, where a request takes next to no time. What is written grows with the manifest, which has some 200
bytes for each file of the log.
"""

PARTITIONS = 4
EVERY = 10
"""Transactions between two backups."""
BACKUPS = 10


def run(bench: Bench) -> Result:
    """Logs of several ages."""
    result = Result("backups")
    ages = bench.choose((10, 100), (10, 100, 1000))
    found = {age: growth(bench, result, age) for age in ages}
    young, old = found[ages[0]], found[ages[-1]]
    for what, field in (("requests to the log", "source"), ("requests to the repository", "target")):
        values = tuple(float(getattr(b, field)) / getattr(a, field) for a, b in zip(young, old, strict=True))
        result.ratios.append(
            Ratio(f"{what}, after {ages[-1]:,}", f"after {ages[0]:,}", values, 1.2, at_most=True)
        )
    return result


class _Increment(NamedTuple):
    """What one incremental backup took."""

    taken: Taken
    source: int
    target: int
    read: int
    written: int


def growth(bench: Bench, result: Result, age: int) -> list[_Increment]:
    """Incremental backups of a log of so many transactions."""
    place, repository = bench.fresh("log"), bench.fresh("repository")
    log = Log.create(str(place))
    Admin(log).create_topic("t", PARTITIONS)
    with closing(Producer(log, {"transactional.id": "growth"})) as producer:
        producer.init_transactions()
        _write(producer, age)
        backup_log(str(place), str(repository))
        increments = [_increment(producer, place, repository) for _ in range(BACKUPS)]
    when = f"after {age:,}"
    first, last = increments[0], increments[-1]
    requests = f"{last.source} requests to the log and {last.target} to the repository"
    bench.say(f" {when}: {requests}, {last.taken.clock * 1000:.1f} ms")
    result.figures += [
        Figure("the first of ten", when, (float(first.source + first.target),), "requests"),
        Figure("the last of ten", when, (float(last.source + last.target),), "requests"),
        Figure("read from the log, mean", when, (_kilobytes([one.read for one in increments]),), "kB"),
        Figure(
            "written into the repository, mean",
            when,
            (_kilobytes([one.written for one in increments]),),
            "kB",
        ),
        Figure("mean", when, (statistics.mean(one.taken.clock for one in increments) * 1000,), "ms"),
        Figure("processor", when, (statistics.mean(one.taken.processor for one in increments) * 1000,), "ms"),
    ]
    return increments


class _Counted(RemoteStore):
    """A folder as if it were a bucket: it counts, and takes no longer."""

    def __init__(self, place: Path) -> None:
        super().__init__(open_store(str(place)))
        self.read_bytes = self.written = 0

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        data = super().read(name, offset, length)
        self.read_bytes += data.size
        return data

    def create(self, name: str, data: Data) -> None:
        self.written += memoryview(data).nbytes
        super().create(name, data)

    @contextmanager
    def upload(self, name: str, *, write_behind: bool = False) -> Iterator[Upload]:
        with super().upload(name, write_behind=write_behind) as out:
            yield out
            self.written += out.tell()


def _kilobytes(values: list[int]) -> float:
    return statistics.mean(values) / 1000


def _write(producer: Producer, transactions: int) -> None:
    rows = table(10, 100, keyed=False)
    for _ in range(transactions):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send_arrow("t", rows, partition=partition)
        producer.commit_transaction()


def _increment(producer: Producer, place: Path, repository: Path) -> _Increment:
    _write(producer, EVERY)
    source, target = _Counted(place), _Counted(repository)
    began, spent = time.perf_counter(), time.process_time()
    backup_log(source, target)
    taken = Taken(time.perf_counter() - began, time.process_time() - spent)
    return _Increment(taken, len(source.requests), len(target.requests), source.read_bytes, target.written)
