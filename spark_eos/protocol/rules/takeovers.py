"""What the trail says of producers that have lost their id to another one: zombies, if they still run. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_eos.protocol.state import Producer, State
from spark_eos.protocol.types import ProducerStamp, TrailNote

FENCED, TIMED_OUT = "producer fenced", "transaction timed out"
"""These had a transaction open, which was aborted."""

TAKEN_OVER = "producer taken over"
"""This one had nothing open: a program may have ended, and was started again."""


def taken_over(before: State, after: State, action: Any, _writer: str) -> Iterator[TrailNote]:
    """An `InitProducer` gives a producer id its next epoch, if it had one before."""
    earlier, producer = before.producers.get(action.producer_id), after.producers.get(action.producer_id)
    if earlier is None or producer is None:
        return
    by = f"by query run {action.run_id}" if action.run_id else "by another producer, or an abort"
    if earlier.is_open and not producer.is_open:
        text = f"epoch {earlier.epoch} {by}; its transaction {earlier.number} is aborted"
        yield TrailNote(FENCED, _name(earlier), text)
    else:
        yield TrailNote(TAKEN_OVER, _name(earlier), f"epoch {earlier.epoch} {by}; it had nothing open")


def timed_out(before: State, stamp: ProducerStamp) -> Iterator[TrailNote]:
    """A transaction was open for too long."""
    producer = before.producers.get(stamp.producer_id)
    if producer is not None:
        text = f"transaction {stamp.number} of epoch {stamp.epoch} is aborted, its producer is fenced"
        yield TrailNote(TIMED_OUT, _name(producer), text)


def _name(producer: Producer) -> str:
    return producer.transactional_id or f"producer {producer.producer_id}"
