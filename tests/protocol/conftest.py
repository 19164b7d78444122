"""A log in memory, whose every step is checked: what is rejected changes nothing, and the invariants hold."""

from __future__ import annotations

import pytest

from spark_eos.protocol.actions import (
    AppendBatches,
    CreateLog,
    CreateTopic,
    EndTransaction,
    Entry,
    InitProducer,
    PartitionOffset,
    Request,
)
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.invariants import check_step
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import Rejected, apply_entry
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_SEQUENCE, BatchRef, FileRef, ProducerStamp, StagedFile


class Log:
    """Entries of one request each. `do` raises what a request is rejected with."""

    def __init__(self):
        self.state = EMPTY
        self.now = 1000

    def do(self, *actions, writer="test"):
        entry = Entry(
            self.state.seq + 1, (Request(bytes(16), self.now, actions, writer, clock_checked=True),)
        )
        entry = decode_entry(encode_entry(entry), entry.seq, "entry")
        before = self.state
        self.state, (outcome,) = apply_entry(before, entry)
        check_step(before, self.state, len(actions))
        if isinstance(outcome, Rejected):
            assert self.state == replace(
                before, seq=entry.seq, lineage=self.state.lineage, lineages=self.state.lineages
            )
            self.state = before
            raise outcome.error
        return outcome.results

    def topic(self, name="t", partitions=2, topic_id=None, **kwargs):
        self.do(CreateTopic(name, topic_id or f"{name}-id", partitions, **kwargs))
        return self

    def init(self, transactional_id="tx", run_id=None, timeout_ms=1000, keep_prepared=False):
        known = self.state.producer_of(transactional_id) if transactional_id is not None else None
        taken = (self.state.next_producer_id, 0) if known is None else (known.producer_id, known.epoch + 1)
        (stamp,) = self.do(InitProducer(*taken, transactional_id, timeout_ms, run_id, keep_prepared))
        return stamp

    def append(self, stamp, *batches, **kwargs):
        (appended,) = self.do(self.appending(stamp, *batches, **kwargs))
        return appended

    def end(self, stamp, commit=True):
        self.do(EndTransaction(stamp, commit))

    @staticmethod
    def appending(stamp, *batches, topic="t", topic_id=None, base=0, version=0, size=10_000):
        """Each batch: (partition, count[, base sequence])."""
        refs = tuple(
            BatchRef(p, n, 0, 100, 7, 1, 2, *(sequence or (NO_SEQUENCE,))) for p, n, *sequence in batches
        )
        staged = StagedFile(topic, FileRef(f"data/{topic}/{base}-x.arrow", size, version), refs)
        return AppendBatches(stamp, ((topic, topic_id or f"{topic}-id"),), (staged,))

    @staticmethod
    def at(offset, partition=0, topic="t", topic_id=None, metadata=""):
        return PartitionOffset(topic, topic_id or f"{topic}-id", partition, offset, metadata)

    @staticmethod
    def next(stamp, by=1):
        return ProducerStamp(stamp.producer_id, stamp.epoch, stamp.number + by)

    def partition(self, number=0, topic="t"):
        return self.state.partitions[self.state.topics[topic].topic_id, number]

    def group(self, name="g"):
        return {key: at.offset for key, at in self.state.offsets.get(name, {}).items()}


@pytest.fixture
def empty():
    return Log()


@pytest.fixture
def log(empty):
    """A log with the topic ``t`` of two partitions."""
    empty.do(CreateLog("log"))
    return empty.topic()
