"""A transaction over two logs: the log of the exploration follows a second one, which is in the same store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import FatalError, RetriableError
from spark_eos.extensions.several_logs.producer import MultiLogProducer
from spark_eos.log.deciding.following import follow
from spark_eos.log.log import Log
from spark_eos.protocol.actions import EndTransaction
from spark_eos.protocol.state import EMPTY, State
from spark_eos.protocol.types import ProducerStamp
from verification.explorer.actor import ALONE, COMMITTED, REFUSED, UNKNOWN, Actor, FrozenClock
from verification.explorer.actor_programs import TOPIC
from verification.explorer.history import Chain
from verification.explorer.state_fingerprint import Position
from verification.part_store import PartStore
from verification.retiring import RETIRED_AT_ONCE

__all__ = ["as_the_other_log_decided", "coordinator", "helper", "prepared_in_both"]

_STAMP = ProducerStamp(0, 0, 0)
_REQUEST = b"the end of both."
_DECIDED = "decided"


class _Second:
    """The second log as it was when everything began: no step to read it."""

    state: State = EMPTY


class _Died(BaseException):
    pass


def prepared_in_both(log: Log) -> None:
    """A coordinator has prepared the follower, and named it in the deciding log."""
    second = Log.create(
        PartStore(log.store), FrozenClock("second"), snapshot_interval=1000, config=RETIRED_AT_ONCE
    )
    settings = {"transactional.id": "both", "transaction.timeout.ms": 1000}
    group = MultiLogProducer(Producer(second, settings), Producer(log, settings))
    group.init_transactions()
    group.begin_transaction()
    decider, follower = group._producers  # noqa: SLF001  (it is left there, as by a death)
    follower.send(TOPIC, "both", partition=0)
    decider.send(TOPIC, "both", partition=0)
    decider.flush()
    group._decider.commit = _die  # type: ignore[method-assign]  # noqa: SLF001
    try:
        group.commit_transaction()
    except _Died:
        _Second.state = second.follow()


def _die() -> None:
    raise _Died


def _second(actor: Actor) -> Log:
    return Log(PartStore(actor.store), actor.clock, state=_Second.state, environment=ALONE)


def coordinator(actor: Actor) -> None:
    """Goes on with the decision, then with the follower. It repeats what is in doubt."""
    log, second = actor.open(), _second(actor)
    producer = log.state.producers[0]
    assert producer.follows is not None
    actor.note("the commit", UNKNOWN)
    try:
        actor.patiently(
            lambda: second.commit(lambda _: (EndTransaction(_STAMP, commit=True),), request_id=_REQUEST)
        )
    except FatalError:
        actor.note("the commit", REFUSED)
        return
    except RetriableError:
        return
    actor.note("the commit", COMMITTED)
    with suppress(RetriableError):  # Others do it.
        follow(log.commit, producer, producer.follows, commit=True)


def helper(actor: Actor) -> None:
    """A reader of the follower: it asks the deciding log, and ends what is decided."""
    log, second = actor.open(), _second(actor)
    log.register_decider(second)
    try:
        actor.patiently(log.resolve_followers)
    except RetriableError:
        return
    decision = second.state.producers[0].decision
    if decision is not None and decision.committed is not None:
        actor.note(_DECIDED, COMMITTED if decision.committed else REFUSED)


def as_the_other_log_decided(actors: Sequence[Position], chain: Chain) -> Iterator[str]:
    """The follower stays prepared, or ends as every actor was told that it was decided; and all were told the same."""
    prepared = chain.state.producers[0].prepared
    committed = None if prepared is None else prepared.committed
    told = {actor.told.get(name) for actor in actors for name in ("the commit", _DECIDED)}
    told -= {None, UNKNOWN}
    if len(told) > 1:
        yield "the transaction was decided both ways"
    for one in told:
        if committed is not None and committed is not (one == COMMITTED):
            yield f"the follower is committed={committed}, and the decision was {one}"
