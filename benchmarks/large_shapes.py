"""What a log of a large shape costs a process.

``python -m benchmarks.large_shapes SHAPE SIZE FOLDER`` prints it as JSON.

Each shape in a process of its own, since memory is measured. The log is in memory: these are the costs of the
processor and of memory, without waits for a disk or a network.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from benchmarks.growth_requests import NOW_MS
from benchmarks.long_log import written
from benchmarks.rows import table
from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.config.isolation import Isolation
from spark_eos.log import paths
from spark_eos.log.data.planner import plan
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.encoding.snapshots import encode_snapshot
from spark_eos.protocol.rules.apply import Accepted, apply_entry
from spark_eos.protocol.state import State
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, ProducerStamp, StagedFile
from spark_eos.spark.sink.checkpoint import SourceRange
from spark_eos.spark.sink.source_progress import source_progress
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.storage import MemoryStore, Store

__all__ = ["MEMORY_MB", "ROWS", "SHAPES", "SNAPSHOT_MB", "measured", "written_rows"]

T = TypeVar("T")

ROWS = "megabytes of rows in one transaction"
SNAPSHOT_MB, MEMORY_MB = "snapshot, MB", "memory, MB"

ROUNDS = 30
"""How often what is quick is measured; the median counts."""

_OF_ONE_ENTRY = 500
"""Producers, groups and queries that one entry makes."""

_TOPIC, _ID = "t", "00000000-0000-4000-8000-000000000000"
_READ = 10
"""Partitions that a producer, a group or a query has something of."""

_PLANNED = 10
"""Offsets of a plan: the newest."""


class Written:
    """A log that is made entry by entry, as quickly as entries can be encoded, with one snapshot at its end."""

    def __init__(self, partitions: int) -> None:
        self.store = MemoryStore()
        Log.create(self.store)
        self.state = Log.open(self.store).state
        self.add(a.CreateTopic(_TOPIC, _ID, partitions))

    def add(self, *actions: a.Action) -> None:
        """One entry."""
        seq = self.state.seq + 1
        request = a.Request(seq.to_bytes(16, "big"), NOW_MS + seq, actions, "benchmark")
        entry = a.Entry(seq, (request,), self.state.lineage, self.state.rules)
        self.state, (outcome,) = apply_entry(self.state, entry)
        if not isinstance(outcome, Accepted):
            raise outcome.error
        self.store.create(paths.entry(seq, self.state.entries_per_folder), encode_entry(entry))

    def finish(self) -> Store:
        """With the snapshot."""
        self.store.create(paths.snapshot(self.state.seq), encode_snapshot(self.state))
        return self.store


def _partitions(size: int) -> Store:
    """A topic of so many partitions with a batch in each."""
    log = Written(size)
    log.add(_append(log.state, NO_PRODUCER, range(size)))
    return log.finish()


def _transactional_ids(size: int) -> Store:
    """So many producers, each of which has committed a transaction in ten partitions."""
    log = Written(100)
    for numbers in _portions(size):
        actions: list[a.Action] = []
        for number in numbers:
            stamp = ProducerStamp(number, 0, 0)
            actions += (
                a.InitProducer(number, 0, f"tx-{number:06}", 60_000),
                _append(log.state, stamp, [(number + at) % 100 for at in range(_READ)]),
                a.EndTransaction(stamp, commit=True),
            )
        log.add(*actions)
    return log.finish()


def _groups(size: int) -> Store:
    """So many groups with offsets of ten partitions each."""
    log = Written(100)
    for numbers in _portions(size):
        log.add(
            *(
                a.CommitOffsets(
                    f"group-{number:06}",
                    tuple(a.PartitionOffset(_TOPIC, _ID, (number + at) % 100, 0) for at in range(_READ)),
                )
                for number in numbers
            )
        )
    return log.finish()


def _queries(size: int) -> Store:
    """So many Spark queries that read ten partitions each."""
    log = Written(100)
    log_id = Log.open(log.store).state.log_id
    for numbers in _portions(size):
        for number in numbers:
            at = {TopicPartition(_TOPIC, part): 0 for part in range(_READ)}
            offset = SourceOffset(log_id, {_TOPIC: _ID}, at, dict.fromkeys(at, 0), "earliest")
            text = json.dumps(offset.to_json_dict())
            sources = source_progress(
                [SourceRange(None, None, text)], log_id=log_id, group=None, default_group="g"
            )
            batch = MicroBatch(f"query-{number}", f"query-{number}", f"run-{number}", 0, sources, (), ())
            log.add(*propose(log.state, batch, finished=False))
    return log.finish()


def _entries(size: int) -> Store:
    """So many entries, none of them retired."""
    return written(size, partitions=1)


SHAPES: dict[str, Callable[[int], Store]] = {
    "partitions": _partitions,
    "transactional ids": _transactional_ids,
    "groups": _groups,
    "queries": _queries,
    "entries": _entries,
}


def _portions(size: int) -> Iterator[range]:
    return (range(low, min(low + _OF_ONE_ENTRY, size)) for low in range(0, size, _OF_ONE_ENTRY))


def _append(state: State, stamp: ProducerStamp, partitions: Iterable[int]) -> a.AppendBatches:
    sequence = -1 if stamp == NO_PRODUCER else 0
    batches = tuple(
        BatchRef(part, 1, 600 * at, 600, part * 7919, NOW_MS, NOW_MS, sequence)
        for at, part in enumerate(partitions)
    )
    name = f"data/t/{state.seq:020}-{stamp.producer_id}.arrow"
    return a.AppendBatches(
        stamp, ((_TOPIC, _ID),), (StagedFile(_TOPIC, FileRef(name, 600 * len(batches) + 1000, 0), batches),)
    )


def measured(shape: str, size: int) -> dict[str, float]:
    """Milliseconds of the processor for a commit, a poll, a plan and a cold open; megabytes of the state in memory."""
    store = SHAPES[shape](size)
    gc.collect()
    before = _resident_mb()
    opened, log = _timed(lambda: Log.open(store))
    memory = _resident_mb() - before
    other = Log.open(store)  # Of a process beside it, whose commits are polled.
    topic, name = next((topic, name) for name, topic in log.state.topics.items())

    def commit(on: Log) -> None:
        on.commit(lambda _: (a.CommitOffsets("measured", (a.PartitionOffset(name, topic.topic_id, 0, 0),)),))

    commits = [_timed(lambda: commit(log))[0] for _ in range(ROUNDS)]
    polls = []
    for _ in range(ROUNDS):
        commit(other)
        polls.append(_timed(log.follow)[0])
    at = TopicPartition(name, 0)
    partition = log.state.partitions[topic.topic_id, 0]
    end = partition.last_stable_offset
    begin = max(partition.start, end - _PLANNED)
    plans = [
        _timed(lambda: plan(log.state, at, begin, end, Isolation.READ_COMMITTED, log.load))[0]
        for _ in range(ROUNDS)
    ]
    encoded, data = _timed(lambda: encode_snapshot(log.state))
    return {
        "commit": statistics.median(commits),
        "poll": statistics.median(polls),
        "plan": statistics.median(plans),
        "cold open": opened,
        "snapshot": encoded,
        SNAPSHOT_MB: len(data) / 1e6,
        MEMORY_MB: max(memory, 0.0),
    }


def written_rows(megabytes: int, folder: Path) -> dict[str, float]:
    """One transaction with so many megabytes of rows, in a folder."""
    url = str(folder / f"log-{megabytes}")
    Admin(Log.create(url)).create_topic(_TOPIC, 8)
    before = _peak_mb()
    rows = table(1 << 13, 100, keyed=True)
    with Producer(url, transactional_id="rows") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        began, sent = time.process_time(), 0
        while sent < megabytes << 20:
            producer.send_arrow(_TOPIC, rows)
            sent += rows.nbytes
        producer.flush()
        written = time.process_time() - began
        ended, _ = _timed(producer.commit_transaction)
    return {
        "commit": ended,
        "write, a megabyte": written * 1000 / megabytes,
        MEMORY_MB: _peak_mb() - before,
    }


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    found = work()
    return (time.process_time() - began) * 1000, found


def _resident_mb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure one shape of one size."""
    shape, size, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    found = written_rows(size, folder) if shape == ROWS else measured(shape, size)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
