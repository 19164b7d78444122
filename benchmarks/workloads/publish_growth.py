"""Publishes of a log that grows."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.pairing import Taken
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import table
from spark_eos import Admin, Log, Producer
from spark_eos.extensions.tables.tables import Tables
from spark_eos.protocol.encoding.snapshots import encode_snapshot

TITLE = "Growth with publishing"

TEXT = """
10,000 transactions of 40 records of 100 bytes in four partitions, as those of micro-batches are, and a publish as a
Delta table after every ten. Nothing else maintains the log. At the end publishes of this log take turns with those
of a log of 1,000 transactions. *Files* are those of the newest version of the table; the snapshot is that of the
log's state.
"""

NAME, TOPIC = "nightly", "t"
PARTITIONS = 4
EVERY = 10
"""Transactions between two publishes."""
_PARTS = 5


def run(bench: Bench) -> Result:
    """An old log and a young one."""
    result = Result("publish_growth")
    with closing(_Growing(bench)) as old, closing(_Growing(bench)) as young:
        growth(bench, result, old, young, bench.choose(1_000, 10_000))
    return result


class _Found(NamedTuple):
    """What a log has after so many transactions: bytes of its snapshot, files of its table."""

    snapshot: int
    files: int


class _Growing:
    """A log that is written to and published in turn."""

    def __init__(self, bench: Bench) -> None:
        self._log = Log.create(str(bench.fresh("log")))
        Admin(self._log).create_topic(TOPIC, PARTITIONS)
        tables = Tables(self._log)
        tables.create(NAME, [TOPIC])
        self._tables = tables
        self._publisher = tables.publisher(NAME)
        self._producer = Producer(self._log, {"transactional.id": "growth"})
        self._producer.init_transactions()
        self._rows = table(10, 100, keyed=False)

    def publish(self) -> Taken:
        """Ten transactions, and what the publish after them takes."""
        for _ in range(EVERY):
            self._producer.begin_transaction()
            for partition in range(PARTITIONS):
                self._producer.send_arrow(TOPIC, self._rows, partition=partition)
            self._producer.commit_transaction()
        began, spent = time.perf_counter(), time.process_time()
        done = self._publisher.publish()
        taken = Taken(time.perf_counter() - began, time.process_time() - spent)
        assert done.is_new
        return taken

    def look(self) -> _Found:
        """Bytes and files, now."""
        from deltalake import DeltaTable

        (one,) = self._tables.list_tables()
        files = len(DeltaTable(one.location).file_uris())
        return _Found(len(encode_snapshot(self._log.follow())), files)

    def close(self) -> None:
        """End the producer."""
        self._producer.close()


def growth(bench: Bench, result: Result, old: _Growing, young: _Growing, count: int) -> None:
    """Publishes of an old log and of a young one."""
    marks = [count // 10, count * 3 // 10, count]
    window = max(1, count // EVERY // 20)
    took: list[Taken] = []
    found: dict[int, _Found] = {}
    for done in range(EVERY, count + 1, EVERY):
        took.append(old.publish())
        if done in marks:
            found[done] = old.look()
            _mark(bench, result, f"after {done:,}", took[-window:], found[done])
    for _ in range(count // 10 // EVERY):
        young.publish()
    turns = [[(old.publish(), young.publish()) for _ in range(max(1, window // 3))] for _ in range(_PARTS)]
    result.curves["a publish, ms"] = [
        (at * EVERY, statistics.mean(one.clock for one in took[at : at + window]) * 1000)
        for at in range(0, len(took), window)
    ]
    for name in ("clock", "processor"):
        pairs = tuple(
            _mean([one for one, _ in part], name) / _mean([one for _, one in part], name) for part in turns
        )
        what = f"a publish after {count:,} transactions, {name}"
        result.ratios.append(Ratio(what, f"after {marks[0]:,}, in turn", pairs, at_most=True))
    first, last = found[marks[0]], found[count]
    for what, ratio in (
        ("bytes of the snapshot", last.snapshot / first.snapshot),
        ("files of the table", last.files / first.files),
    ):
        result.ratios.append(Ratio(f"{what} after {count:,}", f"after {marks[0]:,}", (ratio,), at_most=True))


def _mark(bench: Bench, result: Result, when: str, recent: list[Taken], found: _Found) -> None:
    clock = tuple(one.clock * 1000 for one in recent)
    mean = statistics.mean(clock)
    spent = statistics.mean(one.processor for one in recent) * 1000
    bench.say(f" {when}: a publish takes {mean:.1f} ms, {found.files} files, snapshot {found.snapshot} bytes")
    result.figures += [
        Figure("a publish, mean of the last ones", when, (mean,), "ms"),
        Figure("a publish, median of the last ones", when, (statistics.median(clock),), "ms"),
        Figure("a publish, processor", when, (spent,), "ms"),
        Figure("growth", when, (found.snapshot / 1000,), "kB of the snapshot"),
        Figure("growth", when, (float(found.files),), "files of the table"),
    ]


def _mean(taken: list[Taken], name: str) -> float:
    return float(statistics.mean(getattr(one, name) for one in taken))
