"""A producer's session in the log: its id and epoch, and the sequence numbers it has come to."""

from __future__ import annotations

from collections.abc import Mapping

from spark_eos.log.commit.loop import Committed
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, InitProducer
from spark_eos.protocol.actions.producers import next_sequence
from spark_eos.protocol.state import PartitionKey, State
from spark_eos.protocol.types import BatchRef, ProducerStamp, StagedFile

_SEQUENCES = 2**31


class ProducerSession:
    """A producer id at an epoch, and the next sequence number of each partition it wrote to.

    The numbers are fixed when a request is made, not when it is tried, so that one that is tried twice is
    recognised as the same.
    """

    def __init__(self, stamp: ProducerStamp, state: State) -> None:
        self.stamp = stamp
        self._sequences: Mapping[PartitionKey, tuple[int, ...]] = {}
        self.learn(state)

    def learn(self, state: State) -> None:
        """Take the numbers over from a state in which all requests of this producer are decided.

        They are looked at only where they are needed: a producer may have written to 100,000 partitions.
        """
        producer = state.producers.get(self.stamp.producer_id)
        if producer is not None and producer.epoch == self.stamp.epoch:
            self._sequences = producer.sequences

    def number(self, files: tuple[StagedFile, ...], topic_ids: Mapping[str, str]) -> tuple[StagedFile, ...]:
        """The files, with the sequence numbers that come next."""
        next_sequences: dict[PartitionKey, int] = {}
        numbered = []
        for staged in files:
            batches = []
            for batch in staged.batches:
                key = (topic_ids[staged.topic], batch.partition)
                first = next_sequences.get(key)
                if first is None:
                    first = next_sequence(self._sequences.get(key, ()), self.stamp.epoch)
                next_sequences[key] = (first + batch.count) % _SEQUENCES
                batches.append(BatchRef(*batch[:-1], first))
            numbered.append(staged._replace(batches=tuple(batches)))
        return tuple(numbered)


def init_producer_id(
    log: Log,
    transactional_id: str | None,
    timeout_ms: int,
    *,
    writer: str,
    request_id: bytes,
    keep_prepared: bool = False,
) -> Committed:
    """A new producer id, or the next epoch of the one of ``transactional_id``: older epochs are fenced.

    What the epoch before left open is aborted; with ``keep_prepared`` not if it is prepared.
    """

    def propose(state: State) -> tuple[Action, ...]:
        producer = None if transactional_id is None else state.producer_of(transactional_id)
        if producer is None:
            return (InitProducer(state.next_producer_id, 0, transactional_id, timeout_ms),)
        epoch = producer.epoch + 1
        return (
            InitProducer(
                producer.producer_id, epoch, transactional_id, timeout_ms, keep_prepared=keep_prepared
            ),
        )

    return log.commit(propose, writer=writer, request_id=request_id)
