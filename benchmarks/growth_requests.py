"""What one request costs that names very many partitions: the limits of a topic's size.

``python -m benchmarks.growth_requests [--partitions 100000]`` prints a table. Nothing is written to a store: these are
the costs of the processor, which every process that follows the log pays, and the bytes of the entry.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from spark_eos.log.gc_pause import paused
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.rules.apply import Accepted, apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp, StagedFile, TopicPartition
from spark_eos.spark.sink.checkpoint import SourceRange
from spark_eos.spark.sink.source_progress import source_progress
from spark_eos.spark.source.offsets import SourceOffset

NOW_MS = 1_700_000_000_000
NEXT = "data/t/00000000000000000003-y.arrow"
T = TypeVar("T")


def request(state: State, *actions: a.Action) -> a.Request:
    """As a client makes it."""
    return a.Request(state.seq.to_bytes(16, "big", signed=True), NOW_MS + state.seq, actions, "benchmark")


class Cost:
    """One entry, from what was wanted to the state after it, in seconds."""

    def __init__(self, state: State, *actions: a.Action) -> None:
        entry = a.Entry(state.seq + 1, (request(state, *actions),), state.lineage)
        self.encode_s, data = timed(lambda: encode_entry(entry))
        self.size = len(data)
        self.decode_s, again = timed(lambda: decode_entry(data, entry.seq, "entry"))
        self.apply_s, (self.state, (outcome,)) = timed(lambda: apply_entry(state, again))
        if not isinstance(outcome, Accepted):
            raise outcome.error

    def line(self, what: str) -> str:
        """A line of the table."""
        cells = (f"{one:.2f} s" for one in (self.encode_s, self.decode_s, self.apply_s))
        return f"| {what} | {self.size / 1e6:.2f} MB | {' | '.join(cells)} |\n"


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and what came of it."""
    begun = time.process_time()
    with paused(when=True):  # As the log does for so many values.
        found = work()
    return time.process_time() - begun, found


def positions(count: int, offset: int) -> SourceOffset:
    """All partitions at one offset, as the source says it."""
    at = {TopicPartition("t", part): offset for part in range(count)}
    return SourceOffset("log", {"t": "t-id"}, at, dict.fromkeys(at, 0), "earliest")


def micro_batch(count: int, number: int) -> MicroBatch:
    """The micro-batch that reads ten records of each partition."""
    import json

    texts = [
        json.dumps(positions(count, offset).to_json_dict()) for offset in (10 * number, 10 * number + 10)
    ]
    source = SourceRange(None, texts[0] if number else None, texts[1])
    sources = source_progress([source], log_id="log", group=None, default_group="g")
    return MicroBatch("q", "query", "run", number, sources, (), ())


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    count = parser.parse_args().partitions
    state = Cost(EMPTY, a.CreateLog("log"), a.CreateTopic("t", "t-id", count)).state
    state = Cost(state, a.InitProducer(0, 0, None, 0, None)).state
    batches = tuple(
        BatchRef(part, 100, 600 * part, 600, part * 7919, NOW_MS, NOW_MS, 0) for part in range(count)
    )
    file = FileRef("data/t/00000000000000000001-x.arrow", 600 * count + 1000, 0)
    append = a.AppendBatches(ProducerStamp(0, 0, -1), (("t", "t-id"),), (StagedFile("t", file, batches),))
    appended = Cost(state, append)
    state, lines = appended.state, [appended.line("append to each partition")]
    state = Cost(state, a.InitProducer(1, 0, "transaction", 60_000)).state
    stamp = ProducerStamp(1, 0, 0)
    within = append._replace(producer=stamp, files=(append.files[0]._replace(file=file._replace(name=NEXT)),))
    transaction = Cost(state, within, a.EndTransaction(stamp, commit=True))
    state = transaction.state
    lines.append(transaction.line("transaction in each partition, with its end"))
    state = Cost(state, *propose(state, micro_batch(count, 0), finished=False)).state
    batch = micro_batch(count, 1)
    proposed_s, actions = timed(partial(propose, state, batch, finished=False))
    cost = Cost(state, *actions)
    lines.append(cost.line(f"micro-batch that reads each (proposed in {proposed_s:.2f} s)"))
    state = cost.state
    offsets = tuple(a.PartitionOffset("t", "t-id", part, 20) for part in range(count))
    committed = Cost(state, a.CommitOffsets("h", offsets))
    lines.append(committed.line("offsets of each, committed"))
    state = committed.state
    encode_s, data = timed(partial(encode_snapshot, state))
    decode_s, _ = timed(partial(decode_snapshot, data, state.seq, "snapshot"))
    lines.append(
        f"| the snapshot after them | {len(data) / 1e6:.2f} MB | {encode_s:.2f} s | {decode_s:.2f} s | |\n"
    )
    sys.stdout.write(
        f"A topic of {count} partitions\n\n| what | bytes | encoded | decoded | applied |\n|---|---|---|---|---|\n"
        + "".join(lines)
    )


if __name__ == "__main__":
    main()
