"""A log as its readers see it, on the driver, which plans all reads: transactions that other logs decide have ended."""

from __future__ import annotations

from spark_eos.log.log import Log
from spark_eos.protocol.state import Partition


def as_readers_see(log: Log) -> Log:
    """The log, after what is overdue or decided has been ended; a handle for reading if that could not be written."""
    state = log.end_overdue()  # Readers wait for open transactions.
    view = log.as_decided(state)
    return log if view is state else Log(log.store, log.clock, state=view)


def held_by_another_log(log: Log, partition: Partition) -> str | None:
    """Why a transaction that another log decides is open in the partition; None if there is none."""
    producers = [log.state.producers[number] for number in partition.open]
    if not any(producer.follows is not None for producer in producers):
        return None
    waiting = log.resolve_followers()
    return next(
        (waiting[producer.producer_id] for producer in producers if producer.producer_id in waiting), None
    )
