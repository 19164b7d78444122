"""Runs of a query: what a driver does with its batches, its checkpoint being in the same store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from spark_eos.errors import (
    CheckpointMismatchError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    ObjectExistsError,
    ObjectNotFoundError,
    RetriableError,
    StorageError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, PartitionOffset, SourceProgress
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.state import State
from verification.explorer.actor import COMMITTED, REFUSED, UNKNOWN, Actor, Body
from verification.explorer.actor_programs import GROUP, ID, SOURCE, TOPIC, staged

__all__ = ["run"]

_CHECKPOINT = "checkpoint/commits/"


def run(*batches: tuple[int, int, int]) -> Body:
    """A run of a query: batches (number, start, end) from its checkpoint on, as a driver commits them.

    Every life is a run of its own. A batch that is noted as done in the checkpoint is not run again.
    """

    def body(actor: Actor) -> None:
        log = actor.open()
        try:
            for number, start, end in batches:
                if not _is_noted(actor, number):
                    _batch(actor, log, number, start, end)
        except (FatalError, CheckpointMismatchError, RetriableError, StorageError):
            return  # The query ends; Spark or a person starts it again.

    return body


def _batch(actor: Actor, log: Log, number: int, start: int, end: int) -> None:
    topic = log.topic(TOPIC)
    name = f"value {number}:{start}-{end} by {actor.name}{actor.life}"
    log.follow()
    files = staged(log, name.removeprefix("value "))
    at = PartitionOffset(SOURCE, log.topic(SOURCE).topic_id, 0, start)
    places = ((at,), (at._replace(offset=end),))
    source = SourceProgress(str(start), str(end), GROUP, *places)
    batch = MicroBatch(
        ID, "query", f"{actor.name}{actor.life}", number, (source,), ((TOPIC, topic.topic_id),), files
    )
    actor.note(name, UNKNOWN)

    def wanted(state: State) -> Sequence[Action]:
        return propose(state, batch, finished=_is_noted(actor, number))

    try:
        committed = log.commit(wanted, writer=actor.name)
    except CommitOutcomeUnknownError:
        raise
    except EosLogError:
        actor.note(name, REFUSED)
        raise
    if not any(
        isinstance(one, tuple) and one and hasattr(one[0], "base_offset") for one in committed.results
    ):
        actor.note(name, REFUSED)  # The batch is in the log, with another run's rows.
    else:
        actor.note(name, COMMITTED)
    actor.told[f"batch {number} {start} {end}"] = COMMITTED
    with suppress(ObjectExistsError):
        actor.store.create(f"{_CHECKPOINT}{number}", b"v1\n{}")


def _is_noted(actor: Actor, number: int) -> bool:
    try:
        actor.store.size(f"{_CHECKPOINT}{number}")
    except ObjectNotFoundError:
        return False
    return True
