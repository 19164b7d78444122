"""A log of many small transactions against a young one, and against the same rows in one batch.

``scripts/bench-growth [--transactions N]``. All ratios are of one run on one machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

import pyarrow as pa

from benchmarks.probes import TOPIC, Took, now, since
from spark_eos import Producer
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER

YOUNG = 100
"""Transactions of the log that the old one is compared with."""

REPEATS = 5
"""Of every probe, each in a new process, turn by turn for both logs; the median counts."""

INTERLEAVED = 200
"""Commits to each of two logs, turn by turn: what else the machine does meets both alike."""


MAINTAIN = ("--min-age", "0")
"""Options of `eoslog maintain` for a log that nobody else uses."""


class Row(NamedTuple):
    """A line of the result."""

    what: str
    value: str
    limit: str = ""


class Written(NamedTuple):
    """A log that is written to by one transactional producer."""

    url: str
    producer: Producer

    def commit(self, rows: int) -> Took:
        """One small transaction; what its commit took."""
        self.producer.begin_transaction()
        for number in range(rows):
            self.producer.send(TOPIC, b"the value of record %08d" % number, key=b"key")
        began = now()
        self.producer.commit_transaction()
        return since(began)


def _writer(url: str) -> Written:
    producer = Producer(url, {"transactional.id": "growth"})
    producer.init_transactions()
    return Written(url, producer)


def _start(module: str, *arguments: str, out: TextIO | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, stdout=out)  # noqa: S603  (our own modules)


def _run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  (our own modules)


def _probe(name: str, *arguments: object) -> Took:
    done = _run("benchmarks.probes", name, *map(str, arguments))
    if done.returncode:
        raise RuntimeError(f"probe {name} failed: {done.stderr}")
    clock, processor = done.stdout.split()
    return float(clock), float(processor)


def _median(took: Iterable[Took]) -> Took:
    clock, processor = zip(*took, strict=True)
    return statistics.median(clock), statistics.median(processor)


def _against(old: Iterable[Took], young: Iterable[Took], *, more: bool = False) -> str:
    """Medians by the clock and of the processor, and how many times as long the first ones are."""
    (slow, slow_cpu), (fast, fast_cpu) = _median(old), _median(young)
    times = (fast / slow, fast_cpu / slow_cpu) if more else (slow / fast, slow_cpu / fast_cpu)
    return (
        f"{slow * 1000:.1f} and {fast * 1000:.1f} ms: {times[0]:.2f} × (processor: {slow_cpu * 1000:.1f} and "
        f"{fast_cpu * 1000:.1f} ms: {times[1]:.2f} ×)"
    )


@contextmanager
def _follower(url: str, until: int, out: Path) -> Iterator[None]:
    with out.open("w") as file:
        process = _start("benchmarks.probes", "follow", url, str(until), out=file)
        try:
            yield
            process.wait(timeout=600)
        finally:
            process.kill()
            process.wait()


def grow(folder: Path, transactions: int, rows: int) -> tuple[list[Took], list[tuple[int, int]], Written]:
    """Commit; the seconds of each commit, and (entry, kB) of a process that follows."""
    log = _writer(str(folder / "old"))
    took = [log.commit(rows) for _ in range(YOUNG // 2)]
    out = folder / "follower.txt"
    first = Log.shared(log.url).state.seq - len(took)
    with _follower(log.url, transactions + first, out):
        while len(took) < transactions:
            took.append(log.commit(rows))
            if len(took) % 5000 == 0:
                recent, _ = _median(took[-1000:])
                _say(f"{len(took)} transactions, a commit takes {recent * 1000:.2f} ms")
    lines = [f"{clock:.6f} {processor:.6f}\n" for clock, processor in took]
    (folder / "commits.txt").write_text("".join(lines))
    return took, _followed(folder), log


def _followed(folder: Path) -> list[tuple[int, int]]:
    *lines, _ = (folder / "follower.txt").read_text().splitlines()  # The last one is the probe's own.
    return [(int(seq), int(kb)) for seq, kb in map(str.split, lines)]


def grown(folder: Path) -> tuple[list[Took], list[tuple[int, int]], Written]:
    """What an earlier run has kept; without the commits' times, if it was stopped before it wrote them."""
    kept = folder / "commits.txt"
    lines = kept.read_text().splitlines() if kept.exists() else []
    took = [(float(clock), float(processor)) for clock, processor in map(str.split, lines)]
    return took, _followed(folder), _writer(str(folder / "old"))


def commits(took: list[Took], old: Written, folder: Path, rows: int) -> list[Row]:
    """Whether a commit to an old log is slower."""
    shutil.rmtree(folder / "beside", ignore_errors=True)
    young = _writer(str(folder / "beside"))
    for _ in range(YOUNG):
        young.commit(rows)
    pairs = [(old.commit(rows), young.commit(rows)) for _ in range(INTERLEAVED)]
    beside = Row(
        f"{INTERLEAVED} commits to it, turn by turn with {INTERLEAVED} to a log of {YOUNG}",
        _against(*zip(*pairs, strict=True)),
        "1.1 ×",
    )
    if not took:
        return [beside]
    tenth = len(took) // 10
    tenths = [_median(took[at : at + tenth]) for at in range(0, tenth * 10, tenth)]
    return [
        Row("median commit, last 100 and first 100", _against(took[-100:], took[:100]), "1.1 ×"),
        beside,
        Row("median commit of each tenth", ", ".join(f"{clock * 1000:.1f}" for clock, _ in tenths) + " ms"),
        Row("… processor", ", ".join(f"{cpu * 1000:.1f}" for _, cpu in tenths) + " ms"),
    ]


