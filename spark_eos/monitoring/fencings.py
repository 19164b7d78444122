"""When producers were fenced, and by whom: a fenced producer that still runs is a zombie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Entry, ExpireTransaction, InitProducer, Request
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.state import State

__all__ = ["Fence", "Fencing", "fences", "fencings"]


class Fence(NamedTuple):
    """What a request does to a producer: all epochs before ``epoch`` are fenced."""

    producer_id: int
    epoch: int
    why: str


class Fencing(NamedTuple):
    """A producer was fenced: by which entry, at which time, by which writer (its ``client.id``).

    ``epoch`` is the new one: what has a smaller one is refused since.
    """

    entry: int
    timestamp_ms: int
    transactional_id: str | None
    producer_id: int
    epoch: int
    writer: str
    why: str


def fences(request: Request) -> Iterator[Fence]:
    """The producers that a request fences, if it is accepted. Pure."""
    for action in request.actions:
        if isinstance(action, InitProducer) and action.epoch > 0:
            why = (
                f"query run {action.run_id} began"
                if action.run_id
                else "another producer took over, or an abort"
            )
            yield Fence(action.producer_id, action.epoch, why)
        elif isinstance(action, ExpireTransaction):
            stamp = action.producer
            yield Fence(stamp.producer_id, stamp.epoch + 1, f"transaction {stamp.number} timed out")


def fencings(log: Log, first: int, last: int) -> Iterator[Fencing]:
    """What was fenced in entries ``first`` to ``last``, oldest first. It reads each of them; retired ones have nothing.

    An epoch is given once, so the first request that brings it is the one that was accepted.
    """
    state, seen = log.state, set[tuple[int, int]]()
    for seq in range(first, last + 1):
        entry = _read(log, state, seq)
        for request in () if entry is None else entry.requests:
            for one in fences(request):
                producer = state.producers.get(one.producer_id)
                if (one.producer_id, one.epoch) in seen or producer is None or one.epoch > producer.epoch:
                    continue
                seen.add((one.producer_id, one.epoch))
                yield Fencing(
                    seq,
                    request.timestamp_ms,
                    producer.transactional_id,
                    one.producer_id,
                    one.epoch,
                    request.writer,
                    one.why,
                )


def _read(log: Log, state: State, seq: int) -> Entry | None:
    name = paths.entry(seq, state.entries_per_folder)
    try:
        data = log.store.read(name)
        return decode_entry(data, seq, f"{log.url}/{name}") if data.size else None
    except (ObjectNotFoundError, CorruptRecordError):
        return None  # `eoslog verify` tells what is damaged.