def before_a_snapshot(old: Written, rows: int) -> None:
    """Commit until the next entry but one is that of a snapshot: that is when opening takes longest."""
    log = Log.shared(old.url)
    while (log.follow().seq + 2) % log.state.snapshot_interval:
        old.commit(rows)


def probes(old: str, young: str, rows: int) -> list[Row]:
    """Opening and reading, each in a new process."""
    state = Log.shared(old).follow()
    behind = state.seq % state.snapshot_interval
    results = [Row("entries behind its newest snapshot", f"{behind} of {state.snapshot_interval} at most")]
    for name, what, arguments in (
        ("cold_open", "cold open", ()),
        ("latest_offset", "`latestOffset` of a new source", ()),
        ("last_batch", "batch read of the last transaction", (rows + 1,)),
    ):
        pairs = [(_probe(name, old, *arguments), _probe(name, young, *arguments)) for _ in range(REPEATS)]
        limit = "1.5 ×, and 1 s" if name == "cold_open" else "1.5 ×"
        results.append(Row(f"{what}; with {YOUNG}", _against(*zip(*pairs, strict=True)), limit))
    return results


def memory(follower: list[tuple[int, int]], transactions: int) -> list[Row]:
    """Whether a process that follows grows."""
    settled = [kb for seq, kb in follower if seq >= transactions // 10]
    if not settled:
        return [Row("memory of a follower", "the run was too short to say")]
    middle = statistics.median(settled)
    low, high = (min(settled) / middle - 1) * 100, (max(settled) / middle - 1) * 100
    points = [
        next(kb for seq, kb in follower if seq >= transactions * tenth // 10) // 1024
        for tenth in range(1, 11)
    ]
    return [
        Row(
            "memory of a follower, from a tenth of the transactions on",
            f"{middle / 1024:.0f} MB, {low:+.0f} % to {high:+.0f} %",
            "± 10 %",
        ),
        Row("… at each tenth", ", ".join(map(str, points)) + " MB"),
    ]


def in_one_batch(url: str, records: int) -> None:
    """The same records in one transaction."""
    log = Log.create(
        url, config={"metadata.max.retention.ms": 1}
    )  # A run is shorter than the default, an hour.
    topic = log.ensure_topic(TOPIC)
    with log.stage(topic) as writer:
        values = [b"the value of record %08d" % number for number in range(10)]
        for first in range(0, records, 100_000):
            count = min(100_000, records - first)
            # Those of small transactions differ; if all were the same, the column would be left out.
            times = pa.array(range(first // 10, first // 10 + count), pa.timestamp("ms", "UTC"))
            columns = {
                "key": [b"key"] * count,
                "value": (values * (count // 10 + 1))[:count],
                "timestamp": times,
            }
            writer.append(pa.table(columns), 0)
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), files),))


def objects(url: str) -> tuple[int, int, int]:
    """Objects that are not empty, names, and bytes, with what names and metadata take on the disk."""
    full = names = size = 0
    seen: set[int] = set()
    for folder, _, files in os.walk(url):
        for file in files:
            status = (Path(folder) / file).stat()
            names += 1
            full += bool(status.st_size)
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                size += status.st_size
    return full, names, size


def storage(old: Written, folder: Path, rows: int) -> list[Row]:
    """Objects, bytes and speed of a scan, before and after maintenance."""
    log = Log.shared(old.url)
    before = objects(old.url)
    seconds = maintain(old.url)
    if seconds is not None:
        # What the snapshots refer to that were there before goes when there are two newer ones.
        log.follow()
        for _ in range(2 * log.state.snapshot_interval):
            old.commit(rows)
        seconds += maintain(old.url) or 0
    transactions = log.follow().partitions[log.topic(TOPIC).topic_id, 0].end // (rows + 1)
    batch = str(folder / "batch")
    shutil.rmtree(batch, ignore_errors=True)
    in_one_batch(batch, transactions * rows)
    _, _, ideal = objects(batch)
    results = [
        Row("objects before maintenance", f"{before[0]} that are not empty, {before[1]} names"),
        Row("bytes before maintenance", f"{before[2]} ({before[2] / ideal:.2f} × one batch)"),
    ]
    if seconds is None:
        return [*results, Row("maintenance", "not measured: this version has no `eoslog maintain`")]
    full, names, size = objects(old.url)
    pairs = [(_probe("scan", old.url), _probe("scan", batch)) for _ in range(REPEATS)]
    return [
        *results,
        Row("maintenance, two snapshots later again", f"{seconds:.0f} s"),
        Row(
            "objects that are not empty, after it",
            f"{full} ({full / transactions:.2%} of the transactions), {names} names",
            "1 % and a constant",
        ),
        Row("bytes after it", f"{size} ({size / ideal:.2f} × one batch)", "1.1 ×"),
        Row(
            "full scan after it, and of one batch; speed",
            _against(*zip(*pairs, strict=True), more=True),
            "0.9 ×",
        ),
    ]


def can_maintain() -> bool:
    """Whether this version has the command."""
    return _run("spark_eos", "maintain", "--help").returncode == 0


def maintain(url: str) -> float | None:
    """Do all the maintenance there is, as soon as may be; seconds, or None without the command."""
    if not can_maintain():
        return None
    began = time.perf_counter()
    for command in ("maintain", "vacuum"):
        done = _run("spark_eos", command, url, *MAINTAIN)
        if done.returncode:
            raise RuntimeError(f"eoslog {command} failed: {done.stderr}")
        _say(f"eoslog {command}: {done.stdout}")
    return time.perf_counter() - began


def beside_maintenance(old: Written, rows: int) -> list[Row]:
    """What maintenance that runs all the time costs who writes: turns with it and without it."""
    if not can_maintain():
        return []
    # Nobody wrote while MAINTAIN was allowed to refuse writers of any age: this one starts from here.
    Log.shared(old.url)
    turns: dict[bool, list[Took]] = {True: [], False: []}
    failed = 0
    for turn in range(10):
        busy = turn % 2 == 0
        watch = _start("spark_eos", "maintain", old.url, "--watch", "1") if busy else None
        time.sleep(3)
        try:
            for _ in range(300):
                try:
                    turns[busy].append(old.commit(rows))
                except EosLogError as error:
                    _say(f"a commit failed: {error}")
                    failed += 1
                    old.producer.abort_transaction()
        finally:
            if watch is not None:
                watch.kill()
                watch.wait()
    return [
        Row(
            "commit with maintenance all the time, and without", _against(turns[True], turns[False]), "1.1 ×"
        ),
        Row("commits that failed", f"{failed} of {10 * 300}", "0"),
    ]


def _page(results: list[Row], chosen: argparse.Namespace, load: tuple[float, float, float]) -> str:
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores ({platform.machine()})"
    intro = (
        f"A log of {chosen.transactions} transactions of {chosen.rows} records each, all to one partition, against a "
        f"log of {YOUNG} and against the same records in one batch. Written by `scripts/bench-growth`; the limits are "
        "aims, no test asserts them. Times are by the clock, and of the processor: where other programs run too, "
        "compare processor times."
    )
    busy = ", ".join(f"{one:.1f}" for one in load)
    lines = [
        "# Growth",
        "",
        intro,
        "",
        f"* Command: `scripts/bench-growth --transactions {chosen.transactions} --rows {chosen.rows}`",
        f"* Machine: {machine}, Python {platform.python_version()}; the log in {_place(chosen.folder)}",
        f"* Load averages at the beginning (1, 5, 15 min; {os.cpu_count()} keep the machine busy): {busy}",
        "",
        "| what | measured | at most / at least |",
        "|---|---|---|",
        *(f"| {row.what} | {row.value} | {row.limit} |" for row in results),
        "",
    ]
    return "\n".join(lines)


def _place(folder: Path) -> str:
    """The kind of file system that a folder lies on, by its mount point."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [one for one in mounts if folder.resolve().is_relative_to(one[1])]
    return f"a folder on {max(holding, key=lambda one: len(one[1]))[2]}"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Run it all and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=10, help="records in each (default 10)")
    parser.add_argument("--folder", type=Path, help="where the logs are made (default: a temporary folder)")
    parser.add_argument("--write", type=Path, help="the page to write (default: print it)")
    parser.add_argument(
        "--again", type=Path, metavar="KEPT", help="measure logs that a run with --keep has left"
    )
    parser.add_argument("--keep", action="store_true", help="leave the logs there")
    chosen = parser.parse_args()
    load = os.getloadavg()
    again = chosen.again
    chosen.folder = again or Path(tempfile.mkdtemp(prefix="growth-", dir=chosen.folder))
    young = str(chosen.folder / "young")
    try:
        if again is None:
            log = _writer(young)
            for _ in range(YOUNG):
                log.commit(chosen.rows)
            took, follower, old = grow(chosen.folder, chosen.transactions, chosen.rows)
        else:
            took, follower, old = grown(again)
        _say("commits")
        results = [
            *commits(took, old, chosen.folder, chosen.rows),
            *memory(follower, chosen.transactions),
        ]
        _say("probes")
        results += probes(old.url, young, chosen.rows)
        before_a_snapshot(old, chosen.rows)
        results += probes(old.url, young, chosen.rows)
        _say("storage and maintenance")
        results += storage(old, chosen.folder, chosen.rows)
        results += beside_maintenance(old, chosen.rows)
        page = _page(results, chosen, load)
        print(page)
        if chosen.write is not None:
            chosen.write.write_text(page)
    finally:
        if chosen.keep or again is not None:
            _say(f"kept: {chosen.folder}")
        else:
            shutil.rmtree(chosen.folder)


if __name__ == "__main__":
    main()
